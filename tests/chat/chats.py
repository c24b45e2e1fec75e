"""Chats in any state. They are brought there by transitions alone, never by writing their rows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import count
from typing import Any, Final, Literal, TypeVar

from holdfast.chat import queries
from holdfast.chat.queue import read_queue
from holdfast.chat.rows import (
    ChatRow,
    Deliver,
    Fence,
    JournalCall,
    Queued,
    Status,
    Stored,
    TurnOutcome,
    fence_of,
    read_chat,
)
from holdfast.chat.transitions import claims, lifecycle, runner, user
from holdfast.chat.transitions.claims import ClaimPool, WorkerRow
from holdfast.chat.transitions.commit_step import COMMIT_STEP, Committed, StepCommit
from holdfast.chat.transitions.lifecycle import NewChat
from holdfast.chat.transitions.runner import Leftover
from holdfast.kernel.approval import digest
from holdfast.kernel.decide import Approved, Recorded
from holdfast.kernel.errors import Failure
from holdfast.kernel.events import Action, ActionKind
from holdfast.kernel.limits import LimitReached
from holdfast.kernel.messages import (
    Message,
    Text,
    ToolCall,
    ToolOutcome,
    ToolResult,
    Usage,
    note,
    results_message,
    user_message,
)
from holdfast.kernel.tool import Effect
from holdfast.store.database import Changed, ChangeNotice, Claimable, Database, Tx
from holdfast.testing import Clock

T = TypeVar("T")

SECOND: Final = 1_000_000
LEASE: Final = 15 * SECOND
ME: Final = "w1"
"""The worker that drives the chats of a test unless another is named."""
TABLES: Final[Mapping[str, str]] = {
    "chats": "id",
    "messages": "chat_id, number",
    "queue": "chat_id, id",
    "tool_calls": "chat_id, call_id",
    "awaited": "chat_id, call_id, child_id",
    "partials": "chat_id",
    "usage": "chat_id, id",
    "requests": "caller, key",
    "shares": "id",
    "workers": "id",
    "marks": "reader, chat_id",
    "gone": "chat_id, reader",
    "deleted_spending": "chat_id",
    "budgets": "scope, id",
    "unsearched": "chat_id",
    "passages": "id",
}
"""Every table and its primary key."""
COLUMNS: Final[Mapping[str, str]] = {
    "messages": "chat_id, number, revision, role, kind, visibility, body, author, epoch, runtime, "
    "input, output, reasoning, cache_read, cache_write, cost, created_at, superseded_at",
}
"""Columns of the tables in which the databases do not have them in the same order."""

State = Literal["open", "waiting", "approved", "started", "recorded"]
"""How far a call is; `open`: asked for, and no more."""
FAILURE: Final = Failure("overloaded", "The model is overloaded.", retryable=True)


# --- messages ---


async def restore(tx: Tx, new_chat: NewChat, messages: Sequence[Stored]) -> ChatRow:
    """Create an idle chat with these messages."""
    return await lifecycle.restore(tx, new_chat, lifecycle.rows_of(new_chat.id, messages))


def prompt(text: str) -> Message:
    return user_message(text)


def answer(
    text: str, *calls: ToolCall, usage: Usage | None = None, runtime: int | None = None
) -> Message:
    return Message("assistant", (Text(text), *calls), "answer", usage=usage, runtime=runtime)


def asks(call_id: str, tool: str = "work") -> ToolCall:
    return ToolCall(call_id, tool, "{}")


def leftover(**produced: Any) -> Leftover:
    """What an interrupted step produced. A settlement uses the fence of its own write."""
    began = Fence("c1", 1, Status.RUNNING, 1, 1)
    return Leftover(fence=began, last_number=0, **produced)


def made(call_id: str, text: str = "done", outcome: ToolOutcome = "ok") -> ToolResult:
    return ToolResult(call_id, "work", (Text(text),), outcome)


def given_result(call_id: str, text: str = "from outside") -> Recorded:
    return Recorded(made(call_id, text))


def approval(call_id: str) -> Approved:
    return Approved(digest(call_id, "work", "{}"))


def texts_of(history: Sequence[Stored]) -> list[str]:
    """A history in short: texts, calls as `?id`, results as `id=outcome`."""
    return [_short(stored.message) for stored in history]


def _short(message: Message) -> str:
    calls = [f"?{call.id}" for call in message.calls]
    results = [f"{result.call_id}={result.outcome}" for result in message.results]
    return " ".join([*([message.text] if message.text else []), *calls, *results])


def row_of_call(
    chat: ChatRow,
    call_id: str,
    state: Literal["waiting", "started", "finished"],
    *,
    action: ActionKind = "client",
    deadline: int | None = None,
    effect: Effect = "once",
    number: int | None = None,
    result: ToolResult | None = None,
) -> JournalCall:
    """What a runner writes into the journal about a call of the last message."""
    waits = state == "waiting"
    return JournalCall(
        call_id=call_id,
        number=number or chat.messages,
        tool="work",
        effect=effect,
        state=state,
        action=action if waits else None,
        asked=Action(action, asks(call_id), "{}", digest(call_id, "work", "{}")) if waits else None,
        deadline=deadline,
        epoch=chat.epoch,
        started_at=None if waits else 1,
        result=result,
        outcome=None if result is None else result.outcome,
    )


# --- chats ---


class Chats:
    """A database with chats in it, and the notices that it sent."""

    def __init__(self, db: Database, clock: Clock) -> None:
        self.db = db
        self.clock = clock
        self.notices: list[ChangeNotice] = []
        self._ids = count(1)

    async def do(self, transition: Callable[..., Awaitable[T]], *args: Any, **options: Any) -> T:
        """One transition, in a transaction of its own."""
        return await self.db.write(lambda tx: transition(tx, *args, **options))

    async def ask(self, query: Callable[..., Awaitable[T]], *args: Any, **options: Any) -> T:
        return await self.db.read(lambda tx: query(tx, *args, **options))

    async def row(self, id: str = "c1") -> ChatRow:
        return await self.ask(read_chat, id)

    async def history(self, id: str = "c1") -> list[Stored]:
        return await self.ask(queries.read_history, id)

    async def texts(self, id: str = "c1") -> list[str]:
        return texts_of(await self.history(id))

    async def queued(self, id: str = "c1") -> list[str]:
        """The texts that wait, in order."""
        return [queued.message.text for queued in await self.ask(read_queue, id)]

    async def load(self, id: str = "c1") -> queries.Loaded:
        return await self.ask(queries.load, id)

    async def everything(self) -> dict[str, list[tuple[Any, ...]]]:
        """Every row of every table."""

        async def dump(tx: Tx) -> dict[str, list[tuple[Any, ...]]]:
            return {
                table: [
                    tuple(row)
                    for row in await tx.fetch(
                        f"SELECT {COLUMNS.get(table, '*')} FROM {table} ORDER BY {by}"
                    )
                ]
                for table, by in TABLES.items()
            }

        return await self.db.read(dump)

    def take_notices(self) -> list[ChangeNotice]:
        """Return the notices since the last call."""
        notices, self.notices[:] = list(self.notices), []
        return notices

    # --- steps towards a state ---

    async def create(self, id: str = "c1", text: str | None = "hello", **more: Any) -> ChatRow:
        message = None if text is None else prompt(text)
        new = NewChat(id=id, agent=more.pop("agent", "agent"), message=message, **more)
        return await self.do(lifecycle.create, new)

    async def beat(self, worker: str = ME, **more: Any) -> WorkerRow:
        me = WorkerRow(id=worker, lease=LEASE, **{"agents": ("agent",), **more})
        await self.do(claims.write_heartbeat, me)
        return me

    async def claim(
        self, pool: ClaimPool = "root", *, worker: str = ME, limit: int = 100, **more: Any
    ) -> list[str]:
        """What a worker gets that says it is alive and claims: the ids, in order."""
        me = await self.beat(worker, **more)
        claimed = await self.do(claims.claim, me, {pool: limit})
        return [chat.id for chat in claimed[pool]]

    async def send(self, id: str, text: str, deliver: Deliver = "queue") -> user.Sent:
        queued = Queued(f"m{next(self._ids)}", deliver, prompt(text), 0)
        return await self.do(user.send, id, queued)

    async def fill(self, id: str, queue: Sequence[Deliver]) -> None:
        """Messages that wait: `q1`, `q2`, … are their ids and what they say."""
        for number, deliver in enumerate(queue, start=1):
            waiting = Queued(f"q{number}", deliver, prompt(f"q{number}"), 0)
            await self.do(user.send, id, waiting)

    async def commit(self, id: str, *messages: Message) -> Committed:
        step = StepCommit(fence_of(await self.row(id)), messages)
        committed = await self.db.write_together(COMMIT_STEP, step)
        assert isinstance(committed, Committed)
        return committed

    async def results(self, id: str, *results: ToolResult) -> None:
        await self.commit(id, results_message(results))

    # --- states ---

    async def running(
        self,
        id: str = "c1",
        *,
        calls: Mapping[str, State] | None = None,
        queue: Sequence[Deliver] = (),
        **more: Any,
    ) -> ChatRow:
        """A chat that `ME` drives: at its prompt, or at an answer with calls."""
        await self.create(id, **more)
        assert id in await self.claim("root")
        await self.fill(id, queue)
        if calls:
            await self.commit(id, answer("let me see", *map(asks, calls)))
            await self.bring_calls(id, calls)
        return await self.row(id)

    async def bring_calls(self, id: str, calls: Mapping[str, State]) -> None:
        """Bring open calls of the last message to where they are to be."""
        chat = await self.row(id)
        rows = [
            row_of_call(
                chat,
                call,
                "started" if state == "started" else "waiting",
                action="approval" if state == "approved" else "client",
            )
            for call, state in calls.items()
            if state not in ("open", "recorded")
        ]
        if rows:
            await self.do(runner.start_calls, fence_of(chat), rows)
        for call, state in calls.items():
            if state == "approved":
                await self.do(user.resolve, id, {call: approval(call)})
            if state == "recorded":
                finished = row_of_call(chat, call, "finished", result=made(call))
                assert await self.do(runner.finish_call, id, finished)

    async def interrupting(self, id: str = "c1", **more: Any) -> ChatRow:
        await self.running(id, **more)
        return await self.do(user.interrupt, id)

    async def requires_action(
        self,
        id: str = "c1",
        *,
        calls: Mapping[str, int | None] | None = None,
        queue: Sequence[Deliver] = (),
        owned: bool = False,
        action: ActionKind = "client",
    ) -> ChatRow:
        """Calls, each with the seconds that it waits, or for ever; `owned`: until they are over."""
        waits = calls or {"a": 10 if owned else None, "b": None}
        await self.running(id, queue=queue)
        await self.commit(id, answer("let me ask", *map(asks, waits)))
        chat = await self.row(id)
        rows = [
            row_of_call(chat, call, "waiting", action=action, deadline=self.after(seconds))
            for call, seconds in waits.items()
        ]
        advanced = await self.do(runner.require_action, fence_of(chat), rows)
        assert advanced.chat.status is Status.REQUIRES_ACTION
        if owned:
            self.clock.advance(max(seconds or 0 for seconds in waits.values()))
            assert id in await self.claim("urgent")
        return await self.row(id)

    def after(self, seconds: int | None) -> int | None:
        return None if seconds is None else self.clock.now() + seconds * SECOND

    async def idle(self, id: str = "c1", **more: Any) -> ChatRow:
        await self.running(id, **more)
        await self.commit(id, answer("here you are"))
        return await self.finish(id)

    async def finish(self, id: str = "c1") -> ChatRow:
        advanced = await self.do(
            runner.finish_turn, fence_of(await self.row(id)), TurnOutcome("stop", 1)
        )
        return advanced.chat

    async def limited(self, id: str = "c1", **more: Any) -> ChatRow:
        """A chat whose last turn ended at its limit of one step."""
        await self.running(id, calls={"a": "open"}, **more)
        await self.results(id, made("a"))
        limit = LimitReached("steps", "turn", 1, 1)
        end = runner.Outcome(messages=(note(limit.sentence, limit),))
        outcome = TurnOutcome("limit", 1, limit=limit)
        fence = fence_of(await self.row(id))
        return (await self.do(runner.finish_turn, fence, outcome, end)).chat

    async def error(self, id: str = "c1", **more: Any) -> ChatRow:
        chat = await self.running(id, **more)
        return (await self.do(runner.fail, fence_of(chat), FAILURE)).chat

    async def archived(self, id: str = "c1", status: Status = Status.IDLE) -> ChatRow:
        await (self.idle(id) if status is Status.IDLE else self.error(id))
        return await self.do(lifecycle.archive, id)

    async def child(
        self, parent: str, id: str, call: str = "spawn", text: str = "help me", **more: Any
    ) -> ChatRow:
        """A chat that a running one spawns: its last message asks for it."""
        chat = await self.row(parent)
        if await self.last_is_prompt(parent):
            await self.commit(parent, answer("I need help", asks(call)))
            chat = await self.row(parent)
        new = NewChat(id=id, agent="agent", message=prompt(text), **more)
        outcome = runner.Outcome(results=(made(call),), writes={call: (lifecycle.Spawn(new),)})
        await self.do(runner.commit_step, fence_of(chat), outcome)
        return await self.row(id)

    async def last_is_prompt(self, id: str) -> bool:
        return (await self.history(id))[-1].message.kind != "answer"

    async def rest(self, id: str) -> ChatRow:
        """A chat that runs and belongs to nobody or to `ME` comes to its end."""
        if (await self.row(id)).worker_id is None:
            claimed = [*await self.claim("child"), *await self.claim("root")]
            assert id in claimed
        await self.commit(id, answer(f"{id} is done"))
        return await self.finish(id)


def runnable_now(chat: ChatRow, now: int) -> bool:
    """As the design says it, for a chat that waits for no children."""
    return not chat.archived and (
        (chat.status is Status.RUNNING and (chat.retry_at or 0) <= now)
        or chat.status is Status.INTERRUPTING
        or (
            chat.status is Status.REQUIRES_ACTION
            and chat.deadline is not None
            and chat.deadline <= now
        )
    )


def expected_notices(chat: ChatRow, now: int) -> list[ChangeNotice]:
    """What everybody is told of a change of a chat without a family."""
    wanted = chat.worker_id is None and runnable_now(chat, now)
    return [
        Changed(chat.id, chat.snapshot_version),
        *([Claimable(chat.id)] if wanted else []),
    ]
