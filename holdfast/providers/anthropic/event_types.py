"""Events of the Anthropic Messages API, with the fields that are read. Pure.

Any field may be null: some gateways send every field they know with every event.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Struct


class CacheCreation(Struct, gc=False):
    """Tokens written to the cache, by lifetime."""

    ephemeral_1h_input_tokens: int | None = None


class AnthropicUsage(Struct, gc=False):
    """Token counts of a request, as the API reports them."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_creation: CacheCreation | None = None
    """Cache writes by lifetime."""
    cache_read_input_tokens: int | None = None
    output_tokens_details: dict[str, Any] | None = None


class MessageStart(Struct):
    """Beginning of an answer: its id, and the usage so far."""

    id: str | None = None
    usage: AnthropicUsage | None = None


class AnthropicDelta(Struct):
    """New content of a block, or new fields of the whole answer."""

    type: str | None = None
    text: str | None = None
    partial_json: str | None = None
    thinking: str | None = None
    signature: str | None = None
    citation: dict[str, Any] | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: dict[str, Any] | None = None
    container: dict[str, Any] | None = None


class AnthropicEvent(Struct):
    """One event of a stream."""

    type: str | None = None
    index: int | None = None
    delta: AnthropicDelta | None = None
    content_block: dict[str, Any] | None = None
    message: MessageStart | None = None
    usage: AnthropicUsage | None = None
    error: Any = None


read_event: Final = msgspec.json.Decoder(AnthropicEvent).decode
"""Parse the data of one event."""


def delta_fields(data: bytes) -> dict[str, Any]:
    """All fields of an event's delta, including unknown ones."""
    fields: dict[str, Any] = msgspec.json.decode(data)["delta"]
    return fields
