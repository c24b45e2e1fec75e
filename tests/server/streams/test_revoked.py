"""A stream ends within seconds of what let its reader in: with real credentials, over SSE and
WebSocket."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, NamedTuple

import anyio
import pytest

from holdfast.server.event_codec import END_REVOKED, WireEvent, event_of, list_event_of
from holdfast.server.identity.authenticator import SESSION_KEY_HEADER
from holdfast.server.wire_format import API_PREFIX
from holdfast.store.database import Database
from holdfast.testing import Clock
from tests.server.identity.team_server import House, cookie_of, house, id_of
from tests.server.streams.client import Connection, frames, path_of

WITHIN: Final = 5.0
"""Seconds, as docs/security.md promises."""


class Let(NamedTuple):
    """What a reader shows, and what ends it."""

    headers: Mapping[str, str]
    revoke: Callable[[], Awaitable[object]]


async def by_token(here: House, chat: str) -> Let:
    token = await here.token("ann")
    return Let(bearer(token), lambda: done(here, "DELETE", f"/tokens/{id_of(token)}", by="ann"))


async def by_session(here: House, chat: str) -> Let:
    begun = await here.ask("POST", "/session", {"token": here.tokens["ann"]})
    cookie, key = cookie_of(begun), begun.body["key"]
    headers = {"Cookie": cookie, SESSION_KEY_HEADER: key}

    async def sign_out() -> None:
        assert (await here.ask("DELETE", "/session", cookie=cookie, key=key)).status == 204

    return Let(headers, sign_out)


async def by_token_of_session(here: House, chat: str) -> Let:
    """A session whose token is revoked."""
    token = await here.token("ann")
    begun = await here.ask("POST", "/session", {"token": token})
    headers = {"Cookie": cookie_of(begun), SESSION_KEY_HEADER: begun.body["key"]}
    return Let(headers, lambda: done(here, "DELETE", f"/tokens/{id_of(token)}", by="ann"))


async def by_disabled_user(here: House, chat: str) -> Let:
    return Let(bearer(here.tokens["ann"]), lambda: disabled(here, "ann"))


async def by_session_of_disabled_user(here: House, chat: str) -> Let:
    return Let((await by_session(here, chat)).headers, lambda: disabled(here, "ann"))


async def by_link(here: House, chat: str) -> Let:
    link = await here.link(chat, "ann")
    path = f"/chats/{chat}/shares/{id_of(link)}"
    return Let(bearer(link), lambda: done(here, "DELETE", path, by="ann"))


async def by_link_of_disabled_user(here: House, chat: str) -> Let:
    return Let(bearer(await here.link(chat, "ann")), lambda: disabled(here, "ann"))


async def by_share(here: House, chat: str) -> Let:
    path = f"/chats/{chat}/shares/{await here.share_with(chat, 'ann', 'bob')}"
    return Let(bearer(here.tokens["bob"]), lambda: done(here, "DELETE", path, by="ann"))


def bearer(token: str) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def disabled(here: House, user: str) -> None:
    answer = await here.ask("PATCH", f"/users/{user}", {"disabled": True}, by="root")
    assert answer.status == 200, answer.body


async def done(here: House, method: str, path: str, by: str) -> None:
    answer = await here.ask(method, path, by=by)
    assert answer.status == 204, answer.body


@asynccontextmanager
async def over_sse(
    here: House, path: str, headers: Mapping[str, str]
) -> AsyncIterator[AsyncIterator[WireEvent]]:
    async with here.client.get(here.url + API_PREFIX + path, headers=headers) as response:
        assert response.status == 200, await response.read()
        yield Connection(response).events()


@asynccontextmanager
async def over_websocket(
    here: House, path: str, headers: Mapping[str, str]
) -> AsyncIterator[AsyncIterator[WireEvent]]:
    async with here.client.ws_connect(here.url + API_PREFIX + path, headers=headers) as opened:
        yield frames(opened)
        assert opened.close_code == 1008  # a policy was violated


READERS: Final = {
    "token": by_token,
    "session": by_session,
    "token of a session": by_token_of_session,
    "disabled user": by_disabled_user,
    "session of a disabled user": by_session_of_disabled_user,
    "link": by_link,
    "link of a disabled user": by_link_of_disabled_user,
    "share": by_share,
}
OF_THE_LIST: Final = [name for name in READERS if "link" not in name and name != "share"]
"""The list of all chats is its caller's own."""


@pytest.mark.parametrize("over", [over_sse, over_websocket], ids=["sse", "websocket"])
@pytest.mark.parametrize(
    ("of", "shown"),
    [*(("chat", name) for name in READERS), *(("list", name) for name in OF_THE_LIST)],
)
async def test_a_stream_ends_within_seconds_of_what_let_its_reader_in(
    db: Database,
    clock: Clock,
    of: str,
    shown: str,
    over: Callable[..., AbstractAsyncContextManager[AsyncIterator[WireEvent]]],
) -> None:
    async with house(db, clock) as here:
        for user in ("ann", "bob"):
            await here.user(user)
        await here.user("root", "admin")
        chat = await here.chat("ann")
        let = await READERS[shown](here, chat)
        path = path_of(chat if of == "chat" else None)
        seen: list[WireEvent] = []
        async with over(here, path, let.headers) as events, anyio.create_task_group() as group:

            async def read() -> None:
                async for wire in events:
                    seen.append(wire)
                group.cancel_scope.cancel()

            group.start_soon(read)
            await anyio.sleep(2 * WITHIN)
            assert len(here.server.hub) == 1, "it may still read"
            seen.clear()
            await let.revoke()
            await anyio.sleep(WITHIN)
            raise AssertionError("it was not revoked")
        told = event_of if of == "chat" else list_event_of
        assert [told(wire) for wire in seen if wire.event != "beat"] == [END_REVOKED]
        assert len(here.server.hub) == 0
