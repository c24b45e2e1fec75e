"""Durable chats inside your own process: a store, a worker, and a handle for each chat.

async with holdfast.open("sqlite:///chats.db", agents=[agent]) as host:
    chat = await host.create("fix the tests")
    async for event in chat.stream():
        ...
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from types import MappingProxyType
from typing import Any

from holdfast.agent import Agent
from holdfast.chat.budgets import NO_BUDGETS, BudgetCheck, Budgets
from holdfast.chat.change_feed import Feed
from holdfast.chat.handle import HostContext
from holdfast.chat.host import Host
from holdfast.chat.snapshots import StrandedLimits
from holdfast.kernel.agent_deps import DepsProviders, providers_of
from holdfast.kernel.entry_point import entry_context
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.model import Model, check_model
from holdfast.kernel.observer import UNOBSERVED, Observer
from holdfast.kernel.override import overridden
from holdfast.kernel.ports import Ports
from holdfast.live.broadcast import Live
from holdfast.store.database import Database, NoticesLost
from holdfast.worker.options import MICRO, WorkerOptions
from holdfast.worker.relay_port import Relay, relayed
from holdfast.worker.titles import Titles
from holdfast.worker.worker import Worker


def with_teams(agents: Iterable[object]) -> list[Agent[Any, Any]]:
    """The agents, and then those that they can reach by their tools."""
    given: list[Agent[Any, Any]] = []
    for agent in agents:
        if not isinstance(agent, Agent):
            raise ConfigError(f"{agent!r:.80} is not an agent: use Agent(…)")
        given.append(agent)
    members = [member for agent in given for member in agent.team.values()]
    others = {id(member): member for member in members}
    return [*given, *(other for key, other in others.items() if key not in map(id, given))]


def _by_name(
    agents: Iterable[Agent[Any, Any]] | Mapping[str, Agent[Any, Any]],
) -> Mapping[str, Agent[Any, Any]]:
    """The agents by name, with those that they can reach. A mapping is used as it is: its owner has
    added these, and may replace agents later."""
    if isinstance(agents, Mapping):
        _named(agents.values())
        return MappingProxyType(agents)
    if isinstance(agents, (Agent, str)) or not isinstance(agents, Iterable):
        raise ConfigError(f"agents is a {type(agents).__name__}: use a list, even for one")
    return MappingProxyType(_named(with_teams(agents)))


def _named(agents: Iterable[Agent[Any, Any]]) -> dict[str, Agent[Any, Any]]:
    """The agents of a host by name. Raises `ConfigError`."""
    named: dict[str, Agent[Any, Any]] = {}
    for agent in agents:
        if not isinstance(agent.name, str) or not agent.name:
            raise ConfigError(
                f"an agent is named {agent.name!r}: use text, as in Agent(name='ops')"
            )
        if agent.name in named:
            raise ConfigError(f"two agents are named {agent.name!r}: set another name=…")
        if agent.eager == "all":
            raise ConfigError(
                f"agent {agent.name!r} has eager='all': a tool that begins before its answer is "
                "committed could run twice, so a durable host takes only eager='pure'"
            )
        named[agent.name] = overridden(agent)
    if not named:
        raise ConfigError("agents is empty: pass at least one")
    return named


def _titling(
    db: Database,
    agents: Mapping[str, Agent[Any, Any]],
    ports: Ports,
    titles: bool | str | Model,
    observer: Observer,
    budgets: BudgetCheck,
) -> Titles | None:
    if titles is False:
        return None
    if titles is True:
        return Titles(db, agents, ports, observer=observer, budgets=budgets)
    if isinstance(titles, str):
        from holdfast.providers.model_factory import configured_model

        titles = configured_model(titles)
    check_model(titles)
    return Titles(db, agents, ports, titles, observer, budgets)


def _check_types(worker: object, budgets: object) -> None:
    if not isinstance(worker, WorkerOptions | None):
        raise ConfigError(f"worker is {worker!r}: use WorkerOptions(…), or None for no worker")
    if not isinstance(budgets, Budgets):
        raise ConfigError(f"budgets is {budgets!r:.80}: use Budgets(…)")


# --- beginning and end --------------------------------------------------------------------------


@asynccontextmanager
async def serving(
    db: Database,
    agents: Iterable[Agent[Any, Any]] | Mapping[str, Agent[Any, Any]],
    *,
    ports: Ports | None = None,
    worker: WorkerOptions | None = WorkerOptions(),  # noqa: B008 - frozen
    titles: bool | str | Model = True,
    observer: Observer = UNOBSERVED,
    budgets: Budgets = NO_BUDGETS,
    url: str | None = None,
    deps: DepsProviders | None = None,
) -> AsyncIterator[Host]:
    """Run a host over an open database. `url`: address at which other processes reach this one."""
    world, named = ports or Ports(), _by_name(agents)
    providers = providers_of(named, deps, needed=worker is not None)
    _check_types(worker, budgets)
    options, live, check = worker or WorkerOptions(), Live(), BudgetCheck(budgets)
    limits = StrandedLimits(int(options.lease * MICRO), int(options.stranded * MICRO))
    feed = Feed(db, live, limits, options.poll)
    named_by = _titling(db, named, world, titles, observer, check)
    rewrite = None if named_by is None else named_by.rewrite
    title_model = None if named_by is None else named_by.model
    context = HostContext(db, named, feed, world, worker is not None, rewrite, check, title_model)
    context.check_budgets(budgets)
    host = Host(context)
    end = db.listen(feed.receive_notice)
    try:
        if worker is None:
            async with _closing(host):
                yield host
            return
        driving = Worker(
            db,
            live,
            named,
            world,
            worker,
            url=url,
            on_idle=named_by,
            needs_follow_up=None if named_by is None else named_by.without_title,
            observer=observer,
            budgets=check,
            deps=providers,
        )
        feed.worker = driving.id
        async with driving.running():
            async with _closing(host):
                yield host
    finally:
        end()


@asynccontextmanager
async def _closing(host: Host) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await host.run_close_callbacks()


@entry_context("open")
async def open(
    url: str,
    agents: Iterable[Agent[Any, Any]],
    *,
    ports: Ports | None = None,
    worker: WorkerOptions | None = WorkerOptions(),  # noqa: B008 - frozen
    titles: bool | str | Model = True,
    observer: Observer = UNOBSERVED,
    budgets: Budgets = NO_BUDGETS,
    listen_url: str | None = None,
    deps: DepsProviders | None = None,
    relay: Relay | None = None,
) -> AsyncIterator[Host]:
    """Open a database and drive its chats, for as long as the block lasts.

    `url` is `sqlite:///chats.db` or `postgresql://…`. Unfinished chats of an earlier process are
    resumed at once. `worker=None` stores and reads chats and leaves driving them to other
    processes. `titles` generates a title after a chat's first turn: with the chat's own model, or
    with the one given. `observer` is notified of what the worker does: `MetricsObserver`, `Tracing`
    or your own; `holdfast.instrument` observes the whole process. `budgets` are limits of each
    chat, of each user, and of a user's day. `listen_url` is the same database without a pooler, if
    `url` leads through one. `deps` is called with the `ChatInfo` of a chat when this process takes
    it, and returns its deps, or an async context manager of them; or it is a mapping of such
    functions by the agents' names. `relay=RelayOptions(…)` streams the tokens of chats between
    processes that open the same PostgreSQL database; without it, a process sees chats of another
    one step by step.
    """
    from holdfast.store.url import open_database, warn_of_polling

    world = ports or Ports()
    named = _by_name(agents)  # errors in them are raised before a file is made
    providers_of(named, deps, needed=worker is not None)
    with ExitStack() as closed:
        async with open_database(
            url, now=world.now, listen_url=listen_url, new_id=world.new_id
        ) as db:
            serve = partial(
                serving,
                db,
                named.values(),
                ports=world,
                worker=worker,
                titles=titles,
                observer=observer,
                budgets=budgets,
                deps=deps,
            )
            async with relayed(relay, db, worker is not None, serve) as host:
                warn_of_polling(db, (worker or WorkerOptions()).poll)
                # Readers that still wait then query once more, and find the database closed.
                closed.callback(host.feed.receive_notice, NoticesLost())
                yield host
