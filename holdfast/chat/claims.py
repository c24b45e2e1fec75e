"""Who drives which chat: claims, the lease of a worker, and chats that kill whoever claims them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct, json
from msgspec.structs import replace

from holdfast.chat.errors import Corrupt
from holdfast.chat.locked import Locked, close_all, fence_of, lock_if_there, now_of
from holdfast.chat.queries import read_partial
from holdfast.chat.state import IS_BUSY, NAMES, SELECT_CHAT, Chat, Rest, Status, chat_of
from holdfast.kernel.errors import KINDS, Failure
from holdfast.kernel.messages import encode
from holdfast.store.database import Row, Tx

LOG: Final = logging.getLogger("holdfast")
POISON: Final = 3
"""Claims in a row that found an owner dead, after which a chat is parked."""


class Worker(Struct, frozen=True, kw_only=True):
    """A process that drives chats."""

    id: str
    agents: tuple[str, ...]
    url: str | None = None
    lease: int
    """Microseconds without a heartbeat after which it is taken for dead."""
    alone: bool = False
    """Nobody else can write to this database: whoever else owns a chat is dead."""


async def beat(tx: Tx, worker: Worker) -> None:
    """Say that this worker is alive: the lease of all its chats."""
    await tx.execute(
        f"""
        INSERT INTO workers (id, url, agents, started_at, beat_at)
        VALUES (:id, :url, :agents, {tx.dialect.now}, {tx.dialect.now})
        ON CONFLICT (id) DO UPDATE SET beat_at = excluded.beat_at
        """,
        {"id": worker.id, "url": worker.url, "agents": encode(worker.agents).decode()},
    )


async def leave(tx: Tx, worker_id: str) -> None:
    await tx.execute("DELETE FROM workers WHERE id = :id", {"id": worker_id})


async def forget_dead(tx: Tx, lease: int) -> None:
    """Remove the rows of workers that nobody waits for any more."""
    await tx.execute(FORGET_DEAD.format(now=tx.dialect.now), {"age": 100 * lease})


FORGET_DEAD: Final = f"""
    DELETE FROM workers
     WHERE beat_at < {{now}} - :age
       AND NOT EXISTS (SELECT 1 FROM chats c
                        WHERE c.worker_id = workers.id
                          AND c.{IS_BUSY})
    """
"""A chat at rest belongs to nobody: only busy ones are looked through, by their index."""


DUE: Final = f"""
    (c.deadline <= :at
     OR (EXISTS (SELECT 1 FROM awaited a WHERE a.chat_id = c.id)
         AND NOT EXISTS (SELECT 1 FROM awaited a JOIN chats k ON k.id = a.child_id
                          WHERE a.chat_id = c.id
                            AND k.{IS_BUSY}))
     OR EXISTS (SELECT 1 FROM tool_calls t
                 WHERE t.chat_id = c.id AND t.state = 'waiting' AND t.action = 'child'
                   AND NOT EXISTS (SELECT 1 FROM awaited a
                                    WHERE a.chat_id = c.id AND a.call_id = t.call_id)))
    """
"""A deadline has passed, or the awaited children are at rest or gone."""
Pool = Literal["urgent", "root", "child"]
WANTED: Final[dict[Pool, str]] = {
    "urgent": f"(c.status = 'interrupting' OR (c.status = 'requires_action' AND {DUE}))",
    "root": "c.status = 'running' AND (c.retry_at IS NULL OR c.retry_at <= :at)"
    " AND c.parent_id IS NULL",
    "child": "c.status = 'running' AND (c.retry_at IS NULL OR c.retry_at <= :at)"
    " AND c.parent_id IS NOT NULL",
}
"""What is runnable. Interrupts and due actions are soon done, and wait for no capacity."""


LONGEST: Final = "c.runnable_since"
ORDER: Final[dict[Pool, str]] = {
    # An action is due since its deadline. Where NULLs sort is not the same everywhere.
    "urgent": "CASE c.status WHEN 'interrupting' THEN 0 ELSE 1 END,"
    " COALESCE(c.runnable_since, c.deadline, c.updated_at)",
    "root": LONGEST,
    "child": LONGEST,
}


async def claim(tx: Tx, worker: Worker, limits: Mapping[Pool, int]) -> dict[Pool, list[Chat]]:
    """Take chats that want a worker and have none that lives, longest waiting first: of each pool
    as many as its limit says.

    One that was found dead too often is parked in error, and is not among them.
    """
    now = await now_of(tx)
    return {pool: await _claim(tx, worker, pool, limit, now) for pool, limit in limits.items()}


async def _claim(tx: Tx, worker: Worker, pool: Pool, limit: int, now: int) -> list[Chat]:
    claimed: list[Chat] = []
    unreadable: list[str] = []
    while len(claimed) < limit:
        rows = await _wanted(tx, worker, pool, limit - len(claimed), now, unreadable)
        places = len(claimed) + len(rows)
        taken: list[Locked] = []
        for at, *row in rows:
            try:
                taken.append(await _take(Locked(tx, chat_of(row), at), worker))
            except Corrupt as error:  # found as it was locked: nothing was written
                LOG.error("nobody can drive chat %s: %s", error.chat, error)
                unreadable.append(error.chat)
        chats = await close_all(tx, taken)
        claimed += [chat for chat in chats if chat.worker_id == worker.id]  # or it was parked
        if len(claimed) == places:
            break  # whoever could not be taken leaves a place to the next
    return claimed


async def _wanted(
    tx: Tx, worker: Worker, pool: Pool, limit: int, now: int, but: Sequence[str]
) -> Sequence[Row]:
    """Lock chats that a worker may take, and that nobody else has locked: the time, and the chat.

    As `lock` reads them: one that waited for its own turn would be read a second time.
    """
    others = f"AND NOT {tx.dialect.one_of('c.id', 'but')}" if but else ""
    return await tx.fetch(
        f"""
        SELECT {tx.dialect.now}, {", ".join(f"c.{name}" for name in NAMES)} FROM chats c
         WHERE c.archived = 0 AND c.{IS_BUSY} AND {WANTED[pool]}
           AND {tx.dialect.one_of("c.agent", "agents")}
           AND (c.worker_id IS NULL OR (c.worker_id <> :me AND {_dead(worker)})) {others}
         ORDER BY {ORDER[pool]}, c.id
         LIMIT :limit {tx.dialect.skip_locked.replace("UPDATE", "UPDATE OF c")}
        """,
        {
            "at": now,
            "agents": list(worker.agents),
            "me": worker.id,
            "limit": limit,
            **({"but": list(but)} if but else {}),
            **({} if worker.alone else {"stale": now - worker.lease}),
        },
    )


def _dead(worker: Worker) -> str:
    if worker.alone:
        return "1 = 1"
    return "NOT EXISTS (SELECT 1 FROM workers w WHERE w.id = c.worker_id AND w.beat_at > :stale)"


async def claim_again(tx: Tx, worker: Worker, dropped: Chat) -> Chat | None:
    """Take a chat that is this worker's, and that whoever drove it here left behind by a defect.

    That counts as a death: one that happens again and again has to come to an end too.
    """
    locked = await lock_if_there(tx, dropped.id)
    if locked is None or fence_of(locked.chat) != fence_of(dropped):
        return None  # somebody did something to it meanwhile: the next look will tell
    if locked.chat.worker_id != worker.id:
        return None
    chat = await (await _take(locked, worker)).close()
    return chat if chat.worker_id == worker.id else None


async def _take(locked: Locked, worker: Worker) -> Locked:
    """What a claim makes of a chat: whoever locked it closes it."""
    chat = locked.chat
    crashes = chat.crashes + (chat.worker_id is not None)
    locked.set(crashes=crashes, epoch=chat.epoch + 1, worker_id=worker.id)
    if crashes >= POISON:
        await _park(locked, crashes)
    return locked


async def _park(locked: Locked, crashes: int) -> None:
    """Stop a chat that kills whoever claims it. What had arrived of an answer is for people."""
    partial = await read_partial(locked.tx, locked.chat.id)
    if partial is not None:
        await locked.append([replace(partial.message, visibility="user", finish="error")])
    await locked.tx.execute("DELETE FROM partials WHERE chat_id = :id", {"id": locked.chat.id})
    detail = f"{crashes} workers in a row died while they had it"
    locked.set(
        status=Status.ERROR,
        error=Failure("poison", KINDS["poison"].sentence, detail),
        outcome=Rest("error"),
        worker_id=None,
        crashes=0,
        retry=None,
        retry_at=None,
        compaction=None,
        deadline=None,
    )


class Owner(Struct, frozen=True):
    """Who drives a chat, and where it is reached."""

    id: str
    url: str | None


async def owners(tx: Tx, chats: Sequence[str]) -> dict[str, Owner]:
    """Those of these chats that somebody drives."""
    rows = await tx.fetch(
        f"""
        SELECT c.id, w.id, w.url FROM chats c JOIN workers w ON w.id = c.worker_id
         WHERE {tx.dialect.one_of("c.id", "chats")}
        """,
        {"chats": list(chats)},
    )
    return {chat: Owner(id, url) for chat, id, url in rows}


async def owned(tx: Tx, worker_id: str) -> list[Chat]:
    """The chats that belong to a worker, as the database says."""
    rows = await tx.fetch(
        f"""
        {SELECT_CHAT}
         WHERE worker_id = :id AND {IS_BUSY}
        """,
        {"id": worker_id},
    )
    readable = []
    for row in rows:
        try:
            readable.append(chat_of(row))
        except Corrupt as error:  # its own trouble, and nobody else's
            LOG.error("nobody can drive a chat of worker %s: %s", worker_id, error)
    return readable


class Living(Struct, frozen=True):
    """The workers that live, and the agents that any of them knows."""

    ids: frozenset[str]
    agents: frozenset[str]


async def living(tx: Tx, lease: int) -> Living:
    rows = await tx.fetch(
        f"SELECT id, agents FROM workers WHERE beat_at > {tx.dialect.now} - :lease",
        {"lease": lease},
    )
    known = {agent for _, agents in rows for agent in json.decode(agents, type=Sequence[str])}
    return Living(frozenset(id for id, _ in rows), frozenset(known))


async def due(tx: Tx, chats: Sequence[str], now: int) -> set[str]:
    """Which of these chats wait for nothing any more but a worker that says so."""
    rows = await tx.fetch(
        f"""
        SELECT c.id FROM chats c
         WHERE {tx.dialect.one_of("c.id", "chats")} AND c.status = 'requires_action' AND {DUE}
        """,
        {"chats": list(chats), "at": now},
    )
    return {row[0] for row in rows}
