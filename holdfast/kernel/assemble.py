"""Assembly of a streamed answer: deltas in, a complete or partial message out. Pure."""

from __future__ import annotations

from collections.abc import Container
from math import inf
from typing import Final, Literal, get_args

from msgspec.structs import astuple, replace

from holdfast.kernel.events import Event, ToolCalled, ToolFinished, Warned
from holdfast.kernel.messages import (
    FinishReason,
    Message,
    Metadata,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    encode,
)
from holdfast.kernel.model import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    Delta,
    Finished,
    Notice,
    Opened,
    PartAdded,
    PartEnded,
    Ping,
    ReasoningDelta,
    TextDelta,
)
from holdfast.kernel.ports import Ports
from holdfast.kernel.schema import complaint

FINISH_REASONS: Final = get_args(FinishReason)
HALF_WRITTEN: Final = "Not run: the call was still being written when the answer ended."
MOST_TOKENS: Final = 2**53
"""Maximum token count, small enough that sums of many fit into a database integer."""


class _OpenCall:
    """A call whose arguments are still arriving. Keeps its position among the parts."""

    __slots__ = ("given_id", "id", "pieces", "provider_executed", "tool")

    def __init__(self, given_id: str, id: str, started: CallStarted) -> None:
        self.given_id = given_id
        self.id = id
        self.tool = started.tool
        self.provider_executed = started.provider_executed
        self.pieces: list[str] = []


class Assembly:
    """An answer in progress. `feed` it every delta; get `message` once it is finished."""

    def __init__(self, model: str, ports: Ports, taken: Container[str] = ()) -> None:
        self.model = model
        self.finish: FinishReason | None = None
        """Why the model stopped; None until it did."""
        self.usage: Usage | None = None
        """Usage so far; for a cut answer, what had been reported until then."""
        self.window: int | None = None
        self.metadata: Metadata | None = None
        self.size = 0
        """Number of bytes received."""
        self._ports = ports
        self._taken = taken
        self._parts: list[Part | _OpenCall] = []
        self._open: Literal["text", "reasoning"] | None = None
        self._pieces: list[str] = []
        self._reasoning_started: int | None = None
        self._calls: dict[str, _OpenCall] = {}
        """Open calls by the provider's id."""
        self.ids: set[str] = set()
        """Ids of all calls, as they are committed."""
        self._known_as: dict[str, str] = {}
        """Committed id of a call by the provider's id."""
        self._dropped_call = False
        self.unannounced: list[ToolCall] = []
        """Calls whose end the provider did not mark, and that `feed` therefore did not return."""

    def feed(self, delta: Delta) -> Event | None:
        """Process one delta. Returns the event to show to people, if any."""
        kind = type(delta)
        if kind is TextDelta:
            return self._piece("text", delta)  # type: ignore[arg-type]
        if kind is ReasoningDelta:
            return self._piece("reasoning", delta)  # type: ignore[arg-type]
        if self.finish is not None:
            return None
        if kind is ArgumentsDelta:
            return self._arguments(delta)  # type: ignore[arg-type]
        if kind is CallStarted:
            return self._start_call(delta)  # type: ignore[arg-type]
        return self._feed_rare(delta)

    def _feed_rare(self, delta: Delta) -> Event | None:
        """Process a delta of a rare kind."""
        match delta:
            case CallEnded(call_id, metadata):
                call = self._calls.pop(call_id, None)
                return None if call is None else ToolCalled(self._end_call(call, metadata))
            case Finished():
                self._finish(delta)
            case PartEnded(signature, metadata):
                self._close(signature, metadata)
            case PartAdded(part):
                self._close()
                self.size += len(encode(part))
                return self._add(part)
            case Opened(model):
                self.model, self.usage = model, None  # what was counted is not of this one
            case Notice(text):
                return Warned(text)
            case Ping(usage):
                if usage is not None:
                    self.usage = _possible(usage)
            case _:
                raise TypeError(f"the model yielded a {type(delta).__name__}, which is not a Delta")
        return None

    @property
    def empty(self) -> bool:
        """Whether there is neither text nor a call. Reasoning alone is empty; a cut call is not."""
        for part in self._parts:
            if self._visible(part):
                return False
        if self._open == "text" and "".join(self._pieces).strip():
            return False
        return not self._dropped_call

    def message(self, seconds: float | None = None) -> Message:
        """The complete answer, with its duration if known. Call only once it is finished."""
        assert self.finish is not None
        finish: FinishReason = self.finish
        parts: list[Part] = []
        for part in self._parts:
            if isinstance(part, _OpenCall):
                continue
            parts.append(part)
            if type(part) is ToolCall and not part.provider_executed and finish != "length":
                finish = "tool_calls"  # whatever the provider calls it: that there are calls counts
        return Message(
            "assistant",
            tuple(parts),
            "answer",
            finish=finish,
            usage=self.usage,
            model=self.model,
            runtime=None if seconds is None else round(seconds * 1_000),
            metadata=self.metadata,
        )

    def partial(self, finish: Literal["interrupted", "error"]) -> Message | None:
        """The answer so far as a valid message, or None if there is nothing to show.

        Text, reasoning and complete calls are kept. Calls that were still being written are for
        people only: see `half_written`.
        """
        self._close()
        parts = tuple(part for part in self._parts if not isinstance(part, _OpenCall))
        if not any(self._visible(part) or isinstance(part, Reasoning) for part in parts):
            return None
        return Message(
            "assistant",
            parts,
            "answer",
            finish=finish,
            usage=self.usage,
            model=self.model,
            metadata=self.metadata,
        )

    def half_written(self, finish: Literal["interrupted", "error"]) -> Message | None:
        """A message for people only with the calls that were still being written, each with a
        result that it was not run."""
        parts: list[Part] = []
        for part in self._parts:
            if isinstance(part, _OpenCall):
                parts += self._half(part)
        if not parts:
            return None
        return Message("assistant", tuple(parts), "answer", "user", finish, model=self.model)

    def failed(self) -> Message | None:
        """The content of a failed answer, for people only: `partial` and `half_written`."""
        partial, half = self.partial("error"), self.half_written("error")
        if partial is None:
            return half if half is None else replace(half, usage=self.usage)
        parts = partial.parts if half is None else partial.parts + half.parts
        return replace(partial, parts=parts, visibility="user")

    def so_far(self) -> Message | None:
        """Like `partial`, while the answer continues: leaves open parts open."""
        parts = [part for part in self._parts if not isinstance(part, _OpenCall)]
        text = "".join(self._pieces)
        if self._open == "text" and text:
            parts.append(Text(text))
        elif self._open == "reasoning" and text:
            parts.append(Reasoning(text, None, self._reasoning_started, self._ports.now()))
        if not any(self._visible(part) or isinstance(part, Reasoning) for part in parts):
            return None
        return Message("assistant", tuple(parts), "answer", finish="interrupted", model=self.model)

    # --- pieces ---

    def _piece(self, kind: Literal["text", "reasoning"], delta: TextDelta) -> Event | None:
        if self.finish is not None:
            return None
        if not delta.text and self._open is not None:
            return None  # ends nothing: a signature for what is open may follow
        if self._open != kind:
            self._close()
            self._open = kind
            if kind == "reasoning":
                self._reasoning_started = self._ports.now()
        text = delta.text
        self._pieces.append(text)
        self.size += len(text) if text.isascii() else _bytes(text)
        return delta

    def _close(self, signature: str | None = None, metadata: Metadata | None = None) -> None:
        """End the open text or reasoning. Reasoning without text is kept if it has data to send
        back."""
        open, self._open = self._open, None
        text, self._pieces = "".join(self._pieces), []
        if metadata is not None:
            self.size += len(encode(metadata))
        if signature is not None:
            self.size += len(signature)
        if open == "reasoning" or (not text and (signature or metadata)):
            started = self._reasoning_started or self._ports.now()
            self._reasoning_started = None
            if text or signature or metadata:
                part = Reasoning(text, signature, started, self._ports.now(), metadata)
                self._parts.append(part)
        elif open == "text" and text:
            self._parts.append(Text(text, metadata))

    def _add(self, part: Part) -> Event | None:
        """Add a complete part. It is shown like one that arrived in pieces."""
        event: Event | None = None
        match part:
            case Text(text=text):
                if not text:
                    return None
                event = TextDelta(text)
            case Reasoning(text=text) if text:
                event = ReasoningDelta(text)
            case ToolCall(id=id, arguments=arguments):
                at = part.called_at or self._ports.now()
                problem = complaint(arguments)
                part = replace(part, id=self._claim(id), complaint=problem, called_at=at)
                event = ToolCalled(part)
            case ToolResult(call_id=given):
                part = replace(part, call_id=self._known_as.get(given, given))
                event = ToolFinished(part, 0.0)  # it ran elsewhere: its duration is unknown
            case _:
                pass
        self._parts.append(part)
        return event

    # --- calls ---

    def _start_call(self, delta: CallStarted) -> Event:
        if self._open is not None:
            self._close()
        given = delta.call_id
        call = _OpenCall(given, self._claim(given), delta)
        earlier = self._calls.pop(given, None)
        if earlier is not None:  # the provider repeats an id: the first call must be complete
            self.unannounced.append(self._end_call(earlier, None))
        self._calls[given] = call
        self._parts.append(call)
        return delta if call.id == given else replace(delta, call_id=call.id)

    def _claim(self, given: str) -> str:
        """The id that a call is committed under: the provider's, unless it is empty or taken."""
        id = given
        while not id or id in self.ids or id in self._taken:
            id = self._ports.new_id()
        self.ids.add(id)
        self._known_as[given] = id
        return id

    def _arguments(self, delta: ArgumentsDelta) -> Event | None:
        call = self._calls.get(delta.call_id)
        if call is None:
            return None
        call.pieces.append(delta.text)
        self.size += _bytes(delta.text)
        return delta if call.id == delta.call_id else ArgumentsDelta(call.id, delta.text)

    def _end_call(self, call: _OpenCall, metadata: Metadata | None) -> ToolCall:
        arguments = "".join(call.pieces)
        done = ToolCall(
            call.id,
            call.tool,
            arguments,
            complaint(arguments),
            self._ports.now(),
            call.provider_executed,
            metadata,
        )
        self._parts[self._parts.index(call)] = done
        return done

    def _half(self, call: _OpenCall) -> tuple[ToolCall, ToolResult]:
        id, tool, executed = call.id, call.tool, call.provider_executed
        arguments, content = "".join(call.pieces), (Text(HALF_WRITTEN),)
        problem, now = complaint(arguments), self._ports.now()
        return (
            ToolCall(id, tool, arguments, problem, now, executed),
            ToolResult(id, tool, content, "interrupted", provider_executed=executed),
        )

    def _finish(self, delta: Finished) -> None:
        if self._open is not None:
            self._close()
        if delta.finish not in FINISH_REASONS:
            raise TypeError(
                f"the model finished with {delta.finish!r}: use one of {FINISH_REASONS}"
            )
        self.finish = delta.finish
        if delta.usage is not None:
            self.usage = _possible(delta.usage)
        self.metadata = delta.metadata
        self.window = delta.window
        # Where a provider does not mark the end of a call, finishing ends it, unless it was cut.
        if delta.finish in ("stop", "tool_calls"):
            self.unannounced += [self._end_call(call, None) for call in self._calls.values()]
        self._dropped_call = bool(self._calls) and delta.finish == "length"
        self._calls = {}

    def _visible(self, part: Part | _OpenCall) -> bool:
        if isinstance(part, Text):
            return bool(part.text.strip())
        return not isinstance(part, (Reasoning, _OpenCall, ToolResult))


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _possible(usage: Usage) -> Usage:
    """Reported usage clamped to possible values, so that bad numbers do not lose the answer."""
    *counts, cost = astuple(usage)
    priced = cost is None or 0 <= cost < inf
    if priced and all(0 <= count <= MOST_TOKENS for count in counts):
        return usage
    possible = Usage(*(min(max(0, count), MOST_TOKENS) for count in counts))
    return replace(possible, cost=cost if priced else None)
