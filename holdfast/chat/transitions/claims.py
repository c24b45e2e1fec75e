"""Claims: workers and their leases, the chats that they own, and chats that crash workers."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct, json
from msgspec.structs import replace

from holdfast.chat.database_clock import now_of
from holdfast.chat.errors import Corrupt
from holdfast.chat.locked_chat import LockedChat, close_all, lock_if_exists
from holdfast.chat.queries import read_partial
from holdfast.chat.rows import (
    CHAT_COLUMNS,
    IS_BUSY,
    SELECT_CHAT,
    ChatRow,
    Status,
    TurnOutcome,
    chat_of,
    fence_of,
)
from holdfast.kernel.errors import FAILURE_KINDS, Failure
from holdfast.kernel.failure_log import log_failure
from holdfast.kernel.messages import encode
from holdfast.store.database import Row, Tx

LOG: Final = logging.getLogger("holdfast")
MAX_CRASHES: Final = 3
"""Number of consecutive claims from a dead owner after which a chat is parked."""


class WorkerRow(Struct, frozen=True, kw_only=True):
    """The row of a worker: a process that drives chats."""

    id: str
    agents: tuple[str, ...]
    url: str | None = None
    lease: int
    """Microseconds without a heartbeat after which the worker counts as dead."""
    exclusive: bool = False
    """Whether no other process can write to this database: then every other owner is dead."""


async def write_heartbeat(tx: Tx, worker: WorkerRow) -> None:
    """Write the heartbeat of a worker: the lease of all its chats."""
    await tx.execute(
        f"""
        INSERT INTO workers (id, url, agents, started_at, beat_at)
        VALUES (:id, :url, :agents, {tx.dialect.now}, {tx.dialect.now})
        ON CONFLICT (id) DO UPDATE SET beat_at = excluded.beat_at
        """,
        {"id": worker.id, "url": worker.url, "agents": encode(worker.agents).decode()},
    )


async def leave(tx: Tx, worker_id: str) -> None:
    """Delete the row of a worker."""
    await tx.execute("DELETE FROM workers WHERE id = :id", {"id": worker_id})


async def forget_dead(tx: Tx, lease: int) -> None:
    """Delete rows of dead workers that own no busy chat."""
    await tx.execute(FORGET_DEAD.format(now=tx.dialect.now), {"age": 100 * lease})


FORGET_DEAD: Final = f"""
    DELETE FROM workers
     WHERE beat_at < {{now}} - :age
       AND NOT EXISTS (SELECT 1 FROM chats c
                        WHERE c.worker_id = workers.id
                          AND c.{IS_BUSY})
    """
"""Idle chats have no owner, so only busy ones are read, through their index."""


ACTION_DUE: Final = f"""
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
"""Condition: a deadline has passed, or the awaited children are idle or deleted."""
ClaimPool = Literal["urgent", "root", "child"]
RUNNABLE: Final[dict[ClaimPool, str]] = {
    "urgent": f"(c.status = 'interrupting' OR (c.status = 'requires_action' AND {ACTION_DUE}))",
    "root": "c.status = 'running' AND (c.retry_at IS NULL OR c.retry_at <= :at)"
    " AND c.parent_id IS NULL",
    "child": "c.status = 'running' AND (c.retry_at IS NULL OR c.retry_at <= :at)"
    " AND c.parent_id IS NOT NULL",
}
"""Conditions for runnable chats. Interrupts and due actions are short, and need no capacity."""


LONGEST_WAITING: Final = "c.runnable_since"
CLAIM_ORDER: Final[dict[ClaimPool, str]] = {
    # An action is due since its deadline. NULLs sort differently in the two databases.
    "urgent": "CASE c.status WHEN 'interrupting' THEN 0 ELSE 1 END,"
    " COALESCE(c.runnable_since, c.deadline, c.updated_at)",
    "root": LONGEST_WAITING,
    "child": LONGEST_WAITING,
}


async def claim(
    tx: Tx, worker: WorkerRow, limits: Mapping[ClaimPool, int]
) -> dict[ClaimPool, list[ChatRow]]:
    """Claim runnable chats without a live owner, up to the limit of each pool.

    The chats that have waited longest come first. A chat whose owners died too often is parked in
    error, and is not returned.
    """
    now = await now_of(tx)
    return {pool: await _claim(tx, worker, pool, limit, now) for pool, limit in limits.items()}


async def _claim(tx: Tx, worker: WorkerRow, pool: ClaimPool, limit: int, now: int) -> list[ChatRow]:
    claimed: list[ChatRow] = []
    unreadable: list[str] = []
    while len(claimed) < limit:
        rows = await _lock_runnable(tx, worker, pool, limit - len(claimed), now, unreadable)
        limit_if_all_claimed = len(claimed) + len(rows)
        locked_chats: list[LockedChat] = []
        for at, *row in rows:
            try:
                locked_chats.append(await _take(LockedChat(tx, chat_of(row), at), worker))
            except Corrupt as error:  # raised before anything was written
                LOG.error("chat %s cannot be driven: %s", error.chat, error)
                unreadable.append(error.chat)
        chats = await close_all(tx, locked_chats)
        claimed += [chat for chat in chats if _is_driven(chat, worker)]
        if len(claimed) == limit_if_all_claimed:
            break  # else a chat was parked or unreadable, and leaves room for the next
    return claimed


async def _lock_runnable(
    tx: Tx, worker: WorkerRow, pool: ClaimPool, limit: int, now: int, excluded: Sequence[str]
) -> Sequence[Row]:
    """Lock chats that a worker may claim and that no other transaction has locked.

    Each row is the time and the chat, as `lock` reads them, so that no chat is read twice.
    """
    exclusion = f"AND NOT {tx.dialect.one_of('c.id', 'excluded')}" if excluded else ""
    return await tx.fetch(
        f"""
        SELECT {tx.dialect.now}, {", ".join(f"c.{name}" for name in CHAT_COLUMNS)} FROM chats c
         WHERE c.archived = 0 AND c.{IS_BUSY} AND {RUNNABLE[pool]}
           AND {tx.dialect.one_of("c.agent", "agents")}
           AND (c.worker_id IS NULL OR (c.worker_id <> :me AND {_owner_is_dead(worker)}))
           {exclusion}
         ORDER BY {CLAIM_ORDER[pool]}, c.id
         LIMIT :limit {tx.dialect.skip_locked.replace("UPDATE", "UPDATE OF c")}
        """,
        {
            "at": now,
            "agents": list(worker.agents),
            "me": worker.id,
            "limit": limit,
            **({"excluded": list(excluded)} if excluded else {}),
            **({} if worker.exclusive else {"stale": now - worker.lease}),
        },
    )


def _owner_is_dead(worker: WorkerRow) -> str:
    if worker.exclusive:
        return "1 = 1"
    return "NOT EXISTS (SELECT 1 FROM workers w WHERE w.id = c.worker_id AND w.beat_at > :stale)"


async def claim_again(tx: Tx, worker: WorkerRow, chat: ChatRow) -> ChatRow | None:
    """Claim a chat again that this worker owns, after its runner ended with an error.

    That counts as a crash, so that a repeated error parks the chat.
    """
    locked = await lock_if_exists(tx, chat.id)
    if locked is None or fence_of(locked.chat) != fence_of(chat):
        return None  # the chat changed meanwhile: the next poll decides
    if locked.chat.worker_id != worker.id:
        return None
    claimed = await (await _take(locked, worker)).close()
    return claimed if _is_driven(claimed, worker) else None


def _is_driven(chat: ChatRow, worker: WorkerRow) -> bool:
    """Return whether the worker owns a claimed chat now; False when the chat was parked."""
    if chat.worker_id == worker.id:
        return True
    if chat.error is not None:
        log_failure(chat.error, chat=chat.id, model=chat.model, attempt=chat.attempt)
    return False


async def _take(locked: LockedChat, worker: WorkerRow) -> LockedChat:
    """Apply a claim to a locked chat. The caller closes it."""
    chat = locked.chat
    crashes = chat.crashes + (chat.worker_id is not None)
    locked.set(crashes=crashes, epoch=chat.epoch + 1, worker_id=worker.id)
    if crashes >= MAX_CRASHES:
        await _park(locked, crashes)
    return locked


async def _park(locked: LockedChat, crashes: int) -> None:
    """Park a chat that crashes its workers. The partial answer is kept for people."""
    partial = await read_partial(locked.tx, locked.chat.id)
    if partial is not None:
        await locked.append([replace(partial.message, visibility="user", finish="error")])
    await locked.tx.execute("DELETE FROM partials WHERE chat_id = :id", {"id": locked.chat.id})
    detail = f"{crashes} workers in a row died while driving it"
    locked.set(
        status=Status.ERROR,
        error=Failure("poison", FAILURE_KINDS["poison"].sentence, detail),
        outcome=TurnOutcome("error"),
        worker_id=None,
        crashes=0,
        retry=None,
        retry_at=None,
        compaction=None,
        deadline=None,
    )


class Owner(Struct, frozen=True):
    """The worker that drives a chat, and its URL."""

    id: str
    url: str | None


async def owners(tx: Tx, chats: Sequence[str]) -> dict[str, Owner]:
    """Return the owners of these chats; a chat without an owner is left out."""
    rows = await tx.fetch(
        f"""
        SELECT c.id, w.id, w.url FROM chats c JOIN workers w ON w.id = c.worker_id
         WHERE {tx.dialect.one_of("c.id", "chats")}
        """,
        {"chats": list(chats)},
    )
    return {chat: Owner(id, url) for chat, id, url in rows}


async def owned(tx: Tx, worker_id: str) -> list[ChatRow]:
    """Return the chats that a worker owns."""
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
        except Corrupt as error:  # affects this chat only
            LOG.error("a chat of worker %s cannot be driven: %s", worker_id, error)
    return readable


class LiveWorkers(Struct, frozen=True):
    """Ids of the live workers, and the names of all agents that they have."""

    ids: frozenset[str]
    agents: frozenset[str]


async def live_workers(tx: Tx, lease: int) -> LiveWorkers:
    """Read the live workers and their agents."""
    rows = await tx.fetch(
        f"SELECT id, agents FROM workers WHERE beat_at > {tx.dialect.now} - :lease",
        {"lease": lease},
    )
    agents = {agent for _, agents in rows for agent in json.decode(agents, type=Sequence[str])}
    return LiveWorkers(frozenset(id for id, _ in rows), frozenset(agents))


async def with_due_actions(tx: Tx, chats: Sequence[str], now: int) -> set[str]:
    """Return the chats whose pending actions a worker can answer now: expired, or children idle."""
    rows = await tx.fetch(
        f"""
        SELECT c.id FROM chats c
         WHERE {tx.dialect.one_of("c.id", "chats")} AND c.status = 'requires_action'
           AND {ACTION_DUE}
        """,
        {"chats": list(chats), "at": now},
    )
    return {row[0] for row in rows}
