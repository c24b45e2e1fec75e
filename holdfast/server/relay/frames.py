"""Messages between two replicas. Pure.

The subscriber sends one `Ask` per message. The publisher answers with lists of `Answer`: everything
of one tick, for all chats.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias, Union

from msgspec import Meta, Struct, json

from holdfast.live.broadcast import AttemptReset, DeltaBatch, LiveCursor
from holdfast.live.buffer import AttemptId, RelayDelta
from holdfast.server.json import from_json, to_json

PATH: Final = "/internal/relay"
"""Path of the relay on every replica."""
LONGEST_ASK: Final = 16 * 1024
"""Longest message of a subscriber in bytes."""
LONGEST_ANSWER: Final = 64 * 1024 * 1024
"""Longest message of a publisher in bytes: an attempt keeps up to a megabyte of tool output, and
all that the model wrote."""

ENCODER: Final = json.Encoder()
Place: TypeAlias = tuple[int, int, int]
"""Identifies an attempt: epoch, history version, attempt."""


class Subscribe(Struct, frozen=True, array_like=True, tag="+"):
    """Subscribe to a chat, from the start or after the cursor that the subscriber has."""

    number: int
    """Number of the subscription, repeated in each answer to it."""
    chat: str
    place: Place | None = None
    seq: int = 0

    @property
    def after(self) -> LiveCursor | None:
        """The cursor to continue after; None for the start."""
        return None if self.place is None else LiveCursor(AttemptId(*self.place), self.seq)


class Unsubscribe(Struct, frozen=True, array_like=True, tag="-"):
    """End a subscription, after sending what is pending."""

    number: int


class Said(Struct, frozen=True, array_like=True, tag="said"):
    """Deltas of an attempt."""

    number: int
    place: Place
    runs: Annotated[tuple[RelayDelta, ...], Meta(min_length=1)]


class Over(Struct, frozen=True, array_like=True, tag="over"):
    """The attempt has ended, or the subscriber's copy of it cannot be continued."""

    number: int
    place: Place


class Left(Struct, frozen=True, array_like=True, tag="left"):
    """The last answer to a subscription."""

    number: int


Ask: TypeAlias = Union[Subscribe, Unsubscribe]
Answer: TypeAlias = Union[Said, Over, Left]


def place_of(attempt: AttemptId) -> Place:
    """An attempt as it is sent."""
    return attempt.epoch, attempt.history_version, attempt.attempt


def subscription(number: int, chat: str, after: LiveCursor | None) -> Subscribe:
    """The request for a chat, after a cursor or from the start."""
    if after is None:
        return Subscribe(number, chat)
    return Subscribe(number, chat, place_of(after.attempt), after.seq)


def answer_of(number: int, taken: DeltaBatch | AttemptReset) -> Answer:
    """The answer that carries a batch or a reset."""
    if isinstance(taken, DeltaBatch):
        return Said(number, place_of(taken.attempt), taken.runs)
    return Over(number, place_of(taken.attempt))


def ask_to_json(ask: Ask) -> bytes:
    """Encode a message of a subscriber."""
    return to_json(ask)


def ask_of(data: bytes) -> Ask:
    """Decode a message of a subscriber. Raises `msgspec.DecodeError`."""
    ask: Ask = from_json(data, Ask)
    return ask


class Message:
    """Answers that are sent together in one message."""

    def __init__(self) -> None:
        self._written = bytearray()

    def __len__(self) -> int:
        """Bytes of the answers so far."""
        return len(self._written)

    def add(self, answer: Answer) -> None:
        """Append an answer."""
        start = len(self._written)
        try:
            ENCODER.encode_into(answer, self._written, -1)
        except UnicodeEncodeError:
            del self._written[start:]
            self._written += to_json(answer)
        self._written += b","

    def bytes(self) -> bytes:
        """The encoded message."""
        return b"[" + self._written[:-1] + b"]"


def answers_of(data: bytes) -> list[Answer]:
    """Decode a message of a publisher. Raises `msgspec.DecodeError`."""
    answers: list[Answer] = from_json(data, list[Answer])
    return answers
