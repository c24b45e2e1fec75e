"""Messages between two replicas. Pure.

The subscriber sends one `SubscriberFrame` per message. The publisher answers with lists of
`PublisherFrame`: everything of one tick, for all chats.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias, Union

from msgspec import Meta, Struct, json

from holdfast.live.broadcast import AttemptReset, DeltaBatch, LiveCursor
from holdfast.live.buffer import AttemptId, RelayDelta
from holdfast.server.wire_format import from_json, to_json

RELAY_PATH: Final = "/internal/relay"
"""Path of the relay on every replica."""
MAX_SUBSCRIBER_MESSAGE: Final = 16 * 1024
"""Longest message of a subscriber in bytes."""
MAX_PUBLISHER_MESSAGE: Final = 64 * 1024 * 1024
"""Longest message of a publisher in bytes: an attempt keeps up to a megabyte of tool output, and
all that the model wrote."""

_ENCODER: Final = json.Encoder()
AttemptKey: TypeAlias = tuple[int, int, int]
"""Identifies an attempt: epoch, history version, attempt."""


class Subscribe(Struct, frozen=True, array_like=True, tag="+"):
    """Subscribe to a chat, from the start or after the cursor that the subscriber has."""

    number: int
    """Number of the subscription, repeated in each frame that answers it."""
    chat: str
    place: AttemptKey | None = None
    seq: int = 0

    @property
    def after(self) -> LiveCursor | None:
        """The cursor to continue after; None for the start."""
        return None if self.place is None else LiveCursor(AttemptId(*self.place), self.seq)


class Unsubscribe(Struct, frozen=True, array_like=True, tag="-"):
    """End a subscription, after sending what is pending."""

    number: int


class AttemptDeltas(Struct, frozen=True, array_like=True, tag="said"):
    """Deltas of an attempt."""

    number: int
    place: AttemptKey
    runs: Annotated[tuple[RelayDelta, ...], Meta(min_length=1)]


class AttemptOver(Struct, frozen=True, array_like=True, tag="over"):
    """The attempt has ended, or the subscriber's copy of it cannot be continued."""

    number: int
    place: AttemptKey


class SubscriptionEnd(Struct, frozen=True, array_like=True, tag="left"):
    """The last frame of a subscription."""

    number: int


SubscriberFrame: TypeAlias = Union[Subscribe, Unsubscribe]
"""A frame that a subscriber sends."""
PublisherFrame: TypeAlias = Union[AttemptDeltas, AttemptOver, SubscriptionEnd]
"""A frame that a publisher sends."""


def attempt_key_of(attempt: AttemptId) -> AttemptKey:
    """An attempt as it is sent."""
    return attempt.epoch, attempt.history_version, attempt.attempt


def subscribe_frame(number: int, chat: str, after: LiveCursor | None) -> Subscribe:
    """The frame that subscribes to a chat, after a cursor or from the start."""
    if after is None:
        return Subscribe(number, chat)
    return Subscribe(number, chat, attempt_key_of(after.attempt), after.seq)


def publisher_frame_of(number: int, output: DeltaBatch | AttemptReset) -> PublisherFrame:
    """The frame that carries a batch or a reset."""
    if isinstance(output, DeltaBatch):
        return AttemptDeltas(number, attempt_key_of(output.attempt), output.runs)
    return AttemptOver(number, attempt_key_of(output.attempt))


def encode_subscriber_frame(frame: SubscriberFrame) -> bytes:
    """Encode a message of a subscriber."""
    return to_json(frame)


def decode_subscriber_frame(data: bytes) -> SubscriberFrame:
    """Decode a message of a subscriber. Raises `msgspec.DecodeError`."""
    frame: SubscriberFrame = from_json(data, SubscriberFrame)
    return frame


class FrameBatch:
    """Frames of a publisher that are sent together in one message."""

    def __init__(self) -> None:
        self._written = bytearray()

    def __len__(self) -> int:
        """Bytes of the frames so far."""
        return len(self._written)

    def add(self, frame: PublisherFrame) -> None:
        """Append a frame."""
        start = len(self._written)
        try:
            _ENCODER.encode_into(frame, self._written, -1)
        except UnicodeEncodeError:
            del self._written[start:]
            self._written += to_json(frame)
        self._written += b","

    def bytes(self) -> bytes:
        """The encoded message."""
        return b"[" + self._written[:-1] + b"]"


def decode_publisher_frames(data: bytes) -> list[PublisherFrame]:
    """Decode a message of a publisher. Raises `msgspec.DecodeError`."""
    frames: list[PublisherFrame] = from_json(data, list[PublisherFrame])
    return frames
