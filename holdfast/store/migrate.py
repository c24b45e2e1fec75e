"""Migrations: numbered SQL files that bring a database to the schema of this version.

Forward only, each in its own transaction, each once. The table `migrations` records what was
applied.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final, Protocol, TypeVar

from msgspec import Struct

from holdfast.store.database import CannotOpen, Dialect, Tx

T = TypeVar("T")

_FILE: Final = re.compile(r"(\d{4})_([a-z0-9_]+)\.sql", re.ASCII)


class Migration(Struct, frozen=True):
    """One migration of the schema."""

    number: int
    """Number of the migration, from 1 without a gap."""
    name: str
    sql: str

    def __str__(self) -> str:
        return _label(self.number, self.name)


class SchemaTx(Tx, Protocol):
    """A transaction that may change the schema."""

    async def script(self, sql: str) -> None:
        """Run several statements, without parameters."""
        ...


class MigratableStore(Protocol):
    """The part of a store that migrations need."""

    async def change_schema(self, transaction: Callable[[SchemaTx], Awaitable[T]]) -> T:
        """Run and commit a transaction, while no other process runs one of these."""
        ...


class ReadableStore(Protocol):
    """The part of a store that `check` needs."""

    async def read(self, transaction: Callable[[Tx], Awaitable[T]]) -> T: ...


async def migrate(
    store: MigratableStore, dialect: Dialect, known: Sequence[Migration] | None = None
) -> list[str]:
    """Apply the missing migrations and return their names. `known` defaults to this version's.

    Raises `CannotOpen` when the applied migrations are not a prefix of the known ones.
    """
    known_migrations = migrations(dialect) if known is None else known

    async def apply_next(tx: SchemaTx) -> str | None:
        """Apply the next migration. Another process may have applied some since the last one."""
        if not await tx.one(HAS_MIGRATIONS[dialect.name]) and dialect.name == "sqlite":
            await _refuse_foreign(tx)
        missing = _missing(await _create_and_read_applied(tx), known_migrations)
        if not missing:
            return None
        await _apply(tx, missing[0])
        return str(missing[0])

    applied = []
    while (name := await store.change_schema(apply_next)) is not None:
        applied.append(name)
    return applied


async def _refuse_foreign(tx: Tx) -> None:
    """Raise `CannotOpen` for a file that contains another program's tables."""
    row = await tx.one("SELECT name FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%'")
    if row is not None:
        raise CannotOpen(
            f"this is a database of another program (it has {row[0]!r}): use another file"
        )


async def check(
    store: ReadableStore, dialect: Dialect, known: Sequence[Migration] | None = None
) -> list[str]:
    """Raise `CannotOpen` unless the database has exactly the schema of this version."""
    known_migrations = migrations(dialect) if known is None else known

    async def read_missing(tx: Tx) -> None:
        has_migrations = await tx.one(HAS_MIGRATIONS[dialect.name]) is not None
        applied = await _read_applied(tx) if has_migrations else ()
        if missing := _missing(applied, known_migrations):
            names = ", ".join(map(str, missing))
            raise CannotOpen(f"the database lacks {names}: run `holdfast migrate`")

    await store.read(read_missing)
    return []


HAS_MIGRATIONS: Final = {
    "sqlite": "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'migrations'",
    "postgres": "SELECT 1 WHERE to_regclass('migrations') IS NOT NULL",
}
"""Query that returns a row if the table of applied migrations exists."""


def migrations(dialect: Dialect, directory: Traversable | None = None) -> tuple[Migration, ...]:
    """Return the migrations of a dialect in order: those of this version, or of a directory."""
    directory = directory or files("holdfast.store") / "migrations" / dialect.name
    numbered_files = sorted(
        _read(file) for file in directory.iterdir() if file.name.endswith(".sql") and file.is_file()
    )
    if [number for number, _, _ in numbered_files] != list(range(1, len(numbered_files) + 1)):
        names = ", ".join(_label(number, name) for number, name, _ in numbered_files)
        raise ValueError(f"migrations are numbered from 0001 without a gap, not: {names}")
    return tuple(Migration(*file) for file in numbered_files)


def _read(file: Traversable) -> tuple[int, str, str]:
    match = _FILE.fullmatch(file.name)
    if match is None:
        raise ValueError(f"a migration is named like 0001_chats.sql, not {file.name}")
    return int(match[1]), match[2], file.read_text("utf-8")


async def _create_and_read_applied(tx: SchemaTx) -> list[tuple[int, str]]:
    await tx.execute(
        """
        CREATE TABLE IF NOT EXISTS migrations (
            number     integer NOT NULL PRIMARY KEY,
            name       text    NOT NULL,
            applied_at bigint  NOT NULL
        )
        """
    )
    return await _read_applied(tx)


async def _read_applied(tx: Tx) -> list[tuple[int, str]]:
    rows = await tx.fetch("SELECT number, name FROM migrations ORDER BY number")
    return [(number, name) for number, name in rows]


async def _apply(tx: SchemaTx, migration: Migration) -> None:
    await tx.script(migration.sql)
    values: dict[str, Any] = {"number": migration.number, "name": migration.name}
    await tx.execute(
        "INSERT INTO migrations (number, name, applied_at) "
        f"VALUES (:number, :name, {tx.dialect.now})",
        values,
    )


def _missing(applied: Sequence[tuple[int, str]], known: Sequence[Migration]) -> Sequence[Migration]:
    """Return the missing migrations, from the applied and the known ones."""
    for index, (number, name) in enumerate(applied):
        label = _label(number, name)
        if number > len(known):
            raise CannotOpen(
                "the database is of a newer version: this one does not have its migration "
                f"{label}: upgrade holdfast"
            )
        if number != index + 1:
            raise CannotOpen(
                f"the database has migration {label} but not {known[index]}: "
                "restore it from a backup"
            )
        if name != known[index].name:
            raise CannotOpen(
                f"the database has migration {label} where this version has {known[index]}: "
                "use the version of holdfast that created it"
            )
    return known[len(applied) :]


def _label(number: int, name: str) -> str:
    return f"{number:04}_{name}"
