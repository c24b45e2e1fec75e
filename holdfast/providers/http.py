"""The HTTP port of the providers, and its implementation with aiohttp.

A provider posts a request and reads the response's body as it arrives. Every connection error of
the client library is converted into an error of ours here.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from ipaddress import ip_address
from typing import Final, Protocol
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from holdfast.kernel.errors import ConfigError, FailureKind, ProviderError

CONNECT_TIMEOUT: Final = 30.0
"""Seconds to connect to a host. How long it may then stay silent is decided where a response is
read."""
REFUSED_ATTEMPTS: Final = 3
"""Attempts while a port of this machine refuses connections: a server there is restarted within
seconds, or does not run."""
DEFAULT_HEADERS: Final = {"Accept-Encoding": "identity"}
"""Headers of every request. Compression would delay the tokens of a stream. A response that is
compressed all the same is decompressed in bounded pieces."""


class HttpResponse(Protocol):
    """Head of a response. The caller reads the body as it arrives."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Headers by case-insensitive name."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """The body, in the pieces in which it arrives."""
        ...


class Http(Protocol):
    """The HTTP client that providers need."""

    def post(
        self, url: str, headers: Mapping[str, str], body: bytes
    ) -> AbstractAsyncContextManager[HttpResponse]:
        """Send a request. Leaving the block releases the connection. Redirects are not followed.

        An error inside the block is raised from it as a `ProviderError`.
        """
        ...


class HttpClient:
    """The HTTP client for production. Connections are pooled per event loop, and closed with it."""

    def __init__(self) -> None:
        self._sessions: dict[asyncio.AbstractEventLoop, _Session] = {}

    @asynccontextmanager
    async def post(
        self, url: str, headers: Mapping[str, str], body: bytes
    ) -> AsyncIterator[HttpResponse]:
        """Send a request. Leaving the block releases the connection."""
        session = await self._session()
        try:
            async with session.post(
                url,
                data=body,
                headers={**DEFAULT_HEADERS, **headers},
                allow_redirects=False,  # a key must not follow a redirect to another host
                proxy=_proxy(url),
            ) as response:
                yield _AiohttpResponse(response)
        except (aiohttp.ClientError, TimeoutError, ssl.SSLError) as error:
            raise _provider_error(error, url) from error

    async def close(self) -> None:
        """Close the connections of this event loop. A later request opens new ones."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.keeper.aclose()

    async def _session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None:
            for other in list(self._sessions):  # other threads remove entries too
                if other.is_closed():
                    self._sessions.pop(other, None)
            session = self._sessions[loop] = _Session()
            # An event loop that ends closes its generators, and with them our connections: no
            # caller has to close them.
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
    """The aiohttp session of one event loop."""

    __slots__ = ("client", "keeper")

    def __init__(self) -> None:
        self.client = aiohttp.ClientSession(
            # As many connections as there are streams; that number is limited elsewhere.
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT_TIMEOUT),
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        self.keeper: AsyncGenerator[None]


class _AiohttpResponse:
    """An `HttpResponse` of aiohttp."""

    __slots__ = ("_response", "headers", "status")

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers
        self._response = response

    def chunks(self) -> AsyncIterator[bytes]:
        return self._response.content.iter_any()


def _proxy(url: str) -> str | None:
    """The proxy that the environment names for this address. Requests to this machine use none."""
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
            f"the environment names a proxy for {address(url)} that is not an HTTP proxy: "
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
"""Kind of each error class; the first match counts. The last entry covers responses that are not
HTTP."""


def _provider_error(error: Exception, url: str) -> Exception:
    at = address(url)
    if isinstance(error, (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError)):
        return ConfigError(
            f"base_url leads to {at}, which is not an address: use http(s)://host/path"
        )
    if isinstance(error, aiohttp.ClientHttpProxyError) and error.status < 500:
        return ConfigError(
            f"the proxy to {at} refused the connection ({error.status}): check HTTPS_PROXY"
        )
    kind = next(kind for error_class, kind in _KINDS if isinstance(error, error_class))
    if _refused(error) and _is_local(url):
        return ProviderError(
            f"{at}: {_error_text(error)}",
            kind=kind,
            attempts=REFUSED_ATTEMPTS,
            sentence="{model} cannot be reached, because nothing listens at "
            f"{urlsplit(url).netloc.rpartition('@')[2]}: start its server, "
            "or correct base_url.",
        )
    distrusted = isinstance(
        error, (aiohttp.ClientConnectorCertificateError, ssl.SSLCertVerificationError)
    )
    return ProviderError(
        f"{at}: {_error_text(error)}",
        kind=kind,
        should_retry=False if distrusted else None,  # a bad certificate stays bad
    )


def _refused(error: Exception) -> bool:
    return isinstance(error, aiohttp.ClientConnectorError) and isinstance(
        error.os_error, ConnectionRefusedError
    )


def _is_local(url: str) -> bool:
    """Whether a URL leads to this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:  # a name
        return host.endswith(".localhost")


def _error_text(error: Exception) -> str:
    """Message of a client error without the address, which may contain a key."""
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy answered {error.status} {error.message}"
    if isinstance(error, aiohttp.ClientResponseError):
        return f"{error.status} {error.message}"
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return "cannot reach the proxy that the environment names: check HTTPS_PROXY"
    if _refused(error):
        return "connection refused. Is the server running, and is base_url right?"
    return str(error) or type(error).__name__


def address(url: str) -> str:
    """A URL without the parts that may be secret: user, password and query."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}" if host else parts.path


SHARED_CLIENT: Final = HttpClient()
"""The HTTP client of every model that is not given another one."""
