"""Measures the server's CPU time per event and reader, and how late each event arrives.

BENCH_FANOUT   floor: a raw asyncio server that writes each event to each connection
               one: all readers read one chat     many: each reads a chat of its own
               relay, relay_many: like one and many, for chats that run on another replica
               stalled: what twenty readers that never read cost, and whether they slow a turn

The readers are in a process of their own. Each event contains the time at which it was sent.
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
"""Events per second and reader."""
SECONDS: Final = float(os.environ.get("BENCH_SECONDS", "5"))
STALLED: Final = 20
PIECES: Final = 40_000
"""Pieces of the turn that stalled readers watch: 8 MB in total."""
HEAD: Final = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"
STAMP: Final = re.compile(rb"@(\d+)")


def stamped() -> str:
    """A piece of text with the time at which it was made."""
    return f" and @{time.monotonic_ns() // 1000} more"


# --- readers, in another process -----------------------------------------------------------------


class Reading(asyncio.Protocol):
    """Stores received data with its time, to be evaluated afterwards."""

    def __init__(self, path: str, got: list[tuple[int, bytes]]) -> None:
        self._path = path
        self._got = got

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.write(f"GET {self._path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())

    def data_received(self, data: bytes) -> None:
        self._got.append((time.monotonic_ns() // 1000, data))


async def read(port: int, paths: Sequence[str]) -> None:
    """Read until standard input has a line; then print how late the events were."""
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
    """Send requests, and never read the responses."""
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
    """The process with the readers."""

    def __init__(self, process: subprocess.Popen[bytes], output: asyncio.StreamReader) -> None:
        self._process = process
        self._output = output

    async def line(self) -> bytes:
        return await self._output.readline()

    async def stop(self) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()
        row: dict[str, Any] = json.loads(await self._output.readline())
        self._process.wait()
        return row


async def process(kind: str, place: str, paths: str) -> Readers:
    started = subprocess.Popen(  # noqa: ASYNC220 - nothing is measured yet
        [sys.executable, __file__, kind, place, paths],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert started.stdout is not None
    return Readers(started, await lines(started.stdout))


async def readers(kind: str, port: int, paths: Sequence[str]) -> Readers:
    started = await process(kind, str(port), json.dumps(list(paths)))
    assert await started.line() == b"ready\n"
    return started


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
            data = json.dumps({"seq": 1, "fragment": {"type": "text_delta", "text": stamped()}})
            written = f"id: 1.2.3.4.5\nevent: delta\ndata: {data}\n\n".encode()
            for transport in everybody:
                transport.write(written)

        spent = await at_a_rate(say)
        return await report("floor", spent, watching)


# --- ours ----------------------------------------------------------------------------------------


class Anybody:
    """An identity that accepts every request."""

    def __init__(self, db: Any) -> None:
        self._db = db

    async def caller(self, request: Any) -> Any:
        from holdfast.server.access_policy import ApiCaller

        return ApiCaller("ann", "member")

    async def access(self, caller: Any, chat_id: str) -> Any:
        from holdfast.chat.rows import read_chat
        from holdfast.server.access_policy import ChatAccess, ChatRelation

        row = await self._db.read(lambda tx: read_chat(tx, chat_id))
        return ChatAccess(row, ChatRelation(owns=True))

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
    from holdfast.server.api_state import ApiState
    from holdfast.server.app import application
    from holdfast.store.sqlite.database import open_sqlite
    from holdfast.testing import ScriptedModel

    with TemporaryDirectory() as directory:
        async with (
            open_sqlite(Path(directory) / "chats.db", now=now) as db,
            serving(db, [Agent(model=ScriptedModel([]))], worker=None) as host,
        ):
            server = ApiState(host, db, Anybody(db))
            runner = web.AppRunner(application(server), access_log=None)
            await runner.setup()
            await web.TCPSite(runner, "127.0.0.1", 0, backlog=4096).start()
            try:
                yield host, server, runner.addresses[0][1]
            finally:
                await runner.cleanup()


async def writer_of(host: Any, chat: Any) -> Any:
    """The writer of the live output of a running chat."""
    from holdfast.live.buffer import AttemptId

    row = await chat.read()
    return host.feed.live.open(chat.id, AttemptId(row.epoch, row.history_version, row.attempt))


def path_of(chat: Any) -> str:
    return f"/api/v1/chats/{chat.id}/stream"


async def ours(who: str, chats: int) -> dict[str, Any]:
    from holdfast.events import TextDelta

    async with serving_api() as (host, server, port):
        made = [await host.create("go", owner="ann") for _ in range(chats)]
        writers = [await writer_of(host, chat) for chat in made]
        paths = [path_of(made[number % chats]) for number in range(READERS)]
        watching = await readers("read", port, paths)
        while len(server.hub) < READERS or server.hub.sources > chats:  # noqa: ASYNC110
            await asyncio.sleep(0.05)

        def say() -> None:
            for writer in writers:
                writer.put(TextDelta(stamped()))

        spent = await at_a_rate(say)
        return await report(who, spent, watching)


# --- through the relay ---------------------------------------------------------------------------


@asynccontextmanager
async def replica(database: str, secret: Any, worker: str | None) -> AsyncIterator[Any]:
    """One of two replicas; the other one is in another process."""
    from aiohttp import web

    from holdfast import Agent
    from holdfast.host import serving
    from holdfast.server.api_state import ApiState
    from holdfast.server.app import application
    from holdfast.server.relay.replica_publisher import RelayPublisher
    from holdfast.server.relay.replica_subscriber import RelaySubscriber
    from holdfast.store.postgres.database import open_postgres
    from holdfast.testing import ScriptedModel

    agents = [Agent(model=ScriptedModel([]))]
    async with open_postgres(database) as db, serving(db, agents, worker=None) as host:
        host.feed.worker = worker
        server, owner = ApiState(host, db, Anybody(db)), RelayPublisher(host.feed, secret)
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
    """Run the replica that the readers use, until standard input has a line."""
    from holdfast.server.relay.cluster_secret import ClusterSecret

    async with replica(database, ClusterSecret(b"of the bench"), None) as (_, _, _, port):
        print(port, flush=True)
        await (await lines(sys.stdin)).readline()
        print(json.dumps({"spent": time.process_time()}), flush=True)


async def relay(who: str, chats: int) -> dict[str, Any]:
    from holdfast.chat.transitions import claims
    from holdfast.events import TextDelta
    from holdfast.server.relay.cluster_secret import ClusterSecret
    from holdfast.testing.postgres import running

    with running() as postgres:
        async with replica(postgres.url(), ClusterSecret(b"of the bench"), "a") as place:
            host, db, owner, port = place
            made = [await host.create("go", owner="ann") for _ in range(chats)]
            url, agents = f"http://127.0.0.1:{port}", tuple(host.agents)
            me = claims.WorkerRow(id="a", agents=agents, url=url, lease=10**9)
            await db.write(lambda tx: claims.write_heartbeat(tx, me))
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
                    writer.put(TextDelta(stamped()))

            spent = await at_a_rate(say)
            row = await report(who, spent, watching)
            return {**row, "connections": len(owner), "there": (await other.stop())["spent"]}


async def turn(host: Any, server: Any, port: int, stalled: int) -> tuple[float, float]:
    """Seconds that a turn takes with stalled readers, and megabytes buffered at its end."""
    from holdfast.events import TextDelta

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
    """Peak memory of this process in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


# --- measuring -----------------------------------------------------------------------------------


async def at_a_rate(say: Callable[[], None]) -> float:
    """CPU time in seconds of sending events at the rate, including everything that follows."""
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
