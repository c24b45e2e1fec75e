"""`connect`: durable chats on a server, with the interface of those in your own process.

async with holdfast.connect("http://127.0.0.1:8765", token="hf_…") as host:
    chat = await host.create("fix the tests")
    async for event in chat.stream():
        ...
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from holdfast.client.remote_host import RemoteHost
from holdfast.client.transport import API_PREFIX, Transport
from holdfast.kernel.entry_point import entry_context
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.ports import Ports

if TYPE_CHECKING:
    from aiohttp import BaseConnector

CONNECT_TIMEOUT: Final = 10.0
"""Seconds to open a connection."""
DEFAULT_PATIENCE: Final = 15.0
"""Default of `patience`: seconds to retry a server that does not respond."""


@entry_context("connect")
async def connect(
    url: str,
    token: str | None = None,
    *,
    ports: Ports | None = None,
    patience: float = DEFAULT_PATIENCE,
    socket: str | os.PathLike[str] | None = None,
) -> AsyncIterator[RemoteHost]:
    """Use the chats of a server, while the block runs.

    `url` is its address, as `http://127.0.0.1:8765`; the one that `holdfast serve` prints includes
    the token. No request is sent yet: a wrong address or token raises at the first request. A
    server that does not respond is retried for `patience` seconds; a stream that has begun
    reconnects for as long as it takes.

    Over http the token is sent to whatever listens at `url`. `socket` is a Unix socket to connect
    to instead: that of this user's server is `sockets/8765` in its data directory.
    """
    async with reach(url, token, ports=ports, patience=patience, socket=socket) as transport:
        yield RemoteHost(transport)


@asynccontextmanager
async def reach(
    url: str,
    token: str | None = None,
    *,
    ports: Ports | None = None,
    patience: float = DEFAULT_PATIENCE,
    socket: str | os.PathLike[str] | None = None,
) -> AsyncIterator[Transport]:
    """The connection to a server, for requests other than those of chats."""
    address, url_token = split_address(url)
    headers = {"Authorization": f"Bearer {_token(token if token is not None else url_token)}"}
    if not patience >= 0:
        raise ConfigError(f"patience is {patience!r}: use seconds, 0 for none")
    import aiohttp

    with ExitStack() as held:
        async with aiohttp.ClientSession(
            connector=_connector(socket, held),
            timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_TIMEOUT),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=headers,
        ) as session:
            yield Transport(session, address, ports or Ports(), patience)


def _connector(socket: str | os.PathLike[str] | None, held: ExitStack) -> BaseConnector:
    """A connector without a limit on connections: each stream needs one."""
    import aiohttp

    if socket is None:
        return aiohttp.TCPConnector(limit=0)
    from holdfast.server.identity.local_socket import short_name

    return aiohttp.UnixConnector(held.enter_context(short_name(Path(socket))), limit=0)


def split_address(url: object) -> tuple[str, str | None]:
    """Split an address into the base URL and the token that may follow its #."""
    how = "use the address of a server, like http://127.0.0.1:8765"
    if not isinstance(url, str):
        raise ConfigError(f"url is a {type(url).__name__}: {how}")
    try:
        pieces = urlsplit(url)
        # Both raise for an invalid value.
        port, host = pieces.port, (pieces.hostname or "").encode("idna").decode()
    except ValueError as error:
        raise ConfigError(f"{_redacted(url)!r:.200} is not an address ({error}): {how}") from None
    if pieces.scheme not in ("http", "https") or not pieces.hostname or pieces.query:
        raise ConfigError(f"{_redacted(url)!r:.200} is not an address: {how}")
    if "@" in pieces.netloc:
        raise ConfigError("the address has a user in it: pass the token instead, as token=…")
    if not pieces.netloc.isascii():
        pieces = pieces._replace(netloc=host if port is None else f"{host}:{port}")
    base = pieces._replace(fragment="", path=pieces.path.rstrip("/").removesuffix(API_PREFIX))
    name, _, token = pieces.fragment.partition("=")
    return base.geturl(), token if name == "token" and token else None


def _redacted(url: str) -> str:
    """An address without anything secret in it."""
    scheme, colon, rest = url.partition("#")[0].rpartition("://")
    return scheme + colon + rest.rpartition("@")[2]


def _token(token: object) -> str:
    if token is None:
        raise ConfigError("no token: `holdfast serve` prints one, pass it as token=…")
    if not isinstance(token, str) or not token.isascii() or not token.isprintable():
        raise ConfigError("this is not a token: use the text that the server printed, hf_…")
    if not token or " " in token:
        raise ConfigError(
            "the token is empty or has a space in it: use it as the server printed it"
        )
    return token
