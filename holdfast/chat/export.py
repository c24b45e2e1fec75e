"""Exports of a chat: lossless JSONL, which can be restored, or Markdown for people. Pure.

The first line of JSONL has the format version and the chat. Each further line is a message, in the
order of their numbers and including superseded ones. Then follow the files that messages refer to,
with their bytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Literal, Union, assert_never

from holdfast.chat.errors import InvalidInput
from holdfast.chat.rows import Stored
from holdfast.chat.snapshots import Snapshot
from holdfast.kernel.errors import FormatError
from holdfast.kernel.escape import escape_controls
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
EXPORT_FORMAT: Final = 6
"""Version of the export format. 2 added files; 3 added times of tool results and answers; 4 added
evaluated instructions; 5 the limit that ended a turn; 6 what tool calls used."""
READABLE_FORMATS: Final = frozenset({1, 2, 3, 4, 5, 6})
"""Versions that can be parsed. Fields that an earlier version lacks are absent."""
NAMED_LIMITS: Final = 5
"""Version since which a turn that ended at its limit of steps has the reason `limit`."""


class Header(Tagged, frozen=True, tag="chat"):
    """The first line of an export: the format and the chat."""

    format: int
    chat: Snapshot


class MessageLine(Tagged, frozen=True, tag="message"):
    """The line of a message."""

    message: Stored


class FileLine(Tagged, frozen=True, tag="file"):
    """The line of a file that a message refers to by its id."""

    id: str
    media_type: str
    name: str | None
    data: bytes


ANY_LINE: Final[Any] = Union[MessageLine, FileLine]


class Exported(Value, frozen=True):
    """The contents of a JSONL export."""

    chat: Snapshot
    messages: tuple[Stored, ...]
    files: tuple[FileLine, ...] = ()


def export(chat: Snapshot, messages: Sequence[Stored], format: Format) -> str:
    """Return a chat as one text in the given format."""
    match format:
        case "jsonl":
            return "".join(f"{line}\n" for line in jsonl(chat, messages))
        case "markdown":
            return "\n\n".join(markdown(chat, messages)) + "\n"
        case _:
            raise InvalidInput(f"format is {format!r}: use 'jsonl' or 'markdown'")


# --- JSONL --------------------------------------------------------------------------------------


def jsonl(chat: Snapshot, messages: Iterable[Stored]) -> Iterator[str]:
    """Yield the lines of a chat and its messages. Files follow, each from `jsonl_file`."""
    yield jsonl_header(chat)
    yield from jsonl_messages(messages)


def jsonl_header(chat: Snapshot) -> str:
    """Return the first line: the format and the chat."""
    return encode(Header(EXPORT_FORMAT, chat)).decode()


def jsonl_messages(messages: Iterable[Stored]) -> Iterator[str]:
    """Yield one line per message."""
    for stored in messages:
        yield encode(MessageLine(stored)).decode()


def jsonl_file(file: FileLine) -> str:
    """Return the line of a file with its bytes."""
    return encode(file).decode()


def parse(data: str | bytes | bytearray) -> Exported:
    """Parse a JSONL export. Raises `FormatError`.

    Slow for a large export: do not call it on the event loop. It is parsed line by line, because a
    thread that decodes all of it in one call would block the event loop too.
    """
    lines = _lines(data)
    first_line = next(lines, "")
    version = decode(first_line, _Version).format
    if version not in READABLE_FORMATS:
        raise FormatError(
            f"this export has format {version}, and this version of holdfast reads up to "
            f"{EXPORT_FORMAT}: upgrade holdfast"
        )
    if version < NAMED_LIMITS:
        first_line = first_line.replace('"reason":"max_steps"', '"reason":"limit"')
    decoded: list[MessageLine | FileLine] = [decode(line, ANY_LINE) for line in lines]
    return Exported(
        decode(first_line, Header).chat,
        tuple(line.message for line in decoded if isinstance(line, MessageLine)),
        tuple(line for line in decoded if isinstance(line, FileLine)),
    )


def _lines(data: str | bytes | bytearray) -> Iterator[str]:
    """Yield the lines that are not blank."""
    start, length = 0, len(data)
    while start < length:
        end = data.find("\n", start) if isinstance(data, str) else data.find(b"\n", start)
        end = length if end < 0 else end
        part = data[start:end]
        line = part if isinstance(part, str) else part.decode()
        if line.strip():
            yield line
        start = end + 1


class _Version(Value, frozen=True):
    format: int


prepare_to_decode(_Version, Header, ANY_LINE)


# --- Markdown -----------------------------------------------------------------------------------


def markdown(chat: Snapshot, messages: Iterable[Stored]) -> Iterator[str]:
    """Yield paragraphs with control characters escaped. Model-only messages are omitted."""
    yield markdown_title(chat)
    yield from markdown_messages(messages)


def markdown_title(chat: Snapshot) -> str:
    """Return the heading of a chat."""
    return escape_controls(f"# {_line(chat.title or 'A conversation')}")


def markdown_messages(messages: Iterable[Stored]) -> Iterator[str]:
    """Yield the paragraphs of messages."""
    return map(escape_controls, _paragraphs(messages))


def _paragraphs(messages: Iterable[Stored]) -> Iterator[str]:
    for stored in messages:
        if stored.message.visibility != "model":
            yield _heading(stored)
            yield from filter(None, map(_part, stored.message.parts))


def _heading(stored: Stored) -> str:
    message = stored.message
    author = message.model or message.role if message.role == "assistant" else message.role
    superseded = " (superseded by an edit)" if stored.superseded_at is not None else ""
    duration = "" if message.runtime is None else _duration(message.runtime / 1_000)
    return f"## {stored.number}. {_line(author)}{duration}{_ending(message)}{superseded}"


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
            files = "".join(f"\n\n{_part(file)}" for file in part.content if isinstance(file, File))
            outcome = f"{part.outcome}{_duration(part.seconds)}"
            return f"Result of {_code(part.tool)} ({outcome}):\n\n{_block(part.text)}{files}"
        case File():
            size = "" if part.data is None else f", {len(part.data)} bytes"
            return f"File: {_code(part.name or 'without a name')} ({part.media_type}{size})"
        case Source():
            return f"Source: [{_line(part.title or part.url)}](<{_line(part.url)}>)"
        case _:
            assert_never(part)


def _duration(seconds: float | None) -> str:
    """Format a duration as a suffix; empty for one too short to matter."""
    return "" if seconds is None or seconds < 0.1 else f", {seconds:.1f} s"


def _line(text: str) -> str:
    return " ".join(text.split())


def _code(text: str) -> str:
    return f"`{_line(text).replace('`', chr(39))}`"


def _block(text: str) -> str:
    """Format text as a code block with a fence longer than any in the text."""
    ticks = max(("```", *(f"{run}`" for run in re.findall("`{3,}", text))), key=len)
    body = text.strip("\n")
    return f"{ticks}\n{body}\n{ticks}"
