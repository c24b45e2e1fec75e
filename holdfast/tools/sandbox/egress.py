"""Which hosts and addresses a sandbox may reach. Pure.

A name is compared with the policy before it is resolved, and each address afterwards: an allowed
name may point to the machine itself, to its network, or to the metadata service of a cloud.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from msgspec import Struct

from holdfast.kernel.errors import ToolFailed

PORTS: Final = (80, 443)
"""The ports of a host that is allowed without one."""

_NAME: Final = re.compile(r"(?=.{1,253}\Z)(?:[a-z0-9_-]{1,63}\.)*[a-z0-9-]{1,63}", re.ASCII)
_TOKEN: Final = re.compile(r"[A-Z]{1,20}", re.ASCII)
_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")
_NOT_PUBLIC: Final = tuple(
    map(ipaddress.ip_network, ("192.0.0.0/24", "2001::/23", "2002::/16", "64:ff9b:1::/48"))
)
"""Networks that some versions of Python take for public: metadata of a cloud, and tunnels."""
_HOP_HEADERS: Final = frozenset({b"connection", b"host", b"keep-alive", b"upgrade"})


class EgressRefused(ToolFailed):
    """A connection is not allowed; the message says why."""


class EgressRequest(Struct, frozen=True):
    """A request to the proxy."""

    host: str
    port: int
    head: bytes | None
    """The request to send on; None: a tunnel was requested (CONNECT)."""


def parse(head: bytes) -> EgressRequest:
    """The first lines of a request to the proxy, up to the empty line."""
    lines = head.split(b"\r\n")
    try:
        method, target, version = lines[0].decode("ascii").split(" ")
    except ValueError:
        raise EgressRefused(
            "the request to the proxy is not HTTP: use CONNECT or http://"
        ) from None
    if not _TOKEN.fullmatch(method) or version not in ("HTTP/1.1", "HTTP/1.0"):
        raise EgressRefused("the request to the proxy is not HTTP/1.1: use that version")
    if any(ord(character) < 0x21 or ord(character) > 0x7E for character in target):
        raise EgressRefused("the address has characters that are not printable: encode them")
    if method == "CONNECT":
        host, _, port = target.rpartition(":")
        return EgressRequest(_host(host), _port(port), None)
    return _plain(method, target, lines[1:])


def _plain(method: str, target: str, headers: list[bytes]) -> EgressRequest:
    try:
        url = urlsplit(target)
        name, port = url.hostname or "", url.port or 80
    except ValueError:
        raise EgressRefused(f"{target[:200]!r} is not an address: use http://HOST/PATH") from None
    if url.scheme != "http" or "@" in url.netloc:
        raise EgressRefused(f"{target[:200]!r} is not an address: use http://HOST/PATH")
    host = _host(name)
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    where = host if port == 80 else f"{host}:{port}"
    kept = [line for line in headers if line and _is_forwarded(line)]
    first = [f"{method} {path} HTTP/1.1".encode(), f"Host: {where}".encode()]
    # One request for each connection: the next one may be for another host.
    return EgressRequest(host, port, b"\r\n".join([*first, *kept, b"Connection: close", b"", b""]))


def _is_forwarded(line: bytes) -> bool:
    name = line.partition(b":")[0].strip().lower()
    return name not in _HOP_HEADERS and not name.startswith(b"proxy-")


def _host(name: str) -> str:
    host = name.lower().removesuffix(".")
    if not _NAME.fullmatch(host):
        raise EgressRefused(f"{name[:200]!r} is not a host name: use one of the policy")
    if re.fullmatch(r"[0-9.]+|0x[0-9a-f.x]*", host):
        raise EgressRefused(f"{name!r} is an address: use the name of the host")
    return host


def _port(text: str) -> int:
    if not re.fullmatch("[0-9]{1,5}", text) or not 0 < int(text) < 65536:
        raise EgressRefused(f"{text[:20]!r} is not a port: use a number up to 65535")
    return int(text)


def check_host(allowed: Iterable[str], host: str, port: int) -> None:
    """Raises `EgressRefused` unless an entry of the policy allows the host."""
    if not any(_matches(entry, host, port) for entry in allowed):
        raise EgressRefused(
            f"{host}:{port} is not allowed by the policy of the sandbox: ask for it to be added"
        )


def _matches(entry: str, host: str, port: int) -> bool:
    name, _, number = entry.partition(":")
    if port not in ((int(number),) if number else PORTS):
        return False
    return host.endswith(name[1:]) if name.startswith("*.") else host == name


def check_address(host: str, address: str) -> None:
    """Raises `EgressRefused` for an address that does not belong to a host on the internet."""
    found = _innermost(ipaddress.ip_address(address.partition("%")[0]))
    special = any(found in network for network in _NOT_PUBLIC)
    if (
        special
        or not found.is_global
        or found.is_multicast
        or found.is_reserved
        or found.is_unspecified
    ):
        raise EgressRefused(
            f"{host} resolves to {address}, which is not on the internet: only public addresses "
            "can be reached from a sandbox"
        )


def _innermost(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """The IPv4 address that an IPv6 address leads to, if it does."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped:
        return address.ipv4_mapped
    if address in _NAT64 or int(address) >> 32 == 0:
        return ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
    return address
