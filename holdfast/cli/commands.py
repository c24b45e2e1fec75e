"""What can be typed into `holdfast chat` beside what is meant for the model. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from holdfast.cli.guess import did_you_mean
from holdfast.kernel.errors import ConfigError

SLASH: Final = "/"


class About(NamedTuple):
    """What a command takes, and what it does."""

    takes: str
    does: str


COMMANDS: Final[Mapping[str, About]] = {
    "steer": About("TEXT", "say it before the next step, not after the answer"),
    "now": About("TEXT", "stop the answer and say this instead"),
    "stop": About("", "stop the answer, and keep what it has (Ctrl-C)"),
    "queue": About("", "what waits to be said"),
    "edit": About("N TEXT", "say something else instead of number N of the queue"),
    "remove": About("N", "take number N of the queue back"),
    "promote": About("N", "stop the answer and say number N now"),
    "answer": About("", "answer what it waits for"),
    "retry": About("", "try again after an error"),
    "compact": About("", "have the conversation summarized"),
    "messages": About("", "the messages with their numbers"),
    "fork": About("N [TEXT]", "go on in a new chat from message N on, with TEXT in its place"),
    "chats": About("[N]", "the newest chats; with a number or an id, go there"),
    "new": About("", "begin another chat"),
    "title": About("TEXT", "call this chat so"),
    "model": About("[NAME]", "who answers from now on; - for the agent's own"),
    "effort": About("[LEVEL]", "how hard it thinks from now on; - for the agent's own"),
    "help": About("", "this list"),
    "quit": About("", "leave; what runs goes on at the server (Ctrl-D)"),
}


class Command(NamedTuple):
    """A line, understood. Without a name it is for the model."""

    name: str
    rest: str

    def text(self) -> str:
        """The rest, which has to be something."""
        if not self.rest:
            raise ConfigError(f"say it behind: /{self.name} {COMMANDS[self.name].takes}")
        return self.rest

    def number(self) -> int:
        """The first word, which has to be a number."""
        first = self.rest.partition(" ")[0]
        if not (first.isascii() and first.isdecimal() and len(first) < 10):
            raise ConfigError(f"give a number: /{self.name} {COMMANDS[self.name].takes}")
        return int(first)

    def behind(self) -> str:
        """What stands behind the number."""
        return self.rest.partition(" ")[2].strip()


def understood(line: str) -> Command | None:
    """What a line means; None for one that says nothing. Raises `ConfigError`.

    What begins with two slashes is for the model, with one of them.
    """
    said = line.strip()
    if not said:
        return None
    if not said.startswith(SLASH) or said.startswith(SLASH * 2):
        return Command("", said[1:] if said.startswith(SLASH) else said)
    name, _, rest = said[1:].partition(" ")
    if name not in COMMANDS:
        near = did_you_mean(name, COMMANDS)
        raise ConfigError(f"there is no /{name}{near or ': /help lists what there is'}")
    return Command(name, rest.strip())


def help_lines() -> list[str]:
    width = max(len(f"/{name} {about.takes}") for name, about in COMMANDS.items())
    lines = [
        f"/{name} {one.takes}".ljust(width) + f"  {one.does}" for name, one in COMMANDS.items()
    ]
    return [
        *lines,
        "Alt-Enter begins another line, the arrows bring back what you said, and // says a /.",
    ]
