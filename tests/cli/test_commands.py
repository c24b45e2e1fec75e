"""What is typed into a chat is for the model, or a command."""

from __future__ import annotations

import pytest

from holdfast.cli.session import ChatSession
from holdfast.cli.slash_commands import COMMANDS, SlashCommand, help_lines, parse_line
from holdfast.kernel.errors import ConfigError


@pytest.mark.parametrize(
    ("line", "means"),
    [
        (" hello ", SlashCommand("", "hello")),
        ("//etc is a directory", SlashCommand("", "/etc is a directory")),
        ("/steer  be brief ", SlashCommand("steer", "be brief")),
        ("/queue", SlashCommand("queue", "")),
        ("  ", None),
    ],
)
def test_a_line_is_understood(line: str, means: SlashCommand | None) -> None:
    assert parse_line(line) == means


@pytest.mark.parametrize(
    ("line", "says"), [("/steeer x", "did you mean /steer?"), ("/xyz", "/help lists the commands")]
)
def test_a_command_that_there_is_not_is_refused(line: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says.replace("?", r"\?")):
        parse_line(line)


@pytest.mark.parametrize("rest", ["", "x", "-1", "1.5", "٣", "1" * 10])
def test_a_number_that_is_none_is_refused_with_what_is_wanted(rest: str) -> None:
    with pytest.raises(ConfigError, match="missing number: /edit N TEXT"):
        SlashCommand("edit", rest).number()


def test_a_number_and_what_stands_behind_it_are_told_apart() -> None:
    command = SlashCommand("edit", "12  say it so")
    assert (command.number(), command.after_number()) == (12, "say it so")
    with pytest.raises(ConfigError, match="missing text: /steer TEXT"):
        SlashCommand("steer", "").text()


def test_somebody_does_what_each_command_says_and_the_help_lists_it() -> None:
    listed = "\n".join(help_lines())
    for name in COMMANDS:
        assert callable(getattr(ChatSession, f"_do_{name}"))
        assert f"/{name}" in listed
