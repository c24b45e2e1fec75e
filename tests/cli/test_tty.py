"""The terminal that somebody sits at."""

from __future__ import annotations

import asyncio
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import tty
from collections.abc import Iterator
from typing import Any, Final

import anyio
import pytest

from holdfast.cli.controlling_terminal import Tty

ASKS: Final = """
import asyncio, os, signal, sys
from holdfast.cli.controlling_terminal import Tty
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever began the tests may ignore it
if len(sys.argv) > 1:
    os.open(sys.argv[1], os.O_RDWR)  # the first terminal that a new session opens is its own
terminal = Tty.open()
print("nobody" if terminal is None else asyncio.run(terminal.ask("Name? ")))
"""


class Person:
    """Sits at a terminal: sees what is shown there, and types."""

    def __init__(self) -> None:
        self._hands, self.terminal = pty.openpty()
        os.set_blocking(self._hands, False)
        self.seen = ""

    def types(self, text: str) -> None:
        os.write(self._hands, text.encode())

    async def sees(self, text: str) -> None:
        """Wait until this is shown."""
        loop = asyncio.get_running_loop()
        while text not in self.seen:
            ready = asyncio.Event()
            loop.add_reader(self._hands, ready.set)
            try:
                await ready.wait()
            finally:
                loop.remove_reader(self._hands)
            self.seen += os.read(self._hands, 4096).decode()

    @property
    def settings(self) -> tuple[Any, bool]:
        return termios.tcgetattr(self.terminal), os.get_blocking(self.terminal)

    def hangs_up(self) -> None:
        os.close(self._hands)
        self._hands = -1

    def leaves(self) -> None:
        for descriptor in (self._hands, self.terminal):
            if descriptor >= 0:
                os.close(descriptor)


@pytest.fixture
def person() -> Iterator[Person]:
    somebody = Person()
    yield somebody
    somebody.leaves()


async def answer_of(person: Person, typed: str, question: str = "Allow? ") -> str | None:
    """What comes of a question when somebody types this once they have seen it."""
    said: list[str | None] = []

    async def ask() -> None:
        said.append(await Tty(person.terminal).ask(question))

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await person.sees(question)
        person.types(typed)
    return said[0]


@pytest.mark.parametrize(
    ("typed", "answer"),
    [
        ("yes\n", "yes"),
        ("\n", ""),
        ("  as it is \n", "  as it is "),
        ("ys\x7fes\n", "yes"),
        ("größer 語\n", "größer 語"),
        ("\x04", None),
        ("half\x04\x04", "half"),
        ("ha\x04lf\n", "half"),
    ],
    ids=["a line", "empty", "blanks", "corrected", "Unicode", "Ctrl-D", "ended", "pushed"],
)
async def test_the_line_that_is_typed_is_the_answer(
    person: Person, typed: str, answer: str | None
) -> None:
    assert await answer_of(person, typed) == answer


async def test_an_answer_is_waited_for_without_holding_anybody_up(person: Person) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        for _ in range(3):
            await anyio.sleep(1)
            ticks += 1
        person.types("yes\n")

    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        assert await Tty(person.terminal).ask("Allow? ") == "yes"
    assert ticks == 3


async def test_what_was_typed_before_the_question_is_no_answer(person: Person) -> None:
    person.types("yes\nye")
    await person.sees("yes\r\nye")
    assert await answer_of(person, "no\n") == "no"


async def test_what_was_pasted_behind_an_answer_is_left_for_nobody(person: Person) -> None:
    """Not for the next question, and not for the shell that reads this terminal after us."""
    assert await answer_of(person, "no, because\nrm -rf notes\n") == "no, because"
    assert select.select([person.terminal], [], [], 0)[0] == []


async def test_each_question_is_answered_by_a_line_of_its_own(person: Person) -> None:
    assert await answer_of(person, "yes\nyes\nyes\n", "First? ") == "yes"
    assert await answer_of(person, "no\n", "Second? ") == "no"


async def test_the_terminal_is_as_it_was_after_an_answer(person: Person) -> None:
    before = person.settings
    await answer_of(person, "yes\n")
    assert person.settings == before


async def test_a_terminal_that_shows_nothing_shows_what_is_typed_for_an_answer(
    person: Person,
) -> None:
    tty.setraw(person.terminal)
    before = person.settings
    assert await answer_of(person, "yws\x7f\x7fes\n") == "yes"
    await person.sees("ws")
    assert person.settings == before


async def test_a_question_that_is_given_up_leaves_the_terminal_as_it_was(person: Person) -> None:
    tty.setraw(person.terminal)
    before = person.settings
    with anyio.move_on_after(60) as given_up:
        await Tty(person.terminal).ask("Allow? ")
    assert given_up.cancelled_caught
    assert person.settings == before
    assert not asyncio.get_running_loop().remove_reader(person.terminal)  # nobody listens any more
    tty.setcbreak(person.terminal)
    assert await answer_of(person, "yes\n", "Again? ") == "yes"  # and can be asked again


async def test_what_comes_after_an_unfinished_line_begins_a_new_one(person: Person) -> None:
    await answer_of(person, "\x04")
    Tty(person.terminal).write("Bye.")
    await person.sees("Allow? \r\nBye.")


@pytest.mark.parametrize("when", ["before", "while"])
async def test_a_terminal_that_is_gone_answers_nothing(person: Person, when: str) -> None:
    said: list[str | None] = []
    terminal = Tty(person.terminal)

    async def ask() -> None:
        said.append(await terminal.ask("Allow? "))

    if when == "before":
        person.hangs_up()
        await ask()
    else:
        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await person.sees("Allow? ")
            person.hangs_up()
    terminal.write("Is anybody there?")
    assert said == [None]


async def test_a_terminal_that_the_event_loop_cannot_watch_is_looked_at_now_and_then(
    person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError

    async def type_later() -> None:
        await anyio.sleep(10)
        person.types("yes\n")

    monkeypatch.setattr(asyncio.get_running_loop(), "add_reader", refuse)
    async with anyio.create_task_group() as group:
        group.start_soon(type_later)
        assert await Tty(person.terminal).ask("Allow? ") == "yes"


def test_text_that_is_no_text_can_be_shown(person: Person) -> None:
    Tty(person.terminal).write("\ud800")
    assert os.read(person._hands, 10) == b"?"


def test_a_terminal_can_be_closed_twice() -> None:
    hands, descriptor = pty.openpty()
    with Tty(descriptor) as terminal:
        terminal.close()
    os.close(hands)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


# --- The terminal of a process ------------------------------------------------------------------


def test_a_process_without_a_terminal_has_none() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ASKS], start_new_session=True, capture_output=True, check=True
    )
    assert done.stdout == b"nobody\n"


def asking_at(person: Person) -> subprocess.Popen[bytes]:
    """A process whose terminal is this person's, and whose standard streams are not."""
    return subprocess.Popen(
        [sys.executable, "-c", ASKS, os.ttyname(person.terminal)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


async def test_somebody_at_the_terminal_is_asked_also_when_both_ends_are_pipes(
    person: Person,
) -> None:
    with asking_at(person) as asking:
        await person.sees("Name? ")
        person.types("Ada\n")
        assert asking.stdout is not None
        assert asking.stdout.read() == b"Ada\n"


async def test_ctrl_c_at_a_question_reaches_the_process(person: Person) -> None:
    with asking_at(person) as asking:
        await person.sees("Name? ")
        person.types("\x03")
        assert asking.wait(timeout=30) == -signal.SIGINT


async def test_whoever_stopped_us_and_comes_back_sees_the_question_again(person: Person) -> None:
    with asking_at(person) as asking:
        await person.sees("Name? ")
        person.seen = ""
        asking.send_signal(signal.SIGCONT)
        await person.sees("Name? ")
        person.types("Ada\n")
        assert asking.stdout is not None
        assert asking.stdout.read() == b"Ada\n"


ORPHAN: Final = f"""
import os, sys
os.open(sys.argv.pop(), os.O_RDWR)
done, ends = os.pipe()
if os.fork():
    os.close(ends)
    os.read(done, 1)
    os._exit(0)
os.setpgid(0, 0)  # the background; and whoever could bring it back from there is gone:
if os.fork():
    os._exit(0)
while os.getppid() == os.getpgrp():
    pass
{ASKS}
"""


def test_nobody_answers_a_process_in_a_background_that_it_cannot_leave(person: Person) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ORPHAN, os.ttyname(person.terminal)],
        start_new_session=True,
        capture_output=True,
        check=True,
        timeout=30,
    )
    assert (done.stdout, done.stderr) == (b"None\n", b"")
