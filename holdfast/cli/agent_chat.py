"""A chat with an agent of a program, in its terminal: `agent.chat()`.

It is the session of `holdfast chat`, with a database in memory. Without a terminal, each line of
standard input is a prompt, or the answer to a question.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any, Final, cast

import anyio

from holdfast import host
from holdfast.agent import Agent
from holdfast.chat.rows import Status
from holdfast.chat.stream import Cursor
from holdfast.cli.ask import Asker
from holdfast.cli.chat import at_terminal
from holdfast.cli.chat_source import Connection
from holdfast.cli.history_to_chat import exported
from holdfast.cli.one_answer import OneAnswer
from holdfast.cli.output_stream import OutputStream
from holdfast.cli.run import colored, quiet_logs
from holdfast.cli.view import View
from holdfast.config import ChatOptions, ChatTarget, editor_keys
from holdfast.kernel.agent_deps import DepsProvider
from holdfast.kernel.messages import Message, dump
from holdfast.worker.options import WorkerOptions

if TYPE_CHECKING:
    from typing import TextIO

    from holdfast.chat.handle import Chat
    from holdfast.chat.host import Host
    from holdfast.chat.interface import ChatHandle

IN_MEMORY: Final = "sqlite:///:memory:"
LEAVING_GRACE: Final = 2.0
"""Seconds that running tools have when the user leaves."""


async def chat_with(
    agent: Agent[Any, Any], history: Sequence[Message] = (), deps: Any = None
) -> tuple[Message, ...]:
    """Chat with an agent in the terminal; returns the history of the chat at the end."""
    worker = WorkerOptions(grace=LEAVING_GRACE)
    with quiet_logs():
        provider = None if deps is None else _always(deps)
        async with host.open(
            IN_MEMORY, [agent], titles=False, worker=worker, deps=provider
        ) as opened:
            chat = await _continued(opened, agent, history) if history else None
            talk = _session if at_terminal() else _lines
            left: ChatHandle | None = await talk(agent, opened, chat)
            if left is None:
                return ()
            if (await left.read()).status is Status.RUNNING:
                await left.interrupt()
                await left.rest()
            return await left.history()


def _always(deps: object) -> DepsProvider[Any]:
    return lambda info: deps


async def _continued(opened: Host, agent: Agent, history: Sequence[Message]) -> Chat:
    """A chat with this history."""
    return await opened.restore(exported(dump(history), {}, 0), agent=agent.name)


async def _session(agent: Agent, opened: Host, chat: ChatHandle | None) -> ChatHandle | None:
    """Chat in the terminal, where the user can type during answers."""
    from prompt_toolkit.history import InMemoryHistory
    from prompt_toolkit.patch_stdout import patch_stdout

    from holdfast.cli.screen import SplitScreen
    from holdfast.cli.session import ChatSession

    keys = editor_keys(os.environ)
    options = ChatOptions(where=ChatTarget(data=""), keys=keys)
    screen = SplitScreen.of_terminal(keys, InMemoryHistory())
    out = OutputStream.of(cast("TextIO", screen.above), colored("auto"))
    view = View(out, out, durable=True)
    view.note(f"{agent.name}: Enter sends, Ctrl-C stops, Ctrl-D ends, /help lists all commands.")
    session = ChatSession(Connection(opened, IN_MEMORY, agent.name), screen, view, options)
    with patch_stdout(raw=True):  # tools run in this process and may print
        await session.go(chat, None)
    return session.chat


async def _lines(agent: Agent, opened: Host, chat: ChatHandle | None) -> ChatHandle | None:
    """Answer the lines of standard input, one after the other."""
    environ = colored("auto")
    answer, status = (
        OutputStream.of(sys.stdout, environ),
        OutputStream.of(sys.stderr, environ, needed=False),
    )
    view, lines = View(answer, status, durable=True), InputLines(status)
    asker = Asker(lines, "ask", view.note, within="chat")
    with redirect_stdout(sys.stderr):  # output of tools is not part of the answer
        while (line := await lines.next()) is not None:
            if not line.strip():
                continue
            view.new_turn()
            if chat is None:
                chat, cursor, known = await opened.create(line), None, 0
            else:
                now = await chat.read()
                cursor, known = Cursor(now.snapshot_version), now.messages
                await chat.send(line)
            await OneAnswer(view, asker).follow(chat, cursor, known)
            view.end()
    return chat


class InputLines:
    """Standard input as a terminal: its lines are prompts, or answers to questions."""

    def __init__(self, status: OutputStream) -> None:
        self._status = status

    def write(self, text: str) -> None:
        self._status.write(text)

    async def ask(self, question: str) -> str | None:
        self.write(f"{question}\n")
        return await self.next()

    async def next(self) -> str | None:
        """The next line; None at the end."""
        if sys.stdin is None:  # closed by the parent process
            return None
        line = await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
        return line.rstrip("\r\n") if line else None
