"""Runs one command and sees to its end: a process of its own between us and the command.

It is run as a script, with next to no imports: each of them is paid for with every command.

stdin   anything that comes from it, its end too, means: stop everything. So the command also ends
        with whoever started it, however that was killed.
stdout  the command's output. Nothing of it passes through here.
stderr  what becomes of it, in lines: `started PID`, `failed WHAT ERRNO`, `ended CODE LEFT ALIVE`.
        LEFT: how many processes the command had left running. ALIVE: how many could not be stopped.

On Linux it adopts every descendant that loses its parent, so none gets away: not by `setsid`, not
by forking twice, not by another environment. Elsewhere there is no such thing. What can still be
found from the shell down and the shell's process group are stopped; a daemon may stay.
"""

from __future__ import annotations

import os
import select
import sys
import time

TYPE_CHECKING = False  # `typing`, and the enum in `signal`, take as long to import as all the rest
if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Iterable
    from typing import Any, Final, TypeVar

    T = TypeVar("T")
else:
    import _signal as signal

COMMAND: Final = "HOLDFAST_COMMAND"
"""The variable that brings the command. In an argument, `pkill -f` would find us by its words."""
BY_ITSELF: Final = 0.2
"""Seconds for what the shell left running to end by itself, as the `tee` of `> >(tee log)` does."""
GRACE: Final = 0.5
"""Seconds between asking the processes to end and killing them."""
FORCE: Final = 1.0
"""Seconds of killing before we give up on what does not die, or is not ours to kill."""
LINUX_TELLS: Final = os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
"""Who is whose child can be read from a file. It is quicker than a process that only forks."""

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NAME: Final = 15
_PR_SET_CHILD_SUBREAPER: Final = 36


def main(shell: str, directory: int) -> None:
    command = os.environ.pop(COMMAND)
    prctl = _prctl()
    adopts = prctl(_PR_SET_CHILD_SUBREAPER, 1)
    # The command may suspend us. The death of our parent then wakes us, to see to the end of it.
    prctl(_PR_SET_PDEATHSIG, signal.SIGCONT)
    prctl(_PR_SET_NAME, b"holdfast")  # not to be met by `pkill python`
    ears = Ears()
    if ears.listen(0):  # stopped before it began
        _tell(f"ended {-signal.SIGTERM} 0 0")
        return
    try:
        pid = os.fork()
    except OSError as error:
        _tell(f"failed fork {error.errno}")
        return
    if not pid:
        _become(shell, command, directory, prctl)
    os.close(directory)
    _tell(f"started {pid}")
    tree = Tree(pid, adopts, ears)
    left = 0
    try:
        if tree.wait_for_shell():
            left = tree.left_running()
    finally:
        alive = tree.end()
    _tell(f"ended {tree.code} {left} {alive}")


def _tell(line: str) -> None:
    _tried(os.write, 2, line.encode() + b"\n")  # perhaps nobody is left to hear it


def _tried(call: Callable[..., T], *arguments: Any) -> T | None:
    """What a call gives; None when the system refuses it, and nothing follows from that."""
    try:
        return call(*arguments)
    except (OSError, ValueError):
        return None


def _prctl() -> Callable[[int, int | bytes], bool]:
    if sys.platform == "linux":
        try:
            import ctypes

            call = ctypes.CDLL(None).prctl
        except (ImportError, OSError, AttributeError):  # a Python without it
            return lambda option, value: False
        unsigned = ctypes.c_ulong  # of the call's variable arguments; four are expected
        return lambda option, value: (
            not call(
                option,
                value if isinstance(value, bytes) else unsigned(value),
                unsigned(0),
                unsigned(0),
                unsigned(0),
            )
        )
    return lambda option, value: False


def _become(
    shell: str, command: str, directory: int, prctl: Callable[[int, int | bytes], bool]
) -> None:
    """Turn this process, just forked, into the shell."""
    status = os.dup(2)  # closed by exec
    step = "chdir"
    try:
        os.fchdir(directory)
        os.close(directory)
        step = "exec"
        os.setsid()  # no terminal to type into, and a group of its own
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # should somebody kill us
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(1, 2)
        _set_signals(signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.execve(shell, [os.path.basename(shell), "-c", command], os.environ)
    except OSError as error:
        os.dup2(status, 2)
        _tell(f"failed {step} {error.errno}")
    finally:
        os._exit(127)


def _set_signals(handler: signal.Handlers) -> None:
    for number in range(1, signal.NSIG):
        _tried(signal.signal, number, handler)  # some are none, and two cannot be set


class Ears:
    """Hears that a child has ended, and that everything is to stop."""

    def __init__(self) -> None:
        # The command may try to stop every Python it finds: only SIGKILL stops us.
        _set_signals(signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._child, woken = os.pipe()
        os.set_blocking(self._child, False)
        os.set_blocking(woken, False)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        self._poll = select.poll()
        self._poll.register(self._child, select.POLLIN)
        self._poll.register(0, select.POLLIN)
        # A fork of whoever started us may hold the other end of the pipe after its death.
        if sys.platform == "linux" and (parent := _tried(os.pidfd_open, os.getppid())) is not None:
            self._poll.register(parent, select.POLLIN)

    def listen(self, seconds: float | None) -> bool:
        """Wait for a child's end, a word from outside or the time; whether we are to stop."""
        timeout = None if seconds is None else max(0.0, seconds * 1000)
        heard = [descriptor for descriptor, _ in self._poll.poll(timeout)]
        _tried(os.read, self._child, 4096)
        told = [descriptor for descriptor in heard if descriptor != self._child]
        for descriptor in told:  # an end is told again and again
            self._poll.unregister(descriptor)
        return bool(told)


class Tree:
    """All that was started from here, wherever it has gone since."""

    def __init__(self, shell: int, adopts: bool, ears: Ears) -> None:
        self.code = -signal.SIGKILL
        """How the shell ended, once it has; below 0 by a signal."""
        self._shell = shell
        self._adopts = adopts
        self._ears = ears
        self._ended = False
        self._gone = False
        """There is no child any more. If we adopt, that means: nothing at all."""

    def wait_for_shell(self) -> bool:
        """Whether the shell ended by itself. If not, we are asked to stop."""
        while not self._ended:
            if self._ears.listen(None):
                return False
            self._reap()
        return True

    def left_running(self) -> int:
        """How many processes outlive the shell, and do not end by themselves in a moment."""
        if self._wait_until_gone(BY_ITSELF):
            return 0
        return sum(map(_is_running, descendants(os.getpid())))

    def end(self) -> int:
        """Stop everything: ask first, then use force. How many are alive after all."""
        if not self._gone:
            _send(os.killpg, groups(descendants(os.getpid())), signal.SIGTERM, signal.SIGCONT)
            self._wait_until_gone(GRACE)
        until = time.monotonic() + FORCE
        while not self._gone and time.monotonic() < until:
            kill(os.getpid())
            self._wait_until_gone(0.005)
        if not self._adopts:
            _send(os.killpg, (self._shell,), signal.SIGKILL)
        return 0 if self._gone else sum(map(_is_running, descendants(os.getpid())))

    def _wait_until_gone(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while not self._gone and (rest := until - time.monotonic()) > 0:
            self._ears.listen(rest)
            self._reap()
        return self._gone

    def _reap(self) -> None:
        while not self._gone:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._gone = True
                return
            if not pid:
                return
            if pid == self._shell:
                self.code, self._ended = os.waitstatus_to_exitcode(status), True


def kill(root: int) -> None:
    """Kill all descendants that are there now. What they fork meanwhile is there the next time."""
    found = descendants(root)
    _send(os.killpg, groups(found), signal.SIGKILL)
    _send(os.kill, found, signal.SIGKILL)


def groups(pids: Iterable[int]) -> set[int]:
    """The process groups that these are in.

    A group is signalled in one step: nothing in it can fork its way out, as it could one by one.
    None has anybody in it who is not our descendant: each is in a session that one of them made.
    """
    found = {group for pid in pids if (group := _tried(os.getpgid, pid)) is not None}
    return found - {os.getpgrp()}  # which has a child in it that was forked this moment


def _send(how: Callable[[int, int], None], targets: Iterable[int], *signals: int) -> None:
    for target in targets:
        for number in signals:
            _tried(how, target, number)  # it may be gone, or not ours


def descendants(root: int) -> list[int]:
    """All processes below one, those that have ended and were not waited for too."""
    known = None if LINUX_TELLS else _table()
    found: list[int] = []
    below = [root]
    while below:
        parent = below.pop()
        children = _children(parent) if known is None else known.get(parent, ())
        found += children
        below += children
    return found


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += map(int, file.read().split())
    except OSError:
        pass  # it has just ended: its children are ours now, and found the next time
    return found


def _table() -> dict[int, list[int]]:
    """Each process with its children, from `ps`: where Linux does not tell, or is not."""
    import subprocess

    table: dict[int, list[int]] = {}
    try:
        command = ["ps", "-A", "-o", "pid=,ppid="]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as ps:
            lines = ps.communicate()[0].splitlines()
    except OSError:
        return table
    for line in lines:
        pid, parent = map(int, line.split())
        if pid != ps.pid:
            table.setdefault(parent, []).append(pid)
    return table


def _is_running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return not os.path.exists("/proc/self")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
    os._exit(0)
