"""The result of a run, and the exceptions that end one."""

from __future__ import annotations

from typing import Any, Generic, cast

from msgspec import Struct

from holdfast.kernel import answer
from holdfast.kernel.attribute_hints import answer_foreign_attributes
from holdfast.kernel.call_account import CallAccount
from holdfast.kernel.errors import Failure, HoldfastError
from holdfast.kernel.events import Action, EndReason, Summary
from holdfast.kernel.limits import LimitReached
from holdfast.kernel.messages import CutBy, Message, ToolResult, Usage
from holdfast.kernel.turn import FAILED_OUTCOMES
from holdfast.kernel.type_parameters import OutputT


class Ending(Struct, frozen=True):
    """Why and how a run ended."""

    reason: EndReason
    failure: Failure | None = None
    actions: tuple[Action, ...] = ()
    output: Any = None
    cause: Exception | None = None
    """The exception that ended the run with an error."""
    cut_by: CutBy | None = None
    limit: LimitReached | None = None


@answer_foreign_attributes
class RunResult(Struct, Generic[OutputT], frozen=True):
    """The result of a run: why it ended, and the history to continue with."""

    reason: EndReason
    history: tuple[Message, ...]
    """All messages; pass it to the next run to continue."""
    new: tuple[Message, ...]
    """Messages that this run added to the history."""
    summary: Summary
    """Totals of the run."""
    failure: Failure | None = None
    """Cause of an end with reason `error`."""
    actions: tuple[Action, ...] = ()
    """Actions that a run with reason `requires_action` waits for."""
    undelivered: tuple[Message, ...] = ()
    """Steering and follow-up messages that were accepted but not delivered."""
    output: OutputT = cast(Any, None)
    """The final answer: a value of the agent's output type, or text if it has none. None if the run
    ended otherwise than with an answer: `reason` is not `stop`, or it only compacted."""
    warnings: tuple[str, ...] = ()
    """Warnings for people: a file that the model does not accept, an abandoned tool."""
    cut_by: CutBy | None = None
    """Cause that cut the final answer short: the content filter or the length limit; None if it is
    complete."""
    limit: LimitReached | None = None
    """Limit that ended a run with reason `limit`."""

    @property
    def steps(self) -> int:
        """Number of answers of this run, and of the runs within its tool calls."""
        return self.summary.steps

    @property
    def usage(self) -> Usage:
        """Tokens and cost of all model calls of this run, and of the runs within its tool calls."""
        return self.summary.usage

    @property
    def text(self) -> str:
        """Text of the last answer of this run; empty without one. If the answer was cut by length
        and continued, the text of all pieces."""
        if any(answer.speaks(message) for message in self.new):
            return answer.text(self.history)
        return ""


class RunFailed(HoldfastError):
    """A run ended with an error. `result` has its history and totals until then."""

    def __init__(self, result: RunResult[Any]) -> None:
        assert result.failure is not None
        self.failure = result.failure
        self.result = result
        message, detail = self.failure.message, self.failure.detail
        # A `ConfigError` is written for people: its detail is the same text, possibly cut.
        more = f" [{self.failure.kind}: {detail}]" if detail and message[:60] not in detail else ""
        super().__init__(f"{message}{more}")


class LimitExceeded(HoldfastError):
    """A run ended at a limit, without a final answer. `result` has its history and totals.

    `result.limit` is the limit. `agent.run(history=error.result.history)` continues the run, and
    allows the same again.
    """

    def __init__(self, result: RunResult) -> None:
        assert result.limit is not None
        self.limit = result.limit
        self.result = result
        super().__init__(result.limit.sentence)


class RunOver(HoldfastError):
    """The run has ended and accepts no more input. Start another with its history."""

    def __init__(self) -> None:
        super().__init__(
            "the run has ended: start another with agent.run(…, history=result.history)"
        )


class Failed(Exception):
    """Internal: ends the run with a failure that is already classified."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class RunCounters:
    """Counters for the summary of a run."""

    def __init__(self) -> None:
        self._steps = 0
        self._calls = 0
        self._errors = 0
        self._usage = Usage()

    def message(self, message: Message) -> None:
        if message.kind == "answer" and message.visibility != "user":
            self._steps += 1
        elif message.kind == "results":
            for part in message.parts:
                if type(part) is ToolResult:
                    self._calls += 1
                    self._steps += part.steps
                    self._errors += part.outcome in FAILED_OUTCOMES and not part.expected
            if message.usage is not None:  # of the runs within the calls
                self._usage += message.usage

    def call(self, account: CallAccount) -> None:
        """Count a call whose result is in no message."""
        self._steps += account.steps
        if account.usage is not None:
            self._usage += account.usage

    def usage(self, usage: Usage | None) -> None:
        """Count the usage of an attempt, including a failed one."""
        if usage is not None:
            self._usage += usage

    def summary(self, seconds: float) -> Summary:
        usage = self._usage
        return Summary(self._steps, self._calls, self._errors, usage, usage.cost, seconds)


class InnerRunCounters(RunCounters):
    """Counters of a run within a tool call, which count for the outer run at once."""

    def __init__(self, outer: CallAccount) -> None:
        super().__init__()
        self._outer = outer

    def message(self, message: Message) -> None:
        super().message(message)
        if message.kind == "answer" and message.visibility != "user":
            self._outer.charge(steps=1)

    def usage(self, usage: Usage | None) -> None:
        super().usage(usage)
        self._outer.charge(usage)
