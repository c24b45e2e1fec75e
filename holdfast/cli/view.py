"""View of a run for people: the answer on one stream, everything else on the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from holdfast.cli import run_texts
from holdfast.cli.calls import CallWriter
from holdfast.cli.output_stream import OutputStream, TextStyle
from holdfast.cli.transcript import TranscriptWriter
from holdfast.cli.wrap import folded
from holdfast.kernel.errors import Failure
from holdfast.kernel.escape import escape
from holdfast.kernel.events import (
    Compacted,
    Compacting,
    Delivered,
    Event,
    HandedOver,
    MessageCommitted,
    OutputDelta,
    Retrying,
    RunEnded,
    RunStarted,
    StepStarted,
    Summary,
    ToolCalled,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    Warned,
)
from holdfast.kernel.messages import Message
from holdfast.kernel.model import ArgumentsDelta, CallStarted, ReasoningDelta, TextDelta

CallEvent = CallStarted | ArgumentsDelta | ToolCalled | ToolStarted | ToolProgressed | ToolFinished


class View:
    """Shows the events of a run.

    A program that reads the answer gets it as the model wrote it, message by message, without
    failed attempts. People see it grow.
    """

    def __init__(
        self,
        answer: OutputStream,
        status: OutputStream,
        *,
        reasoning: bool = False,
        quiet: bool = False,
        durable: bool = False,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """`durable`: the chat is stored, and can be continued."""
        self._answer = answer
        self._status = status
        self._reasoning = reasoning
        self._quiet = quiet
        self._durable = durable
        self._total = Summary()
        """Sum over all runs: after an approval, a conversation continues as another run."""
        self._retried = ""
        """Message of the last failed attempt."""
        self._transcript = TranscriptWriter(answer, status, clock)
        self._calls = CallWriter(self._transcript, status)

    def show(self, event: Event) -> None:
        match event:
            case TextDelta(text):
                self._text(text)
            case ReasoningDelta(text):
                self._thought(text)
            case CallStarted() | ToolCalled():
                self._transcript.end_text()
                self._call(event)
            case ArgumentsDelta() | ToolStarted() | ToolProgressed() | ToolFinished():
                self._call(event)
            case MessageCommitted(message):
                self._committed(message)
            case RunStarted():
                self._transcript.begin()
            case StepStarted():
                self._wait("waiting for the model")
            case Retrying():
                self._retry(event)
            case Compacting(delta=delta):
                self._compacting(begins=not delta)
            case Compacted():
                self._print(f"· {run_texts.compacted(event)}", "dim")
            case Delivered(why, messages):
                self._print(f"→ {run_texts.delivered(why, messages)}", "dim")
            case OutputDelta():
                pass  # its text is shown
            case HandedOver(to=to):
                self._print(f"→ {escape(to)} continues the conversation", "dim")
            case Warned(text):
                self._print(f"! {escape(text)}", "yellow", always=True)
            case RunEnded():
                self._ended(event)
            case _:
                assert_never(event)

    def note(self, text: str) -> None:
        """Show a line of our own."""
        self._print(escape(text), "dim")

    def row(self, text: str) -> None:
        """Show a row of a list, cut to one line of the terminal."""
        width = self._status.width if self._status.terminal else run_texts.MAX_LINE_SHOWN
        self._print(run_texts.short(text, width), "dim")

    def show_prompt(self, text: str) -> None:
        """Show a message of the user."""
        self._print(f"> {escape(text)}", "bold")

    def new_turn(self) -> None:
        """Start the sum of usage anew."""
        self._total = Summary()

    def void(self) -> None:
        """Mark the shown part of an answer as void, without a reason."""
        if self._transcript.give_up_text():
            self._print("  The text above is void.", "yellow", always=True)

    def tick(self) -> None:
        """Called every second."""
        self._transcript.tick()
        self._calls.tick()

    def stopping(self) -> None:
        """Called when the run was told to stop, perhaps by Ctrl-C."""
        self._transcript.erase_echo()

    def end(self) -> None:
        """Leave the terminal clean."""
        self._transcript.end()

    # --- what the model says ---

    def _text(self, text: str) -> None:
        if self._answer.terminal:
            self._transcript.text(text)
        else:
            self._wait("writing")

    def _thought(self, text: str) -> None:
        if self._quiet:
            return
        if self._reasoning:
            self._transcript.thoughts(text)
        else:
            self._transcript.end_text()
            self._wait("thinking")

    def _committed(self, message: Message) -> None:
        if message.role == "assistant":
            self._transcript.message(message.text if message.visibility != "user" else "")

    def _wait(self, what: str) -> None:
        if not self._quiet:
            self._transcript.wait(what)

    def _print(self, text: str, style: TextStyle, *, always: bool = False) -> None:
        """Show a line that is not about a call. Continuation lines are indented."""
        if always or not self._quiet:
            lines = text.replace("\n", "\n  ").split("\n")
            if self._status.terminal:
                lines = [part for line in lines for part in folded(line, self._status.width)]
            self._transcript.lines(*(self._status.style(style, line) for line in lines))

    # --- what becomes of its calls ---

    def _call(self, event: CallEvent) -> None:
        if self._quiet:
            return
        match event:
            case CallStarted(call_id, tool):
                self._calls.began(call_id, tool)
            case ArgumentsDelta(call_id):
                self._calls.written(call_id)
            case ToolCalled(call):
                self._calls.called(call)
            case ToolStarted(call_id, tool, label):
                self._calls.started(call_id, tool, label)
            case ToolProgressed(call_id, tool, what, text):
                self._calls.progressed(call_id, tool, what, text)
            case ToolFinished(result, seconds):
                self._calls.finished(result, seconds)

    # --- what else happens ---

    def _retry(self, event: Retrying) -> None:
        shown = self._transcript.give_up_text()
        when = f"in {run_texts.duration(event.delay)}" if event.delay >= 0.1 else "now"
        message = escape(event.message).rstrip(".")
        self._print(f"↻ {message}; attempt {event.attempt + 1} of {event.of} {when}", "yellow")
        again = event.attempt > 1 and event.message == self._retried
        self._retried = event.message
        if event.detail and not again:
            detail = event.detail.removeprefix("ProviderError: ")
            self._print(f"  {run_texts.short(detail, run_texts.MAX_LINE_SHOWN)}", "dim")
        if shown:  # even with --quiet: it looks like the answer
            self._print("  The text above is void.", "yellow", always=True)

    def _compacting(self, begins: bool) -> None:
        if self._status.cursor:
            self._wait("summarizing")
        elif begins:
            self._print("· Summarizing…", "dim")

    def _ended(self, event: RunEnded) -> None:
        self._transcript.end_text()
        self._transcript.settle()
        self._calls.rest()
        self._total = run_texts.together(self._total, event.summary)
        match event.reason:
            case "error":
                self._fail(event.failure)
            case "interrupted":
                self._print("Interrupted.", "yellow")
            case "limit":
                self._print(run_texts.limit_note(event.limit, self._durable), "yellow", always=True)
                self._sum(self._total)
            case "stop" | "stop_after_tool":
                if event.cut_by is not None:
                    self._print(run_texts.TRUNCATION_NOTES[event.cut_by], "yellow", always=True)
                self._sum(self._total)
            case "requires_action":
                pass  # reported where the user is asked
            case _:
                assert_never(event.reason)

    def _sum(self, summary: Summary) -> None:
        """Show the usage, unless it was just a question and an answer."""
        much = summary.steps > 1 or summary.tool_calls or summary.seconds >= 10
        if self._status.terminal and much:
            self._print(run_texts.summed(summary), "dim")

    def _fail(self, failure: Failure | None) -> None:
        if failure is None:
            self._print("✗ The run failed.", "red", always=True)
            return
        self._print(f"✗ {escape(failure.message)}", "red", always=True)
        if hint := run_texts.FAILURE_HINTS.get(failure.kind):
            self._print(f"  {hint}", "bold", always=True)
        facts = failure.kind if failure.status is None else f"{failure.kind}, {failure.status}"
        if failure.detail and failure.message not in failure.detail:
            facts += f": {escape(failure.detail)}"
        self._print(f"  ({facts})", "dim", always=True)
