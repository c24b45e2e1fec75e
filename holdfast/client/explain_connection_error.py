"""Explains connection errors: why a server could not be reached, and what to do."""

from __future__ import annotations

import errno
from typing import Final, NamedTuple

NOT_LISTENING: Final = frozenset({errno.ECONNREFUSED, errno.ENOENT})
"""Error numbers if no process listens at the port, or the Unix socket does not exist."""
NO_ROUTE: Final = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH})
"""Error numbers if there is no route to the host."""


class ConnectionFailure(NamedTuple):
    """A cause, and what to do."""

    failed: str
    do: str


def explain(error: Exception) -> ConnectionFailure:
    """Explain an exception for which `is_lost` holds."""
    import aiohttp

    match error:
        case aiohttp.ClientConnectorDNSError():
            return ConnectionFailure(
                "there is no host of that name", "check the spelling and the network"
            )
        case aiohttp.ClientConnectorCertificateError():
            return ConnectionFailure(
                "this machine does not trust its certificate",
                "use the name that it was issued for, or trust its issuer on this machine",
            )
        case aiohttp.ClientConnectorSSLError():
            return ConnectionFailure(
                "it does not speak https there", "try http://, or the port for https"
            )
        case aiohttp.ClientConnectorError(os_error=OSError(errno=number)) if (
            number in NOT_LISTENING
        ):
            return ConnectionFailure(
                "nothing listens there", "start it (`holdfast serve`), or check the address"
            )
        case aiohttp.ClientConnectorError(os_error=OSError(errno=number)) if number in NO_ROUTE:
            return ConnectionFailure("there is no route to it", "check the network and the address")
        case TimeoutError():
            return ConnectionFailure(
                "it did not respond in time",
                "check whether it is busy, or a firewall is in between",
            )
        case aiohttp.ClientConnectionError() | aiohttp.ClientPayloadError() | ConnectionError():
            return ConnectionFailure(
                "the connection was lost", "check that the server runs, and the address"
            )
    return ConnectionFailure(
        "the response is not HTTP", "check the address: another program listens there"
    )
