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
    TRANSPARENT,
    Checkpoint,
    Content,
    File,
    Message,
    Part,
    Reasoning,
    Source,
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
    if type(part) is ToolCall:
        return estimate_text(part.arguments) + estimate_text(part.tool) + PART_TOKENS
    if type(part) is ToolResult:
        total = PART_TOKENS
        for content in part.content:
            total += _estimate_part(content)
        return total
    if type(part) is Text or type(part) is Reasoning:
        return estimate_text(part.text) + PART_TOKENS
    if type(part) is File:
        return FILE_TOKENS
    assert type(part) is Source
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
        self._awaited: dict[str, ToolCall | ToolResult] = {}
        """Of the last answer, in call order: each call, or its result once that is there."""
        self._missing = 0
        self._behind: list[Message] = []
        """What came while results were missing and does not end the wait for them."""
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
        return (*self._settled, *self._pending(), *self._behind)

    def _rebuild(self) -> None:
        self._settled = []
        self._awaited = {}
        self._missing = 0
        self._behind = []
        for message in view(self._history, self._trim):
            self._append(message)

    def _append(self, message: Message) -> None:
        if message.role == "tool":
            self._take_results(message)
            return
        if self._awaited and message.role != "assistant" and message.kind in TRANSPARENT:
            message = without_calls(message)
            if message.parts:
                self._behind.append(message)
            return
        if self._awaited:
            self._settled += (*self._pending(), *self._behind)
            self._awaited = {}
            self._behind = []
        if message.role == "assistant":
            message = whole_pairs(message)
            for part in message.parts:
                if type(part) is ToolCall and not part.provider_executed:
                    self._awaited[part.id] = part
            self._missing = len(self._awaited)
        else:
            message = without_calls(message)
        if message.parts:
            self._settled.append(message)

    def _take_results(self, message: Message) -> None:
        if len(message.parts) == self._missing == len(self._awaited) == 1:
            part = message.parts[0]
            if type(part) is ToolResult and part.call_id in self._awaited and not self._behind:
                self._settled.append(message)  # the usual case, as it is
                self._awaited = {}
                return
        for part in message.parts:
            if type(part) is ToolResult and type(self._awaited.get(part.call_id)) is ToolCall:
                self._awaited[part.call_id] = part
                self._missing -= 1

    def _pending(self) -> tuple[Message, ...]:
        """The results of the last assistant message; what is missing is said to be missing."""
        if not self._awaited:
            return ()
        return (results_message([_result(part) for part in self._awaited.values()]),)


def _result(part: ToolCall | ToolResult) -> ToolResult:
    if isinstance(part, ToolResult):
        return part
    return ToolResult(part.id, part.tool, (Text(NO_RESULT),), "interrupted")


def repair(messages: Sequence[Message], trim: Trim) -> tuple[Message, ...]:
    """Any sequence of messages as one that every provider accepts.

    It is no history: what its checkpoint covers is gone already.
    """
    projection = Projection((), trim)
    for message in messages:
        if message.visibility != "user":
            projection._append(message)
    return projection.messages()


def whole_pairs(message: Message) -> Message:
    """The answer with each provider-executed call directly followed by its result, or without both.

    Results of ours do not belong into an answer, and no id may stand for two calls.
    """
    if not _needs_pairing(message):
        return message
    ours = {call.id for call in message.calls if not call.provider_executed}
    made = {r.call_id: r for r in message.results if r.provider_executed and r.call_id not in ours}
    parts: list[Part] = []
    for part in message.parts:
        match part:
            case ToolResult():
                continue
            case ToolCall(id=id, provider_executed=True):
                result = made.pop(id, None)
                if result is not None:
                    parts += (part, result)
            case ToolCall(id=id):
                if id in ours:
                    ours.remove(id)
                    parts.append(part)
            case _:
                parts.append(part)
    return replace(message, parts=tuple(parts))


def _needs_pairing(message: Message) -> bool:
    if len(message.parts) == 1 and type(message.parts[0]) is not ToolResult:
        part = message.parts[0]
        return type(part) is ToolCall and part.provider_executed
    ids: set[str] = set()
    for part in message.parts:
        if type(part) is ToolResult:
            return True
        if type(part) is ToolCall:
            if part.provider_executed or part.id in ids:
                return True
            ids.add(part.id)
    return False


def without_calls(message: Message) -> Message:
    """What somebody else than a model wrote, without what only an answer may have."""
    if not any(isinstance(part, (ToolCall, ToolResult)) for part in message.parts):
        return message
    return replace(
        message,
        parts=tuple(p for p in message.parts if not isinstance(p, (ToolCall, ToolResult))),
    )


def last_checkpoint(history: Sequence[Message]) -> Message | None:
    at = _checkpoint_at(history)
    return None if at is None else history[at]


def _checkpoint_at(history: Sequence[Message]) -> int | None:
    positions = range(len(history) - 1, -1, -1)
    return next((at for at in positions if history[at].kind == "checkpoint"), None)


def covered(history: Sequence[Message]) -> int:
    """How many leading messages the last checkpoint stands for."""
    at = _checkpoint_at(history)
    checkpoint = None if at is None else history[at].checkpoint
    # Never more than there are before it: a caller may have cut off the past that it counted.
    return 0 if at is None or checkpoint is None else min(checkpoint.covers, at)


def view(history: Sequence[Message], trim: Trim) -> list[Message]:
    """What models may see of a history: from its last checkpoint on, without what is for people."""
    message = last_checkpoint(history)
    if message is None or message.checkpoint is None:
        return [m for m in history if m.visibility != "user"]
    checkpoint = message.checkpoint
    start = covered(history)
    seen: list[Message] = [message] if message.parts else []
    pinned = checkpoint.pinned
    if pinned is not None and pinned < start and _is_prompt(history[pinned]):
        seen.append(history[pinned])
    for position in range(start, len(history)):
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
    new = (at for at in range(covered(history), len(history)) if _is_answer(history[at]))
    least = next(new, len(history) - 1) + 1
    covers = len(history)
    room = keep
    for position in range(len(history) - 1, least - 1, -1):
        message = history[position]
        if message.visibility == "user" or message.kind == "checkpoint":
            continue  # is not sent
        room -= estimate(message)
        if room < 0:
            break
        if _starts_step(message):
            covers = position
    covers = min(covers, _first_unanswered(history))
    prompts = (at for at in range(len(history) - 1, -1, -1) if _is_prompt(history[at]))
    last_prompt = next(prompts, None)
    pinned = last_prompt if last_prompt is not None and last_prompt < covers else None
    return Cut(covers, pinned, max(covers, trim_before(history, keep_results)))


def _first_unanswered(history: Sequence[Message]) -> int:
    """Of the prompts that no answer came after, the first: several may wait for one answer.

    One that we injected waits for it like a person's.
    """
    first = len(history)
    for position in range(len(history) - 1, -1, -1):
        message = history[position]
        if _is_answer(message):
            break
        if message.kind in ("prompt", "injected") and message.visibility != "user":
            first = position
    return first


def trim_before(history: Sequence[Message], keep_results: int) -> int:
    """The position before which tool results may be shortened: the newest few stay as they are."""
    kept = 0
    for position in range(len(history) - 1, -1, -1):
        message = history[position]
        if message.role != "tool" or not message.parts:
            continue
        if kept >= keep_results:
            return position + 1
        kept += len(message.results)
    return 0


def _starts_step(message: Message) -> bool:
    """Whether no call before it can have a result behind it."""
    return message.kind in ("prompt", "injected", "answer")


def _is_answer(message: Message) -> bool:
    return message.kind == "answer" and message.visibility != "user"


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
