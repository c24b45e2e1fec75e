"""A worker over a test's database, and what people do to its chats."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar

import anyio
from msgspec.structs import replace

from holdfast.agent import Agent
from holdfast.chat import queries
from holdfast.chat.doctor import check
from holdfast.chat.idempotency import UserOperations
from holdfast.chat.journal import read_journal
from holdfast.chat.queue import read_queue
from holdfast.chat.rows import ChatRow, Deliver, JournalCall, Queued, Stored
from holdfast.chat.transitions.lifecycle import NewChat
from holdfast.kernel.messages import Message, ToolResult, user_message
from holdfast.kernel.ports import Ports
from holdfast.kernel.tool import Tool
from holdfast.live.broadcast import Live
from holdfast.observe.observer import UNOBSERVED, Observer
from holdfast.store.database import Database, Notice, Transaction
from holdfast.testing import Clock, ScriptedModel, ports
from holdfast.worker.options import WorkerOptions
from holdfast.worker.worker import Worker
from tests.worker.faulty_database import Link

T = TypeVar("T")
SECOND: Final = 1_000_000
asks: Final = Tool(name="asks", schema={"type": "object", "properties": {}})
"""A tool that the client runs."""


class Life:
    """One process: a store, a worker, and the door to its chats.

    The worker has the database by a `link` that may fail; whoever uses the door does not.
    """

    def __init__(
        self,
        db: Database,
        agent: Agent,
        world: Ports,
        options: WorkerOptions,
        observer: Observer = UNOBSERVED,
    ) -> None:
        self.db = db
        self.link = Link(db)
        self.agent = agent
        self.ports = world
        self.live = Live()
        self.operations = UserOperations(db, world)
        agents = {agent.name: agent}
        self.worker = Worker(self.link, self.live, agents, world, options, observer=observer)
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
        """Hold up what it writes, as `Link.hold` does, once its first look for chats is over."""
        await anyio.sleep(1)
        self.link.hold(*names)

    async def stop(self) -> None:
        """End in peace: SIGTERM."""
        self._leave.set()
        if self._main is not None:
            await self._main

    async def die(self) -> None:
        """End at once: nothing more of it reaches the database."""
        assert self._main is not None
        self.link.dead = True
        self.link.go_on()
        # What is cancelled here would simply be no more; its tools should not go on meanwhile.
        self.worker._options = replace(self.worker._options, grace=0)
        self._main.cancel()
        await asyncio.wait([self._main])
        if not self._main.cancelled():
            self._main.exception()
        self._main = None

    async def begin(self, prompt: str = "?") -> str:
        new = NewChat(id=self.ports.new_id(), agent=self.agent.name, message=user_message(prompt))
        return (await self.operations.create(new)).id

    async def send(self, chat_id: str, text: str, deliver: Deliver = "queue") -> None:
        await self.operations.send(chat_id, user_message(text), deliver)

    async def chat(self, chat_id: str) -> ChatRow:
        return await self.operations.read(chat_id)

    async def rest(self, chat_id: str, seconds: float = 600) -> ChatRow:
        """The chat once it rests."""
        return await self.until(chat_id, lambda chat: chat.status in ("idle", "error"), seconds)

    async def until(
        self, chat_id: str, reached: Callable[[ChatRow], bool], seconds: float = 600
    ) -> ChatRow:
        changed = anyio.Event()

        def hear(notice: Notice) -> None:
            changed.set()

        end = self.db.listen(hear)
        try:
            with anyio.fail_after(seconds):
                while True:
                    chat = await self.chat(chat_id)
                    if reached(chat):
                        return chat
                    with anyio.move_on_after(1):
                        await changed.wait()
                    changed = anyio.Event()
        finally:
            end()

    async def interrupted(self, chat_id: str) -> ChatRow:
        """Stop the chat, and wait until it has come to rest."""
        await self.operations.interrupt(chat_id)
        return await self.rest(chat_id)

    async def journal(self, chat_id: str) -> dict[str, JournalCall]:
        """The calls that are not in the history yet, by tool."""
        rows = await self.db.read(lambda tx: read_journal(tx, chat_id))
        return {row.tool: row for row in rows.values()}

    async def actions(self, chat_id: str) -> list[JournalCall]:
        """What the chat waits for, in call order."""
        return await self.db.read(lambda tx: queries.read_actions(tx, chat_id))

    async def queue(self, chat_id: str) -> list[Queued]:
        return await self.db.read(lambda tx: read_queue(tx, chat_id))

    async def partial(self, chat_id: str) -> Message | None:
        """What is written down of the answer that is arriving."""
        row = await self.db.read(lambda tx: queries.read_partial(tx, chat_id))
        return None if row is None else row.message

    async def stored(self, chat_id: str) -> list[Stored]:
        return await self.db.read(lambda tx: queries.read_history(tx, chat_id))

    async def history(self, chat_id: str) -> list[Message]:
        return [stored.message for stored in await self.stored(chat_id)]

    async def told(self, chat_id: str) -> list[str]:
        """The history in short: what each message is, and what it says."""
        return [in_short(message) for message in await self.history(chat_id)]


def in_short(message: Message) -> str:
    results = [f"{one.outcome} {one.text}" for one in message.results]
    calls = [f"→{call.tool}" for call in message.calls]
    return f"{message.kind}: {' '.join(filter(None, [message.text, *calls, *results]))}".strip()


def results_of(history: Sequence[Message]) -> list[ToolResult]:
    return [result for message in history for result in message.results]


def world_of(clock: Clock, seed: int = 0) -> Ports:
    """Ids of different processes differ."""
    made = ports(seed, clock=clock)
    return replace(made, new_id=lambda: f"{seed}-{made.new_id()}")


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
    **agent: Any,
) -> AsyncIterator[Life]:
    """A process that works, until the block ends. Then everything in the database is in order."""
    model = script if isinstance(script, ScriptedModel) else ScriptedModel(list(script))
    world = world_of(clock, seed)
    made = Agent(model=model, tools=tuple(tools), ports=world, **agent)
    life = Life(db, made, world, options or WorkerOptions(), observer)
    await life.start()
    try:
        yield life
    finally:
        await life.stop()
    await check(db)


def fail_next_read(life: Life, error: Exception) -> None:
    """The next thing that the worker reads is refused, and only that."""
    read = life.link.read

    async def refuse(transaction: Transaction[T], *, short: bool = False) -> T:
        life.link.read = read  # type: ignore[method-assign]
        raise error

    life.link.read = refuse  # type: ignore[method-assign]


async def spent_input(life: Life, chat_id: str) -> int:
    return (await life.db.read(lambda tx: queries.spent(tx, chat_id))).usage.input


async def soon(seconds: float, act: Callable[[], Awaitable[object]]) -> None:
    await anyio.sleep(seconds)
    await act()
