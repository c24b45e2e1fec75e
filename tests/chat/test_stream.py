"""Whoever watches a chat, and leaves and comes back, ends with what is in the database."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, get_args

import anyio
import pytest

from holdfast.agent import Agent, approve
from holdfast.chat import queries
from holdfast.chat.change_feed import Feed
from holdfast.chat.errors import ChatNotFound, InvalidInput
from holdfast.chat.handle import Chat
from holdfast.chat.host import Host
from holdfast.chat.rows import ChatRow as Row
from holdfast.chat.rows import fence_of
from holdfast.chat.snapshots import StrandedLimits, read_snapshot
from holdfast.chat.stream import (
    MAX_RESULT_SIZE,
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
from holdfast.chat.transitions import lifecycle, runner, user
from holdfast.host import serving
from holdfast.kernel.errors import Failure
from holdfast.kernel.events import ToolProgressed, ToolStarted
from holdfast.kernel.messages import Message, decode, encode
from holdfast.kernel.model import TextDelta
from holdfast.kernel.tool import Tool, ToolContext, tool
from holdfast.live.broadcast import Live
from holdfast.live.buffer import AttemptId
from holdfast.store.database import Changed, Database, NoticesLost, Unavailable
from holdfast.testing import Clock, ScriptedModel, call, fail, pause, ports, say
from tests.chat.chats import Chats, answer, asks, prompt
from tests.chat.watcher import Watcher, take
from tests.worker.faulty_database import FaultyDatabase


@tool(effect="pure")
async def look(ctx: ToolContext, what: str) -> str:
    """Look at something, for two seconds."""
    for part in ("half", "whole"):
        await anyio.sleep(1)
        await ctx.progress(f"{part} of {what}", {"part": part, "of": [what]})
    return f"saw {what}"


@tool(approval="ask")
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


@asynccontextmanager
async def hosting(
    db: Database, script: Sequence[Any], clock: Clock, tools: Sequence[Tool] = ()
) -> AsyncIterator[Host]:
    world = ports(clock=clock)
    agent = Agent(model=ScriptedModel(script), tools=tools, ports=world)
    async with serving(db, [agent], ports=world, titles=False) as host:
        yield host


def slowly(text: str, pieces: int = 3) -> list[Any]:
    """A second for each piece."""
    size = -(-len(text) // pieces)
    return [[pause(1), say(text[at : at + size])] for at in range(0, len(text), size)]


TURN: Sequence[Any] = [
    [*slowly("I begin, but it breaks off"), fail(status=503)],
    [*slowly("I look at two things."), call("look", what="a"), pause(0.5), call("look", what="b")],
    [*slowly("Now it costs something."), call("pay", amount=3)],
    slowly("It is paid, and that is all."),
]
"""An attempt that fails, tools that begin while the answer is still arriving, an approval."""


async def play(chat: Chat) -> None:
    """What people do during `TURN`: steer, queue and approve."""
    await anyio.sleep(8)
    await chat.send("and hurry", "steer")
    await chat.send("thank you", "queue")
    (action,) = (await chat.rest()).actions
    await anyio.sleep(2)
    await chat.resolve({action.call.id: approve(action)})


async def assert_as_stored(db: Database, chat: Chat, watcher: Watcher) -> None:
    stored = await db.read(lambda tx: queries.read_history(tx, chat.id))
    assert [watcher.messages[number] for number in watcher.numbers] == stored
    assert watcher.chat == await chat.read()
    assert watcher.queue == await chat.queue.list()
    assert watcher.actions == await chat.actions()
    assert watcher.fragments == []


async def test_a_reader_cut_at_any_event_ends_with_what_is_in_the_database(
    db: Database, clock: Clock
) -> None:
    script = [*TURN, slowly("You are welcome.")]
    whole, pieces, late = Watcher(), Watcher(), Watcher()
    cut = [Watcher() for _ in range(90)]

    async def leave_once(at: int, watcher: Watcher, seconds: float) -> None:
        await watcher.watch(chat, at)
        await anyio.sleep(seconds)
        await watcher.watch(chat)

    async with hosting(db, script, clock, [look, pay]) as host:
        chat = await host.create("go")
        async with anyio.create_task_group() as group:
            group.start_soon(play, chat)
            group.start_soon(whole.watch, chat)
            group.start_soon(pieces.watch_in_pieces, chat)
            for at, watcher in enumerate(cut, start=1):
                group.start_soon(leave_once, at, watcher, at % 4)
        await late.watch_in_pieces(chat)
        for watcher in (whole, pieces, late, *cut):
            await assert_as_stored(db, chat, watcher)
    assert len(whole.events) <= len(cut), "readers are to be cut at every event"
    answers = [text for _, text in whole.finished]
    assert answers == [
        "I look at two things.",
        "Now it costs something.",
        "It is paid, and that is all.",
        "You are welcome.",
    ]
    assert [shown for shown, _ in whole.finished] == answers, "the deltas are not the answer"
    for watcher in (pieces, *cut):
        for shown, text in watcher.finished:
            assert text.startswith(shown)


async def test_every_event_can_be_written_as_json_and_read_back(db: Database, clock: Clock) -> None:
    watcher = Watcher()
    async with hosting(db, [*TURN, "You are welcome."], clock, [look, pay]) as host:
        chat = await host.create("go")
        async with anyio.create_task_group() as group:
            group.start_soon(play, chat)
            group.start_soon(watcher.watch, chat)
        await chat.edit(1, "go elsewhere")
        await watcher.watch(chat, 2)
    assert {type(event) for event in watcher.events} == set(get_args(StreamEvent))
    for event in watcher.events:
        assert decode(encode(event), StreamEvent) == event  # type: ignore[arg-type]


# --- what the tests below watch: a chat whose rows a test writes, and whose attempts it speaks ---


class Stage:
    """A feed over a test's database. Notices come as they do, or not at all."""

    def __init__(self, chats: Chats, *, notices: bool = True) -> None:
        self.live = Live()
        self.feed = Feed(chats.db, self.live, StrandedLimits(15_000_000, 60_000_000))
        self._end = chats.db.listen(self.feed.receive_notice) if notices else (lambda: None)

    def stream(self, after: Cursor | None = None, *, follow: bool = False) -> ChatStream:
        return ChatStream(self.feed, "c1", after, follow=follow)

    async def given(self, after: Cursor | None = None) -> list[StreamEvent]:
        """All that a reader gets of a chat that rests."""
        async with self.stream(after) as stream:
            return [event async for event in stream]

    def close(self) -> None:
        self._end()


@pytest.fixture
def stage(chats: Chats) -> Iterator[Stage]:
    made = Stage(chats)
    yield made
    made.close()


def attempt(chat: Row) -> AttemptId:
    return AttemptId(chat.epoch, chat.history_version, chat.attempt)


def kinds(events: Iterable[StreamEvent]) -> list[str]:
    return [str(event.__struct_config__.tag) for event in events]


def numbers(events: Iterable[StreamEvent]) -> list[int]:
    return [event.message.number for event in events if isinstance(event, MessageChanged)]


async def within(stream: ChatStream, seconds: float) -> list[StreamEvent]:
    """What comes in so many seconds."""
    events = []
    with anyio.move_on_after(seconds):
        async for event in stream:
            events.append(event)
    return events


# --- opening ---


async def test_a_chat_at_rest_is_given_whole_and_the_stream_ends(
    chats: Chats, stage: Stage
) -> None:
    row = await chats.idle()
    events = await stage.given()
    assert kinds(events) == ["chat", "message", "message"]
    assert numbers(events) == [1, 2]
    assert events[-1].cursor == Cursor(row.snapshot_version)


async def test_only_the_last_event_of_one_look_moves_the_cursor_on(
    chats: Chats, stage: Stage
) -> None:
    row = await chats.idle()
    cursors = [event.cursor.snapshot for event in await stage.given()]
    assert cursors == [0, 0, row.snapshot_version]


async def test_coming_back_gives_the_chat_and_what_changed_since(
    chats: Chats, stage: Stage
) -> None:
    await chats.idle()
    seen = (await stage.given())[-1].cursor
    assert kinds(await stage.given(seen)) == ["chat"]
    await chats.send("c1", "more")
    async with stage.stream(seen) as stream:
        events = await take(stream, 3)
    assert kinds(events) == ["chat", "message", "actions"]
    assert numbers(events) == [3]


async def test_a_long_chat_opens_with_its_newest_page(chats: Chats, stage: Stage) -> None:
    await chats.running()
    await chats.commit("c1", *(answer(f"{number}") for number in range(2, 251)))
    await chats.finish()
    chat, reset, *page = await stage.given()
    assert isinstance(chat, ChatChanged)
    assert isinstance(reset, Reset)
    assert (reset.what, reset.more_before) == ("history", 151)
    assert numbers(page) == list(range(151, 251))


async def test_who_missed_up_to_500_messages_gets_them_and_who_missed_more_a_new_page(
    chats: Chats, stage: Stage
) -> None:
    row = await chats.running()
    seen = Cursor(row.snapshot_version)
    await chats.commit("c1", *(answer(f"{number}") for number in range(2, 502)))
    async with stage.stream(seen) as stream:
        events = await take(stream, 501)
    assert numbers(events) == list(range(2, 502))
    await chats.commit("c1", answer("one too many"))
    async with stage.stream(seen) as stream:
        _, reset, *page = await take(stream, 102)
    assert isinstance(reset, Reset)
    assert (reset.what, reset.more_before) == ("history", 403)
    assert numbers(page) == list(range(403, 503))


async def test_a_chat_of_large_messages_opens_with_those_that_fit(
    chats: Chats, stage: Stage
) -> None:
    row = await chats.running()
    seen = Cursor(row.snapshot_version)
    large = "x" * (MAX_RESULT_SIZE // 3)  # and what is around the text: two fit
    await chats.commit("c1", *(answer(large) for _ in range(2, 7)))
    for cursor in (None, seen):
        async with stage.stream(cursor) as stream:
            _, reset, *page = await take(stream, 4)
        assert isinstance(reset, Reset)
        assert (reset.what, reset.more_before) == ("history", 5)
        assert numbers(page) == [5, 6]


async def test_one_message_is_told_however_large_it_is(chats: Chats, stage: Stage) -> None:
    row = await chats.running()
    seen = Cursor(row.snapshot_version)
    await chats.commit("c1", answer("x" * 2 * MAX_RESULT_SIZE))
    async with stage.stream(seen) as stream:
        events = await take(stream, 2)
    assert (kinds(events), numbers(events)) == (["chat", "message"], [2])
    async with stage.stream() as stream:
        _, reset, *page = await take(stream, 3)
    assert isinstance(reset, Reset)
    assert (reset.more_before, numbers(page)) == (2, [2])


async def test_large_messages_that_an_edit_took_out_are_only_named(
    chats: Chats, stage: Stage
) -> None:
    await chats.running()
    await chats.commit("c1", *(answer("x" * (MAX_RESULT_SIZE // 2)) for _ in range(2, 7)))
    row = await chats.finish()
    async with stage.stream(Cursor(row.snapshot_version), follow=True) as stream:
        await take(stream, 1)
        await chats.do(user.edit, "c1", 1, prompt("something else"))
        events = await take(stream, 2)
    assert kinds(events) == ["superseded", "message"]


async def test_a_cursor_that_the_chat_never_had_is_answered_with_a_new_page(
    chats: Chats, stage: Stage
) -> None:
    row = await chats.idle()
    events = await stage.given(Cursor(row.snapshot_version + 1, 9, 9, 9, 9))
    assert kinds(events) == ["chat", "reset", "message", "message"]
    assert events[1] == Reset(Cursor(0), "history")
    assert events[-1].cursor == Cursor(row.snapshot_version)


async def test_a_new_page_comes_with_the_running_attempt_from_its_start(
    chats: Chats, stage: Stage
) -> None:
    row = await chats.running()
    writer = stage.live.open("c1", attempt(row))
    for piece in ("one ", "two ", "three"):
        writer.put(TextDelta(piece))
    strange = Cursor(row.snapshot_version + 100, row.epoch, row.history_version, row.attempt, 2)
    async with stage.stream(strange) as stream:
        events = await take(stream, 4)
    assert kinds(events) == ["chat", "reset", "message", "delta"]
    assert isinstance(events[-1], LiveDelta)
    assert events[-1].fragment == TextDelta("one two three")


async def test_an_unknown_chat_cannot_be_watched(chats: Chats, stage: Stage) -> None:
    with pytest.raises(ChatNotFound):
        await anext(stage.stream())


# --- changes ---


async def test_an_edit_says_which_messages_are_gone(chats: Chats, stage: Stage) -> None:
    await chats.idle()
    async with stage.stream(follow=True) as stream:
        await take(stream, 3)
        await chats.do(user.edit, "c1", 1, prompt("something else"))
        gone, instead, last = await take(stream, 3)
    assert isinstance(gone, Superseded)
    assert gone.numbers == (1, 2)
    assert isinstance(instead, MessageChanged)
    assert (instead.message.number, instead.message.message.text) == (3, "something else")
    assert isinstance(last, ChatChanged)
    assert last.chat.status == "running"


async def test_queue_and_actions_are_told_whole(chats: Chats, stage: Stage) -> None:
    await chats.requires_action(calls={"a": None, "b": None}, queue=["queue"])
    events = await stage.given()
    assert kinds(events) == ["chat", "message", "message", "queue", "actions"]
    queue, actions = events[-2:]
    assert isinstance(queue, QueueChanged)
    assert [queued.id for queued in queue.queue] == ["q1"]
    assert isinstance(actions, ActionsChanged)
    assert [(one.call.id, one.number) for one in actions.actions] == [("a", 2), ("b", 2)]


async def test_a_stream_ends_when_the_chat_is_deleted(chats: Chats, stage: Stage) -> None:
    await chats.idle()
    async with stage.stream(follow=True) as stream:
        await take(stream, 3)
        await chats.do(lifecycle.delete, "c1")
        assert [event async for event in stream] == []
        assert [event async for event in stream] == []


async def test_a_chat_that_waits_for_its_children_is_not_at_rest(
    chats: Chats, stage: Stage
) -> None:
    await chats.requires_action(action="child", calls={"a": None})
    async with stage.stream() as stream:
        assert kinds(await within(stream, 60)) == ["chat", "message", "message", "actions"]


async def test_a_chat_says_that_no_worker_knows_its_agent(chats: Chats, stage: Stage) -> None:
    await chats.create(agent="strange")
    async with stage.stream() as stream:
        first, *_ = await within(stream, 59)
        assert isinstance(first, ChatChanged)
        assert not first.chat.stranded
        (later,) = await within(stream, 10)
        assert isinstance(later, ChatChanged)
        assert later.chat.stranded
        await chats.beat(agents=("strange",))
        (found,) = await within(stream, 10)
        assert isinstance(found, ChatChanged)
        assert not found.chat.stranded


async def test_a_lost_notice_costs_one_poll(chats: Chats) -> None:
    deaf = Stage(chats, notices=False)
    await chats.idle()
    async with deaf.stream(follow=True) as stream:
        await take(stream, 3)
        await chats.send("c1", "more")
        assert await within(stream, 4.9) == []
        assert numbers(await within(stream, 0.2)) == [3]


async def test_after_missed_notices_everything_is_looked_at_at_once(chats: Chats) -> None:
    deaf = Stage(chats, notices=False)
    await chats.idle()
    async with deaf.stream(follow=True) as stream:
        await take(stream, 3)
        await chats.send("c1", "more")
        deaf.feed.receive_notice(NoticesLost())
        assert numbers(await within(stream, 0.1)) == [3]


async def test_a_notice_of_a_version_that_is_not_there_costs_one_look(
    chats: Chats, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where another server has taken over, what was heard of last may not have come to it."""
    looks = 0
    read = chats.db.read

    async def counted(*args: Any, **options: Any) -> Any:
        nonlocal looks
        looks += 1
        assert looks < 9, "it looks again and again"
        return await read(*args, **options)

    await chats.idle()
    async with stage.stream(follow=True) as stream:
        await take(stream, 3)
        with monkeypatch.context() as patch:
            patch.setattr(chats.db, "read", counted)
            stage.feed.receive_notice(Changed("c1", 1_000))
            assert await within(stream, 4) == []
            assert looks == 1
        await chats.send("c1", "more")
        assert numbers(await within(stream, 0.1)) == [3]


async def test_a_database_that_is_away_for_a_while_is_waited_for(
    chats: Chats, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    await chats.idle()
    async with stage.stream(follow=True) as stream:
        await take(stream, 3)

        async def gone(transaction: object) -> None:
            raise Unavailable("the disk is full")

        with monkeypatch.context() as patch:
            patch.setattr(chats.db, "read", gone)
            await chats.send("c1", "more")
            assert await within(stream, 20) == []
        assert numbers(await within(stream, 5.1)) == [3]


async def test_a_reader_that_gives_up_waiting_and_asks_again_is_answered_at_once(
    chats: Chats, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaf = Stage(chats, notices=False)
    await chats.running()
    read = chats.db.read

    async def slowly(transaction: Any) -> Any:
        await anyio.sleep(1)
        return await read(transaction)

    async def give_up() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(chats.db, "read", slowly)
            assert await within(stream, 0.5) == []

    async with deaf.stream() as stream:
        await give_up()
        assert kinds(await within(stream, 0.1)) == ["chat", "message"]
        await chats.send("c1", "more")
        deaf.feed.receive_notice(NoticesLost())
        await give_up()
        assert kinds(await within(stream, 0.1)) == ["queue", "chat"]


# --- deltas ---


async def test_deltas_of_the_running_attempt_go_on_where_the_reader_left(
    chats: Chats, stage: Stage
) -> None:
    writer = stage.live.open("c1", attempt(await chats.running()))
    writer.put(TextDelta("one "))
    async with stage.stream() as stream:
        *_, delta = await take(stream, 3)
    assert isinstance(delta, LiveDelta)
    writer.put(TextDelta("two "))
    writer.put(TextDelta("three"))
    async with stage.stream(delta.cursor) as stream:
        chat, rest = await take(stream, 2)
    assert isinstance(chat, ChatChanged)
    assert isinstance(rest, LiveDelta)
    assert (rest.first, rest.last, rest.fragment) == (2, 3, TextDelta("two three"))


async def test_a_delta_of_an_older_attempt_is_dropped(chats: Chats, stage: Stage) -> None:
    row = await chats.running()
    await chats.commit("c1", answer("done", asks("a")))
    writer = stage.live.open("c1", attempt(row))
    async with stage.stream() as stream:
        await take(stream, 3)
        writer.put(TextDelta("late"))
        assert await within(stream, 60) == []


async def test_a_newer_delta_is_shown_behind_what_was_committed_before_it(chats: Chats) -> None:
    deaf = Stage(chats, notices=False)
    before = deaf.live.open("c1", attempt(await chats.running()))
    before.put(TextDelta("the answer"))
    async with deaf.stream() as stream:
        await take(stream, 3)
        await chats.commit("c1", answer("the answer", asks("a")))
        after = deaf.live.open("c1", attempt(await chats.row()))
        after.put(TextDelta("more"))
        events = await within(stream, 1)
    assert kinds(events) == ["message", "reset", "chat", "delta"]
    assert isinstance(events[-1], LiveDelta)
    assert events[-1].cursor.history == 3


async def test_what_is_said_and_committed_during_a_look_is_given_in_that_order(
    chats: Chats, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = stage.live.open("c1", attempt(await chats.running()))
    writer.put(TextDelta("the "))
    read = chats.db.read

    async def meanwhile(transaction: Any) -> Any:
        monkeypatch.undo()
        writer.put(TextDelta("answer"))
        await chats.commit("c1", answer("the answer", asks("a")))
        return await read(transaction)

    async with stage.stream() as stream:
        await take(stream, 3)
        monkeypatch.setattr(chats.db, "read", meanwhile)
        stage.feed.receive_notice(NoticesLost())
        events = await within(stream, 1)
    assert kinds(events) == ["delta", "message", "reset", "chat"]


async def test_an_attempt_that_cannot_be_continued_is_void(chats: Chats, stage: Stage) -> None:
    """Its process died, and this one knows nothing of it."""
    row = await chats.running()
    seen = Cursor(row.snapshot_version, row.epoch, row.history_version, row.attempt, 7)
    async with stage.stream(seen) as stream:
        chat, reset = await take(stream, 2)
        assert isinstance(chat, ChatChanged)
        assert reset == Reset(Cursor(row.snapshot_version), "live")
        writer = stage.live.open("c1", attempt(row))
        writer.put(TextDelta("anew"))
        (delta,) = await take(stream, 1)
        assert await within(stream, 60) == []
    assert isinstance(delta, LiveDelta)
    assert delta.first == 1


async def test_fragments_whose_attempt_ended_without_a_word_are_dropped_in_the_end(
    chats: Chats, stage: Stage
) -> None:
    writer = stage.live.open("c1", attempt(await chats.running()))
    writer.put(TextDelta("one"))
    async with stage.stream() as stream:
        await take(stream, 3)
        writer.put(TextDelta("two"))
        writer.close()
        assert kinds(await within(stream, 4.9)) == ["delta"]
        assert kinds(await within(stream, 0.2)) == ["reset"]


@pytest.mark.parametrize("wait", [20, 100], ids=["held", "released"])
async def test_fragments_of_an_attempt_that_failed_are_dropped_when_its_retry_is_recorded(
    db: Database, clock: Clock, wait: int
) -> None:
    """Not only when the next attempt begins to answer: that may be minutes away."""
    script = [[say("Wrong"), pause(2), fail(kind="rate_limit", retry_after=wait)], "Right."]
    events: list[StreamEvent] = []
    async with hosting(db, script, clock) as host:
        chat = await host.create("?")

        async def watch() -> None:
            async for event in chat.stream():
                events.append(event)

        async with anyio.create_task_group() as group:
            group.start_soon(watch)
            await anyio.sleep(1)
            assert isinstance(events[-1], LiveDelta)
            await anyio.sleep(3)
            reset, waiting = events[-2:]
            assert isinstance(reset, Reset)
            assert reset.what == "live"
            assert isinstance(waiting, ChatChanged)
            assert waiting.chat.retry is not None


def partials(events: Iterable[StreamEvent]) -> list[Message | None]:
    return [event.chat.partial for event in events if isinstance(event, ChatChanged)]


async def test_a_reader_between_two_attempts_is_shown_what_the_first_had_said(
    chats: Chats, stage: Stage
) -> None:
    chat = await chats.running("c1")
    writer = stage.live.open("c1", attempt(chat))
    writer.put(TextDelta("so far"))
    async with stage.stream(follow=True) as stream:
        opened = await take(stream, 3)
        assert (kinds(opened), partials(opened)) == (["chat", "message", "delta"], [None])
        await chats.do(runner.write_partial, fence_of(chat), 1, answer("so far"))
        writer.close()
        chats.clock.advance(100)
        await chats.claim("root", worker="next")
        told = await within(stream, 6)
        assert (kinds(told), partials(told)) == (["reset", "chat"], [answer("so far")])
        await chats.commit("c1", answer("all of it"))
        assert partials(await within(stream, 6)) == [None]


async def test_a_reader_that_comes_between_two_attempts_is_shown_what_the_first_had_said(
    chats: Chats, stage: Stage
) -> None:
    chat = await chats.running("c1")
    await chats.do(runner.write_partial, fence_of(chat), 1, answer("so far"))
    chats.clock.advance(100)
    async with stage.stream(follow=True) as stream:
        assert partials(await take(stream, 2)) == [answer("so far")]
        await chats.claim("root", worker="next")
        assert partials(await within(stream, 1)) == [answer("so far")]
        stage.live.open("c1", attempt(await chats.row("c1"))).put(TextDelta("anew"))
        assert kinds(await within(stream, 1)) == ["delta"]


async def test_the_partial_answer_of_a_worker_that_is_alive_was_not_interrupted(
    chats: Chats, stage: Stage
) -> None:
    chat = await chats.running("c1")
    await chats.do(runner.write_partial, fence_of(chat), 1, answer("so far"))
    assert partials(await within(stage.stream(follow=True), 1)) == [None]
    assert (await chats.ask(read_snapshot, "c1", stage.feed.stranded_limits)).partial is None
    await chats.do(runner.release, fence_of(chat))
    assert (await chats.ask(read_snapshot, "c1", stage.feed.stranded_limits)).partial == answer(
        "so far"
    )


async def test_an_interrupted_answer_is_a_message_before_its_fragments_go(
    db: Database, clock: Clock
) -> None:
    watcher = Watcher()
    async with hosting(db, [slowly("This takes a while.", 10)], clock) as host:
        chat = await host.create("go")
        async with anyio.create_task_group() as group:
            group.start_soon(watcher.watch, chat)
            await anyio.sleep(5.5)
            await chat.interrupt()
        await assert_as_stored(db, chat, watcher)
    assert watcher.finished == [("This takes", "This takes")]


async def test_a_call_that_began_before_its_answer_was_committed_is_still_seen_to_run(
    db: Database, clock: Clock
) -> None:
    watcher = Watcher()
    script = [[call("look", what="it"), pause(1.5), say("There.")], "Seen."]
    async with hosting(db, script, clock, [look]) as host:
        chat = await host.create("go")
        await watcher.watch(chat)
    (at,) = [
        place
        for place, event in enumerate(watcher.events)
        if isinstance(event, MessageChanged) and event.message.message.calls
    ]
    behind = [event.fragment for event in watcher.events[at:] if isinstance(event, LiveDelta)]
    assert [fragment for fragment in behind if isinstance(fragment, ToolStarted)] == [
        ToolStarted("call_1", "look", "look")
    ]
    progress = [one.text for one in behind if isinstance(one, ToolProgressed)]
    assert progress == ["half of it", "whole of it"]


async def test_a_reader_that_stalls_gets_the_rest_in_one_piece(chats: Chats, stage: Stage) -> None:
    writer = stage.live.open("c1", attempt(await chats.running()))
    async with stage.stream() as stream:
        await take(stream, 2)
        for _ in range(10_000):
            writer.put(TextDelta("x"))
        (delta,) = await take(stream, 1)
    assert isinstance(delta, LiveDelta)
    assert (delta.first, delta.last) == (1, 10_000)


# --- beginning and end ---


async def test_with_follow_a_stream_goes_on_with_the_next_turn(db: Database, clock: Clock) -> None:
    async with hosting(db, ["one", "two"], clock) as host:
        chat = await host.create("go")
        async with chat.stream(follow=True) as stream:
            assert len(numbers(await within(stream, 60))) == 2
            await chat.send("again")
            assert len(numbers(await within(stream, 60))) == 2


async def test_a_stream_that_is_dropped_half_way_leaves_nothing_behind(
    chats: Chats, stage: Stage
) -> None:
    await chats.running()

    async def look_and_leave() -> None:
        async for _ in stage.stream():
            return

    await look_and_leave()
    gc.collect()
    await anyio.sleep(0.001)
    assert len(stage.live) == 0
    assert len(stage.feed._announcements) == 0


async def test_closing_a_stream_ends_whoever_waits_for_it(chats: Chats, stage: Stage) -> None:
    await chats.running()
    stream = stage.stream()
    ended = []

    async def read() -> None:
        ended.extend([event async for event in stream])

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        await anyio.sleep(1)
        await stream.aclose()
    assert kinds(ended) == ["chat", "message"]
    assert len(stage.live) == 0


async def test_a_stream_has_one_reader(chats: Chats, stage: Stage) -> None:
    await chats.running()
    async with stage.stream() as stream:
        await take(stream, 2)
        async with anyio.create_task_group() as group:
            group.start_soon(within, stream, 1)
            await anyio.sleep(0.5)
            with pytest.raises(anyio.BusyResourceError):
                await anext(stream)


def test_a_cursor_is_text_and_back() -> None:
    cursor = Cursor(12, 3, 10, 1, 57)
    assert str(cursor) == "12.3.10.1.57"
    assert Cursor.parse("12.3.10.1.57") == cursor


@pytest.mark.parametrize("text", ["", "1", "1.2.3.4.-5", "1.2.3.4.x", "1.2.3.4.5.6", "9" * 40])
def test_what_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="is not a cursor"):
        Cursor.parse(text)


# --- what others get wrong ---


async def test_an_edit_of_long_ago_costs_a_reader_that_comes_back_nothing(
    chats: Chats, stage: Stage
) -> None:
    await chats.idle()
    await chats.do(user.edit, "c1", 1, prompt("something else"))
    await chats.claim()
    await chats.commit("c1", answer("as you like"))
    await chats.finish()
    seen = (await stage.given())[-1].cursor
    assert kinds(await stage.given(seen)) == ["chat"]
    await chats.send("c1", "more")
    async with stage.stream(seen) as stream:
        assert numbers(await take(stream, 3)) == [5]


async def test_a_look_reads_no_more_of_a_long_chat(chats: Chats) -> None:
    """Neither of a reader that stays nor of one that comes back."""
    link = FaultyDatabase(chats.db)
    stage = Stage(chats, notices=False)
    stage.feed.db = link
    read: list[int] = []
    await chats.running()
    for _ in range(2):
        async with stage.stream(follow=True) as stream:
            await within(stream, 1)
            link.rows = 0
            await chats.commit("c1", answer("one more"))
            (told, _) = await take(stream, 2)
            read.append(link.rows)
        assert isinstance(told, MessageChanged)
        link.rows = 0
        async with stage.stream(Cursor((await chats.row("c1")).snapshot_version)) as stream:
            await take(stream, 1)
        read.append(link.rows)
        await chats.commit("c1", *(answer(f"{number}") for number in range(300)))
    assert read[:2] == read[2:]


async def test_another_error_at_the_same_history_is_told(chats: Chats, stage: Stage) -> None:
    chat = await chats.error()
    async with stage.stream(follow=True) as stream:
        await within(stream, 1)
        await chats.do(user.retry, "c1")
        await chats.claim()
        again = await chats.row("c1")
        await chats.do(runner.fail, fence_of(again), Failure("auth", "The key is gone."))
        *_, last = await within(stream, 1)
    assert again.history_version == chat.history_version
    assert isinstance(last, ChatChanged)
    assert last.chat.error is not None
    assert last.chat.error.message == "The key is gone."


async def test_whatever_changes_of_a_chat_is_told(chats: Chats, stage: Stage) -> None:
    await chats.idle()
    changes: Sequence[dict[str, Any]] = [
        {"title": "named"},
        {"model": "other:model"},
        {"effort": "high"},
        {"labels": {"team": "red"}},
    ]
    async with stage.stream(follow=True) as stream:
        await within(stream, 1)
        for change in changes:
            await chats.do(user.update, "c1", change)
            (told,) = await take(stream, 1)
            assert isinstance(told, ChatChanged)
            assert {name: getattr(told.chat, name) for name in change} == change
        for put_away, archived in ((lifecycle.archive, True), (lifecycle.unarchive, False)):
            await chats.do(put_away, "c1")
            (told,) = await take(stream, 1)
            assert isinstance(told, ChatChanged)
            assert told.chat.archived is archived
