"""State that all requests of one server share: chats, database, identity, limits and streams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

import anyio
from msgspec import Struct

from holdfast.chat.errors import ChatNotFound
from holdfast.chat.host import Host
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.ports import Ports
from holdfast.observe.metrics import MetricRegistry
from holdfast.server.access_policy import ApiCaller, ChatAccess
from holdfast.server.chat_list_stream import ChatListNotifier
from holdfast.server.fanout import Hub, StreamOptions
from holdfast.server.http_request import HttpRequest
from holdfast.server.identity.auth_config import AuthConfig
from holdfast.store.database import Database

MAX_IMPORTS: Final = 2
"""Most imports that are parsed and written at once. Others wait, with their bodies in files."""


class ServerLimits(Struct, frozen=True, kw_only=True):
    """Limits of a server: sizes in bytes, retention in days."""

    body: int = 1024 * 1024
    """Largest JSON body in bytes."""
    file: int = 32 * 1024 * 1024
    """Largest uploaded file in bytes."""
    transfer: int = 64 * 1024 * 1024
    """Largest chat that can be imported, in bytes."""
    quota: int = 5 * 1024 * 1024 * 1024
    """Bytes of all files of one user."""
    audit: int = 365
    """Days that an audit log entry is kept."""
    streams: StreamOptions = StreamOptions()

    def __post_init__(self) -> None:
        for name in ("body", "file", "transfer", "quota", "audit"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"the limit {name} is {getattr(self, name)!r}: use 1 or more")


class Identity(Protocol):
    """Authenticates callers.

    May also have `async still(caller, chat_id) -> bool`: whether a caller may still read a chat
    (None: any), which is checked repeatedly while they watch.
    """

    async def caller(self, request: HttpRequest) -> ApiCaller | None:
        """The caller; None without a credential. Raises `Unauthenticated` for an invalid one."""
        ...

    async def access(self, caller: ApiCaller, chat_id: str) -> ChatAccess | None:
        """The chat, with how the caller relates to it; None if the caller may not know of it."""
        ...


class ApiState:
    """State that all requests share: the chats, the database, identity, limits and streams."""

    def __init__(
        self,
        host: Host,
        db: Database,
        identity: Identity,
        ports: Ports | None = None,
        limits: ServerLimits = ServerLimits(),  # noqa: B008 - frozen
        access: AuthConfig = AuthConfig(),  # noqa: B008 - frozen
        meters: MetricRegistry | None = None,
        base_urls: Mapping[str, str] = {},
    ) -> None:
        self.host = host
        self.db = db
        self.identity = identity
        self.ports = ports or Ports()
        self.limits = limits
        self.access = access
        self.meters = meters or MetricRegistry()
        """Metrics of this process."""
        self.base_urls = base_urls
        """Base URLs of providers, where the settings override the default."""
        self.hub = Hub(limits.streams, getattr(identity, "still", None), self._is_there)
        """Hub that serves all streams."""
        self.chat_list_notifier = ChatListNotifier(host.feed, self.hub.spawn)
        self.imports = anyio.Semaphore(MAX_IMPORTS)
        """Semaphore that an import holds while its body is parsed: parsing takes several times its
        size in memory, and its thread competes with the event loop for the GIL."""

    async def _is_there(self, chat_id: str) -> bool:
        try:
            await self.host.chat(chat_id)
        except ChatNotFound:
            return False
        return True
