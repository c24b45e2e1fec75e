"""The state machine of a chat: every allowed (status, transition), and the statuses it may lead to.

Anything that the table does not name is refused with `TransitionNotAllowed`.

Why these states
----------------

A status answers one question: what has to act next for the chat to make progress?

- `idle`: a user. The turn has ended, the queue is empty, and no call is open.
- `running`: a worker. The next step is whatever `decide` derives from the committed rows.
- `interrupting`: a worker, but only to stop: it settles the turn and keeps what it produced.
- `requires_action`: something outside. Every open call waits for an approval, a result or a child.
- `error`: a user. The turn has stopped on a failure; its history, queue and open calls are kept.

There is no status for a phase of a step, such as streaming or running tools. A phase is known only
to the process that is in it and is lost with that process; a status must be true after any crash.
`interrupting` is a status because the request to stop has to survive the runner that it was made
to. Waiting for a retry is not: the chat is still `running`, and `retry_at` says from when.

Busy and runnable
-----------------

A chat is *busy* while a turn is unfinished: `running`, `interrupting` or `requires_action`. A
message sent to a busy chat waits in the queue, and a busy chat cannot be archived.

A chat is *runnable* when a worker has something to do for it now: it is `interrupting`; or it is
`running` with no retry time in the future; or it `requires_action` and a deadline has passed or the
awaited children are idle. Only runnable chats are claimed. Runnable implies busy; a chat that is
busy and not runnable waits, for time, for people or for its children.

Why the fence makes four cases one
----------------------------------

A runner works on a copy of its chat. The copy may be out of date for four reasons: the turn was
interrupted (the status changed), a message was edited (the history version changed), another worker
took the chat over (the epoch changed), or the runner's last write was committed and the
acknowledgement was lost (the history version or the attempt changed). Every write of a runner names
the epoch, status, history version and attempt that it was started on: the *fence*. If one of them
differs, nothing is written.

The runner does not have to know which case it is in. It reads the chat again and does what the row
says: settle the interrupted turn, continue from the edited history, leave the chat to its new
owner, or continue after the step that was committed after all. Safety rests on the epoch alone;
leases and clocks only decide when another worker may claim.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final

from holdfast.chat.errors import TransitionNotAllowed
from holdfast.chat.rows import Status

IDLE, RUNNING, INTERRUPTING = Status.IDLE, Status.RUNNING, Status.INTERRUPTING
REQUIRES_ACTION, ERROR = Status.REQUIRES_ACTION, Status.ERROR


class Transition(StrEnum):
    """Operation that changes a chat, as named in the table, in errors and in tests."""

    SEND_QUEUE = "send_queue"
    SEND_STEER = "send_steer"
    SEND_INTERRUPT = "send_interrupt"
    INTERRUPT = "interrupt"
    PROMOTE = "promote"
    EDIT_QUEUED = "edit_queued"
    REORDER = "reorder"
    REMOVE_QUEUED = "remove_queued"
    EDIT = "edit"
    RETRY = "retry"
    RESUME = "resume"
    COMPACT = "compact"
    RESOLVE = "resolve"
    EXPIRE = "expire"
    DELIVER = "deliver"
    COMMIT_STEP = "commit_step"
    RECORD_RETRY = "record_retry"
    START_CALLS = "start_calls"
    FINISH_CALL = "finish_call"
    REQUIRE_ACTION = "require_action"
    FINISH_TURN = "finish_turn"
    SETTLE = "settle"
    FAIL = "fail"
    UPDATE = "update"
    ARCHIVE = "archive"

    @property
    def words(self) -> str:
        """The name in words, as in "cannot … while the chat is idle"."""
        return self.value.replace("_", " ")


T = Transition
ALL: Final = tuple(Status)
SAME: Final = None
"""Marks an outcome that keeps the current status."""


def _rows() -> Iterator[tuple[Transition, Status, tuple[Status | None, ...]]]:
    """Yield the table row by row."""
    busy_sends = {RUNNING: (SAME,), INTERRUPTING: (SAME,)}
    yield from _row(T.SEND_QUEUE, busy_sends | {REQUIRES_ACTION: (SAME,)})
    yield from _row(T.SEND_STEER, busy_sends | {REQUIRES_ACTION: (RUNNING,)})
    yield from _row(
        T.SEND_INTERRUPT,
        {RUNNING: (INTERRUPTING,), INTERRUPTING: (SAME,), REQUIRES_ACTION: (RUNNING,)},
    )
    for send in (T.SEND_QUEUE, T.SEND_STEER, T.SEND_INTERRUPT):
        yield from _row(send, {IDLE: (RUNNING,), ERROR: (RUNNING,)})
    yield from _row(
        T.INTERRUPT,
        {
            IDLE: (SAME,),
            RUNNING: (INTERRUPTING,),
            INTERRUPTING: (SAME,),
            REQUIRES_ACTION: (IDLE, RUNNING),
            ERROR: (SAME,),
        },
    )
    yield from _row(
        T.PROMOTE,
        {
            RUNNING: (INTERRUPTING,),
            INTERRUPTING: (SAME,),
            REQUIRES_ACTION: (RUNNING,),
            ERROR: (RUNNING,),
        },
    )
    for change in (T.EDIT_QUEUED, T.REORDER, T.REMOVE_QUEUED):
        waits = (RUNNING, INTERRUPTING, REQUIRES_ACTION, ERROR)
        yield from _row(change, dict.fromkeys(waits, (SAME,)))
    yield from _row(T.EDIT, dict.fromkeys(ALL, (RUNNING,)))
    yield from _row(T.RETRY, {ERROR: (RUNNING,)})
    yield from _row(T.RESUME, {IDLE: (RUNNING,)})
    yield from _row(T.COMPACT, {IDLE: (RUNNING,), ERROR: (RUNNING,)})
    yield from _row(T.RESOLVE, {RUNNING: (SAME,), REQUIRES_ACTION: (SAME, RUNNING)})
    yield from _row(T.EXPIRE, {REQUIRES_ACTION: (SAME, RUNNING)})
    for write in (T.DELIVER, T.COMMIT_STEP, T.RECORD_RETRY, T.START_CALLS):
        yield from _row(write, {RUNNING: (SAME,)})
    yield from _row(T.FINISH_CALL, {RUNNING: (SAME,), INTERRUPTING: (SAME,)})
    yield from _row(T.REQUIRE_ACTION, {RUNNING: (REQUIRES_ACTION, SAME)})
    yield from _row(T.FINISH_TURN, {RUNNING: (IDLE, SAME)})
    yield from _row(T.SETTLE, {INTERRUPTING: (IDLE, RUNNING)})
    yield from _row(T.FAIL, {RUNNING: (ERROR,), INTERRUPTING: (ERROR,), REQUIRES_ACTION: (ERROR,)})
    yield from _row(T.UPDATE, dict.fromkeys(ALL, (SAME,)))
    yield from _row(T.ARCHIVE, {IDLE: (SAME,), ERROR: (SAME,)})


def _row(
    transition: Transition, cells: Mapping[Status, tuple[Status | None, ...]]
) -> Iterator[tuple[Transition, Status, tuple[Status | None, ...]]]:
    for status, outcomes in cells.items():
        yield transition, status, outcomes


TRANSITIONS: Final[Mapping[tuple[Status, Transition], frozenset[Status]]] = {
    (status, transition): frozenset(status if to is SAME else to for to in outcomes)
    for transition, status, outcomes in _rows()
}


def check(status: Status, transition: Transition) -> None:
    """Raise `TransitionNotAllowed` unless the table allows this transition in this status."""
    if (status, transition) not in TRANSITIONS:
        raise TransitionNotAllowed(transition, status)


def diagram() -> str:
    """Return the table as a Mermaid state diagram, for ARCHITECTURE.md."""
    edges: dict[tuple[Status, Status], list[str]] = {}
    for (status, transition), outcomes in TRANSITIONS.items():
        for outcome in outcomes:
            if outcome is not status:
                edges.setdefault((status, outcome), []).append(transition.words)
    lines = ["stateDiagram-v2", "    [*] --> running: create"]
    for (start, end), names in sorted(edges.items()):
        lines.append(f"    {start} --> {end}: {', '.join(sorted(names))}")
    return "\n".join(lines)
