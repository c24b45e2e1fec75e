"""Refuses requests that a page of another site makes a browser send.

The application's users may be signed in by a cookie, which a browser also sends with requests of
other sites' pages. Such a page must not change anything, or open a WebSocket and read it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from urllib.parse import urlsplit

from holdfast.kernel.errors import ConfigError
from holdfast.server.asgi.asgi_request import AsgiRequest
from holdfast.server.identity.origin_check import OWN_SITE_VALUES, SAFE_METHODS, CrossSite


def checked_origins(origins: Iterable[str]) -> frozenset[str]:
    """Origins as browsers send them. Raises `ConfigError`."""
    if isinstance(origins, str):
        raise ConfigError(f"origins is {origins!r}: use a list, even for one")
    return frozenset(map(_origin, origins))


def _origin(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.path.strip("/"):
        raise ConfigError(f"{text!r} is not an origin: use one like https://app.example.com")
    return f"{parts.scheme}://{parts.netloc}".lower()


def check_site(request: AsgiRequest, origins: Collection[str]) -> None:
    """Raise `CrossSite` for a request of a page of another site, unless its origin is allowed."""
    if request.method in SAFE_METHODS and not request.is_websocket:
        return
    headers = request.headers
    if headers.get("Authorization", "").lower().startswith("bearer "):
        return  # no browser adds this by itself
    if headers.get("Sec-Fetch-Site") in OWN_SITE_VALUES:
        return
    given = headers.getall("Origin", [])
    if not given and "Sec-Fetch-Site" not in headers:
        return  # not a browser
    if len(given) == 1 and (given[0] in origins or urlsplit(given[0]).netloc == _host(request)):
        return
    sender = f"a page of {given[0]}" if given else "a page of another site"
    raise CrossSite(
        f"{sender} sent this request: only the application's own pages may, and those of the "
        "origins that holdfast.asgi(…, origins=[…]) names"
    )


def _host(request: AsgiRequest) -> str:
    return request.headers.get("Host", "").lower()
