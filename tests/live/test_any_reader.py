"""What holds for every reader: whatever is put, whenever it looks, wherever it is cut."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.kernel.assemble import Assembly
from holdfast.kernel.events import Compacting, Event, RunStarted, ToolCalled, ToolStarted, Warned
from holdfast.kernel.messages import Message, Reasoning, Text, ToolCall
from holdfast.kernel.model import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    ReasoningDelta,
    TextDelta,
)
from holdfast.kernel.model import Delta as ModelDelta
from holdfast.live.broadcast import AttemptReset, DeltaReader, DeltaWriter, Live, LiveCursor
from holdfast.live.buffer import MAX_LOOSE, AttemptId
from holdfast.live.delta_fragments import Fragment, fragment_of
from holdfast.testing import ports
from tests.live.fixtures import CHAT, FIRST, Client, finished, in_few, progress

READERS = 3
NONE = AttemptId(0, 0, 0)

texts = st.sampled_from(["", "a", "bc", "déf", "🙂", "\ud83d", "\ude00", "\x00", "x" * 50])
calls = st.sampled_from(["a", "b"])
events: st.SearchStrategy[Event] = st.one_of(
    st.builds(TextDelta, texts),
    st.builds(ReasoningDelta, texts),
    st.builds(ArgumentsDelta, calls, texts),
    st.builds(CallStarted, calls, st.just("look")),
    st.builds(ToolCalled, st.builds(ToolCall, calls, st.just("look"), texts)),
    st.builds(ToolStarted, calls, st.just("look"), st.just("look")),
    st.builds(progress, texts, calls),
    st.builds(finished, texts, calls),
    st.builds(Compacting, st.sampled_from([None, "person"]), texts),
    st.builds(Warned, texts),
    st.just(RunStarted(1)),
)
who = st.integers(0, READERS - 1)
happenings = st.one_of(
    st.tuples(
        st.just("put"),
        events,
        st.sampled_from([1, 1, 1, 2, 7, MAX_LOOSE - 1, MAX_LOOSE, MAX_LOOSE + 1]),
    ),
    st.tuples(st.just("take"), who),
    st.tuples(st.just("cut"), who, st.floats(0, 1)),
    st.tuples(st.just("open"), st.integers(-1, 1), st.integers(-1, 1), st.integers(-1, 1)),
    st.tuples(st.just("close")),
    st.tuples(st.just("forget")),
)


@dataclass
class World:
    """A hub, what was put into it, and readers each with the client that it serves."""

    live: Live
    block: AsyncExitStack
    writer: DeltaWriter | None = None
    newest: AttemptId = NONE
    said: dict[AttemptId, list[Fragment]] = field(default_factory=dict)
    readers: list[tuple[AsyncExitStack, DeltaReader]] = field(default_factory=list)
    clients: list[Client] = field(default_factory=list)
    reading: list[AttemptId | None] = field(default_factory=list)
    """The attempt that each reader saw running, and so has a right to see to its end."""

    @property
    def running(self) -> AttemptId | None:
        return None if self.writer is None else self.writer.attempt

    async def connect(self, after: LiveCursor | None = None) -> tuple[AsyncExitStack, DeltaReader]:
        block = await self.block.enter_async_context(AsyncExitStack())
        return block, await block.enter_async_context(self.live.read(CHAT, after))

    async def start(self) -> None:
        for _ in range(READERS):
            self.readers.append(await self.connect())
            self.clients.append(Client())
            self.reading.append(None)

    def put(self, event: Event, times: int) -> None:
        if self.writer is None:
            return
        for _ in range(times):
            self.writer.put(event)
        fragment = fragment_of(event)
        if fragment is not None:
            self.said[self.writer.attempt] += [fragment] * times

    def take(self, who: int) -> None:
        client = self.clients[who]
        for delivery in self.readers[who][1].take():
            if isinstance(delivery, AttemptReset) and delivery.attempt == self.reading[who]:
                assert in_few(client.fragments) == in_few(self.said[delivery.attempt])
            client.see(delivery)
        self.reading[who] = self.running
        if self.running is None:
            assert client.attempt is None
        else:
            assert client.last == len(self.said[self.running])
            assert in_few(client.fragments) == in_few(self.said[self.running])

    async def cut(self, who: int, where: float) -> None:
        """The connection breaks, and the client comes back with what had reached it by then."""
        client = self.clients[who]
        await self.readers[who][0].aclose()
        if client.attempt is not None:
            client.last = round(where * client.last)
            client.fragments = self.said[client.attempt][: client.last]
        self.readers[who] = await self.connect(client.cursor)
        self.reading[who] = self.running if client.attempt == self.running else None

    def open(self, epoch: int, version: int, number: int) -> None:
        newest = self.newest
        attempt = AttemptId(
            newest.epoch + epoch, newest.history_version + version, newest.attempt + number
        )
        writer = self.live.open(CHAT, attempt)
        assert writer.closed == (attempt <= newest)
        if not writer.closed:
            self.newest, self.writer, self.said[attempt] = attempt, writer, []

    def close(self) -> None:
        if self.writer is not None:
            self.writer.close()
            self.writer = None

    def forget(self) -> None:
        self.live.forget(CHAT)  # the readers stay, and with them what is closed
        self.writer = None


@settings(max_examples=300)
@given(st.lists(happenings, max_size=40))
async def test_every_reader_is_shown_exactly_what_was_said(done: list[tuple[Any, ...]]) -> None:
    async with AsyncExitStack() as block:
        world = World(Live(), block)
        await world.start()
        world.open(1, 0, 0)
        for name, *arguments in done:
            outcome = getattr(world, name)(*arguments)
            if outcome is not None:
                await outcome
        for who in range(READERS):
            world.take(who)
        world.live.forget(CHAT)
    assert len(world.live) == 0


streamed: st.SearchStrategy[ModelDelta] = st.one_of(
    st.builds(TextDelta, st.sampled_from(["", "a", "b c"])),
    st.builds(ReasoningDelta, st.sampled_from(["h", "m"])),
    st.builds(CallStarted, st.sampled_from("abc"), st.just("look")),
    st.builds(ArgumentsDelta, st.sampled_from("abc"), st.sampled_from(["{}", "[1"])),
    st.builds(CallEnded, st.sampled_from("abc")),
)


@given(st.lists(streamed, max_size=30, unique_by=lambda d: d if type(d) is CallStarted else id(d)))
def test_the_answer_so_far_is_what_an_interrupt_would_keep(deltas: list[ModelDelta]) -> None:
    live = Live()
    writer = live.open(CHAT, FIRST)
    assembly = Assembly("test:model", ports())
    for delta in deltas:
        event = assembly.feed(delta)
        if event is not None:
            writer.put(event)
    partial, kept = live.partial(CHAT), assembly.partial("interrupted")
    assert partial is not None
    shown = Message("assistant", partial.parts, "answer")
    if kept is None:
        assert not shown.text
        assert not shown.calls
        return
    assert shown.text == kept.text
    assert shown.calls == kept.calls
    assert [part.text for part in shown.parts if isinstance(part, Reasoning)] == [
        part.text for part in kept.parts if isinstance(part, Reasoning)
    ]
    assert [type(part) for part in shown.parts] == [type(part) for part in kept.parts]
    assert all(part.text for part in shown.parts if isinstance(part, Text))
