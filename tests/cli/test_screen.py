"""What happens is written above the line that somebody types."""

from __future__ import annotations

import asyncio
import os
import pty
from collections.abc import Awaitable, Callable
from typing import TextIO

import pytest
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.output.vt100 import Vt100_Output

from holdfast.cli.output_stream import ERASE, RESET
from holdfast.cli.screen import SplitScreen
from tests.cli.typing_at import WIDTH, Terminal, typing_at


def shown(act: Callable[[Terminal], Awaitable[None]]) -> str:
    """What stands on a terminal after all that."""

    async def go() -> str:
        async with typing_at() as terminal:
            await act(terminal)
            return await terminal.shows()

    return asyncio.run(go())


def typing(*pieces: str) -> Callable[[Terminal], Awaitable[None]]:
    """Each piece is written, and a character typed behind it."""

    async def act(terminal: Terminal) -> None:
        for piece in pieces:
            terminal.screen.write(piece)
            await terminal.types("x")

    return act


PIECES = [
    (["one ", "two ", "three"], "one two three"),
    (["one\n", "two", "\n", "three\n"], "one\ntwo\nthree"),
    (["· waiting…", f"{ERASE}· waiting… 1 s", ERASE, "done\n"], "done"),
    (["· waiting…", f"{ERASE}one\n\n", "two"], "one\n\ntwo"),
    (["x" * (WIDTH - 1), "y", "z"], "x" * (WIDTH - 1) + "y\nz"),
    (["x" * WIDTH, "\n", "y"], "x" * WIDTH + "\ny"),
    (["x" * (WIDTH + 1), "y", "\n\n", "z"], "x" * WIDTH + "\nxy\n\nz"),
    (["\x1b[1;31mab", f"c\n{RESET}d"], "abc\nd"),
]


@pytest.mark.parametrize(("pieces", "above"), PIECES)
def test_a_line_below_does_not_disturb_what_is_written_above(pieces: list[str], above: str) -> None:
    assert shown(typing(*pieces)) == f"{above}\n> {'x' * len(pieces)}"


def test_the_line_is_there_when_it_is_invited_or_something_is_typed() -> None:
    async def idle(terminal: Terminal) -> None:
        terminal.screen.write("a\n")

    assert shown(idle) == "a\n>"

    async def busy(terminal: Terminal) -> None:
        terminal.screen.invite(False)
        terminal.screen.write("a")

    assert shown(busy) == "a\n"

    async def typed(terminal: Terminal) -> None:
        await busy(terminal)
        await terminal.types("hm")
        terminal.screen.write("b")

    assert shown(typed) == "ab\n> hm"


def test_a_style_goes_on_in_the_next_line_and_not_in_what_is_typed() -> None:
    async def go() -> str:
        async with typing_at() as terminal:
            terminal.screen.write("\x1b[1mone\ntwo\n")
            await terminal.settles()
            terminal.screen.write(f"three{RESET} four\n")
            return terminal.written.getvalue()

    written = asyncio.run(go())
    assert f"\x1b[1mone\r\ntwo\r\n{RESET}" in written
    assert f"\x1b[1mthree{RESET} four\r\n" in written


def test_an_unfinished_line_stays_when_the_session_ends() -> None:
    async def go() -> str:
        async with typing_at() as terminal:
            await terminal.types("hm")
            terminal.screen.write("half")
        return await terminal.shows()

    assert asyncio.run(go()) == "half\n"


def test_of_a_very_long_unfinished_line_the_end_is_shown_and_in_the_end_all_of_it() -> None:
    async def go() -> tuple[str, str]:
        async with typing_at() as terminal:
            terminal.screen.write("start " + "x" * 60 * WIDTH + " end")
            before = await terminal.shows()
            terminal.screen.write("\n")
            return before, await terminal.shows()

    before, after = asyncio.run(go())
    assert before.replace("\n", "").endswith("x end>")
    assert before.count("\n") < 8
    assert after.startswith("start xxx")
    assert after.replace("\n", "").endswith("x end>")


def test_what_is_typed_is_drawn_again_at_another_width() -> None:
    async def act(terminal: Terminal) -> None:
        terminal.screen.write("half a line")
        await terminal.types("some words that were typed")
        terminal.written.truncate(terminal.written.seek(0))
        terminal.written.write("\n\n")  # the rows that it takes
        terminal.width = 20
        terminal.screen._app._on_resize()

    assert shown(act).strip() == "half a line\n> some words that we\n  re typed"


def test_a_question_is_answered_by_what_is_typed_next_and_commands_are_none() -> None:
    async def go() -> tuple[str | None, str | None, str]:
        async with typing_at() as terminal:
            asked = asyncio.ensure_future(terminal.screen.ask("Allow?"))
            await terminal.types("/help\r")
            before = await terminal.shows()
            await terminal.types("yes\r")
            return await asked, await terminal.screen.next(), before

    answer, command, before = asyncio.run(go())
    assert (answer, command) == ("yes", "/help")
    assert before.endswith("Allow?\n?")


def test_a_question_that_is_withdrawn_leaves_the_line_to_others() -> None:
    async def go() -> str | None:
        async with typing_at() as terminal:
            asked = asyncio.ensure_future(terminal.screen.ask("Allow?"))
            await terminal.settles()
            asked.cancel()
            await terminal.types("yes\r")
            return await terminal.screen.next()

    assert asyncio.run(go()) == "yes"


def test_a_terminal_that_is_closed_ends_the_input() -> None:
    async def go(stdin: TextIO, stdout: TextIO) -> str | None:
        output = Vt100_Output(stdout, lambda: Size(24, WIDTH), term="xterm")
        output.enable_cpr = False
        screen = SplitScreen(Vt100Input(stdin), output)
        async with screen.open():
            os.close(ours)
            screen.write("a line\n")
            return await screen.next()

    ours, theirs = pty.openpty()
    with open(theirs, closefd=False) as stdin, os.fdopen(theirs, "w") as stdout:
        assert asyncio.run(go(stdin, stdout)) is None
