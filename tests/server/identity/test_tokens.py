"""The life of a token: made, shown once, used, expired, revoked. The database never has it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.server.identity.api_tokens import DAY_SECONDS, MAX_TOKENS_PER_USER
from holdfast.server.identity.credential_format import (
    SECRET_PREFIXES,
    bound,
    hash_of,
    kind_of,
    new_secret,
)
from holdfast.server.identity.expiring_cache import CACHE_SECONDS
from holdfast.store.database import Database, Tx, Unavailable
from holdfast.testing import Clock
from tests.server.identity.team_server import House, cookie_of, house, id_of


async def _everything(db: Database) -> str:
    """Every value of every table."""

    async def dump(tx: Tx) -> list[Sequence[Any]]:
        names = (
            "SELECT name FROM sqlite_schema WHERE type = 'table'"
            if tx.dialect.name == "sqlite"
            else "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        )
        tables = [row[0] for row in await tx.fetch(names)]
        return [row for name in tables for row in await tx.fetch(f"SELECT * FROM {name}")]

    return repr([tuple(row) for row in await db.read(dump)])


def test_a_secret_is_32_random_bytes_behind_a_prefix_that_says_what_it_is() -> None:
    for prefix, kind in SECRET_PREFIXES.items():
        made = {new_secret(kind) for _ in range(100)}
        assert len(made) == 100
        assert all(re.fullmatch(prefix + "[A-Za-z0-9_-]{43}", each) for each in made)
        assert {kind_of(each) for each in made} == {kind}


@pytest.mark.parametrize(
    "text", ["", "hf_", "hf_" + "x" * 42, "hf_" + "x" * 44, "hx_" + "x" * 43, "hf_" + "ü" * 43, "_"]
)
def test_what_cannot_be_a_secret_of_ours_is_not_even_looked_up(text: str) -> None:
    assert kind_of(text) is None


async def test_a_token_that_was_made_lets_its_user_in(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await here.user("ann")
        made = await here.ask("POST", "/tokens", {"name": "laptop"}, by="ann")
        assert made.status == 201
        assert made.body["info"]["scopes"] == ["read", "write"]
        me = await here.ask("GET", "/me", token=made.body["token"])
        assert (me.status, me.body["user"], me.body["role"]) == (200, "ann", "member")


async def test_the_database_never_has_a_token_a_session_or_a_link(
    db: Database, clock: Clock
) -> None:
    async with house(db, clock) as here:
        await here.user("ann")
        chat = await here.chat("ann")
        key = {"Idempotency-Key": "k1"}
        made = await here.ask("POST", "/tokens", {"name": "x"}, by="ann", headers=key)
        token = made.body["token"]
        signed_in = await here.ask("POST", "/session", {"token": token})
        key = {"Idempotency-Key": "k2"}
        linked = await here.ask("POST", f"/chats/{chat}/shares", {}, by="ann", headers=key)
        kept = await _everything(here.db)
        cookie, key = cookie_of(signed_in).partition("=")[2], signed_in.body["download_key"]
        for secret in (here.tokens["ann"], token, bound(cookie, key), linked.body["link"]):
            assert hash_of(secret) in kept
        parts = (cookie, key, signed_in.body["key"])
        for secret in (here.tokens["ann"], token, *parts, linked.body["link"]):
            assert len(secret) > 40
            assert secret not in kept
            assert secret.partition("_")[2] not in kept


async def test_a_token_is_shown_once_even_to_who_asks_again_with_the_same_key(
    db: Database, clock: Clock
) -> None:
    async with house(db, clock) as here:
        await here.user("ann")
        key = {"Idempotency-Key": "k1"}
        first = await here.ask("POST", "/tokens", {"name": "x"}, by="ann", headers=key)
        again = await here.ask("POST", "/tokens", {"name": "x"}, by="ann", headers=key)
        other = await here.ask("POST", "/tokens", {"name": "y"}, by="ann", headers=key)
        assert first.body["token"].startswith("hf_")
        assert again.body == {"info": first.body["info"], "token": None}
        assert (other.status, other.kind) == (409, "key_reused")
        listed = await here.ask("GET", "/tokens", by="ann")
        assert [each["name"] for each in listed.body["tokens"]].count("x") == 1
        assert "hf_" not in repr(listed.body)


async def test_a_token_ends_when_it_expires(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await here.user("ann")
        asked = {"name": "x", "expires_in": 3600}
        token = (await here.ask("POST", "/tokens", asked, by="ann")).body["token"]
        clock.advance(3599)
        assert (await here.ask("GET", "/me", token=token)).status == 200
        clock.advance(2)
        await _wait(CACHE_SECONDS)
        answer = await here.ask("GET", "/me", token=token)
        assert (answer.status, answer.kind) == (401, "unauthenticated")
        assert "has expired" in answer.body["detail"]
        assert answer.headers["WWW-Authenticate"] == "Bearer"


async def test_a_token_is_not_remembered_beyond_its_end(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await here.user("ann")
        token = await here.token("ann", lifetime=1)
        assert (await here.ask("GET", "/me", token=token)).status == 200
        await _wait(1.01)
        assert (await here.ask("GET", "/me", token=token)).status == 401


async def test_a_revoked_token_ends_within_five_seconds(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await here.user("ann")
        token = await here.token("ann")
        assert (await here.ask("GET", "/me", token=token)).status == 200
        gone = await here.ask("DELETE", f"/tokens/{id_of(token)}", by="ann")
        assert gone.status == 204
        await _wait(CACHE_SECONDS)
        assert CACHE_SECONDS < 5
        answer = await here.ask("GET", "/me", token=token)
        assert answer.status == 401
        assert "revoked" in answer.body["detail"]
        again = await here.ask("DELETE", f"/tokens/{id_of(token)}", by="ann")
        assert again.status == 204


async def test_a_token_of_somebody_else_is_not_there(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await here.user("ann")
        await here.user("bob")
        answer = await here.ask("DELETE", f"/tokens/{id_of(here.tokens['bob'])}", by="ann")
        assert (answer.status, answer.kind) == (404, "token_not_found")
        for ask in (
            here.ask("GET", "/tokens?user=bob", by="ann"),
            here.ask("POST", "/tokens", {"name": "x", "user": "bob"}, by="ann"),
        ):
            assert (await ask).status == 403
        assert (await here.ask("GET", "/me", by="bob")).status == 200


async def test_an_administrator_makes_lists_and_revokes_tokens_of_others(
    db: Database, clock: Clock
) -> None:
    async with house(db, clock) as here:
        await here.user("root", "admin")
        await here.user("eve", "viewer")
        asked = {"name": "first", "user": "eve", "scopes": ["read"]}
        made = (await here.ask("POST", "/tokens", asked, by="root")).body
        assert (await here.ask("GET", "/me", token=made["token"])).body["user"] == "eve"
        listed = (await here.ask("GET", "/tokens?user=eve", by="root")).body["tokens"]
        assert made["info"]["id"] in [each["id"] for each in listed]
        gone = await here.ask("DELETE", f"/tokens/{made['info']['id']}", by="root")
        assert gone.status == 204
        nobody = await here.ask("POST", "/tokens", {"name": "x", "user": "nobody"}, by="root")
        assert (nobody.status, nobody.kind) == (404, "user_not_found")


async def test_tokens_of_nobody_are_not_taken_for_no_tokens(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await here.user("root", "admin")
        made = await here.ask("POST", "/users", {"name": "bob"}, by="root")
        whose = f"/tokens?user={made.body['id']}"
        assert (await here.ask("GET", whose, by="root")).body == {"tokens": []}
        for user in ("bob", "nobody"):  # the name of somebody is not their id
            answer = await here.ask("GET", f"/tokens?user={user}", by="root")
            assert (answer.status, answer.kind) == (404, "user_not_found")
            assert f"no user with the id '{user}'" in answer.body["detail"]


async def test_an_admin_without_the_scope_is_nobody_special(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await here.user("root", "admin", scopes=frozenset(("read", "write")))
        await here.user("eve")
        asked = {"name": "x", "user": "eve"}
        assert (await here.ask("POST", "/tokens", asked, by="root")).status == 403


async def test_a_token_makes_none_that_is_good_for_more(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await here.user("root", "admin", scopes=frozenset(("read", "write")))
        asked = {"name": "x", "scopes": ["read", "admin"]}
        answer = await here.ask("POST", "/tokens", asked, by="root")
        assert (answer.status, answer.kind) == (403, "forbidden")
        assert "admin" in answer.body["detail"]


@pytest.mark.parametrize("whose", ["mine", "of another"])
@pytest.mark.parametrize("shown", ["token", "session"])
async def test_a_token_makes_none_that_lasts_longer(
    db: Database, clock: Clock, shown: str, whose: str
) -> None:
    async with house(db, clock) as here:
        await here.user("root", "admin", lifetime=10 * DAY_SECONDS)
        await here.user("eve")
        by: dict[str, Any] = {"by": "root"}
        if shown == "session":
            by = await _session(here, here.tokens["root"])
        asked: dict[str, Any] = {"name": "x", **({} if whose == "mine" else {"user": "eve"})}
        clock.advance(DAY_SECONDS)
        longer = {**asked, "expires_in": 9 * DAY_SECONDS + 1}
        answer = await here.ask("POST", "/tokens", longer, **by)
        assert (answer.status, answer.kind) == (403, "forbidden")
        assert answer.body["facts"] == {"limit": 9 * DAY_SECONDS}
        assert f"at most {9 * DAY_SECONDS}" in answer.body["detail"]
        assert "holdfast token" in answer.body["detail"]
        ends = clock.now() + 9 * DAY_SECONDS * 1_000_000
        for body in ({**asked, "expires_in": 9 * DAY_SECONDS}, asked):
            made = await here.ask("POST", "/tokens", body, **by)
            assert (made.status, made.body["info"]["expires_at"]) == (201, ends)


async def _session(here: House, token: str) -> dict[str, Any]:
    """What a page shows that has exchanged a token."""
    begun = await here.ask("POST", "/session", {"token": token})
    return {"cookie": cookie_of(begun), "headers": {"X-Session-Key": begun.body["key"]}}


async def test_a_token_that_nothing_is_said_of_ends_after_90_days(
    db: Database, clock: Clock
) -> None:
    async with house(db, clock) as here:
        for user, lifetime in (("ann", None), ("bob", 100 * DAY_SECONDS)):
            await here.user(user, lifetime=lifetime)
            made = await here.ask("POST", "/tokens", {"name": "x"}, by=user)
            assert made.body["info"]["expires_at"] == clock.now() + 90 * DAY_SECONDS * 1_000_000


@pytest.mark.parametrize("ended", ["token", "session"])
async def test_what_has_ended_makes_no_token_while_it_is_remembered(
    db: Database, clock: Clock, ended: str
) -> None:
    async with house(db, clock) as here:
        await here.user("ann", lifetime=DAY_SECONDS)
        by = await _session(here, here.tokens["ann"])
        if ended == "token":
            by = {"by": "ann"}
            await here.ask("DELETE", f"/tokens/{id_of(here.tokens['ann'])}", by="ann")
        else:
            assert (await here.ask("DELETE", "/session", **by)).status == 204
        answer = await here.ask("POST", "/tokens", {"name": "x"}, **by)
        assert (answer.status, answer.kind) == (401, "unauthenticated")
        assert len(await here.rows("SELECT 1 FROM tokens")) == 1


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": ""},
        {"name": " \n "},
        {"name": "x" * 201},
        {"name": "x\x00y"},
        {"name": "x", "scopes": ["all"]},
        {"name": "x", "expires_in": 0},
        {"name": "x", "expires_in": 367 * DAY_SECONDS},
        {"name": "x", "hash": "mine"},
    ],
)
async def test_a_token_that_cannot_be_is_refused(
    db: Database, clock: Clock, body: dict[str, Any]
) -> None:
    async with house(db, clock) as here:
        await here.user("ann")
        assert (await here.ask("POST", "/tokens", body, by="ann")).status == 422


async def test_nobody_has_tokens_without_end(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await here.user("ann")
        for _ in range(MAX_TOKENS_PER_USER - 1):
            await here.token("ann")
        answer = await here.ask("POST", "/tokens", {"name": "x"}, by="ann")
        assert (answer.status, answer.body["facts"]) == (429, {"limit": MAX_TOKENS_PER_USER})


async def test_when_a_token_was_used_is_known_to_the_minute(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await here.user("ann")

        async def used() -> int | None:
            ((at,),) = await here.rows("SELECT used_at FROM tokens")
            return None if at is None else int(at)

        assert await used() is None
        await here.ask("GET", "/me", by="ann")
        first = await used()
        assert first == clock.now()
        await _wait(59)
        await here.ask("GET", "/me", by="ann")
        assert await used() == first
        await _wait(2)
        await here.ask("GET", "/me", by="ann")
        assert await used() == clock.now()


@pytest.mark.parametrize(
    "shown",
    [
        "Basic YTpi",
        "Bearer",
        "Bearer  ",
        "bearer x",
        "hf_" + "x" * 43,
        "Bearer hfs_" + "x" * 43,
        "",
    ],
)
async def test_what_is_no_token_is_refused_and_never_taken_for_nothing(
    db: Database, clock: Clock, shown: str
) -> None:
    async with house(db, clock) as here:
        answer = await here.ask("GET", "/me", headers={"Authorization": shown})
        assert (answer.status, answer.kind) == (401, "unauthenticated")
        assert "hf_x" not in repr(answer.body)


async def test_most_requests_ask_the_database_nothing(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await here.user("ann")
        chat = await here.chat("ann")
        caller = await _caller(here, "ann")
        reads = _counted(here)
        for _ in range(50):
            assert await _caller(here, "ann") == caller
            assert await here.authenticator.access(caller, chat) is not None
        assert len(reads) == 1  # how they stand to the chat, once
        await _wait(CACHE_SECONDS)
        await _caller(here, "ann")
        assert len(reads) == 2


async def _caller(here: House, name: str) -> Any:
    from aiohttp.test_utils import make_mocked_request

    shown = {"Authorization": f"Bearer {here.tokens[name]}"}
    return await here.authenticator.caller(make_mocked_request("GET", "/", headers=shown))


def _counted(here: House) -> list[None]:
    """Gets an item for each read from now on."""
    seen: list[None] = []
    people: Any = here.authenticator

    class Counting:
        def __getattr__(self, name: str) -> Any:
            if name == "read":
                seen.append(None)
            return getattr(here.db, name)

    people._db = people._accesses._db = Counting()
    return seen


async def _wait(seconds: float) -> None:
    import anyio

    await anyio.sleep(seconds)


async def test_no_caller_is_told_where_the_database_is(
    db: Database, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    class Down:
        async def read(self, transaction: object, **more: object) -> None:
            raise Unavailable("PostgreSQL at db.internal:5432 refuses the user: no role 'hf'")

        write = read

    async with house(db, clock) as here:
        await here.user("ann")
        await here.ask("GET", "/me", by="ann")
        here.server.db = here.authenticator._db = Down()  # type: ignore[assignment]
        token = new_secret("token")
        answers = (
            await here.ask("GET", "/me", token=token),
            await here.ask("POST", "/session", {"token": token}),
            await here.ask("GET", "/me", by="ann"),
        )
    for answer in answers:
        assert (answer.status, answer.kind) == (503, "database_unavailable")
        assert "internal" not in answer.body["detail"]
    assert caplog.text.count("db.internal") == 3, "the log has it, once for each request"
