"""Authenticates requests: by an API token, by a browser session, or by a share link.

Local and team servers work alike: a local server has one user, whose token is in a file. Database
lookups of credentials are cached for `FRESH` seconds, so most requests need no query, and a revoked
credential is refused on every replica after at most that time.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from aiohttp import web
from msgspec import Struct

from holdfast.chat.errors import InvalidInput
from holdfast.chat.rows import check_text
from holdfast.server.identity import sessions, shares
from holdfast.server.identity.auth_config import Access
from holdfast.server.identity.cache import Cache
from holdfast.server.identity.credential import (
    Kind,
    bound,
    download_key_of,
    hash_of,
    is_download_key,
    is_session_key,
    kind_of,
)
from holdfast.server.identity.tokens import scopes_of
from holdfast.server.operation import DOWNLOAD, DOWNLOAD_KEY
from holdfast.server.policy import LOCAL, Caller, Role, Scope, Standing
from holdfast.server.problem import Unauthenticated
from holdfast.store.database import Database, StoreError, Tx

LOG: Final = logging.getLogger("holdfast.server")
FRESH: Final = 2.0
"""Seconds that a cached lookup is used."""
MINUTE: Final = 60 * 1_000_000
KEPT: Final = 10_000
"""Entries in each cache: of credentials, and of relations between users and chats."""
SESSION_KEY: Final = "X-Session-Key"
PROTOCOLS: Final = "Sec-WebSocket-Protocol"
"""The only header that a page can set on a WebSocket: it carries the session key there."""
By: TypeAlias = Literal["hash", "id"]


class BadCredential(Unauthenticated):
    """A credential was sent, and it is invalid, expired or revoked."""


class Shown(Struct, frozen=True):
    """The credential that a request carries."""

    kind: Kind
    secret: str
    download_key: str | None = None
    """Download key of a session; None for tokens and links."""


def shown(
    headers: Mapping[str, str],
    cookies: Mapping[str, str],
    cookie: str,
    download_key: str | None = None,
) -> Shown | None:
    """The credential of a request; None if there is none. `Authorization` wins over a cookie.

    `download_key`: the key in the URL, for operations that accept it there.
    """
    given = headers.get("Authorization")
    if given is None:
        secret = cookies.get(cookie)
        if secret is None:
            return None
        if kind_of(secret) != "session":
            raise BadCredential("the session is not valid: sign in again")
        key = _session_key(headers, download_key)
        return Shown("session", bound(secret, key), key)
    scheme, _, secret = given.strip().partition(" ")
    kind = kind_of(secret.strip())
    if scheme.lower() != "bearer" or kind not in ("token", "link"):
        raise BadCredential("this is not a token: send Authorization: Bearer hf_…")
    return Shown(kind, secret.strip())


def _session_key(headers: Mapping[str, str], download_key: str | None) -> str:
    """The session key as the page sends it, in the form that the session is bound to."""
    offered = [one.strip() for one in headers.get(PROTOCOLS, "").split(",")]
    for key in (headers.get(SESSION_KEY, ""), *offered):
        if is_session_key(key):
            return download_key_of(key)
    if download_key is not None and is_download_key(download_key):
        return download_key
    raise BadCredential(f"a cookie alone is not a session: send {SESSION_KEY}, or sign in again")


class Known(Struct, frozen=True):
    """A credential as the database has it."""

    id: str
    user: str
    role: Role
    scopes: frozenset[Scope]
    chat: str | None
    """Chat that a link is for; None for tokens and sessions."""
    refused: str | None
    """Why the credential is refused; None if it is valid."""
    lasts: float | None
    """Seconds until the credential expires; None: never."""
    used: int | None
    """Microseconds since its last use was recorded; None: never."""


class People:
    """Authenticates callers and finds how they relate to a chat; implements `app.Identity`."""

    def __init__(self, db: Database, access: Access) -> None:
        self._db = db
        self._access = access
        self._known: Cache[tuple[Kind, By, str], Known] = Cache(KEPT, FRESH)
        self._standing: Cache[tuple[str, str], Standing] = Cache(KEPT, FRESH)

    async def caller(self, request: web.Request) -> Caller | None:
        """Authenticate a request; None if it carries no credential. Raises `BadCredential`."""
        in_url = request.query.get(DOWNLOAD_KEY) if request.get(DOWNLOAD, False) else None
        it = shown(request.headers, request.cookies, self._access.cookie.name, in_url)
        if it is None:
            return None
        known = await self._look_up(it.kind, "hash", hash_of(it.secret))
        caller = _caller(known, it.download_key)
        request[CALLER] = caller
        return caller

    async def standing(self, caller: Caller, chat_id: str) -> Standing | None:
        """Whether the caller owns the chat or may read it; None if there is no such chat."""
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
        if found.owns or found.shared:  # not cached otherwise: a new share takes effect at once
            self._standing.put(key, found)
        return found

    async def still(self, caller: Caller, chat_id: str | None = None) -> bool:
        """Whether a caller would still be let in, for streams and other long requests.

        Checked every other second, this ends a stream within five seconds of a revocation.
        """
        kind: Kind = "link" if caller.link else "session" if caller.download_key else "token"
        try:
            known = await self._look_up(kind, "id", caller.token or "")
        except Unauthenticated:
            return False
        now = _caller(known, caller.download_key)
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
        """Record that a credential is in use, at most once a minute."""
        if known.refused or kind == "link" or (known.used is not None and known.used < MINUTE):
            return
        write = sessions.slide if kind == "session" else _token_used
        try:
            await self._db.write(lambda tx: write(tx, known.id))
        except StoreError as error:  # the credential is valid all the same
            LOG.warning("could not record the last use of %s %s: %s", kind, known.id, error)


CALLER: Final = web.RequestKey("caller", Caller)
"""The authenticated caller, for middlewares."""


async def owner_of(tx: Tx, token: str, access: Access) -> Caller:
    """The caller that this token authenticates. Raises `BadCredential`."""
    if kind_of(token) != "token":
        raise BadCredential("this is not a whole token: copy all of it, hf_ and 43 characters")
    known = await _token(tx, "hash", hash_of(token))
    if known is None:
        raise _unknown("token")
    return _caller(_good("token", known, access), None)


def _unknown(kind: Kind) -> BadCredential:
    return BadCredential(f"unknown {kind}: it was revoked, or belongs to another server")


def _good(kind: Kind, known: Known, access: Access) -> Known:
    if known.refused is not None:
        raise BadCredential(known.refused)
    # The owner of a local server's token file is not one of the users of a team server.
    if kind != "link" and known.user == LOCAL and not access.local:
        raise BadCredential(f"this {kind} belongs to a server without users: get another one")
    return known


def _caller(known: Known, download_key: str | None) -> Caller:
    return Caller(known.user, known.role, known.scopes, known.id, known.chat, download_key)


# --- queries -------------------------------------------------------------------------------------


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
