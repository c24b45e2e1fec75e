"""Who asks: somebody with a token, a browser with a session, or somebody with a link.

The same for one person and for a team: a local server has one user, whose token is in a file. What
the database says of a credential is remembered for `FRESH` seconds, so that most requests ask
nothing and one that was revoked is good for no longer than that, on every replica.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from aiohttp import web
from msgspec import Struct

from holdfast.chat.errors import InvalidInput
from holdfast.chat.state import check_text
from holdfast.server.identity import sessions, shares
from holdfast.server.identity.access import Access
from holdfast.server.identity.cache import Cache
from holdfast.server.identity.credential import Kind, csrf_of, hash_of, kind_of, same
from holdfast.server.identity.guard import SAFE
from holdfast.server.identity.tokens import scopes_of
from holdfast.server.policy import LOCAL, Caller, Role, Scope, Standing
from holdfast.server.problem import Forbidden, Unauthenticated
from holdfast.store.database import Database, StoreError, Tx

LOG: Final = logging.getLogger("holdfast.server")
FRESH: Final = 2.0
"""Seconds that an answer of the database is good for."""
MINUTE: Final = 60 * 1_000_000
KEPT: Final = 10_000
"""Credentials, and ways to stand to a chat, that are remembered."""
CSRF: Final = "X-CSRF-Token"
By: TypeAlias = Literal["hash", "id"]


class BadCredential(Unauthenticated):
    """Something was shown, and it is no good."""


class Forged(Forbidden):
    kind = "csrf"


class Shown(Struct, frozen=True):
    """What a request shows."""

    kind: Kind
    secret: str


def shown(headers: Mapping[str, str], cookies: Mapping[str, str], cookie: str) -> Shown | None:
    """`Authorization` before a cookie. None when there is neither."""
    given = headers.get("Authorization")
    if given is None:
        secret = cookies.get(cookie)
        if secret is None:
            return None
        if kind_of(secret) != "session":
            raise BadCredential("the session is no good: sign in again")
        return Shown("session", secret)
    scheme, _, secret = given.strip().partition(" ")
    kind = kind_of(secret.strip())
    if scheme.lower() != "bearer" or kind not in ("token", "link"):
        raise BadCredential("this is no token: send Authorization: Bearer hf_…")
    return Shown(kind, secret.strip())


class Known(Struct, frozen=True):
    """What the database says of a credential."""

    id: str
    user: str
    role: Role
    scopes: frozenset[Scope]
    chat: str | None
    """That a link is for."""
    refused: str | None
    """Why it is no good."""
    lasts: float | None
    """Seconds that it is good for; None for ever."""
    used: int | None
    """Microseconds since it was last said to be used; None for never."""


class People:
    """The identity of a server: see `app.Identity`."""

    def __init__(self, db: Database, access: Access) -> None:
        self._db = db
        self._access = access
        self._known: Cache[tuple[Kind, By, str], Known] = Cache(KEPT, FRESH)
        self._standing: Cache[tuple[str, str], Standing] = Cache(KEPT, FRESH)

    async def caller(self, request: web.Request) -> Caller | None:
        it = shown(request.headers, request.cookies, self._access.cookie.name)
        if it is None:
            return None
        known = await self._look_up(it.kind, "hash", hash_of(it.secret))
        csrf = csrf_of(it.secret) if it.kind == "session" else None
        changes = request.method not in SAFE
        if csrf is not None and changes and not same(request.headers.get(CSRF, ""), csrf):
            raise Forged(f"a page sends {CSRF}, which GET /me gives, with what changes things")
        caller = _caller(known, csrf)
        request[CALLER] = caller
        return caller

    async def standing(self, caller: Caller, chat_id: str) -> Standing | None:
        key = (caller.user, chat_id)
        kept = self._standing.get(key)
        if kept is not None:
            return kept
        try:
            check_text("chat", chat_id)
        except InvalidInput:
            return None  # no chat has such an id
        reach = await self._db.read(lambda tx: shares.reach(tx, chat_id, caller.user))
        if reach is None:
            return None
        found = Standing(
            owns=caller.link is None and reach.owner == caller.user,
            shared=reach.shared or caller.link in reach.above,
        )
        if found.owns or found.shared:  # what is shared now is seen at once
            self._standing.put(key, found)
        return found

    async def still(self, caller: Caller, chat_id: str | None = None) -> bool:
        """Whether a caller that was let in would be let in now: for what goes on for long.

        Asked every other second, this ends a stream within five of a revocation.
        """
        kind: Kind = "link" if caller.link else "session" if caller.csrf else "token"
        try:
            known = await self._look_up(kind, "id", caller.token or "")
        except Unauthenticated:
            return False
        now = _caller(known, caller.csrf)
        if chat_id is None:
            return now.link is None and "read" in now.scopes
        standing = await self.standing(now, chat_id)
        return "read" in now.scopes and standing is not None and (standing.owns or standing.shared)

    async def _look_up(self, kind: Kind, by: By, value: str) -> Known:
        known = self._known.get((kind, by, value))
        if known is None:
            known = await self._db.read(lambda tx: _READ[kind](tx, by, value))
            if known is None:
                raise _unknown(kind)
            self._known.put((kind, by, value), known, known.lasts)
            await self._used(kind, known)
        return _good(kind, known, self._access)

    async def _used(self, kind: Kind, known: Known) -> None:
        """Write down that it is used, at most once a minute."""
        if known.refused or kind == "link" or (known.used is not None and known.used < MINUTE):
            return
        write = sessions.slide if kind == "session" else _token_used
        try:
            await self._db.write(lambda tx: write(tx, known.id))
        except StoreError as error:  # it is good all the same
            LOG.warning("when the %s %s was used could not be written: %s", kind, known.id, error)


CALLER: Final = web.RequestKey("caller", Caller)
"""Who asks, for those who look at a request as a whole."""


async def owner_of(tx: Tx, token: str, access: Access) -> Caller:
    """Who may show this token. Raises `BadCredential`."""
    if kind_of(token) != "token":
        raise BadCredential("this is no token: it looks like hf_…")
    known = await _token(tx, "hash", hash_of(token))
    if known is None:
        raise _unknown("token")
    return _caller(_good("token", known, access), None)


def _unknown(kind: Kind) -> BadCredential:
    return BadCredential(f"nobody knows this {kind}: it may have been revoked")


def _good(kind: Kind, known: Known, access: Access) -> Known:
    if known.refused is not None:
        raise BadCredential(known.refused)
    # Who held the token of the file before there were users is none of them.
    if kind != "link" and known.user == LOCAL and not access.local:
        raise BadCredential(f"this {kind} is of a server without users: get another one")
    return known


def _caller(known: Known, csrf: str | None) -> Caller:
    return Caller(known.user, known.role, known.scopes, known.id, known.chat, csrf)


# --- what the database says ----------------------------------------------------------------------


async def _token(tx: Tx, by: By, value: str) -> Known | None:
    row = await tx.one(
        f"""
        SELECT t.id, t.user_id, u.role, t.scopes, u.disabled_at, t.revoked_at, t.expires_at,
               t.used_at, {tx.dialect.now}
          FROM tokens t JOIN users u ON u.id = t.user_id
         WHERE t.{by} = :value
        """,
        {"value": value},
    )
    return None if row is None else _of_user("token", row)


async def _session(tx: Tx, by: By, value: str) -> Known | None:
    row = await tx.one(
        f"""
        SELECT s.id, t.user_id, u.role, t.scopes, u.disabled_at, t.revoked_at,
               CASE WHEN t.expires_at < s.expires_at THEN t.expires_at ELSE s.expires_at END,
               s.used_at, {tx.dialect.now}
          FROM sessions s JOIN tokens t ON t.id = s.token_id JOIN users u ON u.id = t.user_id
         WHERE s.{by} = :value
        """,
        {"value": value},
    )
    return None if row is None else _of_user("session", row)


def _of_user(kind: Kind, row: Any) -> Known:
    id, user, role, scopes, disabled, revoked, expires, used, now = row
    refused = _refused(kind, disabled, revoked, expires, now)
    since = None if used is None else now - used
    return Known(id, user, role, scopes_of(scopes), None, refused, _lasts(expires, now), since)


async def _link(tx: Tx, by: By, value: str) -> Known | None:
    row = await tx.one(
        f"""
        SELECT s.id, s.chat_id, u.disabled_at, s.expires_at, {tx.dialect.now}
          FROM shares s JOIN chats c ON c.id = s.chat_id LEFT JOIN users u ON u.id = c.owner
         WHERE s.{by} = :value AND s.user_id IS NULL
        """,
        {"value": value},
    )
    if row is None:
        return None
    id, chat, disabled, expires, now = row
    refused = _refused("link", disabled, None, expires, now)
    only: frozenset[Scope] = frozenset(("read",))
    return Known(id, f"link:{id}", "viewer", only, chat, refused, _lasts(expires, now), 0)


def _refused(
    kind: Kind, disabled: int | None, revoked: int | None, expires: int | None, now: int
) -> str | None:
    if revoked is not None:
        return f"this {kind} was revoked: get another one"
    if expires is not None and expires <= now:
        return f"this {kind} has expired: get another one"
    if disabled is not None:
        return "this user is disabled: ask an administrator"
    return None


def _lasts(expires: int | None, now: int) -> float | None:
    return None if expires is None or expires <= now else (expires - now) / 1e6


async def _token_used(tx: Tx, id: str) -> None:
    await tx.execute(f"UPDATE tokens SET used_at = {tx.dialect.now} WHERE id = :id", {"id": id})


_READ: Final = {"token": _token, "session": _session, "link": _link}
