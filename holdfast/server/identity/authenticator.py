"""Authenticates requests: by an API token, by a browser session, or by a share link.

Local and team servers work alike: a local server has one user, whose token is in a file. Database
lookups of credentials are cached for `CACHE_SECONDS`, so most requests need no query, and a revoked
credential is refused on every replica after at most that time.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from aiohttp import web
from msgspec import Struct

from holdfast.server.access_policy import LOCAL, ApiCaller, ChatAccess, Role, Scope
from holdfast.server.http_request import HttpRequest
from holdfast.server.identity import sessions
from holdfast.server.identity.api_tokens import scopes_of
from holdfast.server.identity.auth_config import AuthConfig
from holdfast.server.identity.chat_access import ChatAccesses
from holdfast.server.identity.credential_format import (
    CredentialKind,
    bound,
    download_key_of,
    hash_of,
    is_download_key,
    is_session_key,
    kind_of,
)
from holdfast.server.identity.expiring_cache import CACHE_SECONDS, CACHE_SIZE, Cache
from holdfast.server.operation import DOWNLOAD, DOWNLOAD_KEY
from holdfast.server.problem import Unauthenticated
from holdfast.store.database import Database, StoreError, Tx

LOG: Final = logging.getLogger("holdfast.server")
USE_RECORD_INTERVAL: Final = 60 * 1_000_000
"""Microseconds between two records of the use of a credential."""
SESSION_KEY_HEADER: Final = "X-Session-Key"
"""Header that carries the session key."""
PROTOCOL_HEADER: Final = "Sec-WebSocket-Protocol"
"""The only header that a page can set on a WebSocket: it carries the session key there."""
LookupColumn: TypeAlias = Literal["hash", "id"]


class BadCredential(Unauthenticated):
    """A credential was sent, and it is invalid, expired or revoked."""


class RequestCredential(Struct, frozen=True):
    """The credential that a request carries."""

    kind: CredentialKind
    secret: str
    download_key: str | None = None
    """Download key of a session; None for tokens and links."""


def credential_of(
    headers: Mapping[str, str],
    cookies: Mapping[str, str],
    cookie: str,
    download_key: str | None = None,
) -> RequestCredential | None:
    """The credential of a request; None if there is none.

    `Authorization` takes precedence over a cookie. `download_key`: the key in the URL, for
    operations that accept it there.
    """
    authorization = headers.get("Authorization")
    if authorization is None:
        secret = cookies.get(cookie)
        if secret is None:
            return None
        if kind_of(secret) != "session":
            raise BadCredential("the session is not valid: sign in again")
        key = _session_key(headers, download_key)
        return RequestCredential("session", bound(secret, key), key)
    scheme, _, secret = authorization.strip().partition(" ")
    kind = kind_of(secret.strip())
    if scheme.lower() != "bearer" or kind not in ("token", "link"):
        raise BadCredential("this is not a token: send Authorization: Bearer hf_…")
    return RequestCredential(kind, secret.strip())


def _session_key(headers: Mapping[str, str], download_key: str | None) -> str:
    """The session key as the page sends it, in the form that the session is bound to."""
    offered = [one.strip() for one in headers.get(PROTOCOL_HEADER, "").split(",")]
    for key in (headers.get(SESSION_KEY_HEADER, ""), *offered):
        if is_session_key(key):
            return download_key_of(key)
    if download_key is not None and is_download_key(download_key):
        return download_key
    raise BadCredential(
        f"a cookie alone is not a session: send {SESSION_KEY_HEADER}, or sign in again"
    )


class StoredCredential(Struct, frozen=True):
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


class Authenticator:
    """Authenticates callers and finds the chats they may know of; implements `Identity`."""

    def __init__(self, db: Database, access: AuthConfig) -> None:
        self._db = db
        self._access = access
        self._credentials: Cache[tuple[CredentialKind, LookupColumn, str], StoredCredential] = (
            Cache(CACHE_SIZE, CACHE_SECONDS)
        )
        self._accesses = ChatAccesses(db)

    async def caller(self, request: HttpRequest) -> ApiCaller | None:
        """Authenticate a request; None if it carries no credential. Raises `BadCredential`."""
        in_url = request.query.get(DOWNLOAD_KEY) if request.get(DOWNLOAD, False) else None
        credential = credential_of(
            request.headers, request.cookies, self._access.cookie.name, in_url
        )
        if credential is None:
            return None
        stored = await self._look_up(credential.kind, "hash", hash_of(credential.secret))
        caller = _caller(stored, credential.download_key)
        request[CALLER] = caller
        return caller

    async def access(self, caller: ApiCaller, chat_id: str) -> ChatAccess | None:
        """The chat, if the caller owns it or may read it; None otherwise."""
        return await self._accesses.access(caller, chat_id)

    async def still(self, caller: ApiCaller, chat_id: str | None = None) -> bool:
        """Whether a caller would still be let in, for streams and other long requests.

        Checked every other second, this ends a stream within five seconds of a revocation.
        """
        kind: CredentialKind = (
            "link" if caller.link else "session" if caller.download_key else "token"
        )
        try:
            stored = await self._look_up(kind, "id", caller.token or "")
        except Unauthenticated:
            return False
        now = _caller(stored, caller.download_key)
        if chat_id is None:
            return now.link is None and "read" in now.scopes
        return "read" in now.scopes and await self.access(now, chat_id) is not None

    async def _look_up(
        self, kind: CredentialKind, by: LookupColumn, value: str
    ) -> StoredCredential:
        stored = self._credentials.get((kind, by, value))
        if stored is None:
            stored = await self._db.read(lambda tx: _READ[kind](tx, by, value))
            if stored is None:
                raise _unknown(kind)
            self._credentials.put((kind, by, value), stored, stored.lasts)
            await self._used(kind, stored)
        return _check_valid(kind, stored, self._access)

    async def _used(self, kind: CredentialKind, stored: StoredCredential) -> None:
        """Record that a credential is in use, at most once a minute."""
        if (
            stored.refused
            or kind == "link"
            or (stored.used is not None and stored.used < USE_RECORD_INTERVAL)
        ):
            return
        write = sessions.slide if kind == "session" else _token_used
        try:
            await self._db.write(lambda tx: write(tx, stored.id))
        except StoreError as error:  # the credential is valid all the same
            LOG.warning("could not record the last use of %s %s: %s", kind, stored.id, error)


CALLER: Final = web.RequestKey("caller", ApiCaller)
"""Request key: the authenticated caller, for middlewares."""


async def owner_of(tx: Tx, token: str, access: AuthConfig) -> ApiCaller:
    """The caller that this token authenticates. Raises `BadCredential`."""
    if kind_of(token) != "token":
        raise BadCredential("this is not a whole token: copy all of it, hf_ and 43 characters")
    stored = await _token(tx, "hash", hash_of(token))
    if stored is None:
        raise _unknown("token")
    return _caller(_check_valid("token", stored, access), None)


def _unknown(kind: CredentialKind) -> BadCredential:
    return BadCredential(f"unknown {kind}: it was revoked, or belongs to another server")


def _check_valid(
    kind: CredentialKind, stored: StoredCredential, access: AuthConfig
) -> StoredCredential:
    if stored.refused is not None:
        raise BadCredential(stored.refused)
    # The owner of a local server's token file is not one of the users of a team server.
    if kind != "link" and stored.user == LOCAL and not access.local:
        raise BadCredential(f"this {kind} belongs to a server without users: get another one")
    return stored


def _caller(stored: StoredCredential, download_key: str | None) -> ApiCaller:
    return ApiCaller(stored.user, stored.role, stored.scopes, stored.id, stored.chat, download_key)


# --- queries -------------------------------------------------------------------------------------


async def _token(tx: Tx, by: LookupColumn, value: str) -> StoredCredential | None:
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


async def _session(tx: Tx, by: LookupColumn, value: str) -> StoredCredential | None:
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


def _of_user(kind: CredentialKind, row: Any) -> StoredCredential:
    id, user, role, scopes, disabled, revoked, expires, used, now = row
    refused = _refused(kind, disabled, revoked, expires, now)
    since = None if used is None else now - used
    return StoredCredential(
        id, user, role, scopes_of(scopes), None, refused, _lasts(expires, now), since
    )


async def _link(tx: Tx, by: LookupColumn, value: str) -> StoredCredential | None:
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
    return StoredCredential(
        id, f"link:{id}", "viewer", only, chat, refused, _lasts(expires, now), 0
    )


def _refused(
    kind: CredentialKind, disabled: int | None, revoked: int | None, expires: int | None, now: int
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
