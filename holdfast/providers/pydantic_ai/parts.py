"""Converts parts of an answer between pydantic-ai and our history. Pure.

A history holds what everybody understands: text, reasoning, calls. What else pydantic-ai has of a
part (ids, the provider's own details, whose it was) is kept beside it as JSON, in the metadata of
the part, and put back when the part is replayed.
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
from holdfast.providers.json_body import joined_surrogates

PROVIDER: Final = "pydantic-ai"
"""The key of our metadata, and what the names of bridged models begin with.

It is not the provider behind it: what the bridge keeps is in pydantic-ai's form, which a model that
speaks to the same provider by itself cannot read. Which of its own providers a part belongs to,
pydantic-ai knows from what is kept.
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
"""What a part of ours has itself, or nobody needs."""


def kept_metadata(part: ModelResponsePart) -> Metadata | None:
    """What must be kept beside a part, or None when it has nothing more to say."""
    data = _PART.dump_python(part, mode="json", exclude_none=True)
    for kind, fields in _OWN_FIELDS.items():
        if isinstance(part, kind):
            for field in fields:
                data.pop(field, None)
    if isinstance(part, NativeToolReturnPart) and isinstance(part.content, str):
        del data["content"]  # it is the text of the result
    if list(data) == ["part_kind"]:
        return None
    return {PROVIDER: data}


def arguments_of(args: str | Mapping[str, object] | None) -> str:
    """The arguments of a call as text: as it was written, where it came as text."""
    if args is None or isinstance(args, str):
        return args or ""
    return msgspec.json.encode(args).decode()


def clean(text: str) -> str:
    """Text that can be sent: what is no Unicode is replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return joined_surrogates(text)
    return text


# --- Put back together --------------------------------------------------------------------------


def restored(part: Part) -> ModelResponsePart | None:
    """A part of a history as pydantic-ai gave it, or as it would have. None: nothing to replay."""
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
    """Whether it only holds the place of something else that pydantic-ai wants back."""
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
    """What must be kept of an answer beside its parts: who gave it, and under which id."""
    (data,) = ModelMessagesTypeAdapter.dump_python([response], mode="json", exclude_none=True)
    fields = {name: data[name] for name in _RESPONSE_FIELDS if name in data}
    return {PROVIDER: fields} if fields else None


def response_of(parts: list[ModelResponsePart], metadata: Metadata | None) -> ModelResponse:
    """An answer as pydantic-ai gave it."""
    own = (metadata or {}).get(PROVIDER) or {}
    return ModelResponse(
        parts=parts, **{name: own[name] for name in _RESPONSE_FIELDS if name in own}
    )
