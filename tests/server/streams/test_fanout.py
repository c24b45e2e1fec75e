"""Many who watch the same cost one look for each change, and nobody waits for one who stalls."""

from __future__ import annotations

import asyncio
import socket as sockets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from aiohttp import web

from holdfast.chat.export import export
from holdfast.chat.host import Host
from holdfast.chat.rows import Stored
from holdfast.chat.stream import MAX_RESULT_SIZE, ChatEvents, LiveDelta
from holdfast.host import serving
from holdfast.server import fanout
from holdfast.server.api_state import ApiState, ServerLimits
from holdfast.server.app import application
from holdfast.server.event_codec import END_FAILED, END_SLOW, WireEvent, wire_of
from holdfast.server.fanout import StreamOptions
from holdfast.store.database import Database, Tx
from holdfast.store.sqlite.database import open_sqlite
from holdfast.testing import Clock, pause, ports, run_virtual, say
from tests.chat.chats import answer
from tests.chat.test_stream import slowly
from tests.database_time import hold
from tests.server.api import Named, agent, serving_api
from tests.server.streams.client import Watching, connected, crowd, wires_of
from tests.server.streams.test_resume import assert_as_stored

pytestmark = pytest.mark.usefixtures("each_server")

READERS = 200


class Looks:
    """How often chats were looked at, by those who stream them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        read = ChatEvents._read

        async def counted(stream: ChatEvents, tx: Tx) -> Any:
            self.count += 1
            return await read(stream, tx)

        monkeypatch.setattr(ChatEvents, "_read", counted)


async def test_200_readers_get_the_same_and_cost_one_look_for_each_change(
    db: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = Looks(monkeypatch)
    watchers = [Watching() for _ in range(READERS)]
    async with (
        serving_api(db, [agent([slowly("hello there")], clock)], clock=clock) as one,
        crowd(one) as api,
    ):
        hub = api.server.hub
        chat = await api.host.create(None, owner="ann")
        async with anyio.create_task_group() as group:
            for watcher in watchers:
                group.start_soon(partial(watcher.follow, api, chat.id, answers=1))
            await _until(lambda: len(hub) == READERS and hub.sources == 1)
            before, began = looks.count, anyio.current_time()
            version = (await chat.read()).snapshot_version
            await chat.send("go")
            await chat.rest()
            changes = (await chat.read()).snapshot_version - version
            polls = (anyio.current_time() - began) // api.host.feed.poll
        assert 0 < looks.count - before <= changes + polls
    first = watchers[0]
    assert [text for _, text in first.finished] == ["hello there"]
    told = first.events[-8:]
    assert all(watcher.events[-8:] == told for watcher in watchers)


async def _until(condition: Any) -> None:
    with anyio.fail_after(60):
        while not condition():  # noqa: ASYNC110 - nobody tells a test
            await anyio.sleep(0.01)


async def test_who_opens_a_chat_at_once_shares_one_look(
    db: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving_api(db, [agent(["hello"], clock)], clock=clock) as api:
        chat = await api.host.create("go", owner="ann")
        await chat.rest()
        looks = Looks(monkeypatch)

        async def open_it() -> None:
            async with connected(api, chat.id) as connection:
                assert len(await connection.take(3)) == 3

        async with anyio.create_task_group() as group:
            for _ in range(20):
                group.start_soon(open_it)
        assert looks.count < 20
        await _until(lambda: not len(api.server.hub))
        assert api.server.hub.sources == 0


async def test_who_comes_in_the_middle_catches_up_alone_and_then_shares(
    db: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = Looks(monkeypatch)
    script = [slowly("a long answer, " * 3, 30)]
    early, late, back = Watching(), Watching(), Watching()
    async with serving_api(db, [agent(script, clock)], clock=clock) as api:
        chat = await api.host.create("go", owner="ann")
        async with anyio.create_task_group() as group:
            group.start_soon(partial(early.follow, api, chat.id, answers=1))
            await back.follow(api, chat.id, 8)
            await anyio.sleep(4)
            group.start_soon(partial(late.follow, api, chat.id, answers=1))
            group.start_soon(partial(back.follow, api, chat.id, answers=1))
            await anyio.sleep(0.5)
            assert (len(api.server.hub), api.server.hub.sources) == (3, 1)
            before = looks.count
            await anyio.sleep(2 * api.host.feed.poll)
            assert looks.count - before <= 3, "each looks for itself"
    assert early.events[-12:] == late.events[-12:] == back.events[-12:]
    assert len(late.events) < len(early.events)
    for watcher in (early, late, back):
        assert [shown for shown, _ in watcher.finished] == ["a long answer, " * 3]


async def test_what_is_said_between_two_ticks_is_one_write_and_one_delta(
    db: Database, clock: Clock
) -> None:
    burst = [[say("x"), pause(0.001)] for _ in range(100)]
    limits = ServerLimits(streams=StreamOptions(tick=0.05))
    async with serving_api(db, [agent([burst], clock)], clock=clock, limits=limits) as api:
        chat = await api.host.create(None, owner="ann")
        async with connected(api, chat.id) as connection:
            opening = await connection.take(1)
            assert [wire.event for wire in opening] == ["chat"]
            await chat.send("go")
            watcher = Watching()
            watcher.chat = await chat.read()
            deltas = 0
            async for wire in connection.events():
                deltas += wire.event == "delta"
                if wire.event == "message" and b'"answer"' in wire.data:
                    break
        assert 1 <= deltas <= 4, "100 deltas in 0.1 s, told every 0.05 s"


async def test_a_message_and_the_reset_of_its_fragments_are_one_write(
    db: Database, clock: Clock
) -> None:
    async with serving_api(db, [agent([slowly("hello there")], clock)], clock=clock) as api:
        chat = await api.host.create("go", owner="ann")
        async with connected(api, chat.id) as connection:
            async for wire in connection.events():
                if wire.event == "reset":
                    break
        events = [wire.event for wire in wires_of(connection.writes[-1])]
        assert events.index("message") < events.index("reset")


async def test_who_leaves_is_forgotten_within_a_second_or_two(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        chat = await api.host.create(None, owner="ann")
        async with connected(api, chat.id) as connection:
            await connection.take(1)
            assert len(api.server.hub) == 1
        await anyio.sleep(2)
        assert (len(api.server.hub), api.server.hub.sources, len(api.host.feed.live)) == (0, 0, 0)


async def test_a_chat_that_cannot_be_told_ends_its_own_streams_and_no_others(
    db: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = [slowly("one"), slowly("two")]
    bad, good = Watching(), Watching()

    def picky(event: Any) -> WireEvent:
        if isinstance(event, LiveDelta) and event.cursor.history == unlucky.history_version:
            raise ValueError("cannot be written")
        return wire_of(event)

    async with serving_api(db, [agent(script, clock)], clock=clock) as api:
        one = await api.host.create(None, owner="ann")
        two = await api.host.create("go", owner="ann")
        await one.update(labels={"so": "another"})  # so that their versions differ
        await one.send("go")
        unlucky = await one.read()
        assert unlucky.history_version != (await two.read()).history_version
        monkeypatch.setattr(fanout, "wire_of", picky)
        async with anyio.create_task_group() as group:
            group.start_soon(partial(bad.follow, api, one.id, answers=1))
            group.start_soon(partial(good.follow, api, two.id, answers=1))
    assert bad.end == END_FAILED
    assert len(good.finished) == 1


def test_streams_are_served_on_an_event_loop_that_nobody_prepared(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Ticks run outside of any task: there a library cannot tell which event loop it is on."""
    clock, watcher = Clock(), Watching()

    async def serve_one() -> None:
        async with (
            open_sqlite(tmp_path / "chats.db", now=clock.now, thread=False) as db,
            serving_api(db, [agent([slowly("hello there")], clock)], clock=clock) as api,
        ):
            chat = await api.host.create("go", owner="ann")
            async with connected(api, None) as connection:
                await watcher.follow(api, chat.id)
                assert await connection.take(1)

    run_virtual(serve_one())
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []
    assert watcher.finished == [("hello there", "hello there")]


# --- who stalls ---


@asynccontextmanager
async def narrow(
    db: Database, script: list[Any], clock: Clock, options: StreamOptions
) -> AsyncIterator[tuple[Host, ApiState, int]]:
    """A server whose connections hold next to nothing in the kernel."""
    world = ports(clock=clock)
    async with serving(db, [agent(script, clock)], ports=world, titles=False) as host:
        server = ApiState(host, db, Named(db), world, ServerLimits(streams=options))
        listener = sockets.create_server(("127.0.0.1", 0))
        listener.setsockopt(sockets.SOL_SOCKET, sockets.SO_SNDBUF, 4096)
        runner = web.AppRunner(application(server), access_log=None)
        await runner.setup()
        await web.SockSite(runner, listener).start()
        try:
            yield host, server, listener.getsockname()[1]
        finally:
            await runner.cleanup()


class Sleeper:
    """Asks for a stream in HTTP/1.0, and reads when it is told to."""

    def __init__(self, port: int, chat_id: str) -> None:
        self._port = port
        self._chat_id = chat_id

    async def ask(self, cursor: str = "") -> None:
        sock = sockets.socket()
        sock.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", self._port))
        self.reader, self.writer = await asyncio.open_connection(sock=sock, limit=1024)
        self.writer.write(
            f"GET /api/v1/chats/{self._chat_id}/stream HTTP/1.0\r\n"
            f"X-Test-User: ann\r\nLast-Event-ID: {cursor}\r\n\r\n".encode()
        )

    async def wires(self, *, hurry: bool = False) -> AsyncIterator[WireEvent]:
        """What comes, until the connection ends. `hurry`: no time goes by meanwhile."""
        await self.reader.readuntil(b"\r\n\r\n")
        rest = b""
        while True:
            with hold() if hurry else nullcontext():
                data = await self.reader.read(65_536)
            if not data:
                break
            *whole, rest = (rest + data).split(b"\n\n")
            for wire in wires_of(b"".join(block + b"\n\n" for block in whole)):
                yield wire

    def leave(self) -> None:
        self.writer.transport.abort()


STALLED = 20
LONG = [[pause(0.1), say(f"{number:03} " * 4096)] for number in range(100)]
"""Ten seconds, 1.6 MB."""
ROOM = StreamOptions(buffer=64 * 1024)


async def _turn(host: Host, server: ApiState, port: int, stalled: int) -> tuple[float, Any]:
    """How long a turn took while so many readers slept, and who they are."""
    chat = await host.create(None, owner="ann")
    sleepers = [Sleeper(port, chat.id) for _ in range(stalled)]
    for sleeper in sleepers:
        await sleeper.ask()
    await _until(lambda: len(server.hub) == stalled)
    began = anyio.current_time()
    await chat.send("go")
    await chat.rest()
    return anyio.current_time() - began, (chat, sleepers)


async def test_20_stalled_readers_hold_little_and_slow_nothing(db: Database, clock: Clock) -> None:
    async with narrow(db, [LONG, LONG], clock, ROOM) as (host, server, port):
        alone, _ = await _turn(host, server, port, 0)
        taken, (chat, sleepers) = await _turn(host, server, port, STALLED)
        assert taken <= alone * 1.05
        most = STALLED * (ROOM.buffer + 64 * 1024)  # and one write on top
        # The kernel may take a little more after a reader was put aside.
        assert 0.9 * STALLED * ROOM.buffer < server.hub.buffered < most
        woken = sleepers[0]
        watcher = Watching()
        with anyio.fail_after(60):
            await watcher.see_all(woken.wires(), answers=1)
        await assert_as_stored(db, chat, watcher)
        for sleeper in sleepers:
            sleeper.leave()
        await anyio.sleep(2)
        assert len(server.hub) == 0


async def test_who_opens_a_chat_of_large_messages_and_takes_nothing_holds_little(
    db: Database, clock: Clock
) -> None:
    async with narrow(db, [], clock, ROOM) as (host, server, port):
        chat = await host.create(None, owner="ann")
        messages = [
            Stored(number, 1, answer("x" * 500_000), None, 1, None) for number in range(1, 31)
        ]
        whole = export(await chat.read(), messages, "jsonl")
        made = await host.restore(whole, owner="ann")
        sleepers = [Sleeper(port, made.id) for _ in range(STALLED)]
        for sleeper in sleepers:
            await sleeper.ask()
        await _until(lambda: server.hub.buffered > 0 and len(server.hub) == STALLED)
        await anyio.sleep(1)
        assert server.hub.buffered < STALLED * (MAX_RESULT_SIZE + ROOM.buffer)
        for sleeper in sleepers:
            sleeper.leave()


async def test_who_stalls_for_a_while_goes_on_within_the_same_answer(
    db: Database, clock: Clock
) -> None:
    watcher = Watching()
    async with narrow(db, [LONG], clock, ROOM) as (host, server, port):
        chat = await host.create(None, owner="ann")
        sleeper = Sleeper(port, chat.id)
        await sleeper.ask()
        await _until(lambda: len(server.hub) == 1)
        await chat.send("go")
        await anyio.sleep(5)
        assert server.hub.stalled == 1
        with anyio.fail_after(60):
            await watcher.see_all(sleeper.wires(), answers=1)
        sleeper.leave()
        await assert_as_stored(db, chat, watcher)
    ((shown, answer),) = watcher.finished
    assert shown == answer, "something was left out, or told twice"


async def test_who_takes_nothing_for_long_is_told_to_come_back_and_cut(
    db: Database, clock: Clock
) -> None:
    options = StreamOptions(buffer=64 * 1024, linger=60)
    async with narrow(db, [LONG], clock, options) as (host, server, port):
        _, (chat, (sleeper,)) = await _turn(host, server, port, 1)
        await anyio.sleep(options.slow)
        assert len(server.hub) == 0
        watcher = Watching()
        with anyio.fail_after(60):
            await watcher.see_all(sleeper.wires(hurry=True), answers=1)
        assert watcher.end == END_SLOW
        sleeper.leave()
        again = Sleeper(port, chat.id)
        await again.ask(str(watcher.cursor))
        with anyio.fail_after(60):
            await watcher.see_all(again.wires(), answers=1)
        again.leave()
        await assert_as_stored(db, chat, watcher)


async def test_who_takes_little_by_little_is_not_cut(db: Database, clock: Clock) -> None:
    async with narrow(db, [LONG], clock, ROOM) as (host, server, port):
        _, (_, (sleeper,)) = await _turn(host, server, port, 1)
        for _ in range(6):
            await anyio.sleep(ROOM.slow / 2)
            await sleeper.reader.readexactly(9000)
        assert len(server.hub) == 1
        sleeper.leave()


async def test_a_connection_that_was_told_the_end_and_stays_is_cut(
    db: Database, clock: Clock
) -> None:
    async with narrow(db, [LONG], clock, ROOM) as (host, server, port):
        _, (_, (sleeper,)) = await _turn(host, server, port, 1)
        began = anyio.current_time()
    assert anyio.current_time() - began <= ROOM.linger + 1
    sleeper.leave()
