"""A process that can die: at a site of its database, or between any two steps of its tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar, cast

import anyio

from holdfast.agent import Agent
from holdfast.chat.budgets import NO_BUDGETS, BudgetCheck, Budgets
from holdfast.kernel.ports import Ports
from holdfast.live.broadcast import Live
from holdfast.store.database import Database
from holdfast.testing.virtual_time import describe_task
from holdfast.worker.options import WorkerOptions
from holdfast.worker.worker import Worker
from tests.worker.crash.sites import OWNER, Died, Faulty, Trouble

T = TypeVar("T")


class World(Protocol):
    """What outlives a process."""

    def change(self) -> None:
        """Something happened that somebody may wait for."""
        ...


class Process:
    """One life: a database, a worker, and the door to its chats.

    After `die` nothing of it has an effect any more: its database refuses everything, and so do the
    tools and models that ask whether it is `dead`.
    """

    def __init__(self, world: World, inner: Database, trouble: Trouble, ports: Ports) -> None:
        self.world = world
        """Where its tools leave their traces."""
        self.inner = inner
        """The database itself, where nothing goes wrong."""
        self.db = Faulty(inner, trouble, lambda: self.dead)
        self.ports = ports
        trouble.die, trouble.freeze = self.die, self.freeze
        self.thaw = trouble.thaw
        self.live = Live()
        self.dead = False
        self.frozen = False
        """Nothing is heard of it, but it is not dead."""
        self.ended = anyio.Event()
        """It is dead or frozen, or has left."""
        self.startup_calls = 0
        """How often it has asked the database before it was ready."""
        self.steps = 0
        """How often one of its tasks went on."""
        self.die_at: int | None = None
        """The step in front of which it dies."""
        self.leave_at: int | None = None
        """The step in front of which it is told to go."""
        self.tasks: set[asyncio.Task[Any]] = set()
        self._main: asyncio.Task[None] | None = None
        self._ready = anyio.Event()
        self._leave = anyio.Event()

    async def start(self, agent: Agent, grace: float, budgets: Budgets = NO_BUDGETS) -> None:
        """Come to life, or die in the attempt."""
        options, check = WorkerOptions(grace=grace), BudgetCheck(budgets)
        agents = {agent.name: agent}
        worker = Worker(self.db, self.live, agents, self.ports, options, budgets=check)
        me = OWNER.set(self)
        try:
            self._main = asyncio.get_running_loop().create_task(self._work(worker))
        finally:
            OWNER.reset(me)
        self._main.add_done_callback(self._end)
        while not (self._ready.is_set() or self._main.done()):
            await asyncio.wait((self._main,), timeout=0.01)
        if self._main.done() and not self.dead:
            await self._main

    async def _work(self, worker: Worker) -> None:
        async with worker.running():
            self.startup_calls = self.db.calls
            self._ready.set()
            await self._leave.wait()

    async def stop(self) -> None:
        """Come to an end in peace, unless it dies in the attempt."""
        assert self._main is not None
        self._leave.set()
        await asyncio.wait((self._main,))
        if not self.dead:
            await self._main
            assert all(task.done() for task in self.tasks), self.describe()

    def die(self) -> None:
        self.dead = True
        self._end()
        self._cancel()

    def freeze(self) -> None:
        self.frozen = True
        self._end()

    def _end(self, _: object = None) -> None:
        self.ended.set()
        self.world.change()

    def _cancel(self) -> None:
        for task in self.tasks:
            # One that has not begun would leave behind what it was given to run.
            if not task.done() and getattr(task.get_coro(), "begun", True):
                task.cancel()

    def check_alive(self) -> None:
        if self.dead:
            raise Died

    def step(self) -> None:
        """One of its tasks is about to go on."""
        self.steps += 1
        if self.steps == self.die_at and not self.dead:
            self.die()
        if self.steps == self.leave_at:
            self._leave.set()

    async def bury(self) -> None:
        """Wait for what is left of it. It cannot do any harm."""
        for _ in range(20):
            pending = [task for task in self.tasks if not task.done()]
            if not pending:
                break
            self._cancel()
            await asyncio.wait(pending, timeout=1)
        else:
            raise AssertionError(f"a dead process goes on:\n{self.describe()}")

    def describe(self) -> str:
        return "\n".join(describe_task(task) for task in self.tasks if not task.done())


class _Steps(Coroutine[Any, Any, T]):
    """A coroutine whose process counts its steps."""

    def __init__(self, inner: Coroutine[Any, Any, T], process: Process) -> None:
        self._inner = inner
        self._process = process
        self.begun = False

    def send(self, value: Any, /) -> Any:
        self.begun = True
        self._process.step()
        return self._inner.send(value)

    def throw(self, *error: Any) -> Any:
        self.begun = True
        self._process.step()
        return self._inner.throw(*error)

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Generator[Any, None, T]:
        return self._inner.__await__()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


@contextmanager
def counted_steps() -> Iterator[None]:
    """Within the block every task of a process is known to it, and its steps are counted."""
    loop = asyncio.get_running_loop()
    before = loop.get_task_factory()
    loop.set_task_factory(cast(Any, _new_task))
    try:
        yield
    finally:
        loop.set_task_factory(before)


def _new_task(
    loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, Any], **more: Any
) -> asyncio.Task[Any]:
    context = more.get("context")
    owner = OWNER.get() if context is None else context.get(OWNER)
    if not isinstance(owner, Process):
        return asyncio.Task(coro, loop=loop, **more)
    task = asyncio.Task(_Steps(coro, owner), loop=loop, **more)
    owner.tasks.add(task)
    task.add_done_callback(_retrieve)
    return task


def _retrieve(task: asyncio.Task[Any]) -> None:
    """What a dead process raises concerns nobody; a living one has somebody who waits for it."""
    if not task.cancelled():
        task.exception()
