"""What the front lets through: names that were never ours, pages of other sites."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
import pytest
from aiohttp import WSServerHandshakeError

import holdfast.server.routes.streams  # noqa: F401 - so that there is a stream
from holdfast.kernel.errors import ConfigError
from holdfast.server.identity.origin_check import (
    MAX_HEADER_BYTES,
    SECURITY_HEADERS,
    CrossSite,
    Front,
    Misdirected,
    RequestOrigin,
    local_front,
    public_front,
    refusal,
)
from holdfast.server.operation import OPERATIONS
from holdfast.server.wire_format import API_PREFIX
from holdfast.store.database import Database
from holdfast.testing import Clock
from tests.server.identity.team_server import House, house

LOCAL: Final = local_front(8700)
PUBLIC: Final = public_front(["https://chats.example.com", "http://10.0.0.5:8700"])


@pytest.mark.parametrize(
    "host", ["127.0.0.1:8700", "localhost:8700", "LOCALHOST:8700", "[::1]:8700"]
)
def test_a_local_server_goes_by_the_names_of_loopback(host: str) -> None:
    assert refusal(LOCAL, RequestOrigin("GET", [host])) is None


REBINDING: Final = [
    "evil.example:8700",
    "evil.example",
    "127.0.0.1.nip.io:8700",
    "localhost.evil.example:8700",
    "localhost:8700.evil.example",
    "127.0.0.1",
    "127.0.0.1:8701",
    "localhost:80",
    "127.0.0.2:8700",
    "127.1:8700",
    "2130706433:8700",
    "0.0.0.0:8700",
    "0:8700",
    "[::]:8700",
    "[::ffff:127.0.0.1]:8700",
    "::1:8700",
    "localhost.:8700",
    "127.0.0.1:8700@evil.example",
    "user@127.0.0.1:8700",
    "127.0.0.1:08700",
    "127.0.0.1:8700:8700",
    "",
]


@pytest.mark.parametrize("host", REBINDING)
def test_a_name_that_was_pointed_at_loopback_is_refused(host: str) -> None:
    assert isinstance(refusal(LOCAL, RequestOrigin("GET", [host])), Misdirected)


@pytest.mark.parametrize(
    "hosts",
    [
        [],
        ["127.0.0.1:8700", "evil.example"],
        ["evil.example", "127.0.0.1:8700"],
    ],
)
def test_a_request_has_to_name_us_and_nobody_else(hosts: list[str]) -> None:
    assert isinstance(refusal(LOCAL, RequestOrigin("GET", hosts)), Misdirected)


@pytest.mark.parametrize(
    "host", ["chats.example.com", "chats.example.com:443", "10.0.0.5:8700", "Chats.Example.com"]
)
def test_a_team_server_goes_by_its_public_names(host: str) -> None:
    assert refusal(PUBLIC, RequestOrigin("GET", [host])) is None


@pytest.mark.parametrize("host", ["127.0.0.1:8700", "localhost", "example.com", "10.0.0.5"])
def test_a_team_server_goes_by_no_other_name(host: str) -> None:
    assert isinstance(refusal(PUBLIC, RequestOrigin("GET", [host])), Misdirected)


def test_a_name_in_letters_of_any_language_is_known_as_browsers_send_it() -> None:
    front = public_front(["https://Chats.München.example:8443"])
    host = "chats.xn--mnchen-3ya.example:8443"
    assert refusal(front, RequestOrigin("POST", [host], [f"https://{host}"])) is None


@pytest.mark.parametrize(
    "url",
    [
        "chats.example.com",
        "ftp://x",
        "https://",
        "https://x:99999999",
        "https://[::1",
        "https://chats..example",
        f"https://{'x' * 64}.example",
    ],
)
def test_a_public_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="is not a server URL"):
        public_front([url])


def test_a_team_server_has_a_public_url() -> None:
    with pytest.raises(ConfigError, match="needs its public URL"):
        public_front([])


def test_only_https_is_secure() -> None:
    assert public_front(["https://a.example"]).secure
    assert not PUBLIC.secure


CROSS_SITE: Final = [
    "https://evil.example",
    "http://evil.example:8700",
    "http://localhost:8701",
    "http://localhost",
    "https://localhost:8700",
    "http://localhost:8700.evil.example",
    "http://localhost:8700@evil.example",
    "HTTP://localhost:8700",
    "null",
    "file://",
    "chrome-extension://abc",
    "",
    "http://localhost:8700, http://evil.example",
]


@pytest.mark.parametrize("origin", CROSS_SITE)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_page_of_another_site_is_refused(origin: str, method: str) -> None:
    assert isinstance(
        refusal(LOCAL, RequestOrigin(method, ["localhost:8700"], [origin])), CrossSite
    )


def test_our_own_page_is_not_refused() -> None:
    for origin in ("http://localhost:8700", "http://127.0.0.1:8700", "http://[::1]:8700"):
        assert (
            refusal(LOCAL, RequestOrigin("POST", ["localhost:8700"], [origin], "same-origin"))
            is None
        )


def test_two_origins_are_one_too_many() -> None:
    twice = ["http://localhost:8700", "http://localhost:8700"]
    assert isinstance(refusal(LOCAL, RequestOrigin("GET", ["localhost:8700"], twice)), CrossSite)


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "CONNECT", "WHATEVER"])
@pytest.mark.parametrize("site", ["cross-site", "same-site", "nonsense", ""])
def test_another_site_changes_nothing_even_without_an_origin(method: str, site: str) -> None:
    assert isinstance(
        refusal(LOCAL, RequestOrigin(method, ["localhost:8700"], (), site)), CrossSite
    )


@pytest.mark.parametrize("site", ["cross-site", "same-site", "same-origin", "none", None])
def test_a_link_on_another_site_may_lead_here(site: str | None) -> None:
    assert refusal(LOCAL, RequestOrigin("GET", ["localhost:8700"], (), site)) is None


# --- over the wire ---


@asynccontextmanager
async def socket_house(db: Database, clock: Clock) -> AsyncIterator[House]:
    async with house(db, clock, operations=[OPERATIONS["GET", "/stream"]]) as here:
        await here.user("ann")
        yield here


async def test_a_rebound_name_gets_nothing_not_even_a_path_that_is_not_there(
    db: Database, clock: Clock
) -> None:
    async with house(db, clock) as here:
        await here.user("ann")
        for path in ("/me", "/nowhere", "/chats"):
            answer = await here.ask("GET", path, by="ann", headers={"Host": "evil.example"})
            assert (answer.status, answer.kind) == (421, "misdirected")


async def test_a_page_of_another_site_gets_nothing_even_with_a_good_token(
    db: Database, clock: Clock
) -> None:
    async with house(db, clock) as here:
        await here.user("ann")
        for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}):
            answer = await here.ask("GET", "/me", by="ann", headers=headers)
            assert (answer.status, answer.kind) == (403, "cross_site")
        site = {"Sec-Fetch-Site": "cross-site"}
        answer = await here.ask("POST", "/tokens", {"name": "x"}, by="ann", headers=site)
        assert (answer.status, answer.kind) == (403, "cross_site")
        assert (await here.ask("GET", "/me", by="ann", headers={"Origin": here.url})).status == 200


@pytest.mark.parametrize("header", ["Host", "Origin"])
async def test_a_websocket_is_refused_as_any_request_is(
    db: Database, clock: Clock, header: str
) -> None:
    async with socket_house(db, clock) as here:
        shown = {"Authorization": f"Bearer {here.tokens['ann']}"}
        url = here.url + API_PREFIX + "/stream"
        async with here.client.ws_connect(url, headers={**shown, "Origin": here.url}) as stream:
            assert (await stream.receive()).type.name == "TEXT"
        with pytest.raises(WSServerHandshakeError) as refused:
            value = "evil.example" if header == "Host" else "https://evil.example"
            await here.client.ws_connect(url, headers={**shown, header: value})
        assert refused.value.status == (421 if header == "Host" else 403)


async def test_every_answer_has_the_headers_that_keep_it_to_itself(
    db: Database, clock: Clock
) -> None:
    async with house(db, clock) as here:
        await here.user("ann")
        for path, status in (("/me", 200), ("/nowhere", 404), ("/users", 403)):
            answer = await here.ask("GET", path, by="ann")
            assert answer.status == status
            assert {name: answer.headers[name] for name in SECURITY_HEADERS} == dict(
                SECURITY_HEADERS
            )
            assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
            assert "Strict-Transport-Security" not in answer.headers
            assert answer.headers["Server"] == "holdfast"


async def _raw(here: House, data: bytes) -> bytes:
    host, port = here.url.removeprefix("http://").split(":")
    async with await anyio.connect_tcp(host, int(port)) as stream:
        stream.extra(anyio.abc.SocketAttribute.raw_socket).setsockopt(
            socket.IPPROTO_TCP, socket.TCP_NODELAY, 1
        )
        await stream.send(data)
        answer = b""
        while True:
            try:
                answer += await stream.receive()
            except anyio.EndOfStream:
                return answer


CLOSE: Final = b"Connection: close\r\n\r\n"


@pytest.mark.parametrize(
    "target",
    [
        b"http://evil.example/api/v1/me",
        b"http://127.0.0.1:1/api/v1/me",
        b"//evil.example/api/v1/me",
    ],
)
async def test_a_target_that_names_another_host_is_not_for_us(
    db: Database, clock: Clock, target: bytes
) -> None:
    async with house(db, clock) as here:
        await here.user("ann")
        mine = here.url.removeprefix("http://").encode()
        token = here.tokens["ann"].encode()
        shown = b"Host: " + mine + b"\r\nAuthorization: Bearer " + token + b"\r\n" + CLOSE
        answer = await _raw(here, b"GET " + target + b" HTTP/1.1\r\n" + shown)
        assert answer.split()[1] in (b"421", b"404")
        good = await _raw(here, b"GET http://" + mine + b"/api/v1/me HTTP/1.1\r\n" + shown)
        assert good.split()[1] == b"200"


async def test_a_request_without_a_host_is_refused(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        answer = await _raw(here, b"GET /api/v1/me HTTP/1.1\r\n" + CLOSE)
        assert answer.split()[1] in (b"400", b"421")
        answer = await _raw(here, b"GET /api/v1/me HTTP/1.0\r\n\r\n")
        assert answer.split()[1] in (b"400", b"421")


async def test_headers_are_bounded_all_together(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        many: dict[str, Any] = {f"X-{n}": "x" * 4000 for n in range(MAX_HEADER_BYTES // 4000 + 1)}
        answer = await here.ask("GET", "/me", headers=many)
        assert (answer.status, answer.kind) == (431, "headers_too_large")


async def test_whoever_watches_a_replica_may_ask_it_by_its_address(
    db: Database, clock: Clock
) -> None:
    front: Front = public_front(["https://chats.example.com"])
    async with house(db, clock, front=front) as here:
        for path in ("/healthz", "/readyz", "/metrics"):
            async with here.client.get(here.url + path) as answer:
                assert answer.status != 421
            async with here.client.get(
                here.url + path, headers={"Origin": "http://evil.example"}
            ) as answer:
                assert answer.status == 421


async def test_a_server_for_a_team_is_reached_by_its_public_name_alone(
    db: Database, clock: Clock
) -> None:
    front: Front = public_front(["https://chats.example.com"])
    async with house(db, clock, front=front) as here:
        await here.user("ann")
        assert (await here.ask("GET", "/me", by="ann")).status == 421
        named = {"Host": "chats.example.com"}
        assert (await here.ask("GET", "/me", by="ann", headers=named)).status == 200
