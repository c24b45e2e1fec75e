"""What is typed into a chat is for the model, or a command."""

from __future__ import annotations

import pytest

from holdfast.cli.commands import COMMANDS, Command, help_lines, understood
from holdfast.cli.session import Session
from holdfast.kernel.errors import ConfigError


@pytest.mark.parametrize(
    ("line", "means"),
    [
        (" hello ", Command("", "hello")),
        ("//etc is a directory", Command("", "/etc is a directory")),
        ("/steer  be brief ", Command("steer", "be brief")),
        ("/queue", Command("queue", "")),
        ("  ", None),
    ],
)
def test_a_line_is_understood(line: str, means: Command | None) -> None:
    assert understood(line) == means


@pytest.mark.parametrize(
    ("line", "says"), [("/steeer x", "did you mean /steer?"), ("/xyz", "/help lists the commands")]
)
def test_a_command_that_there_is_not_is_refused(line: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says.replace("?", r"\?")):
        understood(line)


@pytest.mark.parametrize("rest", ["", "x", "-1", "1.5", "٣", "1" * 10])
def test_a_number_that_is_none_is_refused_with_what_is_wanted(rest: str) -> None:
    with pytest.raises(ConfigError, match="missing number: /edit N TEXT"):
        Command("edit", rest).number()


def test_a_number_and_what_stands_behind_it_are_told_apart() -> None:
    command = Command("edit", "12  say it so")
    assert (command.number(), command.behind()) == (12, "say it so")
    with pytest.raises(ConfigError, match="missing text: /steer TEXT"):
        Command("steer", "").text()


def test_somebody_does_what_each_command_says_and_the_help_lists_it() -> None:
    listed = "\n".join(help_lines())
    for name in COMMANDS:
        assert callable(getattr(Session, f"_do_{name}"))
        assert f"/{name}" in listed
