"""Lines about tool calls for people: the call, its progress, its result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

from holdfast.cli import run_texts
from holdfast.cli.output_stream import OutputStream
from holdfast.cli.transcript import TranscriptWriter
from holdfast.cli.wrap import folded
from holdfast.kernel.messages import ToolCall, ToolOutcome, ToolResult

MAX_PROGRESS_LINES: Final = 20
"""Lines of progress shown per call."""
MAX_TAIL_LINES: Final = 5
"""Lines of a result shown if some of the progress was not."""
MAX_RESULT_LINES: Final = 3
"""Lines of a result shown."""
MAX_DIFF_LINES: Final = 20
"""Lines of a result shown if it is a diff, whose changes start below a header."""
MAX_TOOL_NAME: Final = 64
"""Characters of a tool's name shown."""


class CallDisplay(Struct, eq=False):
    """A tool call that is shown."""

    title: str
    shown: bool = False
    progress: int = 0
    last: str = ""
    """The last line of progress shown."""
    preview: str | None = None


class CallWriter:
    """Writes lines about calls to a transcript they share with the answer."""

    def __init__(self, transcript: TranscriptWriter, status: OutputStream) -> None:
        self._transcript = transcript
        self._status = status
        self._calls: dict[str, CallDisplay] = {}
        self._running: dict[str, float] = {}
        """Start time of each running call."""

    def began(self, call_id: str, tool: str) -> None:
        """The model has started to write a call."""
        self._calls[call_id] = CallDisplay(run_texts.short(tool, MAX_TOOL_NAME))
        self.written(call_id)

    def written(self, call_id: str) -> None:
        """The model is still writing a call."""
        if call := self._calls.get(call_id):
            self._transcript.wait(f"preparing {call.title}")

    def called(self, call: ToolCall) -> None:
        """The model has written a call."""
        title = self._one_line(run_texts.spelled(call.tool, call.arguments))
        entry = self._calls[call.id] = CallDisplay(title)
        if call.provider_executed:  # no start event will follow
            self._head(entry)

    def started(self, call_id: str, tool: str, label: str) -> None:
        call = self._call(call_id, tool)
        if label not in ("", tool):
            call.title = self._one_line(label)
        self._head(call)
        self._running[call_id] = self._transcript.clock()

    def tick(self) -> None:
        """Called every second: shows that a call without progress is still running."""
        if self._running:
            self._transcript.wait_below("running", min(self._running.values()))

    def rest(self) -> None:
        """Nothing is running any more."""
        self._running.clear()

    def progressed(
        self, call_id: str, tool: str, what: Literal["preview", "progress"], text: str
    ) -> None:
        call = self._call(call_id, tool)
        if what == "preview":
            if text != call.preview:  # it is sent again after the approval
                call.preview = text
                self._below(call, self._preview(text))
            return
        if call.progress > MAX_PROGRESS_LINES:
            return
        lines, more = run_texts.first_lines(text, MAX_PROGRESS_LINES - call.progress)
        call.last = lines[-1] if lines else call.last
        if more:
            lines.append("… (more)")
        call.progress += len(lines)
        self._below(call, [self._dim(line) for line in lines])

    def finished(self, result: ToolResult, seconds: float) -> None:
        call = self._call(result.call_id, result.tool)
        del self._calls[result.call_id]
        self._running.pop(result.call_id, None)
        text = run_texts.content(result)
        if result.outcome == "ok" and (call.progress or call.preview is not None):
            self._seen_before(call, text, seconds)
            return
        is_diff = result.outcome == "ok" and run_texts.is_diff(text)
        lines, more = run_texts.first_lines(text, MAX_DIFF_LINES if is_diff else MAX_RESULT_LINES)
        words = ""
        if result.outcome != "ok":
            words = lines.pop(0).removeprefix(f"{result.tool} failed: ") if lines else ""
        elif more and (words := run_texts.summary_of(text)):
            more -= 1
        shown = [self._changed(line) if is_diff else self._dim(line) for line in lines]
        if shown and more:
            shown.append(self._dim(run_texts.more(more)))
        ending = self._ending(call, result.outcome, seconds, words)
        self._transcript.lines(*self._folded(ending), *(f"  {line}" for line in shown))

    def _seen_before(self, call: CallDisplay, text: str, seconds: float) -> None:
        """End of a call whose progress was shown: the last line of its result tells the outcome."""
        *tail, last = run_texts.last_lines(text, MAX_TAIL_LINES + 1) or [""]
        if call.progress > MAX_PROGRESS_LINES:
            self._below(call, [self._dim(line) for line in tail])
        if last == call.last or (run_texts.is_diff(text) and not run_texts.summary_of(text)):
            last = ""
        timed = last.startswith("[")  # such as a command's exit code, which includes the time
        ending = self._ending(call, "ok", 0.0 if timed else seconds, last)
        self._transcript.lines(*self._folded(ending))

    def _ending(self, call: CallDisplay, outcome: ToolOutcome, seconds: float, words: str) -> str:
        """The line about how a call ended: below its others, or with its name."""
        below = self._transcript.about is call
        head = [] if below else [call.title]
        if outcome != "ok":
            head.append(run_texts.OUTCOME_WORDS[outcome])
        if seconds > 0.1:
            head.append(run_texts.duration(seconds))
        parts = [", ".join(head), run_texts.cut(words, run_texts.MAX_LINE_SHOWN)]
        mark = self._status.style(*run_texts.marks(outcome))
        return f"{'  ' if below else ''}{mark} {': '.join(filter(None, parts))}".rstrip()

    def _call(self, call_id: str, tool: str) -> CallDisplay:
        return self._calls.setdefault(call_id, CallDisplay(run_texts.short(tool, MAX_TOOL_NAME)))

    # --- lines ---

    def _head(self, call: CallDisplay) -> None:
        """Write the line that names the call, unless the lines below clearly belong to it."""
        if not (call.shown and self._transcript.about is call):
            self._transcript.lines(f"{self._status.style('cyan', '●')} {call.title}", about=call)
            call.shown = True

    def _below(self, call: CallDisplay, lines: Sequence[str]) -> None:
        """Write lines about a call, below its head."""
        if lines:
            self._head(call)
            self._transcript.lines(*(f"  {line}" for line in lines), about=call)

    def _preview(self, text: str) -> list[str]:
        shown, more = run_texts.previewed(text)
        if any(line.startswith("@@ ") for line in shown):
            shown = [self._diff_line(line) for line in shown]
        return [*shown, self._dim(run_texts.more(more))] if more else shown

    def _diff_line(self, line: str) -> str:
        for start, style in run_texts.DIFF_STYLES.items():
            if line.startswith(start):
                return self._status.style(style, line)
        return line

    def _dim(self, line: str) -> str:
        return self._status.style("dim", self._cut(line))

    def _changed(self, line: str) -> str:
        return self._diff_line(self._cut(line))

    def _cut(self, line: str) -> str:
        """Cut to one line of a terminal; elsewhere to the maximum length."""
        return run_texts.cut(
            line, self._status.width - 5 if self._status.terminal else run_texts.MAX_LINE_SHOWN
        )

    def _folded(self, line: str) -> list[str]:
        return folded(line, self._status.width) if self._status.terminal else [line]

    def _one_line(self, text: str) -> str:
        return run_texts.short(
            text, self._status.width - 3 if self._status.terminal else run_texts.MAX_LINE_SHOWN
        )
