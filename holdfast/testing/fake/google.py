"""The Gemini API of the fake provider: `streamGenerateContent` with server-sent events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from holdfast.kernel.messages import (
    File,
    Metadata,
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
from holdfast.providers.request_body import JsonObject
from holdfast.testing.fake.dialect_interface import FakeDialect, Problem, ReceivedRequest, event
from holdfast.testing.fake.google_rules import (
    ERROR_REASONS,
    RPC_STATUSES,
    demands_signatures,
    model_of,
    request_problem,
)

FAKE_SIGNATURE: Final = "c2lnbmVkIGJ5IGEgZmFrZQ=="
"""Signature of the first call of an answer, if the real API signs it and the script does not."""
_FINISH_REASONS: Final = {
    "stop": "STOP",
    "tool_calls": "STOP",
    "length": "MAX_TOKENS",
    "content_filter": "SAFETY",
    "interrupted": "OTHER",
    "error": "OTHER",
}
_OUTCOMES: Final = {"ok": "OUTCOME_OK", "timed_out": "OUTCOME_DEADLINE_EXCEEDED"}
_TOOL_TYPES: Final = {"web_search": "GOOGLE_SEARCH_WEB", "web_fetch": "URL_CONTEXT"}


def refusal(problem: Problem) -> bytes:
    """Body of a refusal."""
    return msgspec.json.encode({"error": _error(problem)})


def _error(problem: Problem) -> JsonObject:
    status = RPC_STATUSES.get(problem.status, "UNKNOWN")
    error: JsonObject = {"code": problem.status, "message": problem.message, "status": status}
    if problem.code in ERROR_REASONS:
        info = "type.googleapis.com/google.rpc.ErrorInfo"
        error["details"] = [{"@type": info, "reason": problem.code, "domain": "googleapis.com"}]
    elif problem.code is not None:
        error["status"] = problem.code
    return error


class GoogleEncoder:
    """Encodes one answer.

    Calls are sent whole, when they are complete: the API does not stream them.

    Metadata under `google` is sent unchanged: `thoughtSignature` with a part, `part` in place of
    one, and in `Finished` any field of a candidate (`finishReason`, `groundingMetadata`).
    """

    def __init__(self, received: ReceivedRequest, usage: Usage | None) -> None:
        self._model = model_of(received.path)
        self._usage = usage
        self._open = "text"
        self._calls: dict[str, tuple[CallStarted, list[str]]] = {}
        self._first_call_needs_signature = demands_signatures(self._model)
        """Whether the first call has not been sent yet, and must be signed."""
        self._malformed = False
        self._sources: list[Source] = []

    def opening(self) -> Iterable[bytes]:
        return ()

    def encode_delta(self, delta: Delta) -> Iterable[bytes]:
        match delta:
            case TextDelta(text):
                self._open = "text"
                return self._parts({"text": text})
            case ReasoningDelta(text):
                self._open = "thought"
                return self._parts({"text": text, "thought": True})
            case PartEnded(signature, metadata):
                return self._part_ended(signature, _own_metadata(metadata))
            case CallStarted(call_id):
                self._calls[call_id] = (delta, [])
            case ArgumentsDelta(call_id, text):
                self._calls[call_id][1].append(text)
            case CallEnded(call_id, metadata):
                started, pieces = self._calls.pop(call_id)
                return self._call(started, "".join(pieces), _own_metadata(metadata))
            case PartAdded(part):
                return self._part(part)
            case Ping():
                return [self._chunk({})]  # there are no pings: an empty chunk
            case Finished():
                return self._finish(delta)
            case _:
                pass  # not sent by providers
        return ()

    def failure(self, problem: Problem) -> Iterable[bytes]:
        return [event({"error": _error(problem)})]

    # --- Parts ---

    def _part_ended(self, signature: str | None, own: Metadata) -> Iterable[bytes]:
        signature = signature or own.get("thoughtSignature")
        if "part" in own:
            return self._parts(dict(own["part"]))
        if signature is None:
            return ()
        kind = {"thought": True} if self._open == "thought" else {}
        return self._parts({"text": "", **kind, "thoughtSignature": signature})

    def _call(self, started: CallStarted, text: str, own: Metadata) -> Iterable[bytes]:
        if "part" in own:
            return self._parts(dict(own["part"]))
        try:
            arguments = msgspec.json.decode(text or "{}", type=dict)
        except (ValueError, RecursionError):
            self._malformed = True  # the API parses arguments, and fails on these
            return ()
        id = {"id": started.call_id} if started.call_id else {}
        if started.provider_executed and started.tool == "code_execution":
            code = {"language": "PYTHON", "code": "", **arguments, **id}
            return self._parts({"executableCode": code, **_signature_of(own)})
        if started.provider_executed:
            kind = _TOOL_TYPES.get(started.tool, started.tool.upper())
            call = {**id, "toolType": kind, "args": arguments}
            return self._parts({"toolCall": call, **_signature_of(own)})
        signed = _signature_of(own) or (
            {"thoughtSignature": FAKE_SIGNATURE} if self._first_call_needs_signature else {}
        )
        self._first_call_needs_signature = False
        call = {"name": started.tool, "args": msgspec.Raw((text or "{}").encode()), **id}
        return self._parts({"functionCall": call, **signed})

    def _part(self, part: object) -> Iterable[bytes]:
        match part:
            case Source():
                self._sources.append(part)
                return ()
            case Text(text=text, metadata=metadata):
                return self._parts({"text": text, **_signature_of(_own_metadata(metadata))})
            case Reasoning(text=text, signature=signature):
                signed = {"thoughtSignature": signature} if signature else {}
                return self._parts({"text": text, "thought": True, **signed})
            case ToolCall():
                started = CallStarted(part.id, part.tool, part.provider_executed)
                return self._call(started, part.arguments, _own_metadata(part.metadata))
            case ToolResult():
                return self._parts(_result(part))
            case File(media_type, _, data, ref, metadata):
                inline = {"inlineData": {"mimeType": media_type, "data": data}}
                where = {"fileData": {"mimeType": media_type, "fileUri": ref}}
                return self._parts(
                    {
                        **(where if data is None else inline),
                        **_signature_of(_own_metadata(metadata)),
                    }
                )
            case _:
                return ()

    # --- Chunks ---

    def _parts(self, *parts: JsonObject) -> list[bytes]:
        return [self._chunk({"candidates": [self._candidate(list(parts), {})]})]

    def _candidate(self, parts: list[JsonObject], rest: JsonObject) -> JsonObject:
        return {"content": {"parts": parts, "role": "model"}, "index": 0, **rest}

    def _chunk(self, content: JsonObject, usage: JsonObject | None = None) -> bytes:
        if usage is None and self._usage is not None:  # no output yet
            usage = _usage(Usage(self._usage.input, cache_read=self._usage.cache_read))
        usage_fields = {"usageMetadata": usage} if usage else {}
        about = {"modelVersion": self._model, "responseId": "fake-response"}
        return event({**content, **usage_fields, **about})

    def _finish(self, delta: Finished) -> Iterable[bytes]:
        own = dict(_own_metadata(delta.metadata))
        usage = None if delta.usage is None else _usage(delta.usage)
        if "promptFeedback" in own:
            return [self._chunk({"promptFeedback": own["promptFeedback"]}, usage)]
        rest: JsonObject = {"finishReason": _FINISH_REASONS[delta.finish], **own}
        if self._malformed:
            rest["finishReason"] = "MALFORMED_FUNCTION_CALL"
        if self._sources:
            rest.setdefault("groundingMetadata", _grounding(self._sources))
        return [self._chunk({"candidates": [self._candidate([{"text": ""}], rest)]}, usage)]


def _own_metadata(metadata: Metadata | None) -> Metadata:
    own = (metadata or {}).get("google")
    return own if isinstance(own, Mapping) else {}


def _signature_of(own: Metadata) -> JsonObject:
    return {"thoughtSignature": own["thoughtSignature"]} if "thoughtSignature" in own else {}


def _result(result: ToolResult) -> JsonObject:
    own = _own_metadata(result.metadata)
    if "part" in own:
        return dict(own["part"])
    id = {"id": result.call_id} if result.call_id else {}
    if result.tool == "code_execution":
        outcome = _OUTCOMES.get(result.outcome, "OUTCOME_FAILED")
        return {"codeExecutionResult": {"outcome": outcome, "output": result.text, **id}}
    kind = _TOOL_TYPES.get(result.tool, result.tool.upper())
    return {"toolResponse": {**id, "toolType": kind, "response": {"output": result.text}}}


def _grounding(sources: list[Source]) -> JsonObject:
    chunks = [{"web": {"uri": source.url, "title": source.title}} for source in sources]
    return {"groundingChunks": chunks, "webSearchQueries": []}


def _usage(usage: Usage) -> JsonObject:
    prompt = usage.context - usage.output
    counts = {
        "promptTokenCount": prompt,
        "candidatesTokenCount": usage.output - usage.reasoning,
        "totalTokenCount": usage.context,
        "thoughtsTokenCount": usage.reasoning,
        "cachedContentTokenCount": usage.cache_read,
    }
    return {key: count for key, count in counts.items() if count}


DIALECT: Final = FakeDialect(problem=request_problem, refusal=refusal, encoder=GoogleEncoder)
