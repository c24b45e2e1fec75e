"""A server for one person on their own machine: a token all the same, kept in a file of theirs.

Other users and other programs of the machine reach loopback too, and so does every web page.
"""

from __future__ import annotations

from ipaddress import ip_address
from pathlib import Path

from holdfast.kernel.errors import ConfigError
from holdfast.server.identity.credential import kind_of, new_secret
from holdfast.server.identity.private_file import make_private
from holdfast.server.identity.tokens import keep_of_file
from holdfast.server.identity.users import local_user
from holdfast.store.database import Tx


def token_of(file: Path) -> str:
    """The token in the file, which is made when it is not there. Only its owner can read it."""
    token = make_private(file, new_secret("token"))
    if kind_of(token) != "token":
        raise ConfigError(f"{file} holds no token: remove it, and a new one is made")
    return token


async def let_in(tx: Tx, token: str) -> None:
    """Make it the token of the local user. One that was there before ends, with its sessions."""
    await local_user(tx)
    await keep_of_file(tx, token)


def url_to_open(port: int, token: str, host: str = "127.0.0.1") -> str:
    """For a browser. What is behind # is sent to no server, and stands in no log."""
    name = f"[{host}]" if ":" in host else host
    return f"http://{name}:{port}/#token={token}"


def refuse_network(host: str) -> None:
    """A server without users is never open to the network."""
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
