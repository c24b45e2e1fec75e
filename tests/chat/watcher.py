"""Somebody who watches a chat, believes nothing, and may leave and come back at any event."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import anyio

from holdfast.chat.handle import Chat
from holdfast.chat.rows import Queued, Stored
from holdfast.chat.snapshots import Pending, Snapshot
from holdfast.chat.stream import (
    ActionsChanged,
    ChatChanged,
    ChatStream,
    Cursor,
    LiveDelta,
    MessageChanged,
    QueueChanged,
    Reset,
    StreamEvent,
    Superseded,
)
from holdfast.kernel.model import TextDelta
from holdfast.live.delta_fragments import Fragment

LONGEST: Final = 120.0
"""Seconds, of virtual time, within which every chat of a test comes to rest."""
MOST: Final = 100
"""Events after which a reader that leaves and comes back has got further."""


@contextmanager
def in_time(what: str) -> Iterator[None]:
    """Fail where something does not happen at all, instead of waiting for it."""
    with anyio.move_on_after(LONGEST) as scope:
        yield
    assert not scope.cancelled_caught, f"after {LONGEST:g} s: {what}"


@dataclass
class Watcher:
    """What a client makes of the events; fails at the first that does not fit."""

    chat: Snapshot | None = None
    messages: dict[int, Stored] = field(default_factory=dict)
    queue: tuple[Queued, ...] = ()
    actions: tuple[Pending, ...] = ()
    more_before: int | None = None
    cursor: Cursor | None = None
    fragments: list[Fragment] = field(default_factory=list)
    events: list[StreamEvent] = field(default_factory=list)
    finished: list[tuple[str, str]] = field(default_factory=list)
    """Of each answer that arrived while it was watched: what was shown, and what it became."""
    _attempt: tuple[int, int, int] | None = None
    _seq: int = 0
    _became: bool = False
    """The answer that the fragments are of has arrived."""

    @property
    def text(self) -> str:
        """Of the answer that is being written."""
        return "".join(piece.text for piece in self.fragments if isinstance(piece, TextDelta))

    @property
    def numbers(self) -> list[int]:
        return sorted(self.messages)

    @property
    def done(self) -> bool:
        """All of a chat that has nothing to do was seen."""
        if self.chat is None or self.cursor is None or self.chat.status != "idle":
            return False
        return self.cursor.snapshot == self.chat.snapshot_version

    async def watch(self, chat: Chat, events: int | None = None) -> None:
        """Take so many events from where it left off, or all until the chat is idle."""
        with in_time(f"neither idle nor {events} events, the last of {self.events[-2:]}"):
            await self._watch(chat, events)

    async def _watch(self, chat: Chat, events: int | None) -> None:
        async with chat.stream(self.cursor, follow=True) as stream:
            first = True
            async for event in stream:
                assert not first or isinstance(event, ChatChanged), "the chat does not come first"
                first = False
                self.see(event)
                events = None if events is None else events - 1
                if self.done or events == 0:
                    return

    async def watch_in_pieces(self, chat: Chat) -> None:
        """Leave after as few events as bring it any further, and come back, until it is done."""
        count, before = 1, None
        while not self.done:
            await self.watch(chat, count)
            count, before = (count + 1, before) if self.cursor == before else (1, self.cursor)
            assert count < MOST, f"the cursor stays at {before} for {count} events"

    def see(self, event: StreamEvent) -> None:
        self.events.append(event)
        assert len(self.events) < 1_000, f"it gets no further than {self.events[-3:]}"
        self.cursor = event.cursor
        match event:
            case ChatChanged(_, chat):
                self.chat = chat
            case MessageChanged(_, stored):
                assert stored.superseded_at is None
                if stored.message.kind == "answer" and stored.number not in self.messages:
                    self.finished.append(("" if self._became else self.text, stored.message.text))
                    self._became = True
                self.messages[stored.number] = stored
            case Superseded(_, numbers):
                for number in numbers:
                    self.messages.pop(number, None)
            case QueueChanged(_, queue):
                self.queue = queue
            case ActionsChanged(_, actions):
                self.actions = actions
            case LiveDelta():
                self._show(event)
            case Reset(_, what, more):
                self._reset(what, more)

    def _show(self, event: LiveDelta) -> None:
        cursor = event.cursor
        attempt = (cursor.epoch, cursor.history, cursor.attempt)
        assert self.chat is not None
        now = (self.chat.epoch, self.chat.history_version, self.chat.attempt)
        assert attempt == now, "a delta of another attempt than the chat is at"
        assert self._attempt in (None, attempt), "another attempt without a reset"
        assert event.first == self._seq + 1, "a gap"
        assert event.last == cursor.seq >= event.first
        self._attempt, self._seq = attempt, event.last
        self.fragments.append(event.fragment)

    def _reset(self, what: str, more: int | None) -> None:
        self.fragments, self._attempt, self._seq, self._became = [], None, 0, False
        if what == "history":
            self.messages, self.queue, self.actions, self.more_before = {}, (), (), more


async def take(stream: ChatStream, count: int) -> list[StreamEvent]:
    with in_time(f"fewer than {count} events"):
        return [await anext(stream) for _ in range(count)]
    raise AssertionError
