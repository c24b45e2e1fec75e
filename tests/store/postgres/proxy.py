"""Between a client and PostgreSQL: cuts the line at a chosen moment, or goes silent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit, urlunsplit


class Proxy:
    """Passes everything on, unless told otherwise."""

    def __init__(self, url: str, port: int) -> None:
        parts = urlsplit(url)
        self.url = urlunsplit(parts._replace(netloc=f"{parts.username}@127.0.0.1:{port}"))
        self.silent = False
        """Everything is lost on the way, in both directions, and nobody is told."""
        self.cuts = 0
        self._word: bytes | None = None
        self._forward = False

    def cut_at(self, word: str, *, forward: bool) -> None:
        """Once: the line on which the client says this is cut, after the server has answered.

        Not `forward`: before the server has heard it.
        """
        self._word, self._forward = word.encode(), forward

    async def serve(self, client: Stream, server: Stream) -> None:
        """Returns when one of both has gone, or the line is cut."""
        said = asyncio.Event()
        ways = {
            asyncio.ensure_future(self._up(client, server, said)),
            asyncio.ensure_future(self._down(server, client, said)),
        }
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.wait(ways)

    async def _up(self, client: Stream, server: Stream, said: asyncio.Event) -> None:
        while data := await client.read():
            if self._word is not None and self._word in data:
                self._word = None
                self.cuts += 1
                if not self._forward:
                    return
                said.set()
            await self._pass(data, server)

    async def _down(self, server: Stream, client: Stream, said: asyncio.Event) -> None:
        while data := await server.read():
            if said.is_set():
                return
            await self._pass(data, client)

    async def _pass(self, data: bytes, to: Stream) -> None:
        if not self.silent:
            await to.write(data)


class Stream:
    """One end of a connection. When the other end is gone, it just ends."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        with suppress(ConnectionError):
            return await self._reader.read(65_536)
        return b""

    async def write(self, data: bytes) -> None:
        with suppress(ConnectionError):
            self._writer.write(data)
            await self._writer.drain()

    def abort(self) -> None:
        self._writer.transport.abort()


@asynccontextmanager
async def proxied(url: str) -> AsyncIterator[Proxy]:
    """A proxy before the server of a URL."""
    at = urlsplit(url)
    serving: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        serving.add(task)
        client = Stream(reader, writer)
        try:
            server = Stream(*await asyncio.open_connection(at.hostname, at.port))
            try:
                await proxy.serve(client, server)
            finally:
                server.abort()
        except asyncio.CancelledError:
            pass  # asyncio complains of a connection whose task was cancelled
        finally:
            client.abort()
            serving.discard(task)

    listening = await asyncio.start_server(connected, "127.0.0.1", 0)
    proxy = Proxy(url, listening.sockets[0].getsockname()[1])
    try:
        yield proxy
    finally:
        listening.close()
        for task in tuple(serving):
            task.cancel()
        if serving:
            await asyncio.wait(serving)
