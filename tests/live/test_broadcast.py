from __future__ import annotations

import tracemalloc
from contextlib import AsyncExitStack

import anyio
import pytest

from holdfast import Agent
from holdfast.kernel.channel import Sink
from holdfast.kernel.events import Compacting, MessageCommitted, RunStarted, ToolStarted, Warned
from holdfast.kernel.messages import Reasoning, Text
from holdfast.kernel.model import CallStarted, ReasoningDelta, TextDelta
from holdfast.live.broadcast import (
    AttemptReset,
    DeltaReader,
    Live,
    LiveCursor,
    LiveEvent,
    LivePartial,
)
from holdfast.live.buffer import MAX_LOOSE, MAX_UNREAD, OUTPUT_LIMIT, AttemptId, DeltaRange
from holdfast.testing import ScriptedModel
from tests.live.fixtures import (
    CHAT,
    FIRST,
    SECOND,
    THIRD,
    Client,
    finished,
    progress,
    say,
    shown,
    text_of,
)

# --- reading ---


async def test_a_reader_gets_what_is_put_since_it_last_took() -> None:
    live = Live()
    writer = live.open(CHAT, FIRST)
    async with live.read(CHAT) as reader:
        assert reader.take() == []
        say(writer, "a", "b")
        assert reader.take() == [DeltaRange(FIRST, 1, 2, TextDelta("ab"))]
        say(writer, "c")
        assert reader.take() == [DeltaRange(FIRST, 3, 3, TextDelta("c"))]
        assert reader.take() == []


async def test_a_late_reader_gets_the_attempt_from_its_start() -> None:
    live = Live()
    say(live.open(CHAT, FIRST), "a", "b")
    assert await shown(live) == [DeltaRange(FIRST, 1, 2, TextDelta("ab"))]


@pytest.mark.parametrize("seq", [0, 1, 2, MAX_LOOSE, 2 * MAX_LOOSE, 2 * MAX_LOOSE + 2])
async def test_a_reader_that_comes_back_goes_on_behind_its_cursor(seq: int) -> None:
    live = Live()
    said = [f"{number} " for number in range(2 * MAX_LOOSE + 3)]
    say(live.open(CHAT, FIRST), *said)
    rest = TextDelta("".join(said[seq:]))
    assert await shown(live, LiveCursor(FIRST, seq)) == [
        DeltaRange(FIRST, seq + 1, len(said), rest)
    ]


async def test_a_reader_that_has_seen_all_gets_only_what_comes() -> None:
    live = Live()
    writer = live.open(CHAT, FIRST)
    say(writer, "a")
    async with live.read(CHAT, LiveCursor(FIRST, 1)) as reader:
        assert reader.take() == []
        say(writer, "b")
        assert reader.take() == [DeltaRange(FIRST, 2, 2, TextDelta("b"))]


@pytest.mark.parametrize(
    "cursor",
    [LiveCursor(FIRST, 1), LiveCursor(THIRD, 1), LiveCursor(SECOND, 3), LiveCursor(SECOND, -1)],
    ids=["of an older attempt", "of a newer one", "ahead of it", "of no place"],
)
async def test_a_cursor_that_cannot_be_continued_is_reset_and_all_is_shown(
    cursor: LiveCursor,
) -> None:
    live = Live()
    say(live.open(CHAT, SECOND), "a", "b")
    assert await shown(live, cursor) == [
        AttemptReset(cursor.attempt),
        DeltaRange(SECOND, 1, 2, TextDelta("ab")),
    ]


async def test_a_cursor_is_reset_when_nothing_runs() -> None:
    async with Live().read(CHAT, LiveCursor(FIRST, 1)) as reader:
        await reader.wait()
        assert reader.take() == [AttemptReset(FIRST)]


async def test_a_reader_of_a_chat_without_attempt_waits_for_one() -> None:
    live = Live()
    async with live.read(CHAT) as reader:
        with anyio.move_on_after(60) as waited:
            await reader.wait()
        assert waited.cancelled_caught
        writer = live.open(CHAT, FIRST)
        with anyio.move_on_after(60) as waited:
            await reader.wait()
        assert waited.cancelled_caught
        say(writer, "a")
        await reader.wait()
        assert reader.take() == [DeltaRange(FIRST, 1, 1, TextDelta("a"))]


async def test_waiting_ends_when_something_is_put() -> None:
    live = Live()
    writer = live.open(CHAT, FIRST)
    seen: list[LiveEvent] = []
    async with live.read(CHAT) as reader, anyio.create_task_group() as group:

        async def watch() -> None:
            while not any(isinstance(delivery, AttemptReset) for delivery in seen):
                await reader.wait()
                seen.extend(reader.take())

        group.start_soon(watch)
        for text in ("a", "b"):
            await anyio.sleep(1)
            say(writer, text)
        await anyio.sleep(1)
        writer.close()
    assert seen == [
        DeltaRange(FIRST, 1, 1, TextDelta("a")),
        DeltaRange(FIRST, 2, 2, TextDelta("b")),
        AttemptReset(FIRST),
    ]


async def test_one_event_wakes_all_readers_and_gives_them_the_same_value() -> None:
    live = Live()
    writer = live.open(CHAT, FIRST)
    taken: list[list[LiveEvent]] = []

    async def watch() -> None:
        async with live.read(CHAT) as reader:
            await reader.wait()
            taken.append(reader.take())

    async with anyio.create_task_group() as group:
        for _ in range(200):
            group.start_soon(watch)
        await anyio.sleep(1)
        say(writer, "a", "b")
    assert len(taken) == 200
    assert len({id(delivery) for deliveries in taken for delivery in deliveries}) == 1


async def test_a_reader_that_is_cancelled_while_it_waits_leaves_the_others_waiting() -> None:
    live = Live()
    seen: list[str] = []

    async def watch() -> None:
        async with live.read(CHAT) as reader:
            await reader.wait()
            seen.append(text_of(reader.take()))

    async with anyio.create_task_group() as others:
        others.start_soon(watch)
        with anyio.move_on_after(1) as gone:
            await watch()
        assert gone.cancelled_caught
        assert seen == []
        say(live.open(CHAT, FIRST), "a")
    assert seen == ["a"]


async def test_who_waits_with_a_reader_that_ends_is_told() -> None:
    live = Live()

    async def wait(reader: DeltaReader) -> None:
        with pytest.raises(anyio.ClosedResourceError):
            await reader.wait()

    async with anyio.create_task_group() as group:
        async with live.read(CHAT) as reader:
            group.start_soon(wait, reader)
            await anyio.sleep(1)
    with pytest.raises(anyio.ClosedResourceError):
        reader.take()
    await wait(reader)


async def test_readers_that_stall_cost_nothing_while_they_do() -> None:
    live = Live()
    writer = live.open(CHAT, FIRST)
    say(writer, "a")
    async with AsyncExitStack() as block:
        readers = [await block.enter_async_context(live.read(CHAT)) for _ in range(100)]
        for reader in readers:
            reader.take()
        tracemalloc.start()
        try:
            for _ in range(50_000):
                writer.put(TextDelta("four"))
            kept = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        assert kept < 3 * 4 * 50_000
        assert [len(text_of(reader.take())) for reader in readers] == [4 * 50_000] * 100


# --- an attempt ends ---


async def test_of_an_attempt_that_ends_under_it_a_reader_gets_the_rest_and_a_reset() -> None:
    live = Live()
    writer = live.open(CHAT, FIRST)
    async with live.read(CHAT) as reader:
        say(writer, "a")
        reader.take()
        say(writer, "b")
        writer.close()
        await reader.wait()
        assert reader.take() == [DeltaRange(FIRST, 2, 2, TextDelta("b")), AttemptReset(FIRST)]
        assert reader.take() == []
    assert await shown(live) == []


async def test_a_reader_that_slept_through_an_attempt_goes_on_with_the_one_that_runs() -> None:
    live = Live()
    async with live.read(CHAT) as reader:
        say(live.open(CHAT, FIRST), "a")
        reader.take()
        say(live.open(CHAT, SECOND), "slept")
        say(live.open(CHAT, THIRD), "c")
        assert reader.take() == [AttemptReset(FIRST), DeltaRange(THIRD, 1, 1, TextDelta("c"))]


async def test_an_attempt_that_showed_nothing_needs_no_reset() -> None:
    live = Live()
    async with live.read(CHAT) as reader:
        live.open(CHAT, FIRST).close()
        live.open(CHAT, SECOND).close()
        assert reader.take() == []
        with anyio.move_on_after(1) as waited:
            await reader.wait()
        assert waited.cancelled_caught


async def test_the_end_of_an_attempt_wakes_who_has_seen_all_of_it() -> None:
    live = Live()
    writer = live.open(CHAT, FIRST)
    say(writer, "a")
    async with live.read(CHAT, LiveCursor(FIRST, 1)) as reader:
        live.close(CHAT, FIRST)
        await reader.wait()
        assert reader.take() == [AttemptReset(FIRST)]


async def test_an_attempt_that_begins_wakes_who_was_shown_the_one_before() -> None:
    live = Live()
    say(live.open(CHAT, FIRST), "a")
    async with live.read(CHAT) as reader, anyio.create_task_group() as group:
        reader.take()

        async def begin() -> None:
            live.open(CHAT, SECOND)

        group.start_soon(begin)
        await reader.wait()
        assert reader.take() == [AttemptReset(FIRST)]


# --- writing ---


async def test_what_people_are_not_shown_live_has_no_number() -> None:
    live = Live()
    writer = live.open(CHAT, FIRST)
    writer.put(RunStarted(1))
    say(writer, "")
    assert writer.seq == 0
    writer.put(Compacting(None))
    assert writer.seq == 1


async def test_a_writer_is_a_sink_that_is_never_full() -> None:
    live = Live()
    writer = live.open(CHAT, FIRST)
    sink: Sink = writer
    for _ in range(10_000):
        sink.put(TextDelta("x"))
    assert not sink.full
    await sink.room()
    sink.warn("careful")
    assert sink.warnings == ["careful"]
    assert (await shown(live))[-1] == DeltaRange(FIRST, 10_001, 10_001, Warned("careful"))


async def test_leaving_the_block_of_a_writer_closes_its_attempt() -> None:
    live = Live()
    with live.open(CHAT, FIRST) as writer:
        say(writer, "a")
        assert not writer.closed
    assert writer.closed
    assert await shown(live) == []


async def test_what_is_put_after_the_end_goes_nowhere() -> None:
    live = Live()
    writer = live.open(CHAT, FIRST)
    say(writer, "a")
    writer.close()
    say(writer, "b")
    assert (writer.attempt, writer.seq) == (FIRST, 1)
    assert await shown(live) == []


async def test_a_newer_attempt_closes_the_older() -> None:
    live = Live()
    old = live.open(CHAT, FIRST)
    say(old, "a")
    async with live.read(CHAT) as reader:
        reader.take()
        new = live.open(CHAT, SECOND)
        say(old, "late")
        say(new, "b")
        assert old.closed
        assert reader.take() == [AttemptReset(FIRST), DeltaRange(SECOND, 1, 1, TextDelta("b"))]
        old.close()
        assert not new.closed


@pytest.mark.parametrize("late", [FIRST, SECOND], ids=["older", "the same again"])
async def test_an_attempt_that_is_not_newer_is_refused(late: AttemptId) -> None:
    live = Live()
    say(live.open(CHAT, SECOND), "a")
    writer = live.open(CHAT, late)
    assert writer.closed
    say(writer, "late")
    writer.close()
    assert await shown(live) == [DeltaRange(SECOND, 1, 1, TextDelta("a"))]


@pytest.mark.parametrize("when", ["before", "between", "after"])
async def test_what_calls_say_goes_on_in_the_next_attempt_and_nothing_else_does(when: str) -> None:
    live, started, ended = Live(), ToolStarted("a", "execute", "execute"), finished("ok")
    client = Client()
    async with AsyncExitStack() as stack:
        if when == "before":
            reader = await stack.enter_async_context(live.read(CHAT))
        writer = live.open(CHAT, FIRST)
        say(writer, "Hello")
        writer.put(started)
        if when == "between":
            reader = await stack.enter_async_context(live.read(CHAT))
        after = live.open(CHAT, SECOND, after=writer)
        after.put(ended)
        if when == "after":
            reader = await stack.enter_async_context(live.read(CHAT))
        taken = reader.take()
        for delivery in taken:
            client.see(delivery)
    assert client.attempt == SECOND
    assert client.fragments == [started, ended]
    assert text_of(taken) == ("Hello" if when == "between" else ""), "the rest of what it read"


@pytest.mark.parametrize("said", [1, MAX_UNREAD], ids=["seen", "long"])
async def test_what_was_said_before_is_no_part_of_the_next_attempt(said: int) -> None:
    """Also of an attempt that nobody reads any more, and that nobody ever read."""
    live = Live()
    writer = live.open(CHAT, FIRST)
    say(writer, *["a"] * said)
    cursor = None
    if said < MAX_UNREAD:
        assert text_of(await shown(live)) == "a"
        cursor = LiveCursor(FIRST, 1)
    after = live.open(CHAT, SECOND, after=writer)
    say(after, "b")
    assert await shown(live, cursor) == [
        *([AttemptReset(FIRST)] if cursor else []),
        DeltaRange(SECOND, 1, 1, TextDelta("b")),
    ]


async def test_an_attempt_that_went_on_as_the_next_is_the_newest() -> None:
    live = Live()
    after = live.open(CHAT, SECOND, after=live.open(CHAT, FIRST))
    say(after, "a")
    for attempt in (FIRST, SECOND):
        late = live.open(CHAT, attempt)
        assert late.closed
        say(late, "late")
    assert await shown(live) == [DeltaRange(SECOND, 1, 1, TextDelta("a"))]


def test_attempts_are_ordered_by_owner_then_history_then_number() -> None:
    ordered = [AttemptId(1, 1, 2), AttemptId(1, 2, 1), AttemptId(2, 1, 1), AttemptId(10, 1, 1)]
    assert sorted([ordered[2], ordered[0], ordered[3], ordered[1]]) == ordered


async def test_an_attempt_that_was_closed_before_it_was_opened_stays_closed() -> None:
    live = Live()
    live.close(CHAT, SECOND)
    for attempt in (FIRST, SECOND):
        writer = live.open(CHAT, attempt)
        assert writer.closed
        say(writer, "late")
    assert await shown(live) == []
    assert not live.open(CHAT, THIRD).closed


async def test_what_was_closed_is_known_after_the_last_reader_left() -> None:
    live = Live()
    async with live.read(CHAT):
        live.close(CHAT, FIRST)
    assert live.open(CHAT, FIRST).closed


async def test_closing_ends_what_is_older_and_leaves_what_is_newer() -> None:
    live = Live()
    first = live.open(CHAT, FIRST)
    live.close(CHAT, SECOND)
    assert first.closed
    third = live.open(CHAT, THIRD)
    live.close(CHAT, SECOND)
    assert not third.closed
    assert live.open(CHAT, SECOND).closed


async def test_chats_do_not_disturb_each_other() -> None:
    live = Live()
    writer = live.open(CHAT, FIRST)
    live.open("other", THIRD)
    live.close("other", THIRD)
    live.forget("other")
    say(writer, "a")
    assert await shown(live) == [DeltaRange(FIRST, 1, 1, TextDelta("a"))]


# --- forgetting ---


async def test_nothing_is_known_of_a_chat_that_was_only_read() -> None:
    live = Live()
    async with live.read(CHAT), live.read(CHAT):
        assert len(live) == 1
    assert len(live) == 0


def test_many_attempts_of_a_chat_leave_one_thing_to_remember() -> None:
    live = Live()
    for number in range(1, 1_000):
        live.close(CHAT, AttemptId(1, 1, number))
        live.open(CHAT, AttemptId(1, 2, number)).close()
    assert len(live) == 1
    live.forget(CHAT)
    assert len(live) == 0


async def test_a_chat_that_is_forgotten_is_forgotten_with_its_last_reader() -> None:
    live = Live()
    writer = live.open(CHAT, SECOND)
    async with live.read(CHAT) as reader:
        say(writer, "a")
        live.forget(CHAT)
        assert reader.take() == [DeltaRange(SECOND, 1, 1, TextDelta("a")), AttemptReset(SECOND)]
        assert live.open(CHAT, FIRST).closed
        assert len(live) == 1
    assert len(live) == 0


async def test_a_writer_that_ends_after_its_chat_was_forgotten_leaves_nothing() -> None:
    live = Live()
    with live.open(CHAT, FIRST) as writer:
        live.forget(CHAT)
        say(writer, "late")
    live.forget(CHAT)
    assert writer.closed
    assert len(live) == 0


async def test_a_chat_that_comes_back_is_known_again() -> None:
    live = Live()
    async with live.read(CHAT):
        live.open(CHAT, FIRST)
        live.forget(CHAT)
        live.open(CHAT, SECOND).close()
    assert len(live) == 1
    assert live.open(CHAT, SECOND).closed


# --- what the answer is so far ---


def test_the_answer_so_far_is_at_hand_to_be_kept() -> None:
    live = Live()
    assert live.partial(CHAT) is None
    writer = live.open(CHAT, FIRST)
    assert live.partial(CHAT) == LivePartial(FIRST, 0, ())
    writer.put(ReasoningDelta("h"))
    writer.put(ReasoningDelta("m"))
    say(writer, "a", "b")
    writer.put(progress("of a call that began early"))
    say(writer, "c")
    writer.put(CallStarted("a", "look"))
    assert live.partial(CHAT) == LivePartial(FIRST, 7, (Reasoning("hm"), Text("abc")))
    writer.close()
    assert live.partial(CHAT) is None


async def test_the_deltas_of_the_attempt_that_wins_say_the_committed_text() -> None:
    live = Live()
    words = [f"word{number} " for number in range(1_000)]
    run = Agent(model=ScriptedModel([[TextDelta(word) for word in words]])).run("go")
    writer = live.open(CHAT, FIRST)
    client, committed = Client(), ""
    async with live.read(CHAT) as reader, run:
        async for event in run:
            writer.put(event)
            if isinstance(event, MessageCommitted) and event.message.role == "assistant":
                committed = event.message.text
                writer.close()
            elif writer.seq % 7 == 0:
                for delivery in reader.take():
                    client.see(delivery)
        *rest, reset = reader.take()
    for delivery in rest:
        client.see(delivery)
    assert reset == AttemptReset(FIRST)
    assert committed == "".join(words)
    said = [fragment for fragment in client.fragments if isinstance(fragment, TextDelta)]
    assert "".join(fragment.text for fragment in said) == committed


async def test_a_hub_may_have_another_limit_of_output() -> None:
    live = Live(output_limit=1_000)
    writer = live.open(CHAT, FIRST)
    for _ in range(20):
        writer.put(progress("x" * 100))
    assert len(await shown(live)) < 10 < OUTPUT_LIMIT
