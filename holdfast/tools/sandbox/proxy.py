"""The proxy through which a sandbox reaches allowed hosts: plain HTTP, and tunnels by CONNECT.

It runs in this process. The socket that it accepts on was created inside the network of the
sandbox, where nothing else is reachable, and was sent to us: no other program takes part.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

from msgspec import Struct

from holdfast.tools.sandbox.egress import EgressRefused, check_address, check_host, parse
from holdfast.tools.sandbox.launcher import PORT

MAX_HEAD: Final = 64 * 1024
MAX_CONNECTIONS: Final = 100
HEAD_SECONDS: Final = 30.0
CONNECT_SECONDS: Final = 30.0
CHUNK: Final = 64 * 1024
MAX_REFUSALS: Final = 20
"""Number of different refusals that are reported."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Outside(Struct, frozen=True):
    """How the proxy reaches the internet."""

    resolve: Callable[[str, int], Awaitable[Sequence[str]]]
    """The addresses of a name."""
    connect: Callable[[str, int], Awaitable[Streams]]
    """A connection to an address."""


async def _resolve(host: str, port: int) -> Sequence[str]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for *_, address in found]


async def _connect(address: str, port: int) -> Streams:
    return await asyncio.open_connection(address, port)


INTERNET: Final = Outside(_resolve, _connect)


def proxy_variables() -> dict[str, str]:
    """Environment variables by which programs inside find the proxy."""
    url = f"http://127.0.0.1:{PORT}"
    local = "localhost,127.0.0.1,::1"
    names = {"http_proxy": url, "https_proxy": url, "no_proxy": local}
    return {
        **names,
        **{name.upper(): value for name, value in names.items()},
        "NODE_USE_ENV_PROXY": "1",
    }


class EgressProxy:
    """Relays connections to allowed hosts, and remembers which ones it refused."""

    def __init__(self, allowed: Sequence[str], outside: Outside = INTERNET) -> None:
        self._allowed = allowed
        self._outside = outside
        self._connections: set[asyncio.Task[None]] = set()
        self.refusals: dict[str, None] = {}
        """Messages about refused connections, in order."""

    @asynccontextmanager
    async def serve(self, channel: socket.socket) -> AsyncIterator[None]:
        """Serve on the listening socket that arrives on `channel`, until the end of the block."""
        with channel:
            serving = asyncio.create_task(self._serve(channel))
            try:
                yield
            finally:
                tasks = {serving, *self._connections}
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, channel: socket.socket) -> None:
        listener = await _received(channel)
        if listener is None:  # the launcher has ended
            return
        server = await asyncio.start_server(self._accept, sock=listener, limit=MAX_HEAD)
        async with server:
            await server.serve_forever()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= MAX_CONNECTIONS:
            writer.close()
            return
        task = asyncio.create_task(self._handle(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._relay(reader, writer)
        except OSError:
            pass  # the connection is closed below
        finally:
            writer.close()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return
        try:
            request = parse(head)
            there = await self._open(request.host, request.port)
        except EgressRefused as refused:
            if len(self.refusals) < MAX_REFUSALS:
                self.refusals[str(refused)] = None
            writer.write(_answer(403, "Forbidden", str(refused)))
        except (OSError, TimeoutError) as error:
            writer.write(_answer(502, "Bad Gateway", str(error) or "no answer"))
        else:
            if request.head is None:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                there[1].write(request.head)
            await _join((reader, writer), there)

    async def _open(self, host: str, port: int) -> Streams:
        """A connection to the address that was checked: the name is not resolved again."""
        check_host(self._allowed, host, port)
        async with asyncio.timeout(CONNECT_SECONDS):
            addresses = await self._outside.resolve(host, port)
            if not addresses:
                raise OSError(f"{host} has no address")
            for address in addresses:
                check_address(host, address)
            failure = OSError()
            for address in addresses:
                try:
                    return await self._outside.connect(address, port)
                except OSError as error:
                    failure = error
            raise failure


async def _received(channel: socket.socket) -> socket.socket | None:
    """The socket that is sent on a channel; None if the other end was closed."""
    loop = asyncio.get_running_loop()
    channel.setblocking(False)
    readable = loop.create_future()

    def wake() -> None:
        if not readable.done():
            readable.set_result(None)

    loop.add_reader(channel, wake)
    try:
        await readable
    finally:
        loop.remove_reader(channel)
    _, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
        return socket.socket(fileno=descriptor)
    return None


async def _join(one: Streams, other: Streams) -> None:
    """Relay between two connections, in both directions, until both have ended."""
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_copy(one[0], other[1]))
            group.create_task(_copy(other[0], one[1]))
    except* OSError:
        pass  # a side has closed the connection
    finally:
        other[1].close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()
    with suppress(OSError, RuntimeError):
        if writer.can_write_eof():
            writer.write_eof()


def _answer(code: int, reason: str, message: str) -> bytes:
    body = f"{message}\n".encode(errors="replace")
    head = (
        f"HTTP/1.1 {code} {reason}\r\nContent-Type: text/plain; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
