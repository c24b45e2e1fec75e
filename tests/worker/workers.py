"""A worker on a test's database, and the operations of users on its chats."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import anyio
from msgspec.structs import replace

from holdfast.agent import Agent
from holdfast.chat import queries
from holdfast.chat.budgets import NO_BUDGETS, BudgetCheck, Budgets
from holdfast.chat.doctor import check
from holdfast.chat.journal import read_journal
from holdfast.chat.queue import read_queue
from holdfast.chat.rows import ChatRow, Deliver, JournalCall, Queued, Stored, read_chat
from holdfast.chat.transitions import lifecycle, user
from holdfast.chat.transitions.lifecycle import NewChat
from holdfast.kernel.agent_deps import DepsProviders, providers_of
from holdfast.kernel.messages import Message, ToolResult, user_message
from holdfast.kernel.observer import UNOBSERVED, Observer
from holdfast.kernel.ports import Ports
from holdfast.kernel.tool import Tool
from holdfast.live.broadcast import Live
from holdfast.store.database import ChangeNotice, Database, Transaction, Tx
from holdfast.testing import Clock, ScriptedModel, ports
from holdfast.worker.options import WorkerOptions
from holdfast.worker.worker import Worker
from tests.worker.faulty_database import FaultyDatabase

T = TypeVar("T")
P = ParamSpec("P")
SECOND: Final = 1_000_000
asks: Final = Tool(name="asks", schema={"type": "object", "properties": {}})
"""A tool that the client runs."""


class Life:
    """One process: a store, a worker, and the operations of users.

    The worker uses a `FaultyDatabase`; the operations of users never fail.
    """

    def __init__(
        self,
        db: Database,
        agent: Agent,
        world: Ports,
        options: WorkerOptions,
        observer: Observer = UNOBSERVED,
        budgets: Budgets = NO_BUDGETS,
        deps: DepsProviders | None = None,
    ) -> None:
        self.db = db
        self.faulty_db = FaultyDatabase(db)
        self.agent = agent
        self.ports = world
        self.live = Live()
        agents = dict(agent.team)
        self.budgets = BudgetCheck(budgets)
        self.worker = Worker(
            self.faulty_db,
            self.live,
            agents,
            world,
            options,
            observer=observer,
            budgets=self.budgets,
            deps=providers_of(agents, deps, needed=True),
        )
        self._main: asyncio.Task[None] | None = None
        self._ready = anyio.Event()
        self._leave = anyio.Event()

    async def start(self) -> None:
        self._main = asyncio.create_task(self._work())
        self._main.add_done_callback(lambda task: self._ready.set())
        await self._ready.wait()

    async def _work(self) -> None:
        async with self.worker.running():
            self._ready.set()
            await self._leave.wait()

    async def hold(self, *names: str) -> None:
        """Block its writes, as `FaultyDatabase.hold` does, after its first claim."""
        await anyio.sleep(1)
        self.faulty_db.hold(*names)

    async def stop(self) -> None:
        """Shut down gracefully, as after SIGTERM."""
        self._leave.set()
        if self._main is not None:
            await self._main

    async def die(self) -> None:
        """Die at once: nothing more reaches the database."""
        assert self._main is not None
        self.faulty_db.dead = True
        self.faulty_db.resume()
        # A dead process would not run its tools any further.
        self.worker._options = replace(self.worker._options, grace=0)
        self._main.cancel()
        await asyncio.wait([self._main])
        if not self._main.cancelled():
            self._main.exception()
        self._main = None

    async def begin(self, prompt: str = "?", owner: str = "") -> str:
        id, message = self.ports.new_id(), user_message(prompt)
        new = NewChat(id=id, agent=self.agent.name, message=message, owner=owner)
        return (await self.do(lifecycle.create, new)).id

    async def do(
        self,
        transition: Callable[Concatenate[Tx, P], Awaitable[T]],
        *args: P.args,
        **options: P.kwargs,
    ) -> T:
        """Carry out a transition, as a user does."""
        return await self.db.write(lambda tx: transition(tx, *args, **options), short=True)

    async def send(
        self, chat_id: str, text: str, deliver: Deliver = "queue", *, model: str | None = None
    ) -> None:
        message = user_message(text)
        queued = Queued(self.ports.new_id(), deliver, message, 0, model)
        await self.do(user.send, chat_id, queued)

    async def chat(self, chat_id: str) -> ChatRow:
        return await self.db.read(lambda tx: read_chat(tx, chat_id))

    async def rest(self, chat_id: str, seconds: float = 600) -> ChatRow:
        """Return the chat once it is idle or in error."""
        return await self.until(chat_id, lambda chat: chat.status in ("idle", "error"), seconds)

    async def until(
        self, chat_id: str, reached: Callable[[ChatRow], bool], seconds: float = 600
    ) -> ChatRow:
        has_changed = anyio.Event()

        def on_notice(notice: ChangeNotice) -> None:
            has_changed.set()

        stop_listening = self.db.listen(on_notice)
        try:
            with anyio.fail_after(seconds):
                while True:
                    chat = await self.chat(chat_id)
                    if reached(chat):
                        return chat
                    with anyio.move_on_after(1):
                        await has_changed.wait()
                    has_changed = anyio.Event()
        finally:
            stop_listening()

    async def interrupted(self, chat_id: str) -> ChatRow:
        """Interrupt the chat, and wait until it is idle."""
        await self.do(user.interrupt, chat_id)
        return await self.rest(chat_id)

    async def journal(self, chat_id: str) -> dict[str, JournalCall]:
        """Return the calls that are not in the history yet, by tool."""
        rows = await self.db.read(lambda tx: read_journal(tx, chat_id))
        return {row.tool: row for row in rows.values()}

    async def actions(self, chat_id: str) -> list[JournalCall]:
        """Return the pending actions, in call order."""
        return await self.db.read(lambda tx: queries.read_actions(tx, chat_id))

    async def queue(self, chat_id: str) -> list[Queued]:
        return await self.db.read(lambda tx: read_queue(tx, chat_id))

    async def partial(self, chat_id: str) -> Message | None:
        """Return the saved partial answer."""
        row = await self.db.read(lambda tx: queries.read_partial(tx, chat_id))
        return None if row is None else row.message

    async def stored(self, chat_id: str) -> list[Stored]:
        return await self.db.read(lambda tx: queries.read_history(tx, chat_id))

    async def history(self, chat_id: str) -> list[Message]:
        return [stored.message for stored in await self.stored(chat_id)]

    async def lines(self, chat_id: str) -> list[str]:
        """Return the history with one line per message: its kind and its text."""
        return [in_short(message) for message in await self.history(chat_id)]


def in_short(message: Message) -> str:
    results = [f"{one.outcome} {one.text}" for one in message.results]
    calls = [f"→{call.tool}" for call in message.calls]
    return f"{message.kind}: {' '.join(filter(None, [message.text, *calls, *results]))}".strip()


def results_of(history: Sequence[Message]) -> list[ToolResult]:
    return [result for message in history for result in message.results]


def world_of(clock: Clock, seed: int = 0) -> Ports:
    """Ids of different processes differ."""
    built_ports = ports(seed, clock=clock)
    return replace(built_ports, new_id=lambda: f"{seed}-{built_ports.new_id()}")


@asynccontextmanager
async def living(
    db: Database,
    script: Sequence[Any] | ScriptedModel,
    tools: Sequence[Tool] = (),
    *,
    clock: Clock,
    seed: int = 0,
    options: WorkerOptions | None = None,
    observer: Observer = UNOBSERVED,
    budgets: Budgets = NO_BUDGETS,
    deps: DepsProviders | None = None,
    **agent: Any,
) -> AsyncIterator[Life]:
    """Run a worker process until the block ends, and then check every invariant."""
    model = script if isinstance(script, ScriptedModel) else ScriptedModel(list(script))
    world = world_of(clock, seed)
    built_ports = Agent(model=model, tools=tuple(tools), ports=world, **agent)
    life = Life(db, built_ports, world, options or WorkerOptions(), observer, budgets, deps)
    await life.start()
    try:
        yield life
    finally:
        await life.stop()
    await check(db)


def fail_next_read(life: Life, error: Exception) -> None:
    """Make the next read of the worker fail, and only that."""
    read = life.faulty_db.read

    async def refuse(transaction: Transaction[T], *, short: bool = False) -> T:
        life.faulty_db.read = read  # type: ignore[method-assign]
        raise error

    life.faulty_db.read = refuse  # type: ignore[method-assign]


async def spent_input(life: Life, chat_id: str) -> int:
    return (await life.db.read(lambda tx: queries.spent(tx, chat_id))).usage.input


async def soon(seconds: float, act: Callable[[], Awaitable[object]]) -> None:
    await anyio.sleep(seconds)
    await act()
