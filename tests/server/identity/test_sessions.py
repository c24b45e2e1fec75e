"""Sessions of browsers: the cookie, the key beside it, their end."""

from __future__ import annotations

from typing import Any

import aiohttp
import anyio
import pytest

from holdfast.server.access_policy import POLICY, Need
from holdfast.server.identity.auth_config import AuthConfig
from holdfast.server.identity.credential_format import download_key_of, new_session_key
from holdfast.server.identity.expiring_cache import CACHE_SECONDS
from holdfast.server.identity.sessions import MAX_SESSION_IDLE, MAX_SESSION_LIFETIME, Cookie
from holdfast.server.operation import OPERATIONS
from holdfast.server.wire_format import API_PREFIX
from holdfast.store.database import Database
from holdfast.testing import Clock
from tests.server.identity.team_server import House, cookie_of, house, id_of

DAY = 24 * 3600


async def _signed_in(here: House, name: str = "ann") -> tuple[str, str]:
    """The cookie, and what has to be said beside it."""
    await here.user(name)
    answer = await here.ask("POST", "/session", {"token": here.tokens[name]})
    assert answer.status == 201
    return cookie_of(answer), answer.body["key"]


async def test_a_token_is_exchanged_for_a_cookie_that_no_script_and_no_other_site_can_use(
    db: Database, clock: Clock
) -> None:
    async with house(db, clock) as here:
        await here.user("ann")
        answer = await here.ask("POST", "/session", {"token": here.tokens["ann"]})
        rules = answer.headers["Set-Cookie"].split("; ")[1:]
        assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(rules)
        assert not any(rule.startswith("Domain") for rule in rules)
        assert here.tokens["ann"] not in answer.headers["Set-Cookie"]
        me = await here.ask("GET", "/me", cookie=cookie_of(answer), key=answer.body["key"])
        assert (me.status, me.body["user"]) == (200, "ann")
        assert me.body["download_key"] == answer.body["download_key"]


def test_a_cookie_of_an_https_server_goes_nowhere_else() -> None:
    assert "; Secure" in Cookie(True).holding("x")
    assert Cookie(True).name.startswith("__Host-")
    assert "Secure" not in Cookie(False).holding("x")


async def test_two_servers_on_one_machine_keep_their_cookies_apart(
    db: Database, clock: Clock
) -> None:
    assert AuthConfig(port=1).cookie.name != AuthConfig(port=2).cookie.name
    async with house(db, clock, access=AuthConfig(local=False, port=8700)) as here:
        cookie, key = await _signed_in(here)
        both = f"holdfast-8701=hfs_{'x' * 43}; {cookie}"
        assert (await here.ask("GET", "/me", cookie=both, key=key)).status == 200


async def test_a_cookie_alone_is_good_for_nothing(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        cookie, key = await _signed_in(here)
        chat = await here.chat("ann")
        download = (await here.ask("GET", "/me", cookie=cookie, key=key)).body["download_key"]
        wrong = (None, "", "ü", "x" * len(key), key[:-1], f"{key}x", download, new_session_key())
        for one in (*wrong, cookie.partition("=")[2]):
            for method, path in (("GET", "/me"), ("GET", f"/chats/{chat}"), ("POST", "/tokens")):
                body = {"name": "x"} if method == "POST" else None
                answer = await here.ask(method, path, body, cookie=cookie, key=one)
                assert (answer.status, answer.kind) == (401, "unauthenticated"), (one, path)
        made = await here.ask("GET", "/tokens", cookie=cookie, key=key)
        assert len(made.body["tokens"]) == 1
        good = await here.ask("POST", "/tokens", {"name": "x"}, cookie=cookie, key=key)
        assert good.status == 201


async def test_a_key_alone_is_good_for_nothing(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        cookie, key = await _signed_in(here)
        stale = "holdfast=hfs_" + "x" * 43
        assert (await here.ask("GET", "/me", key=key)).status == 401
        assert (await here.ask("GET", "/me", key=key, cookie=stale)).status == 401
        assert (await here.ask("GET", "/me", token=key)).status == 401
        assert (await here.ask("POST", "/session", {"token": key})).status == 401
        assert (await here.ask("GET", "/me", cookie=cookie, key=key)).status == 200


async def test_the_key_of_one_session_is_no_good_for_another(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        cookie, _ = await _signed_in(here, "ann")
        _, other = await _signed_in(here, "bob")
        assert (await here.ask("GET", "/me", cookie=cookie, key=other)).status == 401


async def test_no_answer_gives_the_key_again(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        cookie, key = await _signed_in(here)
        me = await here.ask("GET", "/me", cookie=cookie, key=key)
        assert key not in str(me)
        assert me.body["download_key"] == download_key_of(key)


async def test_a_download_key_opens_downloads_and_nothing_else(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        cookie, key = await _signed_in(here)
        chat = await here.chat("ann")
        known = download_key_of(key)
        other = known[:-1] + ("A" if known[-1] != "A" else "B")
        opened = set()
        for one in OPERATIONS.values():
            if POLICY[one.method, one.path] is Need.NOTHING:
                continue
            path = one.path.format(**dict.fromkeys(one.names, "1") | {"chat": chat})
            body: Any = {} if one.body is not None else None
            answer = await here.ask(one.method, f"{path}?download_key={known}", body, cookie=cookie)
            if answer.status != 401:
                opened.add(one.id)
            for shown, with_cookie in ((known, None), (other, cookie), (key, cookie)):
                path = f"{path.partition('?')[0]}?download_key={shown}"
                answer = await here.ask(one.method, path, body, cookie=with_cookie)
                assert answer.status == 401, one.id
        assert opened == {"download_file", "download_of_chat", "export_chat"}


async def test_a_file_is_downloaded_by_its_url_and_the_cookie(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        cookie, key = await _signed_in(here)
        chat = await here.chat("ann")
        path = f"/chats/{chat}/export?format=markdown&download_key={download_key_of(key)}"
        answer = await here.ask("GET", path, cookie=cookie)
        assert answer.status == 200
        assert b"A conversation" in answer.body


@pytest.mark.parametrize("path", ["/stream", "/chats/{chat}/stream"])
async def test_a_page_shows_its_key_to_a_websocket_as_a_protocol(
    db: Database, clock: Clock, path: str
) -> None:
    async with house(db, clock) as here:
        cookie, key = await _signed_in(here)
        url = here.url + API_PREFIX + path.format(chat=await here.chat("ann"))

        def opened(*protocols: str) -> Any:
            return here.client.ws_connect(url, protocols=protocols, headers={"Cookie": cookie})

        async with opened("holdfast", key) as socket:
            assert socket.protocol == "holdfast"
            assert (await socket.receive_json())["event"]
        for protocols in ((), ("holdfast",), ("holdfast", new_session_key())):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await opened(*protocols)
            assert refused.value.status == 401


async def test_a_token_needs_no_more_than_itself(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        cookie, _ = await _signed_in(here)
        answer = await here.ask("POST", "/tokens", {"name": "x"}, by="ann", cookie=cookie)
        assert answer.status == 201


async def test_a_bad_token_is_not_made_good_by_a_cookie(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        cookie, _ = await _signed_in(here)
        answer = await here.ask("GET", "/me", cookie=cookie, token="hf_" + "x" * 43)
        assert answer.status == 401


@pytest.mark.parametrize("token", ["", "x", "hf_" + "x" * 43, "hfs_" + "x" * 43, "hfl_" + "x" * 43])
async def test_what_is_no_token_begins_no_session(db: Database, clock: Clock, token: str) -> None:
    async with house(db, clock) as here:
        answer = await here.ask("POST", "/session", {"token": token})
        assert answer.status == 401
        assert "Set-Cookie" not in answer.headers
        assert await here.rows("SELECT id FROM sessions") == []


async def test_a_stale_cookie_does_not_keep_one_from_signing_in(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await here.user("ann")
        stale = "holdfast=hfs_" + "x" * 43
        assert (await here.ask("GET", "/me", cookie=stale)).status == 401
        answer = await here.ask("POST", "/session", {"token": here.tokens["ann"]}, cookie=stale)
        assert answer.status == 201


async def test_a_session_can_do_no_more_than_its_token(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await here.user("ann", scopes=frozenset(("read",)))
        answer = await here.ask("POST", "/session", {"token": here.tokens["ann"]})
        cookie, key = cookie_of(answer), answer.body["key"]
        assert (await here.ask("GET", "/tokens", cookie=cookie, key=key)).status == 200
        refused = await here.ask("POST", "/tokens", {"name": "x"}, cookie=cookie, key=key)
        assert (refused.status, refused.kind) == (403, "forbidden")


async def test_signing_out_ends_the_session(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        cookie, key = await _signed_in(here)
        out = await here.ask("DELETE", "/session", cookie=cookie, key=key)
        assert out.status == 204
        assert "Max-Age=0" in out.headers["Set-Cookie"]
        await anyio.sleep(CACHE_SECONDS)
        assert (await here.ask("GET", "/me", cookie=cookie, key=key)).status == 401
        assert (await here.ask("GET", "/me", by="ann")).status == 200


async def test_a_token_has_no_session_to_end(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await here.user("ann")
        assert (await here.ask("DELETE", "/session", by="ann")).status == 400


async def test_a_session_ends_with_its_token(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        cookie, key = await _signed_in(here)
        gone = await here.ask(
            "DELETE", f"/tokens/{id_of(here.tokens['ann'])}", cookie=cookie, key=key
        )
        assert gone.status == 204
        await anyio.sleep(CACHE_SECONDS)
        assert (await here.ask("GET", "/me", cookie=cookie, key=key)).status == 401


async def test_a_session_that_is_used_lasts_and_one_that_is_not_ends(
    db: Database, clock: Clock
) -> None:
    async with house(db, clock) as here:
        cookie, key = await _signed_in(here)
        for _ in range(3):
            clock.advance(MAX_SESSION_IDLE / 1e6 - 60)
            await anyio.sleep(CACHE_SECONDS)
            assert (await here.ask("GET", "/me", cookie=cookie, key=key)).status == 200
        clock.advance(MAX_SESSION_IDLE / 1e6 + 1)
        await anyio.sleep(CACHE_SECONDS)
        answer = await here.ask("GET", "/me", cookie=cookie, key=key)
        assert answer.status == 401
        assert "expired" in answer.body["detail"]


async def test_a_session_ends_some_day_however_much_it_is_used(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        cookie, key = await _signed_in(here)
        lasted = 0
        while (await here.ask("GET", "/me", cookie=cookie, key=key)).status == 200:
            clock.advance(DAY)
            lasted += 1
            await anyio.sleep(CACHE_SECONDS)
        assert lasted == pytest.approx(MAX_SESSION_LIFETIME / 1e6 / DAY, abs=1)


async def test_sessions_that_are_over_are_cleared_away(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await _signed_in(here)
        clock.advance(MAX_SESSION_IDLE / 1e6 + 1)
        await here.ask("POST", "/session", {"token": here.tokens["ann"]})
        assert len(await here.rows("SELECT id FROM sessions")) == 1


async def test_a_cookie_of_an_https_server_is_taken_under_its_name_alone(
    db: Database, clock: Clock
) -> None:
    async with house(db, clock, access=AuthConfig(local=False, secure=True)) as here:
        cookie, key = await _signed_in(here)
        assert (await here.ask("GET", "/me", cookie=cookie, key=key)).status == 200
        plain = cookie.removeprefix("__Host-")
        assert (await here.ask("GET", "/me", cookie=plain, key=key)).status == 401
