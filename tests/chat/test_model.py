"""Transitions in any order, on both databases at once, against a pure model of a chat."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from itertools import count
from pathlib import Path
from typing import Any, Final

import anyio
import pytest
from hypothesis import HealthCheck, currently_in_test_context, event, given, settings
from hypothesis import strategies as st
from msgspec import Struct, structs

from holdfast.chat import doctor, queries
from holdfast.chat.errors import ChatError, Fenced
from holdfast.chat.journal import open_calls
from holdfast.chat.rows import ChatRow, Queued, Status, Stored, TurnOutcome, fence_of
from holdfast.chat.transitions import lifecycle, runner, user
from holdfast.kernel.messages import Message
from holdfast.store.database import Tx
from holdfast.store.sqlite.database import open_sqlite
from holdfast.testing import Clock
from tests.chat.chats import (
    FAILURE,
    SECOND,
    Chats,
    answer,
    approval,
    asks,
    given_result,
    leftover,
    made,
    prompt,
    row_of_call,
    texts_of,
)
from tests.chat.model import LEASE, Model, Refused

# --- operations: what is done to the model, with which arguments ---

Arguments = tuple[Any, ...]
Choose = Callable[[Model, int, str], Arguments | None]
"""The arguments for an operation, from a number and a new name; None: it makes no sense now."""


def _one(among: list[Any], n: int) -> Any:
    return among[n % len(among)] if among else "nothing"


def _some(among: list[str], n: int) -> list[str]:
    return [call for place, call in enumerate(among) if not n >> place & 1] or among[:1]


def _idle_calls(model: Model, n: int) -> list[str]:
    return _some([call for call in model.open if model.state(call) is None], n)


def _ready(model: Model) -> list[str]:
    return [call for call in model.open if model.state(call) != "waiting"]


def _startable(model: Model, n: int, _: str) -> Arguments | None:
    calls = [call for call in model.open if model.state(call) in (None, "approved", "started")]
    return (_some(calls, n),) if calls else None


def _waitable(model: Model, n: int, _: str) -> Arguments | None:
    calls = _idle_calls(model, n)
    return (calls, n % 2 == 1, [None, 5, 40][n % 3]) if calls else None


def _answer(model: Model, n: int, name: str) -> Arguments | None:
    return None if model.open else (name, tuple(f"{name}.{i}" for i in range(n % 4)))


def _settle(model: Model, n: int, name: str) -> Arguments:
    return ("" if model.open or n % 2 else name, _ready(model)[: n % 3])


CHOICES: Final[Mapping[str, Choose]] = {
    "send": lambda m, n, name: (name, ("queue", "steer", "interrupt")[n % 3]),
    "interrupt": lambda m, n, name: (),
    "promote": lambda m, n, name: (_one(m.waiting, n),),
    "remove": lambda m, n, name: (_one(m.waiting, n),),
    "make": lambda m, n, name: (_one(m.waiting, n // 2), ("steer", "queue")[n % 2]),
    "reverse": lambda m, n, name: (),
    "edit": lambda m, n, name: (_one(m.prompts, n), name),
    "retry": lambda m, n, name: (),
    "compact": lambda m, n, name: (),
    "resolve": lambda m, n, name: (_some(m.actions, n),),
    "update": lambda m, n, name: (),
    "archive": lambda m, n, name: (),
    "unarchive": lambda m, n, name: (),
    "claim": lambda m, n, name: (),
    "crash": lambda m, n, name: (),
    "release": lambda m, n, name: (),
    "start": _startable,
    "wait": _waitable,
    "finish_call": lambda m, n, name: (_one(m.open, n),),
    "answer": _answer,
    "results": lambda m, n, name: (_ready(m),) if _ready(m) else None,
    "require_action": lambda m, n, name: (),
    "expire": lambda m, n, name: (),
    "deliver": lambda m, n, name: (),
    "record_retry": lambda m, n, name: (n * 10, n > 3),
    "finish_turn": lambda m, n, name: None if m.open else (),
    "settle": _settle,
    "fail": lambda m, n, name: (name if n % 2 else "",),
}

# --- the same, done to a chat ---

Act = Callable[..., Awaitable[Any]]


def _send(chats: Chats, chat: ChatRow, id: str, deliver: Any) -> Awaitable[Any]:
    return chats.do(user.send, chat.id, Queued(id, deliver, prompt(id), 0))


def _resolve(chats: Chats, chat: ChatRow, calls: list[str], approvals: set[str]) -> Awaitable[Any]:
    answers = {c: approval(c) if c in approvals else given_result(c) for c in calls}
    return chats.do(user.resolve, chat.id, answers)


async def _reverse(chats: Chats, chat: ChatRow) -> None:
    ids = [queued.id for queued in (await chats.load(chat.id)).queue]
    await chats.do(user.reorder, chat.id, ids[::-1])


async def _claim(chats: Chats, chat: ChatRow) -> None:
    worker = f"worker of epoch {chat.epoch + 1}"
    for pool in ("urgent", "root"):
        await chats.claim(pool, worker=worker, agents=(chat.agent,))


def _under_fence(transition: Act, *args: Any, **more: Any) -> Callable[..., Awaitable[Any]]:
    return lambda chats, chat: chats.do(transition, fence_of(chat), *args, **more)


async def _number(chats: Chats, chat: ChatRow) -> int:
    """Of the message that asks for the open calls."""
    history = [s for s in await chats.history(chat.id) if s.message.visibility != "user"]
    answers = [s.number for s in history if s.message.kind == "answer"]
    return answers[-1] if answers else 1


async def _start(chats: Chats, chat: ChatRow, calls: list[str]) -> None:
    number = await _number(chats, chat)
    rows = [row_of_call(chat, call, "started", number=number) for call in calls]
    await chats.do(runner.start_calls, fence_of(chat), rows)


async def _wait(
    chats: Chats, chat: ChatRow, calls: list[str], approves: bool, seconds: int | None
) -> None:
    number, action = await _number(chats, chat), "approval" if approves else "client"
    until = chats.after(seconds)
    rows = [
        row_of_call(chat, c, "waiting", number=number, action=action, deadline=until)  # type: ignore[arg-type]
        for c in calls
    ]
    await chats.do(runner.start_calls, fence_of(chat), rows)


async def _finish_call(chats: Chats, chat: ChatRow, call: str) -> None:
    number = await _number(chats, chat)
    row = row_of_call(chat, call, "finished", number=number, result=made(call))
    if not await chats.do(runner.finish_call, chat.id, row):
        raise Fenced


async def _require(chats: Chats, chat: ChatRow) -> None:
    number = await _number(chats, chat)
    calls = await chats.ask(open_calls, chat.id)
    rows = [row_of_call(chat, call.id, "waiting", number=number) for call in calls]
    await chats.do(runner.require_action, fence_of(chat), rows)


def _shown(text: str) -> Message | None:
    return structs.replace(answer(text), visibility="user") if text else None


ACTS: Final[Mapping[str, Act]] = {
    "send": _send,
    "interrupt": lambda chats, chat: chats.do(user.interrupt, chat.id),
    "promote": lambda chats, chat, id: chats.do(user.promote, chat.id, id),
    "remove": lambda chats, chat, id: chats.do(user.remove_queued, chat.id, id),
    "make": lambda chats, chat, id, deliver: chats.do(
        user.edit_queued, chat.id, id, prompt(id), deliver
    ),
    "reverse": _reverse,
    "edit": lambda chats, chat, number, text: chats.do(user.edit, chat.id, number, prompt(text)),
    "retry": lambda chats, chat: chats.do(user.retry, chat.id),
    "compact": lambda chats, chat: chats.do(user.compact, chat.id),
    "resolve": _resolve,
    "update": lambda chats, chat: chats.do(user.update, chat.id, {"effort": "high"}),
    "archive": lambda chats, chat: chats.do(lifecycle.archive, chat.id),
    "unarchive": lambda chats, chat: chats.do(lifecycle.unarchive, chat.id),
    "claim": _claim,
    "crash": _claim,
    "release": _under_fence(runner.release),
    "start": _start,
    "wait": _wait,
    "finish_call": _finish_call,
    "answer": lambda chats, chat, text, calls: chats.do(
        runner.commit_step,
        fence_of(chat),
        runner.Outcome(messages=(answer(text, *map(asks, calls)),)),
    ),
    "results": lambda chats, chat, calls: chats.do(
        runner.commit_step, fence_of(chat), runner.Outcome(results=tuple(map(made, calls)))
    ),
    "require_action": _require,
    "expire": _under_fence(runner.expire),
    "deliver": _under_fence(runner.deliver),
    "record_retry": lambda chats, chat, seconds, release: chats.do(
        runner.record_retry, fence_of(chat), FAILURE, 3, seconds * SECOND, release=release
    ),
    "finish_turn": _under_fence(runner.finish_turn, TurnOutcome("stop")),
    "settle": lambda chats, chat, text, calls: chats.do(
        runner.settle,
        fence_of(chat),
        leftover(answer=answer(text) if text else None, results=tuple(map(made, calls))),
    ),
    "fail": lambda chats, chat, text: chats.do(runner.fail, fence_of(chat), FAILURE, _shown(text)),
}
assert set(ACTS) == set(CHOICES)

# --- both at once ---


class Seen(Struct, frozen=True):
    """All that is read of a chat, at one moment."""

    loaded: queries.Loaded
    messages: tuple[Stored, ...]
    """Also those that were superseded."""


async def read_state(tx: Tx, id: str) -> Seen:
    messages = await queries.read_messages(tx, id, limit=10_000, superseded=True)
    return Seen(await queries.load(tx, id), tuple(messages))


class Pair:
    """The same chat in both databases, its model, and what was committed so far."""

    def __init__(self, sides: list[Chats], id: str) -> None:
        self.sides = sides
        self.id = id
        self.model = Model()
        self.seen: list[Seen] = []
        self.accepted: set[str] = set()
        self.taken_back: set[str] = set()

    async def begin(self) -> None:
        for chats in self.sides:
            await chats.create(self.id, "first", agent=self.id)
        self.model.snapshot = 1
        self.model._append("prompt", "first")
        await self.check()

    async def do(self, op: str, n: int, name: str) -> None:
        """Do it to the model and to both chats: they accept it together, or refuse it together."""
        chosen = CHOICES[op](self.model, n, name)
        if chosen is None:
            return
        approvals = {call for call, known in self.model.journal.items() if known.approval}
        before, waiting = self.model.copy(), set(self.model.waiting)
        try:
            getattr(self.model, op)(*chosen)
            refused = False
        except Refused:
            self.model, refused = before, True
        if currently_in_test_context():
            event(f"{op} {'refused' if refused else 'done'}")
        if op == "crash":
            self.sides[0].clock.advance(LEASE)
        given = (*chosen, approvals) if op == "resolve" else chosen
        for chats, seen in zip(self.sides, self.seen, strict=True):
            with pytest.raises((ChatError, Fenced)) if refused else nullcontext():
                await ACTS[op](chats, seen.loaded.chat, *given)
        self._account(op, chosen, refused, waiting)
        await self.check(untouched=refused)

    def _account(self, op: str, chosen: Arguments, refused: bool, waiting: set[str]) -> None:
        if refused:
            return
        if op == "send":
            self.accepted.add(chosen[0])
        if op == "remove":
            self.taken_back.add(chosen[0])
        if op == "edit":
            self.taken_back |= waiting

    # --- what must be so after each step ---

    async def check(self, *, untouched: bool = False) -> None:
        before, self.seen = (
            self.seen,
            [await chats.ask(read_state, self.id) for chats in self.sides],
        )
        assert self.seen[0] == self.seen[1]
        assert self.state(self.seen[0].loaded) == self.expected()
        if untouched:
            assert self.seen == before
        self.check_history(self.seen[0].messages, before[0].messages if before else ())

    def state(self, loaded: queries.Loaded) -> dict[str, Any]:
        """All that the model has an opinion of."""
        chat = loaded.chat
        return {
            "status": chat.status,
            "archived": chat.archived,
            "error": chat.error is not None,
            "owned": chat.worker_id is not None,
            "epoch": chat.epoch,
            "crashes": chat.crashes,
            "versions": (chat.snapshot_version, chat.history_version, chat.queue_version),
            "attempt": chat.attempt,
            "waits": chat.retry_at is not None and chat.retry_at > loaded.now,
            "deadline": chat.deadline is not None,
            "compaction": chat.compaction is not None,
            "messages": chat.messages,
            "history": texts_of(loaded.history),
            "queue": [queued.id for queued in loaded.queue],
            "journal": {id: call.state for id, call in loaded.journal.items()},
        }

    def expected(self) -> dict[str, Any]:
        model = self.model
        at_rest = model.status is Status.REQUIRES_ACTION
        return {
            "status": model.status,
            "archived": model.archived,
            "error": model.status is Status.ERROR,
            "owned": model.owned,
            "epoch": model.epoch,
            "crashes": model.crashes,
            "versions": (model.snapshot, model.history_version, model.queue_version),
            "attempt": model.attempt,
            "waits": model.retry_at is not None and model.retry_at > model.now,
            "deadline": at_rest and model.deadline is not None,
            "compaction": model.compaction,
            "messages": model.messages,
            "history": [entry.short for entry in model.history],
            "queue": model.waiting,
            "journal": {id: call.state for id, call in model.journal.items()},
        }

    def check_history(self, rows: Sequence[Stored], before: Sequence[Stored]) -> None:
        assert [stored.number for stored in rows] == list(range(1, len(rows) + 1))
        messages = [stored.message for stored in rows]
        assert messages[: len(before)] == [stored.message for stored in before]
        calls = [call.id for message in messages for call in message.calls]
        assert len(calls) == len(set(calls))
        _check_sequence([s.message for s in rows if s.superseded_at is None])
        self._check_nothing_lost(messages)

    def _check_nothing_lost(self, committed: Sequence[Message]) -> None:
        prompts = [message.text for message in committed if message.kind == "prompt"]
        assert len(prompts) == len(set(prompts))
        waiting = set(self.model.waiting)
        assert not waiting & set(prompts)
        assert self.accepted <= waiting | set(prompts) | self.taken_back
        assert self.model.status is not Status.IDLE or not waiting


def _check_sequence(history: list[Message]) -> None:
    """Every call has one result before the next message of a user or a model."""
    open_calls: set[str] = set()
    for message in history:
        if message.visibility == "user":
            continue
        if message.kind in ("prompt", "answer"):
            assert not open_calls
            open_calls = {call.id for call in message.calls}
        for result in message.results:
            assert result.call_id in open_calls
            open_calls.discard(result.call_id)


@pytest.fixture
async def both(postgres: Chats, tmp_path: Path, clock: Clock) -> AsyncIterator[Callable[[], Pair]]:
    """Makes a new chat in both databases each time."""
    numbers = count(1)
    path = tmp_path / "chats.db"
    async with open_sqlite(path, now=clock.now, thread=False) as sqlite:
        sides = [Chats(sqlite, clock), postgres]
        yield lambda: Pair(sides, f"chat {next(numbers):04}")
        for chats in sides:
            await doctor.check(chats.db)


WEIGHT: Final[Mapping[str, int]] = {
    "send": 3,
    "claim": 4,
    "answer": 6,
    "start": 3,
    "wait": 8,
    "require_action": 8,
    "resolve": 8,
    "expire": 20,
    "crash": 2,
    "finish_call": 4,
    "results": 5,
    "deliver": 6,
    "settle": 4,
    "finish_turn": 3,
    "retry": 3,
    "unarchive": 9,
}
"""How often what is possible is done, where it is not once: the rare states need some help."""


def enabled(model: Model, n: int) -> list[str]:
    """What the model would accept, and would be changed by."""
    found = []
    for op, choose in CHOICES.items():
        tried = model.copy()
        chosen = choose(tried, n, op)
        if chosen is None:
            continue
        try:
            getattr(tried, op)(*chosen)
        except Refused:
            continue
        if tried != model:
            found.extend([op] * WEIGHT.get(op, 1))
    return found


def choose_operation(model: Model, pick: int, n: int) -> str:
    """Mostly one that is possible, now and then any."""
    possible = enabled(model, n)
    if pick % 8 and possible:
        return possible[pick // 8 % len(possible)]
    return list(CHOICES)[pick // 8 % len(CHOICES)]


OPERATIONS: Final = st.lists(
    st.tuples(st.integers(0, 1023), st.integers(0, 7)), min_size=15, max_size=30
)


EXAMPLES: Final = 40 if settings().derandomize else settings().max_examples
"""Some ten seconds' worth, unless new ones are looked for."""


@settings(
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(OPERATIONS)
async def test_transitions_in_any_order_keep_every_invariant_and_both_databases_agree(
    both: Callable[[], Pair], operations: list[tuple[int, int]]
) -> None:
    pair = both()
    await pair.begin()
    story = []
    for place, (pick, n) in enumerate(operations):
        story.append((choose_operation(pair.model, pick, n), n))
        try:
            await pair.do(*story[-1], f"{story[-1][0]}-{place}")
        except BaseException as error:
            error.add_note(f"the story so far: {story}")
            raise
    await same_rows(pair)
    await anyio.sleep(0.001)


async def same_rows(pair: Pair) -> None:
    """Both databases have the same rows, byte for byte."""
    ours, theirs = [
        {
            table: [row for row in rows if pair.id in row]
            for table, rows in (await chats.everything()).items()
        }
        for chats in pair.sides
    ]
    assert ours == theirs


async def test_the_model_reaches_every_status(both: Callable[[], Pair]) -> None:
    pair = both()
    await pair.begin()
    story = [
        ("claim", 0),
        ("answer", 2),
        ("wait", 1),
        ("require_action", 0),
        ("crash", 0),
        ("expire", 0),
        ("resolve", 0),
        ("claim", 0),
        ("results", 0),
        ("send", 1),
        ("deliver", 0),
        ("interrupt", 0),
        ("settle", 0),
        ("send", 0),
        ("claim", 0),
        ("fail", 1),
        ("retry", 0),
    ]
    seen = set()
    for place, (op, n) in enumerate(story):
        await pair.do(op, n, f"{op}-{place}")
        seen.add(pair.model.status)
    assert seen == set(Status)
