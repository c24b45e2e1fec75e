"""Texts of the demo model: fixed ones, generated ones, and sentences about calls.

Pure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle, islice
from typing import Any, Final

from holdfast.kernel.messages import File, ToolCall, ToolResult
from holdfast.kernel.model import ToolSpec
from holdfast.providers.demo.example import example
from holdfast.providers.demo.intents import Use

SPEECH: Final = "I am the demo model: a small program, not a language model."
SAY_HELP: Final = "Say `help` to see what I can do."
HELLO: Final = f"{SPEECH} {SAY_HELP}"
USE_DIR: Final = "For files and commands, start with `--dir` and a directory."

LINES: Final = 10
"""Of a result that are shown."""
WIDTH: Final = 200

MARKDOWN: Final = """\
# A heading

Text with *emphasis*, **strong emphasis**, ~~deleted words~~, `code` and
[a link](https://example.com/).

- one
  - one and a half
- [x] done

1. first
2. second

| name | size |
|:-----|-----:|
| `a.txt` | 12 |

```python
def greet(name: str) -> str:
    return f"Hello, {name}!"
```

> A quotation."""

_SENTENCES: Final = (
    "This text was made by counting and means nothing at all.",
    "It is here so that a long answer can be watched while it grows.",
    "Scroll up and the page should stay where you put it.",
    "Press stop and what has been said so far should be kept.",
    "Send another message and it should be read when this one ends.",
    "Close the window and come back and nothing should be missing.",
)
PARAGRAPH: Final = 5
"""Sentences in one: not as many as there are, so that no two in a row begin alike."""


def long(count: int) -> str:
    """Exactly this many words."""
    text = ""
    for number, sentence in enumerate(cycle(_SENTENCES)):
        words = sentence.split()[:count]
        if not words:
            return text
        count -= len(words)
        text += ("" if number == 0 else " " if number % PARAGRAPH else "\n\n") + " ".join(words)
    raise AssertionError("a cycle has no end")


def plan(about: str) -> str:
    return (
        f"A plan for {shortened(about, 100) or 'whatever it is'}:\n\n"
        "1. **Look.** See what is there, and what is missing.\n"
        "2. **Choose.** Write down two ways, and take the simpler one.\n"
        "3. **Do.** Take one small step, and check it before the next.\n"
        "4. **Tell.** Say what was done, and what is left."
    )


_THOUGHTS: Final = (
    "What is asked for is {about}.",
    "What is known about it is what stands in the conversation, and no more.",
    "There may be several ways; the simplest is tried first.",
    "What could go wrong is better found now than later.",
)


def thoughts(about: str, steps: int) -> str:
    """Reasoning, a line for each step."""
    lines = islice(cycle(_THOUGHTS), steps)
    filled = (line.format(about=about or "to think") for line in lines)
    return "\n".join(f"Step {number}: {line}" for number, line in enumerate(filled, 1))


def shortened(text: str, length: int = 80) -> str:
    """The text on one line, at most this long."""
    line = " ".join(text[: 8 * length].split())
    return line if len(line) <= length else line[: length - 1] + "…"


# --- Help ---------------------------------------------------------------------------------------

_HELP: Final = (
    ("list_files", "list files: `list`, `list src`, `what files are here?`"),
    ("read_file", "read a file: `read README.md`, `read README.md lines 10-20`"),
    ("write_file", "write a file: `write hello to notes.txt`, `create notes.txt with hello`"),
    ("edit_file", "change a file: `replace hello with goodbye in notes.txt`"),
    ("search_files", "search files: `search for TODO in src`"),
    ("execute", "run a command: `run ls -l`, `$ make test`"),
    ("ask_user", "ask you something: `ask me`, `ask me Which colour: red, green or blue`"),
    ("list_files", "call several tools in one message: `use many tools at once`"),
    ("", "make mistakes: `call an unknown tool`, `bad arguments`"),
    ("", "repeat your words: `say hello`"),
    ("", "think aloud: `think about trees for 5 steps`"),
    ("", "plan: `plan a party`"),
    ("", "answer at length: `long answer`, `long answer of 2,000 words`"),
    ("", "show what Markdown can do: `markdown`"),
    ("", "take my time: `slowly say one two three`, `wait 10 seconds`"),
    ("", "fail: `fail 3 times with rate limit`, `fail for good`, `cut`, `empty`, `silence`"),
)
"""Each with the tool that it needs."""


def help_text(tools: Sequence[ToolSpec]) -> str:
    """What can be asked for: only what can be done with these tools."""
    names = {tool.name for tool in tools}
    lines = [f"- {line}" for tool, line in _HELP if not tool or tool in names]
    if tools:
        known = {tool for tool, _ in _HELP}
        one = next((tool for tool in tools if tool.name not in known), tools[0])
        given = json.dumps(example(one.schema))
        lines.append(
            f"- call any tool: {code(f'call {one.name} {given}')}; here are {offer(tools)}"
        )
    several = "Several wishes are done one after the other: `say one, then wait 2 s, then say two`."
    end = several if "execute" in names else f"{several} {USE_DIR}"
    return "\n\n".join((f"{SPEECH} I understand a few wishes:", "\n".join(lines), end))


def offer(tools: Sequence[ToolSpec]) -> str:
    return ", ".join(code(tool.name) for tool in tools) or "none"


def missing(tool: str, tools: Sequence[ToolSpec]) -> str:
    """Why a call is not made."""
    name = f" {code(tool)}" if tool else ""
    why = f"There is no tool{name} here: on offer are {offer(tools)}."
    return f"{why} {USE_DIR}" if tool in _DOING else why


# --- Calls --------------------------------------------------------------------------------------

_DOING: Final[Mapping[str, tuple[str, str]]] = {
    "list_files": ("Listing", "path"),
    "read_file": ("Reading", "path"),
    "write_file": ("Writing", "path"),
    "edit_file": ("Changing", "path"),
    "search_files": ("Searching for", "pattern"),
    "execute": ("Running", "command"),
}
"""What a call is called, and which argument it is about."""


def doing(uses: Sequence[Use]) -> str:
    """What is about to be done."""
    lines = []
    for use in uses:
        subject = _subject(use.tool, use.arguments)
        lines.append(f"{_DOING[use.tool][0]} {subject}" if subject else f"Calling {code(use.tool)}")
    return f"{lines[0]}." if len(lines) == 1 else "\n".join(f"- {line}" for line in lines)


def told(calls: Sequence[ToolCall], results: Sequence[ToolResult]) -> Iterator[str]:
    """What came of the calls of one message, each with the first lines of its result."""
    made = {result.call_id: result for result in results}
    for call, result in ((call, made[call.id]) for call in calls if call.id in made):
        subject = _subject(call.tool, call.arguments)
        name = f"{code(call.tool)} ({subject})" if subject else code(call.tool)
        ended = "returned" if result.outcome == "ok" else result.outcome.replace("_", " ")
        shown = _shown(result.text)
        yield f"{name} {ended}:\n\n{shown}" if shown else f"{name} {ended}."
        yield from (seen(part) for part in result.content if isinstance(part, File))


def _subject(tool: str, arguments: str) -> str:
    """The path, pattern or command of a call, as code; nothing when it has none."""
    try:
        given: Any = json.loads(arguments)
    except (ValueError, RecursionError):
        return ""
    value = given.get(_DOING[tool][1]) if tool in _DOING and isinstance(given, Mapping) else None
    return code(value) if isinstance(value, str) and value.strip() else ""


def code(text: str) -> str:
    return f"`{shortened(text, 60).replace('`', chr(39))}`"


def _shown(text: str) -> str:
    """The first lines of a result, as a block of code."""
    if not text.strip():
        return ""
    lines = text.strip("\n").splitlines()
    head = [line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…" for line in lines[:LINES]]
    ticks = max(("```", *(f"{run}`" for run in re.findall("`+", "\n".join(head)))), key=len)
    more = len(lines) - len(head)
    rest = f"\n\n… and {more} more {'line' if more == 1 else 'lines'}." if more else ""
    return "\n".join((ticks, *head, ticks)) + rest


def seen(file: File) -> str:
    """What can be said of a file without understanding it."""
    name = code(file.name) if file.name and file.name.strip() else "a file without a name"
    size = f", {len(file.data)} bytes" if file.data is not None else ""
    return f"I was given {name} ({file.media_type or 'of no type'}{size})."
