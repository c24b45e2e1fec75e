"""Both databases have the same schema. What their CHECKs and triggers do: see test_guards.py."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from holdfast.chat.rows import CHAT_COLUMNS
from holdfast.chat.spending_counters import SPENDING_COLUMNS
from holdfast.store.database import Database, Tx
from holdfast.store.sqlite.database import open_sqlite
from holdfast.testing import Clock
from tests.chat.chats import TABLES, Chats


class Column(Struct, frozen=True):
    name: str
    type: str
    null: bool
    default: str | None


class Table(Struct, frozen=True):
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    unique: frozenset[tuple[str, ...]]
    foreign: frozenset[tuple[tuple[str, ...], str, tuple[str, ...], str]]
    indexes: frozenset[tuple[str, tuple[str, ...], bool]]
    """Name, columns, whether it is of some rows only."""
    checks: int
    triggers: frozenset[str]


TYPES: Final = {
    "INTEGER": "int",
    "bigint": "int",
    "integer": "int",
    "REAL": "float",
    "double precision": "float",
    "BLOB": "bytes",
    "bytea": "bytes",
}
INDEXED: Final = "passage_words"
"""The index of the search: each database has its own kind, SQLite in several tables."""


def _column(name: str, type: str, null: bool, default: str | None) -> Column:
    plain = None if default is None else default.removesuffix("::text")
    return Column(name, TYPES.get(type, type.lower()), null, plain)


# --- SQLite ---


async def sqlite_schema(tx: Tx) -> Mapping[str, Table]:
    rows = await tx.fetch(
        "SELECT name, sql FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        f" AND name NOT LIKE '{INDEXED}%'"
    )
    return {name: await _sqlite_table(tx, name, sql) for name, sql in rows}


async def _sqlite_table(tx: Tx, table: str, sql: str) -> Table:
    info = await tx.fetch(f"SELECT * FROM pragma_table_info('{table}')")
    indexes = await tx.fetch(f"SELECT name, origin, partial FROM pragma_index_list('{table}')")
    columns = {name: await _sqlite_index(tx, name) for name, _, _ in indexes}
    triggers = await tx.fetch(
        f"SELECT name FROM sqlite_schema WHERE type = 'trigger' AND tbl_name = '{table}'"
    )
    return Table(
        tuple(
            _column(name, type, not notnull and not key, default)
            for _, name, type, notnull, default, key in info
        ),
        tuple(row[1] for row in sorted(info, key=lambda row: row[5]) if row[5]),
        frozenset(columns[name] for name, origin, _ in indexes if origin == "u"),
        await _sqlite_foreign(tx, table),
        frozenset(
            (name, columns[name], bool(partial))
            for name, origin, partial in indexes
            if origin == "c"
        ),
        len(re.findall(r"\bCHECK\b", sql)),
        frozenset(row[0] for row in triggers),
    )


async def _sqlite_index(tx: Tx, name: str) -> tuple[str, ...]:
    rows = await tx.fetch(f"SELECT name FROM pragma_index_info('{name}') ORDER BY seqno")
    return tuple(row[0] for row in rows)


async def _sqlite_foreign(tx: Tx, table: str) -> frozenset[Any]:
    rows = await tx.fetch(
        f'SELECT id, "table", "from", "to", on_delete FROM pragma_foreign_key_list(\'{table}\')'
        " ORDER BY id, seq"
    )
    keys: dict[int, list[Sequence[Any]]] = {}
    for row in rows:
        keys.setdefault(row[0], []).append(row)
    return frozenset(
        (tuple(r[2] for r in key), key[0][1], tuple(r[3] for r in key), key[0][4])
        for key in keys.values()
    )


# --- PostgreSQL ---

COLUMNS: Final = """
    SELECT column_name, data_type, is_nullable = 'YES', column_default
      FROM information_schema.columns
     WHERE table_schema = 'public' AND table_name = :table ORDER BY ordinal_position
    """
CONSTRAINTS: Final = """
    SELECT CAST(contype AS text), CAST(confrelid::regclass AS text),
           (SELECT array_agg(attname ORDER BY n) FROM unnest(conkey) WITH ORDINALITY AS k (num, n)
              JOIN pg_attribute ON attrelid = conrelid AND attnum = num)::text[],
           (SELECT array_agg(attname ORDER BY n) FROM unnest(confkey) WITH ORDINALITY AS k (num, n)
              JOIN pg_attribute ON attrelid = confrelid AND attnum = num)::text[],
           CASE confdeltype WHEN 'c' THEN 'CASCADE' ELSE 'NO ACTION' END
      FROM pg_constraint WHERE conrelid = CAST(CAST(:table AS text) AS regclass)
    """
INDEXES: Final = """
    SELECT CAST(indexrelid::regclass AS text), indpred IS NOT NULL,
           (SELECT array_agg(attname ORDER BY attnum) FROM pg_attribute
             WHERE attrelid = indexrelid)::text[]
      FROM pg_index
     WHERE indrelid = CAST(CAST(:table AS text) AS regclass)
       AND indexrelid NOT IN (SELECT conindid FROM pg_constraint)
    """


async def postgres_schema(tx: Tx) -> Mapping[str, Table]:
    rows = await tx.fetch(
        f"SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> '{INDEXED}'"
    )
    return {name: await _postgres_table(tx, name) for (name,) in rows}


async def _postgres_table(tx: Tx, table: str) -> Table:
    given = {"table": table}
    constraints = await tx.fetch(CONSTRAINTS, given)
    triggers = await tx.fetch(
        "SELECT tgname FROM pg_trigger WHERE tgrelid = CAST(CAST(:table AS text) AS regclass)"
        " AND NOT tgisinternal",
        given,
    )

    def of(kind: str) -> list[Sequence[Any]]:
        return [row for row in constraints if row[0] == kind]

    return Table(
        tuple(_column(*row) for row in await tx.fetch(COLUMNS, given)),
        tuple(of("p")[0][2]),
        frozenset(tuple(row[2]) for row in of("u")),
        frozenset((tuple(row[2]), row[1], tuple(row[3]), row[4]) for row in of("f")),
        frozenset((row[0], tuple(row[2]), row[1]) for row in await tx.fetch(INDEXES, given)),
        len(of("c")),
        frozenset(row[0] for row in triggers),
    )


# --- the same ---


async def _schemas(
    postgres: Database, sqlite: Database
) -> tuple[Mapping[str, Table], Mapping[str, Table]]:
    return await postgres.read(postgres_schema), await sqlite.read(sqlite_schema)


async def test_both_databases_have_the_same_tables_keys_and_rules(
    postgres: Chats, tmp_path: Path, clock: Clock
) -> None:
    path = tmp_path / "chats.db"
    async with open_sqlite(path, now=clock.now, thread=False) as sqlite:
        theirs, ours = await _schemas(postgres.db, sqlite)
    assert set(theirs) == set(ours)
    for name, table in ours.items():
        for part in Table.__struct_fields__:
            assert getattr(theirs[name], part) == getattr(table, part), (name, part)
    assert sum(table.checks for table in ours.values()) > 20
    assert sum(len(table.triggers) for table in ours.values()) >= 6


async def test_these_tests_look_at_every_table(postgres: Chats) -> None:
    schema = await postgres.db.read(postgres_schema)
    of_chats = {name for name, table in schema.items() if _belongs_to_chats(name, table)}
    assert of_chats <= set(TABLES) <= set(schema)
    for name, key in TABLES.items():
        assert schema[name].key == tuple(key.split(", ")), name


def _belongs_to_chats(name: str, table: Table) -> bool:
    return name == "chats" or any(target == "chats" for _, target, _, _ in table.foreign)


async def test_a_chat_has_a_field_for_every_column(postgres: Chats) -> None:
    schema = await postgres.db.read(postgres_schema)
    assert {column.name for column in schema["chats"].columns} == {*CHAT_COLUMNS, *SPENDING_COLUMNS}
