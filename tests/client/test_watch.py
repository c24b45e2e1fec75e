"""All chats of a user, as they change, over any number of connections."""

from __future__ import annotations

import anyio
import pytest

from holdfast.chat.errors import InvalidInput
from holdfast.client.connect import connect
from holdfast.client.errors import RemoteError
from holdfast.server.chat_list_stream import (
    ChatDeleted,
    ChatListed,
    ChatListEvent,
    ListCursor,
    ListStart,
    ListVoid,
)
from holdfast.server.event_codec import list_event_of, wire_of
from holdfast.store.database import Database
from holdfast.testing import Clock
from tests.chat.test_stream import slowly
from tests.client.served import ANN, Bearer, connected, proxied
from tests.server.api import agent


async def test_whoever_watches_hears_of_each_chat_that_is_new_changes_or_goes(
    db: Database, clock: Clock
) -> None:
    played = agent([slowly("hello")], clock)
    async with connected(db, [played], clock) as (api, far), far.watch() as watch:
        await api.host.create(None, title="of somebody else", owner="bob")
        chat = await far.create("go")
        events: list[ChatListEvent] = []
        with anyio.fail_after(60):
            async for event in watch:
                events.append(event)
                if isinstance(event, ChatListed) and event.chat.status == "idle":
                    break
        assert {e.chat.id for e in events if isinstance(e, ChatListed)} == {chat.id}
        versions = [e.chat.snapshot_version for e in events if isinstance(e, ChatListed)]
        assert versions == sorted(set(versions))
        assert versions[-1] == (await chat.read()).snapshot_version
        await chat.delete()
        with anyio.fail_after(60):
            last = await anext(watch)
        assert isinstance(last, ChatDeleted)
        assert last.id == chat.id
        for event in (*events, last, ListVoid(ListCursor(7)), ListStart(ListCursor(7))):
            assert list_event_of(wire_of(event)) == event


async def test_a_watch_from_a_cursor_that_is_yet_to_come_goes_back(
    db: Database, clock: Clock
) -> None:
    async with connected(db, [agent((), clock)], clock) as (_, far):
        later = ListCursor(clock.now() + 3600 * 1_000_000)
        async with far.watch(later) as watch:
            with anyio.fail_after(60):
                event = await anext(watch)
        assert isinstance(event, ListVoid)
        assert watch.cursor == event.cursor < later


async def test_a_watch_that_is_cut_goes_on_and_says_nothing_twice(
    db: Database, clock: Clock
) -> None:
    told: list[tuple[str, int]] = []
    async with (
        connected(db, [agent((), clock)], clock) as (api, far),
        proxied(api.url) as proxy,
        connect(proxy.url, ANN) as host,
        host.watch() as watch,
    ):
        proxy.cut_after = lambda asked: 3_000
        made = await far.create(None, title="0")

        async def rename() -> None:
            for number in range(1, 20):
                await anyio.sleep(1)
                await made.rename(str(number))

        async with anyio.create_task_group() as group:
            group.start_soon(rename)
            async for event in watch:
                assert isinstance(event, ChatListed)
                told.append((event.chat.title or "", event.chat.snapshot_version))
                if event.chat.title == "19":
                    break
        assert proxy.connections > 3
        cursor = watch.cursor
        async with host.watch(str(cursor)) as again:
            assert (await anext(again)).cursor >= cursor
    assert told == sorted(set(told), key=lambda pair: pair[1])
    assert told[0][0] == "0"


async def test_a_watch_ends_with_the_token_and_refuses_what_is_no_cursor(
    db: Database, clock: Clock
) -> None:
    identity = Bearer(db)
    async with connected(db, [agent((), clock)], clock, identity=identity) as (_, far):
        with pytest.raises(InvalidInput, match="is not a cursor"):
            far.watch("1.2.3")
        await far.create(None)
        async with far.watch() as watch:
            await anext(watch)
            identity.revoked.add(ANN)
            with anyio.fail_after(10), pytest.raises(RemoteError, match="revoked"):
                await anext(watch)


async def test_a_watch_that_is_cut_says_once_what_was_deleted(db: Database, clock: Clock) -> None:
    async with (
        connected(db, [agent((), clock)], clock) as (api, far),
        proxied(api.url) as proxy,
        connect(proxy.url, ANN) as host,
        host.watch() as watch,
    ):
        proxy.cut_after = lambda asked: 3_000
        kept, deleted = await far.create(None, title="0"), await far.create(None)

        async def change() -> None:
            await anyio.sleep(1)
            await deleted.delete()
            for number in range(1, 20):
                await anyio.sleep(1)
                await kept.rename(str(number))

        gone: list[str] = []
        async with anyio.create_task_group() as group:
            group.start_soon(change)
            async for event in watch:
                if isinstance(event, ChatDeleted):
                    gone.append(event.id)
                elif isinstance(event, ChatListed) and event.chat.title == "19":
                    break
        assert proxy.connections > 3
    assert gone == [deleted.id]


async def test_a_watch_that_has_heard_nothing_yet_comes_back_and_misses_nothing(
    db: Database, clock: Clock
) -> None:
    async with (
        connected(db, [agent((), clock)], clock) as (api, far),
        proxied(api.url) as proxy,
        connect(proxy.url, ANN) as host,
        host.watch() as watch,
    ):
        chat = await far.create(None)
        await anyio.sleep(200)
        told: list[ChatListEvent] = []

        async def read() -> None:
            async for event in watch:
                told.append(event)

        async with anyio.create_task_group() as group:
            group.start_soon(read)
            await anyio.sleep(5)
            assert (told, watch.cursor > ListCursor(0)) == ([], True)
            proxy.cut_after = lambda asked: 0
            await proxy.cut()
            await chat.rename("Changed")
            await anyio.sleep(100)
            proxy.cut_after = lambda asked: None
            await anyio.sleep(100)
            group.cancel_scope.cancel()
    assert [event.chat.title for event in told if isinstance(event, ChatListed)] == ["Changed"]
