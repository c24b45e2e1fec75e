"""The supervisor: a process between us and one command, which ends all processes of the command.

It is run as a script and imports almost nothing: every command pays for each import.

stdin   any input, and also its end, means: stop everything. So the command ends with the process
        that started it, however that process was killed.
stdout  the command's output. None of it passes through the supervisor.
stderr  the report, in lines: `started PID`, `failed WHAT ERRNO`, `ended CODE LEFT ALIVE`.
        LEFT: how many processes the command had left running. ALIVE: how many could not be stopped.

On Linux the supervisor adopts every descendant that loses its parent, so none escapes: not by
`setsid`, not by forking twice, not by another environment. Other systems have no such feature:
there the descendants of the shell and its process group are stopped, and a daemon may survive.
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
    Launch = Callable[[int], None]
else:
    import _signal as signal

COMMAND: Final = "HOLDFAST_COMMAND"
"""The variable with the command. In an argument, `pkill -f` would find us by its words."""
EXIT_WAIT: Final = 0.2
"""Seconds in which left-over processes may exit by themselves, as `tee` in `> >(tee log)` does."""
TERM_WAIT: Final = 0.5
"""Seconds between SIGTERM and SIGKILL."""
KILL_WAIT: Final = 1.0
"""Seconds after which we give up on processes that do not die, or that we may not kill."""
HAS_CHILDREN_FILE: Final = os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
"""Whether the children of a process can be read from a file, faster than new ones are forked."""

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_NAME: Final = 15
_PR_SET_CHILD_SUBREAPER: Final = 36


def main(shell: str, directory: int, time_limit: float, launch: Launch | None = None) -> None:
    command = os.environ.pop(COMMAND)
    prctl = _prctl()
    adopts = prctl(_PR_SET_CHILD_SUBREAPER, 1)
    # The command may suspend us. The death of our parent then wakes us, to stop the command.
    prctl(_PR_SET_PDEATHSIG, signal.SIGCONT)
    prctl(_PR_SET_NAME, b"holdfast")  # not to be matched by `pkill python`
    poller = Poller()
    if poller.wait(0):  # stopped before the command was started
        _report(f"ended {-signal.SIGTERM} 0 0")
        return
    try:
        pid = os.fork()
    except OSError as error:
        _report(f"failed fork {error.errno}")
        return
    if not pid:
        _become(shell, command, directory, prctl, launch)
    os.close(directory)
    _report(f"started {pid}")
    tree = ProcessTree(pid, adopts, poller)
    left = 0
    try:
        if tree.wait_for_shell(time_limit):
            left = tree.left_running()
    finally:
        alive = tree.end()
    _report(f"ended {tree.code} {left} {alive}")


def _report(line: str) -> None:
    _tried(os.write, 2, line.encode() + b"\n")  # the reader may have died


def _tried(call: Callable[..., T], *arguments: Any) -> T | None:
    """The result of a call; None if the system refuses it, which is ignored."""
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


def launch_by(path: str, plan: int) -> Launch:
    """How to become the command of a plan, with the module of the sandbox at a path."""
    sys.path.insert(0, os.path.dirname(path))
    import launcher  # type: ignore[import-not-found]

    del sys.path[0]
    read = launcher.read_plan(plan)
    return lambda report: launcher.enter(read, report)


def _become(
    shell: str,
    command: str,
    directory: int,
    prctl: Callable[[int, int | bytes], bool],
    launch: Launch | None,
) -> None:
    """Turn this process, just forked, into the shell."""
    status = os.dup(2)  # closed by exec
    step = "chdir"
    try:
        if not launch:
            os.fchdir(directory)
            os.close(directory)
        step = "exec"
        os.setsid()  # no terminal to type into, and a group of its own
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # in case we are killed
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.dup2(1, 2)
        _set_signals(signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if launch:
            step = "sandbox"
            launch(status)
        os.execve(shell, [os.path.basename(shell), "-c", command], os.environ)
    except OSError as error:
        os.dup2(status, 2)
        _report(f"failed {step} {error.errno}")
    finally:
        os._exit(127)


def _set_signals(handler: signal.Handlers) -> None:
    for number in range(1, signal.NSIG):
        _tried(signal.signal, number, handler)  # some do not exist, and two cannot be set


class Poller:
    """Waits for the end of a child, or for the request to stop everything."""

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
        # A fork of our parent may hold the other end of the pipe after the parent has died.
        if sys.platform == "linux" and (parent := _tried(os.pidfd_open, os.getppid())) is not None:
            self._poll.register(parent, select.POLLIN)

    def wait(self, seconds: float | None) -> bool:
        """Wait for a child's end, a request to stop, or the timeout; returns whether to stop."""
        timeout = None if seconds is None else max(0.0, seconds * 1000)
        ready = [descriptor for descriptor, _ in self._poll.poll(timeout)]
        _tried(os.read, self._child, 4096)
        requests = [descriptor for descriptor in ready if descriptor != self._child]
        for descriptor in requests:  # the end of a pipe stays ready
            self._poll.unregister(descriptor)
        return bool(requests)


class ProcessTree:
    """All processes started from here, including those that changed their session or parent."""

    def __init__(self, shell: int, adopts: bool, poller: Poller) -> None:
        self.code = -signal.SIGKILL
        """Exit code of the shell, once it has ended; negative: the signal number."""
        self._shell = shell
        self._adopts = adopts
        self._poller = poller
        self._ended = False
        self._gone = False
        """Whether no child is left. If we adopt descendants, no process at all is left."""

    def wait_for_shell(self, seconds: float) -> bool:
        """Wait for the shell; returns whether it ended by itself, in time and unasked."""
        until = time.monotonic() + seconds
        while not self._ended:
            rest = until - time.monotonic()
            if rest <= 0 or self._poller.wait(rest):
                return False
            self._reap()
        return True

    def left_running(self) -> int:
        """How many processes outlive the shell, after a moment to exit by themselves."""
        if self._wait_until_gone(EXIT_WAIT):
            return 0
        return sum(map(_is_running, descendants(os.getpid())))

    def end(self) -> int:
        """Stop everything, by SIGTERM, then SIGKILL; returns how many processes are still alive."""
        if not self._gone:
            _send(os.killpg, groups(descendants(os.getpid())), signal.SIGTERM, signal.SIGCONT)
            self._wait_until_gone(TERM_WAIT)
        until = time.monotonic() + KILL_WAIT
        while not self._gone and time.monotonic() < until:
            kill(os.getpid())
            self._wait_until_gone(0.005)
        if not self._adopts:
            _send(os.killpg, (self._shell,), signal.SIGKILL)
        return 0 if self._gone else sum(map(_is_running, descendants(os.getpid())))

    def _wait_until_gone(self, seconds: float) -> bool:
        until = time.monotonic() + seconds
        while not self._gone and (rest := until - time.monotonic()) > 0:
            self._poller.wait(rest)
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
    """Kill all current descendants. Processes that they fork meanwhile are found the next time."""
    found = descendants(root)
    _send(os.killpg, groups(found), signal.SIGKILL)
    _send(os.kill, found, signal.SIGKILL)


def groups(pids: Iterable[int]) -> set[int]:
    """The process groups of these processes.

    A group is signalled in one step, so no process in it can escape by forking. All members are
    our descendants: each group is in a session that one of them created.
    """
    found = {group for pid in pids if (group := _tried(os.getpgid, pid)) is not None}
    return found - {os.getpgrp()}  # it has a child that was forked just now


def _send(how: Callable[[int, int], None], targets: Iterable[int], *signals: int) -> None:
    for target in targets:
        for number in signals:
            _tried(how, target, number)  # it may have ended, or not be ours


def descendants(root: int) -> list[int]:
    """All descendants of a process, including zombies."""
    table = None if HAS_CHILDREN_FILE else _table()
    found: list[int] = []
    below = [root]
    while below:
        parent = below.pop()
        children = _children(parent) if table is None else table.get(parent, ())
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
        pass  # it has just ended: its children are ours now, and are found the next time
    return found


def _table() -> dict[int, list[int]]:
    """Each process with its children, from `ps`: for systems without the file in /proc."""
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
    main(
        sys.argv[1],
        int(sys.argv[2]),
        float(sys.argv[3]),
        launch_by(sys.argv[5], int(sys.argv[4])) if len(sys.argv) > 4 else None,
    )
    os._exit(0)
