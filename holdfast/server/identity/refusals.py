"""Refusals that are worth knowing are in the audit log: a bad token, a request of another site.

Whoever is refused can ask as often as they like. So there are only so many entries in a minute;
the log of the server has them all.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import Final

import anyio
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from holdfast.kernel.ports import Ports
from holdfast.server.identity.address import address_of
from holdfast.server.identity.audit import Entry, record
from holdfast.server.identity.guard import Misdirected
from holdfast.server.identity.people import CALLER, BadCredential
from holdfast.server.problem import Forbidden, Refused
from holdfast.store.database import Database, StoreError

LOG: Final = logging.getLogger("holdfast.server")
OF_ONE: Final = 5
"""Entries in a minute that one address can cause."""
OF_ALL: Final = 60


class Tally:
    """How many there were in this minute."""

    def __init__(self) -> None:
        self._minute = -1
        self._counts: Counter[str] = Counter()

    def room(self, address: str) -> bool:
        """Count one more, if it may be."""
        minute = int(anyio.current_time() // 60)
        if minute != self._minute:
            self._minute, self._counts = minute, Counter()
        if self._counts[address] >= OF_ONE or self._counts.total() >= OF_ALL:
            return False
        self._counts[address] += 1
        return True


def noted(db: Database, ports: Ports, proxies: tuple[str, ...] = ()) -> Middleware:
    """A middleware that writes them down."""
    tally = Tally()

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


def _entry(id: str, request: web.Request, address: str, refused: Refused) -> Entry:
    caller = request.get(CALLER)
    user, token = (None, None) if caller is None else (caller.user, caller.token)
    subject = _plain(f"{request.method} {request.path}")
    return Entry(id, "refused", subject, user, token, address, {"kind": refused.kind})


async def _write(db: Database, entry: Entry) -> None:
    try:
        await db.write(lambda tx: record(tx, entry))
    except StoreError as error:
        LOG.warning("a refusal could not be written to the audit log: %s", error)


def _plain(text: str) -> str:
    """What a column can hold, whatever the request was."""
    return text.encode(errors="replace").decode().replace("\0", "\\0")[:200]
