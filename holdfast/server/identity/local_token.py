"""The token of a local server: kept in a file that only its owner can read.

One person on their own machine needs a token too: other users, other programs and every web page
can reach loopback.
"""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path

from holdfast.kernel.errors import ConfigError
from holdfast.server.identity.api_tokens import keep_of_file
from holdfast.server.identity.credential_format import kind_of, new_secret
from holdfast.server.identity.private_file import make_private
from holdfast.server.identity.users import local_user
from holdfast.store.database import Tx


def token_of(file: Path) -> str:
    """The token in the file, which is created if missing. Only its owner can read it."""
    token = make_private(file, new_secret("token"))
    if kind_of(token) != "token":
        raise ConfigError(f"{file} does not hold a token: remove it to have a new one created")
    return token


async def let_in(tx: Tx, token: str) -> None:
    """Make this the token of the local user. An earlier one is removed, with its sessions."""
    await local_user(tx)
    await keep_of_file(tx, token)


def url_to_open(port: int, token: str, host: str = "127.0.0.1") -> str:
    """The URL that signs a browser in. Browsers do not send the part after # to the server."""
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/#token={token}"


def refuse_network(host: str) -> None:
    """Raise `ConfigError` unless the host is loopback: a server without users stays local."""
    if host == "localhost":
        return
    try:
        loopback = ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise ConfigError(
            f"{host} can be reached from the network, and this server has no users: "
            "use 127.0.0.1, or start it for a team, with a public URL and an administrator"
        )
