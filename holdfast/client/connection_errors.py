"""Explains connection errors: why a server could not be reached, and what to do."""

from __future__ import annotations

import errno
from typing import Final, NamedTuple

NOBODY: Final = frozenset({errno.ECONNREFUSED, errno.ENOENT})
"""No process listens at the port, or the Unix socket does not exist."""
NOWHERE: Final = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH})
"""There is no route to the host."""


class Why(NamedTuple):
    """A cause, and what to do."""

    failed: str
    do: str


def why(error: Exception) -> Why:
    """Explain an exception for which `is_lost` holds."""
    import aiohttp

    match error:
        case aiohttp.ClientConnectorDNSError():
            return Why("there is no host of that name", "check the spelling and the network")
        case aiohttp.ClientConnectorCertificateError():
            return Why(
                "this machine does not trust its certificate",
                "use the name that it was issued for, or trust its issuer on this machine",
            )
        case aiohttp.ClientConnectorSSLError():
            return Why("it does not speak https there", "try http://, or the port for https")
        case aiohttp.ClientConnectorError(os_error=OSError(errno=number)) if number in NOBODY:
            return Why("nothing listens there", "start it (`holdfast serve`), or check the address")
        case aiohttp.ClientConnectorError(os_error=OSError(errno=number)) if number in NOWHERE:
            return Why("there is no route to it", "check the network and the address")
        case TimeoutError():
            return Why(
                "it did not respond in time",
                "check whether it is busy, or a firewall is in between",
            )
        case aiohttp.ClientConnectionError() | aiohttp.ClientPayloadError() | ConnectionError():
            return Why("the connection was lost", "check that the server runs, and the address")
    return Why("the response is not HTTP", "check the address: another program listens there")
