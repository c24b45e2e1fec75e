"""Connects to the chats of a verb: at a running server, or in the local database."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec import Struct

from holdfast.cli.target import asking, server_of
from holdfast.config import LAST, LAST_HERE, ChatOptions
from holdfast.kernel.errors import ConfigError

if TYPE_CHECKING:
    from holdfast.chat.interface import ChatHandle, ChatHost

DIRECTORY_LABEL: Final = "directory"
"""Label with the directory where a chat was created."""
MAX_SEARCHED: Final = 1_000
"""Newest chats among which the last one of a directory is searched."""


class MeResponse(Struct, frozen=True):
    """The user that the server knows us as."""

    name: str = ""


class Connection(NamedTuple):
    """Chats at a server, or in the local database."""

    host: ChatHost
    name: str
    """Which of the two, for the user."""
    agent: str = ""
    """Which agent answers, without a server."""
    labels: Mapping[str, str] = {}
    """Labels of new chats: the current directory, unless the server may be another user's."""

    async def find(self, chat: str | None) -> ChatHandle | None:
        """The chat to continue; None for a new one."""
        if chat not in (LAST, LAST_HERE):
            return None if chat is None else await self.host.chat(chat)
        labels = self.labels if chat == LAST_HERE else {}
        newest = await self.host.list(owner="", limit=MAX_SEARCHED if labels else 1)
        for one in newest:
            if labels.items() <= one.labels.items():
                return await self.host.chat(one.id)
        where = " of this directory: begin one with --save, or name one with --chat"
        raise ConfigError(f"there is no chat to continue{where if labels else ''}")


@asynccontextmanager
async def connected(options: ChatOptions) -> AsyncIterator[Connection]:
    """The chats of a server, once it has responded; without one, those of the local database."""
    server = server_of(options.where)
    if server is None:
        from holdfast.cli.local_host import local_host

        async with local_host(options) as local:
            name = f"{local.database}, without a server"
            yield Connection(local.host, name, local.agent, _here())
        return
    from holdfast.client.connect import connect

    if options.python is not None:
        raise ConfigError(
            f"{options.python}: the server at {server.url} answers this chat, with its own agents. "
            "Name one of them, or stop the server"
        )
    if refused := ", ".join(options.agent.changed()):
        raise ConfigError(
            f"{refused}: the agent of the server at {server.url} answers this chat, and has tools "
            "and instructions of its own. Change them in its settings, or run without --save, "
            "--continue and --chat"
        )
    async with asking(server, patience=0.0) as line:
        me = await line.get("/me", MeResponse)
    async with connect(server.url, server.token, socket=server.socket) as remote:
        name = f"{server.url.partition('/#')[0]}{f', as {me.name}' if me.name else ''}"
        yield Connection(remote, name, labels={} if options.where.url else _here())


def _here() -> Mapping[str, str]:
    try:
        return {DIRECTORY_LABEL: os.getcwd()}
    except FileNotFoundError:  # it was removed
        return {}
