"""The floor of durable steps: the same two transactions per step, written by hand.

Each is an UPDATE of the chat that names its owner and version, and an INSERT of a message. SQLite
runs on the event loop, without a thread. On PostgreSQL there are two floors: BEGIN, UPDATE, INSERT,
COMMIT, and one statement that does both.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, TypeAlias, cast
from uuid import uuid4

import msgspec

from bench.durable_work import Taken, show, sizes

TABLES: Final = (
    "CREATE TABLE IF NOT EXISTS chats (id text PRIMARY KEY, epoch bigint NOT NULL,"
    " status text NOT NULL, version bigint NOT NULL, messages bigint NOT NULL,"
    " updated_at bigint NOT NULL)",
    "CREATE TABLE IF NOT EXISTS messages (chat_id text NOT NULL, number bigint NOT NULL,"
    " revision bigint NOT NULL, role text NOT NULL, kind text NOT NULL, visibility text NOT NULL,"
    " body text NOT NULL, epoch bigint, created_at bigint NOT NULL, PRIMARY KEY (chat_id, number))",
)
CREATE: Final = "INSERT INTO chats VALUES ($1, 1, 'running', 1, 0, $2)"
UPDATE: Final = (
    "UPDATE chats SET version = version + 1, messages = messages + 1, updated_at = $3"
    " WHERE id = $1 AND epoch = 1 AND status = 'running' AND version = $2"
    " RETURNING version, messages"
)
INSERT: Final = "INSERT INTO messages VALUES ($1, $2, $3, $4, $5, 'both', $6, 1, $7)"
BOTH: Final = (
    f"WITH changed AS ({UPDATE}) INSERT INTO messages"
    " SELECT $1, messages, version, $4, $5, 'both', $6, 1, $3 FROM changed RETURNING revision"
)

Message: TypeAlias = dict[str, Any]
Commit: TypeAlias = Callable[[str, int, Message], Awaitable[int]]
"""Commits a message to a chat that has this version; returns the new version."""


def called(number: int) -> Message:
    call = {"type": "call", "id": f"c{number}", "tool": "tick", "arguments": '{"x": 1}'}
    return {
        "role": "assistant",
        "parts": [{**call, "called_at": time.time_ns() // 1_000}],
        "kind": "answer",
        "finish": "tool_calls",
        "model": "bench:model",
    }


def result(number: int, text: str) -> Message:
    content = [{"type": "text", "text": text}]
    part = {"type": "result", "call_id": f"c{number}", "tool": "tick", "content": content}
    return {"role": "tool", "parts": [part], "kind": "results"}


async def tick(x: int) -> str:
    return "ok"


async def agent(commit: Commit, chat: str, steps: int) -> None:
    version = 1
    for number in range(1, 2 * steps, 2):
        answer = called(number)
        version = await commit(chat, version, answer)
        text = await tick(**msgspec.json.decode(answer["parts"][0]["arguments"]))
        version = await commit(chat, version, result(number, text))


def row(message: Message) -> tuple[str, str, str]:
    return message["role"], message["kind"], msgspec.json.encode(message).decode()


def now() -> int:
    return time.time_ns() // 1_000


class Floor:
    """A database with the two tables, and one or two ways to commit a message."""

    def __init__(self, create: Callable[[], Awaitable[str]], **ways: Commit) -> None:
        self.ways = ways
        self._create = create

    async def drive(self, commit: Commit, chats: int, steps: int) -> None:
        async def one() -> None:
            await agent(commit, await self._create(), steps)

        await asyncio.gather(*(one() for _ in range(chats)))


def opened(target: str) -> AbstractAsyncContextManager[Floor]:
    return postgres(target) if target.startswith("postgresql:") else sqlite(target)


@asynccontextmanager
async def sqlite(target: str) -> AsyncIterator[Floor]:
    import apsw

    connection = apsw.Connection(target)
    connection.pragma("journal_mode", "WAL")
    connection.pragma("synchronous", "FULL")
    execute = connection.cursor().execute
    for table in TABLES:
        execute(table.replace("bigint", "integer") + " STRICT, WITHOUT ROWID")
    create_chat, update, insert = (each.replace("$", "?") for each in (CREATE, UPDATE, INSERT))

    async def commit(chat: str, version: int, message: Message) -> int:
        at = now()
        execute("BEGIN IMMEDIATE")
        ((new, number),) = execute(update, (chat, version, at)).fetchall()
        execute(insert, (chat, number, new, *row(message), at))
        execute("COMMIT")
        await asyncio.sleep(0)  # otherwise the chats would run one after the other
        return cast(int, new)

    async def create() -> str:
        chat = str(uuid4())
        execute(create_chat, (chat, now()))
        return chat

    try:
        yield Floor(create, floor=commit)
    finally:
        connection.close()


@asynccontextmanager
async def postgres(target: str) -> AsyncIterator[Floor]:
    import asyncpg

    async def reset(_: Any) -> None:
        """Do nothing: the pool's own reset would cost a round trip for each use of a connection."""

    async with asyncpg.create_pool(target, min_size=20, max_size=20, reset=reset) as pool:
        for table in TABLES:
            await pool.execute(table)

        async def commit(chat: str, version: int, message: Message) -> int:
            at = now()
            async with pool.acquire() as connection, connection.transaction():
                changed = await connection.fetchrow(UPDATE, chat, version, at)
                new, number = cast(asyncpg.Record, changed)
                await connection.execute(INSERT, chat, number, new, *row(message), at)
            return cast(int, new)

        async def commit_in_one(chat: str, version: int, message: Message) -> int:
            return cast(int, await pool.fetchval(BOTH, chat, version, now(), *row(message)))

        async def create() -> str:
            chat = str(uuid4())
            await pool.execute(CREATE, chat, now())
            return chat

        yield Floor(create, floor=commit, one_statement=commit_in_one)


async def main() -> None:
    async with opened(os.environ["BENCH_TARGET"]) as floor:
        for who, commit in floor.ways.items():
            await floor.drive(commit, 1, 20)  # warm up
            for chats, steps in sizes():
                taken = Taken()
                await floor.drive(commit, chats, steps)
                show(who=who, chats=chats, **taken.per(chats * steps))


if __name__ == "__main__":
    asyncio.run(main())
