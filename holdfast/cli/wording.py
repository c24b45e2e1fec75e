"""What happens in a run, in words for people. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, assert_never

import msgspec

from holdfast.cli.letters import letters
from holdfast.cli.terminal import Style, safe
from holdfast.cli.wrap import cells
from holdfast.kernel.errors import FailureKind
from holdfast.kernel.events import Compacted, Delivery, Summary
from holdfast.kernel.messages import File, Message, Outcome, ToolResult

PREVIEW: Final = 60
"""Lines of a preview that are shown."""
LONGEST: Final = 400
"""Characters of a line that are shown, where a line may wrap."""
LOOKED_AT: Final = 100_000
"""Characters of a text that are looked at, to show a few lines of it."""

DIFF: Final[Mapping[str, Style]] = {
    "+++": "bold",
    "---": "bold",
    "@@": "cyan",
    "+": "green",
    "-": "red",
}
OUTCOMES: Final[Mapping[Outcome, str]] = {
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
HINTS: Final[Mapping[FailureKind, str]] = {
    "rate_limit": "Try again in a while.",
    "overloaded": "Try again in a while.",
    "server": "Try again in a while.",
    "timeout": "Try again in a while.",
    "stream_silent": "Try again in a while.",
    "stream_cut": "Try again in a while.",
    "network": "Check the connection, and the address if you set one.",
    "not_found": "Check the name of the model.",
    "context_overflow": "Start a new conversation, or use a model with a larger window.",
    "content_filter": "Ask in other words.",
}
"""What to do, where the message does not say it."""


def marks(outcome: Outcome) -> tuple[Style, str]:
    if outcome == "ok":
        return "green", "✓"
    return ("red" if outcome in ("failed", "timed_out", "lost") else "yellow"), "✗"


def cut(text: str, width: int) -> str:
    """As much of a line as fits into so many columns."""
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
    """One harmless line: a line end in it is spelled, so that it cannot pretend to be another."""
    width = max(width, 20)
    return cut(safe(text[: width + 1]).replace("\n", "\\n").replace("\t", " "), width)


def first_lines(text: str, count: int, *, folded: bool = True) -> tuple[list[str], int]:
    """The first lines, harmless, and how many more there are.

    `folded`: of a line that was written over and over, as a progress bar is, only the last, and
    without its colours.
    """
    text = text.strip("\n") if folded else text.rstrip("\n")
    if not text:
        return [], 0
    total = text.count("\n") + 1
    lines = text[:LOOKED_AT].replace("\r\n", "\n").split("\n", max(count, 0))[: max(count, 0)]
    if folded:
        lines = [_folded(line) for line in lines]
    return [safe(line) for line in lines], total - len(lines)


def last_lines(text: str, count: int) -> list[str]:
    """The last lines, harmless and folded."""
    text = text.strip("\n")[-LOOKED_AT:].replace("\r\n", "\n")
    return [safe(_folded(line)) for line in text.split("\n")[-count:]] if text else []


def is_diff(text: str) -> bool:
    """Whether a text begins as a diff does, also one of git."""
    lines, _ = first_lines(text, 5)
    return any(line.startswith("@@ ") for line in lines)


def summary_of(text: str) -> str:
    """The last line of a result where that is in brackets, as the exit code of a command is."""
    last = "".join(last_lines(text, 1))
    return last if last.startswith("[") else ""


def _folded(line: str) -> str:
    line = line.rstrip("\r").rpartition("\r")[2]
    if "\x1b" not in line:
        return line
    from holdfast.tools.commands.output import uncoloured

    return uncoloured(line)


def previewed(text: str) -> tuple[list[str], int]:
    """What is shown of a preview, and how many more lines there are."""
    lines, more = first_lines(text, PREVIEW, folded=False)
    return [cut(line, LONGEST) for line in lines], more


def seen_whole(preview: str) -> bool:
    """Whether whoever saw what is shown of a preview has seen all of it."""
    lines, more = previewed(preview)
    return not more and "\n".join(lines) == safe(preview.rstrip("\n"))


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
        given = msgspec.json.decode(arguments[:LOOKED_AT] or "{}")
        if isinstance(given, dict):
            said = (f"{name}={msgspec.json.encode(given[name]).decode()}" for name in given)
            return f"{tool}({', '.join(said)})"
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass  # what is no JSON is shown as it is
    return f"{tool}({arguments[:LOOKED_AT]})"


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
            return f"told it: {short(' '.join(message.text for message in messages), 200)}"
        case "guard":
            return "the stop guard asked it to go on"
        case "recovery":
            return "the answer was cut by its length: asked it to go on"
        case "repair":
            return "the answer does not have the form that was asked for: asked it again"
        case _:
            assert_never(why)


def interrupted(kept_in: str | None) -> str:
    return "Interrupted." + (f" What was said is kept in {safe(kept_in)}." if kept_in else "")


def step_limit(kept_in: str | None) -> str:
    do = "Ask it to go on, or raise --max-steps." if kept_in else "Raise it with --max-steps."
    return f"Stopped: the limit of steps is reached. {do}"


def together(one: Summary, other: Summary) -> Summary:
    """What two runs of a conversation came to."""
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
    said = [count(summary.steps, "step")]
    if summary.tool_calls:
        failed = f" ({summary.tool_errors} failed)" if summary.tool_errors else ""
        said.append(count(summary.tool_calls, "tool call") + failed)
    if usage.context:
        said.append(f"{usage.context - usage.output:,} tokens in, {usage.output:,} out")
    if summary.cost:
        said.append(f"${summary.cost:.4f}" if summary.cost < 1 else f"${summary.cost:,.2f}")
    return " · ".join([*said, duration(summary.seconds)])


def count(number: int, what: str) -> str:
    """`1 step`, `1,200 steps`"""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def columns(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> Iterator[str]:
    """Lines whose columns are as wide as what is in them; those named stand to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        aligned = [
            cell.rjust(width) if number in right else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield "  ".join(aligned).rstrip()
