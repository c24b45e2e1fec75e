"""Nothing that a command starts outlives it, whatever it does to get away."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from holdfast.tools.commands import supervisor_process

BASH: Final = "/bin/bash"
SOON: Final = 2.0
"""Seconds within which everything has to be gone."""
LONG: Final = 20.0
"""Seconds that a test waits for what should be there at once."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="about Linux")

DAEMON: Final = """
    import os, signal, sys, time

    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                signal.signal(number, signal.SIG_IGN)
            os.closerange(0, 64)
            with open("daemon.new", "w") as file:
                file.write(str(os.getpid()))
            os.rename("daemon.new", "daemon")
            os.execve("/bin/sleep", ["sleep", "1000"], {})
        os._exit(0)
    while not os.path.exists("daemon"):
        time.sleep(0.001)
"""
"""Leaves session, group, parent, descriptors and environment behind, and ignores every request."""

RUNNER: Final = """
    import os

    while True:
        if os.fork():
            os._exit(0)
        os.setsid()
"""
"""Is never the same process for long, nor in the same group."""


class Supervised:
    """One command under a supervisor, without anything else of ours around it."""

    def __init__(
        self,
        command: str,
        directory: Path,
        shell: str = BASH,
        *,
        stopped: bool = False,
        time_limit: float = 1000,
    ) -> None:
        """`stopped`: the pipe is closed before the supervisor starts."""
        read, self.control = os.pipe()
        if stopped:
            os.close(self.control)
        folder = os.open(directory, os.O_RDONLY)
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", supervisor_process.__file__),
                *(shell, str(folder), str(time_limit)),
            ],
            stdin=read,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, supervisor_process.COMMAND: textwrap.dedent(command)},
            pass_fds=(folder,),
            start_new_session=True,
        )
        os.close(read)
        os.close(folder)

    def stop(self) -> float:
        """Close the pipe; how long it then took until all was over."""
        os.close(self.control)
        began = time.monotonic()
        self.process.wait(LONG)
        return time.monotonic() - began

    def finish(self) -> tuple[str, str]:
        """Wait for the end: the output, and the last line of the report."""
        output, report = self.process.communicate(timeout=LONG)
        return output.decode(), report.decode().splitlines()[-1]


@contextmanager
def supervised(command: str, directory: Path) -> Iterator[Supervised]:
    started = Supervised(command, directory)
    try:
        yield started
    finally:
        started.process.kill()
        started.process.communicate()


def run(command: str, directory: Path, shell: str = BASH) -> tuple[str, str]:
    started = Supervised(command, directory, shell)
    try:
        return started.finish()
    finally:
        os.close(started.control)


def until(condition: Callable[[], object], seconds: float = LONG) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.002)


def is_running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def written(path: Path) -> int:
    """The process that wrote its number into a file."""
    until(lambda: path.exists() and path.read_text().endswith("\n"))
    return int(path.read_text())


def script(directory: Path, name: str, text: str) -> str:
    (directory / name).write_text(textwrap.dedent(text))
    return f"{sys.executable} -I -S {name}"


# --- how it runs --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "report"),
    [
        ("true", "ended 0 0 0"),
        ("exit 7", "ended 7 0 0"),
        ("kill -USR1 $$", f"ended -{int(signal.SIGUSR1)} 0 0"),
        ("no_such_command", "ended 127 0 0"),
    ],
)
def test_the_end_of_the_shell_is_reported(command: str, report: str, tmp_path: Path) -> None:
    assert run(command, tmp_path)[1] == report


def test_the_command_gets_no_descriptor_but_its_three(tmp_path: Path) -> None:
    command = """
        cd /proc/$$/fd
        for number in {0..254}; do [ -e $number ] && readlink $number; done
    """  # 255 is bash's own
    stdin, stdout, stderr = run(command, tmp_path)[0].splitlines()

    assert stdin == "/dev/null"
    assert stdout == stderr
    assert stdout.startswith("pipe:")


def test_the_command_has_a_session_of_its_own_and_no_terminal(tmp_path: Path) -> None:
    output, _ = run("echo $$; cat /proc/$$/stat; (: < /dev/tty) 2>/dev/null || echo none", tmp_path)

    pid, stat, terminal = output.splitlines()
    assert stat.rpartition(")")[2].split()[2:5] == [pid, pid, "0"]  # group, session, terminal
    assert terminal == "none"


def test_no_signal_is_ignored_or_blocked_in_the_command(tmp_path: Path) -> None:
    output, _ = run("grep -E 'Sig(Blk|Ign)' /proc/self/status", tmp_path)

    of_the_c_library = 0b11 << 31  # 32 and 33, which nobody else can set
    masks = [int(line.split()[1], 16) for line in output.splitlines()]
    assert [mask & ~of_the_c_library for mask in masks] == [0, 0]


def test_the_words_of_the_command_are_not_in_its_supervisor_s_arguments(tmp_path: Path) -> None:
    output, _ = run(": marked; tr '\\0' ' ' < /proc/$PPID/cmdline; env", tmp_path)

    assert "marked" not in output
    assert supervisor_process.COMMAND not in output


def test_the_command_begins_in_the_directory_that_was_opened(tmp_path: Path) -> None:
    (opened := tmp_path / "here").mkdir()
    folder = os.open(opened, os.O_RDONLY)
    opened.rename(tmp_path / "moved")
    (tmp_path / "here").mkdir()

    output, _ = run("pwd -P", Path(f"/proc/self/fd/{folder}"))

    os.close(folder)
    assert output.strip() == str(tmp_path / "moved")


def test_a_shell_that_is_not_there_is_reported(tmp_path: Path) -> None:
    started = Supervised("true", tmp_path, "/no/such/shell")
    _, report = started.process.communicate(timeout=LONG)
    os.close(started.control)

    assert f"failed exec {errno.ENOENT}\n".encode() in report


def test_a_process_that_cannot_be_forked_is_reported(tmp_path: Path) -> None:
    code = """
        import os, resource, sys
        from holdfast.tools.commands import supervisor_process

        folder = os.open(".", os.O_RDONLY)
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
        if os.getuid() == 0:
            os.setuid(54321)  # the limit is not for root
        supervisor_process.main("/bin/sh", folder, 60.0)
    """
    read, control = os.pipe()
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={
            **os.environ,
            supervisor_process.COMMAND: "true",
            "PYTHONPATH": str(Path(supervisor_process.__file__).parents[2]),
        },
        stdin=read,
        capture_output=True,
        timeout=LONG,
        check=True,
    )
    os.close(read)
    os.close(control)

    assert done.stderr.decode() == f"failed fork {errno.EAGAIN}\n"


# --- the end of the shell -----------------------------------------------------------------------


def test_what_the_shell_left_running_is_stopped_and_counted(tmp_path: Path) -> None:
    output, report = run("sleep 1000 & echo $!; setsid sleep 1000 & echo $!", tmp_path)

    assert report == "ended 0 2 0"
    assert not any(is_running(int(pid)) for pid in output.split())


def test_a_daemon_that_ignores_every_request_is_stopped(tmp_path: Path) -> None:
    _, report = run(script(tmp_path, "daemonize.py", DAEMON), tmp_path)

    assert report == "ended 0 1 0"
    assert not is_running(int((tmp_path / "daemon").read_text()))


def test_what_ends_by_itself_right_after_the_shell_is_let_do_so(tmp_path: Path) -> None:
    output, report = run("echo words > >(trap '' TERM; sleep 0.05; cat)", tmp_path)

    assert (output, report) == ("words\n", "ended 0 0 0")


def test_orphans_that_end_are_waited_for_while_the_command_runs(tmp_path: Path) -> None:
    command = """
        for i in 1 2 3; do (setsid true &); done
        zombies() { grep -l 'State:.Z' $(sed 's|[0-9]*|/proc/&/status|g' \\
            /proc/$PPID/task/$PPID/children) 2>/dev/null; }
        while [ "$(zombies)" ]; do :; done
        echo none
    """
    assert run(command, tmp_path)[0] == "none\n"


# --- the word to stop ---------------------------------------------------------------------------


def test_the_end_of_the_pipe_stops_everything(tmp_path: Path) -> None:
    daemonize = script(tmp_path, "daemonize.py", DAEMON)
    command = f"{daemonize}; trap '' TERM HUP; sleep 1000 & echo $$ > shell; while :; do wait; done"
    with supervised(command, tmp_path) as started:
        shell, daemon = written(tmp_path / "shell"), int((tmp_path / "daemon").read_text())

        assert started.stop() < SOON

        assert started.finish()[1] == f"ended -{int(signal.SIGKILL)} 0 0"
        assert not is_running(shell)
        assert not is_running(daemon)


def test_a_command_that_nobody_stops_ends_when_its_time_is_up(tmp_path: Path) -> None:
    started = Supervised("sleep 1000 & sleep 1000", tmp_path, time_limit=0.1)
    try:
        assert started.finish() == ("", f"ended -{int(signal.SIGTERM)} 0 0")
    finally:
        os.close(started.control)


def test_a_well_behaved_program_may_tidy_up(tmp_path: Path) -> None:
    command = "trap 'echo tidied; exit 3' TERM; echo $$ > shell; while :; do sleep 0.01; done"
    with supervised(command, tmp_path) as started:
        written(tmp_path / "shell")

        assert started.stop() < SOON

        output, report = started.finish()
        assert output.endswith("tidied\n")
        assert report == "ended 3 0 0"


def test_a_process_that_was_suspended_may_tidy_up_too(tmp_path: Path) -> None:
    command = "trap 'echo tidied; exit' TERM; echo $$ > shell; kill -STOP $$; sleep 1000"
    with supervised(command, tmp_path) as started:
        shell = written(tmp_path / "shell")
        until(lambda: ") T " in Path(f"/proc/{shell}/stat").read_text())

        assert started.stop() < SOON

        assert started.finish()[0] == "tidied\n"


def test_a_command_that_is_stopped_before_it_begins_does_not_begin(tmp_path: Path) -> None:
    started = Supervised("touch begun", tmp_path, stopped=True)
    assert started.finish() == ("", f"ended -{int(signal.SIGTERM)} 0 0")
    assert not (tmp_path / "begun").exists()


def test_waiting_for_the_end_takes_no_work(tmp_path: Path) -> None:
    command = "trap '' TERM; echo $$ > shell; sleep 1000 & while :; do wait; done"
    with supervised(command, tmp_path) as started:
        written(tmp_path / "shell")
        os.close(started.control)

        _, _, used = os.wait4(started.process.pid, 0)

        assert used.ru_utime + used.ru_stime < 0.8 * supervisor_process.TERM_WAIT


def test_a_byte_in_the_pipe_stops_everything_although_a_fork_holds_it_open(tmp_path: Path) -> None:
    with supervised("echo $$ > shell; sleep 1000", tmp_path) as started:
        shell = written(tmp_path / "shell")
        holder = os.dup(started.control)
        os.write(started.control, b".")

        assert started.stop() < SOON

        os.close(holder)
        assert not is_running(shell)


def test_the_death_of_its_parent_stops_everything_although_a_fork_holds_the_pipe_open(
    tmp_path: Path,
) -> None:
    code = f"""
        import os, subprocess, sys, time

        read, control = os.pipe()
        here = os.open(".", os.O_RDONLY)
        holder = os.fork()
        if holder == 0:
            time.sleep(1000)
        program = [sys.executable, "-I", "-S", {supervisor_process.__file__!r}]
        command = [*program, {BASH!r}, str(here), "1000"]
        supervisor = subprocess.Popen(command, stdin=read, pass_fds=(here,))
        print(holder, supervisor.pid, flush=True)
        time.sleep(1000)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, supervisor_process.COMMAND: "echo $$ > shell; sleep 1000"},
    ) as parent:
        assert parent.stdout is not None
        holder, watcher = map(int, parent.stdout.readline().split())
        shell = written(tmp_path / "shell")

        parent.kill()

        try:
            until(lambda: not is_running(shell) and not is_running(watcher), SOON)
            assert is_running(holder)
        finally:
            os.kill(holder, signal.SIGKILL)


# --- those who are quick ------------------------------------------------------------------------


def test_a_shell_that_keeps_forking_is_stopped(tmp_path: Path) -> None:
    with supervised("echo $$ > shell; while :; do sleep 1000 & done", tmp_path) as started:
        shell = written(tmp_path / "shell")
        until(lambda: len(supervisor_process.descendants(shell)) > 50)

        assert started.stop() < SOON

        assert started.finish()[1].endswith(" 0")


def test_a_process_that_is_always_another_one_is_stopped(tmp_path: Path) -> None:
    command = f"{script(tmp_path, 'runner.py', RUNNER)} & echo $! > first; wait; sleep 1000"
    with supervised(command, tmp_path) as started:
        first = written(tmp_path / "first")
        until(lambda: not is_running(first))  # it runs

        assert started.stop() < SOON

        assert started.finish()[1].endswith(" 0")


# --- attacks on the supervisor ------------------------------------------------------------------


def test_only_sigkill_stops_the_supervisor(tmp_path: Path) -> None:
    command = (
        "for signal in TERM INT HUP QUIT USR1 USR2 ALRM; do kill -$signal $PPID; done; echo on"
    )

    assert run(command, tmp_path) == ("on\n", "ended 0 0 0")


def test_the_shell_dies_with_its_supervisor(tmp_path: Path) -> None:
    with supervised("echo $$ > shell; sleep 1000 & wait", tmp_path) as started:
        shell = written(tmp_path / "shell")

        started.process.kill()

        until(lambda: not is_running(shell), SOON)
        os.close(started.control)
        os.killpg(shell, signal.SIGKILL)  # the rest is for whoever started the supervisor


def test_a_supervisor_that_the_command_suspended_ends_with_its_parent(tmp_path: Path) -> None:
    code = f"""
        import os, subprocess, sys, time

        read, control = os.pipe()
        here = os.open(".", os.O_RDONLY)
        program = [sys.executable, "-I", "-S", {supervisor_process.__file__!r}]
        command = [*program, {BASH!r}, str(here), "1000"]
        supervisor = subprocess.Popen(command, stdin=read, pass_fds=(here,))
        print(supervisor.pid, flush=True)
        time.sleep(1000)
    """
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={
            **os.environ,
            supervisor_process.COMMAND: "echo $$ > shell; kill -STOP $PPID; sleep 1000",
        },
    ) as parent:
        assert parent.stdout is not None
        watcher = int(parent.stdout.readline())
        shell = written(tmp_path / "shell")
        until(lambda: ") T " in Path(f"/proc/{watcher}/stat").read_text())

        parent.kill()

        try:
            until(lambda: not is_running(shell) and not is_running(watcher), SOON)
        finally:
            if is_running(watcher):
                os.kill(watcher, signal.SIGKILL)


# --- elsewhere ----------------------------------------------------------------------------------


@pytest.mark.parametrize("has_children_file", [True, False])
def test_descendants_are_found_by_linux_and_by_ps(
    has_children_file: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor_process, "HAS_CHILDREN_FILE", has_children_file)
    command = f"{BASH} -c '{BASH} -c \"echo \\$\\$ > inner; sleep 1000; :\"; :'; :"
    with supervised(command, tmp_path) as started:
        inner = written(tmp_path / "inner")
        until(lambda: len(supervisor_process.descendants(inner)) == 1)

        found = supervisor_process.descendants(started.process.pid)

        assert len(found) == 4  # three shells and a sleep
        assert inner in found
        assert os.getpid() not in found
        started.stop()
