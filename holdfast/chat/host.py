"""Durable chats, as a program has them: begin one, find one, list them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import structs

from holdfast.agent import Agent
from holdfast.chat import family, queries
from holdfast.chat.claims import Living, living
from holdfast.chat.errors import ChatNotFound, InvalidInput
from holdfast.chat.export import Attached, Exported, parse
from holdfast.chat.family import NewChat
from holdfast.chat.feed import Feed
from holdfast.chat.files import SCHEME, add_file, refs_in, renamed
from holdfast.chat.handle import Chat, Desk, check_limit, key_of, labels_of, title_of
from holdfast.chat.machine import Key, once
from holdfast.chat.state import Chat as Row
from holdfast.chat.state import Stored, can_hold, check_text
from holdfast.chat.view import Snapshot, snapshots
from holdfast.kernel.errors import ConfigError, FormatError
from holdfast.kernel.messages import Prompt, user_message
from holdfast.kernel.model import Effort
from holdfast.kernel.ports import Ports
from holdfast.store.database import Tx


class Host:
    """Durable chats, as a program has them. Made by `holdfast.open`."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    @property
    def agents(self) -> Mapping[str, Agent]:
        """By name."""
        return self._desk.agents

    @property
    def feed(self) -> Feed:
        """Where whoever watches chats here hears of them."""
        return self._desk.feed

    async def create(
        self,
        prompt: Prompt | None,
        *,
        agent: str | None = None,
        title: str | None = None,
        labels: Mapping[str, str] | None = None,
        owner: str = "",
        model: str | None = None,
        effort: Effort | None = None,
        key: str | None = None,
    ) -> Chat:
        """Begin a chat; without a prompt it waits for its first message.

        `agent` is the name of one, the first by default. With a `key` it is begun once, however
        often this is called: the same key of the same owner gives the same chat.
        """
        name = self._desk.agent(agent).name
        self._desk.check_choice(name, model, effort)
        new = NewChat(
            id=self._desk.ports.new_id(),
            agent=name,
            message=None if prompt is None else user_message(prompt),
            owner=_owner(owner),
            title=title_of(title),
            labels=labels_of(labels or {}),
            model=model,
            effort=effort,
        )
        body = (new.agent, new.message, new.title, new.labels, model, effort)
        return Chat(
            self._desk, await self._desk.machine.create(new, key_of(owner, key, "create", body))
        )

    async def restore(
        self, text: str, *, agent: str | None = None, owner: str = "", key: str | None = None
    ) -> Chat:
        """A new chat with the messages of one that was exported as JSONL.

        `agent` goes on with it, the one that it had by default. What that chat was allowed to do is
        not kept; a model that cannot be had here is left to the agent. Raises `FormatError`.
        """
        key_of_it = key_of(owner, key, "restore", (agent, text))
        return await self.adopt(parse(text), key_of_it, agent=agent, owner=owner)

    async def adopt(
        self,
        given: Exported,
        key: Key | None = None,
        *,
        agent: str | None = None,
        owner: str = "",
        quota: int | None = None,
    ) -> Chat:
        """A new chat from an export, with files of its own. `quota`: see `add_file`."""
        name = self._desk.agent(given.chat.agent if agent is None else agent).name
        new = NewChat(
            id=self._desk.ports.new_id(),
            agent=name,
            message=None,
            owner=_owner(owner),
            title=given.chat.title,
            labels=labels_of(given.chat.labels),
            model=self._model_here(name, given.chat.model),
            effort=given.chat.effort,
        )
        self._desk.check_choice(name, None, new.effort)
        named = _names(given, self._desk.ports)

        async def restore(tx: Tx) -> Row:
            for file in given.files:
                await _keep(tx, named[file.id], new.owner, file, quota)
            return await family.restore(tx, new, _renamed(given.messages, named))

        return Chat(self._desk, await once(self._desk.db, key, Row, restore, makes=new.id))

    def _model_here(self, agent: str, model: str | None) -> str | None:
        try:
            self._desk.check_choice(agent, model, None)
        except ConfigError:
            return None
        return model

    def agent(self, name: str | None = None) -> Agent:
        """The agent of this name; the first when none is named. Raises `ConfigError`."""
        return self._desk.agent(name)

    def check_choice(self, agent: str, model: str | None, effort: str | None) -> None:
        """Refuse a model or an effort that the worker could only fail at. Raises `ConfigError`."""
        self._desk.check_choice(agent, model, effort)

    async def workers(self) -> Living:
        """Those that live, and the agents that they know."""
        return await self._desk.db.read(lambda tx: living(tx, self._desk.feed.watch.lease))

    async def chat(self, id: str) -> Chat:
        """The chat of this id. Raises `ChatNotFound`."""
        if not isinstance(id, str) or not can_hold(id):
            raise ChatNotFound(id)
        return Chat(self._desk, await self._desk.machine.read(id))

    async def list(
        self,
        *,
        owner: str | None = None,
        parent: str | None = None,
        archived: bool = False,
        before: str | None = None,
        limit: int = 100,
    ) -> tuple[Snapshot, ...]:
        """The newest chats first. `before` is the id of the last one seen."""
        check_limit(limit)
        for name, text in (("owner", owner), ("parent", parent), ("before", before)):
            check_text(name, text)

        async def read(tx: Tx) -> tuple[Snapshot, ...]:
            rows = await queries.list_chats(
                tx, owner=owner, parent=parent, archived=archived, before=before, limit=limit
            )
            return tuple(await snapshots(tx, rows, self._desk.feed.watch))

        return await self._desk.db.read(read)


def _names(given: Exported, ports: Ports) -> dict[str, str]:
    """New ids for the files of an export. Each has to be part of a message, and is there once."""
    said = refs_in(stored.message for stored in given.messages)
    for ref in said:
        check_text("id of a file", ref)
    named: dict[str, str] = {}
    for file in given.files:
        if file.id in named:
            raise FormatError(f"the file {file.id!r:.80} is in it twice")
        if SCHEME + file.id not in said:
            raise FormatError(f"no message refers to the file {file.id!r:.80}")
        named[file.id] = ports.new_id()
    return named


async def _keep(tx: Tx, id: str, owner: str, file: Attached, quota: int | None) -> None:
    from hashlib import sha256  # brings OpenSSL

    hash = sha256(file.data).hexdigest()
    await add_file(tx, id, owner, hash, file.data, file.media_type, file.name, quota)


def _renamed(messages: Sequence[Stored], named: Mapping[str, str]) -> list[Stored]:
    refs = {SCHEME + old: SCHEME + new for old, new in named.items()}
    said = renamed([stored.message for stored in messages], refs)
    return [structs.replace(one, message=it) for one, it in zip(messages, said, strict=True)]


def _owner(owner: object) -> str:
    if not isinstance(owner, str):
        raise InvalidInput(f"owner is {owner!r}: use text, or leave it out")
    return owner
