"""The address of a client, also behind trusted proxies (`X-Forwarded-For`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

from holdfast.kernel.errors import ConfigError
from holdfast.server.http_request import HttpRequest

FORWARDED = "X-Forwarded-For"
UNIX = "unix socket"
"""The address of a client that connected through the local Unix socket."""


def address_of(request: HttpRequest, proxies: tuple[str, ...]) -> str:
    """The client's address. `proxies`: addresses and networks that are trusted."""
    return came_from(request.remote or UNIX, request.headers.getall(FORWARDED, []), proxies)


def came_from(remote: str, forwarded: Sequence[str], proxies: tuple[str, ...]) -> str:
    """The nearest address that is not a trusted proxy; hops before it could be forged.

    `forwarded`: every `X-Forwarded-For` header, in order.
    """
    hops = [hop.strip() for line in forwarded for hop in line.split(",")]
    address = remote
    while proxies and hops and _among(address, networks(proxies)):
        hop = hops.pop()
        if not _is_address(hop):
            break
        address = hop
    return address


@lru_cache(8)
def networks(proxies: tuple[str, ...]) -> tuple[IPv4Network | IPv6Network, ...]:
    """Parse addresses (10.0.0.1) and networks (10.0.0.0/8). Raises `ConfigError`."""
    try:
        return tuple(ip_network(each) for each in proxies)
    except ValueError as error:
        raise ConfigError(f"{error}: use addresses or networks like 10.0.0.0/8") from None


def _among(address: str, trusted: Sequence[IPv4Network | IPv6Network]) -> bool:
    return _is_address(address) and any(ip_address(address) in each for each in trusted)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
