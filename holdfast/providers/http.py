"""The HTTP port of the providers, and its implementation with aiohttp.

A provider posts a request and reads the body of the answer as it arrives. Everything that a client
library says about a connection is said here in our own errors, once.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, Protocol
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from holdfast.kernel.errors import ConfigError, FailureKind, ProviderError

CONNECT_TIMEOUT: Final = 30.0
"""Seconds to reach a host. How long it may then be silent is decided where an answer is read."""
DEFAULT_HEADERS: Final = {"Accept-Encoding": "identity"}
"""Compressing a stream of tokens holds them back. One that comes compressed is read all the same,
a bounded piece at a time."""


class HttpResponse(Protocol):
    """The beginning of an answer. The body is read by whoever asked, as it arrives."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """By name, whose case does not matter."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """The body in the pieces in which it arrives."""
        ...


class Http(Protocol):
    """What providers need of HTTP."""

    def post(
        self, url: str, headers: Mapping[str, str], body: bytes
    ) -> AbstractAsyncContextManager[HttpResponse]:
        """Ask. Leaving the block lets go of the connection. Redirects are not followed.

        What breaks inside the block leaves it as a `ProviderError`.
        """
        ...


class HttpClient:
    """HTTP for real. Connections are kept and shared within an event loop, and closed with it."""

    def __init__(self) -> None:
        self._sessions: dict[asyncio.AbstractEventLoop, _Session] = {}

    @asynccontextmanager
    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes
    ) -> AsyncIterator[HttpResponse]:
        session = await self._session()
        try:
            async with session.post(
                url,
                data=body,
                headers={**DEFAULT_HEADERS, **headers},
                allow_redirects=False,  # a key must not follow wherever an answer points
                proxy=_proxy(url),
            ) as response:
                yield _AiohttpResponse(response)
        except (aiohttp.ClientError, TimeoutError, ssl.SSLError) as error:
            raise _provider_error(error, url) from error

    async def close(self) -> None:
        """Close what this event loop has open. It is opened anew when it is needed again."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.keeper.aclose()

    async def _session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None:
            for other in list(self._sessions):  # other threads do the same
                if other.is_closed():
                    self._sessions.pop(other, None)
            session = self._sessions[loop] = _Session()
            # An event loop that ends closes its generators, and so our connections. Nobody has to
            # remember to.
            session.keeper = self._keep(loop, session.client)
            await anext(session.keeper)
        return session.client

    async def _keep(
        self, loop: asyncio.AbstractEventLoop, client: aiohttp.ClientSession
    ) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            self._sessions.pop(loop, None)
            await client.close()


class _Session:
    """What one event loop has open."""

    __slots__ = ("client", "keeper")

    def __init__(self) -> None:
        self.client = aiohttp.ClientSession(
            # As many as there are streams: how many that may be is not decided here.
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_TIMEOUT),
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        self.keeper: AsyncGenerator[None]


class _AiohttpResponse:
    __slots__ = ("_response", "headers", "status")

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        self._response = response

    def chunks(self) -> AsyncIterator[bytes]:
        return self._response.content.iter_any()


def _proxy(url: str) -> str | None:
    """The proxy that the environment names for this address. This machine needs none to itself."""
    parts = urlsplit(url)
    host, proxies = parts.hostname or "", getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or host in ("localhost", "127.0.0.1", "::1"):
        return None
    if proxy_bypass(host) or proxy_bypass(parts.netloc):
        return None
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    try:
        proxy_parts = urlsplit(proxy)
        usable = (
            proxy_parts.scheme in ("http", "https")
            and bool(proxy_parts.hostname)
            and proxy_parts.port != 0
        )
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError(
            f"the environment names a proxy for {address(url)} that is no HTTP proxy: "
            "set HTTPS_PROXY=http://host:port, or NO_PROXY"
        )
    return proxy


_KINDS: Final[tuple[tuple[type[Exception], FailureKind], ...]] = (
    (TimeoutError, "timeout"),
    (aiohttp.ClientHttpProxyError, "network"),
    (aiohttp.ClientPayloadError, "stream_cut"),
    (aiohttp.ClientConnectionError, "network"),
    (ssl.SSLError, "network"),
    (aiohttp.ClientError, "server"),
)
"""First match. The last are answers that are no HTTP."""


def _provider_error(error: Exception, url: str) -> Exception:
    at = address(url)
    if isinstance(error, (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError)):
        return ConfigError(f"base_url leads to {at}, which is no address: use http(s)://host/path")
    if isinstance(error, aiohttp.ClientHttpProxyError) and error.status < 500:
        return ConfigError(f"the proxy to {at} refused us ({error.status}): check HTTPS_PROXY")
    kind = next(kind for error_class, kind in _KINDS if isinstance(error, error_class))
    distrusted = isinstance(
        error, (aiohttp.ClientConnectorCertificateError, ssl.SSLCertVerificationError)
    )
    return ProviderError(
        f"{at}: {_error_text(error)}",
        kind=kind,
        should_retry=False if distrusted else None,  # a bad certificate does not mend itself
    )


def _error_text(error: Exception) -> str:
    """What a client says of an error, without the address: there may be a key in it."""
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy answered {error.status} {error.message}"
    if isinstance(error, aiohttp.ClientResponseError):
        return f"{error.status} {error.message}"
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return "the proxy that the environment names cannot be reached: check HTTPS_PROXY"
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(
        error.os_error, ConnectionRefusedError
    ):
        return "nobody answers there. Is it running, and is base_url right?"
    return str(error) or type(error).__name__


def address(url: str) -> str:
    """A URL without what may be secret in it."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}" if host else parts.path


SHARED_CLIENT: Final = HttpClient()
"""What models use that are not given anything else."""
