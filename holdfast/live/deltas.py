"""The deltas of the attempts that run in this process, for whoever watches them.

One writer puts, any number of readers take, and neither waits for the other. All readers of a chat
share what is kept of its attempt, each with its own place in it: one that stalls costs nothing
while it does and later takes the rest in a few pieces.

What a reader may rely on:

- the deltas of an attempt come in order and without a gap: each begins where the one before it
  ended, and the first with 1 or behind the reader's cursor;
- joined, they say what was put, up to where the reader is; of an attempt that ends under it, it
  still gets the rest;
- when what it was shown is void, because the attempt is over or the cursor cannot be continued, a
  `Reset` says so before anything else of the chat comes.

Everything here belongs to one event loop.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TypeAlias, Union

import anyio

from holdfast.kernel.events import Event, Warned
from holdfast.kernel.messages import Part, Tagged, Value
from holdfast.live.fragments import Fragment
from holdfast.live.replay import OUTPUT_LIMIT, Attempt, Delta, Replay


class Cursor(Value, frozen=True):
    """How far somebody has been shown an attempt: up to and including `seq`."""

    attempt: Attempt
    seq: int


class Reset(Tagged, frozen=True, tag="reset"):
    """What was shown of this attempt is to be dropped."""

    attempt: Attempt


Delivery: TypeAlias = Union[Delta, Reset]


class Partial(Value, frozen=True):
    """The answer that a running attempt has shown so far, to be kept in case its process dies."""

    attempt: Attempt
    seq: int
    parts: tuple[Part, ...]


class _Chat:
    """What is known of a chat here."""

    __slots__ = ("current", "newest", "readers", "remembered", "wake")

    def __init__(self) -> None:
        self.current: Replay | None = None
        """Of the attempt that runs."""
        self.newest: Attempt | None = None
        """The latest that was opened or closed: nothing up to it can be opened any more."""
        self.readers = 0
        self.remembered = False
        """Whether `newest` has to outlive the readers."""
        self.wake: anyio.Event | None = None
        """Shared by the readers that wait; None when none does."""

    async def roused(self) -> None:
        """Wait until somebody lets everybody look again."""
        if self.wake is None:
            self.wake = anyio.Event()
        await self.wake.wait()

    def rouse(self) -> None:
        """Let everybody who waits look again."""
        wake, self.wake = self.wake, None
        if wake is not None:
            wake.set()

    def end(self) -> None:
        """Close the attempt that runs, if any."""
        if self.current is not None:
            self.current = None
            self.rouse()


class Writer:
    """Where one attempt says what it does. A `Sink` that is never full.

    Once the attempt is closed, by whomever, what is put goes nowhere.
    """

    __slots__ = ("_chat", "_replay", "full", "warnings")

    def __init__(self, chat: _Chat, replay: Replay) -> None:
        self.full = False
        self.warnings: list[str] = []
        self._chat = chat
        self._replay = replay

    @property
    def attempt(self) -> Attempt:
        return self._replay.attempt

    @property
    def seq(self) -> int:
        """Of the last delta: as long as it stays the same there is nothing new to keep."""
        return self._replay.seq

    @property
    def closed(self) -> bool:
        return self._chat.current is not self._replay

    def put(self, event: Event) -> None:
        chat, replay = self._chat, self._replay
        if chat.current is not replay:
            return
        if chat.wake is None:
            replay.put(event)
            return
        before = replay.seq
        replay.put(event)
        if replay.seq > before:
            chat.rouse()

    def warn(self, text: str) -> None:
        self.warnings.append(text)
        self.put(Warned(text))

    async def room(self) -> None:
        """There always is."""

    def of_calls(self) -> list[Fragment]:
        """What the calls of the answer that runs here have said of themselves."""
        return self._replay.of_calls()

    def close(self) -> None:
        """The attempt is over: committed, failed or given up. Readers get the rest and a reset."""
        if not self.closed:
            self._chat.end()

    def __enter__(self) -> Writer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class Reader:
    """One who watches a chat. Made by `Live.read`."""

    __slots__ = ("_chat", "_ended", "_reading", "_seq", "_void")

    def __init__(self, chat: _Chat, after: Cursor | None) -> None:
        self._chat = chat
        self._ended = False
        self._reading = chat.current
        """Also once it is over, until the rest is taken."""
        self._seq = 0
        self._void: Attempt | None = None
        """Was shown elsewhere and cannot be continued here."""
        if after is not None:
            if _can_continue(self._reading, after):
                self._seq = after.seq
            else:
                self._void = after.attempt

    def take(self) -> list[Delivery]:
        """Everything since the last time, in as few deliveries as possible. Does not wait."""
        self._check()
        taken: list[Delivery] = []
        if self._void is not None:
            taken.append(Reset(self._void))
            self._void = None
        reading = self._reading
        if reading is not self._chat.current:
            taken += self._rest()
            if reading is not None and self._seq:
                taken.append(Reset(reading.attempt))
            self._reading, self._seq = self._chat.current, 0
        taken += self._rest()
        return taken

    async def wait(self) -> None:
        """Wait until there is something to take."""
        self._check()
        while not self._pending():
            await self.roused()

    async def roused(self) -> None:
        """Wait until there may be something: to take, or elsewhere (see `Live.rouse`)."""
        self._check()
        await self._chat.roused()
        self._check()

    def _rest(self) -> list[Delta]:
        reading = self._reading
        if reading is None or reading.seq == self._seq:
            return []
        deltas = reading.after(self._seq)
        self._seq = reading.seq
        return deltas

    def _pending(self) -> bool:
        """Whether `take` would give anything."""
        if self._void is not None:
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

    def _end(self) -> None:
        self._ended = True
        self._reading = None
        self._chat.rouse()  # somebody may wait in another task


def _can_continue(replay: Replay | None, cursor: Cursor) -> bool:
    """A number that the attempt has not reached was never given out by it."""
    if replay is None or replay.attempt != cursor.attempt:
        return False
    return 0 <= cursor.seq <= replay.seq


class Live:
    """The running attempts of this process: at most one of each chat."""

    def __init__(self, *, output_limit: int = OUTPUT_LIMIT) -> None:
        self._chats: dict[str, _Chat] = {}
        self._output_limit = output_limit

    def __len__(self) -> int:
        """How many chats are known: that have an attempt, had one and are not forgotten, or are
        read."""
        return len(self._chats)

    def open(self, chat: str, attempt: Attempt, after: Writer | None = None) -> Writer:
        """Begin an attempt. It closes an older one that still runs.

        `after` is the one before it, when the calls of that go on in this: what they have said of
        themselves so far is said again, because readers drop it with the rest.

        An attempt that is not newer than all that were opened or closed here is refused: its writer
        is closed from the start. Not an error, because who comes late cannot know: the fence tells
        it, with its next write to the database. Not taken up either, even when it is the newest
        itself: its numbers would begin anew under cursors that were given out for others.
        """
        known = self._known(chat)
        replay = Replay(attempt, self._output_limit)
        if known.newest is None or attempt > known.newest:
            known.end()
            known.newest, known.current = attempt, replay
            known.remembered = True
            for fragment in after.of_calls() if after is not None else ():
                replay.put(fragment)
        return Writer(known, replay)

    def close(self, chat: str, attempt: Attempt) -> None:
        """End this attempt and all before it. One that was never opened cannot be opened then."""
        known = self._known(chat)
        known.remembered = True
        if known.newest is None or attempt > known.newest:
            known.newest = attempt
        if known.current is not None and known.current.attempt <= attempt:
            known.end()

    def forget(self, chat: str) -> None:
        """This process has let go of the chat: its attempt ends, and nothing is kept.

        As long as somebody reads it, what was closed is still known.
        """
        known = self._chats.get(chat)
        if known is not None:
            known.end()
            known.remembered = False
            self._tidy(chat, known)

    def rouse(self, chat: str) -> None:
        """Something else happened to the chat that its readers wait for: one wait is enough."""
        known = self._chats.get(chat)
        if known is not None:
            known.rouse()

    def partial(self, chat: str) -> Partial | None:
        """What the running attempt has shown of its answer; None when none runs."""
        known = self._chats.get(chat)
        if known is None or known.current is None:
            return None
        replay = known.current
        return Partial(replay.attempt, replay.seq, replay.parts())

    @asynccontextmanager
    async def read(self, chat: str, after: Cursor | None = None) -> AsyncIterator[Reader]:
        """Watch a chat: its running attempt from the start, or behind what was seen of it."""
        known = self._known(chat)
        reader = Reader(known, after)
        known.readers += 1
        try:
            yield reader
        finally:
            known.readers -= 1
            reader._end()
            self._tidy(chat, known)

    def _known(self, chat: str) -> _Chat:
        known = self._chats.get(chat)
        if known is None:
            known = self._chats[chat] = _Chat()
        return known

    def _tidy(self, chat: str, known: _Chat) -> None:
        if not known.readers and not known.remembered:
            self._chats.pop(chat, None)
