"""Reads the messages of a request: what was asked last, and how much of it is done. Pure.

Also the two requests that are about a conversation: for its title, and for a summary of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from holdfast.kernel.messages import File, Message, ToolCall, ToolResult, Value
from holdfast.kernel.model import Request
from holdfast.kernel.summary_checkpoint import SUMMARY_INSTRUCTIONS, SUMMARY_SECTIONS
from holdfast.kernel.title_request import is_title_request, prompt_of
from holdfast.providers.demo.texts import shortened

MAX_LINES: Final = 8
"""Lines of a section of a summary, which must be shorter than what it replaces."""
DONE: Final = "Steps of the last request that are done:"
"""How a summary counts answers that it replaces."""


class Progress(Value, frozen=True):
    """The newest prompt, and what has been done about it."""

    prompt: str = ""
    files: tuple[File, ...] = ()
    steps: int = 0
    """Answers that called tools."""
    outcomes: tuple[tuple[ToolCall, ToolResult], ...] = ()
    """Calls of the last such answer, with their results."""
    cut: str = ""
    """Text of an answer that was cut by its length, and is to be continued."""
    first: bool = True
    """Whether there was no earlier answer in the conversation."""
    repair: bool = False
    """Whether an answer did not have the required form."""


def progress(messages: Sequence[Message]) -> Progress:
    starts = [index for index, message in enumerate(messages) if starts_turn(message)]
    if not starts:
        return Progress()
    before, prompt, since = messages[: starts[-1]], messages[starts[-1]], messages[starts[-1] + 1 :]
    steps = steps_replaced(before[-1]) if before else 0
    latest: list[Message] = []
    calls: dict[str, ToolCall] = {}
    for message in since:
        latest.append(message)
        if message.role == "assistant" and any(
            not call.provider_executed for call in message.calls
        ):
            steps, latest, calls = steps + 1, [], {call.id: call for call in message.calls}
    results = [result for message in latest for result in message.results]
    return Progress(
        prompt=prompt.text,
        files=tuple(part for part in prompt.parts if isinstance(part, File)),
        steps=steps,
        outcomes=tuple((calls[each.call_id], each) for each in results if each.call_id in calls),
        cut="".join(message.text for message in latest if message.finish == "length"),
        first=not steps and not any(m.role == "assistant" or m.checkpoint for m in before),
        repair=any(message.why == "repair" for message in since),
    )


def starts_turn(message: Message) -> bool:
    return message.kind in ("prompt", "injected") and message.why not in ("recovery", "repair")


def steps_replaced(message: Message) -> int:
    """Steps that a summary replaces, if the prompt after it was pinned."""
    pinned = message.checkpoint is not None and message.checkpoint.pinned is not None
    count = re.search(rf"{DONE} (\d{{1,6}})", message.text)
    return int(count[1]) if pinned and count else 0


def title_or_summary(request: Request) -> str | None:
    """The title or the summary that is requested; None for any other request."""
    if is_title_request(request):
        title = shortened(prompt_of(request), 60)
        return title[:1].upper() + title[1:] or "A conversation"
    if any(block.text == SUMMARY_INSTRUCTIONS for block in request.system):
        return summary("\n".join(message.text for message in request.messages))
    return None


def summary(transcript: str) -> str:
    """The required sections. Lines of an earlier summary in the transcript are kept."""
    prompts = re.findall(r"^(?:user: |- Asked: )(.+)$", transcript, re.MULTILINE)
    paths = re.findall(
        r'^(?:- File: |assistant calls \w+\(\{"path": ")([^"\n]+)', transcript, re.MULTILINE
    )
    sections = {
        "Goal": shortened(prompts[-1], 200) if prompts else "",
        "State of work": newest("- Asked: ", prompts),
        "Files touched": newest("- File: ", paths),
        "Next steps": f"Answer the newest message.\n{DONE} {steps_in(transcript)}.",
    }
    return "\n".join(
        f"## {name}\n{sections.get(name) or 'None known.'}" for name in SUMMARY_SECTIONS
    )


def newest(label: str, texts: Sequence[str]) -> str:
    lines = dict.fromkeys(f"{label}{shortened(text)}" for text in texts)
    return "\n".join([*lines][-MAX_LINES:])


def steps_in(transcript: str) -> int:
    """Answers with calls since the last prompt, with those that an earlier summary counts."""
    latest = re.split(r"^user: ", transcript, flags=re.MULTILINE)[-1]
    replaced = re.search(rf"^{DONE} (\d{{1,6}})", latest, re.MULTILINE)
    answers = re.findall(r"^assistant calls .*(?:\nassistant calls .*)*", latest, re.MULTILINE)
    return len(answers) + (int(replaced[1]) if replaced else 0)
