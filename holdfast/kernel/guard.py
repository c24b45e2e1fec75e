"""The stop guard: the one who is asked before a run stops of its own accord."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias, Union

from msgspec import Struct

from holdfast.kernel.errors import describe
from holdfast.kernel.messages import Message
from holdfast.kernel.way import awaited


class Stopping(Struct, frozen=True):
    """What the guard is asked about."""

    steps: int
    message: Message | None
    """The answer that would be the last."""
    reason: Literal["stop", "stop_after_tool"]
    output: Any = None
    """That answer as a value, when the agent has an output type and the reason is `stop`."""


class Inject(Struct, frozen=True):
    """Do not stop: the model is told this, and goes on. Nothing to tell means that it may stop."""

    text: str


class Escalate(Struct, frozen=True):
    """End the run with an error."""

    reason: str


GuardVerdict: TypeAlias = Union[Inject, Escalate, None]
"""None lets the run stop."""
Guard: TypeAlias = Callable[[Stopping], Union[GuardVerdict, Awaitable[GuardVerdict]]]


async def ask(guard: Guard, about: Stopping) -> GuardVerdict:
    """What the guard says. One that raises escalates: nobody knows what it wanted to prevent."""
    try:
        verdict: object = await awaited(guard(about))
    except Exception as error:
        return Escalate(f"the stop guard failed: {describe(error)}")
    if isinstance(verdict, Inject) and not isinstance(verdict.text, str):
        return Escalate(f"the stop guard injects a {type(verdict.text).__name__}, which is no text")
    if verdict is None or isinstance(verdict, (Inject, Escalate)):
        return verdict
    return Escalate(f"the stop guard gave a {type(verdict).__name__}, which is no verdict")
