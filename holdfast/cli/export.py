"""Implements `holdfast export`: writes a chat to a file."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from holdfast.chat.change_feed import Feed
from holdfast.chat.handle import HostContext
from holdfast.chat.host import Host
from holdfast.chat.snapshots import StrandedLimits
from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.target import asking, database_of, reading, refuse_missing, say_which, server_of
from holdfast.cli.trust_prompt import ensure_trusted
from holdfast.config import ExportOptions
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.messages import dump
from holdfast.kernel.ports import Ports
from holdfast.live.broadcast import Live

if TYPE_CHECKING:
    from holdfast.chat.interface import ChatHandle


def main(options: ExportOptions) -> int:
    ensure_trusted(options.where)
    text = asyncio.run(exported(options))
    if options.output is None:
        sys.stdout.write(text)
        return ExitCode.FINISHED
    try:
        with open(options.output, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
    except OSError as error:
        raise ConfigError(f"{options.output} cannot be written: {error.strerror}") from None
    return ExitCode.FINISHED


async def exported(options: ExportOptions) -> str:
    """The text of the chat, read from a server or a database."""
    server = server_of(options.where)
    if server is not None:
        from holdfast.client.remote_host import RemoteHost

        say_which(options.where, server.url)
        async with asking(server) as line:
            return await _text(await RemoteHost(line).chat(options.chat), options)
    database = database_of(options.where, makes=False)
    refuse_missing(database, options.where.data, "--url, --database or --config")
    say_which(options.where, database)
    async with reading(database) as db:
        # No agent runs here, and no changes are watched.
        desk = HostContext(db, {}, Feed(db, Live(), StrandedLimits(0, 0)), Ports(), runs_here=False)
        return await _text(await Host(desk).chat(options.chat), options)


async def _text(chat: ChatHandle, options: ExportOptions) -> str:
    if options.format == "json":
        return dump(await chat.history()).decode() + "\n"
    return await chat.export(options.format)
