"""Decodes the chunks of a Gemini API answer into deltas. Pure.

A chunk contains whole parts: only text and thoughts are spread over several. Data that must be sent
back unchanged (signatures, tools that the API ran) are kept in the metadata of our parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal, NoReturn

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from holdfast.kernel.errors import FailureKind, ProviderError
from holdfast.kernel.messages import (
    File,
    FinishReason,
    Metadata,
    Source,
    Text,
    ToolOutcome,
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
from holdfast.providers.failure import stream_error
from holdfast.providers.google.chunk_types import (
    Candidate,
    FunctionCall,
    GoogleChunk,
    GooglePart,
    read_chunk,
    read_usage,
)
from holdfast.providers.profile import Profile
from holdfast.providers.request_body import JsonObject
from holdfast.providers.split_surrogates import SurrogateJoiner

ERROR_CODES: Final[Mapping[str, FailureKind]] = {
    # The status words of google.rpc.
    "ABORTED": "server",
    "CANCELLED": "stream_cut",  # cancelled by Google, not by us
    "DEADLINE_EXCEEDED": "timeout",
    "FAILED_PRECONDITION": "permission",  # the country, or the billing of the project
    "INTERNAL": "server",
    "INVALID_ARGUMENT": "invalid_request",
    "NOT_FOUND": "not_found",
    "OUT_OF_RANGE": "invalid_request",
    "PERMISSION_DENIED": "permission",
    "RESOURCE_EXHAUSTED": "rate_limit",
    "UNAUTHENTICATED": "auth",
    "UNAVAILABLE": "overloaded",
    "UNKNOWN": "server",
    # Reasons in the details of an error, which are more exact than its status.
    "ACCESS_TOKEN_EXPIRED": "auth",
    "API_KEY_EXPIRED": "auth",
    "API_KEY_INVALID": "auth",
    "API_KEY_SERVICE_BLOCKED": "permission",
    "BILLING_DISABLED": "quota",
    "CONSUMER_INVALID": "permission",
    "CONSUMER_SUSPENDED": "permission",
    "CREDENTIALS_MISSING": "auth",
    "RATE_LIMIT_EXCEEDED": "rate_limit",
    "SERVICE_DISABLED": "permission",
}

FINISH_REASONS: Final[Mapping[str, FinishReason]] = {
    "STOP": "stop",
    "NO_IMAGE": "stop",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",
    "TOO_MANY_TOOL_CALLS": "length",
    "BLOCKLIST": "content_filter",
    "IMAGE_PROHIBITED_CONTENT": "content_filter",
    "IMAGE_RECITATION": "content_filter",
    "IMAGE_SAFETY": "content_filter",
    "LANGUAGE": "content_filter",
    "MODEL_ARMOR": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "RECITATION": "content_filter",
    "SAFETY": "content_filter",
    "SPII": "content_filter",
}
"""Finish reasons of the API. Unknown ones count as "stop"; the loop notices an empty answer."""
FAILED_FINISHES: Final[Mapping[str, FailureKind]] = {
    # The model wrote something invalid, or gave up: a retry gives another answer.
    "FINISH_REASON_UNSPECIFIED": "server",
    "IMAGE_OTHER": "server",
    "MALFORMED_FUNCTION_CALL": "server",
    "MALFORMED_RESPONSE": "server",
    "OTHER": "server",
    "UNEXPECTED_TOOL_CALL": "server",
    "MISSING_THOUGHT_SIGNATURE": "invalid_request",
}
"""Finish reasons that mean that the answer failed."""

_OUTCOMES: Final[Mapping[str, ToolOutcome]] = {
    "OUTCOME_FAILED": "failed",
    "OUTCOME_DEADLINE_EXCEEDED": "timed_out",
}
_TOOL_NAMES: Final = {
    "GOOGLE_SEARCH_WEB": "web_search",
    "URL_CONTEXT": "web_fetch",
}
"""The API's own tools by their shared names."""


class GoogleDecoder:
    """Decodes one answer."""

    def __init__(self, provider: str, profile: Profile) -> None:
        self.deltas: list[Delta] = []
        self._provider = provider
        self._joiner = SurrogateJoiner()
        self._profile = profile
        self._open: Literal["text", "thought"] | None = None
        """Kind of the last part, if the next one can continue it."""
        self._call_count = 0
        self._has_call = False
        self._executed_id = ""
        """Id of the last call that the API ran."""
        self._usage = Raw()
        self._prompt_reported = False
        """Whether the usage of the prompt has been reported."""
        self._finish_reason: str | None = None
        """Finish reason; None until it arrives."""
        self._blocked = False
        """Whether the prompt was blocked, so that there is no answer."""
        self._finish_message: str | None = None
        self._facts: JsonObject = {}
        """Facts about the whole answer, for its metadata."""

    def feed(self, events: list[bytes]) -> list[Delta]:
        deltas = self.deltas = []
        for event in events:
            if event[:1] == b"[" and event.strip() == b"[DONE]":
                continue  # some gateways end every stream with it
            try:
                chunk = read_chunk(event)
            except msgspec.DecodeError:
                chunk = read_chunk(self._joiner.joined(event))
            self._usage = chunk.usage_metadata or self._usage
            if not chunk.candidates:
                self._read_facts(chunk)
                continue
            candidate = chunk.candidates[0]
            if candidate.index:
                continue  # only the first of several candidates is used
            if not self._facts:
                self._read_facts(chunk)
                self._report_prompt(deltas)
            if candidate.content is not None and candidate.content.parts:
                for part in candidate.content.parts:
                    text = part.text
                    if (
                        text
                        and self._open == "text"
                        and part.thought_signature is None
                        and not part.thought
                    ):
                        deltas.append(TextDelta(text))
                    else:
                        self._take_part(part, deltas)
            self._read_candidate(candidate)
        return deltas

    @property
    def complete(self) -> bool:
        return self._finish_reason is not None

    def end(self) -> list[Delta]:
        reason = self._finish_reason or ("SAFETY" if self._blocked else "")
        if not reason:
            return []
        if reason in FAILED_FINISHES:
            self._fail(reason)
        finish = FINISH_REASONS.get(reason, "stop")
        if finish == "stop" and self._has_call:
            finish = "tool_calls"
        if self._finish_reason not in (None, "STOP", "MAX_TOKENS"):
            self._facts["finishReason"] = self._finish_reason
        sources = [PartAdded(source) for source in _sources(self._facts)]
        metadata = {self._provider: self._facts} if self._facts else None
        return [*sources, Finished(finish, self.spent(), metadata)]

    # --- Parts ---

    def _take_part(self, part: GooglePart, deltas: list[Delta]) -> None:
        signature = part.thought_signature
        if part.function_call is not None:
            self._call(part.function_call, signature, deltas)
        elif part.text is not None:
            self._text(part.text, bool(part.thought), signature, deltas)
        elif (code := part.executable_code) is not None:
            self._code(code, _raw({"executableCode": code}, signature), deltas)
        elif (output := part.code_execution_result) is not None:
            self._output(output, _raw({"codeExecutionResult": output}, signature), deltas)
        elif (call := part.tool_call) is not None:
            self._tool(call, _raw({"toolCall": call}, signature), deltas)
        elif (response := part.tool_response) is not None:
            self._response(response, _raw({"toolResponse": response}, signature), deltas)
        elif not part.thought:  # an image in the thoughts is a draft
            self._file(part, deltas)

    def _text(self, text: str, thought: bool, signature: str | None, deltas: list[Delta]) -> None:
        """Emit a piece of text.

        A signed piece ends the text that it continues, and records its own length.
        """
        kind: Literal["text", "thought"] = "thought" if thought else "text"
        continues = self._open == kind
        if text:
            deltas.append(ReasoningDelta(text) if thought else TextDelta(text))
            self._open = kind
        if signature is None:
            return
        self._open = None
        signed = {"signed": len(text)} if continues else {}
        if not text and not continues:
            deltas.append(PartEnded())
        if thought:
            deltas.append(PartEnded(signature, self._metadata(signed)))
        elif text or continues:
            deltas.append(
                PartEnded(None, self._metadata({"thoughtSignature": signature, **signed}))
            )
        else:  # a signature without text is kept in an empty reasoning part
            part = {"text": "", "thoughtSignature": signature}
            deltas.append(PartEnded(None, self._metadata({"part": part})))

    def _call(self, call: FunctionCall, signature: str | None, deltas: list[Delta]) -> None:
        fields = {"id": call.id, "thoughtSignature": signature}
        fields = {key: value for key, value in fields.items() if value}
        arguments = bytes(call.args).decode()
        self._has_call = True
        self._emit_call(
            call.id, call.name, "{}" if arguments == "null" else arguments, fields, False, deltas
        )

    def _emit_call(
        self,
        id: str | None,
        tool: str,
        arguments: str,
        fields: JsonObject,
        provider_executed: bool,
        deltas: list[Delta],
    ) -> str:
        """Emit a call, which always arrives whole.

        A call without an id gets one that is never sent.
        """
        self._open = None
        self._call_count += 1
        id = id or f"call_{self._call_count}"
        deltas += (
            CallStarted(id, tool, provider_executed),
            ArgumentsDelta(id, arguments),
            CallEnded(id, self._metadata(fields)),
        )
        return id

    def _metadata(self, fields: JsonObject) -> Metadata | None:
        return {self._provider: fields} if fields else None

    # --- What the API ran itself ---

    def _code(self, code: JsonObject, raw: JsonObject, deltas: list[Delta]) -> None:
        code_fields = {key: code[key] for key in ("language", "code") if key in code}
        arguments = msgspec.json.encode(code_fields).decode()
        fields = {"part": raw}
        self._executed_id = self._emit_call(
            code.get("id"), "code_execution", arguments, fields, True, deltas
        )

    def _output(self, result: JsonObject, raw: JsonObject, deltas: list[Delta]) -> None:
        outcome = _OUTCOMES.get(result.get("outcome") or "", "ok")
        self._result(result.get("id"), "code_execution", result.get("output"), outcome, raw, deltas)

    def _tool(self, call: JsonObject, raw: JsonObject, deltas: list[Delta]) -> None:
        arguments = msgspec.json.encode(call.get("args") or {}).decode()
        self._executed_id = self._emit_call(
            call.get("id"), _tool_name(call), arguments, {"part": raw}, True, deltas
        )

    def _response(self, response: JsonObject, raw: JsonObject, deltas: list[Delta]) -> None:
        output = response.get("response")
        text = msgspec.json.encode(output).decode() if output else ""
        self._result(response.get("id"), _tool_name(response), text, "ok", raw, deltas)

    def _result(
        self,
        id: str | None,
        tool: str,
        text: str | None,
        outcome: ToolOutcome,
        raw: JsonObject,
        deltas: list[Delta],
    ) -> None:
        self._open = None
        deltas.append(
            PartAdded(
                ToolResult(
                    id or self._executed_id,
                    tool,
                    (Text(text),) if text else (),
                    outcome,
                    provider_executed=True,
                    metadata=self._metadata({"part": raw}),
                )
            )
        )

    def _file(self, part: GooglePart, deltas: list[Delta]) -> None:
        signature = part.thought_signature
        metadata = self._metadata({"thoughtSignature": signature} if signature else {})
        if part.inline_data is not None:
            blob = part.inline_data
            file = File(blob.mime_type, data=blob.data, metadata=metadata)
        elif part.file_data is not None:
            at = part.file_data
            file = File(at.mime_type, ref=at.file_uri, metadata=metadata)
        else:
            return  # an unknown kind of part
        self._open = None
        deltas.append(PartAdded(file))

    # --- The whole answer ---

    def _read_facts(self, chunk: GoogleChunk) -> None:
        """Read the fields of a chunk that are not parts, and raise its error if it has one."""
        if chunk.error is not None:
            raise stream_error({"error": chunk.error}, ERROR_CODES)
        if chunk.response_id:
            self._facts["responseId"] = chunk.response_id
        if chunk.model_version:
            self._facts["modelVersion"] = chunk.model_version
        blocked = chunk.prompt_feedback and chunk.prompt_feedback.get("blockReason")
        if blocked:
            self._facts["promptFeedback"] = chunk.prompt_feedback
            self._blocked = True

    def _read_candidate(self, candidate: Candidate) -> None:
        """Read the fields of a candidate that are not parts.

        Most of them arrive with the last chunk.
        """
        if candidate.finish_reason is not None:
            self._finish_reason = candidate.finish_reason
            self._finish_message = candidate.finish_message
        if candidate.grounding_metadata:
            self._merge_fact("groundingMetadata", candidate.grounding_metadata)
        if candidate.url_context_metadata:
            self._merge_fact("urlContextMetadata", candidate.url_context_metadata)
        if candidate.citation_metadata:
            self._merge_fact("citationMetadata", candidate.citation_metadata)

    def _report_prompt(self, deltas: list[Delta]) -> None:
        """Report the usage of the prompt once, so that an interrupted answer has it."""
        usage = None if self._prompt_reported else self.spent()
        if usage is not None:
            self._prompt_reported = True
            deltas.append(Ping(usage))

    def _merge_fact(self, key: str, fields: JsonObject) -> None:
        self._facts[key] = {**self._facts.get(key, {}), **fields}  # a repeated field has more keys

    def _fail(self, reason: str) -> NoReturn:
        why = self._finish_message or "the answer failed"
        raise ProviderError(f"{reason}: {why}", code=reason, kind=FAILED_FINISHES[reason])

    def spent(self) -> Usage | None:
        counts = read_usage(self._usage) if self._usage else None
        if counts is None:
            return None
        read = counts.cached_content_token_count or 0
        prompt = (counts.prompt_token_count or 0) - read
        thoughts = counts.thoughts_token_count or 0
        usage = Usage(
            input=max(0, prompt) + (counts.tool_use_prompt_token_count or 0),
            output=(counts.candidates_token_count or 0) + thoughts,
            reasoning=thoughts,
            cache_read=read,
        )
        price = self._profile.price
        return usage if price is None else replace(usage, cost=price.of(usage))


def _raw(data: JsonObject, signature: str | None) -> JsonObject:
    """A raw part with its signature."""
    return data if signature is None else {**data, "thoughtSignature": signature}


def _tool_name(fields: JsonObject) -> str:
    kind = fields.get("toolType") or "MEDIA_PROCESSING"  # the only tool that is sent without a type
    return _TOOL_NAMES.get(kind, kind.lower())


def _sources(facts: JsonObject) -> Iterator[Source]:
    """Sources of an answer, each URL once."""
    seen: set[str] = set()
    for url, title in _cited_pages(facts):
        if isinstance(url, str) and url and url not in seen:
            seen.add(url)
            yield Source(url, title)


def _cited_pages(facts: JsonObject) -> Iterator[tuple[Any, str | None]]:
    grounding = facts.get("groundingMetadata", {})
    for chunk in _objects(grounding.get("groundingChunks")):
        for page in _objects(list(chunk.values())):  # {"web": {"uri": …}}, {"maps": …}, …
            yield page.get("uri") or page.get("sourceUri"), page.get("title")
    for page in _objects(facts.get("urlContextMetadata", {}).get("urlMetadata")):
        if page.get("urlRetrievalStatus") == "URL_RETRIEVAL_STATUS_SUCCESS":
            yield page.get("retrievedUrl"), None
    cited = facts.get("citationMetadata", {})
    for citation in _objects(cited.get("citationSources") or cited.get("citations")):
        yield citation.get("uri"), citation.get("title")


def _objects(value: Any) -> list[JsonObject]:
    """The objects in a list. Invalid metadata must not fail an answer."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
