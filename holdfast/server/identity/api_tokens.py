"""API tokens: returned once, stored as a hash, limited by scopes and an expiry."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from holdfast.chat.rows import check_text
from holdfast.server.access_policy import ALL_SCOPES, LOCAL, Scope
from holdfast.server.identity.credential_format import hash_of
from holdfast.server.problem import (
    BadBody,
    Conflict,
    Forbidden,
    NotFound,
    TooMany,
    Unauthenticated,
)
from holdfast.store.database import Tx

DAY_SECONDS: Final = 24 * 3600
MAX_TOKEN_LIFETIME: Final = 366 * DAY_SECONDS
"""Longest lifetime of a token in seconds."""
DEFAULT_TOKEN_LIFETIME: Final = 90 * DAY_SECONDS
"""Default lifetime of a token in seconds."""
MAX_TOKENS_PER_USER: Final = 100
"""Most valid tokens of one user."""
FILE_TOKEN_ID: Final = "local"
"""Id of the token that a local server keeps in a file."""


class Token(Struct, frozen=True):
    """A token's metadata, without its secret."""

    id: str
    user: str
    name: str
    scopes: tuple[Scope, ...]
    created_at: int
    expires_at: int | None = None
    revoked_at: int | None = None
    used_at: int | None = None
    """Time of the last use, to the minute."""


class TokenNotFound(NotFound):
    """There is no token with this id."""

    kind = "token_not_found"


class NewToken(Struct, frozen=True, kw_only=True):
    """A token to create."""

    id: str
    user: str
    name: str
    secret: str
    scopes: frozenset[Scope] = ALL_SCOPES
    lifetime: int | None = DEFAULT_TOKEN_LIFETIME
    """Seconds until the token expires; None: never."""


async def issue(tx: Tx, new: NewToken) -> Token:
    """Create a token. Raises `TooMany`."""
    await _refuse_more(tx, new.user)
    row = await tx.one(
        f"""
        INSERT INTO tokens (id, user_id, name, hash, scopes, created_at, expires_at)
        VALUES (:id, :user, :name, :hash, :scopes, {tx.dialect.now},
                {"NULL" if new.lifetime is None else f"{tx.dialect.now} + :lifetime"})
        RETURNING {_COLUMNS}
        """,
        {
            "id": new.id,
            "user": new.user,
            "name": _name(new.name),
            "hash": hash_of(new.secret),
            "scopes": " ".join(sorted(new.scopes)),
            **({} if new.lifetime is None else {"lifetime": new.lifetime * 1_000_000}),
        },
    )
    assert row is not None
    return _token(row)


async def lifetime_by(tx: Tx, by: str, wanted: int | None) -> int:
    """Lifetime in seconds of a new token: it cannot outlive the one used to create it.

    `by`: id of that token, or of a session started with it. `wanted`: None for the default, or for
    the time that token has left if that is less.
    """
    # Locked, so that it is not revoked meanwhile: the caller may have been authenticated by cache.
    row = await tx.one(
        f"""
        SELECT expires_at, {tx.dialect.now} FROM tokens
         WHERE id IN (:id, (SELECT token_id FROM sessions WHERE id = :id)) AND revoked_at IS NULL
         {tx.dialect.lock}
        """,
        {"id": by},
    )
    if row is None:
        raise Unauthenticated("your token or session was revoked or has ended: get another token")
    ends, now = row
    left = MAX_TOKEN_LIFETIME if ends is None else (ends - now) // 1_000_000
    if left < 1:
        raise Unauthenticated("this token has expired: get another one")
    if wanted is None:
        return min(DEFAULT_TOKEN_LIFETIME, left)
    if wanted > left:
        raise Forbidden(
            "a new token cannot outlive the one used to create it: set expires_in to at most "
            f"{left}, use a token that lasts longer, or run holdfast token on the server",
            limit=left,
        )
    return wanted


async def _refuse_more(tx: Tx, user: str) -> None:
    row = await tx.one(
        f"""
        SELECT count(*) FROM tokens
         WHERE user_id = :user AND revoked_at IS NULL
           AND (expires_at IS NULL OR expires_at > {tx.dialect.now})
        """,
        {"user": user},
    )
    if row is not None and row[0] >= MAX_TOKENS_PER_USER:
        raise TooMany(
            f"this user has {MAX_TOKENS_PER_USER} tokens already: revoke some",
            limit=MAX_TOKENS_PER_USER,
        )


async def revoke(tx: Tx, id: str, user: str | None = None) -> Token:
    """Revoke a token; revoking it again changes nothing. `user`: only if it belongs to them."""
    check_text("token", id)
    if id == FILE_TOKEN_ID:
        raise Conflict("this token is kept in a file: remove the file and start the server again")
    row = await tx.one(
        f"""
        UPDATE tokens SET revoked_at = COALESCE(revoked_at, {tx.dialect.now})
         WHERE id = :id {"" if user is None else "AND user_id = :user"}
        RETURNING {_COLUMNS}
        """,
        {"id": id} if user is None else {"id": id, "user": user},
    )
    if row is None:
        raise TokenNotFound(f"there is no token {id!r}: GET /tokens lists them", token=id)
    await tx.execute("DELETE FROM sessions WHERE token_id = :id", {"id": id})
    return _token(row)


async def list_tokens(tx: Tx, user: str) -> tuple[Token, ...]:
    """Tokens of a user, newest first, including revoked and expired ones."""
    rows = await tx.fetch(
        f"SELECT {_COLUMNS} FROM tokens WHERE user_id = :user ORDER BY id DESC LIMIT 1000",
        {"user": user},
    )
    return tuple(map(_token, rows))


async def keep_of_file(tx: Tx, secret: str) -> None:
    """Make this the only token of a local server."""
    await tx.execute(
        "DELETE FROM tokens WHERE id = :id AND hash <> :hash",
        {"id": FILE_TOKEN_ID, "hash": hash_of(secret)},
    )
    await tx.execute(
        f"""
        INSERT INTO tokens (id, user_id, name, hash, scopes, created_at)
        VALUES (:id, :user, 'of the file', :hash, :scopes, {tx.dialect.now})
        ON CONFLICT DO NOTHING
        """,
        {
            "id": FILE_TOKEN_ID,
            "user": LOCAL,
            "hash": hash_of(secret),
            "scopes": " ".join(sorted(ALL_SCOPES)),
        },
    )


def scopes_of(text: str) -> frozenset[Scope]:
    """Parse scopes as stored, separated by spaces."""
    scopes: Iterable[Scope] = ALL_SCOPES
    return frozenset(each for each in scopes if each in text.split())


def _token(row: Iterable[object]) -> Token:
    id, user, name, scopes, *times = row
    return Token(id, user, name, tuple(sorted(scopes_of(str(scopes)))), *times)  # type: ignore[arg-type]


def _name(name: str) -> str:
    plain = " ".join(name.split())
    if not (0 < len(plain) <= 200 and plain.isprintable()):
        raise BadBody(f"a name has 1 to 200 printable characters, not {name!r}")
    check_text("name", plain)
    return plain


_COLUMNS: Final = "id, user_id, name, scopes, created_at, expires_at, revoked_at, used_at"
