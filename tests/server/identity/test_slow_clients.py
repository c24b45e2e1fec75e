"""Slow clients: what they get is bounded, and those who are only far away are not cut off."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from logging import DEBUG
from typing import Any, Final

import anyio
import pytest
from aiohttp import web
from anyio.abc import ByteStream

from holdfast.server.app import problems
from holdfast.server.identity.origin_check import MAX_HEADER_BYTES, SECURITY_HEADERS
from holdfast.server.identity.slow_clients import SlowBody, SlowClientLimits, limited_runner

PATIENCE: Final = SlowClientLimits(head=10, body=30, rate=1000, idle=75)


async def _echo(request: web.Request) -> web.Response:
    body = await request.read()
    return web.Response(body=str(len(body)).encode())


@asynccontextmanager
async def connected() -> AsyncIterator[ByteStream]:
    """A connection to a server that says how many bytes it was sent."""
    app = web.Application(middlewares=[problems], client_max_size=10**9)
    app.router.add_route("*", "/", _echo)
    runner = limited_runner(app, PATIENCE, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        async with await anyio.connect_tcp("127.0.0.1", runner.addresses[0][1]) as stream:
            yield stream
    finally:
        await runner.cleanup()


async def rest(stream: ByteStream) -> bytes:
    """Everything until the server closes."""
    answer = b""
    while True:
        try:
            answer += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return answer


async def reply(stream: ByteStream) -> bytes:
    """One answer with a body of one line."""
    answer = b""
    while b"\r\n\r\n" not in answer or answer.endswith(b"\r\n\r\n"):
        answer += await stream.receive()
    return answer


async def trickle(stream: ByteStream, data: bytes, every: float) -> None:
    for byte in data:
        try:
            await stream.send(bytes([byte]))
        except anyio.BrokenResourceError:
            return
        await anyio.sleep(every)


async def test_a_connection_that_says_nothing_is_closed() -> None:
    async with connected() as stream:
        began = anyio.current_time()
        assert await rest(stream) == b""
        assert anyio.current_time() - began == pytest.approx(PATIENCE.head, abs=1)


async def test_headers_that_trickle_in_are_given_up() -> None:
    async with connected() as stream, anyio.create_task_group() as group:
        began = anyio.current_time()
        group.start_soon(trickle, stream, b"GET / HTTP/1.1\r\nHost: x\r\nX-More: " + b"x" * 90, 1.0)
        assert (await rest(stream)).startswith(b"HTTP/1.1 408 ")
        assert anyio.current_time() - began < PATIENCE.head + 2
        group.cancel_scope.cancel()


async def test_headers_of_a_later_request_that_trickle_in_are_given_up_too() -> None:
    async with connected() as stream, anyio.create_task_group() as group:
        await stream.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await reply(stream)).endswith(b"\r\n\r\n0")
        await anyio.sleep(PATIENCE.head * 3)  # between two requests there is more time
        began = anyio.current_time()
        group.start_soon(trickle, stream, b"GET / HTTP/1.1\r\nX-More: " + b"x" * 90, 1.0)
        assert (await rest(stream)).startswith(b"HTTP/1.1 408 ")
        assert anyio.current_time() - began < PATIENCE.head + 2
        group.cancel_scope.cancel()


async def test_an_idle_connection_is_kept_for_a_while_and_then_closed() -> None:
    async with connected() as stream:
        for _ in range(3):
            await stream.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await reply(stream)).endswith(b"\r\n\r\n0")
            await anyio.sleep(PATIENCE.idle - 5)
        await anyio.sleep(10)
        assert await rest(stream) == b""


async def test_headers_that_never_end_are_refused_before_they_fill_memory() -> None:
    async with connected() as stream:
        await stream.send(b"GET / HTTP/1.1\r\nHost: x\r\n")
        line = b"X-A: " + b"x" * 1000 + b"\r\n"
        sent = 0
        with pytest.raises(anyio.BrokenResourceError):
            while sent < 4 * 1024 * 1024:
                await stream.send(line)
                await anyio.sleep(0.001)
                sent += len(line)
        assert sent < 1024 * 1024 + MAX_HEADER_BYTES


async def test_a_body_that_trickles_in_is_given_up() -> None:
    async with connected() as stream, anyio.create_task_group() as group:
        began = anyio.current_time()
        head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n"
        await stream.send(head)
        group.start_soon(trickle, stream, b"x" * 999, 1.0)
        answer = await rest(stream)
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b'"kind":"timed_out"' in answer
        assert anyio.current_time() - began < PATIENCE.body + 15  # with aiohttp's own lingering
        group.cancel_scope.cancel()


async def test_a_body_that_comes_steadily_may_take_as_long_as_it_is_large() -> None:
    size, step = 200_000, 5_000
    async with connected() as stream:
        head = f"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n"
        await stream.send(head.encode())
        began = anyio.current_time()
        for _ in range(size // step):
            await stream.send(b"x" * step)
            await anyio.sleep(4)  # a little faster than it has to
        assert (await reply(stream)).endswith(f"\r\n\r\n{size}".encode())
        assert anyio.current_time() - began > PATIENCE.body * 4


async def test_a_body_that_stops_on_the_way_is_given_up() -> None:
    async with connected() as stream:
        head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        await stream.send(head + b"4\r\nabcd\r\n")
        assert (await rest(stream)).startswith(b"HTTP/1.1 408 ")


async def test_the_next_request_starts_afresh() -> None:
    async with connected() as stream:
        for _ in range(3):
            await stream.send(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n")
            await anyio.sleep(PATIENCE.body - 1)
            await stream.send(b"abcd")
            assert (await reply(stream)).endswith(b"\r\n\r\n4")
            await anyio.sleep(PATIENCE.body + 1)


async def test_a_slow_handler_is_not_taken_for_a_slow_client() -> None:
    app = web.Application()

    async def slow(request: web.Request) -> web.Response:
        await anyio.sleep(PATIENCE.body * 10)
        return web.Response(text="done")

    app.router.add_get("/", slow)
    runner = limited_runner(app, PATIENCE, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        async with await anyio.connect_tcp("127.0.0.1", runner.addresses[0][1]) as stream:
            await stream.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await reply(stream)).endswith(b"done")
    finally:
        await runner.cleanup()


def test_a_slow_body_is_a_timeout_to_aiohttp() -> None:
    error: Any = SlowBody("late")
    assert isinstance(error, TimeoutError)


@pytest.mark.parametrize(
    "sent",
    [
        b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\nnonsense\r\n",
        b"Content-Encoding: gzip\r\nContent-Length: 8\r\n\r\nnonsense",
        b"no header at all\r\n\r\n",
    ],
    ids=["chunks", "encoding", "headers"],
)
async def test_what_is_no_http_is_answered_and_is_no_failure_of_ours(
    sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with connected() as stream:
        await stream.send(b"POST / HTTP/1.1\r\nHost: x\r\n" + sent)
        answer = await rest(stream)
    assert b" 400 " in answer.partition(b"\r\n")[0]
    assert [record for record in caplog.records if record.levelno > DEBUG] == []


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\nno header at all\r\n\r\n", b"400"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + b"x" * MAX_HEADER_BYTES, b"4"),
        (b"GET / HTTP/1.1\r\nHost", b"408"),
    ],
    ids=["headers", "request line", "too large", "too slow"],
)
async def test_an_answer_of_the_parser_has_the_headers_of_every_answer(
    sent: bytes, status: bytes
) -> None:
    async with connected() as stream:
        await stream.send(sent)
        head, _, body = (await rest(stream)).partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    assert first.split()[1].startswith(status)
    headers = dict(line.decode().split(": ", 1) for line in lines)
    assert headers["Server"] == "holdfast"
    assert SECURITY_HEADERS.items() <= headers.items()
    assert len(body) == int(headers["Content-Length"])
    if body:
        assert headers["Content-Type"].startswith("application/problem+json")
        assert b'"kind":"bad_request"' in body
