"""Records refused requests in the audit log: invalid tokens, requests of other sites.

A refused client can retry as often as it likes, so the number of entries per minute is bounded; the
server's log has every refusal.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

import anyio
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from holdfast.kernel.ports import Ports
from holdfast.server.identity.audit import AuditEntry, record
from holdfast.server.identity.authenticator import CALLER, BadCredential
from holdfast.server.identity.client_address import address_of
from holdfast.server.identity.origin_check import Misdirected
from holdfast.server.problem import Forbidden, RequestRefused
from holdfast.store.database import Database, StoreError

LOG: Final = logging.getLogger("holdfast.server")
MAX_ENTRIES_PER_ADDRESS: Final = 5
"""Most entries per minute for one address."""
MAX_ENTRIES_PER_MINUTE: Final = 60
"""Most entries per minute for all addresses together."""


class RefusalCounter:
    """Counts the entries of the current minute."""

    def __init__(self) -> None:
        self._minute = -1
        self._counts: Counter[str] = Counter()

    def room(self, address: str) -> bool:
        """Count one more entry, unless a limit is reached."""
        minute = int(anyio.current_time() // 60)
        if minute != self._minute:
            self._minute, self._counts = minute, Counter()
        if (
            self._counts[address] >= MAX_ENTRIES_PER_ADDRESS
            or self._counts.total() >= MAX_ENTRIES_PER_MINUTE
        ):
            return False
        self._counts[address] += 1
        return True


def refusal_recorder(db: Database, ports: Ports, proxies: tuple[str, ...] = ()) -> Middleware:
    """A middleware that records refused requests."""
    tally = RefusalCounter()

    @web.middleware
    async def note(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            return await handler(request)
        except (BadCredential, Forbidden, Misdirected) as refused:
            address = address_of(request, proxies)
            LOG.warning("%s %r from %s: %s", request.method, request.path, address, refused)
            if tally.room(address):
                await _write(db, _entry(ports.new_id(), request, address, refused))
            raise

    return note


def _entry(id: str, request: web.Request, address: str, refused: RequestRefused) -> AuditEntry:
    caller = request.get(CALLER)
    user, token = (None, None) if caller is None else (caller.user, caller.token)
    subject = _plain(f"{request.method} {request.path}")
    return AuditEntry(id, "refused", subject, user, token, address, {"kind": refused.kind})


async def _write(db: Database, entry: AuditEntry) -> None:
    try:
        await db.write(lambda tx: record(tx, entry))
    except StoreError as error:
        LOG.warning("could not write a refused request to the audit log: %s", error)


def _plain(text: str) -> str:
    """Text that a column can hold, whatever the request contained."""
    return text.encode(errors="replace").decode().replace("\0", "\\0")[:200]
