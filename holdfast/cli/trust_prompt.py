"""Asks at the terminal whether the settings of the current directory may be used."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from holdfast.cli.controlling_terminal import Tty
from holdfast.cli.run_texts import count
from holdfast.cli.settings_trust import (
    LocalSettings,
    Untrusted,
    find_settings,
    is_trusted,
    refuse_untrusted,
    trust,
)
from holdfast.config import ChatTarget
from holdfast.kernel.escape import escape

if TYPE_CHECKING:
    from holdfast.cli.ask import Terminal
    from holdfast.cli.settings import HoldfastSettings

MAX_LINES_SHOWN: Final = 200
"""Lines of the file that are shown."""


def ensure_trusted(where: ChatTarget) -> None:
    """Ask about the settings, for a verb that reads them unless a server or database was named."""
    if where.url is None and where.database is None:
        ensure_trusted_settings(where.settings, where.data)


def ensure_trusted_settings(named: str | None, data: str) -> None:
    """Ask about the settings of the current directory if they are to be used and not trusted yet.

    Called before an event loop runs. Raises `Untrusted` if the answer is no or cannot be asked for.
    """
    if named is not None:
        return
    found = find_settings()
    if found is None or is_trusted(found, data):
        return
    terminal = _terminal()
    if terminal is None:
        refuse_untrusted(found, data)
        return
    with terminal:
        asyncio.run(ask_to_trust(found, data, terminal))


def _terminal() -> Tty | None:
    """The user's terminal; None without one, or if it belongs to another job."""
    if not sys.stderr.isatty():
        return None
    return Tty.open_in_foreground()


async def ask_to_trust(found: LocalSettings, data: str, terminal: Terminal) -> None:
    """Show the file and what it does. A yes is remembered, anything else raises `Untrusted`."""
    from holdfast.cli.config_mistakes import Mistakes
    from holdfast.cli.settings import parse_settings
    from holdfast.cli.target import create_data_directory

    settings = parse_settings(found.path, found.content, Mistakes())
    create_data_directory(data)
    terminal.write("".join(f"{line}\n" for line in shown(found, settings)))
    answer = await terminal.ask("Use these settings? [y]es, until the file changes, or [n]o: ")
    if (answer or "").strip().lower() not in ("y", "yes"):
        raise Untrusted(
            f"{found.path} was not used: name other settings with --config, or use "
            f"--config {os.devnull} for the defaults"
        )
    trust(found, data)


def shown(found: LocalSettings, settings: HoldfastSettings) -> Iterator[str]:
    """The text shown before the question."""
    yield f"{escape(found.path)} is new here, or has changed since you trusted it:"
    yield ""
    lines = found.content.decode(errors="replace").splitlines()
    yield from (f"    {escape(line)}" for line in lines[:MAX_LINES_SHOWN])
    if len(lines) > MAX_LINES_SHOWN:
        more = count(len(lines) - MAX_LINES_SHOWN, "more line")
        yield f"    … {more}: read the file before you agree"
    yield ""
    effects = list(dict.fromkeys(effects_of(settings)))
    if effects:
        yield "With these settings Holdfast"
        yield from (f"  - {escape(effect)}" for effect in effects)
        yield ""


def effects_of(settings: HoldfastSettings) -> Iterator[str]:
    """Effects of settings that the author of a foreign file could want. Pure."""
    for name, agent in settings.agents.items():
        output = agent.output if isinstance(agent.output, str) else None
        specs = (agent.python, *(agent.tools or ()), output)
        if code := [spec for spec in specs if spec is not None and ":" in spec]:
            yield f"runs Python code as you: {', '.join(code)} (agent {name})"
        if agent.approval == "never":
            yield f"lets agent {name} write files and run commands without asking you"
        if agent.pass_env:
            yield f"passes {', '.join(agent.pass_env)} to the commands of agent {name}"
        if agent.dir is not None:
            yield f"lets agent {name} work in {agent.dir}"
        if agent.instructions_file is not None:
            yield f"sends the file {agent.instructions_file} to the model (agent {name})"
    for name, options in settings.providers.items():
        if "base_url" in options:
            yield f"sends the key of {name}, and chats, to {options['base_url']}"
    yield from _effects_of_server(settings)


def _effects_of_server(settings: HoldfastSettings) -> Iterator[str]:
    server = settings.server
    if server.team:
        yield f"sends your token to {', '.join(server.urls)}"
    if server.listen != type(server)().listen:
        yield f"listens at {server.listen}"
    if server.advertise is not None:
        yield f"has other replicas send chats to {server.advertise}"
    if settings.database is not None:
        yield f"keeps chats in {settings.database}"
    if settings.listen_url is not None:
        yield f"receives notifications of the database from {settings.listen_url}"
    if settings.record is not None:
        yield f"records model requests and responses in {settings.record}"
