"""Resolves where the chats of a verb are: at a running server, or in a database."""

from __future__ import annotations

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_address
from pathlib import Path
from shlex import quote as quoted
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote, unquote, urlsplit

from holdfast.config import ChatTarget
from holdfast.kernel.errors import ConfigError, HoldfastError
from holdfast.kernel.ports import wall_clock
from holdfast.store.database import InUse

if TYPE_CHECKING:
    from holdfast.cli.settings import HoldfastSettings
    from holdfast.client.transport import Transport
    from holdfast.store.postgres.database import Postgres
    from holdfast.store.sqlite.database import Sqlite

DATABASE_FILE: Final = "chats.db"
CONNECT_WAIT: Final = 2.0
"""Seconds to wait for a server that does not answer at once."""


def create_data_directory(path: str) -> None:
    """Create the directory if missing. Raises `ConfigError` if this user cannot write there."""
    wrong = ""
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
    except FileExistsError:
        wrong = "is not a directory"
    except OSError as error:
        wrong = f"cannot be created ({error.strerror})"
    if not wrong and not os.access(path, os.W_OK | os.X_OK):
        wrong = "is not writable for you"
    if wrong:
        raise ConfigError(f"{path} {wrong}: set HOLDFAST_HOME to a directory of yours")
    refuse_shared(path)


def refuse_shared(directory: str) -> None:
    """Raise `ConfigError` for a data directory in which another user could replace files.

    Root may use a directory of any user, as a container does with one that is mounted.
    """
    facts = os.stat(directory)
    mode, user = stat.S_IMODE(facts.st_mode), os.geteuid()
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ConfigError(
            f"{directory} can be written to by other users (mode {mode:03o}), who could replace "
            f"your chats and keys: run `chmod go-w {quoted(directory)}`, or set HOLDFAST_HOME to "
            "a directory of yours (a new one is created private)"
        )
    if user != 0 and facts.st_uid not in (user, 0):
        raise ConfigError(
            f"{directory} belongs to another user, who could replace your chats and keys: set "
            "HOLDFAST_HOME to a directory of yours"
        )


def own_database(data: str) -> str:
    """The URL of the database in a data directory."""
    return f"sqlite:///{quote(os.path.join(data, DATABASE_FILE))}"


def name_of(database: str) -> str:
    """The database without its password."""
    pieces = urlsplit(database)
    path = unquote(pieces.path.removeprefix("/"))
    return path if pieces.scheme == "sqlite" else f"the database at {pieces.hostname}"


def key_file(data: str) -> Path:
    """Path of the key that encrypts secrets, unless the environment has it."""
    return Path(data, "secret.key")


def database_of(where: ChatTarget, *, makes: bool) -> str:
    """URL of the named database, or of the one `holdfast serve` would use here.

    `makes`: the caller creates a missing database, so its directory is created now.
    """
    named = where.database or where.serve_database or _settings(where).database
    if named is None and makes:
        create_data_directory(where.data)
    return named or own_database(where.data)


def _settings(where: ChatTarget) -> HoldfastSettings:
    from holdfast.cli.settings import read_settings

    return read_settings(where.settings, where.data)[0]


# --- a server ------------------------------------------------------------------------------------


class ServerAddress(NamedTuple):
    """Address of a server, and the credentials for it."""

    url: str
    token: str | None
    """The token; None: it is in the URL."""
    socket: Path | None = None
    """Socket of the user's own server: the token is sent there and never to the port."""


class ForeignServer(HoldfastError):
    """Another program listens where this user's own server would."""

    def __init__(self, url: str) -> None:
        super().__init__(
            f"{url} is answered by a program that is not your server, or by an older version of "
            "it, which was not shown your token: stop it and start `holdfast serve`. For a server "
            "of another user, or in a container, use --url and --token"
        )


def server_of(where: ChatTarget) -> ServerAddress | None:
    """The server that has the chats: the named one, the team's, or the user's own if it runs.

    None: use the database directly. Raises `ConfigError`.
    """
    if where.database is not None:
        return None
    if where.url is not None:
        return _named(where, where.url)
    server = _settings(where).server
    if server.team and server.urls:
        return _named(where, server.urls[0])
    return running_server(where)


def running_server(where: ChatTarget) -> ServerAddress | None:
    """The user's own server, if it runs: at the port of HOLDFAST_LISTEN, or else at any.

    Raises `ConfigError` if several run.
    """
    from holdfast.server.identity.local_socket import running_ports, socket_path

    if not os.path.isdir(where.data):
        return None
    refuse_shared(where.data)
    port = _port_of(where.listen or _settings(where).server.listen)
    ports = running_ports(Path(where.data))
    if where.listen and port:
        ports = tuple(one for one in ports if one == port)
    if port not in ports:
        if len(ports) > 1:
            urls = " or ".join(f"--url http://127.0.0.1:{one}" for one in ports)
            raise ConfigError(f"several servers of yours are running: use {urls}")
        if not ports:
            return None
        (port,) = ports
    own = socket_path(Path(where.data), port)
    return ServerAddress(f"http://127.0.0.1:{port}", where.token or _own_token(where), own)


def _port_of(listen: str) -> int:
    """The port of an address to listen on; 0 for any."""
    port = listen.rpartition(":")[2]
    return int(port) if port.isdecimal() else 0


def _named(where: ChatTarget, url: str) -> ServerAddress:
    if where.token is not None or "#token=" in url:
        return ServerAddress(url, where.token)
    if not _is_here(url):
        from holdfast.client.connect import split_address

        split_address(url)  # raises for an invalid address
        raise ConfigError(
            f"{url} needs a token: use --token, or set HOLDFAST_TOKEN "
            "(`holdfast token` on the server's machine creates one)"
        )
    return ServerAddress(url, _own_token(where), _own_socket(where, url))


def _own_socket(where: ChatTarget, url: str) -> Path | None:
    """The socket used instead of the port; None for https, where a certificate proves identity.

    Raises `ConfigError` if another user could have made it.
    """
    from holdfast.client.connect import split_address
    from holdfast.server.identity.local_socket import is_own_socket, socket_path

    pieces = urlsplit(split_address(url)[0])
    if pieces.scheme == "https":
        return None
    if os.path.isdir(where.data):
        refuse_shared(where.data)
    path = socket_path(Path(where.data), pieces.port or 80)
    if os.path.lexists(path) and not is_own_socket(path):
        raise ConfigError(f"{path} is not a socket of your server: remove it")
    return path


def _is_here(url: str) -> bool:
    """Whether a URL is on this machine: the token file is used for no other."""
    try:
        return is_loopback(urlsplit(url).hostname or "")
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:  # another name
        return False


def _own_token(where: ChatTarget) -> str:
    from holdfast.server.identity.private_file import read_private

    file = Path(where.data, "token")
    token = read_private(file)
    if token is None:
        raise ConfigError(
            f"no token in {file}: start a server with `holdfast serve`, "
            "or use --url and --token for one that runs elsewhere"
        )
    return token


@asynccontextmanager
async def asking(server: ServerAddress, patience: float = CONNECT_WAIT) -> AsyncIterator[Transport]:
    """A connection to a server. Raises `ForeignServer` if another program has our address."""
    from holdfast.client.connect import reach
    from holdfast.client.errors import Unreachable

    url, token, socket = server
    try:
        async with reach(url, token, patience=patience, socket=socket) as line:
            yield line
    except Unreachable:
        if socket is not None and await _listens(url):
            raise ForeignServer(url) from None
        raise


async def _listens(url: str) -> bool:
    """Whether a program accepts connections at the address. Nothing is sent to it."""
    pieces = urlsplit(url)
    try:
        async with asyncio.timeout(CONNECT_WAIT):
            _, writer = await asyncio.open_connection(pieces.hostname, pieces.port or 80)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


def say_which(where: ChatTarget, used: str) -> None:
    """Print which server or database is used, if it was not named."""
    if where.url is None and where.database is None:
        server = used.startswith("http")
        what = f"the server at {used}" if server else f"{name_of(used)}; no server is running"
        print(f"using {what}", file=sys.stderr, flush=True)


# --- a database ----------------------------------------------------------------------------------


@asynccontextmanager
async def writing(url: str, do: str) -> AsyncIterator[Sqlite | Postgres]:
    """A database opened for writing. If a server is using it, the error says what to `do`."""
    from holdfast.store.url import open_database

    try:
        async with open_database(url, now=wall_clock) as db:
            yield db
    except InUse as error:
        raise InUse(f"{str(error).partition(' (')[0]}: {do}") from None


def ask_instead(where: ChatTarget) -> str:
    """Advice for a user whose database is in use by another process."""
    server = None
    with suppress(ConfigError):
        server = running_server(where)
    url = " with its address" if server is None else f" {server.url}"
    return f"if that is a server, go through it: use --url{url}. Otherwise wait until it ends"


def refuse_missing(database: str, data: str, options: str) -> None:
    """Raise if there is no database here and none was named; `options` are those that name one."""
    if database == own_database(data) and not os.path.exists(os.path.join(data, DATABASE_FILE)):
        raise ConfigError(
            f"there is no database in {data} yet: create it with `holdfast serve` or "
            f"`holdfast token`, or use {options}"
        )


@asynccontextmanager
async def reading(url: str) -> AsyncIterator[Sqlite | Postgres]:
    """A database opened for reading, even while a server is using it."""
    from holdfast.store.url import open_database

    async with open_database(url, now=wall_clock, writes=False) as db:
        yield db
