"""Reads a list of messages of another format, and collects the problems in it."""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from holdfast.kernel.errors import FormatError
from holdfast.kernel.messages import File, Message, Text, ToolCall, ToolResult, results_message
from holdfast.kernel.model_context import Trim, repair, view

Fields: TypeAlias = Mapping[str, Any]
"""A JSON object of a message list."""

MAX_PROBLEMS: Final = 20
NO_TRIM: Final = Trim(over=10**12, to=10**12)


class ListReader:
    """The messages that were read, the calls so far, and the problems so far."""

    def __init__(self, format: str) -> None:
        self.history: list[Message] = []
        self._format = format
        self._problems: list[str] = []
        self._tools: dict[str, str] = {}
        """Names of tools by the ids of their calls."""

    def problem(self, where: str, text: str) -> None:
        self._problems.append(f"{where}: {text}")

    def done(self) -> tuple[Message, ...]:
        """The messages. Raises a `FormatError` with all problems."""
        if not self._problems:
            return tuple(self.history)
        more = len(self._problems) - MAX_PROBLEMS
        lines = self._problems[:MAX_PROBLEMS] + ([f"and {more} more"] if more > 0 else [])
        raise FormatError(
            f"these are not messages of {self._format}: fix the following\n- " + "\n- ".join(lines)
        )

    def messages(self, given: Any) -> Iterator[tuple[str, Fields]]:
        """The messages with their positions."""
        if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Sequence):
            raise FormatError(f"{given!r:.80} is not a list of messages: pass a list")
        yield from self.objects("messages", given)

    def objects(self, where: str, given: Any) -> Iterator[tuple[str, Fields]]:
        """The objects of a list with their positions. An object of an SDK is converted."""
        if isinstance(given, (str, bytes)) or not isinstance(given, Sequence):
            self.problem(where, f"is a {type(given).__name__}: use a list")
            return
        for at, one in enumerate(given):
            if hasattr(one, "model_dump"):
                one = one.model_dump(mode="json", exclude_none=True)
            if isinstance(one, Mapping):
                yield f"{where}[{at}]", one
            else:
                self.problem(f"{where}[{at}]", f"is {one!r:.60}: use an object")

    def text(self, where: str, fields: Fields, name: str) -> str:
        """A field that must be text."""
        value = fields.get(name)
        if isinstance(value, str):
            return value
        missing = "is missing" if value is None else f"is {value!r:.60}: use text"
        self.problem(f"{where}.{name}", missing)
        return ""

    def call(self, where: str, id: str, tool: str, arguments: str) -> ToolCall:
        """A tool call, and whether its arguments are JSON."""
        if id in self._tools:
            self.problem(where, f"another call has the id {id!r}: ids must be unique")
        self._tools[id] = tool
        return ToolCall(id, tool, arguments, complaint=_complaint(arguments))

    def add_result(
        self, where: str, id: str, content: tuple[Text | File, ...], *, failed: bool = False
    ) -> None:
        """A result: part of the same message as the results directly before it."""
        tool = self._tools.get(id)
        if tool is None:
            self.problem(where, f"no call before it has the id {id!r}")
        result = ToolResult(id, tool or "", content, "failed" if failed else "ok")
        last = self.history[-1] if self.history else None
        if last is not None and last.kind == "results":
            self.history[-1] = results_message((*last.results, result))
        else:
            self.history.append(results_message((result,)))

    def bytes(self, where: str, data: str) -> bytes:
        """Bytes in base64."""
        try:
            return b64decode(data, validate=True)
        except (NotBase64, ValueError):
            self.problem(where, "is not valid base64")
            return b""


def _complaint(arguments: str) -> str | None:
    try:
        msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        return str(error)
    return None


def sendable(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages as a model would get them: without those for people, calls with results."""
    return repair(view(tuple(messages), NO_TRIM), NO_TRIM)
