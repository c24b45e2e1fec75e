"""OpenAI's Chat Completions of the fake provider."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from holdfast.kernel.messages import File, Metadata, Reasoning, Source, Text, Usage
from holdfast.kernel.model import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    Delta,
    Finished,
    PartAdded,
    PartEnded,
    Ping,
    ReasoningDelta,
    TextDelta,
)
from holdfast.providers.request_body import JsonObject
from holdfast.testing.fake.dialect_interface import FakeDialect, Problem, ReceivedRequest, event
from holdfast.testing.fake.openai_chat_rules import request_problem

COMPLETION_ID: Final = "chatcmpl-fake"
CREATED_AT: Final = 1_760_000_000
DONE_EVENT: Final = b"data: [DONE]\n\n"
_REASONS: Final = {"interrupted": "error"}
"""Finish reasons whose name differs from ours."""
_CODES: Final = {
    401: "invalid_api_key",
    404: "model_not_found",
    429: "rate_limit_exceeded",
    503: "server_is_overloaded",
    529: "server_is_overloaded",
}
"""Error codes by status."""


def refusal(problem: Problem) -> bytes:
    """Body of a refusal."""
    return msgspec.json.encode({"error": _error(problem)})


def _error(problem: Problem) -> JsonObject:
    code = problem.code or _CODES.get(problem.status)
    kind = "invalid_request_error" if problem.status < 500 else "server_error"
    if code == "insufficient_quota":
        kind = code
    return {"message": problem.message, "type": kind, "param": None, "code": code}


class ChatEncoder:
    """Encodes one answer as chunks."""

    def __init__(self, received: ReceivedRequest, usage: Usage | None) -> None:
        try:
            body = received.json
        except msgspec.DecodeError:
            body = None
        body = body if isinstance(body, dict) else {}
        self._model = body.get("model") or "fake"
        options = body.get("stream_options")
        self._reports_usage = bool(isinstance(options, dict) and options.get("include_usage"))
        self._calls: list[str] = []
        """Ids of the calls, by index."""

    def opening(self) -> Iterable[bytes]:
        yield self._chunk({"role": "assistant", "content": ""})

    def encode_delta(self, delta: Delta) -> Iterable[bytes]:
        match delta:
            case TextDelta(text):
                yield self._chunk({"content": text})
            case ReasoningDelta(text):
                yield self._chunk({"reasoning_content": text})
            case CallStarted(call_id, tool, provider_executed):
                if provider_executed:
                    raise TypeError("in this protocol the provider runs no calls")
                self._calls.append(call_id)
                function = {"name": tool, "arguments": ""}
                yield self._call(call_id, {"id": call_id, "type": "function", "function": function})
            case ArgumentsDelta(call_id, text):
                yield self._call(call_id, {"function": {"arguments": text}})
            case CallEnded(call_id, metadata):
                if extra := _in_metadata(metadata, "extra_content"):
                    yield self._call(call_id, {"extra_content": extra})
            case PartEnded(signature, metadata):
                if details := _details(signature, metadata):
                    yield self._chunk({"reasoning_details": details})
            case PartAdded(part):
                yield self._chunk(_part(part))
            case Ping():
                yield b": keep-alive\n\n"
            case Finished():
                yield from self._end(delta)
            case _:
                pass  # not sent by providers

    def failure(self, problem: Problem) -> Iterable[bytes]:
        yield event({"error": _error(problem)})

    def _call(self, id: str, fields: JsonObject) -> bytes:
        # An id may be repeated: the last call with it is the open one.
        index = len(self._calls) - 1 - self._calls[::-1].index(id)
        return self._chunk({"tool_calls": [{"index": index, **fields}]})

    def _end(self, finished: Finished) -> Iterable[bytes]:
        yield self._chunk({}, _REASONS.get(finished.finish, finished.finish))
        if self._reports_usage:
            usage = _usage(finished.usage or Usage())
            yield event({**self._head(), "choices": [], "usage": usage})
        yield DONE_EVENT

    def _chunk(self, delta: JsonObject, reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        chunk = {**self._head(), "choices": [choice]}
        if self._reports_usage:
            chunk["usage"] = None
        return event(chunk)

    def _head(self) -> JsonObject:
        return {
            "id": COMPLETION_ID,
            "object": "chat.completion.chunk",
            "created": CREATED_AT,
            "model": self._model,
            "system_fingerprint": None,
        }


def _part(part: object) -> JsonObject:
    match part:
        case Text(text):
            return {"content": text}
        case Reasoning(text):
            return {"reasoning_content": text}
        case Source(url, title):
            cited = {"url": url, "title": title or "", "start_index": 0, "end_index": 0}
            return {"annotations": [{"type": "url_citation", "url_citation": cited}]}
        case File(media_type=media_type, data=bytes(data)):
            url = f"data:{media_type};base64,{b64encode(data).decode()}"
            return {"images": [{"type": "image_url", "image_url": {"url": url}}]}
        case _:
            raise TypeError(f"this protocol has no form for {part!r}")


def _in_metadata(metadata: Metadata | None, name: str) -> Any:
    """A field in the metadata of any provider."""
    for own in (metadata or {}).values():
        if isinstance(own, dict) and own.get(name):
            return own[name]
    return None


def _details(signature: str | None, metadata: Metadata | None) -> Any:
    """Reasoning details that must be sent back, in OpenRouter's form."""
    if signature is not None:
        return [{"type": "reasoning.text", "text": "", "signature": signature, "index": 0}]
    return _in_metadata(metadata, "reasoning_details")


def _usage(usage: Usage) -> JsonObject:
    prompt = usage.input + usage.cache_read + usage.cache_write
    read = {"cached_tokens": usage.cache_read, "cache_write_tokens": usage.cache_write}
    fields: JsonObject = {
        "prompt_tokens": prompt,
        "completion_tokens": usage.output,
        "total_tokens": prompt + usage.output,
        "prompt_tokens_details": read,
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }
    if usage.cost is not None:
        fields["cost"] = usage.cost
    return fields


DIALECT: Final = FakeDialect(problem=request_problem, refusal=refusal, encoder=ChatEncoder)
