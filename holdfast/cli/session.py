"""`holdfast chat` at a terminal: an interactive session in which users type during answers."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import anyio

from holdfast.chat.rows import Deliver, Queued, Rule, Status
from holdfast.chat.snapshots import Pending, Snapshot
from holdfast.cli import run_texts
from holdfast.cli.ask import Asker
from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.screen import SplitScreen
from holdfast.cli.slash_commands import SlashCommand, help_lines, parse_line
from holdfast.cli.stream_adapter import ConnectionMonitor, StreamAdapter
from holdfast.cli.view import View
from holdfast.config import ChatOptions
from holdfast.kernel.errors import ConfigError, HoldfastError
from holdfast.kernel.events import Warned
from holdfast.kernel.messages import Prompt
from holdfast.kernel.model import EFFORTS

if TYPE_CHECKING:
    from holdfast.chat.interface import ChatHandle
    from holdfast.cli.chat_source import Connection

MAX_LISTED: Final = 20
"""How many chats or messages are listed."""
AGENT_DEFAULT: Final = "the agent's own"
"""Shown for model and effort if a chat overrides neither."""
TITLE_WIDTH: Final = 50
"""Characters of a title in a list; the status follows it."""
EXCERPT_WIDTH: Final = 70
"""Characters shown of a message or a chat."""


class ChatSession:
    """An interactive session, and the chat it is in; initially none."""

    def __init__(
        self, connection: Connection, screen: SplitScreen, view: View, options: ChatOptions
    ) -> None:
        self._host, self._labels = connection.host, connection.labels
        self._at_server = not connection.agent
        self._screen = screen
        self._view = view
        self._options = options
        self._model, self._effort = options.model, options.effort
        """Overrides for the next message."""
        self._chat: ChatHandle | None = None
        self._listed: tuple[Snapshot, ...] = ()
        self._stop = asyncio.Event()
        self._warned = False
        """Whether Ctrl-C was pressed: the next one exits."""
        screen.on_stop = self._ctrl_c
        self._code = int(ExitCode.FINISHED)
        self._no_chat()

    def _no_chat(self) -> None:
        self._adapter = StreamAdapter(self._view, 0, echo=True)
        self._monitor = ConnectionMonitor(self._view)
        self._asker = Asker(self._screen, self._options.approve, self._view.note, within="chat")
        self._asking: anyio.CancelScope | None = None
        self._asked: tuple[str, ...] = ()
        self._far: set[str] = set()
        """Calls whose preview has scrolled away: it is shown again with the question."""
        self._following: anyio.CancelScope | None = None

    async def go(self, chat: ChatHandle | None, prompt: Prompt | None) -> int:
        """Run until the user leaves; returns the exit code."""
        async with anyio.create_task_group() as self._group:
            with _on(self._signals()):
                async with self._screen.open():
                    self._group.start_soon(self._tick)
                    self._group.start_soon(self._interrupt)
                    try:
                        await self._talk(chat, prompt)
                    finally:
                        self._view.end()
                        self._group.cancel_scope.cancel()
        return self._code

    async def _talk(self, chat: ChatHandle | None, prompt: Prompt | None) -> None:
        if chat is not None:
            await self._enter(chat)
        if prompt is not None:
            await self._send_prompt(prompt)
        while (line := await self._screen.next()) is not None:
            self._warned = False
            try:
                await self._take(line)
            except HoldfastError as error:
                self._warn(str(error))
                if not self._screen.text:
                    self._screen.put(line)  # to be edited or sent again

    async def _take(self, line: str) -> None:
        command = parse_line(line)
        if command is None:
            return
        if not command.name:
            await self._send_prompt(command.rest)
            return
        do: Callable[[SlashCommand], Awaitable[None]] = getattr(self, f"_do_{command.name}")
        await do(command)

    async def _send_prompt(self, prompt: Prompt, deliver: Deliver = "queue") -> None:
        model, effort = self._model, self._effort
        if self._chat is None:
            new = await self._host.create(
                prompt,
                agent=self._options.agent_name,
                labels=self._labels,
                model=model,
                effort=effort,
            )
            await self._enter(new, known=0)
        else:
            if self._monitor.is_away():
                self._view.note("· will be sent when the connection is back")
            await self._chat.send(prompt, deliver, model=model, effort=effort)
        self._model = self._effort = None

    # --- the chat that is watched ---

    async def _enter(self, chat: ChatHandle, known: int | None = None) -> None:
        """Watch a chat from its last prompt on, unless `known` gives the position."""
        self._leave_chat()
        if known is None:
            seen = await chat.messages(limit=MAX_LISTED)
            prompts = [one.number for one in seen if one.message.kind == "prompt"]
            known = max(0, (prompts or [one.number for one in seen] or [1])[-1] - 1)
            self._view.note(f"{_title(chat.first)} ({chat.id})")
        self._chat = chat
        self._adapter = StreamAdapter(self._view, known, echo=True)
        self._following = anyio.CancelScope()
        self._group.start_soon(self._follow, chat, self._adapter, self._following)

    def _leave_chat(self) -> None:
        for scope in (self._following, self._asking):
            if scope is not None:
                scope.cancel()
        self._chat = None
        self._no_chat()
        self._view.end()
        self._screen.invite(True)

    async def _follow(
        self, chat: ChatHandle, adapter: StreamAdapter, scope: anyio.CancelScope
    ) -> None:
        with scope:
            async with chat.stream(follow=True) as stream:
                self._monitor.stream = stream
                async for event in stream:
                    self._monitor.check()  # before its events
                    adapter.show(event)
                    if adapter.settled:
                        self._screen.invite(not adapter.busy)
                        self._ask(adapter)
            self._view.note("this chat was deleted")
            self._leave_chat()

    async def _tick(self) -> None:
        while True:
            await anyio.sleep(1)
            self._view.tick()
            self._monitor.check()

    # --- what it waits for ---

    def _ask(self, adapter: StreamAdapter) -> None:
        """Ask for pending actions, once each; withdraw questions that are no longer pending."""
        chat, waits = adapter.chat, [one for one in adapter.actions if one.kind != "child"]
        ids = tuple(one.call.id for one in waits)
        if chat is None or chat.status is not Status.REQUIRES_ACTION:
            waits, ids = [], ()
        if ids == self._asked:
            return
        if self._asking is not None:
            self._asking.cancel()
        self._asked = ids
        if len(ids) > 1:
            self._far.update(ids)
        if waits:
            self._asking = anyio.CancelScope()
            self._group.start_soon(self._answer, waits[0], self._asking)

    async def _answer(self, action: Pending, scope: anyio.CancelScope) -> None:
        """Answer one action at a time; the chat then reports what else is pending."""
        with scope:
            before, chat = self._asker.always, self._chat
            assert chat is not None
            near = not self._options.quiet and action.call.id not in self._far
            self._asker.previews_seen = near and self._adapter.preview(action)
            answers = await self._asker.resolve([action])
            if not answers:
                self._view.note("still pending: /answer asks again")
                return
            new = self._asker.always - before
            try:
                await chat.resolve(answers, allow_for_chat=Rule(action.call.tool) if new else None)
            except HoldfastError as error:  # another client was faster
                self._warn(str(error))

    # --- commands ---

    async def _do_steer(self, command: SlashCommand) -> None:
        await self._send_prompt(command.text(), "steer")

    async def _do_now(self, command: SlashCommand) -> None:
        await self._send_prompt(command.text(), "interrupt")

    async def _do_stop(self, _: SlashCommand) -> None:
        chat, ran = self._in_chat(), self._runs()
        if not (await chat.interrupt()).busy and not ran:
            self._view.note("· nothing is running")

    async def _do_queue(self, _: SlashCommand) -> None:
        waiting = await self._in_chat().queue.list()
        self._list(f"{one.deliver:<9} {one.message.text}" for one in waiting)

    async def _do_edit(self, command: SlashCommand) -> None:
        queued = await self._queued(command)
        if not command.after_number():
            raise ConfigError("missing text: /edit N TEXT")
        await self._in_chat().queue.edit(queued.id, command.after_number())
        self._view.note(f"· message {command.number()} is now: {_short(command.after_number())}")

    async def _do_remove(self, command: SlashCommand) -> None:
        queued = await self._queued(command)
        await self._in_chat().queue.remove(queued.id)
        self._view.note(f"· removed: {_short(queued.message.text)}")

    async def _do_promote(self, command: SlashCommand) -> None:
        await self._in_chat().queue.promote((await self._queued(command)).id)

    async def _queued(self, command: SlashCommand) -> Queued:
        waiting = await self._in_chat().queue.list()
        number = command.number()
        if not waiting:
            raise ConfigError("the queue is empty")
        if not 1 <= number <= len(waiting):
            raise ConfigError(f"queued messages are numbered from 1 to {len(waiting)}: see /queue")
        return waiting[number - 1]

    async def _do_answer(self, _: SlashCommand) -> None:
        self._in_chat()
        self._far.update(self._asked)
        self._asked = ()
        self._ask(self._adapter)
        if not self._asked:
            raise ConfigError("nothing is pending")

    async def _do_retry(self, _: SlashCommand) -> None:
        await self._in_chat().retry()

    async def _do_resume(self, _: SlashCommand) -> None:
        await self._in_chat().resume()

    async def _do_compact(self, _: SlashCommand) -> None:
        await self._in_chat().compact()

    async def _do_messages(self, _: SlashCommand) -> None:
        for one in await self._in_chat().messages(limit=MAX_LISTED):
            self._view.row(
                f"{one.number:>4}  {one.message.role:<9} {run_texts.headline(one.message)}"
            )

    async def _do_fork(self, command: SlashCommand) -> None:
        chat, number = self._in_chat(), command.number()
        if number == 0:
            raise ConfigError("messages are numbered from 1: see /messages")
        await self._enter(await chat.fork(number, command.after_number() or None))

    async def _do_chats(self, command: SlashCommand) -> None:
        if not command.rest:
            self._listed = await self._host.list(owner="", limit=MAX_LISTED)
            here = "" if self._chat is None else self._chat.id
            self._list(
                f"{'*' if one.id == here else ' '} {_title(one, TITLE_WIDTH)} ({one.status})"
                for one in self._listed
            )
            return
        await self._enter(await self._host.chat(self._id(command)))

    def _id(self, command: SlashCommand) -> str:
        """Id of the named chat, given by its number in the list or as an id."""
        word = command.rest
        if not (word.isdecimal() and len(word) < 4):
            return word
        if not 1 <= command.number() <= len(self._listed):
            raise ConfigError("no chat with this number: see /chats")
        return self._listed[command.number() - 1].id

    async def _do_new(self, _: SlashCommand) -> None:
        self._leave_chat()
        self._view.note("new chat: it starts with your next message")

    async def _do_title(self, command: SlashCommand) -> None:
        chat = self._in_chat()
        now = await (chat.rename(command.rest) if command.rest else chat.retitle())
        self._view.note(f"title: {now.title}")

    async def _do_agent(self, command: SlashCommand) -> None:
        chat = self._in_chat()
        now = await (chat.update(agent=command.rest) if command.rest else chat.read())
        self._view.note(f"agent: {now.next_agent or now.agent}")

    async def _do_model(self, command: SlashCommand) -> None:
        await self._choose(command)

    async def _do_effort(self, command: SlashCommand) -> None:
        await self._choose(command)

    async def _choose(self, command: SlashCommand) -> None:
        """Set model or effort of the chat; without a chat, of the next one."""
        name, wanted = command.name, None if command.rest == "-" else command.rest
        if name == "effort" and wanted and wanted not in EFFORTS:
            known = ", ".join(EFFORTS)
            raise ConfigError(
                f"unknown effort {wanted!r}: use one of {known}, or - for {AGENT_DEFAULT}"
            )
        if command.rest == "":
            now = None if self._chat is None else getattr(await self._chat.read(), name)
            self._view.note(f"{name}: {now or getattr(self, f'_{name}') or AGENT_DEFAULT}")
        elif self._chat is None:
            setattr(self, f"_{name}", wanted)
        else:
            changed: dict[str, Any] = {name: wanted}
            await self._chat.update(**changed)
            self._view.note(f"{name}: {wanted or AGENT_DEFAULT}")

    async def _do_help(self, _: SlashCommand) -> None:
        for line in help_lines():
            self._view.note(line)

    async def _do_quit(self, _: SlashCommand) -> None:
        self._leave(ExitCode.FINISHED)
        await anyio.sleep_forever()

    def _in_chat(self) -> ChatHandle:
        if self._chat is None:
            raise ConfigError("no chat yet: send a message, or see /chats")
        return self._chat

    def _list(self, lines: Iterator[str]) -> None:
        numbered = [f"{number:>3}  {line}" for number, line in enumerate(lines, 1)]
        for line in numbered or ["  (none)"]:
            self._view.row(line)

    def _warn(self, text: str) -> None:
        self._view.show(Warned(text))

    # --- stopping ---

    def _signals(self) -> Mapping[signal.Signals, Callable[[], None]]:
        return {
            signal.SIGINT: self._ctrl_c,
            signal.SIGTERM: lambda: self._leave(128 + signal.SIGTERM),
            signal.SIGHUP: lambda: self._leave(128 + signal.SIGHUP),
        }

    def _ctrl_c(self) -> None:
        """Clear the input; else stop the turn; the second time, exit."""
        if self._screen.clear():
            return
        if self._warned:
            self._leave(ExitCode.INTERRUPTED)
        else:
            self._warned = True
            if self._runs():
                self._view.note("· stopping; press Ctrl-C again to exit")
                self._stop.set()
            else:
                self._view.note("press Ctrl-C again to exit")

    def _runs(self) -> bool:
        """Whether a turn is running, as far as we know."""
        return self._chat is not None and self._adapter.chat is not None and self._adapter.chat.busy

    async def _interrupt(self) -> None:
        """Interrupt the turn whenever requested."""
        while True:
            await self._stop.wait()
            self._stop.clear()
            if self._chat is not None:
                try:
                    await self._chat.interrupt()
                except HoldfastError as error:
                    self._warn(str(error))

    def _leave(self, code: int) -> None:
        self._code = int(code)
        self._group.cancel_scope.cancel()

    @property
    def chat(self) -> ChatHandle | None:
        """The chat that the session is in."""
        return self._chat

    def goodbye(self) -> str:
        """The line printed after leaving."""
        if self._chat is None:
            return ""
        when = "on the server" if self._at_server else "when the chat is opened again"
        on = f"the answer continues {when}; " if self._adapter.busy else ""
        return f"{on}holdfast chat --chat {self._chat.id} resumes this chat"


@contextmanager
def _on(handlers: Mapping[signal.Signals, Callable[[], None]]) -> Iterator[None]:
    """Install signal handlers for this block."""
    loop = asyncio.get_running_loop()
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)


def _title(chat: Snapshot, width: int = EXCERPT_WIDTH) -> str:
    return run_texts.short(chat.title or "untitled", width)


def _short(text: str) -> str:
    return run_texts.short(text, EXCERPT_WIDTH)
