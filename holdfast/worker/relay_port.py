"""The port of a relay: what streams the chats of a host to other processes, and theirs here.

`server/relay` implements it. A worker announces the address before it claims a chat, so a relay is
opened before the host, and connected to it after.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol, runtime_checkable

from holdfast.chat.host import Host
from holdfast.kernel.errors import ConfigError
from holdfast.store.database import Database


@runtime_checkable
class Relay(Protocol):
    """How processes that open the same database stream each other's chats: `RelayOptions`."""

    def opened(self, *, drives: bool) -> AbstractAsyncContextManager[OpenRelay]:
        """Open it before the host. `drives`: whether this process has a worker."""
        ...


class OpenRelay(Protocol):
    """A relay that a host can be connected to."""

    @property
    def url(self) -> str | None:
        """URL at which other processes reach this one."""
        ...

    def connected(self, host: Host) -> AbstractAsyncContextManager[None]:
        """Relay a host's chats during the block."""
        ...


@asynccontextmanager
async def relayed(
    relay: Relay | None,
    db: Database,
    drives: bool,
    serve: Callable[..., AbstractAsyncContextManager[Host]],
) -> AsyncIterator[Host]:
    """A host with its relay. `serve` opens the host; `url` is the address that it announces."""
    if relay is not None and not isinstance(relay, Relay):
        raise ConfigError(f"relay is {relay!r:.80}: use RelayOptions(…), or None for no relay")
    if relay is None or db.exclusive:
        async with serve() as host:
            yield host
        return
    async with (
        relay.opened(drives=drives) as link,
        serve(url=link.url) as host,
        link.connected(host),
    ):
        yield host
