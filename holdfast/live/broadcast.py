"""Broadcast of deltas: one writer for each running attempt, any number of readers.

Writer and readers never wait for each other. All readers of a chat share the buffer of its attempt,
each with its own position: a stalled reader costs nothing and later takes the rest in a few pieces.

Guarantees for a reader:

- the deltas of an attempt arrive in order and without a gap: each starts where the previous one
  ended, and the first with 1 or after the reader's cursor;
- joined, they equal what was put, up to the reader's position; if an attempt ends while it is being
  read, the reader still gets the rest;
- when what was shown is void, because the attempt is over or the cursor cannot be resumed, a
  `AttemptReset` precedes everything else of the chat.

Everything here belongs to one event loop.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from types import TracebackType
from typing import TypeAlias, Union

import anyio

from holdfast.kernel.events import Event, Warned
from holdfast.kernel.messages import Part, Tagged, Value
from holdfast.live.buffer import OUTPUT_LIMIT, AttemptId, DeltaBuffer, DeltaRange, RelayDelta
from holdfast.live.delta_fragments import Fragment


class LiveCursor(Value, frozen=True):
    """A reader's position: an attempt, and the number of the last delta shown."""

    attempt: AttemptId
    seq: int


class AttemptReset(Tagged, frozen=True, tag="reset"):
    """Discard what was shown of this attempt."""

    attempt: AttemptId


LiveEvent: TypeAlias = Union[DeltaRange, AttemptReset]


class LivePartial(Value, frozen=True):
    """The answer of a running attempt so far, stored in case its process dies."""

    attempt: AttemptId
    seq: int
    parts: tuple[Part, ...]


class DeltaBatch(Value, frozen=True):
    """New deltas of an attempt, for another process."""

    attempt: AttemptId
    runs: tuple[RelayDelta, ...]


class _Wake:
    """Waiters and callbacks that are notified once, when there may be something new."""

    __slots__ = ("calls", "event")

    def __init__(self) -> None:
        self.event: anyio.Event | None = None
        """Event shared by all waiters; None without any."""
        self.calls: list[Callable[[], None]] = []

    def set(self) -> None:
        if self.event is not None:
            self.event.set()
        for call in self.calls:
            call()


class _Chat:
    """State of one chat in this process."""

    __slots__ = ("current", "newest", "readers", "remembered", "taps", "wake")

    def __init__(self) -> None:
        self.current: DeltaBuffer | None = None
        """Buffer of the running attempt."""
        self.newest: AttemptId | None = None
        """Latest attempt that was opened or closed; it and older ones can no longer be opened."""
        self.readers = 0
        self.taps = 0
        """Number of other processes that follow the chat."""
        self.remembered = False
        """Whether `newest` has to outlive the readers."""
        self.wake: _Wake | None = None
        """Waiters and callbacks; None without any."""

    @property
    def read(self) -> bool:
        """Whether the chat has readers, here or in another process."""
        return self.readers > 0 or self.taps > 0

    @property
    def own(self) -> DeltaBuffer | None:
        """Buffer of the running attempt, if it runs in this process."""
        current = self.current
        return None if current is None or current.mirrored else current

    async def roused(self) -> None:
        """Wait until `rouse` is called."""
        if self.wake is None:
            self.wake = _Wake()
        if self.wake.event is None:
            self.wake.event = anyio.Event()
        await self.wake.event.wait()

    def when_roused(self, call: Callable[[], None]) -> None:
        if self.wake is None:
            self.wake = _Wake()
        self.wake.calls.append(call)

    def rouse(self) -> None:
        """Wake all waiters and call all callbacks."""
        wake, self.wake = self.wake, None
        if wake is not None:
            wake.set()

    def end(self) -> None:
        """Close the running attempt, if any."""
        if self.current is not None:
            self.current = None
            self.rouse()


class DeltaWriter:
    """Output of one attempt: a `Sink` that is never full.

    Once the attempt is closed, events that are put are discarded.
    """

    __slots__ = ("_buffer", "_chat", "full", "has_reader", "warnings")

    def __init__(self, chat: _Chat, buffer: DeltaBuffer) -> None:
        self.full = False
        self.has_reader = True
        self.warnings: list[str] = []
        self._chat = chat
        self._buffer = buffer

    @property
    def attempt(self) -> AttemptId:
        return self._buffer.attempt

    @property
    def seq(self) -> int:
        """Sequence number of the last delta."""
        return self._buffer.seq

    @property
    def closed(self) -> bool:
        return self._chat.current is not self._buffer

    def put(self, event: Event) -> None:
        chat, buffer = self._chat, self._buffer
        if chat.current is not buffer:
            return
        if chat.wake is None:
            buffer.put(event)
            return
        before = buffer.seq
        buffer.put(event)
        if buffer.seq > before:
            chat.rouse()

    def warn(self, text: str) -> None:
        self.warnings.append(text)
        self.put(Warned(text))

    async def room(self) -> None:
        """Return at once: there is always room."""

    def of_calls(self) -> list[Fragment]:
        """Fragments reported by the calls of the running attempt."""
        return self._buffer.of_calls()

    def becomes(self, attempt: AttemptId) -> bool:
        """Continue as another attempt, keeping fragments of calls, if no reader saw any of this."""
        return not self.closed and self._buffer.becomes(attempt)

    def close(self) -> None:
        """End the attempt: committed, failed or abandoned. Readers get the rest and a reset."""
        if not self.closed:
            self._chat.end()

    def __enter__(self) -> DeltaWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class DeltaReader:
    """A reader of a chat's deltas, until it is closed. Made by `Live.watch`."""

    __slots__ = ("_chat", "_ended", "_held", "_leave", "_reading", "_seq", "_void")

    def __init__(
        self, chat: _Chat, after: LiveCursor | None, leave: Callable[[], None], keep_cursor: bool
    ) -> None:
        self._chat = chat
        self._leave = leave
        self._ended = False
        self._reading = chat.current
        """Buffer being read; kept after its attempt ends, until the rest is taken."""
        self._seq = 0
        self._void: AttemptId | None = None
        """Attempt that was shown elsewhere and cannot be resumed here."""
        self._held: LiveCursor | None = None
        """Cursor of an attempt shown elsewhere, which this process may still receive."""
        if after is not None:
            if keep_cursor and self._reading is None:
                self._held = after
            else:
                self._begin_after(after)

    def _begin_after(self, cursor: LiveCursor) -> None:
        self._held, self._reading = None, self._chat.current
        if _can_continue(self._reading, cursor):
            self._seq = cursor.seq
        else:
            self._void = cursor.attempt

    def take(self) -> list[LiveEvent]:
        """All deliveries since the last call, as few as possible. Does not wait."""
        self._check()
        if self._held is not None and self._chat.current is not None:
            self._begin_after(self._held)
        taken: list[LiveEvent] = []
        if self._void is not None:
            taken.append(AttemptReset(self._void))
            self._void = None
        reading = self._reading
        if reading is not self._chat.current:
            taken += self._rest()
            if reading is not None and self._seq:
                taken.append(AttemptReset(reading.attempt))
            self._reading, self._seq = self._chat.current, 0
        taken += self._rest()
        return taken

    async def wait(self) -> None:
        """Wait until there is something to take."""
        self._check()
        while not self._pending():
            await self.roused()

    async def roused(self) -> None:
        """Wait until there may be something to take, or `Live.rouse` is called."""
        self._check()
        await self._chat.roused()
        self._check()

    def when_roused(self, call: Callable[[], None]) -> None:
        """Like `roused`, as a callback that is called once."""
        self._check()
        self._chat.when_roused(call)

    def close(self) -> None:
        if not self._ended:
            self._ended = True
            self._reading = None
            self._chat.rouse()  # another task may wait
            self._leave()

    def __del__(self) -> None:
        if not self._ended:  # dropped without being closed: then no task waits for it
            self._ended = True
            self._leave()

    def _rest(self) -> list[DeltaRange]:
        reading = self._reading
        if reading is None or reading.seq == self._seq:
            return []
        deltas = reading.after(self._seq)
        self._seq = reading.seq
        return deltas

    def _pending(self) -> bool:
        """Whether `take` would return anything."""
        if self._void is not None:
            return True
        if self._held is not None and self._chat.current is not None:
            return True
        reading, current = self._reading, self._chat.current
        if reading is not None and reading.seq > self._seq:
            return True
        if reading is current:
            return False
        return self._seq > 0 or (current is not None and current.seq > 0)

    def _check(self) -> None:
        if self._ended:
            raise anyio.ClosedResourceError


class Tap:
    """Feed of a chat's attempts in this process for another process. Made by `Live.tap`.

    It keeps only its position: the less often it is read, the larger its batches.
    """

    __slots__ = ("_chat", "_leave", "_reading", "_seq", "_void")

    def __init__(self, chat: _Chat, after: LiveCursor | None, leave: Callable[[], None]) -> None:
        self._chat = chat
        self._leave: Callable[[], None] | None = leave
        self._reading = chat.own
        self._seq = 0
        self._void: AttemptId | None = None
        if after is not None:
            if _can_continue(self._reading, after):
                self._seq = after.seq
            else:
                self._void = after.attempt

    def take(self) -> list[DeltaBatch | AttemptReset]:
        """All batches and resets since the last call."""
        taken: list[DeltaBatch | AttemptReset] = []
        if self._void is not None:
            taken.append(AttemptReset(self._void))
            self._void = None
        reading, own = self._reading, self._chat.own
        taken += self._rest()
        if reading is not own:
            if reading is not None and self._seq:
                taken.append(AttemptReset(reading.attempt))
            self._reading, self._seq = own, 0
            taken += self._rest()
        return taken

    def _rest(self) -> list[DeltaBatch]:
        reading = self._reading
        if reading is None or reading.seq == self._seq:
            return []
        runs = tuple(reading.runs(self._seq))
        self._seq = reading.seq
        return [DeltaBatch(reading.attempt, runs)]

    def when_roused(self, call: Callable[[], None]) -> None:
        """Call `call` once, when there may be something to take."""
        self._chat.when_roused(call)

    def close(self) -> None:
        leave, self._leave = self._leave, None
        if leave is not None:
            leave()


class Mirror:
    """Copy of an attempt that runs in another process. Made by `Live.mirror`."""

    __slots__ = ("_buffer", "_chat", "_leave")

    def __init__(self, chat: _Chat, buffer: DeltaBuffer, leave: Callable[[], None]) -> None:
        self._chat = chat
        self._buffer = buffer
        self._leave = leave

    @property
    def attempt(self) -> AttemptId:
        return self._buffer.attempt

    @property
    def cursor(self) -> LiveCursor:
        """Position up to which the copy is complete."""
        return LiveCursor(self._buffer.attempt, self._buffer.seq)

    @property
    def closed(self) -> bool:
        """Whether the mirror is closed, also by a newer attempt."""
        return self._chat.current is not self._buffer

    def add(self, runs: Iterable[RelayDelta]) -> None:
        """Append deltas; raises `ValueError` for a gap. Does nothing once closed."""
        if self.closed:
            return
        for run in runs:
            self._buffer.add(run)
        self._chat.rouse()

    def close(self) -> None:
        """End the mirror: the attempt is over or unreachable. Readers get the rest and a reset."""
        if not self.closed:
            self._chat.end()
            self._leave()


def _can_continue(buffer: DeltaBuffer | None, cursor: LiveCursor) -> bool:
    """Whether a cursor belongs to this attempt and to a number that it has reached."""
    if buffer is None or buffer.attempt != cursor.attempt:
        return False
    return 0 <= cursor.seq <= buffer.seq


class Live:
    """The running attempts of this process: at most one of each chat."""

    def __init__(self, *, output_limit: int = OUTPUT_LIMIT) -> None:
        self._chats: dict[str, _Chat] = {}
        self._output_limit = output_limit
        self.on_watch: Callable[[str], None] | None = None
        """Callback for a chat that gets its first reader or loses its last."""

    def __len__(self) -> int:
        """Number of chats kept: with an attempt, one not yet forgotten, or readers."""
        return len(self._chats)

    def open(self, chat: str, attempt: AttemptId, after: DeltaWriter | None = None) -> DeltaWriter:
        """Start an attempt. An older one that still runs is closed.

        `after` is the writer of the previous attempt, if its calls continue in this one: what they
        have reported is repeated, because readers discard it with the rest.

        An attempt that is not newer than all that were opened or closed here is refused: its writer
        is closed from the start. That is not an error, since a late owner cannot know; the fence
        stops it at its next write to the database. The newest attempt itself is refused too: its
        numbers would restart under cursors that were issued for others.
        """
        state = self._state(chat)
        newer = state.newest is None or attempt > state.newest
        if newer and after is not None and not state.read and after.becomes(attempt):
            state.newest = attempt
            return after
        buffer = DeltaBuffer(attempt, self._output_limit)
        if newer:
            state.end()
            state.newest, state.current = attempt, buffer
            state.remembered = True
            for fragment in after.of_calls() if after is not None else ():
                buffer.put(fragment)
        return DeltaWriter(state, buffer)

    def close(self, chat: str, attempt: AttemptId) -> None:
        """End this attempt and all before it. None of them can be opened afterwards."""
        state = self._state(chat)
        state.remembered = True
        if state.newest is None or attempt > state.newest:
            state.newest = attempt
        if state.current is not None and state.current.attempt <= attempt:
            state.end()

    def forget(self, chat: str) -> None:
        """Forget a chat that this process released: its attempt ends, and nothing is kept.

        While the chat has readers, its newest attempt is still remembered.
        """
        state = self._chats.get(chat)
        if state is not None:
            if state.own is not None:
                state.end()
            state.remembered = False
            self._tidy(chat, state)

    def rouse(self, chat: str) -> None:
        """Wake the readers of a chat because something other than a delta happened."""
        state = self._chats.get(chat)
        if state is not None:
            state.rouse()

    def partial(self, chat: str) -> LivePartial | None:
        """The answer of the running attempt so far; None if none runs here."""
        state = self._chats.get(chat)
        buffer = None if state is None else state.own
        if buffer is None:
            return None
        return LivePartial(buffer.attempt, buffer.seq, buffer.parts())

    @asynccontextmanager
    async def read(self, chat: str, after: LiveCursor | None = None) -> AsyncIterator[DeltaReader]:
        """Watch a chat for as long as the block lasts."""
        reader = self.watch(chat, after)
        try:
            yield reader
        finally:
            reader.close()

    def watch(self, chat: str, after: LiveCursor | None = None) -> DeltaReader:
        """Read a chat: its running attempt from the start, or after a cursor. Close the reader.

        Where other processes are followed too, a cursor of an attempt unknown here becomes void
        only when there is another attempt.
        """
        state = self._state(chat)
        state.readers += 1
        if state.readers == 1 and self.on_watch is not None:
            self.on_watch(chat)

        def leave() -> None:
            state.readers -= 1
            self._tidy(chat, state)
            if not state.readers and self.on_watch is not None:
                self.on_watch(chat)

        return DeltaReader(state, after, leave, keep_cursor=self.on_watch is not None)

    # --- between processes ---

    def watched(self) -> list[str]:
        """The chats with readers in this process."""
        return [chat for chat, state in self._chats.items() if state.readers]

    def is_watched(self, chat: str) -> bool:
        state = self._chats.get(chat)
        return state is not None and state.readers > 0

    def runs(self, chat: str) -> bool:
        """Whether an attempt of the chat runs in this process."""
        state = self._chats.get(chat)
        return state is not None and state.own is not None

    def tap(self, chat: str, after: LiveCursor | None = None) -> Tap:
        """Feed another process with this one's attempts of a chat, from the start or a cursor.

        Mirrored attempts are not passed on.
        """
        state = self._state(chat)
        state.taps += 1

        def leave() -> None:
            state.taps -= 1
            self._tidy(chat, state)

        return Tap(state, after, leave)

    def mirror(self, chat: str, attempt: AttemptId) -> Mirror | None:
        """Start copying an attempt that runs elsewhere. None without readers, or for an old one.

        Unlike an attempt of this process it may start again: its numbers come from the one process
        that runs it, and are the same each time. It is kept until it is closed.
        """
        state = self._chats.get(chat)
        if state is None or not state.readers:
            return None
        if state.newest is not None:
            late = attempt == state.newest and state.remembered
            if late or attempt < state.newest:
                return None
        state.end()
        state.newest = attempt
        state.current = DeltaBuffer(attempt, self._output_limit, mirrored=True)
        return Mirror(state, state.current, partial(self._tidy, chat, state))

    def _state(self, chat: str) -> _Chat:
        state = self._chats.get(chat)
        if state is None:
            state = self._chats[chat] = _Chat()
        return state

    def _tidy(self, chat: str, state: _Chat) -> None:
        in_use = state.read or state.remembered
        if not in_use and state.current is None:
            self._chats.pop(chat, None)
