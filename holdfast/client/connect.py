"""Durable chats on a server, with the interface of those in your own process.

async with holdfast.connect("http://127.0.0.1:8765", token="hf_…") as host:
    chat = await host.create("fix the tests")
    async for event in chat.stream():
        ...
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final
from urllib.parse import urlsplit

from holdfast.client.host import RemoteHost
from holdfast.client.line import PREFIX, Line
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.ports import Ports

CONNECT: Final = 10.0
PATIENCE: Final = 15.0


@asynccontextmanager
async def connect(
    url: str,
    token: str | None = None,
    *,
    ports: Ports | None = None,
    patience: float = PATIENCE,
) -> AsyncIterator[RemoteHost]:
    """Use the chats of a server, for as long as the block lasts.

    `url` is where it is, as `http://127.0.0.1:8765`; the one that `holdfast serve` prints has the
    token in it. Nothing is asked yet: what is wrong with the address or the token is raised by what
    is asked first. A server that does not answer is asked again for `patience` seconds; a stream
    that has begun comes back for as long as it takes.
    """
    async with reach(url, token, ports=ports, patience=patience) as line:
        yield RemoteHost(line)


@asynccontextmanager
async def reach(
    url: str,
    token: str | None = None,
    *,
    ports: Ports | None = None,
    patience: float = PATIENCE,
) -> AsyncIterator[Line]:
    """The line to a server, for what is beside its chats."""
    address, shown = split_address(url)
    headers = {"Authorization": f"Bearer {_token(token if token is not None else shown)}"}
    if not patience >= 0:
        raise ConfigError(f"patience is {patience!r}: use seconds, 0 for none")
    import aiohttp

    async with aiohttp.ClientSession(
        # As many as there are streams: how many that may be is not decided here.
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT),
        cookie_jar=aiohttp.DummyCookieJar(),
        headers=headers,
    ) as session:
        yield Line(session, address, ports or Ports(), patience)


def split_address(url: object) -> tuple[str, str | None]:
    """Where the server is, and the token that its address may have behind a #."""
    how = "use the address of a server, as http://127.0.0.1:8765"
    if not isinstance(url, str):
        raise ConfigError(f"url is a {type(url).__name__}: {how}")
    try:
        pieces = urlsplit(url)
        # Both raise when they are none.
        port, host = pieces.port, (pieces.hostname or "").encode("idna").decode()
    except ValueError as error:
        raise ConfigError(f"{_shown(url)!r:.200} is no address ({error}): {how}") from None
    if pieces.scheme not in ("http", "https") or not pieces.hostname or pieces.query:
        raise ConfigError(f"{_shown(url)!r:.200} is no address: {how}")
    if "@" in pieces.netloc:
        raise ConfigError("the address has a user in it: give the token instead, as token=…")
    if not pieces.netloc.isascii():
        pieces = pieces._replace(netloc=host if port is None else f"{host}:{port}")
    base = pieces._replace(fragment="", path=pieces.path.rstrip("/").removesuffix(PREFIX))
    name, _, token = pieces.fragment.partition("=")
    return base.geturl(), token if name == "token" and token else None


def _shown(url: str) -> str:
    """An address without what may be secret in it."""
    scheme, colon, rest = url.partition("#")[0].rpartition("://")
    return scheme + colon + rest.rpartition("@")[2]


def _token(token: object) -> str:
    if token is None:
        raise ConfigError("no token is given: `holdfast serve` prints one, give it as token=…")
    if not isinstance(token, str) or not token.isascii() or not token.isprintable():
        raise ConfigError("the token is no token: use the text that the server gave, hf_…")
    if not token or " " in token:
        raise ConfigError("the token is empty, or has a space in it: use it as the server gave it")
    return token
