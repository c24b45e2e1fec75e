"""Every allowed (status, transition) with the statuses it may lead to. All else is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final

from holdfast.chat.errors import TransitionNotAllowed
from holdfast.chat.state import Status

IDLE, RUNNING, INTERRUPTING = Status.IDLE, Status.RUNNING, Status.INTERRUPTING
REQUIRES_ACTION, ERROR = Status.REQUIRES_ACTION, Status.ERROR


class Transition(StrEnum):
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
        """As in "cannot … while the chat is idle"."""
        return self.value.replace("_", " ")


T = Transition
ALL: Final = tuple(Status)
SAME: Final = None
"""The status stays as it is."""


def _rows() -> Iterator[tuple[Transition, Status, tuple[Status | None, ...]]]:
    """The table of the design, row by row."""
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
    """Refuse what the table does not name."""
    if (status, transition) not in TRANSITIONS:
        raise TransitionNotAllowed(transition, status)


def diagram() -> str:
    """The table as a state diagram, for ARCHITECTURE.md."""
    edges: dict[tuple[Status, Status], list[str]] = {}
    for (status, transition), outcomes in TRANSITIONS.items():
        for outcome in outcomes:
            if outcome is not status:
                edges.setdefault((status, outcome), []).append(transition.words)
    lines = ["stateDiagram-v2", "    [*] --> running: create"]
    for (start, end), names in sorted(edges.items()):
        lines.append(f"    {start} --> {end}: {', '.join(sorted(names))}")
    return "\n".join(lines)
