"""Streams of a remote server that survive lost connections.

The reader does not notice a reconnect: the next connection continues after the last event, and
events that the server sends again are dropped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

import anyio
import msgspec
from msgspec import Struct

from holdfast.chat.base_event_iterator import EventIterator
from holdfast.chat.database_clock import QUERY_OVERLAP
from holdfast.chat.errors import ChatNotFound, InvalidInput, Stranded
from holdfast.chat.rows import BUSY, Status
from holdfast.chat.snapshots import ChatResult, Pending, Snapshot, at_rest
from holdfast.chat.stream import (
    ActionsChanged,
    ChatChanged,
    Cursor,
    MessageChanged,
    QueueChanged,
    Reset,
    StreamEvent,
    Superseded,
)
from holdfast.client.errors import RemoteError, Unreachable
from holdfast.client.retry import delay, may_pass
from holdfast.client.transport import ServerResponse, Transport, at, is_lost
from holdfast.kernel.errors import HoldfastError, ProviderError
from holdfast.kernel.messages import prepare_to_decode
from holdfast.providers.sse import NamedEvent, NamedEventParser
from holdfast.server.chat_list_stream import (
    ChatDeleted,
    ChatListed,
    ChatListEvent,
    ListCursor,
    ListStart,
    ListVoid,
)
from holdfast.server.event_codec import (
    LIST_PAYLOADS,
    PAYLOADS,
    StreamEnd,
    WireEvent,
    event_of,
    list_event_of,
)

if TYPE_CHECKING:
    from aiohttp import ClientResponse

SILENCE_TIMEOUT: Final = 45.0
"""Seconds without data, three heartbeats, after which a connection is considered lost."""

MAX_EVENT_BYTES: Final = 1024 * 1024 * 1024
"""Most bytes of one event. A message may contain files of any size that its tool returned."""

E = TypeVar("E")


class RemoteResult(Struct, frozen=True):
    """The result of a chat; None while it is not idle."""

    result: ChatResult | None


class ResumingStream(EventIterator[E]):
    """Endless events of one path of the API."""

    _response: ClientResponse | None = None

    def __init__(
        self,
        transport: Transport,
        path: str,
        read: Callable[[WireEvent], E | StreamEnd | None],
        cursor: object | None,
    ) -> None:
        super().__init__()
        self._transport = transport
        self._path = path
        self._read = read
        self._last = None if cursor is None else str(cursor)
        """Cursor that the next connection continues after."""
        self._received = False
        """Whether at least one event was received."""
        self._failures = 0
        """Failures in a row, since the last event."""
        self._since = 0.0
        """When the first attempt to connect since the last event was made."""
        # Times, not durations: a reader may be cancelled in each wait, and start it again.
        self._again_at = 0.0
        """When to reconnect after a failure."""
        self._silent_at = 0.0
        """When the connection is considered lost, unless data arrives."""
        self._splitter = NamedEventParser(MAX_EVENT_BYTES)

    @property
    def away(self) -> bool:
        """Whether there is no connection at the moment. It is retried."""
        return self._failures > 0

    def __del__(self) -> None:
        self._disconnect()  # in case it was never closed

    # --- hooks of the subclasses ---

    def _observe(self, event: E) -> bool:
        """Take note of an event; return whether to pass it on."""
        raise NotImplementedError

    def _on_deleted(self) -> HoldfastError | None:
        """The subject was deleted: the error to raise, or None for a plain end."""
        raise NotImplementedError

    # --- connections ---

    async def _advance(self) -> None:
        if self._response is None:
            await self._connect()
        else:
            await self._receive(self._response)

    async def _connect(self) -> None:
        if self._failures == 0:
            self._since = anyio.current_time()
        else:
            await self._pause()
        opened = await self._transport.open(self._path, self._last)
        if isinstance(opened, ServerResponse):
            self._refused(opened)
        elif isinstance(opened, Unreachable):
            self._failed(opened)
        elif self._ended:  # closed meanwhile
            opened.close()
        else:
            self._response, self._splitter = opened, NamedEventParser(MAX_EVENT_BYTES)
            self._silent_at = anyio.current_time() + SILENCE_TIMEOUT

    async def _pause(self) -> None:
        """Wait after a failure."""
        await anyio.sleep_until(self._again_at)

    def _refused(self, reply: ServerResponse) -> None:
        error = self._transport.refused(reply)
        if reply.status == 404 and isinstance(error, ChatNotFound):
            self._end(self._on_deleted())
        elif reply.status in (401, 403, 404) or not (self._received or may_pass(reply.status)):
            self._end(error)
        else:
            self._failed(error)

    def _failed(self, error: HoldfastError) -> None:
        """No connection. Without any event so far, give up after `patience`."""
        self._lost()
        if not self._received and anyio.current_time() - self._since >= self._transport.patience:
            self._end(error)

    def _lost(self) -> None:
        self._failures += 1
        pause = delay(self._failures, self._transport.ports.random())
        self._again_at = anyio.current_time() + pause
        self._disconnect()

    def _release(self) -> None:
        self._disconnect()

    def _disconnect(self) -> None:
        response, self._response = self._response, None
        if response is not None:
            response.close()

    async def _receive(self, response: ClientResponse) -> None:
        try:
            with anyio.fail_after(self._silent_at - anyio.current_time()):
                data = await response.content.readany()
        except Exception as error:
            # RuntimeError: the connection was closed on this side.
            if not (is_lost(error) or isinstance(error, RuntimeError)):
                raise
            data = b""
        if self._ended:
            return
        if not data:
            self._lost()
            return
        self._silent_at = anyio.current_time() + SILENCE_TIMEOUT
        try:
            for event in self._splitter.feed(data):
                self._take(event)
        except (msgspec.MsgspecError, InvalidInput, ProviderError) as error:
            self._end(_not_understood(error))

    # --- events ---

    def _take(self, named: NamedEvent) -> None:
        if self._ended or self._response is None:  # after the end
            return
        event = self._read(WireEvent(named.id, named.event, named.data))
        if isinstance(event, StreamEnd):
            self._on_end(event)
        elif event is not None:
            self._received, self._failures = True, 0
            self._last = named.id
            if self._observe(event):
                self._ready.append(event)

    def _on_end(self, end: StreamEnd) -> None:
        if end.reconnect:
            self._failed(RemoteError(end.reason, f"the server ended the stream: {end.reason}"))
        elif end.reason == "deleted":
            self._end(self._on_deleted())
        else:
            words = f"the server ended the stream permanently: {end.reason}"
            self._end(RemoteError(end.reason, words))


def _not_understood(error: Exception) -> RemoteError:
    return RemoteError(
        "not_understood",
        f"this version does not understand an event of the server ({error}): "
        "use the same version of holdfast on both sides",
    )


# --- one chat ------------------------------------------------------------------------------------


class RemoteStream(ResumingStream[StreamEvent]):
    """An iterator over the events of a chat, like `ChatStream`.

    Without `follow` it ends once the chat is idle and all events were returned. It also ends when
    the chat is deleted.
    """

    def __init__(
        self,
        transport: Transport,
        chat_id: str,
        after: Cursor | None = None,
        *,
        follow: bool = False,
    ) -> None:
        super().__init__(transport, at("chats", chat_id, "stream"), event_of, after)
        self._id = chat_id
        self._follow = follow
        self._cursor = after or Cursor(0)
        self._returned: dict[object, object] = {}
        """Values returned since the chat's version last changed, by subject."""
        self._chat: Snapshot | None = None
        self._actions: tuple[Pending, ...] | None = () if after is None else None
        """Pending actions; None if unknown."""
        self._may_rest = False
        """Whether the chat seems idle and this was not confirmed yet."""

    @property
    def cursor(self) -> Cursor:
        """Cursor after everything returned so far."""
        return self._cursor

    async def rests(self) -> None:
        """Wait until the chat seems idle: for ever, if the stream has ended."""
        while not self._may_rest:
            self._ready.clear()
            if self._ended:
                await anyio.sleep_forever()
            await self._receive_or_connect()
        self._may_rest = False

    async def _advance(self) -> None:
        if self._may_rest and not self._follow:
            await self._end_if_it_rests()
        else:
            await self._receive_or_connect()

    async def _receive_or_connect(self) -> None:
        await super()._advance()

    async def _end_if_it_rests(self) -> None:
        """End if the server confirms it: events may predate the last change by this reader."""
        if self._failures:
            await self._pause()
        try:
            reply = await self._transport.reply("GET", at("chats", self._id, "result"))
        except Unreachable:
            self._lost()
            return
        if may_pass(reply.status):
            self._lost()
            return
        self._may_rest = False  # not before: a cancelled request confirms nothing
        try:
            result = self._transport.decoded(reply, RemoteResult).result
        except ChatNotFound:
            self._end()
            return
        except Stranded:
            return
        if result is not None and result.chat.snapshot_version <= self._cursor.snapshot:
            self._end()

    def _on_deleted(self) -> HoldfastError | None:
        return None if self._received else ChatNotFound(self._id)

    def _observe(self, event: StreamEvent) -> bool:
        if event.cursor.snapshot != self._cursor.snapshot:
            # Everything up to here was returned, and is not sent again.
            self._returned = {k: v for k, v in self._returned.items() if k is ChatChanged}
        self._cursor = event.cursor
        new = self._is_new(event)
        if isinstance(event, ChatChanged):
            self._chat = event.chat
        elif isinstance(event, ActionsChanged):
            self._actions = event.actions
        self._may_rest = self._looks_like_rest()
        return new

    def _is_new(self, event: StreamEvent) -> bool:
        """Whether an event has a new value. Deltas and resets always have."""
        match event:
            case ChatChanged(_, chat):
                return self._note(ChatChanged, chat)
            case MessageChanged(_, message):
                return self._note(message.number, message)
            case QueueChanged(_, queue):
                return self._note(QueueChanged, queue)
            case ActionsChanged(_, actions):
                return self._note(ActionsChanged, actions)
            case Superseded(_, numbers):
                for number in numbers:
                    self._returned.pop(number, None)
                return self._note(Superseded, numbers)
            case Reset(_, "history"):
                self._returned, self._actions = {}, ()
        return True

    def _note(self, about: object, value: object) -> bool:
        new = self._returned.get(about) != value
        self._returned[about] = value
        return new

    def _looks_like_rest(self) -> bool:
        """The chat seems idle, and all its events arrived."""
        chat, cursor = self._chat, self._cursor
        if chat is None or cursor.snapshot != chat.snapshot_version or cursor.seq:
            return False
        if chat.status is Status.REQUIRES_ACTION:
            return self._actions is None or at_rest(chat.status, self._actions)
        return chat.status not in BUSY


# --- all chats -----------------------------------------------------------------------------------


class RemoteWatch(ResumingStream[ChatListEvent]):
    """An iterator over a user's chats: each one that is created, changed or deleted."""

    def __init__(self, transport: Transport, after: ListCursor | None = None) -> None:
        super().__init__(transport, "/stream", list_event_of, after)
        self._cursor = after or ListCursor(0)
        self._returned: dict[str, tuple[int, Snapshot | None]] = {}
        """By chat: the value last returned (None: deleted), and until when to keep it; 0 while that
        is not known."""

    @property
    def cursor(self) -> ListCursor:
        """Cursor after everything returned so far."""
        return self._cursor

    def _on_deleted(self) -> HoldfastError | None:
        return RemoteError("deleted", "the server has no list of chats for this token")

    def _observe(self, event: ChatListEvent) -> bool:
        if event.cursor > self._cursor:
            self._cursor = event.cursor
            self._forget(event.cursor.at)
        match event:
            case ChatDeleted(_, id):
                return self._note(id, None)
            case ChatListed(_, chat):
                _, before = self._returned.get(chat.id, (0, None))
                if before is not None and before.snapshot_version > chat.snapshot_version:
                    return False
                return self._note(chat.id, chat)
            case ListVoid():  # also for a cursor in the future: then the cursor goes back
                self._cursor, self._returned = event.cursor, {}
                return True
            case ListStart():
                return False

    def _forget(self, now: int) -> None:
        """Drop values that are too old to be sent again."""
        dated = ((id, at or now, value) for id, (at, value) in self._returned.items())
        self._returned = {
            id: (at, value) for id, at, value in dated if at > now - 2 * QUERY_OVERLAP
        }

    def _note(self, id: str, value: Snapshot | None) -> bool:
        """Whether the value differs from the last one returned."""
        new = id not in self._returned or self._returned[id][1] != value
        self._returned[id] = (0, value)
        return new


prepare_to_decode(RemoteResult, *PAYLOADS.values(), *LIST_PAYLOADS.values())
