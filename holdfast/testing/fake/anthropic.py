"""The Anthropic Messages API of the fake provider.

Scripts express what only this protocol has in the form of a message's parts: `PartEnded(signature)`
after reasoning, `PartEnded(metadata={"anthropic": {"citations": […]}})` after text, and `PartAdded`
of a call, a result or reasoning with the block in its metadata. `finish` with
`metadata={"anthropic": {"stop_reason": "pause_turn"}}` sends that stop reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from holdfast.kernel.messages import (
    FinishReason,
    Metadata,
    Part,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
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
from holdfast.testing.fake.anthropic_rules import request_problem
from holdfast.testing.fake.dialect_interface import FakeDialect, Problem, ReceivedRequest, event

STOP_REASONS: Final[Mapping[FinishReason, str]] = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}
ERROR_TYPES: Final[Mapping[int, str]] = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""Error types by status, for errors without a code."""


def refusal(problem: Problem) -> bytes:
    """Body of a refusal."""
    return msgspec.json.encode({**_error(problem), "request_id": "req_fake"})


def _error(problem: Problem) -> dict[str, Any]:
    fallback = "invalid_request_error" if problem.status < 500 else "api_error"
    kind = problem.code or ERROR_TYPES.get(problem.status, fallback)
    return {"type": "error", "error": {"type": kind, "message": problem.message}}


class AnthropicEncoder:
    """Encodes one answer. A block is open from its first piece until other content follows."""

    def __init__(self, received: ReceivedRequest, usage: Usage | None) -> None:
        self._received = received
        self._usage = usage or Usage()
        self._blocks = 0
        self._open: tuple[str, int] | None = None
        """Type and index of the open block. Open calls are in `_calls`."""
        self._calls: dict[str, int] = {}

    def opening(self) -> Iterator[bytes]:
        usage = self._usage
        message = {
            "id": "msg_fake",
            "type": "message",
            "role": "assistant",
            "model": self._received.json.get("model"),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {
                "input_tokens": usage.input,
                "cache_creation_input_tokens": usage.cache_write,
                "cache_read_input_tokens": usage.cache_read,
                "output_tokens": min(1, usage.output),
            },
        }
        yield _event("message_start", message=message)
        yield _event("ping")

    def failure(self, problem: Problem) -> Iterator[bytes]:
        yield event(_error(problem), "error")

    def encode_delta(self, delta: Delta) -> Iterable[bytes]:
        match delta:
            case TextDelta(text):
                return self._piece("text", {"type": "text_delta", "text": text})
            case ReasoningDelta(text):
                return self._piece("thinking", {"type": "thinking_delta", "thinking": text})
            case PartEnded(signature, metadata):
                return self._part_ended(signature, _own_metadata(metadata))
            case CallStarted(id, tool, provider_executed):
                kind = "server_tool_use" if provider_executed else "tool_use"
                return self._call(id, {"type": kind, "id": id, "name": tool, "input": {}})
            case ArgumentsDelta(id, text):
                piece = {"type": "input_json_delta", "partial_json": text}
                return [self._delta(self._calls[id], piece)]
            case CallEnded(id):
                return [_stop(self._calls.pop(id))]
            case PartAdded(part):
                return self._part(part)
            case Finished():
                return self._finish(delta)
            case Ping():
                return [_event("ping")]
            case _:
                return []  # this protocol has no event for it

    # --- blocks ---

    def _piece(self, kind: str, piece: Mapping[str, Any]) -> Iterator[bytes]:
        if self._open is None or self._open[0] != kind:
            yield from self._close()
            empty = {"thinking": "", "signature": ""} if kind == "thinking" else {"text": ""}
            yield self._start({"type": kind, **empty})
            self._open = kind, self._blocks - 1
        assert self._open is not None
        yield self._delta(self._open[1], piece)

    def _part_ended(self, signature: str | None, note: Mapping[str, Any]) -> Iterator[bytes]:
        if signature is not None:
            yield from self._piece("thinking", {"type": "signature_delta", "signature": signature})
        for citation in note.get("citations", ()):
            yield from self._piece("text", {"type": "citations_delta", "citation": citation})
        yield from self._close()

    def _call(self, id: str, block: Mapping[str, Any]) -> Iterator[bytes]:
        yield from self._close()
        yield self._start(block)
        self._calls[id] = self._blocks - 1

    def _part(self, part: Part) -> Iterator[bytes]:
        """Encode a part that is not streamed."""
        note = _own_metadata(part.metadata)
        match part:
            case Text(text=text):
                yield from self._close()
                yield from self._piece("text", {"type": "text_delta", "text": text})
                yield from self._part_ended(None, note)
            case Reasoning(text=text, signature=signature) if "block" not in note:
                yield from self._piece("thinking", {"type": "thinking_delta", "thinking": text})
                yield from self._part_ended(signature, note)
            case ToolCall(id=id, tool=tool, arguments=arguments):
                kind = note.get("type", "tool_use")
                block = {"type": kind, "id": id, "name": tool, "input": {}}
                yield from self._call(id, {**block, **note.get("extra", {})})
                yield from self.encode_delta(ArgumentsDelta(id, arguments))
                yield from self.encode_delta(CallEnded(id))
            case Source(url=url, title=title):
                yield from self._part_ended(None, {"citations": [_citation(url, title)]})
            case ToolResult() | Reasoning():
                yield from self._close()
                block = note["block"] if "block" in note else _default_result_block(part)
                yield self._start(block)
                yield _stop(self._blocks - 1)
            case _:
                raise TypeError(f"this protocol cannot answer with a {type(part).__name__}")

    def _start(self, block: Mapping[str, Any]) -> bytes:
        self._blocks += 1
        return _event("content_block_start", index=self._blocks - 1, content_block=block)

    def _delta(self, index: int, piece: Mapping[str, Any]) -> bytes:
        return _event("content_block_delta", index=index, delta=piece)

    def _close(self) -> Iterator[bytes]:
        if self._open is not None:
            yield _stop(self._open[1])
            self._open = None

    # --- the end ---

    def _finish(self, finished: Finished) -> Iterator[bytes]:
        yield from self._close()
        for index in self._calls.values():  # the real API also closes incomplete calls
            yield _stop(index)
        note = _own_metadata(finished.metadata)
        delta = {
            "stop_reason": note.get("stop_reason") or STOP_REASONS.get(finished.finish, "end_turn"),
            "stop_sequence": note.get("stop_sequence"),
        }
        for name in ("container", "stop_details"):
            if name in note:
                delta[name] = note[name]
        usage: dict[str, Any] = {"output_tokens": self._usage.output}
        if self._usage.reasoning:
            usage["output_tokens_details"] = {"thinking_tokens": self._usage.reasoning}
        yield _event("message_delta", delta=delta, usage=usage)
        yield _event("message_stop")


def _event(kind: str, **fields: Any) -> bytes:
    return event({"type": kind, **fields}, kind)


def _stop(index: int) -> bytes:
    return _event("content_block_stop", index=index)


def _own_metadata(metadata: Metadata | None) -> Mapping[str, Any]:
    note = (metadata or {}).get("anthropic")
    return note if isinstance(note, Mapping) else {}


def _citation(url: str, title: str | None) -> dict[str, Any]:
    return {
        "type": "web_search_result_location",
        "url": url,
        "title": title,
        "cited_text": "",
        "encrypted_index": "fake",
    }


def _default_result_block(part: Part) -> dict[str, Any]:
    """Default block of a provider's tool result, if the script has none."""
    if not isinstance(part, ToolResult):
        raise TypeError("reasoning without text needs its block in the metadata")
    result = {"type": "web_search_result", "url": "https://fake.example", "title": part.text}
    return {
        "type": f"{part.tool}_tool_result",
        "tool_use_id": part.call_id,
        "content": [{**result, "encrypted_content": "fake", "page_age": None}],
    }


DIALECT: Final = FakeDialect(request_problem, refusal, AnthropicEncoder)
