"""Chunk types of the Gemini API, with the fields we read."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

Fields = dict[str, Any]


class Call(Struct, gc=False):
    name: str
    id: str | None = None
    args: Raw = Raw(b"{}")


class Blob(Struct, rename="camel", gc=False):
    mime_type: str
    data: bytes


class FileData(Struct, rename="camel", gc=False):
    file_uri: str
    mime_type: str = "application/octet-stream"


class Part(Struct, rename="camel", gc=False):
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: Call | None = None
    inline_data: Blob | None = None
    file_data: FileData | None = None
    executable_code: Fields | None = None
    code_execution_result: Fields | None = None
    tool_call: Fields | None = None
    tool_response: Fields | None = None


class Content(Struct, gc=False):
    parts: list[Part] | None = None


class Candidate(Struct, rename="camel", gc=False):
    content: Content | None = None
    index: int | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    grounding_metadata: Fields | None = None
    url_context_metadata: Fields | None = None
    citation_metadata: Fields | None = None


class Chunk(Struct, rename="camel", gc=False):
    candidates: list[Candidate] | None = None
    usage_metadata: Raw = Raw()
    """Kept as it is: every chunk has one, and only the last one counts."""
    response_id: str | None = None
    model_version: str | None = None
    prompt_feedback: Fields | None = None
    error: Any = None


class Counts(Struct, rename="camel", gc=False):
    prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None


read_chunk: Final = msgspec.json.Decoder(Chunk).decode
read_counts: Final = msgspec.json.Decoder(Counts | None).decode
