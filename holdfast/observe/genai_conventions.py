"""Pure: our models, messages and errors in the words of OpenTelemetry's GenAI conventions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from holdfast.kernel.errors import classify
from holdfast.kernel.inbox import Interrupted
from holdfast.kernel.messages import (
    File,
    FinishReason,
    Message,
    Part,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from holdfast.kernel.model import Block, Request, ToolSpec

OTEL_PROVIDERS: Final[Mapping[str, str]] = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "google": "gcp.gemini",
    "mistral": "mistral_ai",
    "moonshot": "moonshot_ai",
    "vertex": "gcp.vertex_ai",
    "xai": "x_ai",
}
"""Names of providers in the conventions, where they differ from ours."""
OTEL_FINISH_REASONS: Final[Mapping[str, str]] = {"tool_calls": "tool_call"}
"""Finish reasons in the conventions, where they differ from ours."""


def provider_name(model: str) -> str:
    """The provider of a model that is named `provider:model`."""
    provider = model.partition(":")[0]
    return OTEL_PROVIDERS.get(provider, provider)


def model_name(model: str) -> str:
    """The name of a model without its provider."""
    provider, _, name = model.partition(":")
    return name or provider


def error_type(error: BaseException) -> str | None:
    """Value of `error.type`; None for an interruption, which is not an error."""
    if isinstance(error, Interrupted):
        return None
    if not isinstance(error, Exception):
        return "cancelled"
    kind = classify(error).kind
    return type(error).__name__ if kind in ("internal", "unknown") else kind


def finish_reason(finish: FinishReason | None) -> str | None:
    return None if finish is None else OTEL_FINISH_REASONS.get(finish, finish)


def request_attributes(request: Request) -> dict[str, Any]:
    """The settings of a request; those that are left to the provider are missing."""
    settings = request.settings
    attributes = {
        "gen_ai.request.max_tokens": settings.max_output_tokens,
        "gen_ai.request.temperature": settings.temperature,
        "gen_ai.request.top_p": settings.top_p,
        "gen_ai.request.top_k": settings.top_k,
        "gen_ai.request.frequency_penalty": settings.frequency_penalty,
        "gen_ai.request.presence_penalty": settings.presence_penalty,
        "gen_ai.output.type": None if request.output is None else "json",
    }
    return {name: value for name, value in attributes.items() if value is not None}


def usage_attributes(usage: Usage | None) -> dict[str, Any]:
    """Tokens. By the conventions the input includes cached tokens; in `Usage` it does not."""
    if usage is None:
        return {}
    attributes = {
        "gen_ai.usage.input_tokens": input_tokens(usage),
        "gen_ai.usage.output_tokens": usage.output,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read or None,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write or None,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning or None,
        "holdfast.usage.cost": usage.cost,
    }
    return {name: value for name, value in attributes.items() if value is not None}


def input_tokens(usage: Usage) -> int:
    return usage.input + usage.cache_read + usage.cache_write


# --- content ------------------------------------------------------------------------------------


def instructions(blocks: Iterable[Block]) -> list[dict[str, Any]]:
    return [{"type": "text", "content": block.text} for block in blocks]


def definitions(tools: Iterable[ToolSpec]) -> list[dict[str, Any]]:
    return [
        {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.schema,
        }
        for tool in tools
    ]


def conventional(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Messages in the form of `gen_ai.input.messages` and `gen_ai.output.messages`."""
    return [_message(message) for message in messages]


def _message(message: Message) -> dict[str, Any]:
    value: dict[str, Any] = {"role": message.role, "parts": [_part(part) for part in message.parts]}
    if message.finish is not None:
        value["finish_reason"] = finish_reason(message.finish)
    return value


def _part(part: Part) -> dict[str, Any]:
    match part:
        case Text(text=text):
            return {"type": "text", "content": text}
        case Reasoning(text=text):
            return {"type": "reasoning", "content": text}
        case ToolCall():
            return _call(part)
        case ToolResult():
            return _result(part)
        case Source(url=url):
            return {"type": "uri", "modality": "document", "uri": url}
        case File():
            return _file(part)


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = parsed(call.arguments)
    if call.provider_executed:
        details = {"type": call.tool, "arguments": arguments}
        return {
            "type": "server_tool_call",
            "id": call.id,
            "name": call.tool,
            "server_tool_call": details,
        }
    return {"type": "tool_call", "id": call.id, "name": call.tool, "arguments": arguments}


def _result(result: ToolResult) -> dict[str, Any]:
    value = response(result)
    if result.provider_executed:
        details = {"type": result.tool, "response": value}
        return {
            "type": "server_tool_call_response",
            "id": result.call_id,
            "server_tool_call_response": details,
        }
    return {"type": "tool_call_response", "id": result.call_id, "response": value}


def response(result: ToolResult) -> object:
    """Content of a tool result: its text, or its parts if it has files."""
    if all(isinstance(part, Text) for part in result.content):
        return result.text
    return [_part(part) for part in result.content]


def _file(file: File) -> dict[str, Any]:
    """A file, without its bytes: they are large, and cannot be redacted."""
    kind = file.media_type.partition("/")[0]
    return {
        "type": "file",
        "mime_type": file.media_type,
        "modality": kind if kind in ("image", "video", "audio") else "document",
        "file_id": file.ref or file.name or "",
    }


def parsed(arguments: str) -> object:
    """Arguments as JSON values; as text if they are not valid JSON."""
    try:
        return msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return arguments
