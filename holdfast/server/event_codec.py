"""Events of a stream as they are sent: an id, a name, and JSON. Pure.

The id is the cursor: a reconnecting reader sends the last one. `wire_of` and `event_of` are each
other's inverse for every event of a chat.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, Union, assert_never

import msgspec
from msgspec import Struct

from holdfast.chat.listing import ReaderChat
from holdfast.chat.rows import Queued, Stored
from holdfast.chat.snapshots import Pending, Snapshot
from holdfast.chat.stream import (
    ActionsChanged,
    ChatChanged,
    Cursor,
    LiveDelta,
    MessageChanged,
    QueueChanged,
    Reset,
    StreamEvent,
    Superseded,
)
from holdfast.live.delta_fragments import Fragment
from holdfast.server.chat_list_stream import (
    ChatDeleted,
    ChatListed,
    ChatListEvent,
    ListCursor,
    ListStart,
    ListVoid,
)
from holdfast.server.wire_format import from_json, to_json

StreamEndReason: TypeAlias = Literal["shutdown", "slow", "failed", "revoked", "deleted"]
"""Why the server ends a stream."""


class StreamEnd(Struct, frozen=True):
    """The last event of a stream that the server ends."""

    reason: StreamEndReason
    reconnect: bool
    """Whether the reader should reconnect with the last id."""


END_SHUTDOWN: Final = StreamEnd("shutdown", True)
END_SLOW: Final = StreamEnd("slow", True)
"""End for a reader that read nothing for too long."""
END_FAILED: Final = StreamEnd("failed", True)
"""End after an internal error of the server."""
END_REVOKED: Final = StreamEnd("revoked", False)
END_DELETED: Final = StreamEnd("deleted", False)

HEARTBEAT_EVENT: Final = "beat"
"""A heartbeat; with an id, it also carries the reader's cursor."""

ServerEvent: TypeAlias = Union[StreamEvent, ChatListEvent, StreamEnd]
"""Any event that a stream sends."""


class WireEvent(Struct, frozen=True, gc=False):
    """An encoded event, for any kind of connection."""

    id: str | None
    """Cursor after the event; None if it does not move the cursor."""
    event: str
    data: bytes
    """JSON, in one line."""


class NumbersData(Struct, frozen=True):
    """Data of a `superseded` event: numbers of the superseded messages."""

    numbers: tuple[int, ...]


class QueueData(Struct, frozen=True):
    """Data of a `queue` event: the whole queue, in order."""

    queue: tuple[Queued, ...]


class ActionsData(Struct, frozen=True):
    """Data of an `actions` event: all pending actions."""

    actions: tuple[Pending, ...]


class DeltaData(Struct, frozen=True, gc=False):
    """Data of a `delta` event. `epoch`, `history_version` and `attempt` identify the attempt."""

    epoch: int
    history_version: int
    attempt: int
    first: int
    last: int
    fragment: Fragment


class ResetData(Struct, frozen=True):
    """Data of a `reset` event: which state the reader has to discard."""

    what: Literal["live", "history"]
    more_before: int | None = None


class DeletedData(Struct, frozen=True):
    """Data of a `deleted` event: id of the chat."""

    id: str


PAYLOADS: Final[Mapping[str, Any]] = {
    "chat": Snapshot,
    "message": Stored,
    "superseded": NumbersData,
    "queue": QueueData,
    "actions": ActionsData,
    "delta": DeltaData,
    "reset": ResetData,
    "end": StreamEnd,
}
"""Type of the data of each event of a chat's stream, by name."""

LIST_PAYLOADS: Final[Mapping[str, Any]] = {
    "chat": ReaderChat,
    "deleted": DeletedData,
    "reset": ResetData,
    "end": StreamEnd,
}
"""Type of the data of each event of the chat-list stream, by name."""


def wire_of(event: ServerEvent) -> WireEvent:
    """Encode an event."""
    if type(event) is LiveDelta:  # nearly all are
        at = event.cursor
        delta = DeltaData(at.epoch, at.history, at.attempt, event.first, event.last, event.fragment)
        return WireEvent(str(at), "delta", to_json(delta))
    if isinstance(event, StreamEnd):
        return WireEvent(None, "end", to_json(event))
    name, data = _name_and_data(event)
    return WireEvent(str(event.cursor), name, to_json(data))


def _name_and_data(event: StreamEvent | ChatListEvent) -> tuple[str, object]:
    match event:
        case ChatChanged(_, chat) | ChatListed(_, chat):
            return "chat", chat
        case MessageChanged(_, message):
            return "message", message
        case Superseded(_, numbers):
            return "superseded", NumbersData(numbers)
        case QueueChanged(_, queue):
            return "queue", QueueData(queue)
        case ActionsChanged(_, actions):
            return "actions", ActionsData(actions)
        case Reset(_, what, more_before):
            return "reset", ResetData(what, more_before)
        case ListVoid():
            return "reset", ResetData("history")
        case ChatDeleted(_, id):
            return "deleted", DeletedData(id)
        case ListStart():
            return HEARTBEAT_EVENT, None
        case LiveDelta():
            raise AssertionError("written above")
        case _:
            assert_never(event)


def event_of(wire: WireEvent) -> StreamEvent | StreamEnd | None:
    """Decode an event of a chat's stream; None for one that this version does not know."""
    data = _data(wire, PAYLOADS)
    if data is None or isinstance(data, StreamEnd):
        return data
    return _event(Cursor.parse(_id(wire)), data)


def list_event_of(wire: WireEvent) -> ChatListEvent | StreamEnd | None:
    """Decode an event of the chat-list stream; None for one that this version does not know."""
    if wire.event == HEARTBEAT_EVENT:
        return None if wire.id is None else ListStart(ListCursor.parse(wire.id))
    data = _data(wire, LIST_PAYLOADS)
    if data is None or isinstance(data, StreamEnd):
        return data
    cursor = ListCursor.parse(_id(wire))
    match data:
        case ReaderChat():
            return ChatListed(cursor, data)
        case DeletedData(id):
            return ChatDeleted(cursor, id)
        case _:
            return ListVoid(cursor)


def _data(wire: WireEvent, payloads: Mapping[str, Any]) -> object | None:
    kind = payloads.get(wire.event)
    return None if kind is None else from_json(wire.data, kind)


def _id(wire: WireEvent) -> str:
    if wire.id is None:
        raise msgspec.ValidationError(f"a {wire.event!r} without an id")
    return wire.id


def _event(cursor: Cursor, data: object) -> StreamEvent:
    match data:
        case Snapshot():
            return ChatChanged(cursor, data)
        case Stored():
            return MessageChanged(cursor, data)
        case NumbersData(numbers):
            return Superseded(cursor, numbers)
        case QueueData(queue):
            return QueueChanged(cursor, queue)
        case ActionsData(actions):
            return ActionsChanged(cursor, actions)
        case DeltaData(first=first, last=last, fragment=fragment):
            return LiveDelta(cursor, first, last, fragment)
        case ResetData(what, more_before):
            return Reset(cursor, what, more_before)
        case _:
            raise AssertionError(f"{data!r:.80} is not the data of an event")
