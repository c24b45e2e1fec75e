"""Users: creating and changing them, and keeping at least one administrator."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from holdfast.chat.rows import check_text
from holdfast.server.access_policy import LOCAL, Role
from holdfast.server.problem import BadBody, Conflict, NotFound
from holdfast.store.database import Tx

MAX_USER_NAME: Final = 200
"""Longest name of a user, in characters."""


class User(Struct, frozen=True):
    """A user of a team server."""

    id: str
    name: str
    role: Role
    created_at: int
    disabled_at: int | None = None
    """When the user was disabled; None if they may sign in."""


class UserNotFound(NotFound):
    """There is no such user."""

    kind = "user_not_found"


class NameTaken(Conflict):
    """Another user has this name."""

    kind = "name_taken"


class LastAdmin(Conflict):
    """The change would leave the server without an administrator."""

    kind = "last_admin"


async def create_user(tx: Tx, id: str, name: str, role: Role) -> User:
    """Create a user. Raises `NameTaken`."""
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
        raise NameTaken(f"a user named {name!r} already exists: choose another name", name=name)
    return User(*row)


async def change_user(
    tx: Tx, id: str, *, role: Role | None = None, disabled: bool | None = None
) -> User:
    """Change a user; None keeps a value. Raises `LastAdmin` if no administrator would be left."""
    admins = await _admins(tx)
    user = await find_user(tx, id)
    stays = (role or user.role) == "admin" and not _disabled(user, disabled)
    if id in admins and not stays and len(admins) == 1:
        raise LastAdmin(f"{user.name!r} is the last administrator: appoint another one first")
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
    """Locked, so that two administrators cannot each resign because the other is left."""
    rows = await tx.fetch(
        f"""
        SELECT id FROM users WHERE role = 'admin' AND disabled_at IS NULL AND id <> '{LOCAL}'
         ORDER BY id {tx.dialect.lock}
        """
    )
    return {row[0] for row in rows}


async def find_user(tx: Tx, id: str) -> User:
    """Find a user by id. Raises `UserNotFound`, also for the user of a local server."""
    return await _user(tx, "id", id, "user with the id")


async def find_user_called(tx: Tx, name: str) -> User:
    """Find a user by name. Raises `UserNotFound`."""
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
    """Users by name, starting after the name `after`."""
    rows = await tx.fetch(
        f"""
        SELECT {_COLUMNS} FROM users WHERE name > :after AND id <> '{LOCAL}'
         ORDER BY name LIMIT :limit
        """,
        {"after": after, "limit": limit},
    )
    return tuple(User(*row) for row in rows)


async def local_user(tx: Tx) -> None:
    """Create the only user of a local server, unless it exists."""
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
    if not (0 < len(plain) <= MAX_USER_NAME and plain.isprintable()):
        raise BadBody(f"a name has 1 to {MAX_USER_NAME} printable characters, not {name!r}")
    check_text("name", plain)
    return plain


_COLUMNS: Final = "id, name, role, created_at, disabled_at"
