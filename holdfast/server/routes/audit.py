"""Reading the audit log."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from holdfast.chat.rows import check_text
from holdfast.server.identity.audit import AuditAction, AuditPage, read
from holdfast.server.operation import ApiCall, operation


class AuditQuery(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Query of `GET /audit`."""

    before: str | None = None
    """Cursor: `next` of the previous page."""
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    user: str | None = None
    """Id of the user whose entries are read."""
    action: AuditAction | None = None


@operation("GET", "/audit", "Read the audit log")
async def get_audit(call: ApiCall, query: AuditQuery) -> AuditPage:
    """Entries of the audit log, newest first."""
    check_text("user", query.user)
    return await call.server.db.read(
        lambda tx: read(
            tx, before=query.before, limit=query.limit, user=query.user, action=query.action
        )
    )
