"""Who watches all chats of a user hears of each that is new or changes, from any time on."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from holdfast.chat.change_feed import POLL_INTERVAL
from holdfast.chat.deleted_or_unshared import lost_since
from holdfast.server import chat_list_stream
from holdfast.server.chat_list_stream import ChatListed, ChatListNotifier
from holdfast.server.event_codec import WireEvent
from holdfast.server.wire_format import from_json
from holdfast.store.database import Database
from holdfast.testing import Clock, call, pause
from tests.chat.chats import Chats, answer, asks
from tests.chat.test_stream import pay, slowly
from tests.server.api import agent, serving_api
from tests.server.streams.client import Connection, connected, frames, socket

pytestmark = pytest.mark.usefixtures("each_server")


def told(wires: list[WireEvent]) -> list[tuple[str, str]]:
    """Which chats, and as what."""
    return [(body["id"], body["status"]) for body in map(data, wires)]


def data(wire: WireEvent) -> Any:
    return from_json(wire.data, Any)


async def within(connection: Connection, seconds: float) -> list[WireEvent]:
    wires = []
    with anyio.move_on_after(seconds):
        async for wire in connection.events():
            wires.append(wire)
    return wires


async def test_each_chat_of_the_caller_is_told_as_it_changes(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent([slowly("hello")], clock)], clock=clock) as api:
        async with connected(api, None) as mine, connected(api.of("eve"), None) as others:
            await anyio.sleep(1)
            chat = await api.host.create("go", owner="ann")
            await chat.rest()
            await chat.rename("Greetings")
            wires = await within(mine, 2)
            assert {wire.event for wire in wires} == {"chat"}
            assert told(wires)[0] == (chat.id, "running")
            assert told(wires)[-1] == (chat.id, "idle")
            assert data(wires[-1])["title"] == "Greetings"
            versions = [data(wire)["snapshot_version"] for wire in wires]
            assert versions == sorted(set(versions)), "the same is told once"
            assert await within(others, 1) == []
        assert [wire.id for wire in wires] == sorted(str(wire.id) for wire in wires)


async def test_a_chat_that_waits_for_a_person_says_so(db: Database, clock: Clock) -> None:
    played = agent([[pause(1), call("pay", amount=3)]], clock, tools=[pay])
    async with serving_api(db, [played], clock=clock) as api, connected(api, None) as opened:
        chat = await api.host.create("go", owner="ann")
        await chat.rest()
        wires = await within(opened, 1)
    assert data(wires[0])["needs_me"] is False
    assert data(wires[-1])["needs_me"] is True


async def test_a_chat_says_so_when_one_that_it_set_to_work_waits_for_a_person(
    db: Database, clock: Clock
) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock, worker=None) as api:
        chats = Chats(db, clock)
        await chats.running("c1", owner="ann")
        await chats.child("c1", "c2")
        await chats.claim("child")
        await chats.commit("c2", answer("may I?", asks("a")))
        await anyio.sleep(200)
        async with connected(api, None) as opened:
            assert await within(opened, 1) == []
            await chats.bring_calls("c2", {"a": "waiting"})
            wires = await within(opened, 1)
    assert {data(wire)["id"]: data(wire)["needs_me"] for wire in wires} == {"c1": True, "c2": True}


async def test_what_the_caller_has_read_is_told_too(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent(["hello"], clock)], clock=clock) as api:
        async with connected(api, None) as opened:
            chat = await api.host.create("go", owner="ann")
            await chat.rest()
            unread = (await within(opened, 1))[-1]
            status, _, _ = await api.put(f"/chats/{chat.id}/read", {"number": 2})
            assert status < 300
            (read,) = await within(opened, 1)
    assert data(unread)["unread"] is True
    assert (data(read)["unread"], data(read)["read"]) == (False, 2)
    assert data(read)["snapshot_version"] == data(unread)["snapshot_version"]


async def test_who_comes_back_is_told_what_changed_since_less_a_minute(
    db: Database, clock: Clock
) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        old = await api.host.create(None, owner="ann")
        await anyio.sleep(100)
        recent = await api.host.create(None, owner="ann")
        await anyio.sleep(1)
        async with connected(api, None) as opened:
            first = await within(opened, 1)
        assert [id for id, _ in told(first)] == [recent.id]
        await anyio.sleep(100)
        missed = await api.host.create(None, owner="ann")
        async with connected(api, None, first[-1].id) as opened:
            again = await within(opened, 1)
        assert [id for id, _ in told(again)] == [recent.id, missed.id]
        async with connected(api, None, "1") as opened:
            everything = await within(opened, 1)
        assert [id for id, _ in told(everything)] == [old.id, recent.id, missed.id]


async def test_only_the_last_of_one_look_moves_the_cursor_on(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        for _ in range(3):
            await api.host.create(None, owner="ann")
        async with connected(api, None, "7") as opened:
            wires = await within(opened, 1)
    assert [wire.id for wire in wires] == ["7", "7", str(clock.now() - 1_000_000)]


async def test_who_missed_too_much_is_told_to_read_the_list(
    db: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_list_stream, "MAX_CHATS_SENT", 3)
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        for _ in range(4):
            await api.host.create(None, owner="ann")
        async with connected(api, None, "1") as opened:
            (wire,) = await within(opened, 1)
            assert (wire.event, data(wire)["what"]) == ("reset", "history")
            chat = await api.host.create(None, owner="ann")
            assert [id for id, _ in told(await within(opened, 2 * POLL_INTERVAL))] == [chat.id]


async def test_a_cursor_that_is_yet_to_come_is_answered_with_a_reset(
    db: Database, clock: Clock
) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        await api.host.create(None, owner="ann")
        await anyio.sleep(200)
        async with connected(api, None, str(clock.now() + 3600 * 1_000_000)) as opened:
            (wire,) = await within(opened, 3 * POLL_INTERVAL)
            assert (wire.event, data(wire)["what"]) == ("reset", "history")
            chat = await api.host.create(None, owner="ann")
            assert [id for id, _ in told(await within(opened, 2 * POLL_INTERVAL))] == [chat.id]
        assert wire.id is not None
        assert int(wire.id) <= clock.now()
        async with connected(api, None, wire.id) as opened:
            assert [id for id, _ in told(await within(opened, 2 * POLL_INTERVAL))] == [chat.id]


async def test_a_deleted_chat_is_told_to_those_who_are_there(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api, socket(api, None) as opened:
        await anyio.sleep(1)
        chat = await api.host.create(None, owner="ann")
        await anyio.sleep(1)
        await chat.delete()
        wires = []
        with anyio.move_on_after(1):
            async for wire in frames(opened):
                wires.append(wire)
    begun = wires.pop(0)
    assert (begun.event, begun.data) == ("beat", b"null")
    assert begun.id is not None
    assert [(wire.event, data(wire)["id"]) for wire in wires] == [
        ("chat", chat.id),
        ("deleted", chat.id),
    ]


async def test_without_notices_the_list_is_told_at_the_next_poll(
    db: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ChatListNotifier, "on_notice", lambda notifier, notice: None)
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        async with connected(api, None) as opened:
            await anyio.sleep(1)
            chat = await api.host.create(None, owner="ann")
            assert told(await within(opened, 1)) == []
            assert told(await within(opened, POLL_INTERVAL)) == [(chat.id, "idle")]
            assert await within(opened, 3 * POLL_INTERVAL) == [], "the same is told once"


async def test_a_crowd_of_changes_costs_few_looks(
    db: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0
    read = chat_list_stream.ChatListStream._read

    async def counted(*args: Any) -> Any:
        nonlocal looks
        looks += 1
        return await read(*args)

    monkeypatch.setattr(chat_list_stream.ChatListStream, "_read", counted)
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        async with connected(api, None) as opened, connected(api, None) as another:
            await anyio.sleep(1)
            looks = 0
            chat = await api.host.create(None, owner="ann")
            for number in range(50):
                await chat.rename(f"Title {number}")
                await anyio.sleep(0.02)
            wires, others = await within(opened, 1), await within(another, 1)
    assert looks <= 1 + 1 / chat_list_stream.QUERY_INTERVAL + 1
    assert data(wires[-1])["title"] == "Title 49"
    assert wires == others


async def test_what_is_gone_is_not_looked_for_when_all_that_was_heard_of_is_there(
    db: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    async def counted(*args: Any) -> Any:
        nonlocal looks
        looks += 1
        return await lost_since(*args)

    monkeypatch.setattr(chat_list_stream, "lost_since", counted)
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        async with connected(api, None) as opened:
            await anyio.sleep(POLL_INTERVAL + 0.1)  # so that the next whole look is not near
            looks = 0
            chat = await api.host.create(None, owner="ann")
            await anyio.sleep(1)
            await chat.rename("Found")
            await anyio.sleep(1)
            assert looks == 0
            await chat.delete()
            wires = await within(opened, 1)
    assert looks == 1
    assert [wire.event for wire in wires[-3:]] == ["chat", "chat", "deleted"]


async def test_a_chat_that_nothing_was_heard_of_is_told_when_it_is_deleted(
    db: Database, clock: Clock
) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        chat = await api.host.create(None, owner="ann")
        await anyio.sleep(200)
        async with connected(api, None) as mine, connected(api.of("eve"), None) as others:
            await anyio.sleep(1)
            await chat.delete()
            assert gone(await within(mine, 3 * POLL_INTERVAL)) == [chat.id]
            assert await within(others, 1) == []


async def test_each_deleted_chat_is_told_whatever_look_finds_it(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        async with connected(api, None) as opened:
            deleted = []
            for _ in range(60):  # at the looks for what was heard of, and at the whole ones
                chat = await api.host.create(None, owner="ann")
                await anyio.sleep(0.25)
                await chat.delete()
                await anyio.sleep(0.13)
                deleted.append(chat.id)
            wires = await within(opened, 3 * POLL_INTERVAL)
    assert gone([wire for wire in wires if wire.event == "deleted"]) == deleted


async def test_without_notices_a_deleted_chat_is_told_at_the_next_poll(
    db: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ChatListNotifier, "on_notice", lambda notifier, notice: None)
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        chat = await api.host.create(None, owner="ann")
        await anyio.sleep(200)
        async with connected(api, None) as opened:
            await anyio.sleep(1)
            await chat.delete()
            assert gone(await within(opened, 2 * POLL_INTERVAL)) == [chat.id]
            assert await within(opened, 100) == [], "the same is told once"


async def test_who_comes_back_is_told_what_was_deleted_read_and_pinned_meanwhile(
    db: Database, clock: Clock
) -> None:
    async with serving_api(db, [agent(["hello", "hello"], clock)], clock=clock) as api:
        read = await api.host.create("go", owner="ann")
        pinned = await api.host.create("go", owner="ann")
        deleted = await api.host.create(None, owner="ann")
        for chat in (read, pinned):
            await chat.rest()
        await anyio.sleep(200)
        cursor = str(clock.now())
        await anyio.sleep(100)
        await api.put(f"/chats/{read.id}/read", {"number": 2})
        await api.patch(f"/chats/{pinned.id}", {"pinned": True})
        await deleted.delete()
        await anyio.sleep(100)
        async with connected(api, None, cursor) as opened:
            *chats, last = await within(opened, 1)
            assert await within(opened, 3 * POLL_INTERVAL) == [], "the same is told once"
    assert gone([last]) == [deleted.id]
    told_of = {data(wire)["id"]: (data(wire)["read"], data(wire)["pinned"]) for wire in chats}
    assert told_of == {read.id: (2, False), pinned.id: (0, True)}


async def test_who_missed_too_many_deletions_is_told_to_read_the_list(
    db: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chat_list_stream, "MAX_CHATS_SENT", 3)
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        for _ in range(4):
            await (await api.host.create(None, owner="ann")).delete()
        async with connected(api, None, "1") as opened:
            (wire,) = await within(opened, 2 * POLL_INTERVAL)
    assert (wire.event, data(wire)["what"]) == ("reset", "history")


async def test_who_was_told_nothing_yet_can_come_back_all_the_same(
    db: Database, clock: Clock
) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        chat = await api.host.create(None, owner="ann")
        await anyio.sleep(200)
        async with connected(api, None) as opened:
            assert await within(opened, 1) == []
        await chat.rename("Changed")
        await anyio.sleep(200)
        assert opened.began is not None
        async with connected(api, None, opened.began) as again:
            assert [id for id, _ in told(await within(again, 1))] == [chat.id]
        assert again.began is None


async def test_who_was_told_something_else_does_not_join(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        chat = await api.host.create(None, owner="ann")
        feed, rosters = api.host.feed, api.server.chat_list_notifier
        first, second = (
            chat_list_stream.ChatListStream(feed, rosters, "ann", None) for _ in range(2)
        )

        async def told_of(who: chat_list_stream.ChatListStream) -> list[bool]:
            await who.look()
            return [event.chat.pinned for event in who.take() if isinstance(event, ChatListed)]

        assert await told_of(first) == [False]
        heard = anyio.Event()
        first.when_roused(heard.set)
        await api.patch(f"/chats/{chat.id}", {"pinned": True})
        assert await told_of(second) == [True]
        assert not second.joins(first), "it is not told again that it is pinned no longer"
        await heard.wait()  # whose chat it is has to be asked for first
        await told_of(first)
        await told_of(second)
        assert second.joins(first)
        first.close()
        second.close()


def gone(wires: list[WireEvent]) -> list[str]:
    assert {wire.event for wire in wires} <= {"deleted"}
    return [data(wire)["id"] for wire in wires]
