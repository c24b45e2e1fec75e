"""A client cut anywhere that comes back to any server ends with what is in the database."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

import anyio
import pytest

from holdfast.chat.change_feed import POLL_INTERVAL, Feed
from holdfast.chat.handle import Chat
from holdfast.chat.stream import Cursor
from holdfast.kernel.messages import encode
from holdfast.server.event_codec import event_of, wire_of
from holdfast.store.database import Database, Row, Tx
from holdfast.testing import Clock
from tests.chat.test_stream import TURN, look, pay, play, slowly
from tests.databases import OpenDatabase
from tests.server.api import Api, agent, serving_api
from tests.server.streams.client import Watching, connected, crowd

pytestmark = pytest.mark.usefixtures("each_server")


async def bodies(db: Database, chat_id: str) -> Sequence[Row]:
    async def read(tx: Tx) -> Sequence[Row]:
        return await tx.fetch(
            """
            SELECT number, body FROM messages
             WHERE chat_id = :id AND superseded_at IS NULL ORDER BY number
            """,
            {"id": chat_id},
        )

    return [tuple(row) for row in await db.read(read)]


async def assert_as_stored(db: Database, chat: Chat, watcher: Watching) -> None:
    """Byte for byte."""
    seen = [
        (number, encode(watcher.messages[number].message).decode()) for number in watcher.numbers
    ]
    assert seen == await bodies(db, chat.id)
    assert watcher.chat == await chat.read()
    assert watcher.queue == await chat.queue.list()
    assert watcher.actions == await chat.actions()
    assert watcher.fragments == []


SCRIPT: Sequence[Any] = [*TURN, slowly("You are welcome.")]
CUTS = 90


async def test_a_client_cut_at_any_event_ends_with_what_is_in_the_database(
    db: Database, open_db: OpenDatabase, clock: Clock
) -> None:
    whole = Watching()
    here = [Watching() for _ in range(CUTS)]
    there = [Watching() for _ in range(CUTS)]

    async def leave_once(watcher: Watching, at: int, then: Api) -> None:
        await watcher.follow(api, chat.id, at)
        await anyio.sleep(at % 4)
        await watcher.follow(then, chat.id)

    async with AsyncExitStack() as stack:
        played = agent(SCRIPT, clock, tools=[look, pay])
        api = await stack.enter_async_context(serving_api(db, [played], clock=clock))
        also = db
        if db.dialect.name == "postgres":
            also = await stack.enter_async_context(open_db())
        other = await stack.enter_async_context(
            serving_api(also, [played], clock=clock, worker=None)
        )
        api = await stack.enter_async_context(crowd(api))
        other = await stack.enter_async_context(crowd(other))
        chat = await api.host.create("go", owner="ann")
        async with anyio.create_task_group() as group:
            group.start_soon(play, chat)
            group.start_soon(whole.follow, api, chat.id)
            for at in range(1, CUTS + 1):
                group.start_soon(leave_once, here[at - 1], at, api)
                group.start_soon(leave_once, there[at - 1], at, other)
        for watcher in (whole, *here, *there):
            await assert_as_stored(db, chat, watcher)
    assert len(whole.events) <= CUTS, "clients are to be cut at every event"
    kinds = {wire_of(event).event for event in whole.events}
    assert kinds == {"chat", "message", "queue", "actions", "delta", "reset"}, "or of every kind"
    answers = [text for _, text in whole.finished]
    assert [shown for shown, _ in whole.finished] == answers, "the deltas are not the answer"


async def test_every_event_is_read_back_as_it_was_said(db: Database, clock: Clock) -> None:
    watcher = Watching()
    async with serving_api(db, [agent(SCRIPT, clock, tools=[look, pay])], clock=clock) as api:
        chat = await api.host.create("go", owner="ann")
        async with anyio.create_task_group() as group:
            group.start_soon(play, chat)
            group.start_soon(watcher.follow, api, chat.id)
        await chat.edit(1, "go elsewhere")
        await watcher.follow(api, chat.id, 3)
    for event in watcher.events:
        assert event_of(wire_of(event)) == event
    kinds = {wire_of(event).event for event in watcher.events}
    assert kinds == {"chat", "message", "superseded", "queue", "actions", "delta", "reset"}


async def test_with_all_notices_lost_a_client_still_gets_everything(
    db: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    watchers = [Watching() for _ in range(3)]
    async with serving_api(db, [agent([slowly("one, two")], clock)], clock=clock) as api:
        monkeypatch.setattr(Feed, "receive_notice", lambda feed, notice: None)
        async with serving_api(db, [agent((), clock)], clock=clock, worker=None) as silent:
            chat = await api.host.create("go", owner="ann")
            async with anyio.create_task_group() as group:
                for watcher in watchers:
                    group.start_soon(watcher.follow, silent, chat.id)
                await chat.rest()
            for watcher in watchers:
                await assert_as_stored(db, chat, watcher)
            assert anyio.current_time() > POLL_INTERVAL, "it was heard of after all"


async def test_a_cursor_may_stand_in_the_url_and_the_header_wins(
    db: Database, clock: Clock
) -> None:
    async with serving_api(db, [agent(["hello"], clock)], clock=clock) as api:
        chat = await api.host.create("go", owner="ann")
        await chat.rest()
        async with connected(api, chat.id) as opened:
            *_, last = await opened.take(3)
        assert last.id is not None
        for in_url in (True, False):
            async with connected(api, chat.id, last.id, in_url=in_url) as again:
                (first,) = await again.take(1)
            assert (first.event, first.id) == ("chat", last.id)
        headers = {"Last-Event-ID": last.id, "X-Test-User": "ann"}
        url = f"{api.url}/api/v1/chats/{chat.id}/stream?cursor=no-cursor"
        async with api.session.get(url, headers=headers) as response:
            assert response.status == 200


async def test_what_is_no_cursor_is_refused(db: Database, clock: Clock) -> None:
    async with serving_api(db, [agent((), clock)], clock=clock) as api:
        chat = await api.host.create(None, owner="ann")
        for path in (f"/chats/{chat.id}/stream", "/stream"):
            status, problem, _ = await api.get(path, cursor="yesterday")
            assert (status, problem["kind"]) == (422, "invalid_input")


async def test_a_cursor_that_the_chat_never_had_begins_with_a_new_page(
    db: Database, clock: Clock
) -> None:
    async with serving_api(db, [agent(["hello"], clock)], clock=clock) as api:
        chat = await api.host.create("go", owner="ann")
        await chat.rest()
        async with connected(api, chat.id, str(Cursor(900))) as opened:
            wires = await opened.take(4)
        assert [wire.event for wire in wires] == ["chat", "reset", "message", "message"]
