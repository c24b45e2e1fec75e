"""Browser sessions: a token is sent once, then a cookie that scripts cannot read."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from holdfast.server.identity.credential_format import hash_of
from holdfast.store.database import Tx

MAX_SESSION_IDLE: Final = 7 * 24 * 3600 * 1_000_000
"""Microseconds without a request after which a session ends."""
MAX_SESSION_LIFETIME: Final = 30 * 24 * 3600 * 1_000_000
"""Microseconds after which a session ends even if it is in use."""


class Cookie(Struct, frozen=True):
    """The session cookie: its name and attributes."""

    secure: bool = False
    port: int | None = None
    """Port of a server on loopback: browsers share cookies between all ports of a host."""

    @property
    def name(self) -> str:
        if self.secure:  # browsers accept this prefix only from the host itself, and over https
            return "__Host-holdfast"
        return "holdfast" if self.port is None else f"holdfast-{self.port}"

    def holding(self, secret: str) -> str:
        """The `Set-Cookie` header that starts a session."""
        return self._header(secret, MAX_SESSION_LIFETIME // 1_000_000)

    def gone(self) -> str:
        """The `Set-Cookie` header that removes the cookie."""
        return self._header("", 0)

    def _header(self, value: str, seconds: int) -> str:
        secure = "; Secure" if self.secure else ""
        rules = f"Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"
        return f"{self.name}={value}; {rules}"


async def begin(tx: Tx, id: str, token_id: str, secret: str) -> None:
    """Store a new session of a token, and delete expired ones."""
    await tx.execute(f"DELETE FROM sessions WHERE expires_at < {tx.dialect.now}")
    await tx.execute(
        f"""
        INSERT INTO sessions (id, token_id, hash, created_at, used_at, expires_at)
        VALUES (:id, :token, :hash, {tx.dialect.now}, {tx.dialect.now},
                {tx.dialect.now} + {MAX_SESSION_IDLE})
        """,
        {"id": id, "token": token_id, "hash": hash_of(secret)},
    )


async def slide(tx: Tx, id: str) -> None:
    """Extend a session that is in use, up to `MAX_SESSION_LIFETIME` after it began."""
    idle, end = f"{tx.dialect.now} + {MAX_SESSION_IDLE}", f"created_at + {MAX_SESSION_LIFETIME}"
    await tx.execute(
        f"""
        UPDATE sessions
           SET used_at = {tx.dialect.now},
               expires_at = CASE WHEN {idle} < {end} THEN {idle} ELSE {end} END
         WHERE id = :id
        """,
        {"id": id},
    )


async def end(tx: Tx, id: str) -> bool:
    """Delete a session; return whether it existed."""
    return bool(await tx.execute("DELETE FROM sessions WHERE id = :id", {"id": id}))
