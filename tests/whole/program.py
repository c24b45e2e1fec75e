"""The program as a user starts it: in a process of its own, at a terminal or in a script."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

PATIENCE: Final = 20.0
"""Seconds for what should take a moment, on a machine that is busy."""
PROGRAM: Final = (sys.executable, "-m", "holdfast")
_ANSI: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def environment(home: Path, **more: str) -> dict[str, str]:
    """An environment without keys, and a home of its own."""
    kept = ("PATH", "LANG", "TMPDIR", "PYTHONPATH", "VIRTUAL_ENV")
    own = {name: os.environ[name] for name in kept if name in os.environ}
    return {**own, "HOME": str(home), "TERM": "xterm", "COLUMNS": "100", **more}


def holdfast(
    *arguments: str, at: Path, stdin: str | None = None, environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the program without a terminal, as a script does."""
    return subprocess.run(
        [*PROGRAM, *arguments],
        cwd=at,
        env={**environment(at.parent), **(environ or {})},
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=60,
        start_new_session=True,  # no terminal of ours either
        check=False,
    )


class Terminal:
    """The program at a terminal, as seen by whoever sits there."""

    def __init__(self, process: int, screen: int) -> None:
        self.process = process
        self._screen = screen
        self._raw = b""
        self.code: int | None = None

    @property
    def seen(self) -> str:
        """Everything that was written, without styles."""
        return _ANSI.sub("", self._raw.decode(errors="replace")).replace("\r\n", "\n")

    def wait_for(self, text: str, times: int = 1) -> None:
        """Until this is on the screen."""
        self._until(lambda: self.seen.count(text) >= times, f"{text!r} on the screen")

    def type(self, text: str) -> None:
        os.write(self._screen, text.encode())

    def ended(self) -> int:
        """The exit code, once the program has ended."""
        self._until(lambda: self.code is not None, "the end")
        assert self.code is not None
        return self.code

    def _until(self, true: Callable[[], bool], what: str) -> None:
        give_up = time.monotonic() + PATIENCE
        while not true():
            assert time.monotonic() < give_up, f"waited for {what}; there is:\n{self.seen}"
            self._look()

    def _look(self) -> None:
        if select.select([self._screen], [], [], 0.02)[0]:
            with suppress(OSError):  # EIO: nobody is left at the other side
                self._raw += os.read(self._screen, 65536)
                return
        if self.code is None:
            process, status = os.waitpid(self.process, os.WNOHANG)
            if process:
                self.code = os.waitstatus_to_exitcode(status)

    def close(self) -> None:
        if self.code is None:
            os.kill(self.process, signal.SIGKILL)
            os.waitpid(self.process, 0)
        os.close(self._screen)


@contextmanager
def at_terminal(
    *arguments: str, at: Path, shell: str = "", environ: Mapping[str, str] | None = None
) -> Iterator[Terminal]:
    """Start the program (or a shell command) with a terminal of its own."""
    command = ("bash", "-c", shell) if shell else (*PROGRAM, *arguments)
    env = {**environment(at.parent), **(environ or {})}
    process, screen = pty.fork()
    if process == 0:
        try:
            os.chdir(at)
            os.execvpe(command[0], command, env)
        finally:
            os._exit(127)
    terminal = Terminal(process, screen)
    try:
        yield terminal
    finally:
        terminal.close()


def alive(marker: str) -> list[str]:
    """Command lines of the processes that have this in them."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                line = (
                    (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                )
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                if marker in line and state != "Z":
                    found.append(line)
    return found


def there_within(seconds: float, marker: str) -> bool:
    """Whether there is such a process after at most this long."""
    return _becomes(seconds, lambda: bool(alive(marker)))


def gone_within(seconds: float, marker: str) -> bool:
    """Whether no such process is left after at most this long."""
    return _becomes(seconds, lambda: not alive(marker))


def _becomes(seconds: float, true: Callable[[], bool]) -> bool:
    give_up = time.monotonic() + seconds
    while not true():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.01)
    return True
