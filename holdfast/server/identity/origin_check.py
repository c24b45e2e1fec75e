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
from holdfast.server.problem import Forbidden, Refused

SAFE: Final = frozenset(("GET", "HEAD", "OPTIONS"))
"""Methods that change nothing."""
HEADERS: Final = 32 * 1024
"""Most bytes that all headers of a request may have together."""
OURS: Final = frozenset(("same-origin", "none"))
"""Values of `Sec-Fetch-Site` for a request of our own page, or of the address bar."""
INTERNAL: Final = "/internal/"
"""Path prefix of requests between replicas."""
PROBES: Final = frozenset(("/healthz", "/readyz", "/metrics"))
PORTS: Final[Mapping[str, int]] = {"http": 80, "https": 443}

SECURITY: Final[Mapping[str, str]] = {
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
}
"""Headers added to every response that does not set them itself."""
HSTS: Final = {"Strict-Transport-Security": "max-age=31536000"}


class Misdirected(Refused):
    """The request is for a host that this server does not answer to."""

    kind = "misdirected"
    status = 421


class CrossSite(Forbidden):
    """The request was sent by a page of another site."""

    kind = "cross_site"


class HeadersTooLarge(Refused):
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
    places = [_place(url) for url in urls]
    if not places:
        raise ConfigError("a server for a team needs its public URL: https://chats.example.com")
    hosts = frozenset(host for _, host in places)
    full = frozenset(f"{host}:{PORTS[scheme]}" for scheme, host in places if not _port(host))
    origins = frozenset(f"{scheme}://{host}" for scheme, host in places)
    return Front(hosts | full, origins, all(scheme == "https" for scheme, _ in places))


def _place(url: str) -> tuple[str, str]:
    no_url = ConfigError(f"{url!r} is not a server URL: use one like https://chats.example.com")
    try:
        parts = urlsplit(url)
        name, port = _name(parts.hostname or ""), parts.port
    except ValueError:
        raise no_url from None
    if parts.scheme not in PORTS or not name or parts.username:
        raise no_url
    own = port is None or port == PORTS[parts.scheme]
    return parts.scheme, name if own else f"{name}:{port}"


def _name(host: str) -> str:
    """A host name as it appears in `Host`. Raises `ValueError` for an invalid one."""
    if ":" in host:
        return f"[{host.lower()}]"
    return host.encode("idna").decode().lower()


def _port(host: str) -> str:
    return host.rpartition("]")[2].partition(":")[2]


class Asked(Struct, frozen=True):
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


def refusal(front: Front, asked: Asked) -> Refused | None:
    """Why a request is refused; None if it is accepted."""
    known = bool(asked.hosts) and all(host.lower() in front.hosts for host in asked.hosts)
    # Monitoring reaches each replica by its address. A page could read nothing of value there.
    if not known and not (asked.probe and not asked.origins):
        names = ", ".join(sorted(front.hosts))
        return Misdirected(f"this server does not answer to the requested host name: use {names}")
    if not all(origin in front.origins for origin in asked.origins) or len(asked.origins) > 1:
        return CrossSite("this request comes from a page of another site: open the server's own")
    if asked.method not in SAFE and asked.site is not None and asked.site not in OURS:
        return CrossSite("another site sent this request: only this server's page may change data")
    if asked.size > HEADERS:
        return HeadersTooLarge(f"the headers have {asked.size} bytes: send at most {HEADERS}")
    return None


def asked_by(request: web.BaseRequest) -> Asked:
    """The parts of a request that the origin check reads."""
    headers = request.headers
    target = request.raw_path
    named = [] if target.startswith("/") or target == "*" else [urlsplit(target).netloc]
    return Asked(
        request.method,
        [*headers.getall("Host", []), *named],
        headers.getall("Origin", []),
        headers.get("Sec-Fetch-Site"),
        sum(len(name) + len(value) + 4 for name, value in request.raw_headers),
        request.method == "GET" and request.path in PROBES,
    )


def guarded(front: Front | None, internal: Front | None = None) -> Middleware:
    """A middleware that refuses requests not meant for this server.

    `front`: None for a server on loopback, at whatever port it has. `internal`: the front for
    requests of other replicas.
    """

    @web.middleware
    async def look(request: web.Request, handler: Handler) -> web.StreamResponse:
        called = front or _local_front_of(request)
        if internal is not None and request.path.startswith(INTERNAL):
            called = internal
        why = refusal(called, asked_by(request))
        if why is not None:
            raise why
        return await handler(request)

    return look


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
    for name, value in {**SECURITY, **(HSTS if secure else {})}.items():
        response.headers.setdefault(name, value)
