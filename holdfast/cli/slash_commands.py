"""Slash commands of `holdfast chat`: their list and their parser. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from holdfast.kernel.errors import ConfigError
from holdfast.kernel.suggest import did_you_mean

SLASH: Final = "/"


class CommandHelp(NamedTuple):
    """Usage of a command: its arguments, and what it does."""

    takes: str
    does: str


COMMANDS: Final[Mapping[str, CommandHelp]] = {
    "steer": CommandHelp("TEXT", "send before the next step, not after the answer"),
    "now": CommandHelp("TEXT", "stop the answer and send this instead"),
    "stop": CommandHelp("", "stop the answer and keep what was produced (Ctrl-C)"),
    "queue": CommandHelp("", "list the queued messages"),
    "edit": CommandHelp("N TEXT", "replace queued message N"),
    "remove": CommandHelp("N", "remove queued message N"),
    "promote": CommandHelp("N", "stop the answer and send queued message N now"),
    "answer": CommandHelp("", "answer the pending approval or question"),
    "retry": CommandHelp("", "try again after an error"),
    "resume": CommandHelp("", "continue after a limit, and allow the same again"),
    "compact": CommandHelp("", "summarize the conversation to free context"),
    "messages": CommandHelp("", "list the messages with their numbers"),
    "fork": CommandHelp("N [TEXT]", "continue in a new chat from message N, replaced by TEXT"),
    "chats": CommandHelp("[N]", "list the newest chats; with a number or an id, switch to it"),
    "new": CommandHelp("", "start a new chat"),
    "title": CommandHelp("[TEXT]", "set the title; without TEXT, let a model write one"),
    "agent": CommandHelp("[NAME]", "let another agent continue the chat"),
    "model": CommandHelp("[NAME]", "switch the model; - for the agent's own"),
    "effort": CommandHelp("[LEVEL]", "set the reasoning effort; - for the agent's own"),
    "help": CommandHelp("", "show this list"),
    "quit": CommandHelp("", "exit; a running answer continues on the server (Ctrl-D)"),
}


class SlashCommand(NamedTuple):
    """A parsed line. Without a name it is a message for the model."""

    name: str
    rest: str

    def text(self) -> str:
        """The rest of the line. Raises `ConfigError` if empty."""
        if not self.rest:
            raise ConfigError(f"missing text: /{self.name} {COMMANDS[self.name].takes}")
        return self.rest

    def number(self) -> int:
        """The first word as a number. Raises `ConfigError` if it is not one."""
        first = self.rest.partition(" ")[0]
        if not (first.isascii() and first.isdecimal() and len(first) < 10):
            raise ConfigError(f"missing number: /{self.name} {COMMANDS[self.name].takes}")
        return int(first)

    def after_number(self) -> str:
        """The text after the number."""
        return self.rest.partition(" ")[2].strip()


def parse_line(line: str) -> SlashCommand | None:
    """Parse a line; None for an empty one. Raises `ConfigError`.

    A line that starts with two slashes is a message that starts with one.
    """
    text = line.strip()
    if not text:
        return None
    if not text.startswith(SLASH) or text.startswith(SLASH * 2):
        return SlashCommand("", text[1:] if text.startswith(SLASH) else text)
    name, _, rest = text[1:].partition(" ")
    if name not in COMMANDS:
        near = did_you_mean(f"/{name}", [f"/{known}" for known in COMMANDS])
        raise ConfigError(f"unknown command /{name}{near or ': /help lists the commands'}")
    return SlashCommand(name, rest.strip())


def help_lines() -> list[str]:
    width = max(len(f"/{name} {about.takes}") for name, about in COMMANDS.items())
    lines = [
        f"/{name} {one.takes}".ljust(width) + f"  {one.does}" for name, one in COMMANDS.items()
    ]
    return [
        *lines,
        "Tab completes, the arrow keys recall messages, Ctrl-R searches them,",
        "Alt-Enter starts a new line, and // sends a leading /.",
    ]
