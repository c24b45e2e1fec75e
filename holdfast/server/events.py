"""Events of a stream as they are sent: an id, a name, and JSON. Pure.

The id is the cursor: a reconnecting reader sends the last one. `wire_of` and `event_of` are each
other's inverse for every event of a chat.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, Union, assert_never

import msgspec
from msgspec import Struct

from holdfast.chat.listing import Shown
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
from holdfast.live.fragments import Fragment
from holdfast.server.chat_list_stream import (
    Begun,
    ChatDeleted,
    ChatListed,
    ListVoid,
    Moment,
    RosterEvent,
)
from holdfast.server.json import from_json, to_json

Reason: TypeAlias = Literal["shutdown", "slow", "failed", "revoked", "deleted"]
"""Why the server ends a stream."""


class End(Struct, frozen=True):
    """The last event of a stream that the server ends."""

    reason: Reason
    reconnect: bool
    """Whether the reader should reconnect with the last id."""


SHUTDOWN: Final = End("shutdown", True)
SLOW: Final = End("slow", True)
"""The reader read nothing for too long."""
FAILED: Final = End("failed", True)
"""An internal error of the server."""
REVOKED: Final = End("revoked", False)
DELETED: Final = End("deleted", False)

BEAT: Final = "beat"
"""A heartbeat; with an id, it also carries the reader's cursor."""

Said: TypeAlias = Union[StreamEvent, RosterEvent, End]
"""Any event that a stream sends."""


class Wire(Struct, frozen=True, gc=False):
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
    "end": End,
}
"""Type of the data of each event of a chat's stream, by name."""

LIST_PAYLOADS: Final[Mapping[str, Any]] = {
    "chat": Shown,
    "deleted": DeletedData,
    "reset": ResetData,
    "end": End,
}
"""Type of the data of each event of the chat-list stream, by name."""


def wire_of(said: Said) -> Wire:
    """Encode an event."""
    if type(said) is LiveDelta:  # nearly all are
        at = said.cursor
        delta = DeltaData(at.epoch, at.history, at.attempt, said.first, said.last, said.fragment)
        return Wire(str(at), "delta", to_json(delta))
    if isinstance(said, End):
        return Wire(None, "end", to_json(said))
    name, data = _named(said)
    return Wire(str(said.cursor), name, to_json(data))


def _named(said: StreamEvent | RosterEvent) -> tuple[str, object]:
    match said:
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
        case Begun():
            return BEAT, None
        case LiveDelta():
            raise AssertionError("written above")
        case _:
            assert_never(said)


def event_of(wire: Wire) -> StreamEvent | End | None:
    """Decode an event of a chat's stream; None for one that this version does not know."""
    data = _data(wire, PAYLOADS)
    if data is None or isinstance(data, End):
        return data
    return _said(Cursor.parse(_id(wire)), data)


def list_event_of(wire: Wire) -> RosterEvent | End | None:
    """Decode an event of the chat-list stream; None for one that this version does not know."""
    if wire.event == BEAT:
        return None if wire.id is None else Begun(Moment.parse(wire.id))
    data = _data(wire, LIST_PAYLOADS)
    if data is None or isinstance(data, End):
        return data
    cursor = Moment.parse(_id(wire))
    match data:
        case Shown():
            return ChatListed(cursor, data)
        case DeletedData(id):
            return ChatDeleted(cursor, id)
        case _:
            return ListVoid(cursor)


def _data(wire: Wire, payloads: Mapping[str, Any]) -> object | None:
    kind = payloads.get(wire.event)
    return None if kind is None else from_json(wire.data, kind)


def _id(wire: Wire) -> str:
    if wire.id is None:
        raise msgspec.ValidationError(f"a {wire.event!r} without an id")
    return wire.id


def _said(cursor: Cursor, data: object) -> StreamEvent:
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
