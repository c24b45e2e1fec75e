"""How a server lets people in."""

from __future__ import annotations

from msgspec import Struct

from holdfast.server.identity.address import networks
from holdfast.server.identity.secrets import Keyring
from holdfast.server.identity.sessions import Cookie


class Access(Struct, frozen=True, kw_only=True):
    local: bool = True
    """For one person on their own machine; otherwise for a team."""
    secure: bool = False
    """Reached by https only: a browser sends the cookie nowhere else."""
    port: int | None = None
    """Of a local server, so that two of them do not take each other's cookies for their own."""
    keyring: Keyring | None = None
    """None: no secret can be stored."""
    proxies: tuple[str, ...] = ()
    """Addresses and networks of proxies in front, which are believed who it is they speak for."""

    def __post_init__(self) -> None:
        networks(self.proxies)

    @property
    def cookie(self) -> Cookie:
        return Cookie(self.secure, self.port)
