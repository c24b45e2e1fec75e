"""The stop guard: a hook that is called before a run stops by itself."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal, TypeAlias, Union

from msgspec import Struct

from holdfast.kernel.awaiting import awaited
from holdfast.kernel.errors import describe
from holdfast.kernel.hook_call import location
from holdfast.kernel.hook_context import Context
from holdfast.kernel.messages import Message
from holdfast.kernel.type_parameters import HookDepsT

LOG: Final = logging.getLogger("holdfast")


class Stopping(Struct, frozen=True):
    """The stop that the guard is to decide on."""

    steps: int
    """Number of answers in this turn."""
    message: Message | None
    """The answer that would be the final one."""
    reason: Literal["stop", "stop_after_tool"]
    output: Any = None
    """The final answer, as in the result of the run, if the reason is `stop`."""


class Inject(Struct, frozen=True):
    """Do not stop: send this text to the model and continue. An empty text lets the run stop."""

    text: str


class Escalate(Struct, frozen=True):
    """End the run with an error."""

    reason: str


GuardVerdict: TypeAlias = Union[Inject, Escalate, None]
"""Decision of the stop guard. None lets the run stop."""
Guard: TypeAlias = Callable[
    [Context[HookDepsT], Stopping], Union[GuardVerdict, Awaitable[GuardVerdict]]
]


async def ask(guard: Guard, context: Context, about: Stopping) -> GuardVerdict:
    """Call the guard. A guard that raises escalates, since what it would prevent is unknown."""
    try:
        verdict: object = await awaited(guard(context, about))
    except Exception as error:
        LOG.info("the guard of agent %s failed", context.agent, exc_info=error)
        at = location(error, guard)
        return Escalate(f"the stop guard failed: {describe(error)}{f' ({at})' if at else ''}")
    if isinstance(verdict, Inject) and not isinstance(verdict.text, str):
        return Escalate(
            f"the stop guard injects a {type(verdict.text).__name__}, which is not text"
        )
    if verdict is None or isinstance(verdict, (Inject, Escalate)):
        return verdict
    return Escalate(f"the stop guard returned a {type(verdict).__name__}, which is not a verdict")
