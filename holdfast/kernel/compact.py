"""Summaries: what the model is asked, how its answer is judged, and the checkpoint made of it.

The part of the history that goes is rendered as text and sent as one message, with tool results
shortened. So a summary can be asked of any model, fits where the history itself no longer does, and
is cheap.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from msgspec import Struct

from holdfast.kernel.context import (
    Cut,
    Trim,
    covered,
    estimate_text,
    last_checkpoint,
    plan_cut,
    size_after,
    trim_before,
    view,
    without_summary,
)
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
from holdfast.kernel.policy import Context

SECTIONS: Final = (
    "Goal",
    "Constraints",
    "Decisions",
    "State of work",
    "Files touched",
    "Open questions",
    "Next steps",
)

INSTRUCTIONS: Final = """\
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

PREFIX: Final = (
    "The conversation before this point was replaced by the following summary of it. "
    "Go on from there.\n\n"
)


class SummaryFailed(ModelError):
    """A summary came back that cannot stand for what it was to replace."""

    kind: FailureKind = "empty_response"


class Situation(Struct, frozen=True):
    """What a compaction starts from."""

    history: Sequence[Message]
    size: int
    """Tokens of the next request as it stands."""
    overhead: int
    """Of these, the system prefix and the tools."""
    limit: int | None
    window: int | None
    """The stricter one of the agent's model and the summary's."""
    asked_by: AskedBy | None
    policy: Context

    @property
    def trim(self) -> Trim:
        return Trim(self.policy.trim_over, self.policy.trim_to)


class Summarized(Struct, frozen=True):
    """An answer to a summary request."""

    text: str
    cut: bool
    """By length."""


Ask = Callable[[Request], Awaitable[Summarized]]
"""Asks the summary's model. Retries what is worth retrying with the same input, and raises the
rest."""


# --- Without a model ----------------------------------------------------------------------------


def by_trimming(now: Situation) -> Message | None:
    """A checkpoint that only shortens old tool results, if that is enough."""
    if now.asked_by is not None or now.limit is None:
        return None
    earlier = last_checkpoint(now.history)
    known = earlier.checkpoint if earlier is not None else None
    cut = Cut(
        covered(now.history),
        known.pinned if known else None,
        trim_before(now.history, now.policy.keep_results),
    )
    message = without_summary(earlier, _checkpoint(now, cut, after=now.size, summarized=False))
    after = _size_with(now, message)
    if after > now.limit * now.policy.relief // 100:
        return None
    return without_summary(earlier, _checkpoint(now, cut, after=after, summarized=False))


def _checkpoint(now: Situation, cut: Cut, *, after: int, summarized: bool) -> Checkpoint:
    return Checkpoint(cut.covers, cut.trims, now.size, after, summarized, cut.pinned, now.asked_by)


def _size_with(now: Situation, message: Message) -> int:
    return size_after(
        now.size, view(now.history, now.trim), view([*now.history, message], now.trim), now.overhead
    )


def entry_for_people(checkpoint: Checkpoint) -> Message:
    """What people see where a compaction happened."""
    what = "summarized" if checkpoint.summarized else "shortened"
    who = {None: "automatically", "person": "as asked", "overflow": "because it no longer fitted"}
    return note(
        f"The earlier conversation was {what} {who[checkpoint.asked_by]}: "
        f"about {checkpoint.before:,} tokens became {checkpoint.after:,}."
    )


# --- With a model -------------------------------------------------------------------------------


async def by_summary(now: Situation, ask: Ask) -> tuple[Message, str | None]:
    """A checkpoint with a summary, and a warning if it is not all that it should be.

    A summary that is empty, cut by length or no shorter than what it replaces is asked for again
    with less input. One that lacks a section is too, but taken in the end: it is better than
    nothing.
    """
    cut = plan_cut(now.history, keep=_keep(now), keep_results=now.policy.keep_results)
    earlier = last_checkpoint(now.history)
    usable: tuple[Message, str] | None = None
    failure: ModelError = SummaryFailed("no summary came back")
    for attempt in range(now.policy.summary_attempts):
        try:
            answer = await ask(summary_request(now, cut, earlier, attempt))
        except ModelError as error:
            if error.kind not in ("empty_response", "context_overflow"):
                raise
            failure = error
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


def _keep(now: Situation) -> int:
    """Tokens of the newest steps that stay: never more than a quarter, so that something is won."""
    quarter = now.size // 4
    return quarter if now.window is None else min(quarter, now.window * now.policy.keep // 100)


def _summary_message(now: Situation, cut: Cut, text: str) -> Message:
    def made(after: int) -> Message:
        return Message(
            "user",
            (Text(PREFIX + text.strip()),),
            "checkpoint",
            "model",
            checkpoint=_checkpoint(now, cut, after=after, summarized=True),
        )

    return made(_size_with(now, made(now.size)))


def _judge(answer: Summarized, message: Message) -> tuple[bool, str]:
    """What is wrong with a summary, and whether it is unusable."""
    checkpoint = message.checkpoint
    assert checkpoint is not None
    if not answer.text.strip():
        return True, "the summary is empty"
    if answer.cut:
        return True, "the summary was cut off"
    if checkpoint.after >= checkpoint.before:
        return True, "the summary is no shorter than what it replaces"
    missing = [section for section in SECTIONS if f"## {section}" not in answer.text]
    return False, f"the summary lacks {', '.join(missing)}" if missing else ""


def summary_request(now: Situation, cut: Cut, earlier: Message | None, attempt: int) -> Request:
    """Ask for the summary of what is before the cut; each further attempt with less of it."""
    memory = earlier.text.removeprefix(PREFIX) if earlier is not None else ""
    longest, room = _shares(now, memory)
    messages = [m for m in now.history[covered(now.history) : cut.covers] if m.visibility != "user"]
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
        system=(Block(INSTRUCTIONS),),
        messages=(Message("user", (Text("\n\n".join(pieces)),), "prompt"),),
        settings=Settings(max_output_tokens=longest),
    )


def _shares(now: Situation, memory: str) -> tuple[int, int | None]:
    """Tokens of the window for the summary and for the conversation that it is made from."""
    if now.window is None:
        return now.policy.summary_tokens, None
    longest = min(now.policy.summary_tokens, now.window // 4)
    spare = min(2_000, now.window // 8)  # our estimate is one
    room = now.window - longest - spare - estimate_text(INSTRUCTIONS) - estimate_text(memory)
    return longest, max(100, room)


def transcript(messages: Sequence[Message], *, result_length: int, room: int | None) -> str:
    """Messages as plain text, the newest that fit into `room` tokens; of one at least a part."""
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
                lines.append("[earlier messages are left out]")
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
                pass  # what came of it is in the answer
    return "\n".join(lines)


def _shorten(text: str, length: int) -> str:
    if len(text) <= length:
        return text
    return f"{text[: length * 2 // 3]} […] {text[len(text) - length // 3 :]}"
