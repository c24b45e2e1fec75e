"""The audit log: who did what to what, when and from where.

An entry is written in the transaction of the change it describes: there is no change without its
entry, and no entry without its change.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from holdfast.server.operation import ApiCall
from holdfast.server.problem import BadRequest
from holdfast.store.database import Database, StoreError, Tx

LOG: Final = logging.getLogger("holdfast.server")
AuditAction: TypeAlias = Literal[
    "session.begin",
    "session.end",
    "token.issue",
    "token.revoke",
    "user.create",
    "user.change",
    "share.create",
    "share.revoke",
    "chat.delete",
    "budget.set",
    "secret.store",
    "secret.remove",
    "secret.rotate",
    "refused",
]


class AuditEntry(Struct, frozen=True):
    """An entry of the audit log: one change, or one refused request."""

    id: str
    action: AuditAction
    subject: str
    """What was acted on: an id or a name."""
    user: str | None
    """Id of the user; None if the request was not authenticated."""
    token: str | None
    """Id of the token, session or link that authenticated the request."""
    address: str
    detail: Mapping[str, Any] = {}
    at: int = 0
    """Time of the entry in microseconds since 1970, by the database's clock."""


def entry(call: ApiCall, action: AuditAction, subject: str, **detail: Any) -> AuditEntry:
    """The audit entry for what a call is about to do."""
    caller = call.caller
    user, token = (None, None) if caller is None else (caller.user, caller.token)
    return AuditEntry(
        call.server.ports.new_id(), action, subject, user, token, call.address, detail
    )


async def record(tx: Tx, entry: AuditEntry) -> None:
    """Write an entry, in the transaction of the change it describes."""
    await tx.execute(
        f"""
        INSERT INTO audit (id, at, user_id, token_id, address, action, subject, detail)
        VALUES (:id, {tx.dialect.now}, :user, :token, :address, :action, :subject, :detail)
        """,
        {
            "id": entry.id,
            "user": entry.user,
            "token": entry.token,
            "address": entry.address,
            "action": entry.action,
            "subject": entry.subject,
            "detail": msgspec.json.encode(entry.detail).decode(),
        },
    )


class AuditPage(Struct, frozen=True):
    """A page of the audit log, newest entries first."""

    entries: tuple[AuditEntry, ...]
    next: str | None = None
    """Cursor of the next, older page: pass it as `before`; None on the last page."""


async def read(
    tx: Tx, *, before: str | None, limit: int, user: str | None = None, action: str | None = None
) -> AuditPage:
    """Read one page of the log, optionally of one user or one action."""
    at, id = _cursor(before)
    rows = await tx.fetch(
        f"""
        SELECT id, action, subject, user_id, token_id, address, detail, at FROM audit
         WHERE (at < :at OR (at = :at AND id < :id))
           {"" if user is None else "AND user_id = :user"}
           {"" if action is None else "AND action = :action"}
         ORDER BY at DESC, id DESC LIMIT :limit
        """,
        _without_none(at=at, id=id, limit=limit + 1, user=user, action=action),
    )
    entries = tuple(_entry(row) for row in rows[:limit])
    return AuditPage(entries, f"{entries[-1].at}.{entries[-1].id}" if len(rows) > limit else None)


def _without_none(**params: Any) -> dict[str, Any]:
    return {name: value for name, value in params.items() if value is not None}


def _entry(row: Any) -> AuditEntry:
    id, action, subject, user, token, address, detail, at = row
    detail = msgspec.json.decode(detail)
    return AuditEntry(id, action, subject, user, token, address, detail, at)


def _cursor(before: str | None) -> tuple[int, str]:
    if before is None:
        return 2**62, ""
    at, _, id = before.partition(".")
    if not (at.isascii() and at.isdigit() and len(at) < 18 and id.isprintable()):
        raise BadRequest(f"before={before!r} is not a cursor of the log: use `next` of a page")
    return int(at), id


# --- retention -----------------------------------------------------------------------------------

DAY_SECONDS: Final = 24 * 3600
PRUNE_INTERVAL: Final = 3600.0
"""Seconds between two runs of the pruning."""
PRUNE_BATCH: Final = 1_000
"""Entries removed in one transaction."""


async def keep_pruned(db: Database, days: int) -> None:
    """Remove entries older than `days`, once an hour, until the task is cancelled."""
    while True:
        try:
            while await db.write(lambda tx: prune(tx, days)) == PRUNE_BATCH:
                pass
        except StoreError as error:
            LOG.warning("could not prune the audit log; will retry: %s", error)
        await asyncio.sleep(PRUNE_INTERVAL)


async def prune(tx: Tx, days: int) -> int:
    """Remove up to `PRUNE_BATCH` entries older than `days`; return how many were removed."""
    return await tx.execute(
        f"""
        DELETE FROM audit WHERE id IN
            (SELECT id FROM audit WHERE at < {tx.dialect.now} - :retention
              ORDER BY at LIMIT {PRUNE_BATCH})
        """,
        {"retention": days * DAY_SECONDS * 1_000_000},
    )
