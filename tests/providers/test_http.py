"""The HTTP port on real sockets: what arrives, what is refused, what is let go of."""

from __future__ import annotations

import gzip
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import nullcontext
from typing import Any

import aiohttp
import anyio
import pytest
from aiohttp.client_reqrep import ConnectionKey
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from holdfast.kernel.errors import ConfigError, FailureKind, ProviderError, classify
from holdfast.kernel.messages import Usage
from holdfast.kernel.model import Delta, Finished, Notice, Ping, TextDelta
from holdfast.providers.failure import MAX_ERROR_BODY
from holdfast.providers.http import SHARED_CLIENT, HttpClient, _provider_error, _proxy
from holdfast.providers.http_stream import (
    CLOSE_TIMEOUT,
    TRAILER_TIMEOUT,
    WireRequest,
    stream_answer,
)
from holdfast.testing.fake.dialect_interface import ConnectionLost, ReceivedRequest, ResponseHead
from holdfast.testing.fake.server import serve

Exchange = Callable[[ReceivedRequest], AsyncGenerator[ResponseHead | bytes]]
STREAM = {"Content-Type": "text/event-stream"}


def replying(*pieces: bytes, status: int = 200, **headers: str) -> Exchange:
    async def exchange(received: ReceivedRequest) -> AsyncGenerator[ResponseHead | bytes]:
        yield ResponseHead(
            status, {name.replace("_", "-"): value for name, value in headers.items()}
        )
        for piece in pieces:
            yield piece

    return exchange


async def ask(base_url: str, http: HttpClient = SHARED_CLIENT) -> tuple[int, bytes]:
    async with http.post(f"{base_url}/v1/ask?x=1", {"X-Key": "k"}, b'{"a":1}') as reply:
        return reply.status, b"".join([data async for data in reply.chunks()])


class Plain:
    """A protocol whose events are the text itself; `end` is the last."""

    complete = False

    def __init__(self) -> None:
        self.deltas: list[Delta] = []

    def feed(self, events: list[bytes]) -> list[Delta]:
        self.deltas = []
        for event in events:
            self.complete = self.complete or event == b"end"
            self.deltas.append(Finished() if event == b"end" else TextDelta(event.decode()))
        return self.deltas

    def end(self) -> list[Delta]:
        return []

    def spent(self) -> Usage | None:
        return None


async def deltas(base_url: str, *notices: str) -> list[Delta]:
    call = WireRequest(f"{base_url}/v1/ask", {}, b"{}", notices)
    return [delta async for delta in stream_answer(SHARED_CLIENT, call, Plain(), {})]


# --- What goes out and what comes back ----------------------------------------------------------


async def test_a_request_arrives_as_it_was_sent() -> None:
    seen: list[ReceivedRequest] = []

    async def exchange(received: ReceivedRequest) -> AsyncGenerator[ResponseHead | bytes]:
        seen.append(received)
        yield ResponseHead(201, {"X-Answer": "yes"})
        yield b"one "
        yield b"two"

    async with serve(exchange) as base_url:
        assert await ask(base_url) == (201, b"one two")
    await SHARED_CLIENT.close()
    assert (seen[0].path, seen[0].query, seen[0].body) == ("/v1/ask", {"x": "1"}, b'{"a":1}')
    assert seen[0].headers["x-key"] == "k"
    assert seen[0].headers["accept-encoding"] == "identity"


async def test_a_connection_is_used_again() -> None:
    opened = 0

    async def exchange(received: ReceivedRequest) -> AsyncGenerator[ResponseHead | bytes]:
        yield ResponseHead(200, {})

    http = HttpClient()
    async with serve(exchange) as base_url:
        for _ in range(3):
            await ask(base_url, http)
        connector = (await http._session()).connector
        assert connector is not None
        opened = sum(len(kept) for kept in connector._conns.values())
    await http.close()
    assert opened == 1


async def test_what_is_asked_again_after_closing_is_opened_again() -> None:
    http = HttpClient()
    async with serve(replying(b"x")) as base_url:
        await ask(base_url, http)
        await http.close()
        await http.close()
        assert await ask(base_url, http) == (200, b"x")
        await http.close()


def test_connections_end_with_their_event_loop_and_nobody_has_to_close_them() -> None:
    """In a process of its own, where every warning and every complaint of the loop is seen."""
    program = """
import asyncio
from holdfast.providers.http import SHARED_CLIENT
from holdfast.testing.fake.server import serve
from holdfast.testing.fake.dialect_interface import ResponseHead

async def exchange(received):
    yield ResponseHead(200, {})
    yield b"x"

async def main():
    async with serve(exchange) as base_url:
        for _ in range(2):
            async with SHARED_CLIENT.post(base_url, {}, b"") as reply:
                assert [data async for data in reply.chunks()] == [b"x"]

asyncio.run(main())
asyncio.run(main())
assert not SHARED_CLIENT._sessions
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


async def test_leaving_in_the_middle_lets_go_of_the_connection() -> None:
    left = anyio.Event()

    async def exchange(received: ReceivedRequest) -> AsyncGenerator[ResponseHead | bytes]:
        try:
            yield ResponseHead(200, STREAM)
            while True:
                yield b"data: x\n\n"
        finally:
            left.set()

    async with serve(exchange) as base_url:
        call = WireRequest(base_url, {}, b"{}")
        stream = stream_answer(SHARED_CLIENT, call, Plain(), {})
        assert await anext(stream) == TextDelta("x")
        await stream.aclose()
        await left.wait()
    await SHARED_CLIENT.close()


# --- A stream of deltas -------------------------------------------------------------------------


async def test_deltas_arrive_and_silence_that_is_alive_is_a_ping() -> None:
    pieces = [b"data: o", b"ne\n\n", b": still here\n\n", b"data: end\n\n"]

    async def exchange(received: ReceivedRequest) -> AsyncGenerator[ResponseHead | bytes]:
        yield ResponseHead(200, STREAM)
        for piece in pieces:
            yield piece
            await anyio.sleep(0.01)  # so that each is read by itself

    async with serve(exchange) as base_url:
        found = await deltas(base_url)
    await SHARED_CLIENT.close()
    assert found == [TextDelta("one"), Ping(), Finished()]  # a piece of a line is no event


async def test_a_notice_comes_with_the_first_sign_of_life() -> None:
    async with serve(replying(b"data: one\n\n", Content_Type="text/event-stream")) as url:
        assert (await deltas(url, "look", "see"))[:3] == [
            Notice("look"),
            Notice("see"),
            TextDelta("one"),
        ]
    await SHARED_CLIENT.close()


async def test_an_event_that_lacks_only_its_blank_line_counts() -> None:
    async with serve(replying(b"data: one\n\ndata: end")) as base_url:
        assert await deltas(base_url) == [TextDelta("one"), Finished()]
    await SHARED_CLIENT.close()


class Counting(Plain):
    """A protocol that counts as it goes."""

    def spent(self) -> Usage | None:
        return Usage(7)


@pytest.mark.parametrize("politely", [True, False])
async def test_what_was_counted_of_an_answer_is_said_when_it_is_cut(politely: bool) -> None:
    async def exchange(received: ReceivedRequest) -> AsyncGenerator[ResponseHead | bytes]:
        yield ResponseHead(200, {})
        yield b"data: one\n\n"
        if not politely:
            raise ConnectionLost

    said: list[Delta] = []
    async with serve(exchange) as base_url:
        call = WireRequest(f"{base_url}/v1/ask", {}, b"{}")
        with nullcontext() if politely else pytest.raises(ProviderError):
            async for delta in stream_answer(SHARED_CLIENT, call, Counting(), {}):
                said.append(delta)
    await SHARED_CLIENT.close()
    assert said == [TextDelta("one"), Ping(Usage(7))]


class Late(Plain):
    """A protocol whose last event says that more may follow: the end of the stream ends it."""

    def feed(self, events: list[bytes]) -> list[Delta]:
        self.complete = self.complete or b"last" in events
        return super().feed(events)

    def end(self) -> list[Delta]:
        return [Finished()] if self.complete else []


@pytest.mark.parametrize("politely", [True, False])
async def test_a_complete_answer_is_one_however_its_connection_ends(politely: bool) -> None:
    async def exchange(received: ReceivedRequest) -> AsyncGenerator[ResponseHead | bytes]:
        yield ResponseHead(200, STREAM)
        yield b"data: last\n\n"
        if not politely:
            raise ConnectionLost

    async with serve(exchange) as base_url:
        stream = stream_answer(SHARED_CLIENT, WireRequest(base_url, {}, b"{}"), Late(), {})
        assert [delta async for delta in stream] == [TextDelta("last"), Finished()]
    await SHARED_CLIENT.close()


@pytest.mark.parametrize(("protocol", "waits"), [(Plain, CLOSE_TIMEOUT), (Late, TRAILER_TIMEOUT)])
async def test_a_complete_answer_does_not_wait_for_a_server_that_keeps_quiet(
    protocol: type[Plain], waits: float
) -> None:
    async def exchange(received: ReceivedRequest) -> AsyncGenerator[ResponseHead | bytes]:
        yield ResponseHead(200, STREAM)
        yield b"data: end\n\n" if protocol is Plain else b"data: last\n\n"
        await anyio.sleep_forever()

    async with serve(exchange) as base_url:
        began = anyio.current_time()
        stream = stream_answer(SHARED_CLIENT, WireRequest(base_url, {}, b"{}"), protocol(), {})
        assert [delta async for delta in stream][-1] == Finished()
        assert anyio.current_time() - began == pytest.approx(waits, abs=0.1)
    await SHARED_CLIENT.close()


@pytest.mark.parametrize("ends", ["lost", "silent"])
async def test_a_refusal_is_one_also_when_it_does_not_come_to_its_end(ends: str) -> None:
    async def exchange(received: ReceivedRequest) -> AsyncGenerator[ResponseHead | bytes]:
        yield ResponseHead(401, {"Content-Type": "application/json"})
        yield b'{"error": {"message": "Wrong'
        if ends == "lost":
            raise ConnectionLost
        await anyio.sleep(2 * TRAILER_TIMEOUT)

    async with serve(exchange) as base_url:
        began = anyio.current_time()
        with pytest.raises(ProviderError, match="Wrong") as caught:
            await deltas(base_url)
        assert caught.value.kind == "auth"
        waited = TRAILER_TIMEOUT if ends == "silent" else 0
        assert anyio.current_time() - began == pytest.approx(waited, abs=0.1)
    await SHARED_CLIENT.close()


async def test_an_incomplete_answer_fails_with_its_connection() -> None:
    async def exchange(received: ReceivedRequest) -> AsyncGenerator[ResponseHead | bytes]:
        yield ResponseHead(200, STREAM)
        yield b"data: first\n\n"
        raise ConnectionLost

    async with serve(exchange) as base_url:
        with pytest.raises(ProviderError) as caught:
            async for _ in stream_answer(
                SHARED_CLIENT, WireRequest(base_url, {}, b"{}"), Late(), {}
            ):
                pass
    await SHARED_CLIENT.close()
    assert caught.value.kind == "stream_cut"


# --- What is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_not_followed(status: int) -> None:
    asked: list[str] = []

    async def exchange(received: ReceivedRequest) -> AsyncGenerator[ResponseHead | bytes]:
        asked.append(received.path)
        yield ResponseHead(status, {"Location": "/elsewhere"})

    async with serve(exchange) as base_url:
        with pytest.raises(ConfigError, match=r"/elsewhere.*base_url"):
            await deltas(base_url)
    await SHARED_CLIENT.close()
    assert asked == ["/v1/ask"]


@pytest.mark.parametrize(
    ("content_type", "body", "message", "kind"),
    [
        (
            "application/json",
            b'{"error":{"message":"Busy.","type":"overloaded_error"}}',
            "Busy",
            "overloaded",
        ),
        ("text/html", b"<title>Sign in</title>", "web page titled 'Sign in'", "unknown"),
    ],
)
async def test_a_200_that_is_no_stream_is_a_failure(
    content_type: str, body: bytes, message: str, kind: FailureKind
) -> None:
    async with serve(replying(body, Content_Type=content_type)) as base_url:
        with pytest.raises(ProviderError, match=message) as caught:
            await deltas(base_url)
    await SHARED_CLIENT.close()
    assert caught.value.kind == kind


async def test_a_refusal_without_end_is_read_as_far_as_anybody_wants_to_know() -> None:
    sent = 0

    async def exchange(received: ReceivedRequest) -> AsyncGenerator[ResponseHead | bytes]:
        nonlocal sent
        yield ResponseHead(500, {})
        while True:
            sent += 1
            yield b"x" * 65_536

    async with serve(exchange) as base_url:
        with pytest.raises(ProviderError) as caught:
            await deltas(base_url)
    await SHARED_CLIENT.close()
    assert caught.value.status == 500
    assert sent < 1_000  # what the socket buffers on both sides took


async def test_a_body_that_unpacks_to_far_more_is_read_no_further_than_another() -> None:
    bomb = gzip.compress(b"x" * 200_000_000)
    sizes: list[int] = []
    async with serve(replying(bomb, status=500, Content_Encoding="gzip")) as base_url:
        async with SHARED_CLIENT.post(base_url, {}, b"") as reply:
            async for data in reply.chunks():
                sizes.append(len(data))
                if sum(sizes) > 10 * MAX_ERROR_BODY:
                    break
        with pytest.raises(ProviderError):
            await deltas(base_url)
    await SHARED_CLIENT.close()
    assert max(sizes) < 4_000_000  # of 200


async def test_an_event_that_cannot_be_read_is_a_failure_of_the_provider() -> None:
    async with serve(replying(b"data: \xff\xff\n\n")) as base_url:
        with pytest.raises(ProviderError, match="cannot be read") as caught:
            await deltas(base_url)
    await SHARED_CLIENT.close()
    assert caught.value.kind == "server"


async def test_what_came_before_an_error_in_the_same_read_is_shown() -> None:
    shown: list[Delta] = []
    async with serve(replying(b"data: one\n\ndata: \xff\n\n")) as base_url:
        with pytest.raises(ProviderError):
            async for delta in stream_answer(
                SHARED_CLIENT, WireRequest(base_url, {}, b"{}"), Plain(), {}
            ):
                shown.append(delta)
    await SHARED_CLIENT.close()
    assert shown == [TextDelta("one")]


# --- What breaks --------------------------------------------------------------------------------


async def test_nobody_there_is_a_failure_of_the_network() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(
            ProviderError, match=f"127.0.0.1:{port}.*Is the server running"
        ) as caught:
            await ask(f"http://127.0.0.1:{port}")
    await SHARED_CLIENT.close()
    failure = classify(caught.value, "ollama:qwen3")
    assert (failure.kind, failure.retryable, failure.attempts) == ("network", True, 3)
    assert failure.message == (
        f"ollama:qwen3 cannot be reached, because nothing listens at 127.0.0.1:{port}: start its "
        "server, or correct base_url."
    )


@pytest.mark.parametrize(
    ("url", "attempts"),
    [
        ("http://localhost:1/v1", 3),
        ("http://[::1]:1/v1", 3),
        ("http://api.localhost:1", 3),
        ("https://host/v1", None),
        ("http://10.0.0.1/v1", None),
    ],
)
def test_only_a_refusal_of_this_machine_ends_the_attempts_early(
    url: str, attempts: int | None
) -> None:
    key = ConnectionKey("host", 1, False, True, None, None, None)
    refused = aiohttp.ClientConnectorError(key, ConnectionRefusedError())
    assert classify(_provider_error(refused, url)).attempts == attempts


@pytest.mark.parametrize(
    ("before", "kind"), [([], "network"), ([ResponseHead(200, {}), b"half"], "stream_cut")]
)
async def test_a_connection_that_breaks_says_when(
    before: list[ResponseHead | bytes], kind: FailureKind
) -> None:
    async def exchange(received: ReceivedRequest) -> AsyncGenerator[ResponseHead | bytes]:
        for piece in before:
            yield piece
        raise ConnectionLost

    async with serve(exchange) as base_url:
        with pytest.raises(ProviderError) as caught:
            await ask(base_url)
    await SHARED_CLIENT.close()
    assert classify(caught.value).kind == kind


@pytest.mark.parametrize("url", ["ftp://example.com/x", "http://", "nonsense"])
async def test_an_address_that_is_none_says_so(url: str) -> None:
    with pytest.raises(ConfigError, match="base_url"):
        await ask(url)
    await SHARED_CLIENT.close()


@pytest.mark.parametrize(
    ("error", "kind", "retried"),
    [
        (TimeoutError(), "timeout", True),
        (aiohttp.ServerTimeoutError(), "timeout", True),
        (aiohttp.ServerDisconnectedError(), "network", True),
        (aiohttp.ClientPayloadError("x"), "stream_cut", True),
        (aiohttp.ClientError("x"), "server", True),
        (ssl.SSLError("bad record"), "network", True),
        (ssl.SSLCertVerificationError("not trusted"), "network", False),
    ],
)
def test_each_way_to_break_has_its_kind(error: Exception, kind: FailureKind, retried: bool) -> None:
    failure = classify(_provider_error(error, "https://user:secret@host:8443/path?key=secret"))
    assert (failure.kind, failure.retryable) == (kind, retried)
    assert "https://host:8443/path" in failure.detail
    assert "secret" not in failure.detail


@pytest.mark.parametrize("status", [400, 407, 503])
def test_what_a_client_says_of_an_error_is_told_without_what_may_be_secret(status: int) -> None:
    info = aiohttp.RequestInfo(
        URL("https://host/path?key=secret"), "POST", CIMultiDictProxy(CIMultiDict())
    )
    known = aiohttp.ClientResponseError if status == 400 else aiohttp.ClientHttpProxyError
    error = _provider_error(
        known(info, (), status=status, message="no"), "https://a:secret@host/path"
    )
    assert "secret" not in f"{error} {error!r}"
    assert isinstance(error, ConfigError) == (status == 407)
    assert classify(error).retryable == (status != 407)


def test_a_call_is_shown_without_its_key() -> None:
    call = WireRequest("https://host/v1?key=secret", {"x-api-key": "secret"}, b"secret")
    assert repr(call) == "WireRequest('https://host/v1', 6 bytes)"


# --- Proxies ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("https://api.example/v1", "http://proxy:3128"),
        ("http://api.example/v1", None),
        ("https://inside.example/v1", None),
        ("https://localhost/v1", None),
        ("https://127.0.0.1:8000/v1", None),
    ],
)
def test_the_proxy_of_the_environment_is_used_but_not_for_this_machine(
    url: str, proxy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    environment: dict[str, Any] = {
        "https_proxy": "http://proxy:3128",
        "no_proxy": "inside.example",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert _proxy(url) == proxy


def test_a_proxy_without_a_scheme_is_an_http_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "proxy:3128")
    assert _proxy("https://api.example/v1") == "http://proxy:3128"


def test_a_proxy_of_another_kind_is_refused_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "socks5://proxy:1080")
    with pytest.raises(ConfigError, match="HTTPS_PROXY=http"):
        _proxy("https://api.example/v1")


@pytest.mark.parametrize("proxy", ["http://127.0.0.1:notaport", "http://[bad", "http://"])
def test_a_proxy_that_is_no_address_is_refused_with_advice(
    proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", proxy)
    with pytest.raises(ConfigError, match="HTTPS_PROXY=http"):
        _proxy("https://api.example/v1")


def test_a_host_may_be_left_out_of_the_proxy_with_its_port(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "api.example:8443")
    assert _proxy("https://api.example:8443/v1") is None
    assert _proxy("https://api.example/v1") == "http://proxy:3128"


async def test_a_proxy_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{taken.getsockname()[1]}")
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        with pytest.raises(ProviderError, match="the proxy that the environment names"):
            await ask("http://api.example")
    await SHARED_CLIENT.close()
