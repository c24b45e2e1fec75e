"""The API in applications that have users of their own: who may do what, and what is served."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import anyio
import pytest
from fastapi import FastAPI, HTTPException, Request, Response
from starlette.applications import Starlette
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Mount

import holdfast
from holdfast import Host
from holdfast.errors import ConfigError
from holdfast.events import MessageChanged
from holdfast.host import serving
from holdfast.server.event_codec import END_REVOKED, END_SHUTDOWN, event_of
from holdfast.server.identity.origin_check import SECURITY_HEADERS
from holdfast.server.wire_format import API_PREFIX
from holdfast.store.database import Database
from holdfast.testing import Clock
from holdfast.web import AsgiApplication, AsgiRequest, AsgiUser
from tests.server.api import agent
from tests.server.streams.client import Connection
from tests.server.uvicorn_server import served

CHATS = f"/agents{API_PREFIX}/chats"


@pytest.fixture
async def host(db: Database, clock: Clock) -> AsyncIterator[Host]:
    async with serving(db, [agent((), clock)], worker=None, titles=False) as opened:
        yield opened


def by_header(request: AsgiRequest) -> AsgiUser | str | None:
    name = request.headers.get("X-User")
    return AsgiUser("admin", role="admin") if name == "admin" else name


@asynccontextmanager
async def application(app: Any) -> AsyncIterator[aiohttp.ClientSession]:
    """A client of an application. What it has mounted is closed in the end."""
    async with served(app) as url, aiohttp.ClientSession(url) as client:
        yield client
        while MADE:
            await MADE.pop().close()


MADE: list[AsgiApplication] = []


def api(host: Any, identify: Any = by_header, **more: Any) -> AsgiApplication:
    MADE.append(holdfast.asgi(host, identify=identify, **more))
    return MADE[-1]


def mounted(host: Any, identify: Any = by_header, **more: Any) -> Starlette:
    return Starlette(routes=[Mount("/agents", api(host, identify, **more))])


async def status(client: aiohttp.ClientSession, path: str = CHATS, **more: Any) -> int:
    async with client.get(path, **more) as response:
        return response.status


async def test_a_user_sees_only_their_own_chats(host: Host) -> None:
    async with application(mounted(host)) as client:
        async with client.post(CHATS, json={"prompt": "hi"}, headers={"X-User": "ann"}) as made:
            chat = await made.json()
        assert (made.status, chat["owner"]) == (201, "ann")
        path = f"{CHATS}/{chat['id']}"
        assert await status(client, path, headers={"X-User": "ann"}) == 200
        assert await status(client, path, headers={"X-User": "bob"}) == 404
        async with client.get(path) as refused:
            problem = await refused.json()
        assert (refused.status, problem["kind"]) == (401, "unauthenticated")
        assert "the application knows no user" in problem["detail"]


async def test_a_stream_has_the_security_headers_of_other_responses(host: Host) -> None:
    async with application(mounted(host)) as client:
        chat = await host.create(None, owner="ann")
        path, ann = f"{CHATS}/{chat.id}", {"X-User": "ann"}
        async with client.get(path, headers=ann) as whole:
            expected = {name: whole.headers[name] for name in SECURITY_HEADERS}
        async with client.get(f"{path}/stream", headers=ann) as stream:
            assert {**expected, **stream.headers} == {**stream.headers}


@pytest.mark.parametrize("kind", ["http", "websocket"])
async def test_a_client_that_reads_nothing_is_let_go_of_when_its_stream_ends(
    host: Host, kind: str
) -> None:
    app, chat = api(host, lambda request: "ann"), await host.create(None, owner="ann")
    path = f"{API_PREFIX}/chats/{chat.id}/stream"
    stuck, received = anyio.Event(), iter([{"type": "websocket.connect"}] * (kind == "websocket"))

    async def receive() -> Any:
        message = next(received, None)
        if message is None:
            await anyio.sleep_forever()
        return message

    async def send(message: Any) -> None:
        if message["type"] not in ("http.response.start", "websocket.accept"):
            stuck.set()
            await anyio.sleep_forever()

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(app, {"type": kind, "path": path, "headers": []}, receive, send)
            await stuck.wait()
            await app.close()


async def test_identify_may_be_async_and_say_more_of_a_user(host: Host) -> None:
    async def identify(request: AsgiRequest) -> AsgiUser:
        return AsgiUser(request.cookies["who"], role="viewer", name="Ann A.")

    async with application(mounted(host, identify)) as client:
        cookie = {"Cookie": "theme=dark; who=ann"}
        async with client.get(f"/agents{API_PREFIX}/me", headers=cookie) as response:
            me = await response.json()
        assert (me["user"], me["name"], me["role"]) == ("ann", "Ann A.", "viewer")
        async with client.post(CHATS, json={}, headers=cookie) as refused:
            assert refused.status == 403


async def test_identify_reads_what_the_framework_added(host: Host) -> None:
    def identify(request: AsgiRequest) -> str:
        return str(request.scope["state"]["user"])

    app = mounted(host, identify)

    async def signed_in(scope: Any, receive: Any, send: Any) -> None:
        await app({**scope, "state": {"user": "ann"}}, receive, send)

    async with application(signed_in) as client:
        assert await status(client) == 200


async def test_an_error_of_identify_is_answered_by_the_application(host: Host) -> None:
    def identify(request: AsgiRequest) -> str:
        raise HTTPException(403, "blocked")

    app = FastAPI()
    app.mount("/agents", api(host, identify))
    async with application(app) as client, client.get(CHATS) as response:
        assert (response.status, await response.json()) == (403, {"detail": "blocked"})


@pytest.mark.parametrize("user", [42, "", "a\x00b"])
async def test_an_id_that_no_chat_can_be_owned_by_is_an_error(
    host: Host, user: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with application(mounted(host, lambda _: user)) as client:
        assert await status(client) == 500
    assert "the id of a user is" in caplog.text
    assert "as str(user.id)" in caplog.text


def test_what_cannot_be_mounted_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="identify is 'ann': use a function"):
        holdfast.asgi(lambda: None, identify="ann")  # type: ignore[arg-type, return-value]
    with pytest.raises(ConfigError, match="host is a str: use the host of"):
        holdfast.asgi("sqlite:///chats.db", identify=by_header)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="host is not open yet: use the host of"):
        holdfast.asgi(holdfast.open("sqlite:///chats.db", []), identify=by_header)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="is not an origin: use one like"):
        holdfast.asgi(lambda: None, identify=by_header, origins=["app"])  # type: ignore[arg-type, return-value]


async def test_a_host_that_is_not_open_yet_is_an_error_that_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with application(mounted(lambda: None)) as client:
        assert await status(client, headers={"X-User": "ann"}) == 500
    assert "the host is None: open it with `async with holdfast.open(…)`" in caplog.text


async def test_the_host_may_be_another_one_each_time_the_application_starts(
    db: Database, clock: Clock
) -> None:
    state: list[Host] = []
    app = mounted(lambda: state[-1])
    for _ in range(2):
        async with serving(db, [agent((), clock)], titles=False) as opened:
            state.append(opened)
            async with application(app) as client:
                assert await status(client, headers={"X-User": "ann"}) == 200


async def test_the_client_connects_to_the_path_of_the_mount(db: Database) -> None:
    def by_token(request: AsgiRequest) -> str | None:
        return {"Bearer key-of-ann": "ann"}.get(request.headers.get("Authorization", ""))

    async with serving(db, [agent(["Hello"])], titles=False) as opened:
        app = mounted(opened, by_token)
        async with served(app) as url, holdfast.connect(f"{url}/agents", "key-of-ann") as remote:
            chat = await remote.create("hi")
            assert (await chat.rest()).text == "Hello"
            texts = [event async for event in chat.stream() if isinstance(event, MessageChanged)]
            assert len(texts) == 2
            assert chat.owner == "ann"
            await MADE.pop().close()


# --- what is served ------------------------------------------------------------------------------


async def test_the_document_names_the_mount_and_only_what_is_mounted(host: Host) -> None:
    async with application(mounted(host)) as client:
        async with client.get(f"/agents{API_PREFIX}/openapi.json") as response:
            document = await response.json()
        assert document["servers"] == [{"url": "/agents"}]
        paths = document["paths"]
        assert f"{API_PREFIX}/chats/{{chat}}/stream" in paths
        assert f"{API_PREFIX}/openapi.json" in paths
        kinds = {path.removeprefix(API_PREFIX).split("/")[1] for path in paths}
        assert kinds.isdisjoint({"users", "tokens", "session", "providers"})
        async with client.get(f"/agents{API_PREFIX}/users") as missing:
            problem = await missing.json()
        assert (missing.status, problem["kind"]) == (404, "no_such_path")
        assert f"/agents{API_PREFIX}/openapi.json lists all paths" in problem["detail"]


@pytest.mark.parametrize("cut", [True, False], ids=["path cut off", "path left"])
async def test_it_is_found_below_a_path_whether_or_not_that_is_cut_off(
    host: Host, cut: bool
) -> None:
    below_a_path = api(host)

    async def route(scope: Any, receive: Any, send: Any) -> None:
        below = {**scope, "root_path": "/my agents"}
        if cut:
            below["path"] = scope["path"].removeprefix("/my agents")
            below["raw_path"] = scope["raw_path"].removeprefix(b"/my%20agents")
        await below_a_path(below, receive, send)

    async with application(route) as client:
        path = f"/my%20agents{API_PREFIX}/chats"
        assert await status(client, path, headers={"X-User": "ann"}) == 200
        assert await status(client, f"{path}/a%2Fb", headers={"X-User": "ann"}) == 404


async def test_an_encoded_slash_is_a_part_of_an_id(host: Host) -> None:
    async with application(mounted(host)) as client:
        async with client.get(f"{CHATS}/a%2Fb", headers={"X-User": "ann"}) as response:
            assert (await response.json())["kind"] == "chat_not_found"


# --- pages of other sites ------------------------------------------------------------------------

OTHER = {"Origin": "https://evil.example", "Cookie": "who=ann"}


async def post(client: aiohttp.ClientSession, **headers: str) -> int:
    async with client.post(CHATS, json={}, headers={"X-User": "ann", **headers}) as response:
        return response.status


async def test_a_page_of_another_site_may_not_change_anything(host: Host) -> None:
    async with application(mounted(host)) as client:
        async with client.post(CHATS, json={}, headers={"X-User": "ann", **OTHER}) as response:
            problem = await response.json()
        assert (response.status, problem["kind"]) == (403, "cross_site")
        assert "origins=[…]" in problem["detail"]
        own = f"http://{response.url.host}:{response.url.port}"
        assert await post(client, Origin=own) == 201
        assert await post(client) == 201  # not a browser
        assert await post(client, **{"Sec-Fetch-Site": "cross-site"}) == 403
        behind_a_proxy = {"Origin": "https://app.example", "Sec-Fetch-Site": "same-origin"}
        assert await post(client, **behind_a_proxy) == 201
        # A browser sends no such header by itself.
        assert await post(client, **OTHER, Authorization="Bearer x") == 201


async def test_a_page_of_another_site_may_not_watch(host: Host) -> None:
    chat = await host.create(None, owner="ann")
    async with application(mounted(host)) as client:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await client.ws_connect(f"{CHATS}/{chat.id}/stream", headers={"X-User": "ann", **OTHER})
        assert refused.value.status == 403


async def test_the_pages_of_a_named_origin_may(host: Host) -> None:
    app = mounted(host, origins=["https://evil.example"])
    async with application(app) as client:
        assert await post(client, **OTHER) == 201


# --- streams -------------------------------------------------------------------------------------


@asynccontextmanager
async def watched(client: aiohttp.ClientSession, chat: str) -> AsyncIterator[Connection]:
    async with client.get(f"{CHATS}/{chat}/stream", headers={"X-User": "ann"}) as response:
        assert response.status == 200
        yield Connection(response)


async def test_streams_end_when_the_host_is_closed(db: Database, clock: Clock) -> None:
    state: list[Host] = []
    async with application(mounted(lambda: state[-1])) as client:
        async with serving(db, [agent((), clock)], titles=False) as opened:
            state.append(opened)
            chat = await opened.create(None, owner="ann")
            stream = await client.get(f"{CHATS}/{chat.id}/stream", headers={"X-User": "ann"})
            connection = Connection(stream)
            await connection.take(1)
        assert [event_of(wire) async for wire in connection.events()] == [END_SHUTDOWN]


async def test_a_stream_ends_when_its_user_is_signed_out(host: Host) -> None:
    signed_in = {"ann"}

    def identify(request: AsgiRequest) -> str | None:
        return "ann" if "ann" in signed_in else None

    chat = await host.create(None, owner="ann")
    async with application(mounted(host, identify)) as client:
        async with watched(client, chat.id) as connection:
            await connection.take(1)
            signed_in.clear()
            with anyio.fail_after(5):
                assert [event_of(wire) async for wire in connection.events()] == [END_REVOKED]


@pytest.mark.parametrize("failure", ["hangs", "is cancelled"])
async def test_a_user_who_cannot_be_identified_keeps_no_other_signed_in(
    host: Host, failure: str
) -> None:
    signed_in = {"ann", "bob"}

    async def identify(request: AsgiRequest) -> str | None:
        name = request.headers["X-User"]
        if name == "bob" and "ann" not in signed_in:
            lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            if failure == "is cancelled":
                lost.cancel()
            return await lost
        return name if name in signed_in else None

    chats = {name: await host.create(None, owner=name) for name in ("bob", "ann")}
    async with application(mounted(host, identify)) as client:
        theirs = client.get(f"{CHATS}/{chats['bob'].id}/stream", headers={"X-User": "bob"})
        async with theirs as response, watched(client, chats["ann"].id) as connection:
            await Connection(response).take(1)
            await connection.take(1)
            signed_in.discard("ann")
            with anyio.fail_after(30):
                assert [event_of(wire) async for wire in connection.events()] == [END_REVOKED]


async def test_a_stream_whose_client_leaves_is_closed_on_the_server(host: Host) -> None:
    chat = await host.create(None, owner="ann")
    async with application(mounted(host)) as client:
        async with watched(client, chat.id) as connection:
            await connection.take(1)
            assert await readers(client) == 1
        await anyio.sleep(2)
        assert await readers(client) == 0


async def test_a_stream_passes_through_a_middleware_that_reads_responses(host: Host) -> None:
    chat = await host.create(None, owner="ann")
    app = FastAPI()
    app.mount("/agents", api(host))
    app.add_middleware(GZipMiddleware)

    @app.middleware("http")
    async def name_the_server(request: Request, call_next: Any) -> Response:
        response: Response = await call_next(request)
        response.headers["X-Served-By"] = "app"
        return response

    async with application(app) as client:
        async with watched(client, chat.id) as connection:
            assert connection.response.headers["X-Served-By"] == "app"
            await connection.take(1)
            await chat.rename("New")
            await connection.take(1)
        await anyio.sleep(2)
        assert await readers(client) == 0


async def readers(client: aiohttp.ClientSession) -> int:
    """As the metrics say."""
    path = f"/agents{API_PREFIX}/metrics"
    async with client.get(path, headers={"X-User": "admin"}) as response:
        text = await response.text()
    (line,) = [line for line in text.splitlines() if line.startswith("holdfast_stream_readers")]
    return int(float(line.split()[-1]))


async def test_what_is_no_stream_is_not_served_over_a_websocket(host: Host) -> None:
    async with application(mounted(host)) as client:
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await client.ws_connect(CHATS, headers={"X-User": "ann"})
        assert refused.value.status == 404
