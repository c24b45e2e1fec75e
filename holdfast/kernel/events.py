"""Everything a run may say, as a closed union of frozen values, one class per happening.

The last event of every run is `RunEnded`, exactly once, whatever happened. Deltas belong to an
attempt: `Retrying` says that what was shown of the answer so far is void.
"""

from __future__ import annotations

from typing import Literal, TypeAlias, Union

from holdfast.kernel.errors import Failure, FailureKind
from holdfast.kernel.messages import AskedBy, Message, Tagged, ToolCall, ToolResult, Usage, Value
from holdfast.kernel.model import ArgumentsDelta, CallStarted, ReasoningDelta, TextDelta

EndReason = Literal[
    "stop", "stop_after_tool", "requires_action", "max_steps", "interrupted", "error"
]
Delivery = Literal["steering", "follow_up", "guard", "recovery", "repair"]
ActionKind = Literal["client", "approval", "answer", "child"]


class Action(Value, frozen=True):
    """Something the run waits for from outside: a client's result, an approval, an answer."""

    kind: ActionKind
    call: ToolCall
    arguments: str
    """Canonical JSON of what would be run: after coercion and after the gate."""
    digest: str
    """SHA-256 of call id, tool and arguments: what an approval is bound to."""
    preview: str | None = None
    again: bool = False
    """It has begun before, and nobody knows whether it took effect: may it run again?"""


class RunStarted(Tagged, frozen=True, tag="run_started"):
    """The first event of every run."""

    messages: int
    """How many messages the history has."""


class StepStarted(Tagged, frozen=True, tag="step_started"):
    """The model is about to be called."""

    number: int
    """Of this turn, from 1."""
    messages: int
    tokens: int
    """Estimated size of the request."""


class ToolCalled(Tagged, frozen=True, tag="tool_called"):
    """The model finished writing a call."""

    call: ToolCall


class ToolStarted(Tagged, frozen=True, tag="tool_started"):
    """A call has begun to run."""

    call_id: str
    tool: str
    label: str


class ToolProgressed(Tagged, frozen=True, tag="tool_progressed"):
    """What a running call says of itself, or what a call would do if it ran."""

    call_id: str
    tool: str
    what: Literal["preview", "progress"]
    text: str


class ToolFinished(Tagged, frozen=True, tag="tool_finished"):
    """A call has its result: also one that was skipped or refused and never started."""

    result: ToolResult
    seconds: float


class MessageCommitted(Tagged, frozen=True, tag="message_committed"):
    """A message entered the history. From here on it is kept."""

    message: Message
    number: int
    """Its position in the history, from 0."""
    first_delta: float | None = None
    """Of an answer: seconds from the request to the first delta."""
    seconds: float | None = None


class Retrying(Tagged, frozen=True, tag="retrying"):
    """An attempt failed; what it showed is void. The next one begins after `delay`."""

    attempt: int
    """The one that failed, from 1."""
    of: int
    delay: float
    at: int
    """When the next begins: wall clock, microseconds."""
    kind: FailureKind
    message: str
    detail: str = ""
    """What exactly went wrong, for who can do something about it."""


class Compacting(Tagged, frozen=True, tag="compacting"):
    """The history is being summarized. `delta` is the next piece; an empty one begins anew."""

    asked_by: AskedBy | None
    delta: str = ""


class Compacted(Tagged, frozen=True, tag="compacted"):
    """The history was shortened: estimated tokens of the next request, before and after."""

    before: int
    after: int
    summarized: bool
    """False when shortening old tool results was enough."""


class Delivered(Tagged, frozen=True, tag="delivered"):
    """Messages entered the history between two steps."""

    why: Delivery
    messages: tuple[Message, ...]


class Warned(Tagged, frozen=True, tag="warning"):
    """Something that people should know, and that does not stop the run."""

    text: str


class Summary(Value, frozen=True):
    """What a run came to."""

    steps: int = 0
    tool_calls: int = 0
    tool_errors: int = 0
    usage: Usage = Usage()
    cost: float | None = None
    """In US dollars, of the calls whose price is known; None when no price is."""
    seconds: float = 0.0


class RunEnded(Tagged, frozen=True, tag="run_ended"):
    """The last event of every run, however it ended."""

    reason: EndReason
    summary: Summary
    failure: Failure | None = None
    actions: tuple[Action, ...] = ()


Event: TypeAlias = Union[
    RunStarted,
    StepStarted,
    TextDelta,
    ReasoningDelta,
    CallStarted,
    ArgumentsDelta,
    ToolCalled,
    ToolStarted,
    ToolProgressed,
    ToolFinished,
    MessageCommitted,
    Retrying,
    Compacting,
    Compacted,
    Delivered,
    Warned,
    RunEnded,
]
