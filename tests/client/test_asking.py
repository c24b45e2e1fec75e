"""What gets no answer is asked again and done once; what is wrong with the other end is said."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import anyio
import pytest
from aiohttp import web

from holdfast.chat.errors import ChatNotFound
from holdfast.client.connect import DEFAULT_PATIENCE, connect, split_address
from holdfast.client.errors import NotHoldfast, RemoteError, Unreachable
from holdfast.client.retry import MAX_DELAY, delay
from holdfast.client.transport import RESPONSE_TIMEOUT
from holdfast.kernel.errors import ConfigError
from holdfast.server.problem import problem_of
from holdfast.server.problem_response import problem_response
from holdfast.store.database import Database, Unavailable
from holdfast.testing import Clock
from tests.client.served import ANN, STEADY, Proxy, answering, connected, free_port, proxied
from tests.server.api import agent
from tests.server.identity.team_server import house
from tests.test_layers import loaded_by

KEYS = re.compile(rb"Idempotency-Key: ([^\r]+)\r")


def keys(proxy: Proxy) -> list[bytes]:
    return [key for request in proxy.requests for key in KEYS.findall(request)]


def test_a_program_that_has_not_connected_has_no_http() -> None:
    assert loaded_by("import holdfast; holdfast.connect").isdisjoint({"aiohttp", "yarl"})


# --- asked again ---


@pytest.mark.parametrize("through", [0, 1, 20, 120], ids=lambda n: f"{n}_bytes")
async def test_a_change_whose_answer_is_lost_is_made_once(
    db: Database, clock: Clock, through: int
) -> None:
    async with (
        connected(db, [agent((), clock)], clock, worker=None) as (api, _),
        proxied(api.url) as proxy,
        connect(proxy.url, ANN) as host,
    ):
        proxy.cut_after = lambda asked: through if len(keys(proxy)) <= 2 else None
        chat = await host.create("hi")
        first = keys(proxy)
        assert (len(first), len(set(first))) == (3, 1)
        proxy.cut_after = lambda asked: None
        assert [one.id for one in await host.list()] == [chat.id]
        await chat.send("more")
        await chat.send("more")
        assert len(set(keys(proxy))) == 3, "each change has a key of its own"
        await chat.send("said once", key="mine")
        assert keys(proxy)[-1] == b"mine"


async def test_a_chat_whose_deletion_was_not_answered_is_deleted(
    db: Database, clock: Clock
) -> None:
    async with (
        connected(db, [agent((), clock)], clock) as (api, _),
        proxied(api.url) as proxy,
        connect(proxy.url, ANN) as host,
    ):
        chat = await host.create(None)
        asked_for: list[bytes] = []

        def cut_first(asked: bytes) -> int | None:
            if asked.startswith(b"DELETE "):
                asked_for.append(asked)
            return 0 if len(asked_for) == 1 else None

        proxy.cut_after = cut_first
        await chat.delete()
        assert len(asked_for) == 2
        await chat.delete(key="k")
        with pytest.raises(ChatNotFound):
            await chat.delete()


Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


def refusing(error: Exception, headers: dict[str, str], times: list[float]) -> Answer:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        times.append(anyio.current_time())
        problem = problem_of(error)
        assert problem is not None
        return problem_response(problem, headers)

    return answer


async def test_a_server_without_its_database_is_asked_for_a_while() -> None:
    times: list[float] = []
    async with answering(refusing(Unavailable("the database is away"), {}, times)) as url:
        async with connect(url, ANN, ports=STEADY) as host:
            with pytest.raises(Unavailable, match="the database does not respond"):
                await host.create("x")
    waits = [round(b - a, 1) for a, b in pairwise(times)]
    assert waits == [0.2, 0.5, 1.0, 2.0, 4.0]
    assert times[-1] - times[0] < DEFAULT_PATIENCE


async def test_a_server_says_how_long_to_wait() -> None:
    times: list[float] = []
    away = refusing(Unavailable("away"), {"Retry-After": "7"}, times)
    async with answering(away) as url, connect(url, ANN) as host:
        with pytest.raises(Unavailable):
            await host.list()
    assert [round(time - times[0]) for time in times] == [0, 7, 14]


async def test_what_is_refused_is_asked_once() -> None:
    times: list[float] = []
    async with answering(refusing(ChatNotFound("x"), {}, times)) as url:
        async with connect(url, ANN) as host:
            with pytest.raises(ChatNotFound):
                await host.chat("x")
    assert len(times) == 1


async def test_nobody_is_waited_for_for_ever() -> None:
    async with connect(f"http://127.0.0.1:{free_port()}", ANN, ports=STEADY) as host:
        began = anyio.current_time()
        with pytest.raises(Unreachable, match="nothing listens there: start it") as failed:
            await host.list()
        assert 5 < anyio.current_time() - began <= DEFAULT_PATIENCE
        assert (failed.value.kind, failed.value.status) == ("unreachable", None)
    async with connect(f"http://127.0.0.1:{free_port()}", ANN, patience=0) as host:
        began = anyio.current_time()
        with pytest.raises(Unreachable):
            await host.list()
        assert anyio.current_time() == began


async def test_an_answer_that_does_not_come_is_not_waited_for() -> None:
    left = anyio.Event()

    async def never(request: web.BaseRequest) -> web.StreamResponse:
        await left.wait()
        return web.Response()

    async with answering(never) as url, connect(url, ANN) as host:
        began = anyio.current_time()
        with pytest.raises(Unreachable, match="it did not respond in time"):
            await host.list()
        assert anyio.current_time() - began == pytest.approx(RESPONSE_TIMEOUT)
        left.set()


def test_pauses_grow_to_ten_seconds_and_are_spread() -> None:
    assert [delay(n, 1.0) for n in range(1, 9)] == [0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    assert delay(100_000, 1.0) == MAX_DELAY
    assert delay(3, 0.0) == 0.5


# --- the other end ---


def saying(text: str, media: str, status: int = 200, **headers: str) -> Answer:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text=text, content_type=media, status=status, headers=headers)

    return answer


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (saying("<html>Welcome", "text/html"), "responded 200 with text/html"),
        (saying("<html>Nothing", "text/html", 404), "responded 404 with text/html"),
        (saying("", "text/plain", 302, Location="https://x.test/"), "responded 302"),
        (saying('{"ok": true}', "application/json"), "responded 200 with application/json"),
        (saying("[1]", "application/problem+json", 400), "responded 400"),
        (saying("no JSON", "application/json", 500), "responded 500"),
    ],
)
async def test_a_server_that_is_not_ours_is_called_that(answer: Answer, words: str) -> None:
    async with answering(answer) as url, connect(url, ANN) as host:
        with pytest.raises(NotHoldfast, match=f"{url} {words}.*is this the address"):
            await host.list()
        with pytest.raises(NotHoldfast, match=words):
            await host.create("x")
        with pytest.raises(NotHoldfast, match=words):
            await anext(host.watch())


async def test_a_token_that_is_no_good_is_said(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await here.user("ann")
        async with connect(here.url, here.tokens["ann"]) as host:
            chat = await host.create(None)
            assert [one.id for one in await host.list()] == [chat.id]
        async with connect(f"{here.url}/#token={here.tokens['ann']}") as host:
            assert [one.id for one in await host.list()] == [chat.id]
        async with connect(here.url, here.tokens["ann"][:-1] + "x") as host:
            for asked in (host.list(), host.create("x"), anext(host.watch())):
                with pytest.raises(RemoteError) as refused:
                    await asked
                assert (refused.value.kind, refused.value.status) == ("unauthenticated", 401)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:8765",
        "ftp://x.test",
        "http://",
        "http://x.test:port",
        "http://[::1",
        "http://x..test",
        8765,
    ],
)
async def test_an_address_that_is_none_is_refused_before_anything_is_asked(url: Any) -> None:
    with pytest.raises(ConfigError, match="like http:"):
        async with connect(url, ANN):
            raise AssertionError("it was taken")


async def test_an_address_with_a_password_in_it_is_refused() -> None:
    with pytest.raises(ConfigError, match="token="):
        async with connect("http://ann:secret@x.test", ANN):
            raise AssertionError("it was taken")


@pytest.mark.parametrize(
    "url",
    [
        "http://ann:secret@x.test",
        "ftp://ann:secret@x.test",
        "http://ann:secret@x.test:port",
        "http://x.test:99999/#token=secret",
        "http://[::1/#token=secret",
        "http://x.test/?a=b#token=secret",
    ],
)
async def test_what_is_secret_in_an_address_that_is_refused_is_not_shown(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        async with connect(url, ANN):
            raise AssertionError("it was taken")
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("token", ["", "two words", "hf_\n", "hf_ä", 7, None])
async def test_a_token_that_is_none_is_refused_and_not_shown(token: Any) -> None:
    with pytest.raises(ConfigError, match="token") as refused:
        async with connect("http://127.0.0.1:8765", token):
            raise AssertionError("it was taken")
    assert "hf_ä" not in str(refused.value)


def test_a_name_in_letters_of_any_language_is_asked_for_as_servers_know_it() -> None:
    address, token = split_address("http://Chats.München.example:8443/team/#token=hf_x")
    assert (address, token) == ("http://chats.xn--mnchen-3ya.example:8443/team", "hf_x")


async def test_a_path_in_front_of_the_api_is_kept() -> None:
    asked: list[str] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        asked.append(request.path)
        return web.json_response({"chats": [], "next": None})

    async with answering(answer) as url:
        for given in ("", "/", "/api/v1", "/team/", "/team/api/v1/"):
            async with connect(url + given, ANN) as host:
                assert await host.list() == ()
    assert asked == ["/api/v1/chats"] * 3 + ["/team/api/v1/chats"] * 2


async def test_behind_its_block_a_connection_says_that_it_is_closed(
    db: Database, clock: Clock
) -> None:
    async with connected(db, [agent((), clock)], clock) as (api, _):
        async with connect(api.url, ANN) as host:
            chat = await host.create(None)
            stream = chat.stream(follow=True)
            await anext(stream)
        for asked in (host.list(), anext(stream)):
            with pytest.raises(RemoteError, match="inside the block"):
                await asked
