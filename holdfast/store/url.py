"""Database URLs: parses them, and opens their database."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from holdfast.kernel.errors import ConfigError
from holdfast.kernel.ports import new_id

if TYPE_CHECKING:
    from holdfast.store.postgres.database import Postgres
    from holdfast.store.sqlite.database import Sqlite

LOG: Final = logging.getLogger("holdfast")
MEMORY: Final = ":memory:"
URL_EXAMPLES: Final = (
    "write sqlite:///chats.db for a file in this directory, sqlite:////var/lib/chats.db for an "
    "absolute path, or postgresql://user:password@host/name"
)


class DatabaseTarget(NamedTuple):
    """The kind and the location of a database."""

    kind: Literal["sqlite", "postgres"]
    location: str
    """Path of a file, or `:memory:`; URL of a server."""


@asynccontextmanager
async def open_database(
    url: str,
    *,
    now: Callable[[], int],
    migrate: bool = True,
    writes: bool = True,
    wait: float = 0.0,
    listen_url: str | None = None,
    new_id: Callable[[], str] = new_id,
) -> AsyncIterator[Sqlite | Postgres]:
    """Open a database until the end of the block. Raises `ConfigError` or `CannotOpen`.

    `now` is the clock for SQLite; a server uses its own. Without `migrate`, a database that lacks a
    migration is refused. Without `writes`, it is opened read-only, also while other processes
    write, and is neither created nor migrated. `wait` is how many seconds to wait for a server that
    cannot be reached yet. `listen_url` is a direct URL of the same PostgreSQL database for LISTEN,
    if `url` leads through a pooler. `new_id` creates the id that marks notifications of this
    process.
    """
    target = parse(url)
    async with AsyncExitStack() as stack:
        if target.kind == "postgres":
            from holdfast.store.postgres.database import open_postgres

            server = open_postgres(
                target.location,
                migrate=migrate and writes,
                wait=wait,
                listen_url=listen_url,
                new_id=new_id,
            )
            yield await stack.enter_async_context(server)
            return
        if listen_url is not None:
            raise ConfigError("listen_url is for PostgreSQL: leave it out for a SQLite database")
        if target.location == MEMORY and not writes:
            raise ConfigError("a database in memory would be empty: name a file to read")
        from holdfast.store.sqlite.database import open_sqlite

        file = open_sqlite(target.location, now=now, migrate=migrate and writes, writes=writes)
        yield await stack.enter_async_context(file)


def warn_of_polling(db: Sqlite | Postgres, poll: float) -> None:
    """Log a warning if notices of other processes do not arrive, with the remedy."""
    if not db.listens:
        LOG.warning(
            "LISTEN does not work through the pooler of this database, so changes made by other "
            "processes are found by polling, after up to %g s: set listen_url to a URL of the "
            "same database without the pooler",
            poll,
        )


def parse(url: str) -> DatabaseTarget:
    """Parse a database URL. Errors do not repeat the URL, which may contain a secret."""
    if not isinstance(url, str):
        raise ConfigError(f"a database URL is text, not a {type(url).__name__}: {URL_EXAMPLES}")
    kind, colon, rest = url.strip().partition("://")
    match kind.lower():
        case "postgresql" | "postgres" if colon:
            return DatabaseTarget("postgres", url.strip())
        case "sqlite" if colon:
            return DatabaseTarget("sqlite", _file(rest))
        case _ if kind.startswith(("postgresql+", "postgres+", "sqlite+")) and colon:
            plain = kind.partition("+")[0]
            raise ConfigError(f"the driver cannot be chosen: write {plain}:// without +…")
        case _ if colon and kind.isalnum():
            raise ConfigError(f"unknown kind of database {kind}: {URL_EXAMPLES}")
    raise ConfigError(f"this is not a database URL: {URL_EXAMPLES}")


def _file(rest: str) -> str:
    """Return the path of a `sqlite://` URL: a slash, then a relative or an absolute path."""
    from urllib.parse import unquote

    if rest in ("", MEMORY, f"/{MEMORY}"):
        return MEMORY
    if not rest.startswith("/"):
        raise ConfigError(
            f"sqlite: needs three slashes, or four for an absolute path: {URL_EXAMPLES}"
        )
    if "?" in rest or "#" in rest:
        raise ConfigError(
            "the URL of a SQLite database has no options: remove what follows ? or #; "
            "in a file name they are written as %3F and %23"
        )
    path = unquote(rest[1:])
    if not path.strip() or not path.isprintable():
        raise ConfigError(f"the URL does not name a valid file: {URL_EXAMPLES}")
    return path
