"""Converts items of OpenAI's Responses API: the tool that they call, its arguments and results.
Pure.

An answer is a list of items: messages, reasoning, calls of functions, and calls that the provider
ran. The last are kept and sent back unchanged; what is read from them here is for people, and for
other providers.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from holdfast.kernel.messages import File, Text, ToolCall, ToolOutcome, ToolResult
from holdfast.kernel.model import ToolSpec
from holdfast.providers.tool_schema import nameable

ResponseItem = dict[str, Any]
"""An item of an answer, or of a request's input."""

_TOOL_NAMES: Final[Mapping[str, str]] = {
    "code_interpreter_call": "code_execution",
    "fetch_url_results": "fetch_url",
    "search_results": "web_search",
}
"""Names of tools whose items have another name."""
_CALL_TYPES: Final[Mapping[str, str]] = {"computer_use_preview": "computer_call"}
"""Types of items that do not follow from the tool's declaration."""
_FRAME_FIELDS: Final = frozenset(
    {"type", "id", "call_id", "status", "name", "container_id", "encrypted_content"}
)
_OUTCOME_FIELDS: Final = frozenset(
    {"contents", "outputs", "results", "result", "output", "error", "tools"}
)
"""Fields of an item with the outcome of a provider's tool."""

PLAIN_TEXT_ARGUMENTS: Final[Mapping[str, str]] = {
    "code_interpreter_call": "code",
    "custom_tool_call": "input",
}
"""Types of calls whose only argument is plain text, and our name for it."""


def objects_in(value: Any) -> list[ResponseItem]:
    """The objects in a list."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def names_of_tools(tools: Sequence[ToolSpec], provider: str) -> Mapping[str, str]:
    """Our tools that the provider declares itself, by the name or type of their calls."""
    names: dict[str, str] = {}
    for tool in tools:
        native = tool.native.get(provider)
        if native is not None:
            kind = str(native.get("type", ""))
            names[native.get("name") or _CALL_TYPES.get(kind) or f"{kind}_call"] = tool.name
    return names


def tool_of(item: ResponseItem, names: Mapping[str, str]) -> tuple[str, bool]:
    """The tool that an item calls, and whether the provider runs it."""
    kind, name = item.get("type", ""), item.get("name") or ""
    if kind in ("function_call", "custom_tool_call"):
        return names.get(name, name), False
    if kind in names:
        return names[kind], False
    return _TOOL_NAMES.get(kind) or name or kind.removesuffix("_call"), True


def arguments_of(item: ResponseItem) -> str:
    """The arguments of a call as JSON text, exactly as the model wrote them if it wrote JSON."""
    kind = item.get("type", "")
    if kind in ("function_call", "mcp_call"):
        arguments_text = item.get("arguments") or ""
        return (
            arguments_text
            if isinstance(arguments_text, str)
            else msgspec.json.encode(arguments_text).decode()
        )
    if kind in PLAIN_TEXT_ARGUMENTS:
        return msgspec.json.encode(
            {PLAIN_TEXT_ARGUMENTS[kind]: item.get(PLAIN_TEXT_ARGUMENTS[kind]) or ""}
        ).decode()
    arguments = {
        key: value
        for key, value in item.items()
        if key not in _FRAME_FIELDS and key not in _OUTCOME_FIELDS and value is not None
    }
    return msgspec.json.encode(arguments).decode()


# --- What the provider ran ----------------------------------------------------------------------


def executed_result(item: ResponseItem, call_id: str, tool: str) -> ToolResult:
    """The result of a call that the provider ran, for people."""
    outcome: ToolOutcome = "failed" if item.get("status") in ("failed", "incomplete") else "ok"
    return ToolResult(call_id, tool, (Text(_outcome_text(item)),), outcome, provider_executed=True)


def _outcome_text(item: ResponseItem) -> str:
    match item.get("type"):
        case "code_interpreter_call":
            text: Any = "".join(
                str(log.get("logs") or "") for log in objects_in(item.get("outputs"))
            )
        case "file_search_call":
            matches = objects_in(item.get("results"))
            text = "\n".join(
                f"{result.get('filename')}: {result.get('text')}" for result in matches
            )
        case "web_search_call":
            action = item.get("action")
            sources = objects_in(action.get("sources")) if isinstance(action, dict) else []
            text = _urls(sources)
        case "search_results" | "fetch_url_results":
            text = _urls(objects_in(item.get("results") or item.get("contents")))
        case _:
            text = item.get("output") or item.get("result") or item.get("error")
            if text and not isinstance(text, str):
                text = msgspec.json.encode(text).decode()
    return text or str(item.get("status") or "done")


def _urls(sources: Sequence[ResponseItem]) -> str:
    return "\n".join(str(source.get("url")) for source in sources)


def picture_of(item: ResponseItem) -> tuple[File, ResponseItem] | None:
    """An image that the provider created, and its item without the image; None for other items.

    The image is stored once: `with_picture` puts it back.
    """
    if item.get("type") != "image_generation_call":
        return None
    result = item.get("result")
    try:
        data = b64decode(result or "", validate=True)
    except (NotBase64, TypeError, ValueError):
        return None
    if not data or b64encode(data).decode() != result:
        return None
    media_type = f"image/{item.get('output_format') or 'png'}"
    return File(media_type, data=data), {**item, "result": None}


def with_picture(item: ResponseItem, picture: File) -> ResponseItem:
    """The item of an image, with the image."""
    return {**item, "result": b64encode(picture.data).decode() if picture.data else None}


# --- What we ran --------------------------------------------------------------------------------


def output_of(
    kind: str, call_id: str, result: ToolResult, output: str | list[ResponseItem]
) -> ResponseItem:
    """The item with the result of our call, in the form that matches the item of the call."""
    text = output if isinstance(output, str) else result.text
    match kind:
        case "custom_tool_call":
            return {"type": "custom_tool_call_output", "call_id": call_id, "output": output}
        case "apply_patch_call":
            status = "completed" if result.outcome == "ok" else "failed"
            return {
                "type": "apply_patch_call_output",
                "call_id": call_id,
                "status": status,
                "output": text,
            }
        case "shell_call":
            code = 0 if result.outcome == "ok" else 1
            ended = {"type": "exit", "exit_code": code}
            return {
                "type": "shell_call_output",
                "call_id": call_id,
                "output": [{"stdout": text, "stderr": "", "outcome": ended}],
            }
        case "local_shell_call":
            return {"type": "local_shell_call_output", "id": call_id, "output": text}
        case "computer_call":
            pictures = [] if isinstance(output, str) else output
            images = [entry for entry in pictures if entry["type"] == "input_image"]
            shot = {"type": "computer_screenshot"}
            if images:
                shot["image_url"] = images[0]["image_url"]
            return {"type": "computer_call_output", "call_id": call_id, "output": shot}
        case _:
            return {"type": "function_call_output", "call_id": call_id, "output": output}


def call_item(call: ToolCall, call_id: str, stored: ResponseItem) -> ResponseItem:
    """The item of our call. `stored`: other fields of the provider's item."""
    stored = {key: value for key, value in stored.items() if value is not None}
    if stored.get("type", "function_call") != "function_call":
        return {**without_output_fields(stored), "call_id": call_id}
    return {
        "type": "function_call",
        **stored,
        "call_id": call_id,
        # A model may have called a tool by an invalid name.
        "name": nameable(call.tool) or "unnamed",
        "arguments": call.arguments or "{}",
    }


def without_output_fields(item: ResponseItem) -> ResponseItem:
    """An item without the fields that the API refuses in a request."""
    return {key: value for key, value in item.items() if key != "created_by"}


def item_to_keep(item: ResponseItem) -> ResponseItem:
    """Fields of a call's item that our own call does not contain."""
    if item.get("type") != "function_call":
        return item
    return {
        key: value
        for key, value in item.items()
        if key not in ("type", "call_id", "name", "arguments")
    }
