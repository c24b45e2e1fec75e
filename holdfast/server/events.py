"""What goes over a stream, as programs elsewhere read it: an id, a name, and JSON. Pure.

The id is the cursor: who comes back shows the last one. `wire_of` and `event_of` are each other's
opposite for everything that a chat says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, Union, assert_never

import msgspec
from msgspec import Struct

from holdfast.chat.listing import Shown
from holdfast.chat.state import Queued, Stored
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
from holdfast.chat.view import Pending, Snapshot
from holdfast.live.fragments import Fragment
from holdfast.server.roster import (
    Begun,
    ChatDeleted,
    ChatListed,
    ListVoid,
    Moment,
    RosterEvent,
)
from holdfast.server.wire import from_json, to_json

Reason: TypeAlias = Literal["shutdown", "slow", "failed", "revoked", "deleted"]


class End(Struct, frozen=True):
    """The server ends the stream."""

    reason: Reason
    reconnect: bool
    """Whether it is worth coming back with the last id."""


SHUTDOWN: Final = End("shutdown", True)
SLOW: Final = End("slow", True)
"""The reader took nothing for too long."""
FAILED: Final = End("failed", True)
"""Something went wrong here."""
REVOKED: Final = End("revoked", False)
DELETED: Final = End("deleted", False)

BEAT: Final = "beat"
"""Says nothing but that the server is there; with an id, also where the reader is."""

Said: TypeAlias = Union[StreamEvent, RosterEvent, End]


class Wire(Struct, frozen=True, gc=False):
    """An event as it is written, whatever it is written to."""

    id: str | None
    """None when it leaves the reader where it is."""
    event: str
    data: bytes
    """JSON, in one line."""


class NumbersData(Struct, frozen=True):
    numbers: tuple[int, ...]


class QueueData(Struct, frozen=True):
    queue: tuple[Queued, ...]


class ActionsData(Struct, frozen=True):
    actions: tuple[Pending, ...]


class DeltaData(Struct, frozen=True, gc=False):
    """`epoch`, `history_version` and `attempt` name the attempt that says it."""

    epoch: int
    history_version: int
    attempt: int
    first: int
    last: int
    fragment: Fragment


class ResetData(Struct, frozen=True):
    what: Literal["live", "history"]
    more_before: int | None = None


class DeletedData(Struct, frozen=True):
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
"""What the data of each event of a chat's stream is."""

LIST_PAYLOADS: Final[Mapping[str, Any]] = {
    "chat": Shown,
    "deleted": DeletedData,
    "reset": ResetData,
    "end": End,
}
"""The same of the stream of all chats."""


def wire_of(said: Said) -> Wire:
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
    """What a chat's stream said. None for an event that this version does not know."""
    data = _data(wire, PAYLOADS)
    if data is None or isinstance(data, End):
        return data
    return _said(Cursor.parse(_id(wire)), data)


def list_event_of(wire: Wire) -> RosterEvent | End | None:
    """What the stream of all chats said. None for an event that this version does not know."""
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
            raise AssertionError(f"{data!r:.80} is the data of no event")
