"""What happens is written above the line that somebody types."""

from __future__ import annotations

import asyncio
import os
import pty
from collections.abc import Callable

import pytest

from holdfast.cli.screen import SplitScreen, column_after
from tests.cli.person import Glass

WIDTH = 80
"""Of a terminal that does not say."""


@pytest.mark.parametrize(
    ("column", "text", "after"),
    [
        (0, "", 0),
        (3, "", 3),
        (3, "abc", 6),
        (3, "ab\nc", 1),
        (3, "ab\n", 0),
        (9, "\r\x1b[Kab", 2),
        (0, "\x1b[1;31mab\x1b[0m", 2),
        (0, "你好", 4),
        (0, "x" * 20, 20),
        (0, "x" * 21, 1),
        (18, "xxx", 1),
    ],
)
def test_the_column_of_the_cursor_is_known(column: int, text: str, after: int) -> None:
    assert column_after(column, text, 20) == after


def shown(act: Callable[[SplitScreen], None]) -> str:
    """What stands on a terminal after all that."""

    reading, writing = os.pipe()

    async def go() -> None:
        screen = SplitScreen(0, writing)
        screen.invite(True)
        act(screen)

    asyncio.run(go())
    os.close(writing)
    glass = Glass(WIDTH)
    with open(reading, encoding="utf-8", newline="") as end:
        glass.feed(end.read().replace("\n", "\r\n"))
    return str(glass)


def test_the_cursor_is_where_it_is_however_wide_the_terminal_makes_an_emoji() -> None:
    reading, writing = os.pipe()

    async def go() -> None:
        screen = SplitScreen(0, writing)
        list(screen.editor.feed("a👍🏽bc\x1b[D\x1b[D".encode()))
        screen.write("")

    asyncio.run(go())
    os.close(writing)
    with open(reading, encoding="utf-8", newline="") as end:
        assert end.read().endswith("> a👍🏽bc\r> a👍🏽")


def typing(*pieces: str) -> Callable[[SplitScreen], None]:
    """Each piece is written, and a character typed behind it."""

    def act(screen: SplitScreen) -> None:
        for piece in pieces:
            screen.write(piece)
            list(screen.editor.feed(b"x"))

        screen.write("")

    return act


@pytest.mark.parametrize(
    "pieces",
    [
        ["one ", "two ", "three"],
        ["one\n", "two", "\n", "three\n"],
        ["· waiting…", "\r\x1b[K· waiting… 1 s", "\r\x1b[K", "done\n"],
        ["x" * (WIDTH - 1), "y", "z"],
        ["x" * WIDTH, "\n", "y"],
        ["x" * (WIDTH + 1), "y", "\n\n", "z"],
    ],
)
def test_a_line_below_does_not_disturb_what_is_written_above(pieces: list[str]) -> None:
    def plain(screen: SplitScreen) -> None:
        screen.invite(False)
        screen.write("".join(pieces))

    above, _, line = shown(typing(*pieces)).rpartition("\n")
    assert line == "> " + "x" * len(pieces)
    assert above.rstrip() == shown(plain).rstrip()


def test_the_line_is_there_when_it_is_invited_or_something_is_typed() -> None:
    assert shown(lambda screen: screen.write("a\n")) == "a\n>"

    def busy(screen: SplitScreen) -> None:
        screen.invite(False)
        screen.write("a")

    assert shown(busy) == "a"

    def typed(screen: SplitScreen) -> None:
        busy(screen)
        list(screen.editor.feed(b"hm"))
        screen.write("b")

    assert shown(typed) == "ab\n> hm"


def test_a_question_is_answered_by_what_is_typed_next_and_commands_are_none() -> None:
    async def go() -> tuple[str | None, str | None]:
        ours, theirs = pty.openpty()
        try:
            screen = SplitScreen(theirs, theirs)
            with screen.open():
                os.write(ours, b"/help\ryes\r")
                return await screen.ask("Allow?"), await screen.next()
        finally:
            os.close(ours)
            os.close(theirs)

    assert asyncio.run(go()) == ("yes", "/help")
