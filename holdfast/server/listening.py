"""Addresses to listen on: parse one, bind a socket, and tell the URL where others reach it."""

from __future__ import annotations

import socket
from ipaddress import ip_address

from holdfast.kernel.errors import ConfigError


def parse_address(text: str) -> tuple[str, int]:
    """Parse `127.0.0.1:8765`, `[::1]:8765`, or a port alone."""
    host, colon, port = text.rpartition(":")
    if not colon:
        host = "127.0.0.1"
    if not port.isdecimal() or int(port) > 65_535 or not host.strip("[]"):
        raise ConfigError(f"{text!r} is not an address to listen on: write 127.0.0.1:8765, or 8765")
    return host.strip("[]"), int(port)


def bind(name: str, port: int) -> socket.socket:
    """A socket bound to an address, which does not listen yet. Raises `OSError`."""
    # IPv4 first: `localhost` is both, and only one is advertised.
    addresses = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, kind, protocol, _, address = min(addresses, key=lambda one: one[0] != socket.AF_INET)
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    return bound


def url_of(name: str, port: int) -> str | None:
    """The URL of an address, unless it is a wildcard."""
    try:
        if ip_address(name).is_unspecified:
            return None
    except ValueError:
        pass  # a host name
    return f"http://{f'[{name}]' if ':' in name else name}:{port}"
