"""Settings of authentication: local or team mode, cookies, secret keys, trusted proxies."""

from __future__ import annotations

from msgspec import Struct

from holdfast.server.identity.client_address import networks
from holdfast.server.identity.encrypted_secrets import Keyring
from holdfast.server.identity.sessions import Cookie


class AuthConfig(Struct, frozen=True, kw_only=True):
    """Settings of authentication."""

    local: bool = True
    """Local mode: one person on their own machine. False: team mode, with users."""
    secure: bool = False
    """The server is reached by https only; the cookie is then `Secure`."""
    port: int | None = None
    """Port of a local server; part of the cookie's name, so that two servers do not share one."""
    keyring: Keyring | None = None
    """Keys that encrypt stored secrets; None: no secret can be stored."""
    proxies: tuple[str, ...] = ()
    """Addresses and networks of trusted proxies: their `X-Forwarded-For` is believed."""

    def __post_init__(self) -> None:
        networks(self.proxies)

    @property
    def cookie(self) -> Cookie:
        """The session cookie that these settings lead to."""
        return Cookie(self.secure, self.port)
