"""Decodes a streamed chat completion into deltas. Pure."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct

from holdfast.kernel.errors import FailureKind, ProviderError
from holdfast.kernel.messages import File, FinishReason, Source, Usage
from holdfast.kernel.model import (
    Delta,
    Finished,
    PartAdded,
    PartEnded,
    ReasoningDelta,
    TextDelta,
)
from holdfast.providers.failure import ErrorCodes, stream_error
from holdfast.providers.openai_chat import reasoning_details
from holdfast.providers.openai_chat.calls import CallAssembler, CallPiece, FunctionPiece
from holdfast.providers.openai_chat.think_tags import ThinkTags
from holdfast.providers.openai_chat.usage import usage_of
from holdfast.providers.profile import Price
from holdfast.providers.split_surrogates import SurrogateJoiner

ERROR_CODES: Final[ErrorCodes] = {
    # OpenAI
    "account_deactivated": "permission",
    "billing_hard_limit_reached": "quota",
    "billing_not_active": "quota",
    "content_policy_violation": "content_filter",
    "credit_balance_exhausted": "quota",
    "invalid_organization": "auth",
    "server_is_overloaded": "overloaded",
    "service_unavailable_error": "overloaded",
    "slow_down": "rate_limit",
    "unsupported_country_region_territory": "permission",
    # Azure
    "DeploymentNotFound": "not_found",
    "ResponsibleAIPolicyViolation": "content_filter",
    # Cerebras
    "queue_exceeded": "overloaded",
    "request_quota_exceeded": "rate_limit",
    "token_quota_exceeded": "rate_limit",
    "too_many_requests_error": "rate_limit",
    "wrong_api_key": "auth",
    # Groq. Two of them mean that the model wrote an invalid call or invalid JSON, so there is no
    # answer.
    "capacity_exceeded": "overloaded",
    "json_validate_failed": "empty_response",
    "model_decommissioned": "not_found",
    "tool_use_failed": "empty_response",
    # llama.cpp, while it loads a model
    "unavailable_error": "overloaded",
    # Mistral
    "invalid_model": "not_found",
    "rate_limited": "rate_limit",
    "service_tier_capacity_exceeded": "overloaded",
    "unreachable_backend": "overloaded",
    # Moonshot
    "engine_overloaded_error": "overloaded",
    "exceeded_current_quota_error": "quota",
    "incorrect_api_key_error": "auth",
    "invalid_authentication_error": "auth",
    "permission_denied_error": "permission",
    "rate_limit_reached_error": "rate_limit",
    "resource_not_found_error": "not_found",
    # vLLM
    "BadRequestError": "invalid_request",
    "InternalServerError": "server",
    "NotFoundError": "not_found",
}
"""Error codes of endpoints, in addition to those that several protocols share."""

FINISH_REASONS: Final[Mapping[str, FinishReason]] = {
    "stop": "stop",
    "tool_calls": "tool_calls",
    "function_call": "tool_calls",
    "tool_use": "tool_calls",
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",  # Mistral: the window is full
    "content_filter": "content_filter",
    "sensitive": "content_filter",  # Z.ai
}
"""Finish reasons of endpoints. Any other word counts as "stop"."""
FAILED_FINISHES: Final[Mapping[str, FailureKind]] = {
    "error": "server",
    "network_error": "server",
    "abort": "server",
    "insufficient_system_resource": "overloaded",  # DeepSeek
}
"""Finish reasons that mean that the answer failed."""


class _Delta(Struct, gc=False):
    content: Any = None
    """Text; from Mistral a list of chunks, which can include reasoning."""
    tool_calls: list[CallPiece] | None = None
    reasoning_content: Any = None
    reasoning: Any = None
    reasoning_details: Any = None
    refusal: Any = None
    annotations: Any = None
    images: Any = None
    function_call: FunctionPiece | None = None


class _Choice(Struct, gc=False):
    delta: _Delta | None = None
    finish_reason: str | None = None
    error: Any = None
    index: Any = 0
    usage: Any = None
    """Usage. Moonshot reports it here, with the finish reason."""


class _Chunk(Struct, gc=False):
    choices: list[_Choice] | None = None
    usage: Any = None
    error: Any = None
    x_groq: Any = None
    citations: Any = None
    search_results: Any = None


class _Head(Struct, gc=False):
    """Fields that every chunk repeats, and that are read only once."""

    id: Any = None
    model: Any = None
    object: Any = None


_decode: Final = msgspec.json.Decoder(_Chunk).decode
_decode_head: Final = msgspec.json.Decoder(_Head).decode


class ChatDecoder:
    """Decodes one answer.

    It is complete once the finish reason has arrived. `Finished` follows at `[DONE]` or when the
    stream closes, because usage may arrive in between.
    """

    def __init__(
        self,
        provider: str,
        price: Price | None = None,
        *,
        think_tags: bool = False,
        keeps_details: bool = False,
    ) -> None:
        """Create a decoder.

        `keeps_details`: whether the endpoint wants `reasoning_details` back.
        """
        self._provider = provider
        self._joiner = SurrogateJoiner()
        self._price = price
        self._tags = ThinkTags() if think_tags else None
        self._keeps_details = keeps_details
        self._open: Literal["text", "thought"] | None = None
        """Kind of the open part; None at the beginning, and after a whole part."""
        self._details: list[reasoning_details.ReasoningDetail] = []
        """Reasoning details that no part has yet."""
        self._calls = CallAssembler(provider)
        self._sources: dict[str, str | None] = {}
        """Titles of sources by URL. Emitted at the end, because they would split the text."""
        self._answer_facts: dict[str, str] | None = None
        self._usage: Any = None
        self._refused = False
        self._finish: FinishReason | None = None
        self._ended = False
        self.deltas: list[Delta] = []

    def feed(self, events: list[bytes]) -> list[Delta]:
        deltas = self.deltas = []
        self._read(events, deltas)
        return deltas

    def _read(self, events: list[bytes], deltas: list[Delta]) -> None:
        for event in events:
            if event[:1] != b"{" and not self._is_chunk(event, deltas):
                continue
            if self._ended:
                break
            try:
                chunk = _decode(event)
            except msgspec.DecodeError:
                event = self._joiner.joined(event)
                chunk = _decode(event)
            if chunk.error or chunk.choices is None or self._answer_facts is None:
                self._check_head(chunk, event)
            if chunk.choices:
                self._take_choice(chunk.choices[0], deltas)
            if chunk.usage or chunk.x_groq or chunk.citations or chunk.search_results:
                self._read_extras(chunk)

    @property
    def complete(self) -> bool:
        return self._finish is not None

    def end(self) -> list[Delta]:
        deltas: list[Delta] = []
        self._finish_answer(deltas)
        return deltas

    def spent(self) -> Usage | None:
        return usage_of(self._usage, self._price)

    def _is_chunk(self, event: bytes, deltas: list[Delta]) -> bool:
        """Whether an event that does not begin like JSON contains JSON."""
        data = event.strip()
        if data == b"[DONE]":
            self._finish_answer(deltas)
            return False
        return bool(data)

    # --- The content of a choice -

    def _take_choice(self, choice: _Choice, deltas: list[Delta]) -> None:
        delta = choice.delta
        if choice.index != 0 and choice.index is not None:
            return  # only one answer was requested
        if delta is not None:
            if delta.reasoning_content or delta.reasoning or delta.reasoning_details:
                self._emit_reasoning(delta, deltas)
            content = delta.content
            if content:
                if content.__class__ is not str:
                    self._emit_chunks(content, deltas)
                elif self._open == "text":  # the frequent case
                    deltas.append(TextDelta(content))
                else:
                    self._emit_text(content, deltas)
            if delta.tool_calls or delta.function_call:
                self._call(delta, deltas)
            if delta.refusal or delta.annotations or delta.images:
                self._emit_other_content(delta, deltas)
        if choice.usage and isinstance(choice.usage, dict):
            self._usage = choice.usage
        if choice.finish_reason:
            self._end_for(choice.finish_reason, choice.error, deltas)

    def _emit_text(self, text: str, deltas: list[Delta]) -> None:
        deltas_of_text = [TextDelta(text)] if self._tags is None else self._tags.feed(text)
        self._emit(deltas_of_text, deltas)

    def _emit(self, new: Sequence[TextDelta | ReasoningDelta], deltas: list[Delta]) -> None:
        """Emit text or reasoning. The first text after reasoning ends it."""
        for delta in new:
            if isinstance(delta, ReasoningDelta):
                self._open = "thought"
            elif self._open != "text":
                self._emit_details(deltas)
                self._open = "text"
            deltas.append(delta)

    def _emit_chunks(self, chunks: Any, deltas: list[Delta]) -> None:
        for chunk in chunks if isinstance(chunks, list) else ():
            if not isinstance(chunk, dict):
                continue
            if chunk.get("type") == "thinking":
                thoughts = [ReasoningDelta(text) for text in _texts(chunk.get("thinking"))]
                self._emit(thoughts, deltas)
            else:
                for text in _texts(chunk):
                    self._emit_text(text, deltas)

    def _emit_other_content(self, delta: _Delta, deltas: list[Delta]) -> None:
        """Emit a refusal, sources and images.

        A refusal is text, and makes the answer count as filtered.
        """
        if _is_text(delta.refusal):
            self._refused = True
            self._emit_text(delta.refusal, deltas)
        for note in delta.annotations if isinstance(delta.annotations, list) else ():
            if isinstance(note, dict) and note.get("type") == "url_citation":
                self._cite(note.get("url_citation") or note)
        for image in delta.images if isinstance(delta.images, list) else ():
            if (file := _image(image)) is not None:
                self._open = None
                deltas.append(PartAdded(file))

    def _emit_reasoning(self, delta: _Delta, deltas: list[Delta]) -> None:
        """Emit reasoning. Some endpoints send the same text in two fields."""
        details = delta.reasoning_details
        details = details if isinstance(details, list) else []
        text = delta.reasoning_content or delta.reasoning
        if not _is_text(text):
            text = "".join(map(reasoning_details.detail_text, details))
        if text:
            self._emit([ReasoningDelta(text)], deltas)
        if self._keeps_details:
            for detail in details:
                reasoning_details.add_detail(self._details, detail)

    def _emit_details(self, deltas: list[Delta]) -> None:
        """End the open reasoning part with its details.

        Details that arrive later, with the text or after it, become a reasoning part without text.
        """
        if not self._details:
            return
        if self._open == "text":
            deltas.append(PartEnded())  # otherwise they would belong to the text
        deltas.append(PartEnded(metadata={self._provider: {"reasoning_details": self._details}}))
        self._open = None
        self._details = []

    def _call(self, delta: _Delta, deltas: list[Delta]) -> None:
        self._emit_details(deltas)
        self._open = None
        pieces = delta.tool_calls or [CallPiece(function=delta.function_call)]
        self._calls.take(pieces, deltas)

    # --- How it ends ---

    def _end_for(self, reason: str, error: Any, deltas: list[Delta]) -> None:
        kind = FAILED_FINISHES.get(reason)
        if kind is not None:
            if error:
                raise stream_error({"error": error}, ERROR_CODES)
            raise ProviderError(f"the answer was aborted: {reason}", kind=kind)
        self._finish = FINISH_REASONS.get(reason, "stop")
        self._close(deltas)

    def _close(self, deltas: list[Delta]) -> None:
        """Emit the rest of text, reasoning and calls."""
        if self._tags is not None:
            self._emit(self._tags.end(), deltas)
        self._emit_details(deltas)
        self._calls.end(deltas, cut=self._finish in ("length", "content_filter"))

    def _finish_answer(self, deltas: list[Delta]) -> None:
        """Finish the answer at the end of the stream, if it has a finish reason."""
        if self._ended or self._finish is None:
            return
        self._ended = True
        self._close(deltas)  # some servers send more after the finish reason
        deltas += [PartAdded(Source(url, title)) for url, title in self._sources.items()]
        finish = self._finish
        if self._refused:
            finish = "content_filter"
        elif finish == "stop" and self._calls:
            finish = "tool_calls"
        metadata = {self._provider: self._answer_facts} if self._answer_facts else None
        deltas.append(Finished(finish, self.spent(), metadata))

    # --- Other fields of a chunk ----

    def _check_head(self, chunk: _Chunk, event: bytes) -> None:
        """Check whether a chunk is an error, and read the answer's id and model."""
        head = _decode_head(event)
        if chunk.error or head.object == "error":
            raise stream_error(msgspec.json.decode(event), ERROR_CODES)
        if chunk.choices and self._answer_facts is None:  # earlier chunks may have no id
            facts = {"id": head.id, "model": head.model}
            self._answer_facts = {name: value for name, value in facts.items() if _is_text(value)}

    def _read_extras(self, chunk: _Chunk) -> None:
        groq = chunk.x_groq if isinstance(chunk.x_groq, dict) else {}
        if groq.get("error"):
            raise stream_error(groq, ERROR_CODES)
        usage = chunk.usage or groq.get("usage")
        if isinstance(usage, dict):
            self._usage = usage
        for sources in (chunk.search_results, chunk.citations):
            for source in sources if isinstance(sources, list) else ():
                self._cite(source)

    def _cite(self, source: Any) -> None:
        """Add a source once.

        Some endpoints repeat all of them in every chunk, and some send only URLs.
        """
        if isinstance(source, str):
            source = {"url": source}
        url = source.get("url") if isinstance(source, dict) else None
        if isinstance(url, str) and url:
            title = source.get("title")
            known_title = self._sources.get(url)
            self._sources[url] = known_title or (title if isinstance(title, str) else None)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _image(image: Any) -> File | None:
    """An image that a model created, in OpenRouter's form."""
    inner = image.get("image_url") if isinstance(image, dict) else None
    url = inner.get("url") if isinstance(inner, dict) else None
    if not isinstance(url, str):
        return None
    head, _, data = url.partition(",")
    if not head.startswith("data:"):
        return File("image/png", ref=url)
    media_type = head.removeprefix("data:").partition(";")[0]
    try:
        return File(media_type, data=b64decode(data))
    except ValueError:
        return None


# --- Reasoning ----------------------------------------------------------------------------------


def _texts(chunk: Any) -> Iterator[str]:
    """The texts in a chunk of content, or in a list of chunks."""
    for inner in chunk if isinstance(chunk, list) else (chunk,):
        text = inner.get("text") if isinstance(inner, dict) else inner
        if isinstance(text, str) and text:
            yield text
