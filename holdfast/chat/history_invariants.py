"""Invariants of a history: calls and their results, superseded messages, checkpoints.

Pure: numbered messages in, complaints out.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from holdfast.kernel.context import without_calls
from holdfast.kernel.messages import (
    TRANSPARENT,
    Checkpoint,
    Message,
    MessageKind,
    ToolCall,
    ToolResult,
)

Complaint: TypeAlias = tuple[int, str, str]
"""Number of the violated invariant, the row, and what is wrong with it."""
Numbered: TypeAlias = tuple[int, Message]

ROLES: Final[Mapping[MessageKind, str]] = {
    "prompt": "user",
    "answer": "assistant",
    "results": "tool",
}
"""Role of the message kinds that people and models write. Holdfast writes the others."""


class Walk:
    """A walk along the live history that tracks calls and their results."""

    def __init__(self) -> None:
        self.asked: dict[str, int] = {}
        """Message number of every call that models see, by call id."""
        self.results: dict[str, ToolResult] = {}
        self.open: dict[str, int] = {}
        """Message number of every call without a result so far, by call id."""
        self.waits = [False]
        """Whether a call was open after so many messages."""
        self._ids: dict[str, int] = {}

    def add(self, number: int, message: Message) -> Iterator[Complaint]:
        """Advance by one message; yield what is wrong with it."""
        yield from _shape(number, message)
        yield from self._unique(number, message)
        if message.visibility != "user":
            if message.role == "tool":
                yield from self._take(number, message)
            elif message.role == "assistant" or message.kind not in TRANSPARENT:
                yield from self._go_on(number, message)
        self.waits.append(bool(self.open))

    def _unique(self, number: int, message: Message) -> Iterator[Complaint]:
        for call in _ours(message):
            if call.id in self._ids:
                first = self._ids[call.id]
                yield 3, f"message {number}", f"call {call.id} has the id of one in message {first}"
            self._ids.setdefault(call.id, number)

    def _take(self, number: int, message: Message) -> Iterator[Complaint]:
        where = f"message {number}"
        for result in message.results:
            id = result.call_id
            if id in self.open:
                del self.open[id]
            elif id in self.results:
                yield 2, where, f"call {id} has a result already"
            elif id in self.asked:
                yield 2, where, f"the result of call {id} comes too late"
            else:
                yield 2, where, f"no message asks for call {id}, and this is a result of it"
            self.results.setdefault(id, result)

    def _go_on(self, number: int, message: Message) -> Iterator[Complaint]:
        for id, asked in self.open.items():
            yield 2, f"message {asked}", f"call {id} has no result before message {number}"
        self.open = {}
        if message.role == "assistant":
            self.open = {call.id: number for call in _ours(message)}
            for id in self.open:
                self.asked.setdefault(id, number)


def _ours(message: Message) -> Iterator[ToolCall]:
    return (call for call in message.calls if not call.provider_executed)


def _shape(number: int, message: Message) -> Iterator[Complaint]:
    """Yield what a provider would reject about a message, whatever its position."""
    where = f"message {number}"
    whose = ROLES.get(message.kind, "user or system")
    if message.role not in whose:
        yield 4, where, f"it is {message.kind}, of the {whose}, and its role is {message.role}"
    elif message.role == "tool":
        if len(message.results) < len(message.parts):
            yield 4, where, "a message of results has something else in it"
    elif message.role != "assistant":
        if without_calls(message) != message:
            yield 4, where, "only answers have calls, and only messages of results have results"
    elif message.visibility == "user":
        return  # may show a call that was still being written, and why it was not run
    elif any(not result.provider_executed for result in message.results):
        yield 4, where, "an answer has results that are not its provider's"


# --- Edits --------------------------------------------------------------------------------------


def edits(messages: Iterable[tuple[int, MessageKind, bool]]) -> Iterator[Complaint]:
    """Yield what is wrong with superseded messages. Takes all messages: kind, and superseded or
    not.

    An edit supersedes a prompt with all messages after it, and puts a prompt in its place.
    """
    last, gone_before = 0, False
    for number, kind, gone in messages:
        where = f"message {number}"
        if gone and not gone_before and kind != "prompt":
            yield 1, where, f"it is superseded from here on, and is {kind}"
        if gone_before and not gone and kind != "prompt":
            yield 1, where, f"it stands for what is superseded, and is not a prompt but {kind}"
        last, gone_before = number, gone
    if gone_before:
        yield 1, f"message {last}", "it is superseded, and nothing stands in its place"


# --- Checkpoints --------------------------------------------------------------------------------


def checkpoints(live: Iterable[Numbered], walk: Walk) -> Iterator[Complaint]:
    """Yield what is wrong with the ranges that checkpoints cover."""
    before = _Before()
    for position, (number, message) in enumerate(live):
        if message.kind == "checkpoint" and message.checkpoint is not None:
            for says in _cut(before, position, message.checkpoint, walk):
                yield 7, f"message {number}", says
        before.add(position, number, message)


class _Before:
    """The history before a checkpoint. Each checkpoint costs the same, however many there are."""

    def __init__(self) -> None:
        self.prompts: dict[int, int] = {}
        """Message numbers of prompts, by position."""
        self.positions: list[int] = []
        """Positions of prompts."""
        self.context: set[int] = set()
        """Positions of context messages."""
        self.answered = -1
        """Position of the last answer."""

    def add(self, position: int, number: int, message: Message) -> None:
        """Advance by one message."""
        if message.visibility != "user":
            if message.kind == "prompt":
                self.prompts[position] = number
                self.positions.append(position)
            elif message.kind == "answer":
                self.answered = position
            elif message.kind == "context":
                self.context.add(position)


def _cut(before: _Before, position: int, cut: Checkpoint, walk: Walk) -> Iterator[str]:
    if not (0 <= cut.covers <= position and 0 <= cut.trims <= position):
        yield (
            f"it covers {cut.covers} messages and shortens {cut.trims}, "
            f"and there are {position} before it"
        )
        return
    if walk.waits[cut.covers]:
        yield "it covers a call without its result"
    if cut.pinned is not None and (cut.pinned >= cut.covers or cut.pinned not in before.prompts):
        yield f"it keeps the message at {cut.pinned}, and that is not a prompt that it covers"
    for at in cut.context:
        if at >= cut.covers or at not in before.context:
            yield f"it keeps the message at {at}, and that is not context that it covers"
    first = bisect_left(before.positions, before.answered)
    newest = len(before.positions) - 1
    for place in range(max(0, min(first, newest)), newest + 1):
        at = before.positions[place]
        if at >= cut.covers:
            return
        if at != cut.pinned:
            what = "an unanswered prompt" if at > before.answered else "the newest prompt"
            yield f"it covers {what}, message {before.prompts[at]}, and does not keep it"
