"""Sharing for reading: with a user, by link, no longer. And what goes on for long ends with it."""

from __future__ import annotations

import anyio
import pytest

from holdfast.server.access_policy import AccessDecision, ApiCaller, ChatRelation, Need, authorise
from holdfast.server.identity.expiring_cache import CACHE_SECONDS
from holdfast.server.identity.shares import MAX_SHARES
from holdfast.store.database import Database
from holdfast.testing import Clock
from tests.server.identity.team_server import House, house, id_of


async def _reads(here: House, chat: str, token: str) -> bool:
    """Whether what is shown lets one read a chat."""
    caller = await _caller(here, token)
    access = await here.authenticator.access(caller, chat)
    relation = None if access is None else access.relation
    return authorise(Need.READ_CHAT, caller, relation) is AccessDecision.ALLOWED


async def _caller(here: House, token: str) -> ApiCaller:
    from aiohttp.test_utils import make_mocked_request

    request = make_mocked_request("GET", "/", headers={"Authorization": f"Bearer {token}"})
    caller = await here.authenticator.caller(request)
    assert caller is not None
    return caller


async def test_a_chat_that_is_shared_with_a_user_can_be_read_by_them_at_once(
    db: Database, clock: Clock
) -> None:
    async with house(db, clock) as here:
        await here.user("ann")
        await here.user("bob")
        chat = await here.chat("ann")
        assert not await _reads(here, chat, here.tokens["bob"])
        made = await here.ask("POST", f"/chats/{chat}/shares", {"user": "bob"}, by="ann")
        assert made.status == 201
        assert (made.body["link"], made.body["info"]["user"]) == (None, "bob")
        assert await _reads(here, chat, here.tokens["bob"])
        again = await here.ask("POST", f"/chats/{chat}/shares", {"user": "bob"}, by="ann")
        assert again.body["info"]["id"] == made.body["info"]["id"]
        listed = (await here.ask("GET", f"/chats/{chat}/shares", by="ann")).body["shares"]
        assert [each["name"] for each in listed] == ["bob"]


async def test_whoever_has_the_link_can_read_that_chat_and_nothing_else(
    db: Database, clock: Clock
) -> None:
    async with house(db, clock) as here:
        await here.user("ann")
        chat, other = await here.chat("ann"), await here.chat("ann")
        made = (await here.ask("POST", f"/chats/{chat}/shares", {}, by="ann")).body
        link = made["link"]
        assert link.startswith("hfl_")
        assert await _reads(here, chat, link)
        assert not await _reads(here, other, link)
        for path in ("/me", "/tokens", "/users", "/audit", f"/chats/{chat}/shares"):
            assert (await here.ask("GET", path, token=link)).status == 403
        assert (await here.ask("POST", "/session", {"token": link})).status == 401


async def test_a_link_is_shown_once(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await here.user("ann")
        chat, key = await here.chat("ann"), {"Idempotency-Key": "k"}
        first = await here.ask("POST", f"/chats/{chat}/shares", {}, by="ann", headers=key)
        again = await here.ask("POST", f"/chats/{chat}/shares", {}, by="ann", headers=key)
        assert again.body == {"info": first.body["info"], "link": None}
        listed = (await here.ask("GET", f"/chats/{chat}/shares", by="ann")).body
        assert len(listed["shares"]) == 1
        assert "hfl_" not in repr(listed)


async def test_what_is_shared_no_longer_cannot_be_read_within_five_seconds(
    db: Database, clock: Clock
) -> None:
    async with house(db, clock) as here:
        await here.user("ann")
        await here.user("bob")
        chat = await here.chat("ann")
        with_bob = await here.share_with(chat, "ann", "bob")
        link = await here.link(chat, "ann")
        bob, anybody = await _caller(here, here.tokens["bob"]), await _caller(here, link)
        assert await _reads(here, chat, here.tokens["bob"])
        assert await _reads(here, chat, link)
        for id in (with_bob, id_of(link)):
            gone = await here.ask("DELETE", f"/chats/{chat}/shares/{id}", by="ann")
            assert gone.status == 204
        await anyio.sleep(CACHE_SECONDS)
        assert not await here.authenticator.still(bob, chat)
        assert not await here.authenticator.still(anybody, chat)
        assert not await _reads(here, chat, here.tokens["bob"])
        assert (await here.ask("GET", "/me", token=link)).status == 401
        again = await here.ask("DELETE", f"/chats/{chat}/shares/{with_bob}", by="ann")
        assert (again.status, again.kind) == (404, "share_not_found")


async def test_a_share_ends_when_it_expires(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await here.user("ann")
        await here.user("bob")
        chat = await here.chat("ann")
        for asked in ({"user": "bob", "expires_in": 60}, {"expires_in": 60}):
            made = await here.ask("POST", f"/chats/{chat}/shares", asked, by="ann")
            assert made.body["info"]["expires_at"] == clock.now() + 60_000_000
        link = made.body["link"]
        assert await _reads(here, chat, here.tokens["bob"])
        caller = await _caller(here, link)
        await anyio.sleep(60 + CACHE_SECONDS)
        assert not await _reads(here, chat, here.tokens["bob"])
        assert not await here.authenticator.still(caller, chat)


async def test_what_is_below_a_shared_chat_is_shared_with_it_and_what_is_above_is_not(
    db: Database, clock: Clock
) -> None:
    async with house(db, clock) as here:
        await here.user("ann")
        await here.user("bob")
        top, middle, below = [await here.chat("ann") for _ in range(3)]
        for child, parent in ((middle, top), (below, middle)):
            await here.write(
                "UPDATE chats SET parent_id = :parent, root_id = :root WHERE id = :id",
                parent=parent,
                root=top,
                id=child,
            )
        await here.share_with(middle, "ann", "bob")
        link = await here.link(middle, "ann")
        for token in (here.tokens["bob"], link):
            seen = [await _reads(here, chat, token) for chat in (top, middle, below)]
            assert seen == [False, True, True]


async def test_a_share_goes_with_its_chat(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await here.user("ann")
        chat = await here.chat("ann")
        link = await here.link(chat, "ann")
        caller = await _caller(here, link)
        await (await here.server.host.chat(chat)).delete()
        await anyio.sleep(CACHE_SECONDS)
        assert not await here.authenticator.still(caller, chat)
        assert await here.rows("SELECT id FROM shares") == []


async def test_a_link_ends_when_the_owner_is_disabled(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await here.user("ann")
        chat = await here.chat("ann")
        link = await here.link(chat, "ann")
        await here.write("UPDATE users SET disabled_at = 1 WHERE id = 'ann'")
        assert (await here.ask("GET", "/me", token=link)).status == 401


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        ({"user": "nobody"}, 404),
        ({"user": "ann"}, 422),
        ({"user": "x\x00"}, 422),
        ({"expires_in": 0}, 422),
        ({"hash": "mine"}, 422),
    ],
)
async def test_a_share_that_cannot_be_is_refused(
    db: Database, clock: Clock, asked: dict[str, object], status: int
) -> None:
    async with house(db, clock) as here:
        await here.user("ann")
        chat = await here.chat("ann")
        answer = await here.ask("POST", f"/chats/{chat}/shares", asked, by="ann")
        assert answer.status == status
        assert await here.rows("SELECT id FROM shares") == []


async def test_a_chat_is_not_shared_without_end(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await here.user("ann")
        chat = await here.chat("ann")
        for _ in range(MAX_SHARES):
            await here.link(chat, "ann")
        answer = await here.ask("POST", f"/chats/{chat}/shares", {}, by="ann")
        assert (answer.status, answer.kind) == (429, "too_many")


async def test_a_share_that_is_there_can_be_made_to_last_however_many_there_are(
    db: Database, clock: Clock
) -> None:
    async with house(db, clock) as here:
        for name in ("ann", "bob", "eve"):
            await here.user(name)
        chat = await here.chat("ann")
        for _ in range(MAX_SHARES - 1):
            await here.link(chat, "ann")
        path, with_bob = f"/chats/{chat}/shares", {"user": "bob", "expires_in": 60}
        made = await here.ask("POST", path, with_bob, by="ann")
        again = await here.ask("POST", path, {**with_bob, "expires_in": 3600}, by="ann")
        assert (again.status, again.body["info"]["id"]) == (201, made.body["info"]["id"])
        assert again.body["info"]["expires_at"] > made.body["info"]["expires_at"]
        other = await here.ask("POST", path, {"user": "eve"}, by="ann")
        assert (other.status, other.kind) == (429, "too_many")


async def test_an_id_that_no_database_can_hold_is_of_no_chat(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await here.user("ann")
        answer = await here.ask("GET", "/chats/%00/shares", by="ann")
        assert answer.status == 404


# --- what goes on for long ---


async def test_whoever_was_let_in_still_may_until_something_changes(
    db: Database, clock: Clock
) -> None:
    async with house(db, clock) as here:
        await here.user("ann")
        chat = await here.chat("ann")
        caller = await _caller(here, here.tokens["ann"])
        for _ in range(3):
            assert await here.authenticator.still(caller)
            assert await here.authenticator.still(caller, chat)
            await anyio.sleep(3600)
        assert not await here.authenticator.still(caller, "nowhere")


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE tokens SET revoked_at = 1",
        "UPDATE tokens SET expires_at = 1",
        "UPDATE tokens SET scopes = 'write'",
        "UPDATE users SET disabled_at = 1",
        "DELETE FROM tokens",
    ],
)
async def test_whoever_lost_their_token_may_no_longer(
    db: Database, clock: Clock, change: str
) -> None:
    async with house(db, clock) as here:
        await here.user("ann")
        chat = await here.chat("ann")
        caller = await _caller(here, here.tokens["ann"])
        assert await here.authenticator.still(caller, chat)
        await here.write(change)
        await anyio.sleep(CACHE_SECONDS)
        assert not await here.authenticator.still(caller, chat)
        assert not await here.authenticator.still(caller)


async def test_a_session_that_ended_may_no_longer(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await here.user("ann")
        begun = await here.ask("POST", "/session", {"token": here.tokens["ann"]})
        ((id,),) = await here.rows("SELECT id FROM sessions")
        from holdfast.server.access_policy import ALL_SCOPES

        caller = ApiCaller("ann", "member", ALL_SCOPES, id, None, begun.body["download_key"])
        assert await here.authenticator.still(caller)
        await here.write("DELETE FROM sessions")
        await anyio.sleep(CACHE_SECONDS)
        assert not await here.authenticator.still(caller)


async def test_a_link_is_for_a_chat_and_not_for_the_list_of_all(db: Database, clock: Clock) -> None:
    async with house(db, clock) as here:
        await here.user("ann")
        chat = await here.chat("ann")
        caller = await _caller(here, await here.link(chat, "ann"))
        assert await here.authenticator.still(caller, chat)
        assert not await here.authenticator.still(caller)
        access = await here.authenticator.access(caller, chat)
        assert access is not None
        assert access.relation == ChatRelation(owns=False, shared=True)
