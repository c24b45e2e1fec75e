"""`holdfast import`: chats of files that `holdfast export` wrote."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from holdfast.chat.export import parse
from holdfast.chat.view import Snapshot
from holdfast.cli.codes import ExitCode
from holdfast.cli.place import ask_instead, asking, writing
from holdfast.cli.terminal import safe
from holdfast.cli.wording import count
from holdfast.config import ImportOptions
from holdfast.kernel.errors import ConfigError, FormatError

STDIN = "-"


class Source(NamedTuple):
    """A file that holds a chat."""

    name: str
    text: str


class Restored(Protocol):
    """A chat that was made: here, or at a server."""

    id: str
    first: Snapshot


def main(options: ImportOptions) -> int:
    sources = [read(name) for name in options.files]
    asyncio.run(_restore(sources, options))
    return ExitCode.FINISHED


def read(name: str) -> Source:
    """A file that can be imported. Raises `ConfigError` for one that cannot."""
    try:
        data = sys.stdin.buffer.read() if name == STDIN else _content(name)
        text = data.decode()
        if not text.strip():
            raise _no_chat(name, "it is empty")
        parse(text)
    except OSError as error:
        raise ConfigError(f"{name} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise _no_chat(name, "it is no UTF-8 text") from None
    except FormatError as error:
        raise _no_chat(name, str(error)) from None
    return Source(name, text)


def _no_chat(name: str, why: str) -> ConfigError:
    return ConfigError(
        f"{name} is no chat that was exported as JSONL, and nothing was imported: {why}"
    )


def _content(name: str) -> bytes:
    with open(name, "rb") as file:
        return file.read()


async def _restore(sources: Sequence[Source], options: ImportOptions) -> None:
    if options.where.database is not None:
        await _in_database(sources, options, options.where.database)
        return
    from holdfast.client.host import RemoteHost

    async with asking(options.where) as line:
        host = RemoteHost(line)
        for source in sources:
            _tell(source, await host.restore(source.text, agent=options.agent))


async def _in_database(sources: Sequence[Source], options: ImportOptions, database: str) -> None:
    """As the server of the same settings would take them."""
    from holdfast.cli.agents import Place, agents_of
    from holdfast.cli.settings import read_settings
    from holdfast.host import serving
    from holdfast.server.identity.users import find_user_called
    from holdfast.server.policy import LOCAL

    settings, directory = read_settings(options.where.settings)
    agents = agents_of(settings, Place(directory, options.where.data), os.environ)
    async with (
        writing(database, ask_instead(options.where)) as db,
        serving(db, agents, worker=None) as host,
    ):
        owner, user = LOCAL, options.user
        if user is not None:
            owner = (await db.read(lambda tx: find_user_called(tx, user))).id
        for source in sources:
            _tell(source, await host.restore(source.text, agent=options.agent, owner=owner))


def _tell(source: Source, chat: Restored) -> None:
    """The id alone is on standard output, so that a script can take it from there."""
    title = chat.first.title or "without a title"
    words = safe(f"{source.name}: {count(chat.first.messages, 'message')}, {title}")
    print(words, file=sys.stderr, flush=True)
    print(safe(chat.id), flush=True)
