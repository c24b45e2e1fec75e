"""A stream goes on whatever happens to its connections, and what it gave is what is stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import anyio
import pytest
from aiohttp import web
from msgspec import structs

from holdfast.chat.errors import ChatNotFound
from holdfast.chat.rows import Stored
from holdfast.chat.snapshots import ChatResult, Snapshot
from holdfast.chat.stream import (
    ChatChanged,
    Cursor,
    LiveDelta,
    MessageChanged,
    Reset,
    StreamEvent,
)
from holdfast.client.connect import DEFAULT_PATIENCE, connect
from holdfast.client.errors import RemoteError, Unreachable
from holdfast.client.remote_chat import RemoteChat
from holdfast.client.stream import SILENCE_TIMEOUT, RemoteStream
from holdfast.kernel.messages import File, Message, ToolResult
from holdfast.providers.sse import MAX_EVENT_BYTES
from holdfast.server.event_codec import (
    END_DELETED,
    END_REVOKED,
    END_SHUTDOWN,
    ServerEvent,
    WireEvent,
    wire_of,
)
from holdfast.server.sse import SSE_HEADERS, plain
from holdfast.server.wire_format import to_json
from holdfast.store.database import Database
from holdfast.testing import Clock, call
from tests.chat.test_stream import TURN, look, pay, play, slowly
from tests.chat.watcher import Watcher
from tests.client.served import ANN, STEADY, Bearer, Proxy, answering, connected, proxied
from tests.server.api import Api, agent, serving_api
from tests.server.streams.test_resume import assert_as_stored
from tests.test_host import ask_user

SCRIPT: Sequence[Any] = [*TURN, slowly("You are welcome.")]


class Reader(Watcher):
    """Somebody who reads a chat on a server, without a thought of connections."""

    given: Counter[int]

    async def read(self, chat: RemoteChat) -> None:
        """Until it has nothing more to do."""
        self.given = Counter()
        async with chat.stream(follow=True) as stream:
            async for event in stream:
                assert self.events or isinstance(event, ChatChanged), "the chat does not come first"
                self.see(event)
                assert stream.cursor is not None
                if isinstance(event, MessageChanged):
                    self.given[event.message.number] += 1
                elif isinstance(event, Reset) and event.what == "history":
                    self.given.clear()
                if self.done and not self.queue:
                    return

    def assert_nothing_twice(self) -> None:
        assert max(self.given.values()) == 1
        chats = [event.chat for event in self.events if isinstance(event, ChatChanged)]
        assert all(one != other for one, other in pairwise(chats))


@asynccontextmanager
async def cut_client(api: Api, cut: Callable[[int], int | None]) -> AsyncIterator[Any]:
    """A client whose streams are cut after so many bytes, by the number of the connection."""
    count = iter(range(1, 1_000))

    def cut_streams(asked: bytes) -> int | None:
        return cut(next(count)) if b"/stream " in asked.partition(b"\r")[0] else None

    async with proxied(api.url) as proxy, connect(proxy.url, ANN) as host:
        proxy.cut_after = cut_streams
        yield proxy, host


async def test_a_reader_cut_anywhere_is_given_what_is_stored_and_nothing_twice(
    db: Database, clock: Clock
) -> None:
    readers: list[tuple[int, Reader, Proxy]] = []

    async def read(size: int) -> None:
        async with cut_client(api, lambda number: size * number) as (proxy, host):
            reader = Reader()
            readers.append((size, reader, proxy))
            await reader.read(await host.chat(chat.id))

    async with connected(db, [agent(SCRIPT, clock, tools=[look, pay])], clock) as (api, _):
        chat = await api.host.create("go", owner="ann")
        async with anyio.create_task_group() as group:
            group.start_soon(play, chat)
            for size in (*range(190, 3_000, 131), 10_000, 1_000_000):
                group.start_soon(read, size)
        for _, reader, _ in readers:
            await assert_as_stored(db, chat, reader)  # type: ignore[arg-type]
            reader.assert_nothing_twice()
    assert len(readers) == 24
    for size, reader, proxy in readers:
        assert proxy.connections > 8 or size > 500, "it was not cut"
        assert len(reader.finished) == 4
    _, whole, _ = max(readers, key=lambda each: each[0])  # not cut, and not always the last to come
    assert [shown for shown, _ in whole.finished] == [text for _, text in whole.finished]
    assert sum(isinstance(event, LiveDelta) for event in whole.events) > 10


async def test_a_reader_cut_at_each_byte_of_its_first_page_is_given_it_once(
    db: Database, clock: Clock
) -> None:
    async with connected(db, [agent(["one", "two"], clock)], clock) as (api, far):
        chat = await far.create("go")
        await chat.rest()
        await chat.send("more")
        await chat.rest()
        expected = await chat.messages()
        cuts = 0
        for size in range(180, 4_600, 97):
            cut = lambda number, size=size: size if number == 1 else None  # noqa: E731
            async with cut_client(api, cut) as (proxy, host):
                events = [event async for event in (await host.chat(chat.id)).stream()]
            cuts += sum(b"/stream " in asked for asked in proxy.requests) > 1
            stored = [event.message for event in events if isinstance(event, MessageChanged)]
            assert stored == list(expected), size
            assert sum(isinstance(event, ChatChanged) for event in events) == 1
        assert cuts > 15


async def test_a_stream_outlives_its_server(db: Database, clock: Clock) -> None:
    reader, text = Reader(), "one, two, three, four, five, six"
    played = agent([slowly(text, 8)] * 4 + ["and more"] * 8, clock)

    async def live(proxy: Proxy, seconds: float) -> None:
        async with serving_api(db, [played], clock=clock, identity=Bearer(db)) as api:
            proxy.target = ("127.0.0.1", int(api.url.rpartition(":")[2]))
            await anyio.sleep(seconds)

    async def lives(proxy: Proxy) -> None:
        await live(proxy, 3)
        await anyio.sleep(40)  # nobody there at all
        for seconds in (4.0, 5.0, 1_000.0):
            await live(proxy, seconds)

    async with serving_api(db, [played], clock=clock, worker=None) as first:
        chat = await first.host.create("go", owner="ann")
        for prompt in "abcd":
            await chat.send(prompt)
        async with proxied(first.url) as proxy, anyio.create_task_group() as group:
            group.start_soon(lives, proxy)
            await anyio.sleep(1)
            async with connect(proxy.url, ANN) as host:
                await reader.read(await host.chat(chat.id))
            group.cancel_scope.cancel()
        assert proxy.connections > 6
        stored = await chat.messages()
        assert [reader.messages[number] for number in reader.numbers] == list(stored)
        reader.assert_nothing_twice()


# --- its end ---


async def test_it_ends_when_the_chat_rests_unless_it_is_to_follow(
    db: Database, clock: Clock
) -> None:
    script = [slowly("one"), call("ask_user"), "two"]
    async with connected(db, [agent(script, clock, tools=[ask_user])], clock) as (_, far):
        chat = await far.create("go")
        events = [event async for event in chat.stream()]
        assert [e.message.message.text for e in events if isinstance(e, MessageChanged)] == [
            "go",
            "one",
        ]
        cursor = events[-1].cursor
        await chat.send("more")
        events = [event async for event in chat.stream(cursor)]
        numbers = [e.message.number for e in events if isinstance(e, MessageChanged)]
        assert numbers == [3, 4], "it goes on behind the cursor, and waits for a person now"
        again = [event async for event in chat.stream(events[-1].cursor)]
        assert [type(event) for event in again] == [ChatChanged], "also when nothing is new"
        with anyio.move_on_after(100) as waited:
            async with chat.stream(follow=True) as stream:
                async for _ in stream:
                    pass
        assert waited.cancelled_caught


async def test_a_deleted_chat_ends_its_stream_and_one_that_was_never_there_is_not_found(
    db: Database, clock: Clock
) -> None:
    async with connected(db, [agent((), clock)], clock) as (_, far):
        chat = await far.create(None)
        stream = chat.stream(follow=True)
        await anext(stream)
        await chat.delete()
        assert [event async for event in stream] == []
        for follow in (True, False):
            with pytest.raises(ChatNotFound):
                await anext(chat.stream(follow=follow))


async def test_a_chat_that_is_deleted_while_nobody_is_connected_ends_its_stream(
    db: Database, clock: Clock
) -> None:
    async with connected(db, [agent((), clock)], clock) as (api, far):
        chat = await far.create(None)
        async with cut_client(api, lambda number: 2_500) as (proxy, host):
            stream = (await host.chat(chat.id)).stream(follow=True)
            await anext(stream)
            target, proxy.target = proxy.target, ("127.0.0.1", 1)
            for number in range(20):
                await chat.rename(f"a title to fill the connection {number}")
                await anyio.sleep(0.1)
            await chat.delete()
            proxy.target = target
            assert all(isinstance(event, ChatChanged) for event in [e async for e in stream])


async def test_a_token_that_is_taken_back_ends_the_stream_with_an_error(
    db: Database, clock: Clock
) -> None:
    identity = Bearer(db)
    async with connected(db, [agent((), clock)], clock, identity=identity) as (_, far):
        chat = await far.create(None)
        stream = chat.stream(follow=True)
        await anext(stream)
        identity.revoked.add(ANN)
        with anyio.fail_after(10), pytest.raises(RemoteError) as ended:
            await anext(stream)
        assert ended.value.kind == "revoked"
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        with pytest.raises(RemoteError) as refused:
            await anext(chat.stream())
        assert refused.value.status == 401


async def test_who_leaves_lets_go_of_the_connection(db: Database, clock: Clock) -> None:
    async with connected(db, [agent((), clock)], clock) as (api, far):
        chat = await far.create(None)
        async with chat.stream(follow=True) as stream:
            await anext(stream)
            assert len(api.server.hub) == 1
        await anyio.sleep(2)
        assert len(api.server.hub) == 0
        assert [event async for event in stream] == []


async def test_who_does_not_look_for_long_keeps_the_connection(db: Database, clock: Clock) -> None:
    async with connected(db, [agent((), clock)], clock) as (api, _):
        chat = await api.host.create(None, owner="ann")
        async with cut_client(api, lambda number: None) as (proxy, host):
            async with (await host.chat(chat.id)).stream(follow=True) as stream:
                await anext(stream)
                await anyio.sleep(10 * SILENCE_TIMEOUT)
                await chat.rename("Later")
                await anext(stream)
        assert sum(b"/stream " in asked for asked in proxy.requests) == 1


# --- a server of the test's own ---


class Fake:
    """Says on each connection what the test wants; None: is not there. Then it is silent, unless
    the last that it said was an end."""

    def __init__(self, *turns: Sequence[ServerEvent | WireEvent] | int) -> None:
        self.turns = list(turns)
        self.asked: list[str | None] = []
        self.times: list[float] = []
        self.result: ChatResult | None = None
        self.away: Sequence[int] = ()
        """What is answered to who asks for the result, until it is back."""
        self.back = 0.0
        self.results: list[float] = []
        """When that was asked for."""
        self.left = anyio.Event()

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path.endswith("/result"):
            self.results.append(anyio.current_time())
            if anyio.current_time() < self.back:
                status = self.away[len(self.results) % len(self.away)]
                return web.Response(status=status, text="a proxy says something")
            return web.Response(
                body=to_json({"result": self.result}), content_type="application/json"
            )
        self.asked.append(request.headers.get("Last-Event-ID"))
        self.times.append(anyio.current_time())
        turn = self.turns.pop(0) if len(self.turns) > 1 else self.turns[0]
        if isinstance(turn, int):
            return web.Response(status=turn, text="a proxy says something")
        response = web.StreamResponse(headers=SSE_HEADERS)
        await response.prepare(request)
        wires = [one if isinstance(one, WireEvent) else wire_of(one) for one in turn]
        await response.write(plain(wires))
        if not wires or wires[-1].event != "end":
            await self.left.wait()
        return response


@asynccontextmanager
async def faked(fake: Fake, chat: Snapshot) -> AsyncIterator[RemoteChat]:
    async with answering(fake.answer) as url, connect(url, ANN, ports=STEADY) as host:
        yield RemoteChat(host._transport, chat)
        fake.left.set()


@pytest.fixture
async def chat(db: Database, clock: Clock) -> Snapshot:
    """One that rests, of any server."""
    async with connected(db, [agent((), clock)], clock) as (api, _):
        return await (await api.host.create(None)).read()


def changed(chat: Snapshot, version: int, **more: Any) -> ChatChanged:
    made = structs.replace(chat, snapshot_version=version, **more)
    return ChatChanged(Cursor(version), made)


async def test_silence_for_longer_than_three_heartbeats_is_a_lost_connection(
    chat: Snapshot,
) -> None:
    fake = Fake([changed(chat, 1)], [changed(chat, 2)])
    async with faked(fake, chat) as far:
        stream = far.stream(follow=True)
        assert (await anext(stream)).cursor == Cursor(1)
        assert (await anext(stream)).cursor == Cursor(2)
        await stream.aclose()
    assert fake.asked == [None, "1.0.0.0.0"]
    assert fake.times[1] - fake.times[0] == pytest.approx(SILENCE_TIMEOUT + 0.25, abs=0.1)


async def test_a_server_that_says_to_come_back_is_come_back_to_and_not_in_a_hurry(
    chat: Snapshot,
) -> None:
    away = [503, 502, 500, 429, 400, 302, 200]
    fake = Fake(
        [changed(chat, 1), END_SHUTDOWN], *away, [END_SHUTDOWN], [changed(chat, 2), END_DELETED]
    )
    async with faked(fake, chat) as far:
        events = [event async for event in far.stream(follow=True)]
    assert [event.cursor for event in events] == [Cursor(1), Cursor(2)]
    waits = [round(b - a, 2) for a, b in pairwise(fake.times)]
    assert waits == pytest.approx([0.25, 0.5, 1, 2, 4, 8, 10, 10, 10], abs=0.1)


async def next_by_looks(stream: RemoteStream, seconds: float) -> StreamEvent:
    """The next event, for somebody who looks for a second at a time."""
    with anyio.fail_after(seconds):
        while True:
            with anyio.move_on_after(1):
                return await anext(stream)


async def test_who_looks_only_for_a_moment_at_a_time_comes_back_too(chat: Snapshot) -> None:
    away = [503] * 8
    fake = Fake([changed(chat, 1), END_SHUTDOWN], *away, [changed(chat, 2), END_DELETED])
    async with faked(fake, chat) as far:
        stream = far.stream(follow=True)
        assert (await next_by_looks(stream, 5)).cursor == Cursor(1)
        assert (await next_by_looks(stream, 100)).cursor == Cursor(2)


async def test_silence_is_noticed_by_who_looks_only_for_a_moment_at_a_time(
    chat: Snapshot,
) -> None:
    fake = Fake([changed(chat, 1)], [changed(chat, 2), END_DELETED])
    async with faked(fake, chat) as far:
        stream = far.stream(follow=True)
        assert (await next_by_looks(stream, 5)).cursor == Cursor(1)
        assert (await next_by_looks(stream, SILENCE_TIMEOUT + 5)).cursor == Cursor(2)


@pytest.mark.parametrize("status", [401, 403, 404])
async def test_who_may_not_come_back_is_told_so(chat: Snapshot, status: int) -> None:
    fake = Fake([changed(chat, 1), END_SHUTDOWN], status)
    async with faked(fake, chat) as far:
        stream = far.stream(follow=True)
        await anext(stream)
        with pytest.raises(RemoteError) as refused:
            await anext(stream)
    assert (refused.value.status, len(fake.asked)) == (status, 2)


@pytest.mark.parametrize(("turn", "status"), [(503, 503), (429, 429), ([END_SHUTDOWN], None)])
async def test_a_stream_that_never_began_is_not_waited_for_for_ever(
    chat: Snapshot, turn: Any, status: int | None
) -> None:
    fake = Fake(turn)
    async with faked(fake, chat) as far:
        began = anyio.current_time()
        with pytest.raises(RemoteError) as refused:
            await anext(far.stream())
        assert DEFAULT_PATIENCE <= anyio.current_time() - began < DEFAULT_PATIENCE + 11
    assert refused.value.status == status


async def test_a_stream_of_nobody_is_unreachable(chat: Snapshot) -> None:
    async with connect("http://127.0.0.1:1", ANN) as host:
        with pytest.raises(Unreachable):
            await anext(RemoteChat(host._transport, chat).stream())
        with pytest.raises(Unreachable):
            await anext(host.watch())


async def test_the_end_for_good_is_an_error_behind_everything_that_was_said(
    chat: Snapshot,
) -> None:
    fake = Fake([changed(chat, 1), END_REVOKED])
    async with faked(fake, chat) as far:
        stream = far.stream(follow=True)
        assert (await anext(stream)).cursor == Cursor(1)
        with pytest.raises(RemoteError, match="permanently: revoked"):
            await anext(stream)


async def test_a_rest_from_before_what_the_reader_did_is_not_taken_for_the_end(
    chat: Snapshot,
) -> None:
    """A server may have looked at the database before a message that it has taken since."""
    fake = Fake([changed(chat, 1)], [changed(chat, 2, title="later"), END_DELETED])
    fake.result = ChatResult(None, "", None, (), structs.replace(chat, snapshot_version=2))
    async with faked(fake, chat) as far:
        events = [event async for event in far.stream()]
    assert [event.cursor for event in events] == [Cursor(1), Cursor(2)]


async def test_whether_the_chat_rests_is_asked_for_as_long_as_it_takes(chat: Snapshot) -> None:
    fake = Fake([changed(chat, 1)])
    fake.result = ChatResult(None, "", None, (), structs.replace(chat, snapshot_version=1))
    fake.away, fake.back = (503, 500, 502, 429), anyio.current_time() + 100
    async with faked(fake, chat) as far:
        events = [event async for event in far.stream()]
    assert [event.cursor for event in events] == [Cursor(1)]
    assert fake.back <= anyio.current_time() < fake.back + 30
    assert len(fake.results) < 60, "in a hurry"


async def test_who_is_interrupted_asking_whether_the_chat_rests_asks_again(chat: Snapshot) -> None:
    fake = Fake([changed(chat, 1)])
    fake.result = ChatResult(None, "", None, (), structs.replace(chat, snapshot_version=1))
    fake.away, fake.back = (503,), anyio.current_time() + 3
    async with faked(fake, chat) as far:
        stream = far.stream()
        await anext(stream)
        with anyio.move_on_after(2) as interrupted:
            await anext(stream)
        assert interrupted.cancelled_caught
        with anyio.fail_after(SILENCE_TIMEOUT - 10), pytest.raises(StopAsyncIteration):
            await anext(stream)


async def test_who_may_not_ask_whether_the_chat_rests_is_told_so(chat: Snapshot) -> None:
    fake = Fake([changed(chat, 1)])
    fake.away, fake.back = (401,), float("inf")
    async with faked(fake, chat) as far:
        stream = far.stream()
        await anext(stream)
        with pytest.raises(RemoteError) as refused:
            await anext(stream)
    assert (refused.value.status, len(fake.results)) == (401, 1)


async def test_a_message_with_large_files_in_it_is_given(chat: Snapshot) -> None:
    large = ToolResult("c", "draw", (File("image/png", data=bytes(MAX_EVENT_BYTES)),))
    stored = Stored(1, 1, Message("tool", (large,), "results"), None, 0)
    async with faked(Fake([MessageChanged(Cursor(1), stored), END_DELETED]), chat) as far:
        (event,) = [event async for event in far.stream(follow=True)]
    assert isinstance(event, MessageChanged)
    assert event.message == stored


async def test_an_event_of_a_newer_server_is_left_out_and_one_that_is_broken_is_an_error(
    chat: Snapshot,
) -> None:
    new = WireEvent("1.0.0.0.0", "dream", b"{}")
    broken = WireEvent("2.0.0.0.0", "message", b'{"number": "x"}')
    for bad in (
        broken,
        WireEvent(None, "chat", to_json(chat)),
        WireEvent("x", "chat", to_json(chat)),
    ):
        async with faked(Fake([new, changed(chat, 1), bad]), chat) as far:
            stream = far.stream(follow=True)
            assert isinstance(await anext(stream), ChatChanged)
            with pytest.raises(RemoteError, match="the same version") as failed:
                await anext(stream)
            assert failed.value.kind == "not_understood"


# --- waiting for a chat ---


async def test_a_chat_is_waited_for_over_a_bad_line(db: Database, clock: Clock) -> None:
    async with connected(db, [agent([slowly("hello there", 9)], clock)], clock) as (api, far):
        chat = await far.create("go")
        async with cut_client(api, lambda number: 200 * number) as (proxy, host):
            result = await (await host.chat(chat.id)).rest()
        assert (result.reason, result.text) == ("stop", "hello there")
        assert proxy.connections > 3
