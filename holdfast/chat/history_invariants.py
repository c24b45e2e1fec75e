"""Invariants of a history: calls and their results, superseded messages, checkpoints.

Pure: takes numbered messages and yields complaints.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from holdfast.kernel.messages import (
    TRANSPARENT,
    Checkpoint,
    Message,
    MessageKind,
    ToolCall,
    ToolResult,
)
from holdfast.kernel.model_context import without_calls

Complaint: TypeAlias = tuple[int, str, str]
"""Number of the violated invariant, the row, and what is wrong with it."""
Numbered: TypeAlias = tuple[int, Message]

ROLES: Final[Mapping[MessageKind, str]] = {
    "prompt": "user",
    "answer": "assistant",
    "results": "tool",
}
"""Role of each message kind that people, models and tools write. Holdfast writes the others."""


class Walk:
    """A walk along the live history that tracks calls and their results."""

    def __init__(self) -> None:
        self.called_in: dict[str, int] = {}
        """Number of the message with each call that models see, by call id."""
        self.results: dict[str, ToolResult] = {}
        self.open: dict[str, int] = {}
        """Number of the message with each call that has no result so far, by call id."""
        self.has_open_calls = [False]
        """Whether a call was open after each number of messages."""
        self._ids: dict[str, int] = {}

    def add(self, number: int, message: Message) -> Iterator[Complaint]:
        """Advance by one message; yield what is wrong with it."""
        yield from _shape(number, message)
        yield from self._check_ids(number, message)
        if message.visibility != "user":
            if message.role == "tool":
                yield from self._add_results(number, message)
            elif message.role == "assistant" or message.kind not in TRANSPARENT:
                yield from self._add_answer(number, message)
        self.has_open_calls.append(bool(self.open))

    def _check_ids(self, number: int, message: Message) -> Iterator[Complaint]:
        for call in _own_calls(message):
            if call.id in self._ids:
                first_number = self._ids[call.id]
                yield (
                    3,
                    f"message {number}",
                    f"call {call.id} has the id of one in message {first_number}",
                )
            self._ids.setdefault(call.id, number)

    def _add_results(self, number: int, message: Message) -> Iterator[Complaint]:
        where = f"message {number}"
        for result in message.results:
            id = result.call_id
            if id in self.open:
                del self.open[id]
            elif id in self.results:
                yield 2, where, f"call {id} has a result already"
            elif id in self.called_in:
                yield 2, where, f"the result of call {id} comes too late"
            else:
                yield 2, where, f"no message asks for call {id}, and this is a result of it"
            self.results.setdefault(id, result)

    def _add_answer(self, number: int, message: Message) -> Iterator[Complaint]:
        for id, called_in in self.open.items():
            yield 2, f"message {called_in}", f"call {id} has no result before message {number}"
        self.open = {}
        if message.role == "assistant":
            self.open = {call.id: number for call in _own_calls(message)}
            for id in self.open:
                self.called_in.setdefault(id, number)


def _own_calls(message: Message) -> Iterator[ToolCall]:
    return (call for call in message.calls if not call.provider_executed)


def _shape(number: int, message: Message) -> Iterator[Complaint]:
    """Yield what a provider would reject about a message at any position."""
    where = f"message {number}"
    expected_role = ROLES.get(message.kind, "user or system")
    if message.role not in expected_role:
        yield (
            4,
            where,
            f"it is {message.kind}, of the {expected_role}, and its role is {message.role}",
        )
    elif message.role == "tool":
        if len(message.results) < len(message.parts):
            yield 4, where, "a message of results has something else in it"
    elif message.evaluation is not None and sum(message.evaluation.counts) != len(message.parts):
        yield 4, where, "its functions returned another number of parts than it has"
    elif message.role != "assistant":
        if without_calls(message) != message:
            yield 4, where, "only answers have calls, and only messages of results have results"
    elif message.visibility == "user":
        return  # may show a call that was still being written, and why it was not run
    elif any(not result.provider_executed for result in message.results):
        yield 4, where, "an answer has results that are not its provider's"


# --- Edits --------------------------------------------------------------------------------------


def edits(messages: Iterable[tuple[int, MessageKind, bool]]) -> Iterator[Complaint]:
    """Yield what is wrong with superseded messages.

    An edit supersedes a prompt with all messages after it, and appends a prompt in its place.
    `messages` are all of them, as number, kind, and whether superseded.
    """
    last_number, was_superseded = 0, False
    for number, kind, is_superseded in messages:
        where = f"message {number}"
        if is_superseded and not was_superseded and kind != "prompt":
            yield 1, where, f"it is superseded from here on, and is {kind}"
        if was_superseded and not is_superseded and kind != "prompt":
            yield 1, where, f"it stands for what is superseded, and is not a prompt but {kind}"
        last_number, was_superseded = number, is_superseded
    if was_superseded:
        yield 1, f"message {last_number}", "it is superseded, and nothing stands in its place"


# --- Checkpoints --------------------------------------------------------------------------------


def checkpoints(live: Iterable[Numbered], walk: Walk) -> Iterator[Complaint]:
    """Yield what is wrong with the ranges that checkpoints cover."""
    prefix = _Prefix()
    for position, (number, message) in enumerate(live):
        if message.kind == "checkpoint" and message.checkpoint is not None:
            for description in _check_ranges(prefix, position, message.checkpoint, walk):
                yield 7, f"message {number}", description
        prefix.add(position, number, message)


class _Prefix:
    """The history before a checkpoint, indexed so that the cost of a check does not grow."""

    def __init__(self) -> None:
        self.prompts: dict[int, int] = {}
        """Message numbers of prompts, by position."""
        self.positions: list[int] = []
        """Positions of prompts."""
        self.context: set[int] = set()
        """Positions of context messages."""
        self.last_answer = -1
        """Position of the last answer."""

    def add(self, position: int, number: int, message: Message) -> None:
        """Advance by one message."""
        if message.visibility != "user":
            if message.kind == "prompt":
                self.prompts[position] = number
                self.positions.append(position)
            elif message.kind == "answer":
                self.last_answer = position
            elif message.kind == "context":
                self.context.add(position)


def _check_ranges(
    prefix: _Prefix, position: int, checkpoint: Checkpoint, walk: Walk
) -> Iterator[str]:
    if not (0 <= checkpoint.covers <= position and 0 <= checkpoint.trims <= position):
        yield (
            f"it covers {checkpoint.covers} messages and shortens {checkpoint.trims}, "
            f"and there are {position} before it"
        )
        return
    if walk.has_open_calls[checkpoint.covers]:
        yield "it covers a call without its result"
    if checkpoint.pinned is not None and (
        checkpoint.pinned >= checkpoint.covers or checkpoint.pinned not in prefix.prompts
    ):
        yield f"it keeps the message at {checkpoint.pinned}, which is not a prompt that it covers"
    for at in checkpoint.context:
        if at >= checkpoint.covers or at not in prefix.context:
            yield f"it keeps the message at {at}, which is not context that it covers"
    first = bisect_left(prefix.positions, prefix.last_answer)
    newest = len(prefix.positions) - 1
    for index in range(max(0, min(first, newest)), newest + 1):
        at = prefix.positions[index]
        if at >= checkpoint.covers:
            return
        if at != checkpoint.pinned:
            prompt = "an unanswered prompt" if at > prefix.last_answer else "the newest prompt"
            yield f"it covers {prompt}, message {prefix.prompts[at]}, and does not keep it"
