"""A chat as a file: JSONL that loses nothing and can be read back, or Markdown for people. Pure.

The first line of JSONL says what the file is and describes the chat; each further line is a
message, superseded ones included, in order of their numbers. Behind them stand the files that
messages refer to, with their bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Literal, Union, assert_never

from msgspec import structs

from holdfast.chat.errors import InvalidInput
from holdfast.chat.state import Stored
from holdfast.chat.view import Snapshot
from holdfast.kernel.errors import FormatError
from holdfast.kernel.messages import (
    File,
    Message,
    Part,
    Reasoning,
    Source,
    Tagged,
    Text,
    ToolCall,
    ToolResult,
    Value,
    decode,
    encode,
    prepare_to_decode,
)

Format = Literal["jsonl", "markdown"]
FORMAT: Final = 1
WITH_FILES: Final = 2
"""The format of an export that has any: who does not know of them would lose them."""


class Header(Tagged, frozen=True, tag="chat"):
    """The first line."""

    format: int
    chat: Snapshot


class Line(Tagged, frozen=True, tag="message"):
    """Each of the next."""

    message: Stored


class Attached(Tagged, frozen=True, tag="file"):
    """Each of the last: a file that a message names by its id."""

    id: str
    media_type: str
    name: str | None
    data: bytes


LINE: Final[Any] = Union[Line, Attached]


class Exported(Value, frozen=True):
    """What a file in JSONL holds."""

    chat: Snapshot
    messages: tuple[Stored, ...]
    files: tuple[Attached, ...] = ()


def export(chat: Snapshot, messages: Sequence[Stored], format: Format) -> str:
    match format:
        case "jsonl":
            return "".join(f"{line}\n" for line in jsonl(chat, messages))
        case "markdown":
            return "\n\n".join(markdown(chat, messages)) + "\n"
        case _:
            raise InvalidInput(f"format is {format!r}: use 'jsonl' or 'markdown'")


# --- JSONL --------------------------------------------------------------------------------------


def jsonl(chat: Snapshot, messages: Iterable[Stored], files: bool = False) -> Iterator[str]:
    """`files`: whether any follow, each as `jsonl_file` has it."""
    yield encode(Header(WITH_FILES if files else FORMAT, chat)).decode()
    for stored in messages:
        yield encode(Line(stored)).decode()


def numbered(chat: Snapshot, messages: Sequence[Stored]) -> tuple[Snapshot, Sequence[Stored]]:
    """A chat that has these messages and no others."""
    anew = [structs.replace(it, number=n) for n, it in enumerate(messages, start=1)]
    return structs.replace(chat, messages=len(anew)), anew


def jsonl_file(file: Attached) -> str:
    return encode(file).decode()


def parse(text: str) -> Exported:
    """The chat that a file in JSONL holds. Raises `FormatError`."""
    first, *rest = text.split("\n") if text.strip() else [""]
    version = decode(first, _Version).format
    if version not in (FORMAT, WITH_FILES):
        raise FormatError(
            f"this export has format {version}, and this version of holdfast reads {FORMAT} and "
            f"{WITH_FILES}: upgrade holdfast"
        )
    lines: list[Line | Attached] = [decode(line, LINE) for line in rest if line.strip()]
    return Exported(
        decode(first, Header).chat,
        tuple(line.message for line in lines if isinstance(line, Line)),
        tuple(line for line in lines if isinstance(line, Attached)),
    )


class _Version(Value, frozen=True):
    format: int


prepare_to_decode(_Version, Header, LINE)


# --- Markdown -----------------------------------------------------------------------------------


def markdown(chat: Snapshot, messages: Iterable[Stored]) -> Iterator[str]:
    """Paragraphs. What only models see is left out."""
    yield f"# {_line(chat.title or 'A conversation')}"
    for stored in messages:
        if stored.message.visibility != "model":
            yield _heading(stored)
            yield from filter(None, map(_part, stored.message.parts))


def _heading(stored: Stored) -> str:
    message = stored.message
    who = message.model or message.role if message.role == "assistant" else message.role
    superseded = " (superseded by an edit)" if stored.superseded_at is not None else ""
    ended = _ending(message)
    return f"## {stored.number}. {_line(who)}{ended}{superseded}"


def _ending(message: Message) -> str:
    if message.kind == "checkpoint":
        return " (summary)"
    return f" ({message.finish})" if message.finish in ("interrupted", "error", "length") else ""


def _part(part: Part) -> str:
    match part:
        case Text(text):
            return text.strip("\n")
        case Reasoning(text):
            return "\n".join(f"> {line}" for line in text.strip().splitlines())
        case ToolCall():
            return f"Call of {_code(part.tool)}:\n\n{_block(part.arguments)}"
        case ToolResult():
            files = "".join(f"\n\n{_part(one)}" for one in part.content if isinstance(one, File))
            return f"Result of {_code(part.tool)} ({part.outcome}):\n\n{_block(part.text)}{files}"
        case File():
            size = "" if part.data is None else f", {len(part.data)} bytes"
            return f"File: {_code(part.name or 'without a name')} ({part.media_type}{size})"
        case Source():
            return f"Source: [{_line(part.title or part.url)}](<{_line(part.url)}>)"
        case _:
            assert_never(part)


def _line(text: str) -> str:
    return " ".join(text.split())


def _code(text: str) -> str:
    return f"`{_line(text).replace('`', chr(39))}`"


def _block(text: str) -> str:
    """The text in a fence that is longer than any in it."""
    ticks = max(("```", *(f"{run}`" for run in re.findall("`{3,}", text))), key=len)
    body = text.strip("\n")
    return f"{ticks}\n{body}\n{ticks}"
