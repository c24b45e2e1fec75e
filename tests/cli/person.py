"""Somebody at the terminal of a program that runs as a process of its own."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cli.test_serve import HIDDEN

PATIENCE = 30.0
ORDERS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Glass:
    """What stands on a terminal of endless height after all that was written to it."""

    def __init__(self, columns: int) -> None:
        self._columns = columns
        self._rows: list[list[str]] = [[]]
        self._row = self._column = 0
        self._held = ""

    def __str__(self) -> str:
        return "\n".join("".join(row).rstrip() for row in self._rows)

    def feed(self, text: str) -> None:
        text, self._held = self._held + text, ""
        for piece in re.findall(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b.*|[^\x1b]", text, re.DOTALL):
            if len(piece) == 1 and piece != "\x1b":
                self._put(piece)
            elif ORDERS.fullmatch(piece):
                self._obey(piece[-1], piece[2:-1])
            else:
                self._held = piece

    def _put(self, character: str) -> None:
        if character == "\n":
            self._row += 1
        elif character == "\r":
            self._column = 0
        elif character == "\b":
            self._column = max(0, self._column - 1)
        else:
            if self._column == self._columns:
                self._row, self._column = self._row + 1, 0
            self._reach()
            self._rows[self._row][self._column] = character
            self._column += 1
        self._reach()

    def _reach(self) -> None:
        self._rows += [[] for _ in range(self._row + 1 - len(self._rows))]
        row = self._rows[self._row]
        row += " " * (self._column + 1 - len(row))

    def _obey(self, order: str, number: str) -> None:
        match order:
            case "K":
                del self._rows[self._row][self._column :]
            case "J":
                del self._rows[self._row][self._column :]
                del self._rows[self._row + 1 :]
            case "A":
                self._row -= int(number or 1)
            case "B":
                self._row += int(number or 1)
            case "C":
                self._column = min(self._column + int(number or 1), self._columns - 1)
            case "D":
                self._column = max(0, self._column - int(number or 1))
            case "m" | "h" | "l":
                pass
            case _:
                raise AssertionError(f"this terminal does not know {order!r}")
        self._reach()


class Person:
    """Sees what the program shows, and types."""

    def __init__(self, hands: int, child: subprocess.Popen[bytes], columns: int) -> None:
        self._hands = hands
        self._glass = Glass(columns)
        self.child = child

    @property
    def seen(self) -> str:
        """What stands there now."""
        return str(self._glass)

    def types(self, text: str) -> None:
        os.write(self._hands, text.encode())

    def says(self, line: str) -> None:
        self.types(f"{line}\r")

    def sees(self, text: str, times: int = 1) -> None:
        """Wait until this stands there, so many times."""
        until = time.monotonic() + PATIENCE
        while self.seen.count(text) < times:
            assert self._look(until), f"no {text!r} in:\n{self.seen}"

    def _look(self, until: float) -> bool:
        """Take what is shown next; whether there was anything."""
        ready, _, _ = select.select([self._hands], [], [], max(0.0, until - time.monotonic()))
        try:
            data = os.read(self._hands, 65_536) if ready else b""
        except OSError:  # the program has ended
            data = b""
        self._glass.feed(data.decode(errors="replace"))
        return bool(data)

    def ended(self) -> int:
        """How the program ended. What it said last is seen."""
        until = time.monotonic() + PATIENCE
        while self._look(until):
            pass
        return self.child.wait(max(0.0, until - time.monotonic()))

    def hangs_up(self) -> None:
        if self._hands >= 0:
            os.close(self._hands)
            self._hands = -1

    @property
    def echoes(self) -> bool:
        """Whether the terminal shows by itself what is typed."""
        return bool(termios.tcgetattr(self._hands)[3] & termios.ECHO)


@contextmanager
def sitting_at(home: Path, *argv: str, columns: int = 100, **environ: str) -> Iterator[Person]:
    """Somebody who has started the program with these words."""
    with sitting_at_python(home, "-m", "holdfast", *argv, columns=columns, **environ) as person:
        yield person


@contextmanager
def sitting_at_python(
    home: Path, *argv: str, columns: int = 100, **environ: str
) -> Iterator[Person]:
    """Somebody who has started Python with these words."""
    hands, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    clean = {k: v for k, v in os.environ.items() if not any(part in k for part in HIDDEN)}
    clean = {**clean, "TERM": "xterm", "HOLDFAST_HOME": str(home), "HOLDFAST_KEYS": "emacs"}
    clean.pop("COLUMNS", None)
    child = subprocess.Popen(
        [sys.executable, "-W", "error", *argv],
        cwd=home,
        env={**clean, **environ},
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        preexec_fn=_own_terminal,
    )
    os.close(terminal)
    person = Person(hands, child, columns)
    try:
        yield person
    finally:
        child.kill()
        child.wait()
        person.hangs_up()


def _own_terminal() -> None:
    """In the new process: so that Ctrl-C, and the end of the terminal, reach it."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
