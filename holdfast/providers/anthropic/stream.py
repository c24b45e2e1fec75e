"""Answers of the Anthropic Messages API: events in, deltas out. Pure.

An answer is a list of blocks, each of which starts, arrives in pieces and stops. What has to come
back with the next request exactly as it was goes into metadata, under the provider's name:

- `block`: a whole block that means something to the provider alone (redacted thinking, the results
  of tools that it ran, and whatever we do not know);
- `type` and `extra`: what a call has beside its id, name and input;
- `citations`: of a text;
- `index`: the place of a block in its answer. Only behind the first call that the provider ran,
  since from there on the kernel may put results next to their calls, and these may be nested.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from holdfast.kernel.messages import Finish, Reasoning, Source, Text, ToolResult, Usage
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
from holdfast.providers.failure import Codes, reported
from holdfast.providers.profile import Price

CODES: Final[Codes] = {
    "conflict_error": "server",
    "enforced_spend_limit_reached": "quota",
    "organization_on_hold": "permission",
    "ramp_limit_exceeded": "rate_limit",
    "request_body_too_large_after_decoding": "context_overflow",
}
"""Beside those that several providers share."""

FINISHES: Final[Mapping[str, Finish]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
    "pause_turn": "length",
    "compaction": "length",
}
PAUSES: Final = frozenset({"pause_turn", "compaction"})
"""The provider has more to do and wants to be asked on. Whoever cannot ask takes the answer for one
that was cut by its length: it is not complete either."""
SPOKEN: Final = frozenset({"text", "thinking"})
"""Blocks of which there is one at a time."""

# --- Events, with the fields that are read ------------------------------------------------------


class _Usage(Struct, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens_details: dict[str, Any] | None = None


class _Message(Struct):
    id: str | None = None
    usage: _Usage | None = None


class _Delta(Struct):
    type: str = ""
    text: str = ""
    partial_json: str = ""
    thinking: str = ""
    signature: str = ""
    citation: dict[str, Any] | None = None
    stop_reason: str | None = None
    stop_sequence: str | None = None
    stop_details: dict[str, Any] | None = None
    container: dict[str, Any] | None = None


class _Event(Struct):
    type: str = ""
    index: int = 0
    delta: _Delta | None = None
    content_block: dict[str, Any] | None = None
    message: _Message | None = None
    usage: _Usage | None = None
    error: Any = None


_decode: Final = msgspec.json.Decoder(_Event).decode


class _Block:
    """A block that has started."""

    __slots__ = ("citations", "index", "kind", "pieces", "raw")

    def __init__(self, index: int, raw: dict[str, Any]) -> None:
        self.index = index
        self.raw = raw
        self.kind = str(raw.get("type"))
        self.pieces: list[str] = []
        """Of the arguments of a call."""
        self.citations: list[dict[str, Any]] = list(raw.get("citations") or ())

    @property
    def id(self) -> str:
        return str(self.raw.get("id") or "")

    @property
    def is_call(self) -> bool:
        return self.kind == "tool_use" or self.runs_there

    @property
    def runs_there(self) -> bool:
        return self.kind.endswith("_tool_use")


class Decoder:
    """The state of one answer, also of one that the provider makes in several goes."""

    def __init__(
        self, provider: str, price: Price | None = None, *, resumable: bool = False
    ) -> None:
        self.resumable = resumable
        """Whether somebody asks on after a pause. Then a pause is no end."""
        self.paused = False
        self.container: str | None = None
        """Where the provider runs code for this answer."""
        self.deltas: list[Delta] = []
        self._provider = provider
        self._price = price
        self._blocks: dict[int, _Block] = {}
        self._unfinished: list[_Block] = []
        """Calls that have stopped and whose arguments are not whole: cut, or empty on purpose."""
        self._before = 0
        """Blocks of earlier goes."""
        self._seen = 0
        """Blocks of this go."""
        self._spoken = False
        """Whether the text that is arriving is more than nothing yet."""
        self._ran_there = False
        self._cited: set[str] = set()
        self._usage = Usage()
        self._earlier: list[Usage] = []
        self._said: dict[str, Any] = {}
        """About the whole answer."""

    def feed(self, events: list[bytes]) -> list[Delta]:
        deltas = self.deltas = []
        append = deltas.append
        for data in events:
            try:
                event = _decode(data)
            except msgspec.DecodeError:
                if data.strip() == b"[DONE]":  # some gateways end every stream so
                    continue
                raise
            delta = event.delta
            if delta is None or event.type != "content_block_delta":
                deltas += self._rare(event)
            elif delta.type == "text_delta":
                if delta.text:
                    append(TextDelta(delta.text))
                    self._spoken = True
            elif delta.type == "thinking_delta":
                if delta.thinking:
                    append(ReasoningDelta(delta.thinking))
            elif delta.type == "input_json_delta":
                block = self._blocks.get(event.index)
                if block is not None and delta.partial_json:
                    block.pieces.append(delta.partial_json)
                    append(ArgumentsDelta(block.id, delta.partial_json))
            else:
                self._amend(event.index, delta, data)
        return deltas

    def end(self) -> list[Delta]:
        return []  # without `message_stop` nothing is complete

    def resume(self) -> None:
        """The answer goes on with another stream."""
        self.paused = False
        self._said.pop("stop_reason", None)
        self._before += self._seen
        self._seen = 0
        self._earlier.append(self._usage)
        self._usage = Usage()

    def _rare(self, event: _Event) -> Iterator[Delta]:
        """What does not come many times in an answer."""
        match event.type:
            case "content_block_start" if event.content_block is not None:
                yield from self._start(event.index, event.content_block)
            case "content_block_stop":
                block = self._blocks.pop(event.index, None)
                if block is not None:
                    yield from self._stop(block)
            case "message_start" if event.message is not None:
                if event.message.id:
                    self._said["id"] = event.message.id
                self._count(event.message.usage)
            case "message_delta" if event.delta is not None:
                self._note(event.delta)
                self._count(event.usage)
            case "message_stop":
                yield from self._finish()
            case "error":
                raise reported({"error": event.error}, CODES)
            case _:
                pass  # a ping, or an event that was invented later

    # --- blocks ---

    def _start(self, index: int, raw: dict[str, Any]) -> Iterator[Delta]:
        for open in [at for at, block in self._blocks.items() if block.kind in SPOKEN]:
            yield from self._stop(self._blocks.pop(open))  # nobody said so, but it has to have
        self._seen = max(self._seen, index + 1)
        block = self._blocks[index] = _Block(self._before + index, raw)
        self._spoken = False
        if block.is_call:
            self._ran_there = self._ran_there or block.runs_there
            yield CallStarted(block.id, str(raw.get("name") or ""), block.runs_there)
        elif block.kind == "text" and raw.get("text"):
            self._spoken = True
            yield TextDelta(raw["text"])
        elif block.kind == "thinking" and raw.get("thinking"):
            yield ReasoningDelta(raw["thinking"])

    def _amend(self, index: int, delta: _Delta, data: bytes) -> None:
        """A piece that is not shown: it belongs to its block."""
        block = self._blocks.get(index)
        if block is None:
            return
        if delta.type == "citations_delta" and delta.citation is not None:
            block.citations.append(delta.citation)
        elif delta.type == "signature_delta":
            block.raw["signature"] = delta.signature
        else:
            pieces = msgspec.json.decode(data)["delta"]
            block.raw.update({key: pieces[key] for key in pieces if key != "type"})

    def _stop(self, block: _Block) -> Iterator[Delta]:
        if block.kind == "text":
            if self._spoken:
                note = {"citations": block.citations} if block.citations else {}
                yield PartEnded(metadata=self._metadata(block, note))
            yield from self._sources(block.citations)
        elif block.kind == "thinking":
            signature = block.raw.get("signature") or None
            if signature is not None:
                yield PartEnded(signature, self._metadata(block))
            else:
                yield PartEnded()
        elif block.is_call:
            yield from self._stop_call(block)
        elif block.kind.endswith("_tool_result"):
            yield PartAdded(self._result(block))
        else:
            yield PartAdded(Reasoning("", metadata=self._metadata(block, {"block": block.raw})))

    def _stop_call(self, block: _Block) -> Iterator[Delta]:
        if not block.pieces and block.raw.get("input"):  # it came whole
            block.pieces.append(msgspec.json.encode(block.raw["input"]).decode())
            yield ArgumentsDelta(block.id, block.pieces[0])
        # A call that the length cut off stops like any other. Only the end of the answer tells.
        if _is_json("".join(block.pieces)):
            yield self._end_call(block)
        else:
            self._unfinished.append(block)

    def _end_call(self, block: _Block) -> CallEnded:
        note: dict[str, Any] = {"type": block.kind} if block.runs_there else {}
        known = ("type", "id", "name", "input")
        extra = {key: value for key, value in block.raw.items() if key not in known}
        if extra:
            note["extra"] = extra
        return CallEnded(block.id, self._metadata(block, note))

    def _result(self, block: _Block) -> ToolResult:
        raw = block.raw
        failed = bool(raw.get("is_error")) or "error_code" in _mapping(raw.get("content"))
        return ToolResult(
            str(raw.get("tool_use_id") or ""),
            block.kind.removesuffix("_tool_result"),
            (Text(in_words(raw.get("content"))),),
            "failed" if failed else "ok",
            provider_executed=True,
            metadata=self._metadata(block, {"block": raw}),
        )

    def _sources(self, citations: list[dict[str, Any]]) -> Iterator[Delta]:
        """What a text refers to, each address once."""
        for citation in citations:
            url = citation.get("url") or citation.get("source")
            if isinstance(url, str) and "://" in url and url not in self._cited:
                self._cited.add(url)
                yield PartAdded(Source(url, citation.get("title")))

    def _metadata(self, block: _Block, note: dict[str, Any] | None = None) -> dict[str, Any] | None:
        note = note or {}
        if self._ran_there:
            note["index"] = block.index
        return {self._provider: note} if note else None

    # --- the whole answer ---

    def _note(self, delta: _Delta) -> None:
        for key in ("stop_reason", "stop_sequence", "stop_details", "container"):
            value = getattr(delta, key)
            if value is not None:
                self._said[key] = value
        if delta.container is not None:
            self.container = delta.container.get("id")

    def _count(self, usage: _Usage | None) -> None:
        """Counts only grow. Some gateways say the input with the end alone, or zero with it."""
        if usage is None:
            return
        details = usage.output_tokens_details or {}
        so_far = self._usage
        self._usage = Usage(
            max(so_far.input, usage.input_tokens or 0),
            max(so_far.output, usage.output_tokens or 0),
            max(so_far.reasoning, details.get("thinking_tokens") or 0),
            max(so_far.cache_read, usage.cache_read_input_tokens or 0),
            max(so_far.cache_write, usage.cache_creation_input_tokens or 0),
        )

    def _finish(self) -> Iterator[Delta]:
        for block in self._blocks.values():
            yield from self._stop(block)
        self._blocks = {}
        reason = str(self._said.get("stop_reason"))
        finish = FINISHES.get(reason, "stop")
        if finish != "length" or reason in PAUSES:
            for block in self._unfinished:
                yield self._end_call(block)
        self._unfinished = []
        if self.resumable and reason in PAUSES:
            self.paused = True
        else:
            yield Finished(finish, self._total(), {self._provider: self._said})

    def _total(self) -> Usage | None:
        """What the last go reports is what fills the window. What it all cost is the sum."""
        goes = [*self._earlier, self._usage]
        if self._earlier:
            self._said["earlier_usage"] = [msgspec.to_builtins(usage) for usage in self._earlier]
        if self._usage == Usage():
            return None
        if self._price is None:
            return self._usage
        return msgspec.structs.replace(self._usage, cost=sum(map(self._price.of, goes)))


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return False
    return True


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


# --- Results in words ---------------------------------------------------------------------------


def in_words(content: Any) -> str:
    """What a tool of the provider found, for people and for other providers."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(filter(None, map(in_words, content)))
    if not isinstance(content, dict):
        return ""
    if "error_code" in content:
        return f"failed: {content['error_code']}"
    if "stdout" in content:
        return "\n".join(filter(None, (content["stdout"], content.get("stderr"))))
    source = _mapping(content.get("source"))
    if source:  # a document; of one that is no text only its title can be told
        text = source.get("data") if source.get("type") == "text" else content.get("title")
        return str(text or "")
    if "url" in content:
        named = ": ".join(filter(None, (content.get("title"), content["url"])))
        return "\n".join(filter(None, (named, in_words(content.get("content")))))
    return in_words(content.get("text") or content.get("content"))
