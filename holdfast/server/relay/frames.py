"""What two replicas say to each other. Pure.

Whoever asks sends one `Ask` a message. Whoever is asked answers with lists of `Answer`: everything
of one tick, whatever the chat.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias, Union

from msgspec import Meta, Struct, json

from holdfast.live.deltas import Batch, Cursor, Reset
from holdfast.live.replay import Attempt, Run
from holdfast.server.wire import from_json, to_json

PATH: Final = "/internal/relay"
LONGEST_ASK: Final = 16 * 1024
LONGEST_ANSWER: Final = 64 * 1024 * 1024
"""Bytes of a message: an attempt keeps a megabyte of output, and all that a model says."""

ENCODER: Final = json.Encoder()
Place: TypeAlias = tuple[int, int, int]
"""An attempt: epoch, history version, attempt."""


class Subscribe(Struct, frozen=True, array_like=True, tag="+"):
    """Tell me of a chat, from the start or behind what I have."""

    number: int
    """What the answers to it are called."""
    chat: str
    place: Place | None = None
    seq: int = 0

    @property
    def after(self) -> Cursor | None:
        return None if self.place is None else Cursor(Attempt(*self.place), self.seq)


class Unsubscribe(Struct, frozen=True, array_like=True, tag="-"):
    """Tell me what there is, and then no more."""

    number: int


class Said(Struct, frozen=True, array_like=True, tag="said"):
    number: int
    place: Place
    runs: Annotated[tuple[Run, ...], Meta(min_length=1)]


class Over(Struct, frozen=True, array_like=True, tag="over"):
    """This attempt has ended, or what you have of it cannot be continued."""

    number: int
    place: Place


class Left(Struct, frozen=True, array_like=True, tag="left"):
    """The last that is said of a subscription."""

    number: int


Ask: TypeAlias = Union[Subscribe, Unsubscribe]
Answer: TypeAlias = Union[Said, Over, Left]


def place_of(attempt: Attempt) -> Place:
    return attempt.epoch, attempt.history_version, attempt.attempt


def subscription(number: int, chat: str, after: Cursor | None) -> Subscribe:
    if after is None:
        return Subscribe(number, chat)
    return Subscribe(number, chat, place_of(after.attempt), after.seq)


def answer_of(number: int, taken: Batch | Reset) -> Answer:
    if isinstance(taken, Batch):
        return Said(number, place_of(taken.attempt), taken.runs)
    return Over(number, place_of(taken.attempt))


def ask_to_json(ask: Ask) -> bytes:
    return to_json(ask)


def ask_of(data: bytes) -> Ask:
    """Raises `msgspec.DecodeError`."""
    ask: Ask = from_json(data, Ask)
    return ask


class Message:
    """Answers, as they are sent together."""

    def __init__(self) -> None:
        self._written = bytearray()

    def __len__(self) -> int:
        """Bytes so far."""
        return len(self._written)

    def add(self, answer: Answer) -> None:
        start = len(self._written)
        try:
            ENCODER.encode_into(answer, self._written, -1)
        except UnicodeEncodeError:
            del self._written[start:]
            self._written += to_json(answer)
        self._written += b","

    def bytes(self) -> bytes:
        return b"[" + self._written[:-1] + b"]"


def answers_of(data: bytes) -> list[Answer]:
    """Raises `msgspec.DecodeError`."""
    answers: list[Answer] = from_json(data, list[Answer])
    return answers
