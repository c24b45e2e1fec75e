"""Events of a run: a closed union of frozen values.

The last event of every run is `RunEnded`, exactly once, whatever happened. Deltas belong to an
attempt: after `Retrying`, discard what was shown of the answer so far.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, TypeVar, Union, overload

from holdfast.kernel.errors import Failure, FailureKind
from holdfast.kernel.limits import LimitReached
from holdfast.kernel.messages import (
    AskedBy,
    CutBy,
    Message,
    Tagged,
    ToolCall,
    ToolResult,
    Usage,
    Value,
)
from holdfast.kernel.model import ArgumentsDelta, CallStarted, ReasoningDelta, TextDelta

T = TypeVar("T")

EndReason = Literal["stop", "stop_after_tool", "requires_action", "limit", "interrupted", "error"]
Delivery = Literal["steering", "follow_up", "guard", "recovery", "repair"]
ActionKind = Literal["client", "approval", "answer", "child"]


class Action(Value, frozen=True):
    """Input that a run waits for from outside: a client tool's result, an approval, an answer."""

    kind: ActionKind
    call: ToolCall
    arguments: str
    """Canonical JSON of the arguments that would be run, after coercion and after the gate."""
    digest: str
    """SHA-256 that an approval is bound to: call id, tool and arguments, plus `attempt` for a call
    that is to run again."""
    preview: str | None = None
    """Text of the tool's preview: what the call would do."""
    again: bool = False
    """Whether the call started before and its outcome is unknown: approval lets it run again."""
    attempt: int = 0
    """Number of times the call had started when the question was asked; an approval covers one run.
    0 for a call that has not started, and in actions stored before attempts were counted."""


class RunStarted(Tagged, frozen=True, tag="run_started"):
    """A run started: the first event of every run."""

    messages: int
    """Number of messages in the history."""


class StepStarted(Tagged, frozen=True, tag="step_started"):
    """The model is about to be called."""

    number: int
    """Number of the step in this turn, from 1."""
    messages: int
    """Number of messages in the history."""
    tokens: int
    """Estimated size of the request in tokens."""


class ToolCalled(Tagged, frozen=True, tag="tool_called"):
    """The model finished writing a tool call."""

    call: ToolCall


class ToolStarted(Tagged, frozen=True, tag="tool_started"):
    """A tool call started to run."""

    call_id: str
    tool: str
    label: str
    """Text for people: the tool's label, or its description of this call."""


class ToolProgressed(Tagged, frozen=True, tag="tool_progressed"):
    """Progress reported by a running call, or the preview of a call before it runs."""

    call_id: str
    tool: str
    what: Literal["preview", "progress"]
    text: str
    data: Any = None
    """Progress as a JSON value for programs; `text` is for people."""


class ToolFinished(Tagged, frozen=True, tag="tool_finished"):
    """A tool call has its result, including one that was skipped or refused and never started."""

    result: ToolResult
    seconds: float
    """Run time of the call; 0 for a call that never started."""


class MessageCommitted(Tagged, frozen=True, tag="message_committed"):
    """A message was appended to the history; from here on it is kept."""

    message: Message
    number: int
    """Position of the message in the history, from 0."""
    first_delta: float | None = None
    """Seconds from the request to the first delta; None unless the message is an answer."""
    seconds: float | None = None
    """Seconds from the request to the end of the answer; None unless the message is an answer."""


class Retrying(Tagged, frozen=True, tag="retrying"):
    """An attempt failed: discard what it showed. The next attempt starts after `delay` seconds."""

    attempt: int
    """Number of the attempt that failed, from 1."""
    of: int
    """Maximum number of attempts."""
    delay: float
    """Seconds until the next attempt."""
    at: int
    """Time of the next attempt: wall clock, in microseconds since 1970."""
    kind: FailureKind
    message: str
    """Cause of the failure, for people."""
    detail: str = ""
    """Cause of the failure in detail, for operators (redacted)."""


class Compacting(Tagged, frozen=True, tag="compacting"):
    """The history is being summarized. An empty `delta` marks a new attempt at the summary."""

    asked_by: AskedBy | None
    """Cause of the compaction; None for the threshold."""
    delta: str = ""
    """Next piece of the summary's text."""


class Compacted(Tagged, frozen=True, tag="compacted"):
    """The history was compacted: later requests are shorter."""

    before: int
    """Estimated tokens of the next request before the compaction."""
    after: int
    """Estimated tokens of the next request after the compaction."""
    summarized: bool
    """Whether a summary was written; False when shortening old tool results was enough."""


class OutputDelta(Tagged, frozen=True, tag="output_delta"):
    """The final answer as a value, as far as it has arrived. Shown, never stored."""

    value: Any
    """Plain JSON: an object without the fields to come, a list without the items to come. A text at
    its end may be incomplete."""
    complete: bool = False
    """Whether the answer ended. Its validated value is the output of the run."""

    @overload
    def output_as(self, output_type: type[T]) -> T | None: ...

    @overload
    def output_as(self, output_type: Any) -> Any: ...

    def output_as(self, output_type: Any) -> Any:
        """The value so far as a value of a type; None while it is not one.

        For lists, dicts and TypedDicts the last item or field is left out while it does not fit.
        """
        from holdfast.kernel.schema import partial_value

        return partial_value(output_type, self.value, complete=self.complete)


class Delivered(Tagged, frozen=True, tag="delivered"):
    """Messages were delivered into the history between two steps."""

    why: Delivery
    messages: tuple[Message, ...]


class HandedOver(Tagged, frozen=True, tag="handed_over"):
    """Another agent continues the conversation."""

    agent: str
    """Name of the agent until now."""
    to: str
    """Name of the agent from the next step on."""


class Warned(Tagged, frozen=True, tag="warning"):
    """A warning for people; the run continues."""

    text: str


class Summary(Value, frozen=True):
    """Totals of a run: steps, tool calls, tokens, cost, time."""

    steps: int = 0
    """Number of answers."""
    tool_calls: int = 0
    tool_errors: int = 0
    usage: Usage = Usage()
    """Tokens of all model calls."""
    cost: float | None = None
    """Cost in US dollars of the model calls with a known price; None if none has one."""
    seconds: float = 0.0
    """Duration of the run."""


class RunEnded(Tagged, frozen=True, tag="run_ended"):
    """The run ended: the last event of every run, exactly once."""

    reason: EndReason
    summary: Summary
    failure: Failure | None = None
    """Cause of an end with reason `error`."""
    actions: tuple[Action, ...] = ()
    """Actions that a run with reason `requires_action` waits for."""
    cut_by: CutBy | None = None
    """Cause that cut the final answer short; None if it is complete."""
    limit: LimitReached | None = None
    """Limit that ended a run with reason `limit`."""


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
    OutputDelta,
    Delivered,
    HandedOver,
    Warned,
    RunEnded,
]
"""Any event of a run."""
