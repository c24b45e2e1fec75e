"""Every cell of the table of transitions: a chat that it applies to, and what is done to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import contextmanager
from typing import Any, Final

from holdfast.chat.errors import Fenced
from holdfast.chat.rows import ChatRow, Status, TurnOutcome, fence_of
from holdfast.chat.state_machine import TRANSITIONS, Transition
from holdfast.chat.transitions import lifecycle, runner, user
from tests.chat.chats import (
    FAILURE,
    Chats,
    answer,
    asks,
    given_result,
    leftover,
    made,
    prompt,
    row_of_call,
)

S, T = Status, Transition
Act = Callable[[Chats, ChatRow], Awaitable[Any]]
Cell = tuple[Status, Transition, Status]

CELLS: Final = sorted(
    (status, transition, outcome)
    for (status, transition), outcomes in TRANSITIONS.items()
    for outcome in outcomes
)
REFUSED: Final = sorted(
    (status, transition)
    for status in Status
    for transition in Transition
    if (status, transition) not in TRANSITIONS
)
RUNNERS: Final = frozenset(
    {
        T.EXPIRE,
        T.DELIVER,
        T.COMMIT_STEP,
        T.RECORD_RETRY,
        T.START_CALLS,
        T.FINISH_CALL,
        T.REQUIRE_ACTION,
        T.FINISH_TURN,
        T.SETTLE,
        T.FAIL,
    }
)
"""What only the worker that has the chat may do."""
QUEUE: Final = frozenset({T.PROMOTE, T.EDIT_QUEUED, T.REORDER, T.REMOVE_QUEUED})

SENDS: Final = frozenset(user.SENDS.values())

# --- a chat in the state that a cell is about ---

QUEUED: Final[frozenset[Cell]] = frozenset(
    {
        (S.REQUIRES_ACTION, T.INTERRUPT, S.RUNNING),
        (S.RUNNING, T.FINISH_TURN, S.RUNNING),
        (S.INTERRUPTING, T.SETTLE, S.RUNNING),
    }
)
"""Outcomes that need a message in the queue."""
CALLS: Final[Mapping[Status, Mapping[str, Any]]] = {
    S.RUNNING: {"a": "started", "b": "waiting"},
    S.INTERRUPTING: {"a": "started", "b": "waiting"},
    S.ERROR: {"a": "started"},
}


async def bring(
    chats: Chats, id: str, status: Status, transition: Transition, outcome: Status | None = None
) -> ChatRow:
    """A chat that has all that the transition needs; `outcome` when there are several."""
    options: dict[str, Any] = {}
    if transition in QUEUE or (outcome and (status, transition, outcome) in QUEUED):
        options["queue"] = ("queue", "queue")
    if transition is T.DELIVER or (status, transition, outcome) == (
        (S.RUNNING, T.REQUIRE_ACTION, S.RUNNING)
    ):
        options["queue"] = ("steer",)
    match status:
        case Status.IDLE if transition is T.RESUME:
            return await chats.limited(id)
        case Status.IDLE:
            return await chats.idle(id)
        case Status.REQUIRES_ACTION:
            return await _waiting(chats, id, transition, outcome, options.get("queue", ()))
        case Status.RUNNING if transition in (T.FINISH_TURN, T.REQUIRE_ACTION):
            await chats.running(id, **options)
            asked = [] if transition is T.FINISH_TURN else [asks("a"), asks("b")]
            await chats.commit(id, answer("so far", *asked))
            return await chats.row(id)
        case _:
            way = {
                S.RUNNING: chats.running,
                S.INTERRUPTING: chats.interrupting,
                S.ERROR: chats.error,
            }[status]
            return await way(id, calls=CALLS[status], **options)


async def _waiting(
    chats: Chats, id: str, transition: Transition, outcome: Status | None, queue: Any
) -> ChatRow:
    if queue == ("steer",):
        queue = ("queue",)  # a steering message would not let the chat rest
    if transition is T.EXPIRE and outcome is S.RUNNING:
        return await chats.requires_action(id, calls={"a": 10, "b": 10}, owned=True)
    return await chats.requires_action(id, queue=queue, owned=transition in RUNNERS)


# --- what is done to it ---


def _send(deliver: Any) -> Act:
    async def send(chats: Chats, chat: ChatRow) -> None:
        await chats.send(chat.id, "now this", deliver)

    return send


def _people(transition: Callable[..., Awaitable[Any]], *args: Any) -> Act:
    return lambda chats, chat: chats.do(transition, chat.id, *args)


def _runner(transition: Callable[..., Awaitable[Any]], *args: Any) -> Act:
    return lambda chats, chat: chats.do(transition, fence_of(chat), *args)


async def _start(chats: Chats, chat: ChatRow) -> None:
    await chats.do(
        runner.start_calls, fence_of(chat), [row_of_call(chat, "a", "started", number=2)]
    )


async def _finish_call(chats: Chats, chat: ChatRow) -> None:
    result = row_of_call(chat, "a", "finished", number=2, result=made("a"))
    if not await chats.do(runner.finish_call, chat.id, result):
        raise Fenced


async def _require(chats: Chats, chat: ChatRow) -> None:
    rows = [row_of_call(chat, id, "waiting") for id in ("a", "b")]
    await chats.do(runner.require_action, fence_of(chat), rows)


ACTS: Final[Mapping[Transition, Act]] = {
    T.SEND_QUEUE: _send("queue"),
    T.SEND_STEER: _send("steer"),
    T.SEND_INTERRUPT: _send("interrupt"),
    T.INTERRUPT: _people(user.interrupt),
    T.PROMOTE: _people(user.promote, "q2"),
    T.EDIT_QUEUED: _people(user.edit_queued, "q2", prompt("rather this")),
    T.REORDER: _people(user.reorder, ["q2", "q1"]),
    T.REMOVE_QUEUED: _people(user.remove_queued, "q1"),
    T.EDIT: _people(user.edit, 1, prompt("I meant this")),
    T.RETRY: _people(user.retry),
    T.RESUME: _people(user.resume),
    T.COMPACT: _people(user.compact),
    T.RESOLVE: _people(user.resolve, {"b": given_result("b")}),
    T.EXPIRE: _runner(runner.expire),
    T.DELIVER: _runner(runner.deliver),
    T.COMMIT_STEP: _runner(runner.commit_step, runner.Outcome(results=(made("a"),))),
    T.RECORD_RETRY: _runner(runner.record_retry, FAILURE, 3, 0),
    T.START_CALLS: _start,
    T.FINISH_CALL: _finish_call,
    T.REQUIRE_ACTION: _require,
    T.FINISH_TURN: _runner(runner.finish_turn, TurnOutcome("stop", 1)),
    T.SETTLE: _runner(runner.settle, leftover(results=(made("a"),))),
    T.FAIL: _runner(runner.fail, FAILURE),
    T.UPDATE: _people(user.update, {"title": "A new title"}),
    T.ARCHIVE: _people(lifecycle.archive),
}
ACTS_FOR: Final[Mapping[Cell, Act]] = {
    (S.REQUIRES_ACTION, T.RESOLVE, S.RUNNING): _people(
        user.resolve, {"a": given_result("a"), "b": given_result("b")}
    ),
}
"""Where the outcome depends on what is said."""

UNTOUCHED: Final = frozenset(
    {(S.IDLE, T.INTERRUPT), (S.INTERRUPTING, T.INTERRUPT), (S.ERROR, T.INTERRUPT)}
)
"""Allowed, and nothing comes of it."""


@contextmanager
def cell(*names: object) -> Any:
    """A failure says which cell of the table it was."""
    try:
        yield
    except BaseException as error:
        error.add_note(" × ".join(map(str, names)))
        raise
