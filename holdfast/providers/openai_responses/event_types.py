"""Event types of OpenAI's Responses API, with the fields we read, and its error codes."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from holdfast.kernel.messages import Usage
from holdfast.providers.failure import ErrorCodes
from holdfast.providers.openai_responses.call_items import ResponseItem, objects_in
from holdfast.providers.profile import Price

ERROR_CODES: Final[ErrorCodes] = {
    "DeploymentNotFound": "not_found",
    "account_deactivated": "auth",
    "billing_hard_limit_reached": "quota",
    "billing_not_active": "quota",
    "bio_policy": "content_filter",
    "content_policy_violation": "content_filter",
    "credit_balance_exhausted": "quota",
    "cyber_policy": "content_filter",
    "data_residency_mismatch": "invalid_request",
    "empty_image_file": "invalid_request",
    "failed_to_download_image": "invalid_request",
    "image_content_policy_violation": "content_filter",
    "image_file_not_found": "invalid_request",
    "image_file_too_large": "invalid_request",
    "image_parse_error": "invalid_request",
    "image_too_large": "invalid_request",
    "image_too_small": "invalid_request",
    "insufficient_permissions": "permission",
    "invalid_base64_image": "invalid_request",
    "invalid_image": "invalid_request",
    "invalid_image_format": "invalid_request",
    "invalid_image_mode": "invalid_request",
    "invalid_image_url": "invalid_request",
    "invalid_organization": "auth",
    "invalid_prompt": "content_filter",
    "misalignment_policy_violation": "content_filter",
    "organization_spend_limit_exceeded": "quota",
    "organization_usage_limit_exceeded": "quota",
    "previous_response_not_found": "invalid_request",
    "project_spend_limit_exceeded": "quota",
    "server_is_overloaded": "overloaded",
    "service_unavailable_error": "overloaded",
    "slow_down": "rate_limit",
    "unsupported_country_region_territory": "permission",
    "unsupported_image_media_type": "invalid_request",
    "vector_store_timeout": "timeout",
}
"""Error codes of this protocol, in addition to those that several share."""


class ResponsesEvent(Struct):
    """Fields of every type of event. Most events have three or four of them."""

    type: str = ""
    delta: str | None = None
    output_index: int | None = None
    content_index: int | None = None
    summary_index: int | None = None
    item_id: str | None = None
    text: str | None = None
    item: ResponseItem | None = None
    annotation: ResponseItem | None = None
    response: Raw = Raw(b"null")
    error: Any = None
    code: Any = None
    message: Any = None


class _Type(Struct):
    type: str = ""


class _CachedTokens(Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _ReasoningTokens(Struct):
    reasoning_tokens: int | None = None


class ResponsesUsage(Struct):
    """Token counts of a response, as the API reports them."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _CachedTokens | None = None
    output_tokens_details: _ReasoningTokens | None = None
    cost: Any = None
    """Cost, if the provider reports it itself."""

    def usage(self, price: Price | None) -> Usage:
        """The counts as a `Usage`.

        Cache reads and writes are counted separately from other input.
        """
        cached = self.input_tokens_details or _CachedTokens()
        read, written = cached.cached_tokens or 0, cached.cache_write_tokens or 0
        thought = self.output_tokens_details or _ReasoningTokens()
        usage = Usage(
            max(0, (self.input_tokens or 0) - read - written),
            self.output_tokens or 0,
            thought.reasoning_tokens or 0,
            read,
            written,
        )
        charged = self.cost.get("total_cost") if isinstance(self.cost, dict) else None
        if isinstance(charged, (int, float)):  # including the tools that the provider ran
            return msgspec.structs.replace(usage, cost=float(charged))
        return usage if price is None else msgspec.structs.replace(usage, cost=price.of(usage))


class _Incomplete(Struct):
    reason: str | None = None


class Response(Struct):
    """The whole answer, as the last event contains it."""

    id: str | None = None
    status: str | None = None
    previous_response_id: str | None = None
    output: list[ResponseItem] | None = None
    usage: ResponsesUsage | None = None
    incomplete_details: _Incomplete | None = None
    error: Any = None

    @property
    def cut_by(self) -> str:
        """Why the answer is incomplete; empty if it is not known."""
        return (self.incomplete_details and self.incomplete_details.reason) or ""

    @property
    def text(self) -> str:
        """All text of the answer."""
        messages = [item for item in self.output or () if item.get("type") == "message"]
        contents = [content for item in messages for content in objects_in(item.get("content"))]
        return "".join(content.get("text") or content.get("refusal") or "" for content in contents)


_EVENT: Final = msgspec.json.Decoder(ResponsesEvent)
_TYPE: Final = msgspec.json.Decoder(_Type)
_RESPONSE: Final = msgspec.json.Decoder(Response | None)

read_event: Final = _EVENT.decode
"""Parse the data of one event."""


def event_type(data: bytes) -> str:
    """Type of an event that could not be parsed."""
    return "[DONE]" if data.strip() == b"[DONE]" else _TYPE.decode(data).type


def response_of(event: ResponsesEvent) -> Response:
    """The response in an event, or an empty one."""
    return _RESPONSE.decode(event.response) or Response()
