"""Decodes events of the Anthropic Messages API into deltas. Pure.

An answer is a list of blocks, each of which starts, arrives in pieces and stops. Data that the next
request must send back unchanged are kept in metadata, under the provider's name:

- `block`: a whole block that only the provider understands (redacted thinking, results of tools
  that it ran, unknown types);
- `type` and `extra`: fields of a call in addition to id, name and input;
- `citations`: citations of a text;
- `index`: position of a block in its answer. It is kept only after the first call that the provider
  ran, since from there on the kernel may move results next to their calls, and these may be nested.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from holdfast.kernel.errors import ProviderError
from holdfast.kernel.messages import (
    FinishReason,
    Metadata,
    Reasoning,
    Source,
    Text,
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
from holdfast.providers.anthropic.event_types import (
    AnthropicDelta,
    AnthropicEvent,
    delta_fields,
    read_event,
)
from holdfast.providers.anthropic.usage import UsageCounter
from holdfast.providers.failure import ErrorCodes, stream_error
from holdfast.providers.profile import Price
from holdfast.providers.request_body import encoded
from holdfast.providers.split_surrogates import SurrogateJoiner

ERROR_CODES: Final[ErrorCodes] = {
    "conflict_error": "server",
    "enforced_spend_limit_reached": "quota",
    "organization_on_hold": "permission",
    "ramp_limit_exceeded": "rate_limit",
    "request_body_too_large_after_decoding": "context_overflow",
}
"""Error codes of this API, in addition to those that several providers share."""

FINISH_REASONS: Final[Mapping[str, FinishReason]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
    "pause_turn": "length",
    "compaction": "length",
}
PAUSE_REASONS: Final = frozenset({"pause_turn", "compaction"})
"""Stop reasons of an answer that the provider wants to continue in another request.

Without a continuation the answer counts as truncated by length: it is incomplete too.
"""
SEQUENTIAL_BLOCKS: Final = frozenset({"text", "thinking"})
"""Types of blocks of which only one is open at a time."""

COMPLETE_FINISHES: Final = ("stop", "tool_calls")
"""Finish reasons of a complete answer."""


class _Block:
    """A block that has started and not stopped."""

    __slots__ = ("_index", "_provider", "citations", "id", "kind", "pieces", "raw")

    def __init__(self, provider: str, raw: dict[str, Any], index: int | None) -> None:
        """`index`: position in the answer, if it must be kept."""
        self._provider = provider
        self._index = index
        self.raw = raw
        self.kind = str(raw.get("type"))
        self.id = str(raw.get("id") or "")
        self.pieces: list[str] = []
        """Pieces of a call's arguments."""
        self.citations: list[dict[str, Any]] = list(raw.get("citations") or ())

    @property
    def is_call(self) -> bool:
        return self.kind == "tool_use" or self.runs_at_provider

    @property
    def runs_at_provider(self) -> bool:
        return _is_provider_call(self.raw)

    def metadata(self, **note: Any) -> Metadata | None:
        """Metadata that the provider needs back with this block."""
        if self._index is not None:
            note["index"] = self._index
        return {self._provider: note} if note else None

    def text_ended(self) -> PartEnded:
        note = {"citations": self.citations} if self.citations else {}
        return PartEnded(metadata=self.metadata(**note))

    def thought_ended(self) -> PartEnded:
        signature = self.raw.get("signature") or None
        return PartEnded() if signature is None else PartEnded(signature, self.metadata())

    def call_ended(self) -> CallEnded:
        note: dict[str, Any] = {"type": self.kind} if self.runs_at_provider else {}
        standard = ("type", "id", "name", "input")
        extra = {key: value for key, value in self.raw.items() if key not in standard}
        if extra:
            note["extra"] = extra
        return CallEnded(self.id, self.metadata(**note))

    def result(self) -> ToolResult:
        raw = self.raw
        failed = bool(raw.get("is_error")) or "error_code" in _mapping(raw.get("content"))
        return ToolResult(
            str(raw.get("tool_use_id") or ""),
            self.kind.removesuffix("_tool_result"),
            (Text(result_text(raw.get("content"))),),
            "failed" if failed else "ok",
            provider_executed=True,
            metadata=self.metadata(block=raw),
        )


class AnthropicDecoder:
    """Decodes one answer, also one that arrives in several streams because it pauses."""

    def __init__(
        self, provider: str, price: Price | None = None, *, resumable: bool = False
    ) -> None:
        self.resumable = resumable
        """Whether the caller resumes the answer after a pause. Then a pause does not finish it."""
        self.paused = False
        self.complete = False
        self.container: str | None = None
        """Id of the container in which the provider runs code for this answer."""
        self.deltas: list[Delta] = []
        self._provider = provider
        self._joiner = SurrogateJoiner()
        # Of the whole answer, over all streams:
        self._usage = UsageCounter(price)
        self._facts: dict[str, Any] = {}
        """Facts about the answer, for its metadata."""
        self._cited: set[str] = set()
        self._provider_ran_tool = False
        # Of the current stream:
        self._earlier_blocks = 0
        """Number of blocks in earlier streams."""
        self._block_count = 0
        """Number of blocks in this stream."""
        self._blocks: dict[int, _Block] = {}
        """The open blocks, by index."""
        self._unsettled_call: _Block | None = None
        """The call that stopped last, if its arguments are empty or not JSON.

        A call that was truncated by length stops like any other: only what follows shows it.
        """
        self._has_text = False
        """Whether the open text block has any text yet."""

    def feed(self, events: list[bytes]) -> list[Delta]:
        deltas = self.deltas = []
        append = deltas.append
        for data in events:
            try:
                event = read_event(data)
            except msgspec.DecodeError:
                if data.strip() == b"[DONE]":  # some gateways end every stream with it
                    continue
                data = self._joiner.joined(data)
                event = read_event(data)
            delta = event.delta
            if delta is None or event.type != "content_block_delta":
                deltas += self._other_event(event)
            elif delta.type == "text_delta":
                if delta.text:
                    append(TextDelta(delta.text))
                    self._has_text = True
            elif delta.type == "thinking_delta":
                if delta.thinking:
                    append(ReasoningDelta(delta.thinking))
            elif delta.type == "input_json_delta":
                block = self._blocks.get(event.index or 0)
                if block is not None and delta.partial_json:
                    block.pieces.append(delta.partial_json)
                    append(ArgumentsDelta(block.id, delta.partial_json))
            else:
                self._amend(event.index or 0, delta, data)
        return deltas

    def end(self) -> list[Delta]:
        return []  # without `message_stop` the answer is incomplete

    def spent(self) -> Usage | None:
        return self._usage.total()

    def resume(self) -> None:
        """Prepare for the next stream of the same answer."""
        self.paused = self.complete = False
        self._facts.pop("stop_reason", None)
        self._earlier_blocks += self._block_count
        self._block_count = 0
        self._usage.resume()

    def _other_event(self, event: AnthropicEvent) -> Iterator[Delta]:
        """Decode an event that occurs rarely in an answer."""
        match event.type:
            case "content_block_start" if event.content_block is not None:
                yield from self._start(event.index or 0, event.content_block)
            case "content_block_stop":
                block = self._blocks.pop(event.index or 0, None)
                if block is not None:
                    yield from self._stop(block)
            case "message_start" if event.message is not None:
                if event.message.id:
                    self._facts["id"] = event.message.id
                self._usage.count(event.message.usage)
                if (usage := self._usage.total()) is not None:
                    yield Ping(usage)  # an interrupted answer then has its input tokens
            case "message_delta":
                if event.delta is not None:
                    self._note(event.delta)
                self._usage.count(event.usage)
            case "message_stop":
                yield from self._finish()
            case "error":
                raise stream_error({"error": event.error}, ERROR_CODES)
            case None if event.error:  # the form in which gateways report errors in any protocol
                raise stream_error({"error": event.error}, ERROR_CODES)
            case _:
                pass  # a ping, or a newer type of event

    # --- blocks ---

    def _start(self, index: int, raw: dict[str, Any]) -> Iterator[Delta]:
        yield from self._settle()
        for open in [at for at, block in self._blocks.items() if block.kind in SEQUENTIAL_BLOCKS]:
            yield from self._stop(self._blocks.pop(open))  # its stop event is missing
        self._block_count = max(self._block_count, index + 1)
        self._has_text = False
        self._provider_ran_tool = self._provider_ran_tool or _is_provider_call(raw)
        position = self._earlier_blocks + index if self._provider_ran_tool else None
        block = self._blocks[index] = _Block(self._provider, raw, position)
        if block.is_call:
            yield CallStarted(block.id, str(raw.get("name") or ""), block.runs_at_provider)
        elif block.kind == "text" and raw.get("text"):
            self._has_text = True
            yield TextDelta(raw["text"])
        elif block.kind == "thinking" and raw.get("thinking"):
            yield ReasoningDelta(raw["thinking"])

    def _amend(self, index: int, delta: AnthropicDelta, data: bytes) -> None:
        """Apply a piece that is not a delta of ours to its block."""
        block = self._blocks.get(index)
        if block is None:
            return
        if delta.type == "citations_delta" and delta.citation is not None:
            block.citations.append(delta.citation)
        elif delta.type == "signature_delta":
            block.raw["signature"] = delta.signature
        else:
            pieces = delta_fields(data)
            block.raw.update({key: pieces[key] for key in pieces if key != "type"})

    def _stop(self, block: _Block) -> Iterator[Delta]:
        yield from self._settle()
        if block.kind == "text":
            if self._has_text:
                yield block.text_ended()
            yield from self._sources(block.citations)
        elif block.kind == "thinking":
            yield block.thought_ended()
        elif block.is_call:
            yield from self._stop_call(block)
        elif block.kind.endswith("_tool_result"):
            yield PartAdded(block.result())
        else:
            yield PartAdded(Reasoning("", metadata=block.metadata(block=block.raw)))

    def _stop_call(self, block: _Block) -> Iterator[Delta]:
        if not block.pieces and block.raw.get("input"):  # the arguments came in one piece
            block.pieces.append(encoded(block.raw["input"]).decode())
            yield ArgumentsDelta(block.id, block.pieces[0])
        if _is_json("".join(block.pieces)):
            yield block.call_ended()
        else:
            self._unsettled_call = block

    def _settle(self) -> Iterator[Delta]:
        """End the call in doubt: more content followed, so it was not truncated."""
        block, self._unsettled_call = self._unsettled_call, None
        if block is not None:
            yield block.call_ended()

    def _sources(self, citations: list[dict[str, Any]]) -> Iterator[Delta]:
        """Sources of a text, each URL once."""
        for citation in citations:
            url = citation.get("url") or citation.get("source")
            if isinstance(url, str) and "://" in url and url not in self._cited:
                self._cited.add(url)
                yield PartAdded(Source(url, citation.get("title")))

    # --- the whole answer ---

    def _note(self, delta: AnthropicDelta) -> None:
        for key in ("stop_reason", "stop_sequence", "stop_details", "container"):
            value = getattr(delta, key)
            if value is not None:
                self._facts[key] = value
        if delta.container is not None:
            self.container = delta.container.get("id")

    def _finish(self) -> Iterator[Delta]:
        for block in self._blocks.values():
            yield from self._stop(block)
        self._blocks = {}
        reason = self._facts.get("stop_reason")
        if reason is None:  # a proxy also closes a truncated stream
            raise ProviderError("the answer ended without a stop reason", kind="stream_cut")
        finish = FINISH_REASONS.get(reason, "stop")
        if finish in COMPLETE_FINISHES or reason in PAUSE_REASONS:
            yield from self._settle()
        self._unsettled_call = None
        self.complete = True
        if self.resumable and reason in PAUSE_REASONS:
            self.paused = True
            return
        if self._usage.earlier:
            self._facts["earlier_usage"] = list(map(msgspec.to_builtins, self._usage.earlier))
        yield Finished(finish, self._usage.total(), {self._provider: self._facts})


def _is_provider_call(raw: Mapping[str, Any]) -> bool:
    return str(raw.get("type")).endswith("_tool_use")


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return False
    return True


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


# --- Results in words ---------------------------------------------------------------------------


def result_text(content: Any) -> str:
    """Result of a provider's tool as text, for people and for other providers."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(filter(None, map(result_text, content)))
    if not isinstance(content, dict):
        return ""
    if "error_code" in content:
        return f"failed: {content['error_code']}"
    if "stdout" in content:
        return "\n".join(filter(None, (content["stdout"], content.get("stderr"))))
    source = _mapping(content.get("source"))
    if source:  # a document; of one that is not text, only the title
        text = source.get("data") if source.get("type") == "text" else content.get("title")
        return str(text or "")
    if "url" in content:
        heading = ": ".join(filter(None, (content.get("title"), content["url"])))
        return "\n".join(filter(None, (heading, result_text(content.get("content")))))
    return result_text(content.get("text") or content.get("content"))
