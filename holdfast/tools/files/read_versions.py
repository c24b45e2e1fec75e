"""Which version of a file the model has seen, derived from the committed history.

The tools that read and write files record in the metadata of their results which version of which
file they showed or made. Nothing else is stored, so this survives the process, and follows the
history when it is cut or forked. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import takewhile
from typing import Final

import msgspec
from msgspec import Struct

from holdfast.kernel.messages import Message, Metadata, Text, ToolResult

METADATA_KEY: Final = "holdfast"
"""Metadata key of the records."""
WRITE_TOOLS: Final = ("write_file", "edit_file")


class FileRecord(Struct, frozen=True, omit_defaults=True):
    """The effect of one call on the model's knowledge of a file."""

    file: str
    """`Workspace.resolve` of its path: the same for all names of a file."""
    version: str
    first: int = 1
    """First line shown, from 1."""
    last: int | None = None
    """Last line shown; None: to the end."""
    was: str | None = None
    """The version that was edited into this one, unless it was replaced as a whole."""
    length: int | None = None
    """Characters of the result's text. A shorter text was cut on its way."""


class KnownVersion(Struct, frozen=True):
    """The newest version of a file that the model knows."""

    version: str
    next: int | None = None
    """First line, from 1, that was not shown; None: all are known."""


def metadata(record: FileRecord) -> Metadata:
    return {METADATA_KEY: msgspec.to_builtins(record)}


def seen(history: Sequence[Message], file: str) -> KnownVersion | None:
    """What the model knows of a file; None: nothing."""
    known: KnownVersion | None = None
    for record in records(history):
        if record.file == file:
            known = after(known, record)
    return known


def records(history: Sequence[Message]) -> Iterator[FileRecord]:
    for message in history:
        if message.role != "tool":
            continue
        for result in message.results:
            if result.metadata and METADATA_KEY in result.metadata:
                with suppress(msgspec.ValidationError):  # metadata of another bundled tool
                    yield arrived(
                        result, msgspec.convert(result.metadata[METADATA_KEY], FileRecord)
                    )


def arrived(result: ToolResult, record: FileRecord) -> FileRecord:
    """The record of what is in the result: a text with a gap in it shows no line for sure."""
    whole = any(isinstance(p, Text) and len(p.text) == record.length for p in result.content)
    if record.length is None or whole:
        return record
    return msgspec.structs.replace(record, last=record.first - 1)


def after(known: KnownVersion | None, record: FileRecord) -> KnownVersion:
    """The model's knowledge after one more result. Pages of a file add up to the whole file."""
    if record.was is not None:
        # A model that knew the whole file still does. Otherwise the line numbers have changed.
        whole = known is not None and known.version == record.was and known.next is None
        return KnownVersion(record.version, None if whole else 1)
    unseen = known.next if known is not None and known.version == record.version else 1
    if unseen is None or record.first > unseen:
        return KnownVersion(record.version, unseen)
    return KnownVersion(
        record.version, None if record.last is None else max(unseen, record.last + 1)
    )


def written_before(history: Sequence[Message], call_id: str) -> Iterator[str]:
    """Paths that earlier calls of the same answer write to.

    Their results are not committed yet, so what they made of a file is not known here.
    """
    for message in reversed(history):
        calls = message.calls
        if any(call.id == call_id for call in calls):
            for call in takewhile(lambda call: call.id != call_id, calls):
                if call.tool in WRITE_TOOLS:
                    with suppress(msgspec.DecodeError):
                        yield msgspec.json.decode(call.arguments, type=_Path).path
            return


class _Path(Struct, frozen=True):
    path: str
