"""The host: creates, finds, lists and restores durable chats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from msgspec import Struct, structs

from holdfast.agent import Agent
from holdfast.chat import queries
from holdfast.chat.change_feed import Feed
from holdfast.chat.errors import ChatNotFound, InvalidInput
from holdfast.chat.export import Attached, Exported, parse
from holdfast.chat.files import SCHEME, add_file, refs_in, renamed
from holdfast.chat.handle import Chat, Desk, check_limit, key_of, labels_of, title_of
from holdfast.chat.idempotency import Key, once
from holdfast.chat.rows import Chat as Row
from holdfast.chat.rows import Stored, can_hold, check_text
from holdfast.chat.snapshots import Snapshot, snapshots
from holdfast.chat.transitions import lifecycle
from holdfast.chat.transitions.claims import Living, living
from holdfast.chat.transitions.lifecycle import NewChat
from holdfast.kernel.errors import ConfigError, FormatError
from holdfast.kernel.messages import Prompt, user_message
from holdfast.kernel.model import Effort
from holdfast.kernel.ports import Ports
from holdfast.store.database import Tx


class Host:
    """Durable chats of a database: create, find, list, restore. Made by `holdfast.open`."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    @property
    def agents(self) -> Mapping[str, Agent]:
        """The agents by name."""
        return self._desk.agents

    @property
    def feed(self) -> Feed:
        """The feed that distributes changes of chats in this process."""
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
        """Create a chat; without a prompt it waits for its first message.

        `agent` is the name of an agent, the first by default. With a `key` the chat is created
        once, however often this is called: the same key of the same owner returns the same chat.
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
        """Create a chat with the messages of a JSONL export.

        `agent` defaults to the agent of the exported chat. Approval rules are not restored; a model
        that is not available here is replaced by the agent's own. Raises `FormatError`.
        """
        in_thread = self._desk.ports.in_thread
        named = partial(key_of, owner, key, "restore", (agent, text))
        given = await in_thread(partial(parse, text))
        return await self.adopt(given, await in_thread(named), agent=agent, owner=owner)

    async def adopt(
        self,
        given: Exported,
        key: Key | None = None,
        *,
        agent: str | None = None,
        owner: str = "",
        quota: int | None = None,
    ) -> Chat:
        """Create a chat from a parsed export, with its own copies of the files. `quota`: see
        `add_file`."""
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
        # In a thread: a large export takes a second.
        made = await self._desk.ports.in_thread(partial(_prepare, new.id, given, self._desk.ports))

        async def restore(tx: Tx) -> Row:
            for id, hash, file in made.files:
                await add_file(
                    tx, id, new.owner, hash, file.data, file.media_type, file.name, quota
                )
            return await lifecycle.restore_rows(tx, new, made.rows)

        return Chat(self._desk, await once(self._desk.db, key, Row, restore, makes=new.id))

    def _model_here(self, agent: str, model: str | None) -> str | None:
        try:
            self._desk.check_choice(agent, model, None)
        except ConfigError:
            return None
        return model

    def agent(self, name: str | None = None) -> Agent:
        """Return the agent of this name; the first agent when no name is given. Raises
        `ConfigError`."""
        return self._desk.agent(name)

    def check_choice(self, agent: str, model: str | None, effort: str | None) -> None:
        """Reject a model or an effort that the worker would only fail with. Raises
        `ConfigError`."""
        self._desk.check_choice(agent, model, effort)

    async def workers(self) -> Living:
        """Return the live workers and the agents that they have."""
        return await self._desk.db.read(lambda tx: living(tx, self._desk.feed.watch.lease))

    async def chat(self, id: str) -> Chat:
        """Return the chat of this id. Raises `ChatNotFound`."""
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
        """Return chats, newest first. `before` is the id of the last one seen."""
        check_limit(limit)
        for name, text in (("owner", owner), ("parent", parent), ("before", before)):
            check_text(name, text)

        async def read(tx: Tx) -> tuple[Snapshot, ...]:
            rows = await queries.list_chats(
                tx, owner=owner, parent=parent, archived=archived, before=before, limit=limit
            )
            return tuple(await snapshots(tx, rows, self._desk.feed.watch))

        return await self._desk.db.read(read)


class _Prepared(Struct, frozen=True):
    """An export converted to rows, ready to be written."""

    rows: lifecycle.Rows
    files: Sequence[tuple[str, str, Attached]]
    """New id, hash and contents of each file."""


def _prepare(chat_id: str, given: Exported, ports: Ports) -> _Prepared:
    from hashlib import sha256  # imports OpenSSL

    named = _names(given, ports)
    rows = lifecycle.rows_of(chat_id, _renamed(given.messages, named))
    files = [(named[file.id], sha256(file.data).hexdigest(), file) for file in given.files]
    return _Prepared(rows, files)


def _names(given: Exported, ports: Ports) -> dict[str, str]:
    """Map the files of an export to new ids. Each file must be named by a message, and occur
    once."""
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


def _renamed(messages: Sequence[Stored], named: Mapping[str, str]) -> Sequence[Stored]:
    if not named:
        return messages
    refs = {SCHEME + old: SCHEME + new for old, new in named.items()}
    said = renamed([stored.message for stored in messages], refs)
    return [structs.replace(one, message=it) for one, it in zip(messages, said, strict=True)]


def _owner(owner: object) -> str:
    if not isinstance(owner, str):
        raise InvalidInput(f"owner is {owner!r}: use text, or leave it out")
    return owner
