"""What caused the work of a chat: trace contexts of the callers, for links from its turns.

They are in the row of the chat, because another process may drive it, and are removed when the chat
is idle. Without traces nothing is written.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Final, TypeVar

from holdfast.chat.state_machine import Transition
from holdfast.observe.caller_trace import caller_trace
from holdfast.store.database import Tx

T = TypeVar("T")

MAX_CAUSES: Final = 16
"""Number of callers that are remembered until a chat is idle."""
CAUSES_WORK: Final = frozenset(
    {
        Transition.SEND_QUEUE,
        Transition.SEND_STEER,
        Transition.SEND_INTERRUPT,
        Transition.PROMOTE,
        Transition.EDIT,
        Transition.RETRY,
        Transition.RESUME,
        Transition.COMPACT,
        Transition.RESOLVE,
    }
)
"""Transitions by which a user makes a chat work."""
_CAUSE: Final[ContextVar[str | None]] = ContextVar("cause", default=None)


def with_cause(change: Callable[[Tx], Awaitable[T]]) -> Callable[[Tx], Awaitable[T]]:
    """A transaction that knows its caller's trace, also in another thread."""
    trace = caller_trace()
    if trace is None:
        return change

    async def caused(tx: Tx) -> T:
        token = _CAUSE.set(trace)
        try:
            return await change(tx)
        finally:
            _CAUSE.reset(token)

    return caused


def current_cause() -> str | None:
    """The caller's trace in a transaction of `with_cause`."""
    return _CAUSE.get()


def causes_after(
    causes: str | None, transition: Transition | None, *, was_busy: bool, is_busy: bool
) -> str | None:
    """The causes of a chat after a transition: with the current one, or none if it is idle."""
    if not is_busy:
        return None
    before = causes if was_busy else None
    cause = current_cause() if transition in CAUSES_WORK else None
    if cause is None:
        return before
    traces = traces_of(before)
    return before if cause in traces else " ".join((*traces, cause)[-MAX_CAUSES:])


def traces_of(causes: str | None) -> tuple[str, ...]:
    """The trace contexts in the column of a chat."""
    return tuple(causes.split()) if causes else ()
