"""Implements `holdfast chat`: a durable chat, at a terminal or in a script."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TextIO, cast

from holdfast.cli import one_answer
from holdfast.cli.chat_source import connected
from holdfast.cli.output_stream import OutputStream
from holdfast.cli.prompt_sources import prompt_of
from holdfast.cli.run import colored
from holdfast.cli.trust_prompt import ensure_trusted
from holdfast.cli.view import View
from holdfast.config import ChatOptions
from holdfast.kernel.escape import escape


def main(options: ChatOptions) -> int:
    if not at_terminal():
        return one_answer.main(options)
    ensure_trusted(options.where)
    return asyncio.run(_talk(options))


def at_terminal() -> bool:
    """Whether a user can read the output and type at the same time."""
    streams = (sys.stdin, sys.stdout)
    able = all(stream is not None and stream.isatty() for stream in streams)
    return able and os.environ.get("TERM") != "dumb"


async def _talk(options: ChatOptions) -> int:
    from prompt_toolkit.patch_stdout import patch_stdout

    from holdfast.cli.line_editor import open_history
    from holdfast.cli.screen import SplitScreen
    from holdfast.cli.session import ChatSession

    screen = SplitScreen.of_terminal(options.keys, open_history(options.where.data))
    out = OutputStream.of(cast(TextIO, screen.above), colored(options.color))
    view = View(out, out, reasoning=options.reasoning, quiet=options.quiet, durable=True)
    prompt = prompt_of(options.prompt, "", options.files)
    async with connected(options) as connection:
        chat = await connection.find(options.chat)
        if connection.agent:
            view.note(connection.agent)
        view.note(f"{connection.name}: Enter sends, Ctrl-C stops, /help lists all commands.")
        session = ChatSession(connection, screen, view, options)
        with patch_stdout(raw=True):  # without a server, tools run in this process and may print
            code = await session.go(chat, prompt)
    if words := session.goodbye():
        print(escape(words), file=sys.stderr)
    return code
