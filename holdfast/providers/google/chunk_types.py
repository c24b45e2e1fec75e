"""Chunk types of the Gemini API, with the fields we read."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from holdfast.providers.request_body import JsonObject


class FunctionCall(Struct, gc=False):
    """A call of a user's function."""

    name: str
    id: str | None = None
    args: Raw = Raw(b"{}")


class InlineData(Struct, rename="camel", gc=False):
    """A file with its bytes."""

    mime_type: str
    data: bytes


class FileData(Struct, rename="camel", gc=False):
    """A file by its URL."""

    file_uri: str
    mime_type: str = "application/octet-stream"


class GooglePart(Struct, rename="camel", gc=False):
    """One part of an answer; exactly one kind of data is set."""

    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: FunctionCall | None = None
    inline_data: InlineData | None = None
    file_data: FileData | None = None
    executable_code: JsonObject | None = None
    code_execution_result: JsonObject | None = None
    tool_call: JsonObject | None = None
    tool_response: JsonObject | None = None


class GoogleContent(Struct, gc=False):
    """The parts of a candidate."""

    parts: list[GooglePart] | None = None


class Candidate(Struct, rename="camel", gc=False):
    """One of the answers; only the first is read."""

    content: GoogleContent | None = None
    index: int | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    grounding_metadata: JsonObject | None = None
    url_context_metadata: JsonObject | None = None
    citation_metadata: JsonObject | None = None


class GoogleChunk(Struct, rename="camel", gc=False):
    """One chunk of a stream."""

    candidates: list[Candidate] | None = None
    usage_metadata: Raw = Raw()
    """Raw usage, parsed at the end: every chunk has one, and only the last counts."""
    response_id: str | None = None
    model_version: str | None = None
    prompt_feedback: JsonObject | None = None
    error: Any = None


class UsageMetadata(Struct, rename="camel", gc=False):
    """Token counts of an answer."""

    prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None


read_chunk: Final = msgspec.json.Decoder(GoogleChunk).decode
read_usage: Final = msgspec.json.Decoder(UsageMetadata | None).decode
