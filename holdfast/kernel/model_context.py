"""The context sent to a model: projection of the history, its size, and where to cut it. Pure.

The history itself never changes: `Projection` is a running fold that keeps the messages of the
next request, in the sequence that every provider accepts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel.messages import (
    MARKER_TEXTS,
    TRANSPARENT,
    Checkpoint,
    Content,
    File,
    MarkerKind,
    Message,
    Part,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
    encode,
    marker_kind,
    results_message,
)
from holdfast.kernel.policy import Wording

# --- Size ---------------------------------------------------------------------------------------

FILE_TOKENS: Final = 1_200
LEAST_CONTEXT: Final = 64
"""Minimum tokens for which a cut context message is still sent."""
PART_TOKENS: Final = 4
"""Tokens of a part in addition to its text: ids, names, brackets."""


def estimate_text(text: str) -> int:
    """Estimated tokens of a text: a quarter of its bytes, more for scripts without an alphabet."""
    if text.isascii():
        return (len(text) + 3) // 4
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > 2 * len(text):
        return len(text) * 3 // 2
    return (size + 3) // 4


def estimate(message: Message) -> int:
    """Estimated tokens of a message."""
    total = 0
    for part in message.parts:
        total += _estimate_part(part)
    return total or 1


def estimate_all(messages: Sequence[Message]) -> int:
    """Estimated tokens of several messages."""
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

NO_RESULT: Final = "No result: the call was interrupted before it returned."


class Trim(Struct, frozen=True):
    """Limits by which bulky tool results are shortened."""

    over: int
    """Length in characters above which a result is shortened."""
    to: int
    """Length in characters to which it is shortened."""


class RemovedParts(Struct, frozen=True):
    """Number of parts left out of requests because no provider would accept them."""

    calls: int = 0
    """Provider-executed calls without a result, calls with a used id, or outside an answer."""
    results: int = 0
    """Results without a call."""


NOTHING_REMOVED: Final = RemovedParts()


def is_sent(message: Message) -> bool:
    """Whether a request may have this message. Evaluated instructions are in its system prefix."""
    return message.visibility != "user" and message.kind != "instructions"


class Projection:
    """The messages of the next request, kept up to date as the history grows.

    Every call has exactly one result, in call order, directly after its assistant message; results
    without a call are left out; messages for people only are left out; a checkpoint replaces what
    it covers. Messages returned before never change, so that a provider's cache keeps matching.
    """

    def __init__(self, history: Sequence[Message], trim: Trim) -> None:
        self._history = history
        self._trim = trim
        self._settled: list[Message] = []
        self._awaited: dict[str, ToolCall | ToolResult] = {}
        """Calls of the last answer in order, each replaced by its result once there is one."""
        self._missing = 0
        self._deferred: list[Message] = []
        """Messages that arrived while results were missing, and do not end the wait for them."""
        self.removed = NOTHING_REMOVED
        """Parts that no provider would accept, counted since this was last reset."""
        self._rebuild()

    def add(self, message: Message) -> None:
        """Add the message that was just appended to the history."""
        if message.kind == "checkpoint":
            removed = self.removed
            self._rebuild()
            self.removed = removed
        elif is_sent(message):
            self._append(message)

    def messages(self) -> tuple[Message, ...]:
        if not self._awaited:
            return tuple(self._settled)
        return (*self._settled, *self._pending(), *self._deferred)

    def _rebuild(self) -> None:
        self._settled = []
        self._awaited = {}
        self._missing = 0
        self._deferred = []
        for message in view(self._history, self._trim):
            self._append(message)

    def _append(self, message: Message) -> None:
        if message.role == "tool":
            self._take_results(message)
            return
        if self._awaited and message.role != "assistant" and message.kind in TRANSPARENT:
            message = self._kept(message, without_calls(message))
            if message.parts:
                self._deferred.append(message)
            return
        if self._awaited:
            self._settled += (*self._pending(), *self._deferred)
            self._awaited = {}
            self._deferred = []
        if message.role == "assistant":
            message = self._kept(message, whole_pairs(message))
            for part in message.parts:
                if type(part) is ToolCall and not part.provider_executed:
                    self._awaited[part.id] = part
            self._missing = len(self._awaited)
        else:
            message = self._kept(message, without_calls(message))
        if message.parts:
            self._settled.append(message)

    def _kept(self, message: Message, repaired: Message) -> Message:
        """Return the repaired message, and count what was removed."""
        if repaired is not message:
            calls = len(message.calls) - len(repaired.calls)
            self._count(calls, len(message.results) - len(repaired.results))
        return repaired

    def _count(self, calls: int, results: int) -> None:
        self.removed = RemovedParts(self.removed.calls + calls, self.removed.results + results)

    def _take_results(self, message: Message) -> None:
        if len(message.parts) == self._missing == len(self._awaited) == 1:
            part = message.parts[0]
            if type(part) is ToolResult and part.call_id in self._awaited and not self._deferred:
                self._settled.append(message)  # the usual case, as it is
                self._awaited = {}
                return
        for part in message.parts:
            if type(part) is ToolResult and type(self._awaited.get(part.call_id)) is ToolCall:
                self._awaited[part.call_id] = part
                self._missing -= 1
            else:
                self._count(0, 1)

    def _pending(self) -> tuple[Message, ...]:
        """The results of the last assistant message, with placeholders for missing ones."""
        if not self._awaited:
            return ()
        return (results_message([_result(part) for part in self._awaited.values()]),)


def _result(part: ToolCall | ToolResult) -> ToolResult:
    if isinstance(part, ToolResult):
        return part
    return ToolResult(part.id, part.tool, (Text(NO_RESULT),), "interrupted")


def worded(messages: Sequence[Message], wording: Wording) -> tuple[Message, ...]:
    """Messages as they are sent: markers have the agent's wording, and empty ones are left out."""
    texts: dict[MarkerKind, str] = {
        "interrupted_answer": wording.interrupted_answer,
        "interrupted_tools": wording.interrupted_tools,
    }
    if texts == MARKER_TEXTS:
        return tuple(messages)
    reworded = (_worded(message, texts) for message in messages)
    return tuple(message for message in reworded if message.parts)


def _worded(message: Message, texts: Mapping[MarkerKind, str]) -> Message:
    kind = marker_kind(message)
    if kind is None:
        return message
    return replace(message, parts=(Text(texts[kind]),) if texts[kind] else ())


def repair(messages: Sequence[Message], trim: Trim) -> tuple[Message, ...]:
    """Repair any sequence of messages to one that every provider accepts."""
    return repaired(messages, trim).messages()


def repaired(messages: Sequence[Message], trim: Trim) -> Projection:
    """The projection of any sequence of messages.

    The sequence is not a history: what its checkpoint covers is already removed.
    """
    projection = Projection((), trim)
    for message in messages:
        if is_sent(message):
            projection._append(message)
    return projection


def whole_pairs(message: Message) -> Message:
    """The answer with each provider-executed call directly followed by its result, or without both.

    Results of tools that run here do not belong in an answer, and call ids are unique.
    """
    if not _needs_pairing(message):
        return message
    ours = {call.id for call in message.calls if not call.provider_executed}
    theirs = {
        r.call_id: r for r in message.results if r.provider_executed and r.call_id not in ours
    }
    parts: list[Part] = []
    for part in message.parts:
        match part:
            case ToolResult():
                continue
            case ToolCall(id=id, provider_executed=True):
                result = theirs.pop(id, None)
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
    """A message that is not an answer, without tool calls and results."""
    if not any(isinstance(part, (ToolCall, ToolResult)) for part in message.parts):
        return message
    return replace(
        message,
        parts=tuple(p for p in message.parts if not isinstance(p, (ToolCall, ToolResult))),
    )


def last_checkpoint(history: Sequence[Message]) -> Message | None:
    """The last checkpoint message of a history, if any."""
    at = _checkpoint_at(history)
    return None if at is None else history[at]


def _checkpoint_at(history: Sequence[Message]) -> int | None:
    positions = range(len(history) - 1, -1, -1)
    return next((at for at in positions if history[at].kind == "checkpoint"), None)


def covered(history: Sequence[Message]) -> int:
    """Number of leading messages that the last checkpoint replaces."""
    at = _checkpoint_at(history)
    checkpoint = None if at is None else history[at].checkpoint
    # Never more than there are before it: a caller may have cut off the past that it counted.
    return 0 if at is None or checkpoint is None else min(checkpoint.covers, at)


def view(history: Sequence[Message], trim: Trim) -> list[Message]:
    """The messages that models may see: from the last checkpoint on, without those for people."""
    message = last_checkpoint(history)
    if message is None or message.checkpoint is None:
        return [m for m in history if is_sent(m)]
    checkpoint = message.checkpoint
    start = covered(history)
    seen = _pinned_context(history, checkpoint, start)
    if message.parts:
        seen.append(message)
    pinned = checkpoint.pinned
    if pinned is not None and pinned < start and _is_prompt(history[pinned]):
        seen.append(history[pinned])
    for position in range(start, len(history)):
        current = history[position]
        if current.kind == "checkpoint" or not is_sent(current):
            continue
        seen.append(shorten(current, trim) if position < checkpoint.trims else current)
    return seen


def _pinned_context(history: Sequence[Message], cut: Checkpoint, start: int) -> list[Message]:
    """The covered context messages as they are sent: first, so that a new summary leaves the prefix
    of requests unchanged."""
    there = [history[at] for at in cut.context if at < start and _is_context(history[at])]
    return [message for _, message in _fitted(there, cut.context_tokens)]


def _fitted(messages: Sequence[Message], tokens: int) -> list[tuple[int, Message]]:
    """The newest messages that fit, with their indexes; the oldest of them may be cut."""
    fitted: list[tuple[int, Message]] = []
    for place in range(len(messages) - 1, -1, -1):
        message = messages[place]
        size = estimate(message)
        if size > tokens:
            if tokens >= LEAST_CONTEXT:
                fitted.append((place, _cut_to(message, size, tokens)))
            break
        fitted.append((place, message))
        tokens -= size
    return fitted[::-1]


def _cut_to(message: Message, size: int, tokens: int) -> Message:
    """A message of `size` tokens cut to about `tokens`, each text in proportion."""

    def cut(part: Part) -> Part:
        if isinstance(part, File):
            return _not_shown(part)
        if not isinstance(part, Text):
            return part
        return _middle_cut(part, len(part.text) * tokens // size)

    return replace(message, parts=tuple(map(cut, message.parts)))


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
        return _not_shown(content)
    return content if len(content.text) <= trim.over else _middle_cut(content, trim.to)


def _not_shown(file: File) -> Text:
    return Text(f"[{file.media_type} {file.name or 'file'}, no longer shown]")


def _middle_cut(content: Text, length: int) -> Text:
    text, head = content.text, length * 2 // 3
    tail = len(text) - (length - head)
    return Text(f"{text[:head]}\n[… {tail - head} characters cut …]\n{text[tail:]}")


# --- Where to cut -------------------------------------------------------------------------------


class CompactionPlan(Struct, frozen=True):
    """Plan of a compaction: it replaces everything before `covers`, except the pinned prompt and
    the pinned context."""

    covers: int
    pinned: int | None
    trims: int
    context: tuple[int, ...] = ()


def plan_cut(
    history: Sequence[Message], *, keep: int, keep_results: int, context_tokens: int = 0
) -> CompactionPlan:
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
        if message.kind == "checkpoint" or not is_sent(message):
            continue
        room -= estimate(message)
        if room < 0:
            break
        if _starts_step(message):
            covers = position
    covers = min(covers, _first_unanswered(history))
    last_prompt = _last_prompt(history)
    pinned = last_prompt if last_prompt is not None and last_prompt < covers else None
    trims = max(covers, trim_before(history, keep_results))
    return CompactionPlan(covers, pinned, trims, plan_context(history, covers, context_tokens))


def plan_context(history: Sequence[Message], covers: int, tokens: int) -> tuple[int, ...]:
    """Positions of the covered context messages that stay: the newest that fit, each text once.

    Only the messages after what the last checkpoint covers are searched: it names the earlier ones.
    """
    message = last_checkpoint(history)
    earlier = message.checkpoint if message is not None else None
    planned = earlier is not None and earlier.context_tokens > 0
    start = covered(history) if planned else 0
    kept = earlier.context if earlier is not None else ()
    before = (at for at in kept if at < start and _is_context(history[at]))
    searched = [at for at in range(start, covers) if _is_context(history[at])]
    newest = {encode(history[at].parts): at for at in (*before, *searched)}
    positions = sorted(newest.values())
    return tuple(
        positions[place] for place, _ in _fitted([history[at] for at in positions], tokens)
    )


def _last_prompt(history: Sequence[Message]) -> int | None:
    """The position of the last prompt. A long turn is not searched to its start: where the last
    checkpoint pinned its prompt, there is no later one before what it covers."""
    start = covered(history)
    message = last_checkpoint(history)
    pinned = message.checkpoint.pinned if message is not None and message.checkpoint else None
    if pinned is None or pinned >= start or not _is_prompt(history[pinned]):
        pinned, start = None, 0
    positions = range(len(history) - 1, start - 1, -1)
    return next((at for at in positions if _is_prompt(history[at])), pinned)


def _first_unanswered(history: Sequence[Message]) -> int:
    """Position of the first prompt that has no answer yet: several may wait for one answer.

    An injected message counts like a person's.
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
    """Whether no call before this message can have a result after it."""
    return message.kind in ("prompt", "injected", "answer")


def _is_answer(message: Message) -> bool:
    return message.kind == "answer" and message.visibility != "user"


def _is_context(message: Message) -> bool:
    return message.kind == "context" and message.visibility != "user"


def _is_prompt(message: Message) -> bool:
    return message.kind == "prompt" and message.visibility != "user"


def size_after(before: int, sent: Sequence[Message], kept: Sequence[Message], overhead: int) -> int:
    """Tokens of a request of `before` tokens when `kept` is sent instead of `sent`.

    Computed in proportion, because our estimate and the provider's count differ by a factor that is
    about the same for both.
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
