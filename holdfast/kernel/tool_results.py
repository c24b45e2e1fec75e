"""Results of tool calls: what a tool returned, or why it failed, as a model reads it. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Sequence
from typing import Any, Final, TypeVar

import msgspec

from holdfast.kernel.errors import ToolFailed, describe
from holdfast.kernel.limits import LimitReached
from holdfast.kernel.messages import Content, File, Text, ToolCall, ToolOutcome, ToolResult
from holdfast.kernel.schema import json_of_any
from holdfast.kernel.tool import Tool

MAX_ERROR: Final = 4_000
"""Maximum characters of an exception that a model reads."""
MAX_TOOL_NAME: Final = 100
"""Maximum characters of an invented tool name in a refusal."""
MARKER_BYTES: Final = 128
"""Bytes reserved for the note about text that was cut."""
TOOK_EFFECT: Final = " It may have taken effect."

T = TypeVar("T")


class Unencodable(Exception):
    """A value from a tool or a client is neither text, nor parts, nor JSON."""

    def __init__(self, value: object, reason: str) -> None:
        kind = type(value).__name__
        super().__init__(f"a value of type {kind} that cannot be written as JSON: {reason}")


def result(
    call: ToolCall, outcome: ToolOutcome, text: str, *, expected: bool = False
) -> ToolResult:
    """A result of one text."""
    return ToolResult(call.id, call.tool, (Text(text),), outcome, expected=expected)


def returned(
    call: ToolCall, tool: Tool, value: object, max_bytes: int, preface: str = ""
) -> ToolResult:
    """The result of a call whose function returned `value`. `preface` becomes its first text."""
    if preface:
        first = cut_middle(preface, max_bytes // 2)
        rest = returned(call, tool, value, max_bytes - _size(first))
        return msgspec.structs.replace(rest, content=(Text(first), *rest.content))
    if type(value) is str:
        return mark_stop(result(call, "ok", cut_middle(value, max_bytes)), tool)
    try:
        whole = result_from_value(call, value)
    except Unencodable as error:
        text = f"{call.tool} returned {error}."
        return result(call, "failed", text if tool.effect == "pure" else text + TOOK_EFFECT)
    return mark_stop(fitted(whole, max_bytes), tool)


def result_from_value(call: ToolCall, value: object) -> ToolResult:
    """The result of a call from any value that a tool or a client may return."""
    if not isinstance(value, ToolResult):
        return ToolResult(call.id, call.tool, content(value))
    checked = _checked(value, ToolResult)
    return ToolResult(
        call.id,
        call.tool,
        checked.content,
        checked.outcome,
        metadata=checked.metadata,
        expected=checked.expected,
    )


def mark_stop(whole: ToolResult, tool: Tool) -> ToolResult:
    """The result, marked if it ends the turn. A `stop_after` function that raises means no."""
    stops = tool.stop_after
    if callable(stops):
        try:
            stops = bool(stops(whole))
        except Exception:
            stops = False
    return msgspec.structs.replace(whole, stops=True) if stops and whole.outcome == "ok" else whole


def content(value: object) -> tuple[Content, ...]:
    """The content of a result from the value that a tool returned."""
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
    """Parts, validated as when they are decoded: their constructors accept anything."""
    try:
        plain = msgspec.to_builtins(value, builtin_types=(bytes,), enc_hook=_plain)
        return msgspec.convert(plain, kind, builtin_types=(bytes,))
    except Exception as error:
        invalid = value[0] if isinstance(value, tuple) and len(value) == 1 else value
        raise Unencodable(invalid, explain(error)) from None


def _json(value: object) -> str:
    try:
        try:
            return msgspec.json.encode(value, enc_hook=_plain).decode()
        except UnicodeEncodeError:  # a lone surrogate: JSON can hold it as an escape
            plain = msgspec.to_builtins(value, enc_hook=_plain)
            return json.dumps(plain, separators=(",", ":"))
        except TypeError:  # pydantic knows more types, such as Path and deque
            return json_of_any(value)
    except RecursionError:
        raise Unencodable(value, "it is nested too deeply, or contains itself") from None
    except Exception as error:
        raise Unencodable(value, explain(error)) from None


def _plain(value: Any) -> Any:
    """Convert what msgspec does not support: subclasses of text and numbers, pydantic models and
    other objects with `model_dump`."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (int, float)):
        return int(value) if isinstance(value, int) else float(value)
    dump = getattr(value, "model_dump", None)
    if dump is None or isinstance(value, type):
        raise TypeError(f"{type(value).__name__} is not JSON")
    return dump(mode="json")


def failed(call: ToolCall, error: BaseException) -> ToolResult:
    """The result of a call that raised."""
    text = f"{call.tool} failed: {explain(error)}"
    return result(call, "failed", text, expected=is_expected(error))


def is_expected(error: BaseException) -> bool:
    """Whether an exception is a tool's regular negative answer."""
    return isinstance(error, ToolFailed) and error.expected


def explain(error: BaseException) -> str:
    """An exception as text for the model."""
    text = str(error) if isinstance(error, ToolFailed) else describe(error)
    return text if len(text) <= MAX_ERROR else text[:MAX_ERROR] + "…"


def fitted(whole: ToolResult, max_bytes: int) -> ToolResult:
    """The result with its texts cut so that together they fit. Files are never cut."""
    parts = whole.content
    sizes = [_size(part.text) if isinstance(part, Text) else 0 for part in parts]
    if sum(sizes) <= max_bytes:
        return whole
    fitting: list[Content] = []
    # Of several parts some may be omitted entirely: a final note says so.
    room = max_bytes if len(parts) == 1 else max_bytes - MARKER_BYTES
    omitted = 0
    for part, size in zip(parts, sizes, strict=True):
        if not isinstance(part, Text):
            fitting.append(part)
        elif size <= room or room >= 2 * MARKER_BYTES or len(parts) == 1:
            text = cut_middle(part.text, room)
            room -= _size(text)
            fitting.append(Text(text, part.metadata))
        else:
            omitted += size
    if omitted:
        fitting.append(Text(_marker(omitted)))
    return msgspec.structs.replace(whole, content=tuple(fitting))


def cut_middle(text: str, max_bytes: int) -> str:
    """The text, or its beginning and its end with a note about the bytes cut between them."""
    if len(text) * 4 <= max_bytes:  # four bytes a character is the most there can be
        return text
    data = _encode(text)
    if len(data) <= max_bytes:
        return text
    if max_bytes < MARKER_BYTES:
        return _decode(data[:max_bytes])
    room = max_bytes - MARKER_BYTES  # two thirds of it for the beginning
    head, tail = _decode(data[: room * 2 // 3]), _decode(data[len(data) - room // 3 :])
    return head + _marker(len(data) - _size(head) - _size(tail)) + tail


def _marker(omitted: int) -> str:
    return f"\n[… {omitted} bytes cut; ask for less, or for a part …]\n"


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(_encode(text))


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _decode(data: bytes) -> str:
    """Decode bytes cut at any position, without incomplete characters at either end."""
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
    """The result of a call of a tool that does not exist; `known` names those that do."""
    names = ", ".join(known) or "none"
    name = call.tool if len(call.tool) <= MAX_TOOL_NAME else call.tool[:MAX_TOOL_NAME] + "…"
    return result(call, "refused", f"There is no tool named {name!r}. Known tools: {names}.")


SKIPPED: Final = "Skipped because of a new message from the user."


def skipped(call: ToolCall) -> ToolResult:
    """The result of a call that was not run because of a new message."""
    return result(call, "skipped", SKIPPED)


def spawn_refused(call: ToolCall, limit: LimitReached) -> ToolResult:
    """The result of a call that would spawn an agent after a limit was reached."""
    return result(call, "refused", f"Not run: no other agent is started now. {limit.sentence}")


def exclusive_refusal(
    exclusive: str, exclusive_tools: Container[str]
) -> Callable[[ToolCall], ToolResult]:
    """Makes the results of the calls of a message in which `exclusive` is not the only call."""

    def refusal(call: ToolCall) -> ToolResult:
        if call.tool in exclusive_tools:
            text = f"Not run: {call.tool} must be the only call of a message. Call it alone."
        else:
            text = (
                f"Not run: {exclusive} was called next to it and must be alone. "
                "Call again without it."
            )
        return result(call, "refused", text)

    return refusal


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
