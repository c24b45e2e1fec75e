"""The front: which requests are for this server and come from its own page, before anything else.

A page of another site can make a browser send requests to a server on loopback, and with a name
that it points there (DNS rebinding) even read the answers. So the name that was asked for and the
page that asks are looked at first, on HTTP and WebSocket alike. Nothing here knows who asks.
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
from holdfast.server.problem import Forbidden, Refused

SAFE: Final = frozenset(("GET", "HEAD", "OPTIONS"))
"""Methods that change nothing."""
HEADERS: Final = 32 * 1024
"""Bytes of all headers of a request together."""
OURS: Final = frozenset(("same-origin", "none"))
"""What a browser says of a request of our own page, or of the person at its address bar."""
INTERNAL: Final = "/internal/"
"""Where other replicas ask, and nobody else."""
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
"""On every answer that does not say it otherwise itself, as a page does about what it may load."""
HSTS: Final = {"Strict-Transport-Security": "max-age=31536000"}


class Misdirected(Refused):
    kind = "misdirected"
    status = 421


class CrossSite(Forbidden):
    kind = "cross_site"


class HeadersTooLarge(Refused):
    kind = "headers_too_large"
    status = 431


class Front(Struct, frozen=True):
    """What the server is called."""

    hosts: frozenset[str]
    """As in `Host`: in small letters, with the port where it is not the scheme's own."""
    origins: frozenset[str]
    secure: bool = False
    """It is reached by https only."""


@lru_cache(8)
def local_front(port: int) -> Front:
    """Of a server on loopback."""
    return public_front(f"http://{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]"))


def public_front(urls: Iterable[str]) -> Front:
    """Of a server that is reached by these URLs, by people and by other replicas."""
    places = [_place(url) for url in urls]
    if not places:
        raise ConfigError("a server for a team needs its public URL: https://chats.example.com")
    hosts = frozenset(host for _, host in places)
    full = frozenset(f"{host}:{PORTS[scheme]}" for scheme, host in places if not _port(host))
    origins = frozenset(f"{scheme}://{host}" for scheme, host in places)
    return Front(hosts | full, origins, all(scheme == "https" for scheme, _ in places))


def _place(url: str) -> tuple[str, str]:
    no_url = ConfigError(f"{url!r} is no URL of a server: use one like https://chats.example.com")
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
    """As it stands in `Host`. Raises `ValueError` for what can be no name."""
    if ":" in host:
        return f"[{host.lower()}]"
    return host.encode("idna").decode().lower()


def _port(host: str) -> str:
    return host.rpartition("]")[2].partition(":")[2]


class Asked(Struct, frozen=True):
    """What of a request the front looks at."""

    method: str
    hosts: Sequence[str]
    """Of every `Host`, and of a target that names a host too."""
    origins: Sequence[str] = ()
    site: str | None = None
    """`Sec-Fetch-Site`"""
    size: int = 0
    """Bytes of headers."""
    probe: bool = False
    """Whether the process is well is all that it asks."""


def refusal(front: Front, asked: Asked) -> Refused | None:
    """Why a request goes no further; None when it may."""
    known = bool(asked.hosts) and all(host.lower() in front.hosts for host in asked.hosts)
    # Whoever watches replicas asks each by its address. There is nothing for a page to read there.
    if not known and not (asked.probe and not asked.origins):
        names = ", ".join(sorted(front.hosts))
        return Misdirected(f"this server does not go by the name that was asked for: use {names}")
    if not all(origin in front.origins for origin in asked.origins) or len(asked.origins) > 1:
        return CrossSite("the page that sent this is not of this server: open the server's own")
    if asked.method not in SAFE and asked.site is not None and asked.site not in OURS:
        return CrossSite("another site sent this: what changes something is sent by our own page")
    if asked.size > HEADERS:
        return HeadersTooLarge(f"the headers have {asked.size} bytes: send at most {HEADERS}")
    return None


def asked_by(request: web.BaseRequest) -> Asked:
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
    """Refuses what is not for this server. None: for one on loopback, at whatever port it has.

    `internal`: what other replicas call it, for what is meant for them alone.
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
    return local_front(name[1] if isinstance(name, tuple) else 0)


def secured(secure: bool) -> Callable[[web.BaseRequest, web.StreamResponse], Awaitable[None]]:
    """For `on_response_prepare`: the headers that every answer has."""
    headers = {**SECURITY, **(HSTS if secure else {})}

    async def add(request: web.BaseRequest, response: web.StreamResponse) -> None:
        response.headers["Server"] = "holdfast"
        for name, value in headers.items():
            response.headers.setdefault(name, value)

    return add
