"""Database URLs: parsing them, and opening the database that they name."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from holdfast.kernel.errors import ConfigError
from holdfast.kernel.ports import new_id
from holdfast.store.database import Hold

if TYPE_CHECKING:
    from holdfast.store.postgres.database import Postgres
    from holdfast.store.sqlite.database import Sqlite

LOG: Final = logging.getLogger("holdfast")
MEMORY: Final = ":memory:"
FORMS: Final = (
    "write sqlite:///chats.db for a file here, sqlite:////var/lib/chats.db for one anywhere, "
    "or postgresql://user:password@host/name"
)


class Place(NamedTuple):
    """The kind and the location of a database."""

    kind: Literal["sqlite", "postgres"]
    at: str
    """Path of a file, or `:memory:`; URL of a server."""


@asynccontextmanager
async def open_database(
    url: str,
    *,
    now: Callable[[], int],
    hold: Hold | None = None,
    migrate: bool = True,
    writes: bool = True,
    wait: float = 0.0,
    listen_url: str | None = None,
    new_id: Callable[[], str] = new_id,
) -> AsyncIterator[Sqlite | Postgres]:
    """Open a database until the end of the block. `ConfigError` and `CannotOpen` say what to do.

    `now` is SQLite's clock; a server uses its own. Without `migrate`, a database that lacks a
    migration is refused. Without `writes`, it is only read, also while other processes write, and
    it is neither created nor migrated. `wait`: seconds to wait for a server that cannot be reached
    yet. `listen_url`: a direct URL of the same PostgreSQL database for LISTEN, where `url` leads
    through a pooler. `new_id` makes the id that tells the notifications of this process from those
    of others.
    """
    place = parse(url)
    async with AsyncExitStack() as stack:
        if place.kind == "postgres":
            from holdfast.store.postgres.database import open_postgres

            server = open_postgres(
                place.at,
                hold=hold,
                migrate=migrate and writes,
                wait=wait,
                listen_url=listen_url,
                new_id=new_id,
            )
            yield await stack.enter_async_context(server)
            return
        if listen_url is not None:
            raise ConfigError("listen_url is for PostgreSQL: leave it out for a SQLite database")
        if place.at == MEMORY and not writes:
            raise ConfigError("a database in memory is new and empty: name a file to read")
        from holdfast.store.sqlite.database import open_sqlite

        file = open_sqlite(place.at, now=now, hold=hold, migrate=migrate and writes, writes=writes)
        yield await stack.enter_async_context(file)


def warn_of_polling(db: Sqlite | Postgres, poll: float) -> None:
    """Log that notices of other processes do not arrive, and what to do about it."""
    if not db.listens:
        LOG.warning(
            "LISTEN does not work through the pooler of this database, so changes made by other "
            "processes are found by polling, after up to %g s: set listen_url to a URL of the "
            "same database without the pooler",
            poll,
        )


def parse(url: str) -> Place:
    """Parse a database URL. Errors do not repeat the URL, which may contain a secret."""
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
            raise ConfigError(f"the driver cannot be chosen: write {plain}:// without +…")
        case _ if colon and kind.isalnum():
            raise ConfigError(f"unknown kind of database {kind}: {FORMS}")
    raise ConfigError(f"this is not a database URL: {FORMS}")


def _file(rest: str) -> str:
    """Return the path of a `sqlite://` URL: a slash, then a relative or an absolute path."""
    from urllib.parse import unquote

    if rest in ("", MEMORY, f"/{MEMORY}"):
        return MEMORY
    if not rest.startswith("/"):
        raise ConfigError(f"sqlite: needs three slashes, or four for an absolute path: {FORMS}")
    if "?" in rest or "#" in rest:
        raise ConfigError(
            "the URL of a SQLite database has no options: remove what follows ? or #; "
            "in a name they are written as %3F and %23"
        )
    path = unquote(rest[1:])
    if not path.strip() or not path.isprintable():
        raise ConfigError(f"the URL does not name a valid file: {FORMS}")
    return path
