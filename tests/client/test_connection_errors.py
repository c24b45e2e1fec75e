"""A server that cannot be reached is told of in words of ours, with what to do."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import SocketStream

from holdfast.client.connect import connect
from holdfast.client.errors import Unreachable

TOKEN = "hf_x"


@asynccontextmanager
async def answering(with_what: bytes) -> AsyncIterator[int]:
    """Somebody who says this to everybody, and hangs up; the port."""

    async def answer(stream: SocketStream) -> None:
        async with stream:
            await stream.receive()
            if with_what:
                await stream.send(with_what)

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as group,
    ):
        group.start_soon(listener.serve, answer)
        yield listener.extra(anyio.abc.SocketAttribute.local_port)
        group.cancel_scope.cancel()


async def said_of(url: str) -> str:
    async with connect(url, TOKEN, patience=0) as host:
        with pytest.raises(Unreachable) as failed:
            await host.list()
    said = str(failed.value)
    assert "aiohttp" not in said
    assert "Error" not in said
    assert said.startswith(f"{url} cannot be reached, ")
    return said


async def test_where_nothing_listens_it_says_so() -> None:
    with socket.socket() as taken:  # bound, and not listening
        taken.bind(("127.0.0.1", 0))
        said = await said_of(f"http://127.0.0.1:{taken.getsockname()[1]}")
    assert said.endswith("nothing listens there: start it (`holdfast serve`), or check the address")


async def test_a_name_that_nobody_has_is_told_from_a_server_that_is_away() -> None:
    said = await said_of("http://nobody.invalid:1")
    assert "there is no host of that name: check the spelling" in said


async def test_https_where_http_is_spoken_is_called_that() -> None:
    async with answering(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        said = await said_of(f"https://127.0.0.1:{port}")
    assert "it does not speak https there: try http://" in said


@pytest.mark.parametrize(
    ("answer", "says"),
    [(b"", "the connection was lost"), (b"SSH-2.0-OpenSSH_9.6\r\n", "the response is not HTTP")],
)
async def test_an_answer_that_is_none_is_told_as_what_it_is(answer: bytes, says: str) -> None:
    async with answering(answer) as port:
        assert says in await said_of(f"http://127.0.0.1:{port}")
