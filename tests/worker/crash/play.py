"""Playing a scenario: life after life on one database, until everything is at rest and right."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Any

import anyio
from msgspec import Struct, field

from holdfast.chat.budgets import NO_BUDGETS, Budgets
from holdfast.chat.rows import SELECT_CHAT, ChatRow, Status, chat_of
from holdfast.kernel.tool import Tool
from holdfast.store.database import Tx
from holdfast.testing import Clock
from tests.worker.crash.checks import Proof, prove
from tests.worker.crash.databases import Arena
from tests.worker.crash.process import Process, counted_steps
from tests.worker.crash.sites import Site, Trouble
from tests.worker.crash.world import PATIENCE, Person, Turn, World, agent_of


class Scenario(Struct, frozen=True, kw_only=True):
    """What a person does, what the model answers, and all that may come of it."""

    name: str
    turn: Turn
    person: Callable[[Person], Awaitable[None]]
    ends: Sequence[Sequence[str]]
    """The transcripts that are right, whatever happened. The first: if nothing did."""
    tools: Sequence[Tool] = ()
    agent: dict[str, Any] = {}
    budgets: Budgets = NO_BUDGETS


class Life(Struct, frozen=True, kw_only=True):
    """How one process fares."""

    trouble: Trouble = field(default_factory=Trouble)
    die_at: int | None = None
    """The step in front of which it dies."""
    leave_at: int | None = None
    """The step in front of which it is told to go."""
    grace: float = 0


class Played(Struct, frozen=True):
    """What came of it, life by life."""

    sites: Sequence[Sequence[Site]]
    steps: Sequence[int]
    calls: Sequence[int]
    startup_calls: int
    """Number of calls with which the first process starts. Without them it does not begin."""
    proof: Proof


async def play(scenario: Scenario, arena: Arena, clock: Clock, *lives: Life) -> Played:
    """Play a scenario through: these lives, and then as many untroubled ones as it takes."""
    await arena.fresh()
    world = World(clock)
    played = _Play(scenario, world)
    proof: Proof | None = None
    with counted_steps(), _complaints(world), anyio.fail_after(PATIENCE):
        async with played.ended(), anyio.create_task_group() as group:
            group.start_soon(played.act)
            while not played.at_rest:
                number = len(played.processes)
                life = lives[number] if number < len(lives) else Life()
                async with arena.open(number) as inner:
                    process = Process(world, inner, life.trouble, world.ports_of(number))
                    await played.live(process, life)
                    if played.at_rest:
                        proof = await prove(inner, world)
                if process.dead or process.frozen:
                    await anyio.sleep(arena.wait)
    assert proof is not None
    return Played(
        [process.db.sites for process in played.processes],
        [process.steps for process in played.processes],
        [process.db.calls for process in played.processes],
        played.processes[0].startup_calls,
        proof,
    )


@contextmanager
def _complaints(world: World) -> Iterator[None]:
    """What a living process reports as an error of its own is one."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if world.process is not None and not world.process.dead:
                world.wrong.append(self.format(record))

    log, handler = logging.getLogger("holdfast"), Handler(logging.ERROR)
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


class _Play:
    """One scenario under way."""

    def __init__(self, scenario: Scenario, world: World) -> None:
        self._scenario = scenario
        self._world = world
        self._done = False
        """The person has nothing more to do."""
        self._listening = ExitStack()
        """To the end: what a process had begun may be committed after its death."""
        self.processes: list[Process] = []
        self.at_rest = False

    @asynccontextmanager
    async def ended(self) -> AsyncIterator[None]:
        """However it went, no process is left behind."""
        try:
            yield
        finally:
            self._listening.close()
            with anyio.CancelScope(shield=True):
                for process in self.processes:
                    process.die()
                    await process.bury()

    async def act(self) -> None:
        await self._scenario.person(Person(self._world))
        self._done = True
        self._world.change()

    async def live(self, process: Process, life: Life) -> None:
        """One life, to its end or until everything is at rest."""
        self.processes.append(process)
        scenario, world = self._scenario, self._world
        process.die_at, process.leave_at = life.die_at, life.leave_at
        self._listening.callback(process.inner.listen(world.hear))
        try:
            agent = agent_of(process, scenario.turn, scenario.tools, **scenario.agent)
            await process.start(agent, life.grace, scenario.budgets)
            world.live(process)
            await self._until_rest_or_end(process)
            if not process.frozen:
                await self._end(process)
        finally:
            world.live(None)
            if not process.frozen:
                process.die()
                await process.bury()

    async def _until_rest_or_end(self, process: Process) -> None:
        while not process.ended.is_set() and not self.at_rest:
            changed = self._world.changed
            self.at_rest = self._done and await process.inner.read(_at_rest)
            if not self.at_rest and not process.ended.is_set():
                await changed.wait()

    async def _end(self, process: Process) -> None:
        if self.at_rest:
            await self._thaw_others()
        await process.stop()
        self.at_rest = self.at_rest and not process.dead
        if not process.dead:
            await process.inner.read(_check_given_away)

    async def _thaw_others(self) -> None:
        """Whoever was taken for dead wakes up when everything is done, and finds that it is."""
        for other in self.processes:
            if other.frozen:
                other.thaw()
                await anyio.sleep(20)
                await other.stop()
                other.frozen = False


async def _check_given_away(tx: Tx) -> None:
    """Whoever leaves in peace leaves nothing that somebody would have to wait for."""
    rows = await tx.fetch("SELECT id FROM chats WHERE worker_id IS NOT NULL")
    assert not rows, f"{rows} still belong to one who has left"


async def _at_rest(tx: Tx) -> bool:
    return all(_rests(chat_of(row)) for row in await tx.fetch(SELECT_CHAT))


def _rests(chat: ChatRow) -> bool:
    return chat.status in (Status.IDLE, Status.ERROR)
