"""A command run by a supervisor process: reading its output, its end, and stopping it."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys
import threading
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from holdfast.kernel.errors import ToolFailed
from holdfast.kernel.workspace import CommandExit
from holdfast.tools.blocking_work import to_end
from holdfast.tools.commands import supervisor_process

if TYPE_CHECKING:
    import subprocess

READ_SIZE: Final = 64 * 1024
"""Bytes read at once: the capacity of a pipe."""
LAST_CHUNKS: Final = 16
"""Chunks read after the end. More can only come from a process that escaped with the pipe."""

KILL_ROUNDS: Final = 3
"""Rounds of killing from this process: a process may fork while others are being killed."""

START_ERRORS: Final[Mapping[int, str]] = {
    errno.E2BIG: "it is too long: write it to a file, and run that",
    errno.EAGAIN: "too many processes are running: try again when some have ended",
    errno.ENOMEM: "out of memory: try again later",
    errno.EMFILE: "too many files are open: try again later",
    errno.ENFILE: "too many files are open: try again later",
}


class Launch(Struct, frozen=True):
    """How the supervisor starts a command in another way than with a shell."""

    launcher: str
    """Path of a module with `read_plan(descriptor)` and `enter(plan, report)`."""
    plan: int
    descriptors: tuple[int, ...]
    """Descriptors that it inherits, the plan among them."""


class NotStarted(ToolFailed):
    """A command was not started; the message says why."""

    def __init__(self, number: int) -> None:
        why = START_ERRORS.get(number) or os.strerror(number)
        super().__init__(f"the command was not started: {why}")
        self.errno = number


class SupervisorFailed(ToolFailed):
    """A command whose supervisor failed."""


class CommandProcess:
    """A running command. However this object or process ends, the command ends."""

    def __init__(
        self, popen: subprocess.Popen[bytes], control: int, output: int, status: int
    ) -> None:
        self._popen = popen
        self._control: int | None = control
        self._output = _Pipe(output)
        self._status = _Pipe(status)
        self._report = b""
        self._last_chunks = LAST_CHUNKS
        self.id = str(popen.pid)

    async def read(self, seconds: float | None = None) -> bytes | None:
        """New output, empty if there is none in time; None after the end."""
        if not self._status.at_end:
            pipes = [pipe.number for pipe in (self._output, self._status) if not pipe.at_end]
            await _wait_for(pipes, seconds)
            self._report += self._status.take()
            return self._output.take()
        # The command has ended, but a pipe held by another process may never reach its end.
        self._last_chunks -= 1
        return (self._output.take() or None) if self._last_chunks >= 0 else None

    async def stop(self) -> None:
        """Request that everything is stopped. Needs no further action here."""
        self._stop()

    def _stop(self) -> None:
        control, self._control = self._control, None
        if control is None:
            return
        with suppress(OSError):
            os.write(control, b".")  # the end of the pipe alone is not seen while a fork holds it
        os.close(control)
        self._popen.send_signal(signal.SIGCONT)  # the command may have stopped its supervisor

    async def kill(self) -> None:
        """Kill what can be found from here, if the supervisor does not respond."""
        self._kill()

    def _kill(self) -> None:
        if self._popen.returncode is None:  # after its end, the pid may be reused
            for _ in range(KILL_ROUNDS):
                supervisor_process.kill(self._popen.pid)
        if shell := _numbers(self._report, b"started"):
            with suppress(OSError):
                os.killpg(shell[0], signal.SIGKILL)
        self._popen.kill()

    async def wait(self) -> CommandExit:
        """The supervisor's report, once it has ended."""
        code = await to_end(self._popen.wait)
        if failed := _numbers(self._report, b"failed"):
            raise NotStarted(failed[-1])
        if ended := _numbers(self._report, b"ended"):
            return CommandExit(*ended)
        self._kill()
        if not _numbers(self._report, b"started"):
            words = self._report.decode(errors="replace").strip().rpartition("\n")[2]
            raise SupervisorFailed(
                f"the supervisor of the command failed: {words or f'it ended with {code}'}"
            )
        return CommandExit(None)

    async def close(self) -> None:
        """Release everything. A running command is stopped, and a thread waits for its end."""
        self._stop()
        self._output.close()
        self._status.close()
        if self._popen.poll() is None:
            threading.Thread(target=self._popen.wait, daemon=True).start()


def start(
    shell: str,
    command: str,
    directory: int,
    environ: Mapping[str, str],
    *,
    time_limit: float,
    launch: Launch | None = None,
) -> CommandProcess:
    """Run a command in an open directory, for at most `time_limit` seconds.

    `launch`: the plan of a sandbox, which replaces all but the time limit.
    """
    import subprocess

    program = [sys.executable, "-I", "-S", supervisor_process.__file__]
    script = [*program, shell, str(directory), str(time_limit)]
    descriptors: tuple[int, ...] = ()
    if launch:
        script += [str(launch.plan), launch.launcher]
        descriptors = launch.descriptors
    with ExitStack() as ours, ExitStack() as theirs:
        try:
            stdin, control = _pipe(theirs, ours)
            output, stdout = _pipe(ours, theirs)
            status, stderr = _pipe(ours, theirs)
            popen = subprocess.Popen(
                script,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                env={**environ, supervisor_process.COMMAND: command},
                pass_fds=(directory, *descriptors),
                start_new_session=True,  # no signals from our terminal
            )
        except OSError as error:
            raise NotStarted(error.errno or 0) from error
        ours.pop_all()
        return CommandProcess(popen, control, output, status)


def _pipe(reader: ExitStack, writer: ExitStack) -> tuple[int, int]:
    read, write = os.pipe()
    reader.callback(os.close, read)
    writer.callback(os.close, write)
    return read, write


class _Pipe:
    """The reading end of a pipe, read without blocking."""

    def __init__(self, number: int) -> None:
        os.set_blocking(number, False)
        self.number = number
        self.at_end = False
        self._closed = False

    def take(self) -> bytes:
        """Read what is in it."""
        try:
            data = os.read(self.number, READ_SIZE)
        except BlockingIOError:
            return b""
        self.at_end = not data
        return data

    def close(self) -> None:
        if not self._closed:
            os.close(self.number)
        self._closed = True


async def _wait_for(descriptors: Iterable[int], seconds: float | None) -> None:
    """Wait until one of them is readable, or time is up."""
    loop = asyncio.get_running_loop()
    woken = loop.create_future()

    def wake() -> None:
        if not woken.done():
            woken.set_result(None)

    timer = None if seconds is None else loop.call_later(seconds, wake)
    try:
        for descriptor in descriptors:
            loop.add_reader(descriptor, wake)
        await woken
    finally:
        for descriptor in descriptors:
            loop.remove_reader(descriptor)
        if timer is not None:
            timer.cancel()


def _numbers(report: bytes, word: bytes) -> list[int]:
    """The numbers in the line that starts with a word; empty if there is none."""
    for line in report.splitlines():
        if line.startswith(word + b" "):
            return [int(part) for part in line.split() if part.lstrip(b"-").isdigit()]
    return []
