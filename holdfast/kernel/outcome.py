"""What a run came to."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from holdfast.kernel.errors import Failure, HoldfastError
from holdfast.kernel.events import Action, EndReason, Summary
from holdfast.kernel.messages import Message, ToolResult, Usage


class Ending(Struct, frozen=True):
    """Why a run has nothing left to do."""

    reason: EndReason
    failure: Failure | None = None
    actions: tuple[Action, ...] = ()
    output: Any = None


class RunResult(Struct, frozen=True):
    """What a run came to: why it ended, and the history to go on with."""

    reason: EndReason
    history: tuple[Message, ...]
    """All messages: hand it to the next run to go on."""
    new: tuple[Message, ...]
    """Of these, the ones that this run added."""
    summary: Summary
    failure: Failure | None = None
    actions: tuple[Action, ...] = ()
    """What the run waits for, when it `requires_action`."""
    undelivered: tuple[Message, ...] = ()
    """Steering and follow-ups that were accepted and not delivered any more."""
    output: Any = None
    """The last answer as a value of the agent's output type, when the run stopped with one."""
    warnings: tuple[str, ...] = ()
    """What people should know of it: a file that the model does not take, a tool left behind."""

    @property
    def text(self) -> str:
        """The text of the last answer of this run; empty when it gave none."""
        for message in reversed(self.new):
            if message.role == "assistant":
                return message.text
        return ""


class RunFailed(HoldfastError):
    """A run that was awaited ended with an error. What it did is in `result`."""

    def __init__(self, result: RunResult) -> None:
        assert result.failure is not None
        self.failure = result.failure
        self.result = result
        detail = f" [{self.failure.kind}: {self.failure.detail}]" if self.failure.detail else ""
        super().__init__(f"{self.failure.message}{detail}")


class RunOver(HoldfastError):
    """The run has ended and takes nothing any more. Start another with its history."""

    def __init__(self) -> None:
        super().__init__(
            "the run has ended: start another with agent.run(…, history=result.history)"
        )


class Failed(Exception):
    """Ends the run with a failure that is already classified."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Tally:
    """Counts for the summary what a run does."""

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
                    self._errors += part.outcome in ("failed", "timed_out")

    def usage(self, usage: Usage | None) -> None:
        """Of every attempt, also of one that failed."""
        if usage is not None:
            self._usage += usage

    def summary(self, seconds: float) -> Summary:
        usage = self._usage
        return Summary(self._steps, self._calls, self._errors, usage, usage.cost, seconds)
