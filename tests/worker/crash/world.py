"""What outlives every process: the person, what tools did to the outside, and what models cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

import anyio
from msgspec.structs import replace

from holdfast.agent import Agent
from holdfast.chat import queries
from holdfast.chat.budgets import Budgets, set_budget
from holdfast.chat.errors import ChatError
from holdfast.chat.idempotency import Key, once
from holdfast.chat.journal import read_journal
from holdfast.chat.queue import read_queue
from holdfast.chat.rows import (
    ActionAnswer,
    ChatRow,
    Deliver,
    JournalCall,
    Queued,
    Status,
    read_chat,
)
from holdfast.chat.transitions import lifecycle, user
from holdfast.chat.transitions.lifecycle import NewChat, Spawn
from holdfast.chat.transitions.user import Edited, Sent
from holdfast.hooks import Context
from holdfast.kernel.messages import user_message
from holdfast.kernel.model import Request
from holdfast.kernel.ports import Ports
from holdfast.kernel.summary_checkpoint import SUMMARY_INSTRUCTIONS, SUMMARY_SECTIONS
from holdfast.kernel.tool import Commit, Tool, ToolContext, tool
from holdfast.store.database import Changed, ChangeNotice, OutcomeUnknown, Tx, Unavailable
from holdfast.testing import Clock, ScriptedModel, ScriptItem, pause, ports, say, usage
from tests.worker.crash.process import Process
from tests.worker.crash.sites import OWNER, Died

T = TypeVar("T")
P = ParamSpec("P")
SUMMARY: Final = "\n".join(f"## {section}\nnone" for section in SUMMARY_SECTIONS)
PATIENCE: Final = 150
"""Virtual seconds after which a chat will never come to rest."""

Turn = Callable[["World", Request], ScriptItem]


class World:
    """One point in one scenario: any number of lives on one database."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.process: Process | None = None
        """The one that lives, if one does."""
        self.effects: list[tuple[str, str]] = []
        """Tool and call id, each time that a function was called."""
        self.wrong: list[str] = []
        """What tools and models found to be wrong."""
        self.accepted: Counter[tuple[str, str]] = Counter()
        """Chats and texts that the person knows to have been accepted."""
        self.taken_back: set[tuple[str, str]] = set()
        self.versions: list[tuple[str, int]] = []
        """Chats and versions that were told of, in order."""
        self.attempts = 0
        """Answers that models were asked for."""
        self.evaluations = 0
        """How often the functions of the instructions were called."""
        self.told: dict[str, str] = {}
        """What the model was told first in the turn of each prompt."""
        self.reported = 0
        """Those that are to cost something: each has its own number of tokens, from 1."""
        self._signals: dict[str, anyio.Event] = {}
        self.changed = anyio.Event()
        """Set, and made anew, whenever anything happened."""

    # --- what happens, in whatever life ---

    def change(self) -> None:
        changed, self.changed = self.changed, anyio.Event()
        changed.set()

    def hear(self, notice: ChangeNotice) -> None:
        if isinstance(notice, Changed):
            self.versions.append((notice.chat, notice.version))
        self.change()

    def signal(self, name: str) -> anyio.Event:
        return self._signals.setdefault(name, anyio.Event())

    def give(self, name: str) -> None:
        """It has happened."""
        self.signal(name).set()
        self.change()

    def happens(self, name: str) -> ScriptItem:
        """For a script: when the stream gets here, it has happened."""

        def happen(_: object) -> None:
            self.give(name)

        return [happen]

    def tokens(self) -> ScriptItem:
        self.reported += 1
        return usage(input=self.reported, output=1)

    def slowly(self, text: str, signal: str = "streaming") -> ScriptItem:
        """An answer that takes long enough to be kept half way."""
        half = len(text) // 2
        begins = [say(text[:half]), self.happens(signal)]
        return [*begins, pause(1.5), say(text[half:]), self.tokens()]

    # --- lives ---

    def ports_of(self, life: int) -> Ports:
        """Ids of different lives differ."""
        made = ports(life, clock=self.clock)
        return replace(made, new_id=lambda: f"{life}-{made.new_id()}")

    def live(self, process: Process | None) -> None:
        self.process = process
        self.change()

    async def living(self) -> Process:
        while self.process is None or self.process.dead:
            await self.changed.wait()
        return self.process


# --- What a process can do ------------------------------------------------------------------------


async def begin(context: ToolContext, name: str) -> None:
    """The function of a tool was called: from here on it has had an effect."""
    world, process = _here()
    process.check_alive()
    world.effects.append((name, context.call_id))
    world.give(f"{name} began")
    if name in RECORDED:
        chat_id = context.chat
        assert chat_id is not None
        journal = await process.inner.read(lambda tx: read_journal(tx, chat_id))
        row = journal.get(context.call_id)
        if row is None or row.state != "started":
            world.wrong.append(f"{context.call_id} runs, and its row is {row}")


def _here() -> tuple[World, Process]:
    """Where a tool or a model is asked: each task knows its process."""
    process = OWNER.get()
    assert isinstance(process, Process)
    world = process.world
    assert isinstance(world, World)
    return world, process


async def numbered(context: Context) -> str:
    """Instructions that are never the same twice."""
    world, process = _here()
    process.check_alive()
    world.evaluations += 1
    number = world.evaluations
    await anyio.sleep(0.5)
    return f"This is number {number}."


@tool(effect="pure")
async def add(context: ToolContext, a: int, b: int) -> int:
    await begin(context, "add")
    await anyio.sleep(0.5)
    return a + b


@tool(effect="pure")
async def slow(context: ToolContext) -> str:
    await begin(context, "slow")
    await anyio.sleep(3)
    return "slept"


@tool(effect="once")
async def pay(context: ToolContext, amount: int) -> str:
    await begin(context, "pay")
    await anyio.sleep(1)
    return f"paid {amount}"


@tool(effect="once", parallel=True)
async def wire(context: ToolContext, amount: int) -> str:
    await begin(context, "wire")
    await anyio.sleep(1)
    return f"wired {amount}"


@tool(effect="idempotent")
async def book(context: ToolContext, seats: int) -> str:
    await begin(context, "book")
    await anyio.sleep(1)
    return f"booked {seats}"


@tool(effect="once", approval="ask")
async def wipe(context: ToolContext, disk: str) -> str:
    await begin(context, "wipe")
    await anyio.sleep(1)
    return f"wiped {disk}"


@tool(effect="commit")
async def spawn(context: ToolContext, task: str) -> Commit:
    await begin(context, "spawn")
    _, process = _here()
    id = process.ports.new_id()
    new = NewChat(id=id, agent="agent", message=user_message(task))
    return Commit(id, (Spawn(new),))


ANYTHING: Final[Mapping[str, Any]] = {"type": "object"}
ask: Final = Tool(name="ask", schema=ANYTHING)
ask_soon: Final = Tool(name="ask_soon", schema=ANYTHING, timeout=10)
wait: Final = Tool(name="wait", schema=ANYTHING, action="child")
RECORDED: Final = ("pay", "wire", "book", "wipe")
"""Tools whose calls are written down before they begin."""
ONCE: Final = ("pay", "wire", "wipe")


def agent_of(process: Process, turn: Turn, tools: Sequence[Tool], **more: Any) -> Agent:
    def answer(request: Request) -> ScriptItem:
        world, process = _here()
        process.check_alive()
        world.attempts += 1
        if any(block.text == SUMMARY_INSTRUCTIONS for block in request.system):
            return [world.happens("summarizing"), pause(1.5), say(SUMMARY), world.tokens()]
        return turn(world, request)

    return Agent(model=ScriptedModel(default=answer), tools=tools, ports=process.ports, **more)


# --- The person -----------------------------------------------------------------------------------


async def _set_budgets(tx: Tx, budgets: Budgets) -> bool:
    await set_budget(tx, "user", "", budgets)
    return True


class Person:
    """Somebody with a browser. What was not acknowledged is asked again, with the same key."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._asked = 0

    async def _ask(
        self,
        kind: type[T],
        transition: Callable[Concatenate[Tx, P], Awaitable[T]],
        *args: P.args,
        **options: P.kwargs,
    ) -> T:
        """Request a transition; `kind` is the type of its response."""
        self._asked += 1
        key = Key("person", f"key {self._asked}", "the same")
        while True:
            process = await self.world.living()
            try:
                with anyio.fail_after(PATIENCE / 5):
                    return await once(
                        process.db,
                        key,
                        kind,
                        lambda tx: transition(tx, *args, **options),
                        short=True,
                    )
            except Died:
                assert process.dead
            except TimeoutError:
                assert process.frozen
            except (Unavailable, OutcomeUnknown):
                await anyio.sleep(0.5)

    async def create(self, text: str, id: str = "c1", **more: Any) -> None:
        new = NewChat(id=id, agent="agent", message=user_message(text), **more)
        await self._ask(ChatRow, lifecycle.create, new)
        self.world.accepted[id, text] += 1

    async def send(self, text: str, deliver: Deliver = "queue", id: str = "c1") -> None:
        process = await self.world.living()
        queued = Queued(process.ports.new_id(), deliver, user_message(text), 0)
        await self._ask(Sent, user.send, id, queued)
        self.world.accepted[id, text] += 1

    async def interrupt(self, id: str = "c1") -> None:
        await self._ask(ChatRow, user.interrupt, id)

    async def edit(self, number: int, text: str, id: str = "c1") -> None:
        message = user_message(text)
        edited = await self._ask(Edited, user.edit, id, number, message)
        self.world.accepted[id, text] += 1
        self.world.taken_back |= {(id, queued.message.text) for queued in edited.dropped}

    async def retry(self, id: str = "c1") -> None:
        await self._ask(ChatRow, user.retry, id)

    async def resume(self, id: str = "c1") -> None:
        await self._ask(ChatRow, user.resume, id)

    async def raise_budget(self, budgets: Budgets) -> None:
        await self._ask(bool, _set_budgets, budgets)

    async def compact(self, id: str = "c1") -> None:
        await self._ask(ChatRow, user.compact, id)

    async def fork(self, number: int, text: str | None, new: str, id: str = "c1") -> None:
        message = None if text is None else user_message(text)
        chat = NewChat(id=new, agent="agent", message=message)
        await self._ask(ChatRow, lifecycle.fork, id, number, chat)
        if text is not None:
            self.world.accepted[new, text] += 1

    async def resolve(self, answer: Callable[[JournalCall], ActionAnswer], id: str = "c1") -> None:
        """Answer everything that waits."""
        waiting = await self._read(lambda tx: queries.read_actions(tx, id))
        answers = {call.call_id: answer(call) for call in waiting}
        await self._ask(ChatRow, user.resolve, id, answers)

    async def update(self, id: str = "c1", **changes: Any) -> None:
        await self._ask(ChatRow, user.update, id, changes)

    async def archive(self, id: str = "c1") -> None:
        await self._ask(ChatRow, lifecycle.archive, id)

    async def unarchive(self, id: str = "c1") -> None:
        await self._ask(ChatRow, lifecycle.unarchive, id)

    async def delete(self, id: str) -> None:
        await self._ask(tuple[str, ...], lifecycle.delete, id)
        self.world.taken_back |= {said for said in self.world.accepted if said[0] == id}

    # --- the queue, which may be empty by the time that somebody touches it ---

    async def waiting(self, id: str = "c1") -> dict[str, str]:
        """What waits: texts and their ids, in order."""
        queue = await self._read(lambda tx: read_queue(tx, id))
        return {queued.message.text: queued.id for queued in queue}

    async def remove(self, text: str, id: str = "c1") -> None:
        if (queued := (await self.waiting(id)).get(text)) is not None:
            with suppress(ChatError):
                await self._ask(Queued, user.remove_queued, id, queued)
                self.world.taken_back.add((id, text))

    async def replace(self, text: str, by: str, id: str = "c1") -> None:
        message = user_message(by)
        if (queued := (await self.waiting(id)).get(text)) is not None:
            with suppress(ChatError):
                await self._ask(list[Queued], user.edit_queued, id, queued, message)
                self.world.taken_back.add((id, text))
                self.world.accepted[id, by] += 1

    async def turn_round(self, id: str = "c1") -> None:
        ids = list(reversed((await self.waiting(id)).values()))
        with suppress(ChatError):
            await self._ask(list[Queued], user.reorder, id, ids)

    async def promote(self, text: str, id: str = "c1") -> None:
        if (queued := (await self.waiting(id)).get(text)) is not None:
            with suppress(ChatError):
                await self._ask(Sent, user.promote, id, queued)

    # --- looking ---

    async def asked(self, id: str = "c1") -> None:
        """Wait until somebody is asked for something."""
        while True:
            changed = self.world.changed
            if await self._read(lambda tx: queries.read_actions(tx, id)):
                return
            await changed.wait()

    async def sees(self, signal: str, id: str = "c1") -> None:
        """Wait for something to happen, which after a crash it may not do any more."""
        seen = self.world.signal(signal)
        await self.until(lambda chat: seen.is_set() or not chat.busy, id)

    async def rest(self, *statuses: Status, id: str = "c1") -> ChatRow:
        """The chat once it is at rest, or in one of these states."""
        wanted = statuses or (Status.IDLE, Status.ERROR)
        return await self.until(lambda chat: chat.status in wanted, id)

    async def until(self, reached: Callable[[ChatRow], bool], id: str = "c1") -> ChatRow:
        while True:
            changed = self.world.changed
            chat = await self._read(lambda tx: read_chat(tx, id))
            if reached(chat):
                return chat
            await changed.wait()

    async def _read(self, question: Callable[..., Awaitable[T]]) -> T:
        while True:
            process = await self.world.living()
            try:
                return await process.inner.read(question)
            except Unavailable:  # it has just been closed
                await anyio.sleep(0.5)
