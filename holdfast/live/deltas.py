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

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from types import TracebackType
from typing import TypeAlias, Union

import anyio

from holdfast.kernel.events import Event, Warned
from holdfast.kernel.messages import Part, Tagged, Value
from holdfast.live.fragments import Fragment
from holdfast.live.replay import OUTPUT_LIMIT, Attempt, Delta, Replay, Run


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


class Batch(Value, frozen=True):
    """What an attempt said since the last time, for another process."""

    attempt: Attempt
    runs: tuple[Run, ...]


class _Wake:
    """Everybody who is to hear that there may be something, once."""

    __slots__ = ("calls", "event")

    def __init__(self) -> None:
        self.event: anyio.Event | None = None
        """Shared by those who wait for it; None when nobody does."""
        self.calls: list[Callable[[], None]] = []

    def set(self) -> None:
        if self.event is not None:
            self.event.set()
        for call in self.calls:
            call()


class _Chat:
    """What is known of a chat here."""

    __slots__ = ("current", "newest", "readers", "remembered", "taps", "wake")

    def __init__(self) -> None:
        self.current: Replay | None = None
        """Of the attempt that runs."""
        self.newest: Attempt | None = None
        """The latest that was opened or closed: nothing up to it can be opened any more."""
        self.readers = 0
        self.taps = 0
        """How many other processes are told of it."""
        self.remembered = False
        """Whether `newest` has to outlive the readers."""
        self.wake: _Wake | None = None
        """None when nobody wants to hear anything."""

    @property
    def read(self) -> bool:
        """Whether anybody reads it, here or in another process."""
        return self.readers > 0 or self.taps > 0

    @property
    def own(self) -> Replay | None:
        """Of the attempt that runs in this process."""
        current = self.current
        return None if current is None or current.mirrored else current

    async def roused(self) -> None:
        """Wait until somebody lets everybody look again."""
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

    def becomes(self, attempt: Attempt) -> bool:
        """Go on as another attempt, with what the calls have said, if nobody saw any of this."""
        return not self.closed and self._replay.becomes(attempt)

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
    """One who watches a chat, until it is closed. Made by `Live.watch`."""

    __slots__ = ("_chat", "_ended", "_held", "_leave", "_reading", "_seq", "_void")

    def __init__(
        self, chat: _Chat, after: Cursor | None, leave: Callable[[], None], patient: bool
    ) -> None:
        self._chat = chat
        self._leave = leave
        self._ended = False
        self._reading = chat.current
        """Also once it is over, until the rest is taken."""
        self._seq = 0
        self._void: Attempt | None = None
        """Was shown elsewhere and cannot be continued here."""
        self._held: Cursor | None = None
        """Was shown elsewhere, and this process may yet be told of it."""
        if after is not None:
            if patient and self._reading is None:
                self._held = after
            else:
                self._begin_after(after)

    def _begin_after(self, cursor: Cursor) -> None:
        self._held, self._reading = None, self._chat.current
        if _can_continue(self._reading, cursor):
            self._seq = cursor.seq
        else:
            self._void = cursor.attempt

    def take(self) -> list[Delivery]:
        """Everything since the last time, in as few deliveries as possible. Does not wait."""
        self._check()
        if self._held is not None and self._chat.current is not None:
            self._begin_after(self._held)
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

    def when_roused(self, call: Callable[[], None]) -> None:
        """The same for one who does not wait: `call` is called then, once."""
        self._check()
        self._chat.when_roused(call)

    def close(self) -> None:
        if not self._ended:
            self._ended = True
            self._reading = None
            self._chat.rouse()  # somebody may wait in another task
            self._leave()

    def __del__(self) -> None:
        if not self._ended:  # dropped half way: then nobody waits for it
            self._ended = True
            self._leave()

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
    """Where another process is told what this one runs of a chat. Made by `Live.tap`.

    Nothing is kept for it but its place: one that is asked seldom gets more at once.
    """

    __slots__ = ("_chat", "_leave", "_reading", "_seq", "_void")

    def __init__(self, chat: _Chat, after: Cursor | None, leave: Callable[[], None]) -> None:
        self._chat = chat
        self._leave: Callable[[], None] | None = leave
        self._reading = chat.own
        self._seq = 0
        self._void: Attempt | None = None
        if after is not None:
            if _can_continue(self._reading, after):
                self._seq = after.seq
            else:
                self._void = after.attempt

    def take(self) -> list[Batch | Reset]:
        """Everything since the last time."""
        taken: list[Batch | Reset] = []
        if self._void is not None:
            taken.append(Reset(self._void))
            self._void = None
        reading, own = self._reading, self._chat.own
        taken += self._rest()
        if reading is not own:
            if reading is not None and self._seq:
                taken.append(Reset(reading.attempt))
            self._reading, self._seq = own, 0
            taken += self._rest()
        return taken

    def _rest(self) -> list[Batch]:
        reading = self._reading
        if reading is None or reading.seq == self._seq:
            return []
        runs = tuple(reading.runs(self._seq))
        self._seq = reading.seq
        return [Batch(reading.attempt, runs)]

    def when_roused(self, call: Callable[[], None]) -> None:
        """Call back, once, when there may be something to take."""
        self._chat.when_roused(call)

    def close(self) -> None:
        leave, self._leave = self._leave, None
        if leave is not None:
            leave()


class Mirror:
    """An attempt that runs in another process, as it is told here. Made by `Live.mirror`."""

    __slots__ = ("_chat", "_leave", "_replay")

    def __init__(self, chat: _Chat, replay: Replay, leave: Callable[[], None]) -> None:
        self._chat = chat
        self._replay = replay
        self._leave = leave

    @property
    def attempt(self) -> Attempt:
        return self._replay.attempt

    @property
    def cursor(self) -> Cursor:
        """How far it was told."""
        return Cursor(self._replay.attempt, self._replay.seq)

    @property
    def closed(self) -> bool:
        """Also when a newer attempt has begun."""
        return self._chat.current is not self._replay

    def add(self, runs: Iterable[Run]) -> None:
        """Raises `ValueError` for what does not follow. Once it is closed, it goes nowhere."""
        if self.closed:
            return
        for run in runs:
            self._replay.add(run)
        self._chat.rouse()

    def close(self) -> None:
        """It is over, or nobody knows any more. Readers get the rest and a reset."""
        if not self.closed:
            self._chat.end()
            self._leave()


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
        self.on_watch: Callable[[str], None] | None = None
        """Told of a chat that somebody begins to read, or that nobody reads any more."""

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
        newer = known.newest is None or attempt > known.newest
        if newer and after is not None and not known.read and after.becomes(attempt):
            known.newest = attempt
            return after
        replay = Replay(attempt, self._output_limit)
        if newer:
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
            if known.own is not None:
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
        replay = None if known is None else known.own
        if replay is None:
            return None
        return Partial(replay.attempt, replay.seq, replay.parts())

    @asynccontextmanager
    async def read(self, chat: str, after: Cursor | None = None) -> AsyncIterator[Reader]:
        """Watch a chat for as long as the block lasts."""
        reader = self.watch(chat, after)
        try:
            yield reader
        finally:
            reader.close()

    def watch(self, chat: str, after: Cursor | None = None) -> Reader:
        """Watch a chat: its running attempt from the start, or behind what was seen of it.

        Where other processes are asked too, what was seen of an attempt that is not known here is
        void only when another one is.
        What is given is to be closed.
        """
        known = self._known(chat)
        known.readers += 1
        if known.readers == 1 and self.on_watch is not None:
            self.on_watch(chat)

        def leave() -> None:
            known.readers -= 1
            self._tidy(chat, known)
            if not known.readers and self.on_watch is not None:
                self.on_watch(chat)

        return Reader(known, after, leave, patient=self.on_watch is not None)

    # --- between processes ---

    def watched(self) -> list[str]:
        """The chats that somebody reads here."""
        return [chat for chat, known in self._chats.items() if known.readers]

    def is_watched(self, chat: str) -> bool:
        known = self._chats.get(chat)
        return known is not None and known.readers > 0

    def runs(self, chat: str) -> bool:
        """Whether an attempt of it runs in this process."""
        known = self._chats.get(chat)
        return known is not None and known.own is not None

    def tap(self, chat: str, after: Cursor | None = None) -> Tap:
        """Tell another process what this one runs of a chat, from the start or behind a cursor.

        What this one was told itself is not told on.
        """
        known = self._known(chat)
        known.taps += 1

        def leave() -> None:
            known.taps -= 1
            self._tidy(chat, known)

        return Tap(known, after, leave)

    def mirror(self, chat: str, attempt: Attempt) -> Mirror | None:
        """Begin an attempt that runs elsewhere. None when nobody reads it, or it is an old one.

        Unlike one of our own it may begin again: its numbers come from the one process that runs
        it, and are the same each time. It is kept until it is closed.
        """
        known = self._chats.get(chat)
        if known is None or not known.readers:
            return None
        if known.newest is not None:
            late = attempt == known.newest and known.remembered
            if late or attempt < known.newest:
                return None
        known.end()
        known.newest = attempt
        known.current = Replay(attempt, self._output_limit, mirrored=True)
        return Mirror(known, known.current, partial(self._tidy, chat, known))

    def _known(self, chat: str) -> _Chat:
        known = self._chats.get(chat)
        if known is None:
            known = self._chats[chat] = _Chat()
        return known

    def _tidy(self, chat: str, known: _Chat) -> None:
        wanted = known.read or known.remembered
        if not wanted and known.current is None:
            self._chats.pop(chat, None)
