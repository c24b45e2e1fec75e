"""Why a server could not be reached, in words, and what to do about it."""

from __future__ import annotations

import errno
from typing import Final, NamedTuple

NOWHERE: Final = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH})


class Why(NamedTuple):
    failed: str
    do: str


def why(error: Exception) -> Why:
    """Of an exception for which `is_lost` holds."""
    import aiohttp

    match error:
        case aiohttp.ClientConnectorDNSError():
            return Why("there is no host of that name", "check its spelling, and the network")
        case aiohttp.ClientConnectorCertificateError():
            return Why(
                "its certificate is not one that this machine trusts",
                "use the name that it was issued for, or have its issuer trusted here",
            )
        case aiohttp.ClientConnectorSSLError():
            return Why("it speaks no https there", "try http://, or the port that speaks https")
        case aiohttp.ClientConnectorError(os_error=OSError(errno=errno.ECONNREFUSED)):
            return Why("nothing listens there", "is the server running, and is this its address?")
        case aiohttp.ClientConnectorError(os_error=OSError(errno=number)) if number in NOWHERE:
            return Why("no way leads there", "check the network, and the address")
        case TimeoutError():
            return Why("it did not answer in time", "is the server busy, or behind a firewall?")
        case aiohttp.ClientConnectionError() | aiohttp.ClientPayloadError() | ConnectionError():
            return Why("the connection was cut", "is the server running, and is this its address?")
    return Why(
        "what came back is no HTTP", "is this the address of the server, and not of another?"
    )
