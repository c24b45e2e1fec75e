"""Durable chats inside your own process: a store, a worker, and a handle for each chat.

async with holdfast.open("sqlite:///chats.db", agents=[agent]) as host:
    chat = await host.create("fix the tests")
    async for event in chat.stream():
        ...
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType

from holdfast.agent import Agent
from holdfast.chat import queries
from holdfast.chat.errors import InvalidInput
from holdfast.chat.family import NewChat
from holdfast.chat.feed import Feed
from holdfast.chat.view import Snapshot, Watch, snapshots
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.messages import Prompt, user_message
from holdfast.kernel.model import Effort, Model, check_model
from holdfast.kernel.ports import Ports
from holdfast.live.deltas import Live
from holdfast.store.database import Database, Tx
from holdfast.worker.handle import Chat, Desk, check_limit, key_of, labels_of, title_of
from holdfast.worker.options import MICRO, WorkerOptions
from holdfast.worker.titles import Titles
from holdfast.worker.worker import Worker


class Host:
    """Durable chats, as a program has them. Made by `holdfast.open`."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    @property
    def agents(self) -> Mapping[str, Agent]:
        """By name."""
        return self._desk.agents

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


def _by_name(agents: Iterable[Agent]) -> Mapping[str, Agent]:
    if isinstance(agents, (Agent, str)) or not isinstance(agents, Iterable):
        raise ConfigError(f"agents is a {type(agents).__name__}: use a list, also for one")
    named: dict[str, Agent] = {}
    for agent in agents:
        if not isinstance(agent, Agent):
            raise ConfigError(f"{agent!r:.80} is no agent: use Agent(…)")
        if not isinstance(agent.name, str) or not agent.name:
            raise ConfigError(
                f"an agent is named {agent.name!r}: use text, as in Agent(name='ops')"
            )
        if agent.name in named:
            raise ConfigError(f"two agents are named {agent.name!r}: give one another name=…")
        if agent.eager == "all":
            raise ConfigError(
                f"agent {agent.name!r} has eager='all': a tool that begins before its answer is "
                "committed could run twice, so a durable host takes only eager='pure'"
            )
        named[agent.name] = agent
    if not named:
        raise ConfigError("agents is empty: give at least one")
    return MappingProxyType(named)


def _titling(
    db: Database, agents: Mapping[str, Agent], ports: Ports, titles: bool | str | Model
) -> Titles | None:
    if titles is False:
        return None
    if titles is True:
        return Titles(db, agents, ports)
    if isinstance(titles, str):
        from holdfast.providers.registry import model

        titles = model(titles)
    check_model(titles)
    return Titles(db, agents, ports, titles)


# --- beginning and end --------------------------------------------------------------------------


@asynccontextmanager
async def serving(
    db: Database,
    agents: Iterable[Agent],
    *,
    ports: Ports | None = None,
    worker: WorkerOptions | None = WorkerOptions(),  # noqa: B008 - frozen
    titles: bool | str | Model = True,
) -> AsyncIterator[Host]:
    """A host over a database that is open already."""
    world, named = ports or Ports(), _by_name(agents)
    if not isinstance(worker, WorkerOptions | None):
        raise ConfigError(f"worker is {worker!r}: use WorkerOptions(…), or None for no worker")
    options, live = worker or WorkerOptions(), Live()
    watch = Watch(int(options.lease * MICRO), int(options.stranded * MICRO))
    feed = Feed(db, live, watch, options.poll)
    host = Host(Desk(db, named, feed, world, runs_here=worker is not None))
    end = db.listen(feed.hear)
    try:
        if worker is None:
            yield host
            return
        rested = _titling(db, named, world, titles)
        async with Worker(db, live, named, world, worker, rested=rested).running():
            yield host
    finally:
        end()


@asynccontextmanager
async def open(
    url: str,
    agents: Iterable[Agent],
    *,
    ports: Ports | None = None,
    worker: WorkerOptions | None = WorkerOptions(),  # noqa: B008 - frozen
    titles: bool | str | Model = True,
) -> AsyncIterator[Host]:
    """Open a database and drive its chats, for as long as the block lasts.

    `url` is `sqlite:///chats.db` or `postgresql://…`. Chats that an earlier process left behind are
    gone on with at once. `worker=None` stores and reads chats and leaves driving them to other
    processes. `titles` names chats after their first turn: with each chat's own model, or with the
    one given.
    """
    from holdfast.store.url import open_database

    world = ports or Ports()
    known = _by_name(agents).values()  # what is wrong with them is said before a file is made
    async with open_database(url, now=world.now) as db:
        async with serving(db, known, ports=world, worker=worker, titles=titles) as host:
            yield host
