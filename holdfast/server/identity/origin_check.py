"""The origin check: refuses requests for other hosts and from pages of other sites.

A page of another site can make a browser send requests to a server on loopback, and with a name
that it points there (DNS rebinding) even read the responses. So `Host` and `Origin` are checked
before anything else, on HTTP and WebSocket alike. Nothing here depends on who the caller is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from msgspec import Struct

from holdfast.kernel.errors import ConfigError
from holdfast.server.identity.local_socket import port_of
from holdfast.server.problem import Forbidden, RequestRefused

SAFE_METHODS: Final = frozenset(("GET", "HEAD", "OPTIONS"))
"""Methods that change nothing."""
MAX_HEADER_BYTES: Final = 32 * 1024
"""Most bytes that all headers of a request may have together."""
OWN_SITE_VALUES: Final = frozenset(("same-origin", "none"))
"""Values of `Sec-Fetch-Site` for a request of our own page, or of the address bar."""
INTERNAL_PREFIX: Final = "/internal/"
"""Path prefix of requests between replicas."""
PROBE_PATHS: Final = frozenset(("/healthz", "/readyz", "/metrics"))
DEFAULT_PORTS: Final[Mapping[str, int]] = {"http": 80, "https": 443}

SECURITY_HEADERS: Final[Mapping[str, str]] = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}
"""Headers added to every response that does not set them itself."""
HSTS_HEADERS: Final = {"Strict-Transport-Security": "max-age=31536000"}


class Misdirected(RequestRefused):
    """The request is for a host that this server does not answer to."""

    kind = "misdirected"
    status = 421


class CrossSite(Forbidden):
    """The request was sent by a page of another site."""

    kind = "cross_site"


class HeadersTooLarge(RequestRefused):
    """The headers of the request are too large."""

    kind = "headers_too_large"
    status = 431


class Front(Struct, frozen=True):
    """The hosts and origins that a server answers to."""

    hosts: frozenset[str]
    """Accepted values of `Host`: lower case, with the port unless it is the scheme's default."""
    origins: frozenset[str]
    secure: bool = False
    """The server is reached by https only."""


@lru_cache(8)
def local_front(port: int) -> Front:
    """The front of a server on loopback."""
    return public_front(f"http://{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]"))


def public_front(urls: Iterable[str]) -> Front:
    """The front of a server that is reached by these URLs, by people or by other replicas."""
    addresses = [_scheme_and_host(url) for url in urls]
    if not addresses:
        raise ConfigError("a server for a team needs its public URL: https://chats.example.com")
    hosts = frozenset(host for _, host in addresses)
    full = frozenset(
        f"{host}:{DEFAULT_PORTS[scheme]}" for scheme, host in addresses if not _port(host)
    )
    origins = frozenset(f"{scheme}://{host}" for scheme, host in addresses)
    return Front(hosts | full, origins, all(scheme == "https" for scheme, _ in addresses))


def _scheme_and_host(url: str) -> tuple[str, str]:
    no_url = ConfigError(f"{url!r} is not a server URL: use one like https://chats.example.com")
    try:
        parts = urlsplit(url)
        name, port = _name(parts.hostname or ""), parts.port
    except ValueError:
        raise no_url from None
    if parts.scheme not in DEFAULT_PORTS or not name or parts.username:
        raise no_url
    own = port is None or port == DEFAULT_PORTS[parts.scheme]
    return parts.scheme, name if own else f"{name}:{port}"


def _name(host: str) -> str:
    """A host name as it appears in `Host`. Raises `ValueError` for an invalid one."""
    if ":" in host:
        return f"[{host.lower()}]"
    return host.encode("idna").decode().lower()


def _port(host: str) -> str:
    return host.rpartition("]")[2].partition(":")[2]


class RequestOrigin(Struct, frozen=True):
    """The parts of a request that the origin check reads."""

    method: str
    hosts: Sequence[str]
    """Values of all `Host` headers, and the host in the request target if it names one."""
    origins: Sequence[str] = ()
    site: str | None = None
    """Value of `Sec-Fetch-Site`."""
    size: int = 0
    """Bytes of all headers."""
    probe: bool = False
    """The request is a health probe."""


def refusal(front: Front, request: RequestOrigin) -> RequestRefused | None:
    """Why a request is refused; None if it is accepted."""
    known_host = bool(request.hosts) and all(host.lower() in front.hosts for host in request.hosts)
    # Monitoring reaches each replica by its address. A page could read nothing of value there.
    if not known_host and not (request.probe and not request.origins):
        names = ", ".join(sorted(front.hosts))
        return Misdirected(f"this server does not answer to the requested host name: use {names}")
    if not all(origin in front.origins for origin in request.origins) or len(request.origins) > 1:
        return CrossSite("this request comes from a page of another site: open the server's own")
    if (
        request.method not in SAFE_METHODS
        and request.site is not None
        and request.site not in OWN_SITE_VALUES
    ):
        return CrossSite("another site sent this request: only this server's page may change data")
    if request.size > MAX_HEADER_BYTES:
        return HeadersTooLarge(
            f"the headers have {request.size} bytes: send at most {MAX_HEADER_BYTES}"
        )
    return None


def request_origin_of(request: web.BaseRequest) -> RequestOrigin:
    """The parts of a request that the origin check reads."""
    headers = request.headers
    target = request.raw_path
    named = [] if target.startswith("/") or target == "*" else [urlsplit(target).netloc]
    return RequestOrigin(
        request.method,
        [*headers.getall("Host", []), *named],
        headers.getall("Origin", []),
        headers.get("Sec-Fetch-Site"),
        sum(len(name) + len(value) + 4 for name, value in request.raw_headers),
        request.method == "GET" and request.path in PROBE_PATHS,
    )


def origin_checker(front: Front | None, internal: Front | None = None) -> Middleware:
    """A middleware that refuses requests not meant for this server.

    `front`: None for a server on loopback, at whatever port it has. `internal`: the front for
    requests of other replicas.
    """

    @web.middleware
    async def check_origin(request: web.Request, handler: Handler) -> web.StreamResponse:
        allowed = front or _local_front_of(request)
        if internal is not None and request.path.startswith(INTERNAL_PREFIX):
            allowed = internal
        why = refusal(allowed, request_origin_of(request))
        if why is not None:
            raise why
        return await handler(request)

    return check_origin


def _local_front_of(request: web.Request) -> Front:
    name = None if request.transport is None else request.transport.get_extra_info("sockname")
    return local_front(name[1] if isinstance(name, tuple) else port_of(name))


def secured(secure: bool) -> Callable[[web.BaseRequest, web.StreamResponse], Awaitable[None]]:
    """For `on_response_prepare`: adds the headers that every response has."""

    async def add(request: web.BaseRequest, response: web.StreamResponse) -> None:
        add_headers(response, secure)

    return add


def add_headers(response: web.StreamResponse, secure: bool) -> None:
    """Add the headers that every response has, unless it sets them itself."""
    response.headers["Server"] = "holdfast"
    for name, value in {**SECURITY_HEADERS, **(HSTS_HEADERS if secure else {})}.items():
        response.headers.setdefault(name, value)
