"""Options of the relay between processes that open the same database with `holdfast.open`."""

from __future__ import annotations

import errno
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager
from math import inf
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from holdfast.kernel.errors import ConfigError
from holdfast.server.listening import bind, parse_address, url_of
from holdfast.server.relay.cluster_secret import (
    CLUSTER_SECRET_VARIABLE,
    ClusterSecret,
    check_secret,
    find_secret,
)

if TYPE_CHECKING:
    from holdfast.chat.host import Host
    from holdfast.server.relay.cluster_link import RelayLink

HOW: Final = "make one with `openssl rand -base64 32`, the same for all processes"


class RelayOptions(Struct, frozen=True, kw_only=True):
    """How processes that open one PostgreSQL database stream the tokens of each other's chats.

    Each process listens on an address of its own, and connects to the others at theirs. On SQLite
    there is only one process, and nothing to relay.
    """

    listen: str = "127.0.0.1:0"
    """Address to listen on; port 0 picks a free one. The default is for processes of one
    machine."""
    advertise: str | None = None
    """URL at which the other processes reach this one, as `http://10.0.0.5:8701`; default: the
    address that it listens on."""
    secret: str | None = None
    """Secret that all processes share; default: `HOLDFAST_CLUSTER_SECRET`. It is never sent."""
    tick: float = 0.025
    """Seconds between two messages to another process, each with everything since the last."""

    def __post_init__(self) -> None:
        host, port = parse_address(self.listen)
        if self.advertise is None and url_of(host, port) is None:
            raise ConfigError(
                f"the relay listens on all addresses ({self.listen}): set advertise to the URL at "
                "which other processes reach this one, like http://10.0.0.5:8701"
            )
        if self.secret is not None:
            check_secret("secret", self.secret)
        if not 0 < self.tick < inf:
            raise ConfigError(f"tick is {self.tick!r}: use seconds, more than 0")

    def __repr__(self) -> str:
        return f"RelayOptions(listen={self.listen!r}, advertise={self.advertise!r})"

    @asynccontextmanager
    async def opened(self, *, drives: bool) -> AsyncIterator[EmbeddedRelay]:
        """Listen, before the host is open. `drives`: whether this process has a worker."""
        secret = self._secret()
        if not drives:  # it has nothing to send
            yield EmbeddedRelay(secret, None)
            return
        with self._bound(secret) as link:
            yield EmbeddedRelay(secret, link)

    def _secret(self) -> ClusterSecret:
        if self.secret is not None:
            return check_secret("secret", self.secret)
        found = find_secret(os.environ, None)
        if found is None:
            raise ConfigError(
                f"the relay has no secret: set {CLUSTER_SECRET_VARIABLE}, or "
                f"RelayOptions(secret=…); {HOW}"
            )
        return found

    @contextmanager
    def _bound(self, secret: ClusterSecret) -> Iterator[RelayLink]:
        from holdfast.server.relay.cluster_link import link_at

        name, port = parse_address(self.listen)
        try:
            listening = bind(name, port)
        except OSError as error:
            why = "in use" if error.errno == errno.EADDRINUSE else f"unusable ({error.strerror})"
            raise ConfigError(
                f"the relay's address {self.listen} is {why}: set listen to another port, or 0 for "
                "a free one"
            ) from None
        with closing(listening):
            yield link_at(listening, name, secret, advertise=self.advertise, tick=self.tick)


class EmbeddedRelay(Struct, frozen=True):
    """A relay whose address is known, and which nothing uses yet."""

    secret: ClusterSecret
    link: RelayLink | None
    """None if there is nothing to listen for."""

    @property
    def url(self) -> str | None:
        """URL at which other processes reach this one."""
        return None if self.link is None else self.link.url

    @asynccontextmanager
    async def connected(self, host: Host) -> AsyncIterator[None]:
        """Relay deltas of a host's chats to and from the other processes during the block."""
        from holdfast.observe.metrics import MetricRegistry
        from holdfast.server.relay.cluster_link import published, subscribed

        meters = MetricRegistry()
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(subscribed(self.secret, host, meters))
            if self.link is not None:
                await stack.enter_async_context(published(self.link, host, meters))
            yield
