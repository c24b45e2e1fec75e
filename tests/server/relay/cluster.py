"""Several replicas in one process over one PostgreSQL, with real connections between them.

In real time: connections that are looked after by heartbeats have no use for any other.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from aiohttp import web

from holdfast.agent import Agent
from holdfast.chat.handle import Chat
from holdfast.chat.host import Host
from holdfast.host import serving
from holdfast.kernel.model import Delta, Finished, Model, Request, TextDelta
from holdfast.server.api_state import ApiState
from holdfast.server.app import application
from holdfast.server.relay.cluster_secret import ClusterSecret
from holdfast.server.relay.replica_publisher import PublisherOptions, RelayPublisher
from holdfast.server.relay.replica_subscriber import RelaySubscriber, SubscriberOptions
from holdfast.store.postgres.database import open_postgres
from holdfast.worker.options import WorkerOptions
from tests.server.api import Api, Named, session
from tests.server.streams.client import Watching

T = TypeVar("T")
SECRET: Final = ClusterSecret(b"the secret of all replicas")
BOUND: Final = 50.0


def run(test: Coroutine[Any, Any, T]) -> T:
    """In real time, and not for ever."""

    async def bounded() -> T:
        async with asyncio.timeout(BOUND):
            return await test

    return asyncio.run(bounded())


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():  # noqa: ASYNC110 - of anything, also of another process
        await asyncio.sleep(0.005)


class Spoken:
    """A model that says what a test puts, when the test puts it: by the words of the prompt."""

    name, window = "spoken:model", None

    def __init__(self) -> None:
        self._said: dict[str, asyncio.Queue[str | None]] = {}

    def stream(self, request: Request) -> AsyncIterator[Delta]:
        return self._stream(request.messages[-1].text)

    def _of(self, prompt: str) -> asyncio.Queue[str | None]:
        return self._said.setdefault(prompt, asyncio.Queue())

    def say(self, *pieces: str, to: str = "go") -> None:
        for piece in pieces:
            self._of(to).put_nowait(piece)

    def end(self, to: str = "go") -> None:
        self._of(to).put_nowait(None)

    async def _stream(self, prompt: str) -> AsyncIterator[Delta]:
        while (piece := await self._of(prompt).get()) is not None:
            yield TextDelta(piece)
        yield Finished()


@dataclass
class Wire:
    """What is between two replicas: it can be cut, and it can stall."""

    to: int
    """The port at its far end."""
    port: int = 0
    made: int = 0
    """Connections so far."""
    cut: bool = False
    open: list[asyncio.StreamWriter] = field(default_factory=list)
    flows: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def connections(self) -> int:
        return len(self.open) // 2

    def sever(self) -> None:
        self.cut = True
        for writer in self.open:
            writer.transport.abort()

    async def serve(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        if self.cut:
            back.transport.abort()
            return
        self.made += 1
        far, there = await asyncio.open_connection("127.0.0.1", self.to, limit=4096)
        both = [back, there]
        self.open += both
        try:
            with suppress(ConnectionError):
                await asyncio.gather(self._pump(near, there), self._pump(far, back))
        finally:
            for writer in both:
                self.open.remove(writer)
                writer.transport.abort()

    async def _pump(self, near: asyncio.StreamReader, far: asyncio.StreamWriter) -> None:
        while data := await near.read(4096):
            await self.flows.wait()
            far.write(data)
            await far.drain()
        raise ConnectionError


@asynccontextmanager
async def wire(to: int) -> AsyncIterator[Wire]:
    made = Wire(to)
    made.flows.set()
    server = await asyncio.start_server(made.serve, "127.0.0.1", 0, limit=4096)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        made.sever()


@dataclass
class Replica:
    api: Api
    owner: RelayPublisher
    relay: RelaySubscriber
    wire: Wire
    """Between it and those who ask it."""

    @property
    def host(self) -> Host:
        return self.api.host


@asynccontextmanager
async def replica(
    url: str,
    model: Model,
    *,
    drives: bool | WorkerOptions = False,
    secret: ClusterSecret = SECRET,
    asking: SubscriberOptions = SubscriberOptions(),  # noqa: B008 - frozen
    owner: PublisherOptions = PublisherOptions(),  # noqa: B008 - frozen
    advertised: str | None = None,
) -> AsyncIterator[Replica]:
    """One that drives chats, or only serves those who read them.

    `advertised`: where it says that it is, when it is not there.
    """
    listening = socket.create_server(("127.0.0.1", 0))
    options = drives if isinstance(drives, WorkerOptions) else None
    if drives is True:
        options = WorkerOptions(grace=1.0)
    async with (
        wire(listening.getsockname()[1]) as between,
        open_postgres(url) as db,
        serving(
            db,
            [Agent(model=model)],
            worker=options,
            titles=False,
            url=advertised or f"http://127.0.0.1:{between.port}",
        ) as host,
        session() as client,
    ):
        server = ApiState(host, db, Named(db))
        app, asked = application(server), RelayPublisher(host.feed, secret, owner)
        asked.attach(app)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        await web.SockSite(runner, listening).start()
        there = f"http://127.0.0.1:{listening.getsockname()[1]}"
        try:
            async with RelaySubscriber(host.feed, secret, asking).running() as relay:
                yield Replica(Api(there, client, server), asked, relay, between)
        finally:
            await runner.cleanup()


async def begun(on: Replica, prompt: str = "go") -> Chat:
    """A chat that somebody drives."""
    chat = await on.host.create(prompt, owner="ann")
    while not (await chat.read()).epoch:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    return chat


@asynccontextmanager
async def reading(on: Replica, chat: Chat, who: Watching | None = None) -> AsyncIterator[Watching]:
    """Somebody who reads it until it is idle, or the block ends."""
    watching = who or Watching()
    task = asyncio.create_task(watching.follow(on.api, chat.id, answers=1))
    try:
        await until(lambda: watching.chat is not None or task.done())
        yield watching
        await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def resets(watching: Watching) -> int:
    return sum(type(event).__name__ == "Reset" for event in watching.events)
