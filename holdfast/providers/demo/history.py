"""Reads the messages of a request: progress on the newest intent, a summary, a title.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final
from zlib import crc32

from holdfast.kernel.compact import SUMMARY_INSTRUCTIONS, SUMMARY_SECTIONS
from holdfast.kernel.messages import File, Message, ToolCall, ToolResult, Value, encode
from holdfast.kernel.model import Request
from holdfast.kernel.title import prompt_of
from holdfast.providers.demo.texts import shortened

KEPT: Final = 8
"""Lines of a section: a summary must be shorter than what it stands for."""
TITLE: Final = 60
"""Characters."""
STEPS_DONE: Final = "Steps of the last request that are done:"
"""How a summary says it: the answers themselves may be gone."""


class Turn(Value, frozen=True):
    """The newest request, and everything since."""

    text: str = ""
    files: tuple[File, ...] = ()
    done: int = 0
    """Answers that called tools."""
    calls: tuple[ToolCall, ...] = ()
    """Of the last such answer."""
    results: tuple[ToolResult, ...] = ()
    """What came of them, and nobody has been told yet."""
    said: str = ""
    """What an answer that was cut by length has said already."""
    first: bool = True
    """Whether nothing was answered before."""
    repair: bool = False
    """Whether an answer did not have the form that was asked for."""


def turn_of(messages: Sequence[Message]) -> Turn:
    starts = [at for at, message in enumerate(messages) if _asks(message)]
    if not starts:
        return Turn()
    at = starts[-1]
    start, since = messages[at], messages[at + 1 :]
    steps = [number for number, message in enumerate(since) if _ours(message)]
    behind = since[steps[-1] + 1 :] if steps else since
    done = _done_before(messages[at - 1] if at else start) + len(steps)
    return Turn(
        start.text,
        tuple(part for part in start.parts if isinstance(part, File)),
        done,
        _ours(since[steps[-1]]) if steps else (),
        tuple(result for message in behind for result in message.results),
        "".join(message.text for message in behind if message.finish == "length"),
        not done and not any(_is_earlier(message) for message in messages[:at]),
        any(message.why == "repair" for message in since),
    )


def _asks(message: Message) -> bool:
    """Whether it is a person's, or was put in for another reason than to make us go on."""
    if message.kind == "injected":
        return message.why not in ("recovery", "repair")
    return message.kind == "prompt"


def _ours(message: Message) -> tuple[ToolCall, ...]:
    if message.role != "assistant":
        return ()
    return tuple(call for call in message.calls if not call.provider_executed)


def _is_earlier(message: Message) -> bool:
    return message.role == "assistant" or message.kind == "checkpoint"


def _done_before(message: Message) -> int:
    """Steps that a summary stands for, when the request was pinned behind it."""
    if message.checkpoint is None or message.checkpoint.pinned is None:
        return 0
    found = re.search(rf"{STEPS_DONE} (\d{{1,6}})", message.text)
    return int(found[1]) if found is not None else 0


def mark(messages: Sequence[Message]) -> str:
    """The same for the same messages, and hardly ever for others."""
    value = 0
    for message in messages:
        value = crc32(encode((message.role, message.kind, message.parts)), value)
    return f"{len(messages)}_{value:08x}"


# --- A summary ----------------------------------------------------------------------------------


def is_summary(request: Request) -> bool:
    return any(block.text == SUMMARY_INSTRUCTIONS for block in request.system)


def summary(request: Request) -> str:
    """The sections that are asked for, from what stands in the conversation word for word.

    The memory before it has the same lines, so what it kept is found in the same way.
    """
    text = "\n".join(message.text for message in request.messages)
    asked = re.findall(r"^(?:user: |- Asked: )(.+)$", text, re.MULTILINE)
    called = r'^(?:- File: |assistant calls \w+\(\{"path": ")([^"\n]+)'
    files = [f"- File: {shortened(path)}" for path in re.findall(called, text, re.MULTILINE)]
    found: Mapping[str, str] = {
        "Goal": shortened(asked[-1], 200) if asked else "",
        "State of work": _newest([f"- Asked: {shortened(one)}" for one in asked]),
        "Files touched": _newest(files),
        "Next steps": f"Answer the newest message.\n{STEPS_DONE} {_steps(text)}.",
    }
    return "\n".join(f"## {name}\n{found.get(name) or 'None known.'}" for name in SUMMARY_SECTIONS)


def title(request: Request) -> str:
    """How the conversation begins, with a capital letter."""
    asked = shortened(prompt_of(request), TITLE)
    return asked[:1].upper() + asked[1:] or "A conversation"


def _newest(lines: Sequence[str]) -> str:
    return "\n".join([*dict.fromkeys(lines)][-KEPT:])


def _steps(text: str) -> int:
    """Answers with calls since the last prompt, also those that the memory before stands for."""
    done, in_calls = 0, False
    for line in text.splitlines():
        if line.startswith("user: "):
            done = 0
        if told := re.match(rf"{STEPS_DONE} (\d{{1,6}})", line):
            done = int(told[1])
        is_call = line.startswith("assistant calls ")
        done += is_call and not in_calls  # the calls of one answer stand together
        in_calls = is_call
    return done
