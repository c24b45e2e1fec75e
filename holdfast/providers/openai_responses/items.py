"""What the items of OpenAI's Responses API are to us: which tool they mean, what its arguments and
its results are. Pure.

An answer is a list of items: messages, reasoning, calls of functions, and calls that the provider
ran itself. The last are kept as they came and sent back so; what is read out of them here is for
people, and for other providers.
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

Item = dict[str, Any]

_TOOLS: Final[Mapping[str, str]] = {
    "code_interpreter_call": "code_execution",
    "fetch_url_results": "fetch_url",
    "search_results": "web_search",
}
"""Tools that are known by another name than their items."""
_ITEMS: Final[Mapping[str, str]] = {"computer_use_preview": "computer_call"}
"""Declarations whose items are not called after them."""
_FRAME: Final = frozenset(
    {"type", "id", "call_id", "status", "name", "container_id", "encrypted_content"}
)
_OUTCOMES: Final = frozenset(
    {"contents", "outputs", "results", "result", "output", "error", "tools"}
)
"""Of an item that the provider ran: what came of it."""

QUOTED: Final[Mapping[str, str]] = {"code_interpreter_call": "code", "custom_tool_call": "input"}
"""Items whose one argument is plain text, and what we call it."""


def dicts(value: Any) -> list[Item]:
    """The objects of a list, whatever else there is."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def names_of_tools(tools: Sequence[ToolSpec], provider: str) -> Mapping[str, str]:
    """Tools of ours that the provider declares itself: by the name or type of their calls."""
    names: dict[str, str] = {}
    for tool in tools:
        native = tool.native.get(provider)
        if native is not None:
            kind = str(native.get("type", ""))
            names[native.get("name") or _ITEMS.get(kind) or f"{kind}_call"] = tool.name
    return names


def tool_of(item: Item, names: Mapping[str, str]) -> tuple[str, bool]:
    """The tool that an item calls, and whether the provider runs it."""
    kind, name = item.get("type", ""), item.get("name") or ""
    if kind in ("function_call", "custom_tool_call"):
        return names.get(name, name), False
    if kind in names:
        return names[kind], False
    return _TOOLS.get(kind) or name or kind.removesuffix("_call"), True


def arguments_of(item: Item) -> str:
    """The arguments of a call as JSON text: as the model wrote it, where it wrote JSON."""
    kind = item.get("type", "")
    if kind in ("function_call", "mcp_call"):
        written = item.get("arguments") or ""
        return written if isinstance(written, str) else msgspec.json.encode(written).decode()
    if kind in QUOTED:
        return msgspec.json.encode({QUOTED[kind]: item.get(QUOTED[kind]) or ""}).decode()
    said = {
        key: value
        for key, value in item.items()
        if key not in _FRAME and key not in _OUTCOMES and value is not None
    }
    return msgspec.json.encode(said).decode()


# --- What the provider ran ----------------------------------------------------------------------


def ran(item: Item, call_id: str, tool: str) -> ToolResult:
    """What people see of the outcome of a call that the provider ran."""
    outcome: ToolOutcome = "failed" if item.get("status") in ("failed", "incomplete") else "ok"
    return ToolResult(call_id, tool, (Text(_outcome(item)),), outcome, provider_executed=True)


def _outcome(item: Item) -> str:
    match item.get("type"):
        case "code_interpreter_call":
            said: Any = "".join(str(log.get("logs") or "") for log in dicts(item.get("outputs")))
        case "file_search_call":
            found = dicts(item.get("results"))
            said = "\n".join(f"{result.get('filename')}: {result.get('text')}" for result in found)
        case "web_search_call":
            action = item.get("action")
            sources = dicts(action.get("sources")) if isinstance(action, dict) else []
            said = _urls(sources)
        case "search_results" | "fetch_url_results":
            said = _urls(dicts(item.get("results") or item.get("contents")))
        case _:
            said = item.get("output") or item.get("result") or item.get("error")
            if said and not isinstance(said, str):
                said = msgspec.json.encode(said).decode()
    return said or str(item.get("status") or "done")


def _urls(sources: Sequence[Item]) -> str:
    return "\n".join(str(source.get("url")) for source in sources)


def picture_of(item: Item) -> tuple[File, Item] | None:
    """A picture that the provider made, and its item without the picture; None when it made none.

    It is kept once: `with_picture` puts it back.
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


def with_picture(item: Item, picture: File) -> Item:
    """The item that a picture came in."""
    return {**item, "result": b64encode(picture.data).decode() if picture.data else None}


# --- What we ran --------------------------------------------------------------------------------


def output_of(kind: str, call_id: str, result: ToolResult, output: str | list[Item]) -> Item:
    """The item that answers a call of ours, in the form that goes with the item of the call."""
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
            shown = [entry for entry in pictures if entry["type"] == "input_image"]
            shot = {"type": "computer_screenshot"}
            if shown:
                shot["image_url"] = shown[0]["image_url"]
            return {"type": "computer_call_output", "call_id": call_id, "output": shot}
        case _:
            return {"type": "function_call_output", "call_id": call_id, "output": output}


def call_item(call: ToolCall, call_id: str, kept: Item) -> Item:
    """The item of a call of ours. `kept` is what the provider said beside the call itself."""
    kept = {key: value for key, value in kept.items() if value is not None}
    if kept.get("type", "function_call") != "function_call":
        return {**taken_back(kept), "call_id": call_id}
    return {
        "type": "function_call",
        **kept,
        "call_id": call_id,
        # A model may have called something by a name that no tool can have.
        "name": nameable(call.tool) or "unnamed",
        "arguments": call.arguments or "{}",
    }


def taken_back(item: Item) -> Item:
    """An item as it came, but for what only comes and is refused when it is sent."""
    return {key: value for key, value in item.items() if key != "created_by"}


def kept_of(item: Item) -> Item:
    """What of a call's item has to be kept: all that our own call does not hold."""
    if item.get("type") != "function_call":
        return item
    return {
        key: value
        for key, value in item.items()
        if key not in ("type", "call_id", "name", "arguments")
    }
