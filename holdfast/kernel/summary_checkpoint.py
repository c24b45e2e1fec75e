"""Compaction: the request for a summary, the check of the answer, and the resulting checkpoint.

The part of the history to be replaced is rendered as text and sent as one message, with tool
results shortened. So any model can write a summary, it fits where the history itself no longer
does, and it is cheap.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from msgspec import Struct

from holdfast.kernel.errors import FailureKind, ModelError
from holdfast.kernel.messages import (
    AskedBy,
    Checkpoint,
    File,
    Message,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
    note,
)
from holdfast.kernel.model import Block, Request, Settings
from holdfast.kernel.model_context import (
    CompactionPlan,
    Trim,
    covered,
    estimate_text,
    is_sent,
    last_checkpoint,
    plan_context,
    plan_cut,
    size_after,
    trim_before,
    view,
    without_summary,
    worded,
)
from holdfast.kernel.policy import ContextLimits, Wording

SUMMARY_SECTIONS: Final = (
    "Goal",
    "Constraints",
    "Decisions",
    "State of work",
    "Files touched",
    "Open questions",
    "Next steps",
)

SUMMARY_INSTRUCTIONS: Final = """\
You write the memory of an assistant whose conversation has become too long to be kept whole. \
You are given the conversation, and the earlier memory if there is one. Write the new memory: \
whoever continues has only that and the newest messages.

Write Markdown with exactly these headings, in this order, each on a line of its own:

## Goal
What the user wants to reach, and the task at hand.
## Constraints
What the user asked for, corrected or forbade, close to the user's own words. It holds until \
revoked.
## Decisions
What was decided, and why.
## State of work
What is done, what is being done, what failed and how it was solved. Exact names, commands and \
values.
## Files touched
Each path, with what was read in it or changed. "None" if there are none.
## Open questions
What is not known yet, or waits for the user.
## Next steps
What to do next, beginning with the very next action.

Keep what is in the earlier memory and still true; change what is not. Be dense. Do not answer the \
conversation, do not greet, do not call tools."""

SUMMARY_PREFIX: Final = (
    "The conversation before this point was replaced by the following summary of it. "
    "Go on from there.\n\n"
)


EMPTY_SUMMARY: Final = "the summary is empty"


class SummaryFailed(ModelError):
    """No usable summary was returned."""

    kind: FailureKind = "empty_response"

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.sentence = (
            f"{{model}} could not summarize the conversation: {problem}. "
            "Retry, or use another model."
        )


class CompactionInput(Struct, frozen=True):
    """Input of a compaction."""

    history: Sequence[Message]
    size: int
    """Tokens of the next request without a compaction."""
    overhead: int
    """Tokens of the system prefix and the tools, included in `size`."""
    limit: int | None
    window: int | None
    """Context window in tokens: the smaller of the agent's model and the summary's model."""
    asked_by: AskedBy | None
    policy: ContextLimits
    wording: Wording

    @property
    def trim(self) -> Trim:
        return Trim(self.policy.trim_over, self.policy.trim_to)


class SummaryAnswer(Struct, frozen=True):
    """An answer to a summary request."""

    text: str
    cut: bool
    """Whether the answer was cut by length."""


SummaryCall = Callable[[Request], Awaitable[SummaryAnswer]]
"""Function that calls the summary's model. Retries failures that may pass with the same input, and
raises the others."""


# --- Without a model ----------------------------------------------------------------------------


def by_trimming(now: CompactionInput) -> Message | None:
    """A checkpoint that only shortens old tool results, if that is enough."""
    if now.asked_by is not None or now.limit is None:
        return None
    earlier = last_checkpoint(now.history)
    previous = earlier.checkpoint if earlier is not None else None
    covers = covered(now.history)
    cut = CompactionPlan(
        covers,
        previous.pinned if previous else None,
        trim_before(now.history, now.policy.keep_results),
        plan_context(now.history, covers, _context_tokens(now)),
    )
    message = without_summary(earlier, _checkpoint(now, cut, after=now.size, summarized=False))
    after = _size_with(now, message)
    if after > now.limit * now.policy.relief // 100:
        return None
    return without_summary(earlier, _checkpoint(now, cut, after=after, summarized=False))


def _checkpoint(
    now: CompactionInput, cut: CompactionPlan, *, after: int, summarized: bool
) -> Checkpoint:
    return Checkpoint(
        cut.covers,
        cut.trims,
        now.size,
        after,
        summarized,
        cut.pinned,
        now.asked_by,
        cut.context,
        _context_tokens(now),
    )


def _context_tokens(now: CompactionInput) -> int:
    most = now.policy.context_tokens
    return most if now.window is None else min(most, now.window // 8)


def _size_with(now: CompactionInput, message: Message) -> int:
    return size_after(
        now.size, view(now.history, now.trim), view([*now.history, message], now.trim), now.overhead
    )


def entry_for_people(checkpoint: Checkpoint) -> Message:
    """The note that people see where a compaction happened."""
    what = "summarized" if checkpoint.summarized else "shortened"
    who = {None: "automatically", "person": "as asked", "overflow": "because it no longer fit"}
    return note(
        f"The earlier conversation was {what} {who[checkpoint.asked_by]}: "
        f"about {checkpoint.before:,} tokens became {checkpoint.after:,}."
    )


# --- With a model -------------------------------------------------------------------------------


async def by_summary(now: CompactionInput, ask: SummaryCall) -> tuple[Message, str | None]:
    """A checkpoint with a summary, and a warning if the summary is incomplete.

    A summary that is empty, cut by length or not shorter than what it replaces is requested again
    with less input. So is one that lacks a section, but it is used if no better one arrives.
    """
    cut = plan_cut(
        now.history,
        keep=_keep(now),
        keep_results=now.policy.keep_results,
        context_tokens=_context_tokens(now),
    )
    earlier = last_checkpoint(now.history)
    usable: tuple[Message, str] | None = None
    failure: ModelError = SummaryFailed("no summary was returned")
    for attempt in range(now.policy.summary_attempts):
        try:
            answer = await ask(summary_request(now, cut, earlier, attempt))
        except ModelError as error:
            if error.kind not in ("empty_response", "context_overflow"):
                raise
            failure = SummaryFailed(EMPTY_SUMMARY) if error.kind == "empty_response" else error
            continue
        message = _summary_message(now, cut, answer.text)
        fatal, problem = _judge(answer, message)
        if not problem:
            return message, None
        if fatal:
            failure = SummaryFailed(problem)
        else:
            usable = message, problem
    if usable is None:
        raise failure
    return usable


def _keep(now: CompactionInput) -> int:
    """Tokens of the newest steps that are kept: at most a quarter, so that the request shrinks."""
    quarter = now.size // 4
    return quarter if now.window is None else min(quarter, now.window * now.policy.keep // 100)


def _summary_message(now: CompactionInput, cut: CompactionPlan, text: str) -> Message:
    def made(after: int) -> Message:
        return Message(
            "user",
            (Text(SUMMARY_PREFIX + text.strip()),),
            "checkpoint",
            "model",
            checkpoint=_checkpoint(now, cut, after=after, summarized=True),
        )

    return made(_size_with(now, made(now.size)))


def _judge(answer: SummaryAnswer, message: Message) -> tuple[bool, str]:
    """Whether a summary is unusable, and its problem."""
    checkpoint = message.checkpoint
    assert checkpoint is not None
    if not answer.text.strip():
        return True, EMPTY_SUMMARY
    if answer.cut:
        return True, "the summary was cut off"
    if checkpoint.after >= checkpoint.before:
        return True, "the summary is not shorter than what it replaces"
    missing = [section for section in SUMMARY_SECTIONS if f"## {section}" not in answer.text]
    return False, f"the summary lacks {', '.join(missing)}" if missing else ""


def summary_request(
    now: CompactionInput, cut: CompactionPlan, earlier: Message | None, attempt: int
) -> Request:
    """The request for a summary of what is before the cut; each further attempt sends less."""
    memory = earlier.text.removeprefix(SUMMARY_PREFIX) if earlier is not None else ""
    longest, room = _shares(now, memory)
    messages = _to_summarize(now, cut)
    lines = transcript(messages, result_length=now.policy.trim_to * 2, room=room)
    if attempt:
        length = max(100, now.policy.trim_to * 2 // 4**attempt)
        lines = transcript(messages, result_length=length, room=estimate_text(lines) // 2**attempt)
    pieces = []
    if memory:
        pieces.append(f"<earlier-memory>\n{memory}\n</earlier-memory>")
    pieces.append(f"<conversation>\n{lines}\n</conversation>")
    pieces.append("Write the new memory now.")
    return Request(
        system=(Block(SUMMARY_INSTRUCTIONS),),
        messages=(Message("user", (Text("\n\n".join(pieces)),), "prompt"),),
        settings=Settings(max_output_tokens=longest),
    )


def _to_summarize(now: CompactionInput, cut: CompactionPlan) -> Sequence[Message]:
    """Messages that the summary replaces. Pinned context is sent separately."""
    positions = range(covered(now.history), cut.covers)
    there = [now.history[at] for at in positions if at not in cut.context]
    return worded([message for message in there if is_sent(message)], now.wording)


def _shares(now: CompactionInput, memory: str) -> tuple[int, int | None]:
    """Tokens of the window for the summary and for the conversation that it is made from."""
    if now.window is None:
        return now.policy.summary_tokens, None
    longest = min(now.policy.summary_tokens, now.window // 4)
    spare = min(2_000, now.window // 8)  # margin for the error of our estimate
    room = (
        now.window - longest - spare - estimate_text(SUMMARY_INSTRUCTIONS) - estimate_text(memory)
    )
    return longest, max(100, room)


def transcript(messages: Sequence[Message], *, result_length: int, room: int | None) -> str:
    """Messages as plain text: the newest that fit into `room` tokens, at least a part of one."""
    lines: list[str] = []
    for message in reversed(messages):
        if message.kind == "checkpoint":
            continue
        text = _render(message, result_length)
        if room is not None:
            size = estimate_text(text)
            if size > room:
                if not lines:
                    lines.append(_shorten(text, len(text) * room // size))
                lines.append("[earlier messages omitted]")
                break
            room -= size
        lines.append(text)
    return "\n".join(reversed(lines))


def _render(message: Message, result_length: int) -> str:
    lines: list[str] = []
    for part in message.parts:
        match part:
            case Text(text=text):
                lines.append(f"{message.role}: {_shorten(text, 8 * result_length)}")
            case ToolCall(tool=tool, arguments=arguments):
                lines.append(f"{message.role} calls {tool}({_shorten(arguments, result_length)})")
            case ToolResult(tool=tool, outcome=outcome):
                lines.append(f"{tool} returned ({outcome}): {_shorten(part.text, result_length)}")
            case File(media_type=media_type, name=name):
                lines.append(f"{message.role}: [{media_type} {name or 'file'}]")
            case Source(url=url):
                lines.append(f"{message.role} cites {url}")
            case Reasoning():
                pass  # its conclusions are in the answer
    return "\n".join(lines)


def _shorten(text: str, length: int) -> str:
    if len(text) <= length:
        return text
    return f"{text[: length * 2 // 3]} […] {text[len(text) - length // 3 :]}"
