"""Serves a fake provider on loopback, with enough of HTTP/1.1 for any client and for its faults."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final, TypeAlias
from urllib.parse import parse_qsl, urlsplit

import anyio
from anyio.abc import SocketAttribute, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream
from multidict import CIMultiDict

from holdfast.testing.fake.dialect_interface import ConnectionLost, ReceivedRequest, ResponseHead

Exchange: TypeAlias = Callable[[ReceivedRequest], AsyncGenerator[ResponseHead | bytes]]

MAX_HEAD_BYTES: Final = 64 * 1024


@asynccontextmanager
async def serve(exchange: Exchange) -> AsyncIterator[str]:
    """Answer requests during the block. Yields the base URL."""

    errors: list[Exception] = []

    async def talk(stream: SocketStream) -> None:
        try:
            await _talk(stream, exchange)
        except (anyio.BrokenResourceError, anyio.EndOfStream, anyio.IncompleteRead):
            pass  # the client has disconnected
        except Exception as raised:  # raised by a function in the script: passed on to the test
            errors.append(raised)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.aclose_forcefully(stream)

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra(SocketAttribute.local_port)
        async with anyio.create_task_group() as group:
            group.start_soon(listener.serve, talk)
            try:
                yield f"http://127.0.0.1:{port}"
            except Exception as raised:
                errors.insert(0, raised)
            group.cancel_scope.cancel()
        if errors:  # raised unchanged: a task group would wrap it in a group
            raise errors[0]


async def _talk(stream: SocketStream, exchange: Exchange) -> None:
    """Answer all requests of one connection."""
    reader = BufferedByteReceiveStream(stream)
    while True:
        received = await _read(reader)
        answering = exchange(received)
        try:
            await _write(stream, answering)
        except ConnectionLost:
            return  # without the final chunk of the body
        finally:
            await answering.aclose()


async def _read(reader: BufferedByteReceiveStream) -> ReceivedRequest:
    head = (await reader.receive_until(b"\r\n\r\n", MAX_HEAD_BYTES)).decode("latin-1")
    first, *lines = head.split("\r\n")
    target = urlsplit(first.split(" ")[1])
    headers: CIMultiDict[str] = CIMultiDict()
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.strip()] = value.strip()
    if headers.get("Transfer-Encoding", "").lower() == "chunked":
        body = b""
        while size := int(await reader.receive_until(b"\r\n", 32), 16):
            body += await reader.receive_exactly(size)
            await reader.receive_exactly(2)
        await reader.receive_exactly(2)
    else:
        length = int(headers.get("Content-Length", "0"))
        body = await reader.receive_exactly(length) if length else b""
    return ReceivedRequest(target.path, dict(parse_qsl(target.query)), headers, body)


async def _write(stream: SocketStream, answering: AsyncGenerator[ResponseHead | bytes]) -> None:
    async for piece in answering:
        if isinstance(piece, ResponseHead):
            await stream.send(_head(piece))
        elif piece:
            await stream.send(b"%x\r\n%b\r\n" % (len(piece), piece))
    await stream.send(b"0\r\n\r\n")


def _head(head: ResponseHead) -> bytes:
    try:
        phrase = HTTPStatus(head.status).phrase
    except ValueError:
        phrase = "Unknown"
    lines = [f"HTTP/1.1 {head.status} {phrase}", "Transfer-Encoding: chunked"]
    lines += [f"{name}: {value}" for name, value in head.headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
