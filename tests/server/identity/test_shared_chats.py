"""What others share with somebody: in their list, in their stream, with its files."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from hashlib import sha256
from typing import Any

import anyio
import pytest

from holdfast.chat import files
from holdfast.chat.change_feed import POLL_INTERVAL, Feed
from holdfast.chat.handle import Chat
from holdfast.chat.rows import Stored
from holdfast.chat.transitions.lifecycle import NewChat
from holdfast.kernel.messages import File, Part, Text, user_message
from holdfast.server.event_codec import END_DELETED, event_of
from holdfast.store.database import Database
from holdfast.testing import Clock
from tests.chat.chats import Chats, answer, asks, restore
from tests.server.api import Api
from tests.server.identity.team_server import House, house
from tests.server.streams.client import Connection, connected
from tests.server.streams.test_roster import data, within


@asynccontextmanager
async def neighbours(db: Database, clock: Clock) -> AsyncIterator[House]:
    async with house(db, clock) as here:
        for name in ("ann", "bob", "eve"):
            await here.user(name)
        yield here


async def listed(here: House, by: str, query: str = "") -> list[tuple[str, bool, str | None]]:
    status, page, _ = await here.ask("GET", f"/chats{query}", by=by)
    assert status == 200, page
    return [(one["id"], one["mine"], one["owner_name"]) for one in page["chats"]]


async def share(here: House, chat: str, user: str = "bob", **more: Any) -> str:
    asked = {"user": user, **more}
    made = await here.ask("POST", f"/chats/{chat}/shares", asked, by="ann")
    assert made.status == 201, made
    return str(made.body["info"]["id"])


async def test_what_is_shared_is_in_the_list_and_says_whose_it_is(
    db: Database, clock: Clock
) -> None:
    async with neighbours(db, clock) as here:
        theirs, mine, other = [await here.chat(name) for name in ("ann", "bob", "ann")]
        id = await share(here, theirs)
        assert await listed(here, "bob") == [(mine, True, None), (theirs, False, "ann")]
        assert await listed(here, "bob", "?shared=true") == [(theirs, False, "ann")]
        assert await listed(here, "bob", "?shared=false") == [(mine, True, None)]
        assert await listed(here, "eve") == []
        assert [id for id, *_ in await listed(here, "ann")] == [other, theirs]
        assert await listed(here, "ann", "?shared=true") == []
        (row,) = (await here.ask("GET", "/chats?shared=true", by="bob")).body["chats"]
        assert (row["owner"], row["needs_me"]) == ("ann", False)
        assert (await here.ask("GET", f"/chats/{theirs}", by="bob")).body["mine"] is False
        await here.ask("DELETE", f"/chats/{theirs}/shares/{id}", by="ann")
        assert await listed(here, "bob") == [(mine, True, None)]


async def test_the_list_of_own_and_shared_chats_comes_in_pages(db: Database, clock: Clock) -> None:
    async with neighbours(db, clock) as here:
        made = [await here.chat(name) for name in ("ann", "bob", "ann", "bob", "ann")]
        for id in made[::2]:
            await share(here, id)
        found, cursor = [], ""
        while True:
            page = (await here.ask("GET", f"/chats?limit=2{cursor}", by="bob")).body
            found += [one["id"] for one in page["chats"]]
            if page["next"] is None:
                break
            cursor = f"&cursor={page['next']}"
        assert found == made[::-1]


async def test_a_share_that_has_run_out_is_in_no_list(db: Database, clock: Clock) -> None:
    async with neighbours(db, clock) as here:
        await share(here, await here.chat("ann"), expires_in=10)
        assert len(await listed(here, "bob")) == 1
        clock.advance(11)
        assert await listed(here, "bob") == []


async def test_what_a_shared_chat_set_to_work_is_listed_by_it(db: Database, clock: Clock) -> None:
    async with neighbours(db, clock) as here:
        chats = Chats(db, clock)
        await chats.running("c1", owner="ann")
        await chats.child("c1", "k1")
        assert await listed(here, "bob", "?parent=c1") == []
        await share(here, "c1")
        assert await listed(here, "bob", "?parent=c1") == [("k1", False, "ann")]
        assert await listed(here, "ann", "?parent=c1") == [("k1", True, None)]
        assert await listed(here, "eve", "?parent=c1") == []


# --- the stream ---


@asynccontextmanager
async def watching(here: House, user: str, cursor: str | None = None) -> AsyncIterator[Connection]:
    api = Api(here.url, here.client, here.server, "")
    token = {"Authorization": f"Bearer {here.tokens[user]}"}
    async with connected(api, None, cursor, headers=token) as opened:
        yield opened


async def test_a_stream_tells_of_what_is_shared_changes_and_is_shared_no_longer(
    db: Database, clock: Clock
) -> None:
    async with neighbours(db, clock) as here:
        chat = await here.chat("ann")
        held = await here.server.host.chat(chat)
        await anyio.sleep(200)
        async with watching(here, "bob") as bob, watching(here, "eve") as eve:
            assert await within(bob, 1) == []
            id = await share(here, chat)
            (new,) = await within(bob, POLL_INTERVAL + 1)
            assert (data(new)["id"], data(new)["mine"]) == (chat, False)
            await held.rename("Changed")
            (changed,) = await within(bob, 1)
            assert data(changed)["title"] == "Changed"
            await here.ask("PUT", f"/chats/{chat}/read", {"number": 0}, by="bob")
            await here.ask("DELETE", f"/chats/{chat}/shares/{id}", by="ann")
            gone = (await within(bob, POLL_INTERVAL + 1))[-1]
            assert (gone.event, data(gone)) == ("deleted", {"id": chat})
            await held.rename("Secret")
            assert await within(bob, POLL_INTERVAL + 1) == []
            assert await within(eve, 1) == []
        assert here.server.chat_list_notifier._followed == {}


async def test_a_shared_chat_that_is_deleted_is_told(db: Database, clock: Clock) -> None:
    async with neighbours(db, clock) as here:
        chat = await here.chat("ann")
        await share(here, chat)
        async with watching(here, "bob") as bob:
            await within(bob, 1)
            await here.ask("DELETE", f"/chats/{chat}", by="ann")
            (gone,) = await within(bob, POLL_INTERVAL + 1)
            assert (gone.event, data(gone)) == ("deleted", {"id": chat})


async def test_who_comes_back_is_told_what_is_shared_no_longer(db: Database, clock: Clock) -> None:
    async with neighbours(db, clock) as here:
        ended, deleted, expired, again = [await here.chat("ann") for _ in range(4)]
        shares = {chat: await share(here, chat) for chat in (ended, deleted, again)}
        await share(here, expired, expires_in=250)
        await anyio.sleep(200)
        cursor = str(clock.now())
        await anyio.sleep(100)
        await here.ask("DELETE", f"/chats/{ended}/shares/{shares[ended]}", by="ann")
        await here.ask("DELETE", f"/chats/{again}/shares/{shares[again]}", by="ann")
        await here.ask("DELETE", f"/chats/{deleted}", by="ann")
        await share(here, again)
        await anyio.sleep(100)
        async with watching(here, "bob", cursor) as bob:
            wires = await within(bob, 3 * POLL_INTERVAL)
        async with watching(here, "eve", cursor) as eve:
            assert await within(eve, 1) == []
    there = [data(wire)["id"] for wire in wires if wire.event == "chat"]
    gone = [data(wire)["id"] for wire in wires if wire.event == "deleted"]
    assert there == [again]
    assert sorted(gone) == sorted([ended, deleted, expired])


# --- files ---


async def uploaded(here: House, owner: str = "ann") -> None:
    hash = sha256(b"picture").hexdigest()
    await here.db.write(
        lambda tx: files.add_file(tx, "f1", owner, hash, b"picture", "image/png", None)
    )


async def with_file(here: House) -> Chat:
    """A chat of Ann's with a file."""
    await uploaded(here)
    part = File("image/png", ref="holdfast:f1")
    return await here.server.host.create([Text("look"), part], owner="ann")


async def imported(here: House, *parts: Part) -> Chat:
    """A chat of Ann's from elsewhere: what it names need not be there, nor be hers."""
    new = NewChat(id="c9", agent="agent", message=None, owner="ann")
    said = Stored(1, 1, user_message(list(parts)), "ann", 1)
    await here.db.write(lambda tx: restore(tx, new, [said]))
    return await here.server.host.chat("c9")


async def test_the_file_of_a_shared_chat_is_for_those_who_may_read_it_and_nobody_else(
    db: Database, clock: Clock
) -> None:
    async with neighbours(db, clock) as here:
        chat = await with_file(here)
        at = f"/chats/{chat.id}/files/f1"

        async def may(**who: Any) -> bool:
            headers = {"Authorization": f"Bearer {who.get('token') or here.tokens[who['by']]}"}
            async with here.client.get(f"{here.url}/api/v1{at}", headers=headers) as response:
                body = await response.read()
                assert response.status in (200, 404), body
                assert (body == b"picture") == (response.status == 200)
                return response.status == 200

        assert await may(by="ann")
        assert not await may(by="bob")
        await share(here, chat.id)
        link = (await here.ask("POST", f"/chats/{chat.id}/shares", {}, by="ann")).body["link"]
        assert await may(by="bob")
        assert await may(token=link)
        assert not await may(by="eve")
        assert (await here.ask("GET", "/files/f1", by="bob")).status == 404


@pytest.mark.parametrize("what", ["a file it does not name", "text", "of another owner"])
async def test_a_shared_chat_opens_no_other_file(db: Database, clock: Clock, what: str) -> None:
    async with neighbours(db, clock) as here:
        await uploaded(here, "eve" if what == "of another owner" else "ann")
        named = "f2" if what == "a file it does not name" else "f1"
        part = Text("see holdfast:f1") if what == "text" else File("a/b", ref=f"holdfast:{named}")
        chat = await imported(here, part)
        await share(here, chat.id)
        status, problem, _ = await here.ask("GET", f"/chats/{chat.id}/files/f1", by="bob")
        assert (status, problem["kind"]) == (404, "file_not_found")


async def test_the_file_of_a_message_that_waits_can_be_read_too(db: Database, clock: Clock) -> None:
    async with neighbours(db, clock) as here:
        await with_file(here)
        chats = Chats(db, clock)
        await chats.running("c1", owner="ann")
        await chats.commit("c1", answer("wait", asks("a")))
        held = await here.server.host.chat("c1")
        await held.send([Text("and this"), File("image/png", ref="holdfast:f1")])
        headers = {"Authorization": f"Bearer {here.tokens['ann']}"}
        url = f"{here.url}/api/v1/chats/c1/files/f1"
        async with here.client.get(url, headers=headers) as response:
            assert (response.status, await response.read()) == (200, b"picture")


# --- the end of a stream ---


async def test_a_deletion_is_told_as_one_also_when_its_notice_was_lost(
    db: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Feed, "receive_notice", lambda feed, notice: None)
    async with neighbours(db, clock) as here, AsyncExitStack() as stack:
        chat = await here.chat("ann")
        await share(here, chat)
        opened: list[Connection] = []
        for token in (here.tokens["ann"], here.tokens["bob"], await here.link(chat, by="ann")):
            api = Api(here.url, here.client, here.server, "")
            shown = {"Authorization": f"Bearer {token}"}
            watched = connected(api, chat, headers=shown)
            opened.append(await stack.enter_async_context(watched))
            await opened[-1].take(1)
        await here.ask("DELETE", f"/chats/{chat}", by="ann")
        with anyio.fail_after(7):
            for one in opened:
                assert [event_of(wire) async for wire in one.events()] == [END_DELETED]


# --- what an edit took out ---


async def edited(here: House, clock: Clock) -> str:
    """A chat of Ann's: what she said first, with a file, was taken out by an edit."""
    await uploaded(here)
    chats = Chats(here.db, clock)
    await chats.running("c1", owner="ann")
    await chats.commit("c1", answer("fine"))
    await chats.finish("c1")
    held = await here.server.host.chat("c1")
    await held.send([Text("a secret"), File("image/png", ref="holdfast:f1")])
    await chats.claim()
    await chats.commit("c1", answer("I see your secret"))
    await chats.finish("c1")
    await held.edit(3, "nothing")
    return "c1"


async def text_of(here: House, path: str, token: str) -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"}
    async with here.client.get(f"{here.url}/api/v1{path}", headers=headers) as response:
        return response.status, await response.text()


@pytest.mark.parametrize("how", ["user", "link"])
async def test_who_reads_what_is_shared_sees_only_the_live_history(
    db: Database, clock: Clock, how: str
) -> None:
    async with neighbours(db, clock) as here:
        chat = await edited(here, clock)
        shown = here.tokens["bob"]
        if how == "user":
            await share(here, chat)
        else:
            shown = (await here.ask("POST", f"/chats/{chat}/shares", {}, by="ann")).body["link"]
        for path in ("/messages?superseded=true", "/export", "/export?format=markdown"):
            ours = await text_of(here, f"/chats/{chat}{path}", here.tokens["ann"])
            theirs = await text_of(here, f"/chats/{chat}{path}", shown)
            assert (ours[0], "secret" in ours[1]) == (200, True), path
            assert (theirs[0], "secret" in theirs[1]) == (200, False), path
            assert "nothing" in theirs[1], path
        at = f"/chats/{chat}/files/f1"
        assert (await text_of(here, at, here.tokens["ann"]))[0] == 200
        assert (await text_of(here, at, shown))[0] == 404


@pytest.mark.parametrize("how", ["user", "link"])
async def test_the_budgets_of_an_owner_are_not_shared_with_a_chat(
    db: Database, clock: Clock, how: str
) -> None:
    """They tell what all chats of the owner have cost."""
    async with neighbours(db, clock) as here:
        chat = await here.chat("ann")
        shown = here.tokens["bob"]
        if how == "user":
            await share(here, chat)
        else:
            shown = (await here.ask("POST", f"/chats/{chat}/shares", {}, by="ann")).body["link"]
        path = f"/chats/{chat}/budget"
        assert (await text_of(here, path, here.tokens["ann"]))[0] == 200
        assert (await text_of(here, f"/chats/{chat}/usage", shown))[0] == 200
        assert (await text_of(here, path, shown))[0] == 403


async def test_what_a_reader_exports_can_be_imported(db: Database, clock: Clock) -> None:
    async with neighbours(db, clock) as here:
        chat = await edited(here, clock)
        await share(here, chat)
        _, exported = await text_of(here, f"/chats/{chat}/export", here.tokens["bob"])
        made = await here.server.host.restore(exported, agent="agent", owner="bob")
        live = await (await here.server.host.chat(chat)).history()
        assert await made.history() == live
        assert [stored.number for stored in await made.messages(superseded=True)] == [1, 2, 3]
