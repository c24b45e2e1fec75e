"""Durable chats, as a program has them: begin one, find one, list them."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.agent import Agent
from holdfast.chat import queries
from holdfast.chat.claims import Living, living
from holdfast.chat.errors import InvalidInput
from holdfast.chat.export import parse
from holdfast.chat.family import NewChat
from holdfast.chat.feed import Feed
from holdfast.chat.handle import Chat, Desk, check_limit, key_of, labels_of, title_of
from holdfast.chat.view import Snapshot, snapshots
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.messages import Prompt, user_message
from holdfast.kernel.model import Effort
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
        given = parse(text)
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
        return Chat(
            self._desk,
            await self._desk.machine.restore(
                new, given.messages, key_of(owner, key, "restore", (agent, text))
            ),
        )

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

        async def read(tx: Tx) -> tuple[Snapshot, ...]:
            rows = await queries.list_chats(
                tx, owner=owner, parent=parent, archived=archived, before=before, limit=limit
            )
            return tuple(await snapshots(tx, rows, self._desk.feed.watch))

        return await self._desk.db.read(read)


def _owner(owner: object) -> str:
    if not isinstance(owner, str):
        raise InvalidInput(f"owner is {owner!r}: use text, or leave it out")
    return owner
