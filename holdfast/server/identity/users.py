"""Users: who they are, what they may, and that there is always an administrator."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from holdfast.chat.state import check_text
from holdfast.server.policy import LOCAL, Role
from holdfast.server.problem import BadBody, Conflict, NotFound
from holdfast.store.database import Tx

NAME: Final = 200
"""Characters at most."""


class User(Struct, frozen=True):
    id: str
    name: str
    role: Role
    created_at: int
    disabled_at: int | None = None
    """Since when they are not let in."""


class UserNotFound(NotFound):
    kind = "user_not_found"


class NameTaken(Conflict):
    kind = "name_taken"


class LastAdmin(Conflict):
    kind = "last_admin"


async def create_user(tx: Tx, id: str, name: str, role: Role) -> User:
    """Raises `NameTaken`."""
    row = await tx.one(
        f"""
        INSERT INTO users (id, name, role, created_at)
        VALUES (:id, :name, :role, {tx.dialect.now})
        ON CONFLICT DO NOTHING
        RETURNING {_COLUMNS}
        """,
        {"id": id, "name": _name(name), "role": role},
    )
    if row is None:
        raise NameTaken(f"there is a user {name!r} already: choose another name", name=name)
    return User(*row)


async def change_user(
    tx: Tx, id: str, *, role: Role | None = None, disabled: bool | None = None
) -> User:
    """What is None stays. Raises `LastAdmin` when nobody would be left to let others in."""
    admins = await _admins(tx)
    user = await find_user(tx, id)
    stays = (role or user.role) == "admin" and not _disabled(user, disabled)
    if id in admins and not stays and len(admins) == 1:
        raise LastAdmin(f"{user.name!r} is the last administrator: make another one first")
    row = await tx.one(
        f"""
        UPDATE users
           SET role = :role,
               disabled_at = CASE WHEN :disabled = 0 THEN NULL
                                  ELSE COALESCE(disabled_at, {tx.dialect.now}) END
         WHERE id = :id
        RETURNING {_COLUMNS}
        """,
        {"id": id, "role": role or user.role, "disabled": int(_disabled(user, disabled))},
    )
    assert row is not None
    return User(*row)


def _disabled(user: User, disabled: bool | None) -> bool:
    return user.disabled_at is not None if disabled is None else disabled


async def _admins(tx: Tx) -> set[str]:
    """Locked, so that two of them cannot each leave it to the other."""
    rows = await tx.fetch(
        f"""
        SELECT id FROM users WHERE role = 'admin' AND disabled_at IS NULL AND id <> '{LOCAL}'
         ORDER BY id {tx.dialect.lock}
        """
    )
    return {row[0] for row in rows}


async def find_user(tx: Tx, id: str) -> User:
    """Raises `UserNotFound`. The user of a local server is nobody's to be found."""
    return await _user(tx, "id", id, "user with the id")


async def find_user_called(tx: Tx, name: str) -> User:
    return await _user(tx, "name", name, "user")


async def _user(tx: Tx, column: str, it: str, words: str) -> User:
    check_text("user", it)
    row = await tx.one(
        f"SELECT {_COLUMNS} FROM users WHERE {column} = :it AND id <> '{LOCAL}'", {"it": it}
    )
    if row is None:
        raise UserNotFound(f"there is no {words} {it!r}: GET /users lists them", user=it)
    return User(*row)


async def list_users(tx: Tx, *, after: str = "", limit: int = 100) -> tuple[User, ...]:
    """By name, from the one behind `after` on."""
    rows = await tx.fetch(
        f"""
        SELECT {_COLUMNS} FROM users WHERE name > :after AND id <> '{LOCAL}'
         ORDER BY name LIMIT :limit
        """,
        {"after": after, "limit": limit},
    )
    return tuple(User(*row) for row in rows)


async def local_user(tx: Tx) -> None:
    """See to it that the only user of a local server is there."""
    params: dict[str, Any] = {"id": LOCAL, "name": LOCAL}
    await tx.execute(
        f"""
        INSERT INTO users (id, name, role, created_at)
        VALUES (:id, :name, 'admin', {tx.dialect.now}) ON CONFLICT DO NOTHING
        """,
        params,
    )


def _name(name: str) -> str:
    plain = " ".join(name.split())
    if not (0 < len(plain) <= NAME and plain.isprintable()):
        raise BadBody(f"a name has 1 to {NAME} printable characters, not {name!r}")
    check_text("name", plain)
    return plain


_COLUMNS: Final = "id, name, role, created_at, disabled_at"
