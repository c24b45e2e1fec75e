"""Implements `holdfast chat`: a durable chat, at a terminal or in a script."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn, TextIO, TypeAlias, cast

import anyio
from msgspec import Struct

from holdfast.chat.rows import Rule
from holdfast.chat.stream import Cursor
from holdfast.cli.ask import Asker
from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.prompt import prompt_of, read_stdin
from holdfast.cli.run import EXIT_CODES, colored
from holdfast.cli.signals import stopping
from holdfast.cli.stream_adapter import ConnectionMonitor, StreamAdapter
from holdfast.cli.target import asking, server_of
from holdfast.cli.terminal import OutputStream
from holdfast.cli.trust_prompt import ensure_trusted
from holdfast.cli.tty import Tty
from holdfast.cli.view import View
from holdfast.config import ChatOptions, ChatTarget
from holdfast.kernel.errors import ConfigError, HoldfastError
from holdfast.kernel.escape import escape
from holdfast.kernel.messages import Prompt

if TYPE_CHECKING:
    from holdfast.agent import Resolution
    from holdfast.chat.handle import Chat
    from holdfast.chat.host import Host
    from holdfast.chat.snapshots import ChatResult
    from holdfast.client.chat import RemoteChat
    from holdfast.client.host import RemoteHost

    AnyHost: TypeAlias = RemoteHost | Host
    """The chats of a server, or those of a database in this process."""
    AnyChat: TypeAlias = RemoteChat | Chat

LAST_CHAT: Final = "last"
MAX_SERVER_OUTAGE: Final = 300
"""Seconds that a script waits for an unreachable server, which may be restarting."""


class ServerUnreachable(HoldfastError):
    """The server stayed unreachable while a script waited for it."""

    def __init__(self, chat_id: str) -> None:
        super().__init__(
            f"the server has been unreachable for {MAX_SERVER_OUTAGE // 60} minutes. Nothing is "
            f"lost: when it is back, run holdfast chat --chat {chat_id} to see the result"
        )


class MeResponse(Struct, frozen=True):
    """The user that the server knows us as."""

    name: str = ""


class Connection(NamedTuple):
    """Chats at a server, or in the local database."""

    host: AnyHost
    name: str
    """Which of the two, for the user."""
    agent: str = ""
    """Which agent answers, without a server."""


def main(options: ChatOptions) -> int:
    ensure_trusted(options.where)
    if at_terminal():
        return asyncio.run(_talk(options))
    environ = colored(options.color)
    answer, status = (
        OutputStream.of(sys.stdout, environ),
        OutputStream.of(sys.stderr, environ, needed=False),
    )
    view = View(answer, status, reasoning=options.reasoning, quiet=options.quiet)
    prompt = prompt_of(options.prompt, read_stdin(options.prompt, view.note), options.files)
    if prompt is None and options.chat is None:
        raise ConfigError('no prompt: use holdfast chat "your question", or a terminal')
    with ExitStack() as held:
        tty = Tty.open()
        if tty is not None:
            held.enter_context(tty)
        once = OneAnswer(view, Asker(tty, options.approve, view.note, within="chat"))
        try:
            return asyncio.run(once.go(options, prompt))
        finally:
            view.end()


def at_terminal() -> bool:
    """Whether a user can read the output and type at the same time."""
    streams = (sys.stdin, sys.stdout)
    able = all(stream is not None and stream.isatty() for stream in streams)
    return able and os.environ.get("TERM") != "dumb"


@asynccontextmanager
async def connected(where: ChatTarget) -> AsyncIterator[Connection]:
    """The chats of a server, once it has responded; without one, those of the local database."""
    server = server_of(where)
    if server is None:
        from holdfast.cli.local_host import local_host

        async with local_host(where) as local:
            yield Connection(local.host, f"{local.database}, without a server", local.agent)
        return
    from holdfast.client.connect import connect

    async with asking(server, patience=0.0) as line:
        me = await line.get("/me", MeResponse)
    async with connect(server.url, server.token, socket=server.socket) as remote:
        name = f"{server.url.partition('/#')[0]}{f', as {me.name}' if me.name else ''}"
        yield Connection(remote, name)


async def find(host: AnyHost, chat: str | None) -> AnyChat | None:
    """The chat to continue; None for a new one."""
    if chat is None:
        return None
    if chat != LAST_CHAT:
        return await host.chat(chat)
    newest = await host.list(owner="", limit=1)
    if not newest:
        raise ConfigError("there is no chat to continue: remove --last")
    return await host.chat(newest[0].id)


# --- at a terminal -------------------------------------------------------------------------------


async def _talk(options: ChatOptions) -> int:
    from holdfast.cli.screen import SplitScreen
    from holdfast.cli.session import ChatSession

    screen = SplitScreen(sys.stdin.fileno(), sys.stdout.fileno(), sys.stdout.encoding)
    out = OutputStream.of(cast(TextIO, screen.above), colored(options.color))
    view = View(out, out, reasoning=options.reasoning, quiet=options.quiet)
    prompt = prompt_of(options.prompt, "", options.files)
    async with connected(options.where) as connection:
        chat = await find(connection.host, options.chat)
        if connection.agent:
            view.note(connection.agent)
        view.note(f"{connection.name}: Enter sends, Ctrl-C stops, /help lists all commands.")
        session = ChatSession(connection, screen, view, options)
        code = await session.go(chat, prompt)
    if words := session.goodbye():
        print(escape(words), file=sys.stderr)
    return code


# --- without one ---------------------------------------------------------------------------------


class OneAnswer:
    """Sends a prompt, and shows the answer until the chat is idle."""

    def __init__(self, view: View, asker: Asker) -> None:
        self._view = view
        self._asker = asker
        self._stop = asyncio.Event()
        self._stopped: signal.Signals | None = None
        self._asking: anyio.CancelScope | None = None
        self._allowed: frozenset[str] = frozenset()
        """Tools that the chat was told to allow."""
        self._monitor = ConnectionMonitor(view)

    async def go(self, options: ChatOptions, prompt: Prompt | None) -> int:
        """Send and follow; returns the exit code of a run."""
        async with connected(options.where) as connection:
            chat, cursor, known = await self._begin(connection.host, options, prompt)
            adapter = StreamAdapter(self._view, known, echo=False)
            async with anyio.create_task_group() as group:
                group.start_soon(self._tick)
                group.start_soon(give_up, chat.id, self._monitor.is_away)
                group.start_soon(self._interrupt, chat)
                with stopping(self._on_stop, self._view.end):
                    result = await self._until_rest(chat, cursor, adapter)
                group.cancel_scope.cancel()
        if self._stopped is not None:
            return 128 + self._stopped
        if result.reason == "requires_action":
            print(f"holdfast: {_waiting(result)}", file=sys.stderr)
        return ExitCode.FINISHED if result.reason is None else EXIT_CODES[result.reason]

    async def _begin(
        self, host: AnyHost, options: ChatOptions, prompt: Prompt | None
    ) -> tuple[AnyChat, Cursor | None, int]:
        """The chat with the prompt sent; and the position from which on events are new."""
        chat = await find(host, options.chat)
        if chat is None:
            new = await host.create(
                prompt, agent=options.agent, model=options.model, effort=options.effort
            )
            return new, None, 0
        if prompt is not None:
            await chat.send(prompt, model=options.model, effort=options.effort)
        elif not chat.first.busy:
            raise ConfigError(f"the chat {chat.id} is idle: give a prompt to continue it")
        return chat, Cursor(chat.first.snapshot_version), chat.first.messages

    async def _until_rest(
        self, chat: AnyChat, cursor: Cursor | None, adapter: StreamAdapter
    ) -> ChatResult:
        while True:
            async with chat.stream(cursor) as stream:
                self._monitor.stream = stream
                async for event in stream:
                    self._monitor.check()  # before its events
                    adapter.show(event)
                cursor = stream.cursor
            result = await chat.rest()
            if result.reason != "requires_action" or self._stop.is_set():
                return result
            answers: Mapping[str, Resolution] = {}
            with anyio.CancelScope() as self._asking:
                answers = await self._asker.resolve(result.actions)
            if not answers or self._stop.is_set():
                return result
            await self._resolve(chat, result, answers)

    async def _resolve(
        self, chat: AnyChat, result: ChatResult, answers: Mapping[str, Resolution]
    ) -> None:
        """Resolve actions one by one: an "always" is sent with its call."""
        for action in result.actions:
            if (answer := answers.get(action.call.id)) is not None:
                tool = action.call.tool
                rule = Rule(tool) if tool in self._asker.always - self._allowed else None
                await chat.resolve({action.call.id: answer}, allow_for_chat=rule)
                self._allowed |= {tool} & self._asker.always

    def _on_stop(self, number: signal.Signals) -> None:
        self._stopped = number
        self._view.stopping()
        self._stop.set()
        if self._asking is not None:
            self._asking.cancel()

    async def _interrupt(self, chat: AnyChat) -> None:
        await self._stop.wait()
        await chat.interrupt()

    async def _tick(self) -> None:
        while True:
            await anyio.sleep(1)
            self._view.tick()
            self._monitor.check()


async def give_up(chat_id: str, is_away: Callable[[], bool]) -> NoReturn:
    """End a wait, by raising `ServerUnreachable`, once the server was unreachable for too long."""
    gone = 0
    while gone < MAX_SERVER_OUTAGE:
        await anyio.sleep(1)
        gone = gone + 1 if is_away() else 0
    raise ServerUnreachable(chat_id)


def _waiting(result: ChatResult) -> str:
    tools = ", ".join(dict.fromkeys(action.call.tool for action in result.actions))
    approvals = any(action.kind == "approval" for action in result.actions)
    return (
        f"{escape(tools)} waits for an answer: holdfast chat --chat {result.chat.id} at a terminal"
        + (", or use --yes or --deny" if approvals else "")
    )
