"""Converts parts of an answer between pydantic-ai and our history. Pure.

A history contains what every provider understands: text, reasoning, calls. Other fields of a
pydantic-ai part (ids, the provider's own details, which provider it came from) are kept as JSON in
the metadata of our part, and restored when the part is replayed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from pydantic import TypeAdapter
from pydantic_ai.messages import (
    FilePart,
    ModelMessagesTypeAdapter,
    ModelResponse,
    ModelResponsePart,
    NativeToolCallPart,
    NativeToolReturnPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
)

from holdfast.kernel.messages import (
    File,
    Metadata,
    Part,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
)
from holdfast.providers.request_body import joined_surrogates

PROVIDER: Final = "pydantic-ai"
"""Key of the metadata, and prefix of the names of bridged models.

It is not the provider behind the bridge: the metadata is in pydantic-ai's form, which our own model
of the same provider cannot read. pydantic-ai knows from the metadata which of its providers a part
belongs to.
"""

_PART: Final[TypeAdapter[ModelResponsePart]] = TypeAdapter(ModelResponsePart)

_OWN_FIELDS: Final = {
    TextPart: ("content",),
    ThinkingPart: ("content", "signature"),
    ToolCallPart: ("tool_name", "args", "tool_call_id"),
    NativeToolCallPart: ("tool_name", "args", "tool_call_id"),
    NativeToolReturnPart: ("tool_name", "tool_call_id", "timestamp"),
    FilePart: ("content",),
}
"""Fields that our part contains itself, or that are not needed."""


def kept_metadata(part: ModelResponsePart) -> Metadata | None:
    """Metadata to keep with a part, or None if our part contains everything."""
    data = _PART.dump_python(part, mode="json", exclude_none=True)
    for kind, fields in _OWN_FIELDS.items():
        if isinstance(part, kind):
            for field in fields:
                data.pop(field, None)
    if isinstance(part, NativeToolReturnPart) and isinstance(part.content, str):
        del data["content"]  # our result has it as text
    if list(data) == ["part_kind"]:
        return None
    return {PROVIDER: data}


def arguments_of(args: str | Mapping[str, object] | None) -> str:
    """The arguments of a call as text, unchanged if they arrived as text."""
    if args is None or isinstance(args, str):
        return args or ""
    return msgspec.json.encode(args).decode()


def clean(text: str) -> str:
    """Text that UTF-8 can encode: invalid characters are replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return joined_surrogates(text)
    return text


# --- Put back together --------------------------------------------------------------------------


def restored(part: Part) -> ModelResponsePart | None:
    """The pydantic-ai part for a part of a history; None if there is nothing to replay."""
    match part:
        case Text(text):
            return _part(part.metadata, {"part_kind": "text"}, content=clean(text))
        case Reasoning(text, signature):
            text_fields = {"content": clean(text)} if text or not _is_opaque(part) else {}
            return _part(
                part.metadata, {"part_kind": "thinking"}, **text_fields, signature=signature
            )
        case ToolCall(id, tool, arguments):
            kind = "builtin-tool-call" if part.provider_executed else "tool-call"
            arguments_text = clean(arguments) or None
            call_fields = {"tool_name": tool, "args": arguments_text, "tool_call_id": id}
            return _part(part.metadata, {"part_kind": kind}, **call_fields)
        case ToolResult(id, tool):
            result_fields = {"tool_name": tool, "tool_call_id": id}
            plain = {"part_kind": "builtin-tool-return", "content": clean(part.text)}
            return _part(part.metadata, plain, **result_fields)
        case File(media_type=media_type, data=data) if data is not None:
            content = {"data": data, "media_type": media_type, "kind": "binary"}
            return _part(part.metadata, {"part_kind": "file"}, content=content)
        case File() | Source():
            return None


def _is_opaque(part: Reasoning) -> bool:
    """Whether a reasoning part only represents another kind of part of pydantic-ai."""
    own = (part.metadata or {}).get(PROVIDER) or {}
    return own.get("part_kind", "thinking") not in ("thinking", "text")


def _part(metadata: Metadata | None, plain: dict[str, Any], **ours: Any) -> ModelResponsePart:
    own = (metadata or {}).get(PROVIDER) or {}
    fields = {name: value for name, value in ours.items() if value is not None}
    return _PART.validate_python({**plain, **own, **fields})


# --- The answer as a whole ----------------------------------------------------------------------

_RESPONSE_FIELDS: Final = (
    "model_name",
    "provider_name",
    "provider_url",
    "canonical_system",
    "provider_details",
    "provider_response_id",
    "finish_reason",
    "metadata",
)


def answer_metadata(response: ModelResponse) -> Metadata | None:
    """Metadata to keep with an answer, in addition to its parts: its provider and id."""
    (data,) = ModelMessagesTypeAdapter.dump_python([response], mode="json", exclude_none=True)
    fields = {name: data[name] for name in _RESPONSE_FIELDS if name in data}
    return {PROVIDER: fields} if fields else None


def response_of(parts: list[ModelResponsePart], metadata: Metadata | None) -> ModelResponse:
    """The pydantic-ai response for an answer of a history."""
    own = (metadata or {}).get(PROVIDER) or {}
    return ModelResponse(
        parts=parts, **{name: own[name] for name in _RESPONSE_FIELDS if name in own}
    )
