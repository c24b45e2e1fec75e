"""A request to a chat reads what it needs once, and changes the chat in one transaction."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from holdfast.chat.transitions import lifecycle
from holdfast.server.identity.expiring_cache import CACHE_SECONDS
from holdfast.store.database import Database
from holdfast.testing import Clock
from tests.server.identity.team_server import House, house


class CountingDatabase:
    """A database that lists its transactions."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.kinds: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name in ("read", "write", "write_together"):
            self.kinds.append(name)
        return getattr(self._db, name)

    async def of(self, here: House, method: str, path: str, body: Any = None) -> list[str]:
        """The transactions of a request that succeeds."""
        self.kinds.clear()
        headers = {} if method == "GET" else {"Idempotency-Key": f"{method} {path} {body}"}
        answer = await here.ask(method, path, body, by="ann", headers=headers)
        assert answer.status < 300, answer.body
        return list(self.kinds)


@asynccontextmanager
async def of_ann(db: Database, clock: Clock) -> AsyncIterator[tuple[House, CountingDatabase, str]]:
    """A server, its counting database, and a chat of Ann, whose token was just used."""
    counting: Any = CountingDatabase(db)
    async with house(counting, clock) as here:
        await here.user("ann")
        assert (await here.ask("GET", "/me", by="ann")).status == 200
        yield here, counting, await here.chat("ann")


CHANGES: list[tuple[str, str, Any]] = [
    ("POST", "/messages", {"prompt": "hello"}),
    ("POST", "/interrupt", None),
    ("PATCH", "", {"title": "new"}),
    ("PUT", "/read", {"number": 0}),
]
QUERIES = ["", "/messages", "/queue", "/actions", "/usage", "/result", "/shares"]


@pytest.mark.parametrize(("method", "path", "body"), CHANGES)
async def test_a_change_reads_the_chat_for_authorisation_alone(
    db: Database, clock: Clock, method: str, path: str, body: Any
) -> None:
    async with of_ann(db, clock) as (here, counting, chat):
        path = f"/chats/{chat}{path}"
        assert await counting.of(here, method, path, body) == ["read", "write"]


@pytest.mark.parametrize(("method", "path", "body"), CHANGES)
async def test_a_change_of_a_chat_in_use_is_one_transaction(
    db: Database, clock: Clock, method: str, path: str, body: Any
) -> None:
    async with of_ann(db, clock) as (here, counting, chat):
        await counting.of(here, "GET", f"/chats/{chat}")
        assert await counting.of(here, method, f"/chats/{chat}{path}", body) == ["write"]


@pytest.mark.parametrize("path", QUERIES)
async def test_a_query_of_a_chat_in_use_is_one_read(db: Database, clock: Clock, path: str) -> None:
    async with of_ann(db, clock) as (here, counting, chat):
        await counting.of(here, "GET", f"/chats/{chat}")
        assert await counting.of(here, "GET", f"/chats/{chat}{path}") == ["read"]


@pytest.mark.parametrize(
    ("method", "path", "body"), [*CHANGES, *[("GET", path, None) for path in QUERIES[:-1]]]
)
@pytest.mark.parametrize("seconds", [0, CACHE_SECONDS])
async def test_a_chat_that_was_deleted_after_it_was_authorised_is_not_found(
    db: Database, clock: Clock, method: str, path: str, body: Any, seconds: float
) -> None:
    async with of_ann(db, clock) as (here, counting, chat):
        await counting.of(here, "GET", f"/chats/{chat}")
        await db.write(lambda tx: lifecycle.delete(tx, chat))
        await anyio.sleep(seconds)
        answer = await here.ask(method, f"/chats/{chat}{path}", body, by="ann")
        assert (answer.status, answer.kind) == (404, "chat_not_found")


async def test_a_user_whose_share_was_revoked_reads_nothing_more(
    db: Database, clock: Clock
) -> None:
    async with of_ann(db, clock) as (here, _, chat):
        await here.user("bob")
        share = await here.share_with(chat, "ann", "bob")
        for path in QUERIES[:-1]:
            assert (await here.ask("GET", f"/chats/{chat}{path}", by="bob")).status == 200
        sent = await here.ask("POST", f"/chats/{chat}/messages", {"prompt": "hi"}, by="bob")
        assert (sent.status, sent.kind) == (403, "forbidden")
        revoked = await here.ask("DELETE", f"/chats/{chat}/shares/{share}", by="ann")
        assert revoked.status == 204
        await anyio.sleep(CACHE_SECONDS)
        for path in QUERIES[:-1]:
            answer = await here.ask("GET", f"/chats/{chat}{path}", by="bob")
            assert (answer.status, answer.kind) == (404, "chat_not_found")
