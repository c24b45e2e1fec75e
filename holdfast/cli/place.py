"""Where the chats are that a verb is about: at a server that runs, or in a database."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote, urlsplit

from holdfast.config import Where
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.ports import wall_clock
from holdfast.store.database import InUse

if TYPE_CHECKING:
    from holdfast.client.line import Line
    from holdfast.store.postgres import Postgres
    from holdfast.store.sqlite import Sqlite

DATABASE: Final = "chats.db"
PATIENCE: Final = 2.0
"""Seconds for a server that does not answer at once: somebody waits."""


def make_data_directory(path: str) -> None:
    """Make it if there is none. Raises `ConfigError` where this user cannot keep anything."""
    wrong = ""
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
    except FileExistsError:
        wrong = "is no directory"
    except OSError as error:
        wrong = f"cannot be made ({error.strerror})"
    if not wrong and not os.access(path, os.W_OK | os.X_OK):
        wrong = "may not be written to by you"
    if wrong:
        raise ConfigError(f"{path} {wrong}: set HOLDFAST_HOME to a directory of yours")


def own_database(data: str) -> str:
    """The URL of the database in a data directory."""
    return f"sqlite:///{quote(os.path.join(data, DATABASE))}"


def key_file(data: str) -> Path:
    """What secrets are sealed with, unless the environment has it."""
    return Path(data, "secret.key")


def database_of(where: Where, *, makes: bool) -> str:
    """The database that was named, or that `holdfast serve` would take here.

    `makes`: it is going to be made if there is none, and so is its directory now.
    """
    from holdfast.cli.settings import read_settings

    named = where.database or read_settings(where.settings)[0].database
    if named is None and makes:
        make_data_directory(where.data)
    return named or own_database(where.data)


# --- a server ------------------------------------------------------------------------------------


class Address(NamedTuple):
    """A server, and what lets us in there."""

    url: str
    token: str | None
    """None: it is in the URL."""


def address_of(where: Where) -> Address:
    """The server that was named, or the one of this user's own. Raises `ConfigError`."""
    url = where.url or _here(where)
    if where.token is not None or "#token=" in url:
        return Address(url, where.token)
    if not _is_here(url):
        from holdfast.client.connect import split_address

        split_address(url)  # raises for what is none, whatever lets one in there
        raise ConfigError(
            f"{url} wants a token: say --token, or set HOLDFAST_TOKEN "
            "(`holdfast token` makes one where the server is)"
        )
    return Address(url, _own_token(where))


def _here(where: Where) -> str:
    """Where `holdfast serve` would listen that is started as we were."""
    from holdfast.cli.settings import read_settings

    server = read_settings(where.settings)[0].server
    if server.team and server.urls:
        return server.urls[0]
    host, colon, port = (where.listen or server.listen).rpartition(":")
    return f"http://{host if colon else '127.0.0.1'}:{port}"


def _is_here(url: str) -> bool:
    """Whether it is this machine: the token of the file is shown to no other."""
    try:
        return is_loopback(urlsplit(url).hostname or "")
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:  # another name
        return False


def _own_token(where: Where) -> str:
    from holdfast.server.identity.private_file import read_private

    file = Path(where.data, "token")
    token = read_private(file)
    if token is None:
        raise ConfigError(
            f"there is no token in {file}: start a server with `holdfast serve`, "
            "or say --url and --token for one that runs elsewhere"
        )
    return token


@asynccontextmanager
async def asking(where: Where, patience: float = PATIENCE) -> AsyncIterator[Line]:
    """The line to the server."""
    from holdfast.client.connect import reach

    url, token = address_of(where)
    async with reach(url, token, patience=patience) as line:
        yield line


# --- a database ----------------------------------------------------------------------------------


@asynccontextmanager
async def writing(url: str, do: str) -> AsyncIterator[Sqlite | Postgres]:
    """A database to write to. Of one that a server has open it is said what to `do`."""
    from holdfast.store.url import open_database

    try:
        async with open_database(url, now=wall_clock) as db:
            yield db
    except InUse as error:
        raise InUse(f"{str(error).partition(' (')[0]}: {do}") from None


def ask_instead(where: Where) -> str:
    """What to do when a server has the database open."""
    return f"if that is a server, ask it: say --url {_here(where)}, or wherever it is"


def refuse_missing(database: str, data: str, options: str) -> None:
    """Say that there is nothing here yet, where nobody named a database; `options` name one."""
    if database == own_database(data) and not os.path.exists(os.path.join(data, DATABASE)):
        raise ConfigError(
            f"there are no chats in {data} yet: `holdfast serve` makes their database, and so does "
            f"`holdfast token`; or say {options}"
        )


@asynccontextmanager
async def reading(url: str) -> AsyncIterator[Sqlite | Postgres]:
    """A database to read, also while a server has it open."""
    from holdfast.store.url import open_database

    async with open_database(url, now=wall_clock, writes=False) as db:
        yield db
