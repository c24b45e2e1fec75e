"""When and how the server ends a stream, and what it says while nothing happens."""

from __future__ import annotations

import logging
import struct
from socket import SO_LINGER, SOL_SOCKET, create_connection
from typing import Any

import aiohttp
import anyio
import pytest

from holdfast.chat.stream import ChatEvents
from holdfast.server.access_policy import ApiCaller
from holdfast.server.api_state import ServerLimits
from holdfast.server.event_codec import (
    END_DELETED,
    END_FAILED,
    END_REVOKED,
    END_SHUTDOWN,
    WireEvent,
    event_of,
    list_event_of,
)
from holdfast.server.fanout import StreamOptions
from holdfast.store.database import Database, Tx, Unavailable
from holdfast.testing import Clock
from tests.chat.test_stream import slowly
from tests.server.api import Named, agent, serving_api
from tests.server.relay.cluster import until
from tests.server.streams.client import Watching, connected, frames, path_of, socket

pytestmark = pytest.mark.usefixtures("each_server")


async def test_websocket_and_sse_say_the_same_event_for_event(db: Database, clock: Clock) -> None:
    over_sse: list[WireEvent] = []
    over_socket: list[WireEvent] = []
    async with serving_api(db, [agent([slowly("hello there")], clock)], clock=clock) as api:
        chat = await api.host.create(None, owner="ann")
        async with connected(api, chat.id) as connection, socket(api, chat.id) as opened:

            async def read_sse() -> None:
                async for wire in connection.events():
                    over_sse.append(wire)

            async def read_socket() -> None:
                async for wire in frames(opened):
                    over_socket.append(wire)

            async with anyio.create_task_group() as group:
                group.start_soon(read_sse)
                group.start_soon(read_socket)
                await anyio.sleep(0.5)
                await chat.send("go")
                await chat.rest()
                await anyio.sleep(1)
                await api.server.hub.close()
            assert opened.close_code == aiohttp.WSCloseCode.GOING_AWAY
    assert over_sse == over_socket
    assert event_of(over_sse[-1]) == END_SHUTDOWN
    assert {"chat", "message", "delta", "reset", "end"} <= {wire.event for wire in over_sse}


async def test_a_websocket_resumes_from_a_cursor(db: Database, clock: Clock) -> None:
    watcher = Watching()
    async with serving_api(db, [agent([slowly("hello there")], clock)], clock=clock) as api:
        chat = await api.host.create("go", owner="ann")
        async with socket(api, chat.id) as opened:
            await watcher.see_all(frames(opened), 4)
        async with socket(api, chat.id, watcher.last) as opened:
            await watcher.see_all(frames(opened))
        assert watcher.finished == [("hello there", "hello there")]


@pytest.mark.parametrize("said", ["hello", b"bytes", "long " * 2000], ids=["text", "bytes", "long"])
async def test_a_websocket_that_says_something_is_closed(
    db: Database, clock: Clock, said: str | bytes
) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        chat = await api.host.create(None, owner="ann")
        async with socket(api, chat.id) as opened:
            assert (await opened.receive()).type is aiohttp.WSMsgType.TEXT
            if isinstance(said, str):
                await opened.send_str(said)
            else:
                await opened.send_bytes(said)
            closed = await opened.receive()
            assert closed.type is aiohttp.WSMsgType.CLOSE
            if len(said) < 100:
                assert closed.data == aiohttp.WSCloseCode.UNSUPPORTED_DATA
                assert closed.extra == "this stream accepts no messages: send them to the API"
        await anyio.sleep(1)
        assert len(api.server.hub) == 0


@pytest.mark.parametrize("each_server", ["aiohttp"], indirect=True)
async def test_a_websocket_answers_pings_and_sends_its_own(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        chat = await api.host.create(None, owner="ann")
        async with socket(api, chat.id, autoping=False) as opened:
            assert (await opened.receive()).type is aiohttp.WSMsgType.TEXT
            await opened.ping(b"there?")
            answer = await opened.receive()
            assert (answer.type, answer.data) == (aiohttp.WSMsgType.PONG, b"there?")
            with anyio.fail_after(17):
                assert (await opened.receive()).type is aiohttp.WSMsgType.PING


async def test_a_websocket_says_every_15_seconds_that_the_server_is_there(
    db: Database, clock: Clock
) -> None:
    beat = WireEvent(None, "beat", b"null")
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        chat = await api.host.create(None, owner="ann")
        for path, of in (("chat", chat.id), ("list", None)):
            said: list[WireEvent] = []
            async with socket(api, of) as opened:
                with anyio.move_on_after(63):
                    async for wire in frames(opened):
                        said.append(wire)
            assert said.count(beat) == 4, path
        assert event_of(beat) is None
        assert list_event_of(beat) is None


async def test_a_websocket_that_does_not_answer_pings_is_cut(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        chat = await api.host.create(None, owner="ann")
        async with socket(api, chat.id, autoping=False), socket(api, chat.id) as alive:

            async def answer() -> None:
                async for _ in frames(alive):
                    pass

            async with anyio.create_task_group() as group:
                group.start_soon(answer)
                await anyio.sleep(1)
                assert len(api.server.hub) == 2
                await anyio.sleep(50)
                assert len(api.server.hub) == 1
                await alive.close()


async def test_a_comment_says_every_15_seconds_that_the_server_is_there(
    db: Database, clock: Clock
) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        chat = await api.host.create(None, owner="ann")
        async with connected(api, chat.id) as connection:
            with anyio.move_on_after(63):
                async for _ in connection.events():
                    pass
        assert connection.beats == 4


async def test_a_deleted_chat_ends_its_streams(db: Database, clock: Clock) -> None:
    watcher, other = Watching(), Watching()
    async with serving_api(db, [agent(["hello"], clock)], clock=clock) as api:
        chat = await api.host.create("go", owner="ann")
        await chat.rest()
        async with connected(api, chat.id) as connection, socket(api, chat.id) as opened:
            await watcher.see_all(connection.events(), 3)
            await other.see_all(frames(opened), 3)
            await chat.delete()
            with anyio.fail_after(1):
                (wire,) = await connection.take(1)
                assert event_of(wire) == END_DELETED
                (last,) = [wire async for wire in frames(opened)]
                assert event_of(last) == END_DELETED
        assert len(api.server.hub) == 0


async def test_a_database_that_is_away_when_a_stream_begins_ends_it(
    db: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unavailable(stream: ChatEvents, tx: Tx) -> Any:
        raise Unavailable("away")

    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        chat = await api.host.create(None, owner="ann")
        monkeypatch.setattr(ChatEvents, "_read", unavailable)
        async with connected(api, chat.id) as connection:
            assert [event_of(wire) async for wire in connection.events()] == [END_FAILED]
        assert END_FAILED.reconnect


class Strict(Named):
    """An identity that takes back what it gave."""

    def __init__(self, db: Database) -> None:
        super().__init__(db)
        self.revoked: set[tuple[str, str | None]] = set()
        self.broken = False

    async def still(self, caller: ApiCaller, chat_id: str | None = None) -> bool:
        if self.broken:
            raise ConnectionError
        return (caller.user, chat_id) not in self.revoked


async def test_who_may_not_read_any_more_is_cut_within_seconds(db: Database, clock: Clock) -> None:
    identity = Strict(db)
    async with serving_api(db, [agent((), clock)], clock=clock, identity=identity) as api:
        chat = await api.host.create(None, owner="ann", labels={"shared": "bob"})
        async with (
            connected(api, chat.id) as owner,
            connected(api.of("bob"), chat.id) as reader,
            connected(api.of("bob"), None) as list,
        ):
            await owner.take(1)
            await reader.take(1)
            identity.revoked.add(("bob", chat.id))
            with anyio.fail_after(7):
                assert [event_of(wire) async for wire in reader.events()] == [END_REVOKED]
            identity.revoked.add(("bob", None))
            with anyio.fail_after(7):
                assert [event_of(wire) async for wire in list.events()] == [END_REVOKED]
            assert len(api.server.hub) == 1
            identity.broken = True
            await anyio.sleep(10)
            assert len(api.server.hub) == 1, "nobody knows, so nobody is cut"


async def test_a_server_that_stops_tells_everybody_to_come_back_and_is_not_held_up(
    db: Database, clock: Clock
) -> None:
    async with aiohttp.ClientSession() as session:
        async with serving_api(db, [agent((), clock)], clock=clock) as api:
            chat = await api.host.create(None, owner="ann")
            api.session, kept = session, api.session
            stream = connected(api, chat.id)
            connection = await stream.__aenter__()
            await connection.take(1)
            api.session = kept
            began = anyio.current_time()
        assert anyio.current_time() - began < 1
        assert [event_of(wire) async for wire in connection.events()] == [END_SHUTDOWN]
        await stream.__aexit__(None, None, None)


async def test_who_comes_while_the_server_stops_is_sent_away_at_once(
    db: Database, clock: Clock
) -> None:
    limits = ServerLimits(streams=StreamOptions(tick=0.01))
    async with serving_api(db, [agent((), clock)], clock=clock, limits=limits) as api:
        chat = await api.host.create(None, owner="ann")
        await api.server.hub.close()
        async with connected(api, chat.id) as connection:
            assert [event_of(wire) async for wire in connection.events()] == [END_SHUTDOWN]


async def test_a_chat_that_is_not_the_callers_has_no_stream(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        chat = await api.host.create(None, owner="ann")
        status, problem, _ = await api.of("eve").get(f"/chats/{chat.id}/stream")
        assert (status, problem["kind"]) == (404, "chat_not_found")


async def test_nobody_has_more_streams_open_than_they_may(db: Database, clock: Clock) -> None:
    limits = ServerLimits(streams=StreamOptions(per_user=2))
    async with serving_api(db, [agent((), clock)], clock=clock, limits=limits) as api:
        chat = (await api.host.create(None, owner="ann")).id
        async with connected(api, None), socket(api, chat):
            status, problem, _ = await api.get("/stream")
            assert (status, problem["kind"], problem["facts"]) == (
                429,
                "too_many_streams",
                {"limit": 2},
            )
            assert "close some" in problem["detail"]
            async with connected(api.of("bob"), None):
                pass
        await anyio.sleep(5)
        async with connected(api, None), connected(api, chat):
            pass
        await anyio.sleep(5)
        assert not api.server.hub._open


@pytest.mark.parametrize("each_server", ["aiohttp"], indirect=True)
async def test_pings_followed_by_a_reset_are_the_end_of_a_reader_and_no_failure(
    db: Database, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock, worker=None) as api:
        port = int(api.url.rpartition(":")[2])
        client = create_connection(("127.0.0.1", port))
        client.sendall(
            b"GET /api/v1/stream HTTP/1.1\r\nHost: x\r\nX-Test-User: ann\r\n"
            b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        await until(lambda: len(api.server.hub) == 1)
        # The server is not running meanwhile: it finds the pings and the reset together.
        client.sendall(b"\x89\x80\x00\x00\x00\x00" * 10)
        client.setsockopt(SOL_SOCKET, SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        await until(lambda: len(api.server.hub) == 0)
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR] == []


@pytest.mark.parametrize("of", ["chat", "list"])
async def test_a_stream_that_ends_with_an_exception_is_not_counted_any_more(
    db: Database, clock: Clock, of: str
) -> None:
    limits = ServerLimits(streams=StreamOptions(per_user=2))
    async with serving_api(db, [agent((), clock)], clock=clock, limits=limits) as api:
        made = (await api.host.create(None, owner="ann")).id
        chat = made if of == "chat" else None
        for _ in range(5):
            # Without a key: the answer to the handshake raises, within the stream.
            broken = {"Upgrade": "websocket", "Connection": "upgrade"}
            answer = await api.ask("GET", path_of(chat), headers=broken)
            assert answer.status == 400, answer.body
        async with connected(api, chat), socket(api, chat):
            assert (await api.get(path_of(chat))).status == 429
