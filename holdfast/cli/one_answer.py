"""One answer of a durable chat: sends a prompt, and shows the chat until it is idle."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, redirect_stdout
from typing import TYPE_CHECKING, Final, NoReturn

import anyio

from holdfast.chat.rows import Rule
from holdfast.chat.stream import Cursor
from holdfast.cli.ask import Asker
from holdfast.cli.chat_source import Connection, connected
from holdfast.cli.controlling_terminal import Tty
from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.json_lines import JsonView
from holdfast.cli.output_stream import OutputStream
from holdfast.cli.prompt_sources import prompt_of, read_stdin
from holdfast.cli.run import EXIT_CODES, colored, quiet_logs
from holdfast.cli.signals import stopping
from holdfast.cli.stream_adapter import ConnectionMonitor, StreamAdapter
from holdfast.cli.trust_prompt import ensure_trusted
from holdfast.cli.view import View
from holdfast.config import ChatOptions
from holdfast.kernel.errors import ConfigError, HoldfastError
from holdfast.kernel.escape import escape
from holdfast.kernel.messages import Prompt

if TYPE_CHECKING:
    from holdfast.agent import Resolution
    from holdfast.chat.interface import ChatHandle
    from holdfast.chat.snapshots import ChatResult

MAX_SERVER_OUTAGE: Final = 300
"""Seconds that a script waits for an unreachable server, which may be restarting."""


class ServerUnreachable(HoldfastError):
    """The server stayed unreachable while a script waited for it."""

    def __init__(self, chat_id: str) -> None:
        super().__init__(
            f"the server has been unreachable for {MAX_SERVER_OUTAGE // 60} minutes. Nothing is "
            f"lost: when it is back, run holdfast chat --chat {chat_id} to see the result"
        )


def main(options: ChatOptions) -> int:
    """Answer a prompt in a durable chat; returns the exit code."""
    ensure_trusted(options.where)
    environ = colored(options.color)
    answer, status = (
        OutputStream.of(sys.stdout, environ),
        OutputStream.of(sys.stderr, environ, needed=False),
    )
    view: View | JsonView = JsonView(answer)
    if not options.json:
        view = View(answer, status, reasoning=options.reasoning, quiet=options.quiet, durable=True)
    prompt = prompt_of(options.prompt, read_stdin(options.prompt, view.note), options.files)
    if prompt is None and options.chat is None:
        or_else = ", or a terminal" if options.verb == "chat" else ""
        raise ConfigError(f'no prompt: use holdfast {options.verb} "your question"{or_else}')
    with ExitStack() as held:
        # Without a server, tools run in this process: what they print is not part of the answer.
        held.enter_context(redirect_stdout(sys.stderr))
        held.enter_context(quiet_logs())
        tty = Tty.open()
        if tty is not None:
            held.enter_context(tty)
        seen = status.terminal and not (options.json or options.quiet)
        asker = Asker(tty, options.approve, view.note, within="chat")
        try:
            return asyncio.run(OneAnswer(view, asker, seen).go(options, prompt))
        finally:
            view.end()


class OneAnswer:
    """Sends a prompt, and shows the answer until the chat is idle."""

    def __init__(self, view: View | JsonView, asker: Asker, seen: bool = False) -> None:
        """`seen`: the view shows previews of calls."""
        self._view = view
        self._asker = asker
        self._seen = seen
        self._stop = asyncio.Event()
        self._stopped: signal.Signals | None = None
        self._asking: anyio.CancelScope | None = None
        self._allowed: frozenset[str] = frozenset()
        """Tools that the chat was told to allow."""
        self._monitor = ConnectionMonitor(view)

    async def go(self, options: ChatOptions, prompt: Prompt | None) -> int:
        """Send and follow; returns the exit code of a run."""
        async with connected(options) as connection:
            chat, cursor, known = await self._begin(connection, options, prompt)
            if options.verb == "run" and connection.agent:
                self._view.note(connection.agent)
            result = await self.follow(chat, cursor, known)
            if options.verb == "run":
                self._view.note(f"saved: holdfast run --chat {chat.id} continues this chat")
        if self._stopped is not None:
            return 128 + self._stopped
        if result.reason == "requires_action":
            print(f"holdfast: {_waiting(result, options.verb)}", file=sys.stderr)
        return ExitCode.FINISHED if result.reason is None else EXIT_CODES[result.reason]

    async def follow(self, chat: ChatHandle, cursor: Cursor | None, known: int) -> ChatResult:
        """Show a chat until it is idle, and resolve its actions with the user.

        The first `known` messages are not shown. Ctrl-C interrupts the turn.
        """
        adapter = StreamAdapter(self._view, known, echo=False)
        async with anyio.create_task_group() as group:
            group.start_soon(self._tick)
            group.start_soon(give_up, chat.id, self._monitor.is_away)
            group.start_soon(self._interrupt, chat)
            with stopping(self._on_stop, self._view.end):
                result = await self._until_rest(chat, cursor, adapter)
            group.cancel_scope.cancel()
        return result

    async def _begin(
        self, connection: Connection, options: ChatOptions, prompt: Prompt | None
    ) -> tuple[ChatHandle, Cursor | None, int]:
        """The chat with the prompt sent; and the position from which on events are new."""
        chat = await connection.find(options.chat)
        if chat is None:
            new = await connection.host.create(
                prompt,
                agent=options.agent_name,
                labels=connection.labels,
                model=options.model,
                effort=options.effort,
            )
            return new, None, 0
        if prompt is not None:
            await chat.send(prompt, model=options.model, effort=options.effort)
        elif not chat.first.busy:
            raise ConfigError(f"the chat {chat.id} is idle: give a prompt to continue it")
        return chat, Cursor(chat.first.snapshot_version), chat.first.messages

    async def _until_rest(
        self, chat: ChatHandle, cursor: Cursor | None, adapter: StreamAdapter
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
            if self._seen and len(result.actions) == 1:
                self._asker.previews_seen = adapter.preview(result.actions[0])
            answers: Mapping[str, Resolution] = {}
            with anyio.CancelScope() as self._asking:
                answers = await self._asker.resolve(result.actions)
            self._asking = None
            if not answers or self._stopped is not None:
                return result
            await self._resolve(chat, result, answers)

    async def _resolve(
        self, chat: ChatHandle, result: ChatResult, answers: Mapping[str, Resolution]
    ) -> None:
        """Resolve actions one by one: an "always" is sent with its call."""
        for action in result.actions:
            if (answer := answers.get(action.call.id)) is not None:
                tool = action.call.tool
                rule = Rule(tool) if tool in self._asker.always - self._allowed else None
                await chat.resolve({action.call.id: answer}, allow_for_chat=rule)
                self._allowed |= {tool} & self._asker.always

    def _on_stop(self, number: signal.Signals) -> None:
        """Interrupt the turn; at a question, leave the question open."""
        self._stopped = number
        self._view.stopping()
        if self._asking is not None:
            self._asking.cancel()
        else:
            self._stop.set()

    async def _interrupt(self, chat: ChatHandle) -> None:
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


def _waiting(result: ChatResult, verb: str) -> str:
    tools = ", ".join(dict.fromkeys(action.call.tool for action in result.actions))
    approvals = any(action.kind == "approval" for action in result.actions)
    return (
        f"{escape(tools)} waits for an answer: holdfast {verb} --chat {result.chat.id} "
        "at a terminal" + (", or use --yes or --deny" if approvals else "")
    )
