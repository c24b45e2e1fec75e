"""Decodes the events of a pydantic-ai stream into deltas. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import msgspec
from pydantic_ai.messages import (
    Citation,
    FilePart,
    ModelResponse,
    ModelResponsePart,
    ModelResponsePartDelta,
    ModelResponseStreamEvent,
    NativeToolCallPart,
    NativeToolReturnPart,
    PartDeltaEvent,
    PartEndEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
    WebCitationSource,
)
from pydantic_ai.messages import (
    FinishReason as PydanticFinishReason,
)
from pydantic_ai.models import StreamedResponse
from pydantic_ai.usage import RequestUsage

from holdfast.kernel.errors import ProviderError
from holdfast.kernel.messages import (
    File,
    FinishReason,
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
    ReasoningDelta,
    TextDelta,
)
from holdfast.providers.pydantic_ai.parts import answer_metadata, arguments_of, kept_metadata

FINISH_REASONS: Final[dict[PydanticFinishReason, FinishReason]] = {
    "stop": "stop",
    "length": "length",
    "content_filter": "content_filter",
    "tool_call": "tool_calls",
}


class _Call:
    """A call whose pieces are arriving.

    `CallStarted` is emitted with its first arguments, since the name may arrive in pieces.
    """

    __slots__ = ("id", "metadata", "pieces", "started", "tool", "whole")

    def __init__(self, part: ToolCallPart) -> None:
        self.id = part.tool_call_id
        self.tool = part.tool_name
        self.pieces: list[str] = []
        self.started = False
        self.whole: str | None = None
        """Arguments that did not arrive as text."""
        self.metadata: Metadata | None = None

    def begin(self) -> list[Delta]:
        if self.started:
            return []
        self.started = True
        return [CallStarted(self.id, self.tool)]

    def write(self, args: str | Mapping[str, object] | None) -> list[Delta]:
        if args and not isinstance(args, str):
            self.whole = arguments_of(args)
        if not args or not isinstance(args, str):
            return []
        self.pieces.append(args)
        return [*self.begin(), ArgumentsDelta(self.id, args)]

    @property
    def complete(self) -> bool:
        """Whether the arguments are a complete JSON object, which nothing can follow."""
        try:
            return isinstance(msgspec.json.decode(self.whole or "".join(self.pieces)), dict)
        except (msgspec.DecodeError, UnicodeEncodeError):
            return False

    def end(self) -> list[Delta]:
        rest = [ArgumentsDelta(self.id, self.whole)] if self.whole and not self.pieces else []
        return [*self.begin(), *rest, CallEnded(self.id, self.metadata)]


class PydanticDecoder:
    """Decodes one answer.

    pydantic-ai reports the end of a part when the next one starts, and may still replace the part
    by another start with its index. So the end is passed on one event later.
    """

    def __init__(self) -> None:
        self._calls: dict[int, _Call] = {}
        """Open calls, by the index of their part."""
        self._ended: tuple[int, ModelResponsePart] | None = None
        self._settled: set[int] = set()
        """Indexes of the parts that were passed on completely."""
        self._open: int | None = None
        """Index of the part to which the last text or reasoning belongs."""

    def feed(self, event: ModelResponseStreamEvent) -> list[Delta]:
        if isinstance(event, PartDeltaEvent):
            if self._ended is None:
                return self._delta(event.index, event.delta)
            return [*self._settle(event.index), *self._delta(event.index, event.delta)]
        if isinstance(event, PartStartEvent):
            return [*self._settle(event.index), *self._start(event.index, event.part)]
        if isinstance(event, PartEndEvent):
            self._ended = (event.index, event.part)
        return []

    def finish(self, response: ModelResponse, last: RequestUsage | None = None) -> list[Delta]:
        """Deltas at the end of a complete answer.

        `last`: usage of its last request, if it paused.
        """
        deltas = self.settle()
        finish = FINISH_REASONS.get(response.finish_reason or "stop")
        if finish is None:
            raise ProviderError(f"the answer ended with {reason_of(response)}", kind="server")
        for call in self._calls.values():
            if finish in ("stop", "tool_calls") or call.complete:
                deltas += call.end()
        return [*deltas, Finished(finish, usage_of(response, last), answer_metadata(response))]

    def settle(self) -> list[Delta]:
        """Remaining deltas of the last part."""
        return self._settle(None)

    # --- parts ---

    def _delta(self, index: int, delta: ModelResponsePartDelta) -> list[Delta]:
        if isinstance(delta, TextPartDelta):
            return self._text(index, delta)
        if isinstance(delta, ThinkingPartDelta):
            self._open = index
            return [ReasoningDelta(delta.content_delta)] if delta.content_delta else []
        if isinstance(delta, ToolCallPartDelta):
            return self._piece(index, delta)
        return []

    def _text(self, index: int, delta: TextPartDelta) -> list[Delta]:
        deltas: list[Delta] = []
        if delta.content_delta:
            self._open = index
            deltas.append(TextDelta(delta.content_delta))
        if delta.citations_delta and index in self._settled:
            deltas += _sources(delta.citations_delta)
        return deltas

    def _piece(self, index: int, delta: ToolCallPartDelta) -> list[Delta]:
        call = self._calls.get(index)
        if call is None:
            return []  # a call that the provider runs is passed on whole
        if not call.started:
            call.tool += delta.tool_name_delta or ""
            call.id = delta.tool_call_id or call.id
        return call.write(delta.args_delta)

    def _start(self, index: int, part: ModelResponsePart) -> list[Delta]:
        if index in self._settled:
            return []
        if isinstance(part, TextPart):
            self._open = index
            return [TextDelta(part.content)] if part.content else []
        if isinstance(part, ThinkingPart):
            self._open = index
            return [ReasoningDelta(part.content)] if part.content else []
        if isinstance(part, ToolCallPart):
            call = self._calls.setdefault(index, _Call(part))
            return call.write(part.args) if not call.pieces else []
        self._ended = (index, part)
        return []

    def _settle(self, starting: int | None) -> list[Delta]:
        """Deltas of the part that has ended, unless it is about to be replaced."""
        if self._ended is None or self._ended[0] == starting:
            return []
        (index, part), self._ended = self._ended, None
        if index in self._settled:
            return []
        if isinstance(part, ToolCallPart):
            return self._end_call(index, part)
        self._settled.add(index)
        if isinstance(part, (TextPart, ThinkingPart)):
            return self._end_text(index, part)
        return [PartAdded(_whole(part))]

    def _end_text(self, index: int, part: TextPart | ThinkingPart) -> list[Delta]:
        open, self._open = self._open, None
        if open not in (index, None):
            return []  # another part was written since, and is the open one
        if isinstance(part, ThinkingPart):
            return [PartEnded(part.signature, kept_metadata(part))]
        if not part.content:  # with a signature, only the provider uses it
            return [PartAdded(_whole(part))] if part.provider_details else []
        return [PartEnded(None, kept_metadata(part)), *_sources(part.citations or [])]

    def _end_call(self, index: int, part: ToolCallPart) -> list[Delta]:
        """End a call. An incomplete one stays open: arguments of calls may arrive interleaved."""
        call = self._calls[index]
        call.metadata = kept_metadata(part)
        if not call.pieces and isinstance(part.args, dict):
            call.whole = arguments_of(part.args)
        if not call.complete:
            return call.begin()
        self._settled.add(index)
        del self._calls[index]
        return call.end()


def _whole(
    part: ModelResponsePart,
) -> ToolCall | ToolResult | File | Reasoning:
    """A part that is not streamed, with pydantic-ai's own fields in its metadata."""
    if isinstance(part, NativeToolCallPart):
        arguments = arguments_of(part.args)
        return ToolCall(
            part.tool_call_id,
            part.tool_name,
            arguments,
            provider_executed=True,
            metadata=kept_metadata(part),
        )
    if isinstance(part, NativeToolReturnPart):
        return ToolResult(
            part.tool_call_id,
            part.tool_name,
            (Text(part.model_response_str()),),
            "failed" if part.outcome == "failed" else "ok",
            provider_executed=True,
            metadata=kept_metadata(part),
        )
    if isinstance(part, FilePart):
        return File(part.content.media_type, data=part.content.data, metadata=kept_metadata(part))
    return Reasoning("", metadata=kept_metadata(part))


def _sources(citations: list[Citation]) -> list[Delta]:
    pages = {
        source.url: source
        for citation in citations
        for source in citation.sources
        if isinstance(source, WebCitationSource)
    }
    return [PartAdded(Source(page.url, page.title)) for page in pages.values()]


# --- The end ------------------------------------------------------------------------------------


def reason_of(response: ModelResponse) -> str | None:
    """Finish reason in the provider's own word, or else in pydantic-ai's."""
    reason = (response.provider_details or {}).get("finish_reason")
    return str(reason) if reason else response.finish_reason


def is_complete(stream: StreamedResponse, response: ModelResponse) -> bool:
    """Whether the provider finished the answer: a truncated stream has no finish reason.

    For some streams that end without a reason pydantic-ai assumes "stop", and records that it did.
    A model without an address runs in this process and never gives a reason; its stream cannot be
    lost.
    """
    if response.state != "complete":
        return False
    if getattr(stream, "_has_finish_reason", None) is False:
        return response.finish_reason == "content_filter"  # a refusal has its own field
    return reason_of(response) is not None or stream.provider_url is None


def joined(paused: ModelResponse | None, response: ModelResponse) -> ModelResponse:
    """The parts of an answer that paused, as one response."""
    if paused is None:
        return response
    return replace(
        response,
        parts=[*paused.parts, *response.parts],
        usage=paused.usage + response.usage,
        provider_details={**(paused.provider_details or {}), **(response.provider_details or {})},
    )


def usage_of(response: ModelResponse, last: RequestUsage | None = None) -> Usage | None:
    """Usage of the answer: the output of all requests, the input of the last, and the cost of all.

    Each request reads the same input again, and one answer fills the window once.
    """
    used = response.usage
    if used.unmeasured_requests or not used.has_values():
        return None
    read = used if last is None else last
    return Usage(
        max(0, read.input_tokens - read.cache_read_tokens - read.cache_write_tokens),
        used.output_tokens,
        used.output_reasoning_tokens,
        read.cache_read_tokens,
        read.cache_write_tokens,
        cost_of(response),
    )


def cost_of(response: ModelResponse) -> float | None:
    """Cost in US dollars; None without a known price."""
    if response.usage.cost is not None:
        return float(response.usage.cost)
    try:
        return float(response.cost().total_price)
    except (AssertionError, LookupError, ValueError):
        return None  # the price is unknown
