"""Databases by their URL: which kind it is, and how it is opened."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from holdfast.kernel.errors import ConfigError
from holdfast.store.database import Hold

if TYPE_CHECKING:
    from holdfast.store.postgres import Postgres
    from holdfast.store.sqlite import Sqlite

MEMORY: Final = ":memory:"
FORMS: Final = (
    "write sqlite:///chats.db for a file here, sqlite:////var/lib/chats.db for one anywhere, "
    "or postgresql://user:password@host/name"
)


class Place(NamedTuple):
    """Where a database is."""

    kind: Literal["sqlite", "postgres"]
    at: str
    """The path of a file, or `:memory:`; the URL of a server."""


@asynccontextmanager
async def open_database(
    url: str,
    *,
    now: Callable[[], int],
    hold: Hold | None = None,
    migrate: bool = True,
    writes: bool = True,
) -> AsyncIterator[Sqlite | Postgres]:
    """A database until the end of the block. `ConfigError` and `CannotOpen` say what to do.

    `now` is SQLite's clock; a server goes by its own. Without `migrate` a database is refused that
    lacks a migration. Without `writes` it is only read, also while other processes write, and it is
    neither made nor migrated.
    """
    place = parse(url)
    async with AsyncExitStack() as stack:
        if place.kind == "postgres":
            from holdfast.store.postgres import open_postgres

            server = open_postgres(place.at, hold=hold, migrate=migrate and writes)
            yield await stack.enter_async_context(server)
            return
        if place.at == MEMORY and not writes:
            raise ConfigError("a database in memory is new and empty: name a file to read")
        from holdfast.store.sqlite import open_sqlite

        file = open_sqlite(place.at, now=now, hold=hold, migrate=migrate and writes, writes=writes)
        yield await stack.enter_async_context(file)


def parse(url: str) -> Place:
    """What a URL names. What it says is not repeated when it cannot be right: it may be secret."""
    if not isinstance(url, str):
        raise ConfigError(f"a database is named by text, not by a {type(url).__name__}: {FORMS}")
    kind, colon, rest = url.strip().partition("://")
    match kind.lower():
        case "postgresql" | "postgres" if colon:
            return Place("postgres", url.strip())
        case "sqlite" if colon:
            return Place("sqlite", _file(rest))
        case _ if kind.startswith(("postgresql+", "postgres+", "sqlite+")) and colon:
            plain = kind.partition("+")[0]
            raise ConfigError(f"the driver is ours to choose: write {plain}:// without +…")
        case _ if colon and kind.isalnum():
            raise ConfigError(f"there is no database of the kind {kind}: {FORMS}")
    raise ConfigError(f"this is no URL of a database: {FORMS}")


def _file(rest: str) -> str:
    """The path behind `sqlite://`: a slash, and then the path as it is, from here or from `/`."""
    from urllib.parse import unquote

    if rest in ("", MEMORY, f"/{MEMORY}"):
        return MEMORY
    if not rest.startswith("/"):
        raise ConfigError(f"behind sqlite: come three slashes, or four before a path: {FORMS}")
    if "?" in rest or "#" in rest:
        raise ConfigError(
            "the URL of a SQLite database has no options: leave out what is behind ? or #; "
            "in a name they are written as %3F and %23"
        )
    path = unquote(rest[1:])
    if not path.strip() or not path.isprintable():
        raise ConfigError(f"the URL names no file that can be: {FORMS}")
    return path
