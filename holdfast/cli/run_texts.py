"""Texts about a run for people: events, results, previews, summaries. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, assert_never

import msgspec

from holdfast.cli.graphemes import letters
from holdfast.cli.output_stream import TextStyle
from holdfast.cli.wrap import cells
from holdfast.kernel.errors import FailureKind
from holdfast.kernel.escape import escape
from holdfast.kernel.events import Compacted, Delivery, Summary
from holdfast.kernel.limits import LimitReached
from holdfast.kernel.messages import CutBy, File, Message, ToolCall, ToolOutcome, ToolResult

MAX_PREVIEW_LINES: Final = 60
"""Lines of a preview shown."""
MAX_LINE_SHOWN: Final = 400
"""Characters of a line shown, where a line may wrap."""
MAX_EXAMINED: Final = 100_000
"""Characters of a text examined, to show a few lines of it."""

DIFF_STYLES: Final[Mapping[str, TextStyle]] = {
    "+++": "bold",
    "---": "bold",
    "@@": "cyan",
    "+": "green",
    "-": "red",
}
OUTCOME_WORDS: Final[Mapping[ToolOutcome, str]] = {
    "ok": "",
    "failed": "failed",
    "refused": "refused",
    "skipped": "skipped",
    "interrupted": "interrupted",
    "edited": "edited",
    "forked": "forked",
    "lost": "lost",
    "timed_out": "timed out",
}
FAILURE_HINTS: Final[Mapping[FailureKind, str]] = {
    "rate_limit": "Try again later.",
    "overloaded": "Try again later.",
    "server": "Try again later.",
    "timeout": "Try again later.",
    "stream_silent": "Try again later.",
    "stream_cut": "Try again later.",
    "network": "Check the connection, and the address if you set one.",
    "not_found": "Check the name of the model.",
    "context_overflow": "Start a new conversation, or use a model with a larger window.",
    "content_filter": "Rephrase the prompt.",
}
"""Advice for failures whose message has none."""
TRUNCATION_NOTES: Final[Mapping[CutBy, str]] = {
    "content_filter": "! The answer is incomplete: the provider's content filter stopped it.",
    "length": "! The answer is incomplete: it reached the length limit.",
}


def marks(outcome: ToolOutcome) -> tuple[TextStyle, str]:
    if outcome == "ok":
        return "green", "✓"
    return ("red" if outcome in ("failed", "timed_out", "lost") else "yellow"), "✗"


def cut(text: str, width: int) -> str:
    """Cut a line to a number of columns."""
    width = max(width, 2)
    used = fits = 0
    at = 0
    for letter in letters(text):
        used += cells(letter)
        if used > width:
            return f"{text[:fits]}…"
        at += len(letter)
        if used < width:
            fits = at
    return text


def short(text: str, width: int) -> str:
    """One escaped line: a newline in it is spelled out, so it cannot fake another line."""
    width = max(width, 20)
    return cut(escape(text[: width + 1]).replace("\n", "\\n").replace("\t", " "), width)


def first_lines(text: str, count: int, *, folded: bool = True) -> tuple[list[str], int]:
    """The first lines, escaped, and how many more there are.

    `folded`: of a line overwritten repeatedly, such as a progress bar, keep only the last state,
    without colors.
    """
    text = text.strip("\n") if folded else text.rstrip("\n")
    if not text:
        return [], 0
    total = text.count("\n") + 1
    lines = text[:MAX_EXAMINED].replace("\r\n", "\n").split("\n", max(count, 0))[: max(count, 0)]
    if folded:
        lines = [_folded(line) for line in lines]
    return [escape(line) for line in lines], total - len(lines)


def last_lines(text: str, count: int) -> list[str]:
    """The last lines, escaped and folded."""
    text = text.strip("\n")[-MAX_EXAMINED:].replace("\r\n", "\n")
    return [escape(_folded(line)) for line in text.split("\n")[-count:]] if text else []


def is_diff(text: str) -> bool:
    """Whether a text starts like a diff, including git's."""
    lines, _ = first_lines(text, 5)
    return any(line.startswith("@@ ") for line in lines)


def summary_of(text: str) -> str:
    """The last line of a result if it is in brackets, such as a command's exit code."""
    last = "".join(last_lines(text, 1))
    return last if last.startswith("[") else ""


def _folded(line: str) -> str:
    line = line.rstrip("\r").rpartition("\r")[2]
    if "\x1b" not in line:
        return line
    from holdfast.tools.commands.output import uncoloured

    return uncoloured(line)


def previewed(text: str) -> tuple[list[str], int]:
    """The lines of a preview that are shown, and how many more there are."""
    lines, more = first_lines(text, MAX_PREVIEW_LINES, folded=False)
    return [cut(line, MAX_LINE_SHOWN) for line in lines], more


def seen_whole(preview: str) -> bool:
    """Whether the shown lines of a preview are all of it."""
    lines, more = previewed(preview)
    return not more and "\n".join(lines) == escape(preview.rstrip("\n"))


def more(count: int) -> str:
    return f"… {count:,} more {'line' if count == 1 else 'lines'}"


def content(result: ToolResult) -> str:
    files = [
        f"[{part.media_type}{f', {part.name}' if part.name else ''}]"
        for part in result.content
        if isinstance(part, File)
    ]
    return "\n".join(filter(None, [result.text.strip("\n"), *files]))


def spelled(tool: str, arguments: str) -> str:
    """A call as a person would write it: `read(path="a.py", limit=20)`."""
    try:
        values = msgspec.json.decode(arguments[:MAX_EXAMINED] or "{}")
        if isinstance(values, dict):
            pairs = (f"{name}={msgspec.json.encode(values[name]).decode()}" for name in values)
            return f"{tool}({', '.join(pairs)})"
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass  # invalid JSON is shown as it is
    return f"{tool}({arguments[:MAX_EXAMINED]})"


def duration(seconds: float) -> str:
    if seconds < 9.95:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    whole = round(seconds)
    return f"{whole} s" if whole < 120 else f"{whole // 60} min {whole % 60} s"


def compacted(event: Compacted) -> str:
    what = "Summarized" if event.summarized else "Shortened old results"
    return f"{what}: {event.before:,} → {event.after:,} tokens"


def delivered(why: Delivery, messages: Sequence[Message]) -> str:
    match why:
        case "steering" | "follow_up":
            return f"sent: {short(' '.join(message.text for message in messages), 200)}"
        case "guard":
            return "the stop guard asked it to continue"
        case "recovery":
            return "the answer reached the length limit: asked it to continue"
        case "repair":
            return "the answer does not have the requested form: asked again"
        case _:
            assert_never(why)


def headline(message: Message) -> str:
    """A message as shown in a list: its text, or else its results or its calls."""
    if message.text:
        return message.text
    results = [f"{one.tool}: {one.outcome}" for one in message.results]
    calls = [part.tool for part in message.parts if isinstance(part, ToolCall)]
    return f"({', '.join(results or calls) or message.kind})"


def limit_note(limit: LimitReached | None, durable: bool) -> str:
    """The limit that ended a turn, and how to continue here."""
    if limit is None:
        return "Stopped: a limit was reached."
    if durable and limit.scope == "turn":
        return f"{limit.event} /resume continues, and allows the same again."
    if limit.name == "steps":
        return f"{limit.event} Raise it with --max-steps."
    return limit.sentence


def together(one: Summary, other: Summary) -> Summary:
    """The sum of two runs of a conversation."""
    return Summary(
        one.steps + other.steps,
        one.tool_calls + other.tool_calls,
        one.tool_errors + other.tool_errors,
        one.usage + other.usage,
        other.cost if one.cost is None else one.cost + (other.cost or 0.0),
        one.seconds + other.seconds,
    )


def summed(summary: Summary) -> str:
    usage = summary.usage
    pieces = [count(summary.steps, "step")]
    if summary.tool_calls:
        failed = f" ({summary.tool_errors} failed)" if summary.tool_errors else ""
        pieces.append(count(summary.tool_calls, "tool call") + failed)
    if usage.context:
        pieces.append(f"{usage.context - usage.output:,} tokens in, {usage.output:,} out")
    if summary.cost:
        pieces.append(f"${summary.cost:.4f}" if summary.cost < 1 else f"${summary.cost:,.2f}")
    return " · ".join([*pieces, duration(summary.seconds)])


def count(number: int, what: str) -> str:
    """`1 step`, `1,200 steps`"""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def columns(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> Iterator[str]:
    """Lines with aligned columns; those in `right` are right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        aligned = [
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(aligned).rstrip()
