"""What of the history is sent to a model, how large it is, and where it may be cut. All of it pure.

The history itself is never changed: `Projection` is a running fold that keeps the messages of the
next request, in the sequence that every provider accepts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel.messages import (
    Checkpoint,
    Content,
    File,
    Message,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    results_message,
)

# --- Size ---------------------------------------------------------------------------------------

FILE_TOKENS: Final = 1_200
PART_TOKENS: Final = 4
"""What a part costs beside its text: ids, names, brackets."""


def estimate_text(text: str) -> int:
    """Tokens of a text, roughly: a quarter of its bytes, more for scripts without an alphabet."""
    if text.isascii():
        return (len(text) + 3) // 4
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > 2 * len(text):
        return len(text) * 3 // 2
    return (size + 3) // 4


def estimate(message: Message) -> int:
    total = 0
    for part in message.parts:
        total += _estimate_part(part)
    return total or 1


def estimate_all(messages: Sequence[Message]) -> int:
    return sum(map(estimate, messages))


def _estimate_part(part: Part) -> int:
    if isinstance(part, ToolCall):
        return estimate_text(part.arguments) + estimate_text(part.tool) + PART_TOKENS
    if isinstance(part, ToolResult):
        total = PART_TOKENS
        for content in part.content:
            total += _estimate_part(content)
        return total
    if isinstance(part, (Text, Reasoning)):
        return estimate_text(part.text) + PART_TOKENS
    if isinstance(part, File):
        return FILE_TOKENS
    return estimate_text(part.url) + estimate_text(part.title or "")


# --- What is sent -------------------------------------------------------------------------------

NO_RESULT: Final = "There is no result: the call was interrupted before it had one."


class Trim(Struct, frozen=True):
    """How bulky tool results are shortened."""

    over: int
    to: int


class Projection:
    """The messages of the next request, kept up to date as the history grows.

    Every call has exactly one result, in call order, right behind its assistant message; results
    without a call are left out; what only people may see is left out; a checkpoint stands for what
    it covers. What was given out before is never changed, so that a provider's cache goes on
    matching.
    """

    def __init__(self, history: Sequence[Message], trim: Trim) -> None:
        self._history = history
        self._trim = trim
        self._settled: list[Message] = []
        self._awaited: dict[str, ToolResult | None] = {}
        """Results of the last answer's calls, in call order, as far as they are there."""
        self._missing = 0
        self._rebuild()

    def add(self, message: Message) -> None:
        """Take in the message that was just appended to the history."""
        if message.kind == "checkpoint":
            self._rebuild()
        elif message.visibility != "user":
            self._append(message)

    def messages(self) -> tuple[Message, ...]:
        if not self._awaited:
            return tuple(self._settled)
        return (*self._settled, *self._pending())

    def _rebuild(self) -> None:
        self._settled = []
        self._awaited = {}
        self._missing = 0
        for message in view(self._history, self._trim):
            self._append(message)

    def _append(self, message: Message) -> None:
        if message.role == "tool":
            self._take_results(message)
            return
        if self._awaited:
            self._settled.extend(self._pending())
            self._awaited = {}
        if message.role == "assistant":
            message = whole_pairs(message)
            if not message.parts:
                return
            self._awaited = {
                part.id: None
                for part in message.parts
                if type(part) is ToolCall and not part.provider_executed
            }
            self._missing = len(self._awaited)
        self._settled.append(message)

    def _take_results(self, message: Message) -> None:
        if len(message.parts) == self._missing == len(self._awaited) == 1:
            part = message.parts[0]
            if type(part) is ToolResult and part.call_id in self._awaited:
                self._settled.append(message)  # the usual case, as it is
                self._awaited = {}
                return
        for part in message.parts:
            if type(part) is ToolResult and self._awaited.get(part.call_id, part) is None:
                self._awaited[part.call_id] = part
                self._missing -= 1

    def _pending(self) -> tuple[Message, ...]:
        """The results of the last assistant message; what is missing is said to be missing."""
        if not self._awaited:
            return ()
        results = tuple(
            result or ToolResult(call_id, "", (Text(NO_RESULT),), "interrupted")
            for call_id, result in self._awaited.items()
        )
        return (results_message(results),)


def repair(messages: Sequence[Message], trim: Trim) -> tuple[Message, ...]:
    """Any sequence of messages as one that every provider accepts."""
    return Projection(messages, trim).messages()


def whole_pairs(message: Message) -> Message:
    """The message with each provider-executed call directly followed by its result, or without
    both."""
    if not any(
        type(part) in (ToolCall, ToolResult) and part.provider_executed  # type: ignore[union-attr]
        for part in message.parts
    ):
        return message
    results = {part.call_id: part for part in message.parts if isinstance(part, ToolResult)}
    parts: list[Part] = []
    for part in message.parts:
        if isinstance(part, ToolResult):
            continue
        if isinstance(part, ToolCall) and part.provider_executed:
            if part.id in results:
                parts += (part, results.pop(part.id))
            continue
        parts.append(part)
    return replace(message, parts=tuple(parts))


def last_checkpoint(history: Sequence[Message]) -> Message | None:
    return next((m for m in reversed(history) if m.kind == "checkpoint"), None)


def view(history: Sequence[Message], trim: Trim) -> list[Message]:
    """What models may see of a history: from its last checkpoint on, without what is for people."""
    message = last_checkpoint(history)
    if message is None or message.checkpoint is None:
        return [m for m in history if m.visibility != "user"]
    checkpoint = message.checkpoint
    seen: list[Message] = [message] if message.parts else []
    if checkpoint.pinned is not None:
        seen.append(history[checkpoint.pinned])
    for position in range(checkpoint.covers, len(history)):
        current = history[position]
        if current.kind == "checkpoint" or current.visibility == "user":
            continue
        seen.append(shorten(current, trim) if position < checkpoint.trims else current)
    return seen


def shorten(message: Message, trim: Trim) -> Message:
    """The message with its bulky tool results cut in the middle."""
    if message.role != "tool" or not any(_bulky(part, trim) for part in message.parts):
        return message
    return replace(message, parts=tuple(_shorten_part(part, trim) for part in message.parts))


def _bulky(part: Part, trim: Trim) -> bool:
    return isinstance(part, ToolResult) and any(_long(content, trim) for content in part.content)


def _long(content: Content, trim: Trim) -> bool:
    return isinstance(content, File) or len(content.text) > trim.over


def _shorten_part(part: Part, trim: Trim) -> Part:
    if not isinstance(part, ToolResult) or not _bulky(part, trim):
        return part
    return replace(part, content=tuple(_shorten_content(content, trim) for content in part.content))


def _shorten_content(content: Content, trim: Trim) -> Content:
    if isinstance(content, File):
        return Text(f"[{content.media_type} {content.name or 'file'}, no longer shown]")
    if len(content.text) <= trim.over:
        return content
    head, tail = trim.to * 2 // 3, trim.to - trim.to * 2 // 3
    cut = len(content.text) - head - tail
    return Text(f"{content.text[:head]}\n[… {cut} characters cut …]\n{content.text[-tail:]}")


# --- Where to cut -------------------------------------------------------------------------------


class Cut(Struct, frozen=True):
    """What a compaction replaces: everything before `covers`, except the pinned prompt."""

    covers: int
    pinned: int | None
    trims: int


def plan_cut(history: Sequence[Message], *, keep: int, keep_results: int) -> Cut:
    """Keep the newest steps that fit into `keep` tokens, and the last prompt wherever it is.

    Cuts only between steps, never between a call and its result. At least one answer is covered
    that no earlier checkpoint covers; the caller made sure that there is one.
    """
    start = covered(history)
    least = next(
        (at + 1 for at in range(start, len(history)) if history[at].kind == "answer"), len(history)
    )
    covers = len(history)
    room = keep
    for position in range(len(history) - 1, least - 1, -1):
        room -= estimate(history[position])
        if room < 0:
            break
        if _starts_step(history[position]):
            covers = position
    prompts = (at for at in range(len(history) - 1, -1, -1) if _is_prompt(history[at]))
    last_prompt = next(prompts, None)
    pinned = last_prompt if last_prompt is not None and last_prompt < covers else None
    return Cut(covers, pinned, max(covers, trim_before(history, keep_results)))


def covered(history: Sequence[Message]) -> int:
    """How many leading messages the last checkpoint stands for."""
    message = last_checkpoint(history)
    return message.checkpoint.covers if message is not None and message.checkpoint else 0


def trim_before(history: Sequence[Message], keep_results: int) -> int:
    """The position before which tool results may be shortened: the newest few stay as they are."""
    kept = 0
    for position in range(len(history) - 1, -1, -1):
        kept += len(history[position].results)
        if kept > keep_results:
            return position + 1
    return 0


def _starts_step(message: Message) -> bool:
    return message.kind != "results" and message.visibility != "user"


def _is_prompt(message: Message) -> bool:
    return message.kind == "prompt" and message.visibility != "user"


def size_after(before: int, sent: Sequence[Message], kept: Sequence[Message], overhead: int) -> int:
    """Tokens of a request of `before` tokens when `kept` is sent instead of `sent`.

    In proportion, because our estimate and the provider's count differ by a factor that is about
    the same for both.
    """
    whole = estimate_all(sent) + overhead
    return max(1, before * (estimate_all(kept) + overhead) // max(1, whole))


def without_summary(earlier: Message | None, cut: Checkpoint) -> Message:
    """A checkpoint that only shortens: the earlier summary, if there is one, is carried along."""
    return Message(
        "user",
        earlier.parts if earlier is not None else (),
        "checkpoint",
        "model",
        checkpoint=cut,
    )
