"""Implements `holdfast import`: creates chats from exported chats and saved histories."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from holdfast.chat.export import parse
from holdfast.chat.snapshots import Snapshot
from holdfast.cli.chat_source import DIRECTORY_LABEL
from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.history_to_chat import exported, is_history
from holdfast.cli.run_texts import count
from holdfast.cli.target import ask_instead, asking, database_of, say_which, server_of, writing
from holdfast.cli.trust_prompt import ensure_trusted_settings
from holdfast.config import ImportOptions
from holdfast.kernel.errors import ConfigError, FormatError
from holdfast.kernel.escape import escape
from holdfast.kernel.ports import wall_clock

STDIN = "-"


class ExportFile(NamedTuple):
    """A file that contains an exported chat."""

    name: str
    text: str


class ImportedChat(Protocol):
    """An imported chat, in a database or at a server."""

    id: str
    first: Snapshot


def main(options: ImportOptions) -> int:
    if options.where.url is None:  # a database also needs these settings
        ensure_trusted_settings(options.where.settings, options.where.data)
    sources = [read(name) for name in options.files]
    asyncio.run(_restore(sources, options))
    return ExitCode.FINISHED


def read(name: str) -> ExportFile:
    """Read and check a file. Raises `ConfigError` if it cannot be imported."""
    try:
        data = sys.stdin.buffer.read() if name == STDIN else _content(name)
        if is_history(data):
            directory = os.getcwd() if name == STDIN else os.path.dirname(os.path.abspath(name))
            return ExportFile(name, exported(data, {DIRECTORY_LABEL: directory}, wall_clock()))
        text = data.decode()
        if not text.strip():
            raise _no_chat(name, "it is empty")
        parse(text)
    except OSError as error:
        raise ConfigError(f"{name} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise _no_chat(name, "it is not UTF-8 text") from None
    except FormatError as error:
        raise _no_chat(name, str(error)) from None
    return ExportFile(name, text)


def _no_chat(name: str, why: str) -> ConfigError:
    return ConfigError(
        f"{name} is neither an exported chat nor a saved history, so nothing was imported: {why}"
    )


def _content(name: str) -> bytes:
    with open(name, "rb") as file:
        return file.read()


async def _restore(sources: Sequence[ExportFile], options: ImportOptions) -> None:
    server = server_of(options.where)
    if server is None:
        await _in_database(sources, options)
        return
    from holdfast.client.remote_host import RemoteHost

    say_which(options.where, server.url)
    async with asking(server) as line:
        host = RemoteHost(line)
        for source in sources:
            _print_id(source, await host.restore(source.text, agent=options.agent))


async def _in_database(sources: Sequence[ExportFile], options: ImportOptions) -> None:
    """Import into a database as a server with these settings would."""
    from holdfast.cli.agent_builder import BaseDirectories
    from holdfast.cli.agent_registry import complete_agents
    from holdfast.cli.settings import read_settings
    from holdfast.host import serving
    from holdfast.server.access_policy import LOCAL
    from holdfast.server.identity.users import find_user_called

    database = database_of(options.where, makes=True)
    say_which(options.where, database)
    settings, directory = read_settings(options.where.settings, options.where.data)
    directories = BaseDirectories(directory, options.where.data)
    agents = await complete_agents(settings, directories, os.environ)
    async with (
        writing(database, ask_instead(options.where)) as db,
        serving(db, agents, worker=None) as host,
    ):
        owner, user = LOCAL, options.user
        if user is not None:
            owner = (await db.read(lambda tx: find_user_called(tx, user))).id
        for source in sources:
            _print_id(source, await host.restore(source.text, agent=options.agent, owner=owner))


def _print_id(source: ExportFile, chat: ImportedChat) -> None:
    """Print the id. It alone goes to standard output, so a script can read it."""
    title = chat.first.title or "untitled"
    words = escape(f"{source.name}: {count(chat.first.messages, 'message')}, {title}")
    print(words, file=sys.stderr, flush=True)
    print(escape(chat.id), flush=True)
