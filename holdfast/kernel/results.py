"""What a tool returned, or why it did not, as a result that the model can read. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, TypeVar

import msgspec

from holdfast.kernel.errors import ToolFailed, describe
from holdfast.kernel.messages import Content, File, Text, ToolCall, ToolOutcome, ToolResult
from holdfast.kernel.tool import Tool

MAX_ERROR: Final = 4_000
"""Characters of an exception that the model is shown."""
MAX_TOOL_NAME: Final = 100
"""Characters of a tool's name that the model made up."""
MARKER: Final = 128
"""Bytes that are kept free for the word about what was cut."""
TOOK_EFFECT: Final = " It may have taken effect."

T = TypeVar("T")


class Unencodable(Exception):
    """What a tool or a client gave is neither text, nor parts, nor JSON."""

    def __init__(self, value: object, reason: str) -> None:
        kind = type(value).__name__
        super().__init__(f"a value of type {kind} that cannot be written as JSON: {reason}")


def result(
    call: ToolCall, outcome: ToolOutcome, text: str, *, expected: bool = False
) -> ToolResult:
    return ToolResult(call.id, call.tool, (Text(text),), outcome, expected=expected)


def returned(
    call: ToolCall, tool: Tool, value: object, max_bytes: int, preface: str = ""
) -> ToolResult:
    """The result of a call whose function returned `value`, behind what we have to say about it."""
    if preface:
        said = cut_middle(preface, max_bytes // 2)
        made = returned(call, tool, value, max_bytes - _size(said))
        return msgspec.structs.replace(made, content=(Text(said), *made.content))
    if type(value) is str:
        return mark_stop(result(call, "ok", cut_middle(value, max_bytes)), tool)
    try:
        made = result_from_value(call, value)
    except Unencodable as error:
        text = f"{call.tool} returned {error}."
        return result(call, "failed", text if tool.effect == "pure" else text + TOOK_EFFECT)
    return mark_stop(fitted(made, max_bytes), tool)


def result_from_value(call: ToolCall, value: object) -> ToolResult:
    """What somebody gave as the result of a call: anything that a tool may return."""
    if not isinstance(value, ToolResult):
        return ToolResult(call.id, call.tool, content(value))
    made = _checked(value, ToolResult)
    return ToolResult(
        call.id,
        call.tool,
        made.content,
        made.outcome,
        metadata=made.metadata,
        expected=made.expected,
    )


def mark_stop(made: ToolResult, tool: Tool) -> ToolResult:
    """The result, marked if it ends the turn. A question that raises is answered with no."""
    stops = tool.stop_after
    if callable(stops):
        try:
            stops = bool(stops(made))
        except Exception:
            stops = False
    return msgspec.structs.replace(made, stops=True) if stops and made.outcome == "ok" else made


def content(value: object) -> tuple[Content, ...]:
    if value is None:
        return (Text("done"),)
    if isinstance(value, str):
        return (Text(str.__str__(value)),)  # a subclass of it cannot be stored
    if isinstance(value, (Text, File)):
        return _checked((value,), tuple[Content, ...])
    if (
        isinstance(value, (list, tuple))
        and value
        and all(isinstance(v, (Text, File)) for v in value)
    ):
        return _checked(value, tuple[Content, ...])
    return (Text(_json(value)),)


def _checked(value: object, kind: type[T]) -> T:
    """Parts as they will be read again: their constructors take anything."""
    try:
        plain = msgspec.to_builtins(value, builtin_types=(bytes,), enc_hook=_plain)
        return msgspec.convert(plain, kind, builtin_types=(bytes,))
    except Exception as error:
        blamed = value[0] if isinstance(value, tuple) and len(value) == 1 else value
        raise Unencodable(blamed, explain(error)) from None


def _json(value: object) -> str:
    try:
        try:
            return msgspec.json.encode(value, enc_hook=_plain).decode()
        except UnicodeEncodeError:  # a lone surrogate: JSON can say it, with an escape
            plain = msgspec.to_builtins(value, enc_hook=_plain)
            return json.dumps(plain, separators=(",", ":"))
    except RecursionError:
        raise Unencodable(value, "it is nested too deeply, or contains itself") from None
    except Exception as error:
        raise Unencodable(value, explain(error)) from None


def _plain(value: Any) -> Any:
    """What msgspec does not know by itself: subclasses of text and numbers, pydantic models, and
    whatever has the same method."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (int, float)):
        return int(value) if isinstance(value, int) else float(value)
    dump = getattr(value, "model_dump", None)
    if dump is None or isinstance(value, type):
        raise TypeError(f"{type(value).__name__} is not JSON")
    return dump(mode="json")


def failed(call: ToolCall, error: BaseException) -> ToolResult:
    text = f"{call.tool} failed: {explain(error)}"
    return result(call, "failed", text, expected=is_expected(error))


def is_expected(error: BaseException) -> bool:
    """Whether an exception is a tool's regular negative answer."""
    return isinstance(error, ToolFailed) and error.expected


def explain(error: BaseException) -> str:
    """An exception as the model is shown it."""
    text = str(error) if isinstance(error, ToolFailed) else describe(error)
    return text if len(text) <= MAX_ERROR else text[:MAX_ERROR] + "…"


def fitted(made: ToolResult, max_bytes: int) -> ToolResult:
    """The result with its texts cut so that together they fit. Files are never cut."""
    parts = made.content
    sizes = [_size(part.text) if isinstance(part, Text) else 0 for part in parts]
    if sum(sizes) <= max_bytes:
        return made
    fitting: list[Content] = []
    # With several parts there may be some that are left out whole: a last word says so.
    room = max_bytes if len(parts) == 1 else max_bytes - MARKER
    gone = 0
    for part, size in zip(parts, sizes, strict=True):
        if not isinstance(part, Text):
            fitting.append(part)
        elif size <= room or room >= 2 * MARKER or len(parts) == 1:
            text = cut_middle(part.text, room)
            room -= _size(text)
            fitting.append(Text(text, part.metadata))
        else:
            gone += size
    if gone:
        fitting.append(Text(_marker(gone)))
    return msgspec.structs.replace(made, content=tuple(fitting))


def cut_middle(text: str, max_bytes: int) -> str:
    """The text, or its beginning and its end with a word between them about what is gone."""
    if len(text) * 4 <= max_bytes:  # four bytes a character is the most there can be
        return text
    data = _encode(text)
    if len(data) <= max_bytes:
        return text
    if max_bytes < MARKER:
        return _decode(data[:max_bytes])
    room = max_bytes - MARKER  # two thirds of it for the beginning
    head, tail = _decode(data[: room * 2 // 3]), _decode(data[len(data) - room // 3 :])
    return head + _marker(len(data) - _size(head) - _size(tail)) + tail


def _marker(gone: int) -> str:
    return f"\n[… {gone} bytes cut; ask for less, or for a part …]\n"


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(_encode(text))


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _decode(data: bytes) -> str:
    """Bytes cut at any place: what is left of a character at either end goes."""
    start = 0
    while start < min(4, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    for end in range(len(data), max(start, len(data) - 4) - 1, -1):
        try:
            return data[start:end].decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            continue
    return ""


def refused_unknown(call: ToolCall, known: Sequence[str]) -> ToolResult:
    names = ", ".join(known) or "none"
    name = call.tool if len(call.tool) <= MAX_TOOL_NAME else call.tool[:MAX_TOOL_NAME] + "…"
    return result(call, "refused", f"There is no tool named {name!r}. Known tools: {names}.")


SKIPPED: Final = "Skipped because of a new message from the user."


def skipped(call: ToolCall) -> ToolResult:
    return result(call, "skipped", SKIPPED)


def refused_exclusive(call: ToolCall, exclusive: str, alone: bool) -> ToolResult:
    """A policy error. `alone` says that this very call is of an exclusive tool."""
    if alone:
        text = f"Not run: {call.tool} must be the only call of a message. Call it alone."
    else:
        text = (
            f"Not run: {exclusive} was called beside it and must be alone. Call again without it."
        )
    return result(call, "refused", text)


def stopped(
    call: ToolCall, tool: Tool | None, outcome: ToolOutcome, why: str, ended: bool
) -> ToolResult:
    """The result of a call that was cancelled while it ran."""
    text = why
    if not ended:
        text += " It may still be running."
    if tool is not None and tool.effect != "pure":
        text += TOOK_EFFECT
    return result(call, outcome, text)
