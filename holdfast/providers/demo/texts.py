"""Texts of the demo model: fixed ones, generated ones, and sentences about calls. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final

from holdfast.kernel.messages import File, ToolCall, ToolResult
from holdfast.kernel.model import ToolSpec
from holdfast.providers.demo.schema_example import example

SPEECH: Final = "I am the demo model: a small program, not a language model."
SAY_HELP: Final = "Say `help` to see what I can do."
HELLO: Final = f"{SPEECH} {SAY_HELP}"
USE_DIR: Final = "For files and commands, start with `--dir` and a directory."

HERE: Final = Path(__file__).parent
MARKDOWN: Final = (HERE / "markdown.md").read_text("utf-8").strip()
LONG_ANSWER: Final = (HERE / "long_answer.md").read_text("utf-8").splitlines()
HELP: Final = [line.split(" | ") for line in (HERE / "help.md").read_text("utf-8").splitlines()]
"""A tool, or `""`, and the requests that need it."""

ACTIONS: Final[Mapping[str, tuple[str, str]]] = {
    "list_files": ("Listing", "path"),
    "read_file": ("Reading", "path"),
    "write_file": ("Writing", "path"),
    "edit_file": ("Changing", "path"),
    "search_files": ("Searching for", "pattern"),
    "execute": ("Running", "command"),
}
"""What a tool does, and the argument that names its subject."""


def long_text(count: int) -> str:
    """Exactly this many words, in paragraphs of five sentences."""
    sentences = zip(cycle(LONG_ANSWER), cycle((*[" "] * 4, "\n\n")), strict=False)
    words = (word for pair in sentences for word in re.findall(r"\S+\s*", "".join(pair)))
    return "".join(islice(words, count)).rstrip()


def plan(about: str) -> str:
    return (
        f"A plan for {shortened(about, 100) or 'it'}:\n\n"
        "1. **See** what is there, and what is missing.\n"
        "2. **Choose** the simpler of two ways.\n"
        "3. **Take** one small step, and check it before the next.\n"
        "4. **Report** what was done, and what is left."
    )


def thoughts(about: str, steps: int) -> str:
    line = f"what is known about {shortened(about, 100) or 'it'}, and what is missing?"
    return "\n".join(f"Step {number}: {line}" for number in range(1, steps + 1))


def shortened(text: str, length: int = 80) -> str:
    """The text on one line, at most this long."""
    line = " ".join(text[: 8 * length].split())
    return line if len(line) <= length else line[: length - 1] + "…"


def code(text: str) -> str:
    return f"`{shortened(text, 60).replace('`', chr(39))}`"


def not_understood(text: str) -> str:
    return f"{SPEECH} I did not understand “{shortened(text)}”. {SAY_HELP}"


def help_text(tools: Sequence[ToolSpec]) -> str:
    """The requests that work with these tools."""
    names = {tool.name for tool in tools}
    lines = [f"- {line}" for tool, line in HELP if not tool or tool in names]
    if tools:
        other = next((tool for tool in tools if tool.name not in ACTIONS), tools[0])
        request = code(f"call {other.name} {json.dumps(example(other.schema))}")
        lines.append(f"- call any tool: {request}; here are {offer(tools)}")
    chain = "Join requests: `say one, then wait 2 s, then say two`."
    end = chain if "execute" in names else f"{chain} {USE_DIR}"
    return "\n\n".join((f"{SPEECH} I understand a few requests:", "\n".join(lines), end))


def offer(tools: Sequence[ToolSpec]) -> str:
    return ", ".join(code(tool.name) for tool in tools) or "none"


def missing(tool: str, tools: Sequence[ToolSpec]) -> str:
    """Why a call is not made."""
    name = f" {code(tool)}" if tool else ""
    reason = f"There is no tool{name} here: on offer are {offer(tools)}."
    return f"{reason} {USE_DIR}" if tool in ACTIONS else reason


def announce(call: ToolCall) -> str:
    """The sentence before a call."""
    subject = subject_of(call)
    return f"{ACTIONS[call.tool][0]} {subject}." if subject else f"Calling {code(call.tool)}."


def subject_of(call: ToolCall) -> str:
    """The path, pattern or command of a call, as code; `""` if it has none."""
    try:
        subject: Any = json.loads(call.arguments)[ACTIONS[call.tool][1]]
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""
    return code(subject) if isinstance(subject, str) and subject.strip() else ""


def report(call: ToolCall, result: ToolResult) -> str:
    """The outcome of a call, with the first ten lines of its result."""
    subject = f" ({subject_of(call)})" if subject_of(call) else ""
    outcome = "returned" if result.outcome == "ok" else result.outcome.replace("_", " ")
    lines = result.text.strip("\n").splitlines() if result.text.strip() else []
    blocks = [f"{code(call.tool)}{subject} {outcome}{':' if lines else '.'}"]
    if lines:
        shown = [line if len(line) <= 200 else f"{line[:199]}…" for line in lines[:10]]
        longest = max(map(len, re.findall("`+", "\n".join(shown))), default=0)
        fence = "`" * max(3, longest + 1)
        blocks.append("\n".join((fence, *shown, fence)))
    if more := len(lines[10:]):
        blocks.append(f"… and {more} more {'line' if more == 1 else 'lines'}.")
    return "\n\n".join(
        blocks + [describe(part) for part in result.content if isinstance(part, File)]
    )


def describe(file: File) -> str:
    name = code(file.name) if file.name and file.name.strip() else "a file without a name"
    size = f", {len(file.data)} bytes" if file.data is not None else ""
    return f"I was given {name} ({file.media_type or 'of no type'}{size})."
