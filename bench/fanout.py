"""Readers of streams: what the server spends on each event that one gets, and how late it is.

BENCH_FANOUT   floor: a raw asyncio server that writes each event to each connection
               one: all read one chat        many: each reads a chat of its own
               relay, relay_many: the same as one and many, of chats that another replica runs
               stalled: what twenty that never read cost, and whether a turn is slower for them

The readers are in a process of their own. An event carries when it was said.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import re
import resource
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, Final

READERS: Final = int(os.environ.get("BENCH_READERS", "500"))
RATE: Final = 50
"""Events for each reader in a second."""
SECONDS: Final = float(os.environ.get("BENCH_SECONDS", "5"))
STALLED: Final = 20
PIECES: Final = 40_000
"""Of the turn that stalled readers watch: 8 MB."""
HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
STAMP: Final = re.compile(rb"@(\d+)")


def said() -> str:
    """What a model might say, and when."""
    return f" and @{time.monotonic_ns() // 1000} more"


# --- readers, in another process -----------------------------------------------------------------


class Reading(asyncio.Protocol):
    """Keeps what it gets with when it got it, and looks at it afterwards."""

    def __init__(self, path: str, got: list[tuple[int, bytes]]) -> None:
        self._path = path
        self._got = got

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(f"GET {self._path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())

    def data_received(self, data: bytes) -> None:
        self._got.append((time.monotonic_ns() // 1000, data))


async def read(port: int, paths: Sequence[str]) -> None:
    """Until somebody says to stop; then say how late each event was."""
    loop, got = asyncio.get_running_loop(), list[tuple[int, bytes]]()
    for path in paths:
        await loop.create_connection(partial(Reading, path, got), "127.0.0.1", port)
    print("ready", flush=True)
    await (await lines(sys.stdin)).readline()
    late = sorted(at - int(stamp) for at, data in got for stamp in STAMP.findall(data))
    row = {"events": len(late), "writes": len(got), "p50": 0.0, "p99": 0.0}
    if late:
        row |= {"p50": late[len(late) // 2] / 1e3, "p99": late[len(late) * 99 // 100] / 1e3}
    print(json.dumps(row), flush=True)


async def sleep_on(port: int, paths: Sequence[str]) -> None:
    """Ask, and never read."""
    held = []
    for path in paths:
        one = socket.create_connection(("127.0.0.1", port))
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        held.append(one)
    print("ready", flush=True)
    await (await lines(sys.stdin)).readline()
    print("{}", flush=True)


async def lines(pipe: IO[Any]) -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    return reader


class Readers:
    """The other process."""

    def __init__(self, process: subprocess.Popen[bytes], said: asyncio.StreamReader) -> None:
        self._process = process
        self._said = said

    async def line(self) -> bytes:
        return await self._said.readline()

    async def stop(self) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()
        row: dict[str, Any] = json.loads(await self._said.readline())
        self._process.wait()
        return row


async def process(kind: str, place: str, paths: str) -> Readers:
    made = subprocess.Popen(  # noqa: ASYNC220 - nothing is measured yet
        [sys.executable, __file__, kind, place, paths],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert made.stdout is not None
    return Readers(made, await lines(made.stdout))


async def readers(kind: str, port: int, paths: Sequence[str]) -> Readers:
    made = await process(kind, str(port), json.dumps(list(paths)))
    assert await made.line() == b"ready\n"
    return made


# --- the floor -----------------------------------------------------------------------------------


class Writing(asyncio.Protocol):
    def __init__(self, everybody: list[asyncio.Transport]) -> None:
        self._everybody = everybody

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(HEAD)
        self._everybody.append(self._transport)


async def floor() -> dict[str, Any]:
    everybody: list[asyncio.Transport] = []
    server = await asyncio.get_running_loop().create_server(
        lambda: Writing(everybody), "127.0.0.1", 0, backlog=4096
    )
    async with server:
        watching = await readers("read", server.sockets[0].getsockname()[1], ["/"] * READERS)

        def say() -> None:
            data = json.dumps({"seq": 1, "fragment": {"type": "text_delta", "text": said()}})
            written = f"id: 1.2.3.4.5\nevent: delta\ndata: {data}\n\n".encode()
            for transport in everybody:
                transport.write(written)

        spent = await at_a_rate(say)
        return await report("floor", spent, watching)


# --- ours ----------------------------------------------------------------------------------------


class Anybody:
    """An identity that lets everybody in."""

    async def caller(self, request: Any) -> Any:
        from holdfast.server.policy import ApiCaller

        return ApiCaller("ann", "member")

    async def relation(self, caller: Any, chat_id: str) -> Any:
        from holdfast.server.policy import ChatRelation

        return ChatRelation(owns=True)

    async def still(self, caller: Any, chat_id: str | None = None) -> bool:
        return True


def now() -> int:
    return time.time_ns() // 1000


@asynccontextmanager
async def serving_api() -> AsyncIterator[tuple[Any, Any, int]]:
    from aiohttp import web

    import holdfast.server.routes.streams  # noqa: F401
    from holdfast import Agent
    from holdfast.host import serving
    from holdfast.server.app import ApiServer, application
    from holdfast.store.sqlite.database import open_sqlite
    from holdfast.testing import ScriptedModel

    with TemporaryDirectory() as directory:
        async with (
            open_sqlite(Path(directory) / "chats.db", now=now) as db,
            serving(db, [Agent(model=ScriptedModel([]))], worker=None) as host,
        ):
            server = ApiServer(host, db, Anybody())
            runner = web.AppRunner(application(server), access_log=None)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0, backlog=4096).start()
            try:
                yield host, server, runner.addresses[0][1]
            finally:
                await runner.cleanup()


async def writer_of(host: Any, chat: Any) -> Any:
    """What speaks for a chat that runs."""
    from holdfast.live.buffer import AttemptId

    row = await chat.read()
    return host.feed.live.open(chat.id, AttemptId(row.epoch, row.history_version, row.attempt))


def path_of(chat: Any) -> str:
    return f"/api/v1/chats/{chat.id}/stream"


async def ours(who: str, chats: int) -> dict[str, Any]:
    from holdfast import TextDelta

    async with serving_api() as (host, server, port):
        made = [await host.create("go", owner="ann") for _ in range(chats)]
        writers = [await writer_of(host, chat) for chat in made]
        paths = [path_of(made[number % chats]) for number in range(READERS)]
        watching = await readers("read", port, paths)
        while len(server.hub) < READERS or server.hub.sources > chats:  # noqa: ASYNC110
            await asyncio.sleep(0.05)

        def say() -> None:
            for writer in writers:
                writer.put(TextDelta(said()))

        spent = await at_a_rate(say)
        return await report(who, spent, watching)


# --- through the relay ---------------------------------------------------------------------------


@asynccontextmanager
async def replica(database: str, secret: Any, worker: str | None) -> AsyncIterator[Any]:
    """One of two: the other is in another process."""
    from aiohttp import web

    from holdfast import Agent
    from holdfast.host import serving
    from holdfast.server.app import ApiServer, application
    from holdfast.server.relay.publisher import RelayPublisher
    from holdfast.server.relay.subscriber import RelaySubscriber
    from holdfast.store.postgres.database import open_postgres
    from holdfast.testing import ScriptedModel

    agents = [Agent(model=ScriptedModel([]))]
    async with open_postgres(database) as db, serving(db, agents, worker=None) as host:
        host.feed.worker = worker
        server, owner = ApiServer(host, db, Anybody()), RelayPublisher(host.feed, secret)
        app = application(server)
        owner.attach(app)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=4096).start()
        try:
            async with RelaySubscriber(host.feed, secret).running():
                yield host, db, owner, runner.addresses[0][1]
        finally:
            await runner.cleanup()


async def serve(database: str) -> None:
    """The replica that is read, until somebody says to stop."""
    from holdfast.server.relay.secret import ClusterSecret

    async with replica(database, ClusterSecret(b"of the bench"), None) as (_, _, _, port):
        print(port, flush=True)
        await (await lines(sys.stdin)).readline()
        print(json.dumps({"spent": time.process_time()}), flush=True)


async def relay(who: str, chats: int) -> dict[str, Any]:
    from holdfast import TextDelta
    from holdfast.chat.transitions import claims
    from holdfast.server.relay.secret import ClusterSecret
    from holdfast.testing.postgres import running

    with running() as postgres:
        async with replica(postgres.url(), ClusterSecret(b"of the bench"), "a") as place:
            host, db, owner, port = place
            made = [await host.create("go", owner="ann") for _ in range(chats)]
            url, agents = f"http://127.0.0.1:{port}", tuple(host.agents)
            me = claims.Worker(id="a", agents=agents, url=url, lease=10**9)
            await db.write(lambda tx: claims.beat(tx, me))
            await db.write(lambda tx: claims.claim(tx, me, {"root": chats}))
            writers = [await writer_of(host, chat) for chat in made]
            other = await process("serve", postgres.url(), "[]")
            there = int(await other.line())
            paths = [path_of(made[number % chats]) for number in range(READERS)]
            watching = await readers("read", there, paths)
            while owner.subscriptions < chats:  # noqa: ASYNC110
                await asyncio.sleep(0.05)

            def say() -> None:
                for writer in writers:
                    writer.put(TextDelta(said()))

            spent = await at_a_rate(say)
            row = await report(who, spent, watching)
            return {**row, "connections": len(owner), "there": (await other.stop())["spent"]}


async def turn(host: Any, server: Any, port: int, stalled: int) -> tuple[float, float]:
    """Seconds that a turn takes with so many stalled, and megabytes that are held at its end."""
    from holdfast import TextDelta

    chat = await host.create("go", owner="ann")
    writer = await writer_of(host, chat)
    sleeping = await readers("sleep", port, [path_of(chat)] * stalled)
    while len(server.hub) < stalled:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.2)
    gc.collect()
    piece, began = "x" * 200, time.perf_counter()
    for number in range(PIECES):
        writer.put(TextDelta(piece))
        if not number % 20:
            await asyncio.sleep(0.001)
    taken, held = time.perf_counter() - began, server.hub.buffered / 1e6
    writer.close()
    await sleeping.stop()
    while len(server.hub):  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    return taken, held


async def stalled() -> dict[str, Any]:
    async with serving_api() as (host, server, port):
        for _ in range(2):
            await turn(host, server, port, 0)
        before, ratios, held = memory(), [], 0.0
        for _ in range(5):
            alone, _ = await turn(host, server, port, 0)
            taken, held = await turn(host, server, port, STALLED)
            ratios.append(taken / alone)
        return {
            "who": "stalled",
            "slower": statistics.median(ratios),
            "buffered": held,
            "megabytes": memory() - before,
        }


def memory() -> float:
    """The most megabytes that this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


# --- measuring -----------------------------------------------------------------------------------


async def at_a_rate(say: Callable[[], None]) -> float:
    """Seconds of CPU for saying something at the rate, and for all that follows from it."""
    loop = asyncio.get_running_loop()
    await asyncio.sleep(1)
    gc.collect()
    began, due = time.process_time(), loop.time()
    for _ in range(round(SECONDS * RATE)):
        say()
        due += 1 / RATE
        await asyncio.sleep(max(0.0, due - loop.time()))
    await asyncio.sleep(0.2)
    return time.process_time() - began


async def report(who: str, spent: float, watching: Readers) -> dict[str, Any]:
    row = await watching.stop()
    wanted = READERS * round(SECONDS * RATE)
    assert row["events"] == wanted, f"{who}: {row['events']} events of {wanted}"
    return {"who": who, "median": spent / wanted * 1e6, **row}


def main() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 65_536), hard))
    if len(sys.argv) == 4:
        paths = json.loads(sys.argv[3])
        if sys.argv[1] == "serve":
            asyncio.run(serve(sys.argv[2]))
            return
        asyncio.run((read if sys.argv[1] == "read" else sleep_on)(int(sys.argv[2]), paths))
        return
    who = os.environ.get("BENCH_FANOUT", "one")
    measured = {
        "floor": floor,
        "one": lambda: ours("one", 1),
        "many": lambda: ours("many", READERS),
        "relay": lambda: relay("relay", 1),
        "relay_many": lambda: relay("relay_many", READERS),
        "stalled": stalled,
    }
    print(json.dumps(asyncio.run(measured[who]())), flush=True)


if __name__ == "__main__":
    main()
