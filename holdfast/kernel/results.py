"""What a tool returned, or why it did not, as a result that the model can read. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from holdfast.kernel.errors import describe
from holdfast.kernel.messages import Content, File, Outcome, Text, ToolCall, ToolResult
from holdfast.kernel.tool import Tool

MAX_ERROR: Final = 4_000
"""Characters of an exception that the model is shown."""


class Unencodable(Exception):
    """A tool returned something that is neither text, nor parts, nor JSON."""


def result(call: ToolCall, outcome: Outcome, text: str) -> ToolResult:
    return ToolResult(call.id, call.tool, (Text(text),), outcome)


def returned(call: ToolCall, tool: Tool, value: object, max_bytes: int) -> ToolResult:
    """The result of a call whose function returned `value`."""
    if isinstance(value, str):
        made = ToolResult(call.id, call.tool, (Text(cut_middle(value, max_bytes)),))
    elif isinstance(value, ToolResult):
        made = ToolResult(
            call.id,
            call.tool,
            _fit(value.content, max_bytes),
            value.outcome,
            metadata=value.metadata,
        )
    else:
        try:
            made = ToolResult(call.id, call.tool, _fit(content(value), max_bytes))
        except Unencodable as error:
            return result(call, "failed", str(error))
    return mark_stop(made, tool)


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
        return (Text(value),)
    if isinstance(value, (Text, File)):
        return (value,)
    if (
        isinstance(value, (list, tuple))
        and value
        and all(isinstance(v, (Text, File)) for v in value)
    ):
        return tuple(value)
    return (Text(_json(value)),)


def _json(value: object) -> str:
    try:
        return msgspec.json.encode(value, enc_hook=_plain).decode()
    except UnicodeEncodeError:  # a lone surrogate: JSON can say it, with an escape
        return json.dumps(msgspec.to_builtins(value, enc_hook=_plain))
    except RecursionError:
        reason = "it is nested too deeply, or contains itself"
    except Exception as error:
        reason = describe(error)
    raise Unencodable(
        f"The tool returned a {type(value).__name__} that cannot be written as JSON: {reason}. "
        "It may have taken effect."
    )


def _plain(value: Any) -> Any:
    """What msgspec does not know by itself: pydantic models, and whatever has the same method."""
    dump = getattr(value, "model_dump", None)
    if dump is None or isinstance(value, type):
        raise TypeError(f"{type(value).__name__} is not JSON")
    return dump(mode="json")


def failed(call: ToolCall, error: BaseException) -> ToolResult:
    text = describe(error)
    if len(text) > MAX_ERROR:
        text = text[:MAX_ERROR] + "…"
    return result(call, "failed", f"{call.tool} failed: {text}")


def _fit(parts: Sequence[Content], max_bytes: int) -> tuple[Content, ...]:
    """The parts with their texts cut so that together they fit. Files are never cut."""
    fitting: list[Content] = []
    for part in parts:
        if isinstance(part, Text):
            part = Text(cut_middle(part.text, max_bytes), part.metadata)
            max_bytes = max(256, max_bytes - len(part.text))
        fitting.append(part)
    return tuple(fitting)


def cut_middle(text: str, max_bytes: int) -> str:
    """The text, or its beginning and its end with a word between them about what is gone."""
    if len(text) * 4 <= max_bytes:  # four bytes a character is the most there can be
        return text
    data = text.encode("utf-8", "surrogatepass")
    if len(data) <= max_bytes:
        return text
    # Two thirds of the room for the beginning; 128 bytes are left for the sentence between.
    room = max(0, max_bytes - 128)
    head, tail = _decode(data[: room * 2 // 3]), _decode(data[len(data) - room // 3 :])
    gone = len(data) - len(_encode(head)) - len(_encode(tail))
    return f"{head}\n[… {gone} bytes cut; ask for less, or for a part …]\n{tail}"


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
    return result(call, "refused", f"There is no tool named {call.tool!r}. Known tools: {names}.")


def skipped(call: ToolCall) -> ToolResult:
    return result(call, "skipped", "Skipped because of a new message from the user.")


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
    call: ToolCall, tool: Tool | None, outcome: Outcome, why: str, ended: bool
) -> ToolResult:
    """The result of a call that was cancelled while it ran."""
    text = why
    if not ended:
        text += " It may still be running."
    if tool is not None and tool.effect != "pure":
        text += " It may have taken effect."
    return result(call, outcome, text)
