"""Commands run, are seen to run, and end: with all that they started, whoever ends them."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import resource
import signal
import subprocess
import sys
import textwrap
import time
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from holdfast import Agent
from holdfast.kernel.errors import ConfigError, ToolFailed
from holdfast.kernel.events import ToolProgressed, ToolStarted
from holdfast.kernel.messages import ToolResult
from holdfast.kernel.policy import Calls, Policy
from holdfast.kernel.tool import Tool, ToolContext
from holdfast.kernel.workspace import PathRefused
from holdfast.testing import ScriptedModel, call
from holdfast.tools import execute as module
from holdfast.tools.commands import output, supervisor_process
from holdfast.tools.commands.process import NotStarted, SupervisorFailed, start
from holdfast.tools.display_text import visible
from holdfast.tools.execute import execute
from holdfast.tools.workspace.directory import Directory
from holdfast.tools.workspace.directory_workspace import DirectoryWorkspace
from tests.tools.real_time import in_real_time

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts processes in /proc")

LONG: Final = 20.0
"""Seconds that a test waits for what should be there at once."""
SOON: Final = 2.0
"""Seconds within which everything has to be gone."""


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Directory]:
    with Directory(tmp_path) as opened:
        yield opened


class Call:
    """One call of the tool, and what it told of itself meanwhile."""

    def __init__(self, tool: Tool, **values: Any) -> None:
        self.progress: list[str] = []
        self.told = asyncio.Event()
        assert tool.function is not None
        made = tool.function(ToolContext("call_1", self._report), **values)
        self.task: asyncio.Task[ToolResult] = asyncio.create_task(made)

    async def _report(self, text: str) -> None:
        self.progress.append(text)
        self.told.set()

    async def until_told(self) -> None:
        async with asyncio.timeout(LONG):
            await self.told.wait()

    async def interrupted(self) -> ToolResult:
        self.task.cancel()
        async with asyncio.timeout(LONG):
            return await self.task


async def run(top: Directory, command: str, /, **values: Any) -> ToolResult:
    """What a command gives that nobody has to agree to."""
    return await Call(
        execute(DirectoryWorkspace(top), approval="never"), command=command, **values
    ).task


def lines(result: ToolResult) -> tuple[str, str]:
    """The output, and how it ended without the seconds."""
    output, _, ending = result.text.rpartition("\n")
    return output, ending.rpartition(", ")[0]


def is_running(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


async def until(condition: Callable[[], object], seconds: float = LONG) -> None:
    async with asyncio.timeout(seconds):
        while True:
            if condition():
                return
            await asyncio.sleep(0.005)


# --- results ------------------------------------------------------------------------------------


@in_real_time
async def test_the_result_is_the_output_and_the_exit_code(directory: Directory) -> None:
    result = await run(directory, "echo out; echo err >&2; printf more")

    assert result.outcome == "ok"
    assert lines(result) == ("out\nerr\nmore", "[exit code 0")
    assert result.text.endswith(" s]")


@in_real_time
async def test_another_exit_code_than_0_is_no_failure_of_the_tool(directory: Directory) -> None:
    result = await run(directory, "echo no; exit 3")

    assert result.outcome == "ok"
    assert lines(result) == ("no", "[exit code 3")


@in_real_time
async def test_a_signal_that_killed_the_command_is_named(directory: Directory) -> None:
    assert lines(await run(directory, "kill -SEGV $$"))[1] == "[killed by SIGSEGV"
    assert lines(await run(directory, "kill -40 $$"))[1] == "[killed by signal 40"


@in_real_time
async def test_a_command_that_prints_nothing_is_said_to_do_so(directory: Directory) -> None:
    assert lines(await run(directory, "true"))[0] == "(no output)"


@in_real_time
async def test_what_was_left_running_is_stopped_and_the_result_says_so(
    directory: Directory,
) -> None:
    one = await run(directory, "sleep 1000 & echo $!")
    two = await run(directory, "sleep 1000 & echo $!; setsid sleep 1000 & echo $!")

    assert one.text.splitlines()[1] == "[1 process left running by it was stopped]"
    assert two.text.splitlines()[2] == "[2 processes left running by it were stopped]"
    pids = [one.text.splitlines()[0], *two.text.splitlines()[:2]]
    assert not any(is_running(int(pid)) for pid in pids)


@in_real_time
async def test_output_is_readable_and_its_escapes_are_gone(directory: Directory) -> None:
    command = r"printf '\033[1mbold\033[0m 1%%\r2%%\n\303'; printf '\244\377\n'"

    result = await run(directory, command)

    assert lines(result)[0] == "2%\nä\ufffd"
    assert result.metadata is None


@in_real_time
async def test_colours_are_for_people_and_not_for_the_model(directory: Directory) -> None:
    result = await run(directory, r"printf '\033[31mred\033[0m\033[2J\n'; exit 3")

    text, _, ending = result.text.partition("\n")
    assert (text, ending[:14]) == ("red", "[exit code 3, ")
    assert result.metadata == {"holdfast": {"coloured": f"\x1b[31mred\x1b[0m\n{ending}"}}


@in_real_time
async def test_of_long_output_in_colours_people_see_both_ends_too(directory: Directory) -> None:
    result = await run(directory, r"for i in $(seq 9999); do printf '\033[31m%d\033[0m\n' $i; done")

    assert result.metadata is not None
    coloured = result.metadata["holdfast"]["coloured"]
    assert coloured.startswith("\x1b[31m1\x1b[0m\n")
    assert "\x1b[31m9999\x1b[0m\n[all of the output is in " in coloured
    assert len(coloured) < 34 * 1024


@in_real_time
async def test_input_is_empty_and_does_not_wait(directory: Directory) -> None:
    assert lines(await run(directory, "cat; read x || echo nothing"))[0] == "nothing"


@in_real_time
async def test_long_output_is_shown_at_both_ends_and_whole_in_a_file(
    directory: Directory, tmp_path: Path
) -> None:
    result = await run(directory, "seq 1 100000")

    (log,) = (tmp_path / ".holdfast" / "output").iterdir()
    assert log.read_text() == "".join(f"{number}\n" for number in range(1, 100_001))
    assert result.text.startswith("1\n2\n")
    number, where, code = result.text.splitlines()[-3:]
    assert number == "100000"
    assert str(log.relative_to(tmp_path)) in where
    assert code.startswith("[exit code 0, ")
    assert len(result.text) < 33 * 1024


@in_real_time
async def test_a_result_that_is_cut_still_tells_its_end_and_where_all_of_it_is(
    directory: Directory,
) -> None:
    tool = execute(DirectoryWorkspace(directory), approval="never")
    model = ScriptedModel([call("execute", command="seq 1 100000; exit 3"), "I see."])
    await Agent(model=model, tools=[tool], policy=Policy(calls=Calls(max_result=4_000))).run("Go.")

    (result,) = model.requests[-1].messages[-1].results
    assert "bytes cut" in result.text
    assert "[all of the output is in .holdfast/output/" in result.text
    assert "[exit code 3, " in result.text


# --- where and with what it runs ----------------------------------------------------------------


@in_real_time
async def test_a_command_begins_at_the_top_or_where_it_is_told(
    directory: Directory, tmp_path: Path
) -> None:
    (tmp_path / "below").mkdir()

    assert lines(await run(directory, "pwd"))[0] == str(tmp_path)
    assert lines(await run(directory, "pwd", directory="below"))[0] == str(tmp_path / "below")
    inside = str(tmp_path / "below")
    assert lines(await run(directory, "pwd", directory=inside))[0] == inside


@in_real_time
async def test_a_command_begins_nowhere_else(directory: Directory, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "out").symlink_to("/")

    for wrong in ("missing", "file", "..", "/", "out"):
        with pytest.raises(PathRefused):
            await run(directory, "touch /proc/self/should_not_run", directory=wrong)


@in_real_time
async def test_a_command_gets_only_variables_from_the_allow_list(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "GH_TOKEN", "OPENAI_API_KEY", "MINE"):
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("LC_TIME", "C")
    monkeypatch.setenv("SET_FOR_IT", "yes")
    tool = execute(DirectoryWorkspace(directory), approval="never", pass_env=["SET_FOR_IT"])

    result = await Call(tool, command="env; tr '\\0' '\\n' < /proc/$PPID/environ").task

    assert "secret" not in result.text
    found = dict(line.split("=", 1) for line in result.text.splitlines() if "=" in line)
    assert (found["SET_FOR_IT"], found["LC_TIME"]) == ("yes", "C")
    assert found["PATH"] == os.environ["PATH"]
    assert found["TERM"] == "dumb"
    assert found["GIT_EDITOR"] == found["EDITOR"] == found["VISUAL"] == "true"
    assert (found["PAGER"], found["NO_COLOR"], found["HOLDFAST"]) == ("cat", "1", "1")
    assert found["PWD"] == directory.path


@in_real_time
async def test_an_environment_that_is_given_is_taken_as_it_is(directory: Directory) -> None:
    given = {"MINE": "kept", "PATH": os.environ["PATH"], "PWD": "/gone"}
    tool = execute(DirectoryWorkspace(directory, environ=given), approval="never")

    assert lines(await Call(tool, command="echo $MINE $PWD").task)[0] == f"kept {directory.path}"


@in_real_time
async def test_the_environment_is_read_when_the_command_runs(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = execute(DirectoryWorkspace(directory), approval="never")
    monkeypatch.setenv("LC_LATER", "yes")

    assert lines(await Call(tool, command="echo $LC_LATER").task)[0] == "yes"


@in_real_time
async def test_without_bash_the_command_runs_in_sh(directory: Directory, tmp_path: Path) -> None:
    (folder := tmp_path / "bin").mkdir()
    (folder / "sh").symlink_to("/bin/sh")
    tool = execute(DirectoryWorkspace(directory, environ={"PATH": str(folder)}), approval="never")

    assert lines(await Call(tool, command="echo $0").task)[0] == "sh"


@in_real_time
async def test_a_shell_of_the_directory_itself_is_not_used(
    directory: Directory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bash").write_text("#!/bin/sh\necho tricked\n")
    (tmp_path / "bash").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    path = f".:{os.environ['PATH']}"
    tool = execute(DirectoryWorkspace(directory, environ={"PATH": path}), approval="never")

    assert lines(await Call(tool, command="echo right").task)[0] == "right"


# --- what cannot be run -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (" \n\t", "the command is empty"),
        ("echo \0", "zero byte"),
        ("echo \ud800", "surrogate"),
        ("x" * 40_000, "write it to a file"),
        ("\u202e" * 10_000, "write it to a file"),
    ],
)
@in_real_time
async def test_a_command_that_cannot_be_run_is_refused(
    command: str, why: str, directory: Directory
) -> None:
    with pytest.raises(ToolFailed, match=why):
        await run(directory, command)


@in_real_time
async def test_where_there_is_no_shell_the_tool_says_so(directory: Directory) -> None:
    tool = execute(DirectoryWorkspace(directory, environ={"PATH": "/nowhere"}), approval="never")

    with pytest.raises(ToolFailed, match="neither bash nor sh was found in /nowhere"):
        await Call(tool, command="true").task


@in_real_time
async def test_where_the_variables_are_too_long_the_tool_says_so(directory: Directory) -> None:
    environ = {"PATH": os.environ["PATH"], "LONG": "x" * 2**20}
    before = descriptors()

    with pytest.raises(NotStarted, match="too long") as refusal:
        await Call(
            execute(DirectoryWorkspace(directory, environ=environ), approval="never"),
            command="true",
        ).task

    assert refusal.value.errno == errno.E2BIG
    assert set(descriptors()) <= set(before)


def descriptors() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))


@contextmanager
def open_files_at_most(count: int) -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize("free", [2, 4, 6])
def test_where_no_file_can_be_opened_the_tool_says_so_and_leaves_none_open(
    free: int, tmp_path: Path
) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    before = descriptors()
    highest = max(int(number) for number in before)
    fillers = [os.dup(folder) for _ in range(highest + 1 - len(before))]  # no gaps below it
    before = descriptors()

    with open_files_at_most(len(before) - 1 + free):
        with pytest.raises(NotStarted, match="too many files are open"):
            start("/bin/sh", "true", folder, {}, time_limit=60)

    assert set(descriptors()) <= set(before)
    for filler in (*fillers, folder):
        os.close(filler)


def test_where_no_process_can_be_started_the_tool_says_so(tmp_path: Path) -> None:
    code = """
        import os, resource, subprocess
        from holdfast.tools.commands.process import NotStarted, start

        folder = os.open(".", os.O_RDONLY)
        resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
        if os.getuid() == 0:
            os.setuid(54321)  # the limit is not for root
        try:
            start("/bin/sh", "true", folder, {}, time_limit=60)
        except NotStarted as error:
            print(error)
    """
    done = python(code, tmp_path)

    assert done.communicate(timeout=LONG)[0] == (
        "the command was not started: too many processes are running: "
        "try again when some have ended\n"
    )


def python(code: str, cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(Path(module.__file__).parents[2])},
        stdout=subprocess.PIPE,
        text=True,
    )


@in_real_time
async def test_a_supervisor_that_cannot_start_says_why(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(supervisor_process, "__file__", "/no/supervisor_process.py")
        with pytest.raises(SupervisorFailed, match=r"can't open file '/no/supervisor_process\.py'"):
            await run(directory, "true")
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(SupervisorFailed, match="it ended with 1"):
        await run(directory, "true")


@pytest.mark.parametrize("wrong", [0, -1, 3601, float("nan"), float("inf")])
def test_a_time_limit_that_cannot_be_right_is_refused(wrong: float, directory: Directory) -> None:
    with pytest.raises(ConfigError, match="time_limit"):
        execute(DirectoryWorkspace(directory), time_limit=wrong)


# --- the time limit -----------------------------------------------------------------------------


@in_real_time
async def test_at_its_time_limit_a_command_is_stopped_with_all_it_started(
    directory: Directory,
) -> None:
    command = "trap '' TERM; setsid sleep 1000 & echo $$ $!; while :; do sleep 0.01; done"
    began = time.monotonic()

    result = await run(directory, command, timeout=1)

    assert 1 <= time.monotonic() - began < 1 + SOON
    assert result.outcome == "timed_out"
    assert "time limit of 1 s reached: the command and all processes" in result.text
    assert 'set "timeout"' in result.text
    assert not any(is_running(int(pid)) for pid in result.text.splitlines()[0].split())


@in_real_time
async def test_a_command_that_gives_no_time_has_the_tool_s(directory: Directory) -> None:
    tool = execute(DirectoryWorkspace(directory), approval="never", time_limit=0.2)

    result = await Call(tool, command="sleep 1000").task

    assert (result.outcome, "limit of 0.2 s" in result.text) == ("timed_out", True)


@in_real_time
async def test_the_last_words_of_a_program_that_was_asked_to_end_are_kept(
    directory: Directory,
) -> None:
    command = "trap 'echo bye; exit' TERM; while :; do sleep 0.01; done"

    result = await run(directory, command, timeout=1)

    assert "bye\n" in result.text


@in_real_time
async def test_a_watcher_who_does_not_keep_up_does_not_outlast_the_time_limit(
    directory: Directory,
) -> None:
    async def never(text: str) -> None:
        await asyncio.Event().wait()

    tool = execute(DirectoryWorkspace(directory), approval="never")
    assert tool.function is not None

    result = await tool.function(ToolContext("x", never), command="echo words; yes", timeout=1)

    assert result.outcome == "timed_out"
    assert result.text.startswith("words\n")


# --- interrupts ---------------------------------------------------------------------------------


@in_real_time
async def test_an_interrupted_command_returns_what_it_had_printed(directory: Directory) -> None:
    command = "trap '' TERM HUP INT; setsid sleep 1000 & echo $$ $!; while :; do wait; done"
    running = Call(execute(DirectoryWorkspace(directory), approval="never"), command=command)
    await running.until_told()
    began = time.monotonic()

    result = await running.interrupted()

    assert time.monotonic() - began < SOON
    assert result.outcome == "interrupted"
    pids, ending = result.text.splitlines()
    assert ending.startswith("[interrupted after ")
    assert ending.endswith(" s: the command and all processes it started were stopped]")
    assert not any(is_running(int(pid)) for pid in pids.split())


@in_real_time
async def test_a_command_that_is_interrupted_before_its_first_word_is_stopped(
    directory: Directory, tmp_path: Path
) -> None:
    running = Call(
        execute(DirectoryWorkspace(directory), approval="never"),
        command="sleep 0.5; touch late; sleep 9",
    )
    await asyncio.sleep(0)

    result = await running.interrupted()

    assert result.outcome == "interrupted"
    assert result.text.startswith("(no output)\n")
    assert not (tmp_path / "late").exists()


@in_real_time
async def test_a_second_cancellation_leaves_nothing_running(directory: Directory) -> None:
    before = children()
    running = Call(
        execute(DirectoryWorkspace(directory), approval="never"),
        command="trap '' TERM; setsid sleep 1000 & echo $$ $!; while :; do wait; done",
    )
    await running.until_told()
    running.task.cancel()
    await asyncio.sleep(0)
    running.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running.task

    pids = [int(pid) for pid in running.progress[0].split()]
    await until(lambda: not any(map(is_running, pids)), SOON)
    await until(lambda: children() == before)


@in_real_time
async def test_a_command_that_suspends_its_supervisor_can_be_interrupted(
    directory: Directory,
) -> None:
    command = "echo $$ $PPID; kill -STOP $PPID; sleep 1000"
    running = Call(execute(DirectoryWorkspace(directory), approval="never"), command=command)
    await running.until_told()
    shell, watcher = map(int, running.progress[0].split())
    await until(lambda: ") T " in Path(f"/proc/{watcher}/stat").read_text())
    began = time.monotonic()

    result = await running.interrupted()

    assert time.monotonic() - began < SOON
    assert result.outcome == "interrupted"
    assert "all processes it started" in result.text
    assert not is_running(shell)


@in_real_time
async def test_an_interrupt_is_heard_although_a_fork_of_ours_holds_the_pipe(
    directory: Directory,
) -> None:
    before = set(descriptors())
    running = Call(
        execute(DirectoryWorkspace(directory), approval="never"), command="echo $$; sleep 1000"
    )
    await running.until_told()
    made = [int(number) for number in set(descriptors()) - before]
    (control,) = (n for n in made if fcntl.fcntl(n, fcntl.F_GETFL) & os.O_WRONLY)
    holder = os.dup(control)  # as a fork would

    result = await running.interrupted()

    os.close(holder)
    assert "all processes it started" in result.text
    assert not is_running(int(running.progress[0]))


@in_real_time
async def test_a_command_that_kills_its_supervisor_ends_and_the_result_says_so(
    directory: Directory,
) -> None:
    result = await run(directory, "echo $$; sleep 1000 & echo $!; kill -9 $PPID; wait")

    *pids, said, ending = result.text.splitlines()
    assert said.startswith("[its supervisor process was killed")
    assert ending.startswith("[killed, ")
    await until(lambda: not any(is_running(int(pid)) for pid in pids), SOON)


@in_real_time
async def test_a_supervisor_that_does_not_answer_is_done_without(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STOP_WAIT", 0.2)
    command = "trap '' TERM; echo $$ $PPID; while :; do kill -STOP $PPID; done"
    running = Call(execute(DirectoryWorkspace(directory), approval="never"), command=command)
    await running.until_told()
    pids = [int(pid) for pid in running.progress[0].split()]

    result = await running.interrupted()

    assert result.outcome == "interrupted"
    assert "some of its processes may still be running" in result.text
    await until(lambda: not any(map(is_running, pids)), SOON)


@in_real_time
async def test_a_daemon_that_keeps_its_supervisor_suspended_is_stopped(
    directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STOP_WAIT", 0.2)
    command = (
        "export watcher=$PPID; trap '' TERM; "
        "setsid bash -c 'trap \"\" TERM; echo $$; while :; do kill -STOP $watcher; done' & "
        "sleep 1000"
    )
    running = Call(execute(DirectoryWorkspace(directory), approval="never"), command=command)
    await running.until_told()
    daemon = int(running.progress[0])
    try:
        result = await running.interrupted()
        assert result.outcome == "interrupted"
        await until(lambda: not is_running(daemon), SOON)
    finally:
        with suppress(ProcessLookupError):
            os.kill(daemon, signal.SIGKILL)


# --- our own death ------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["SIGKILL", "SIGTERM", "os._exit"])
@in_real_time
async def test_nothing_is_left_when_we_are_killed(way: str, tmp_path: Path) -> None:
    code = f"""
        import asyncio, os, signal
        from holdfast.kernel.tool import ToolContext
        from holdfast.tools.workspace.directory_workspace import DirectoryWorkspace
        from holdfast.tools.execute import execute

        async def report(text):
            print(text, end="", flush=True)
            if {way!r} == "os._exit":
                os._exit(1)

        tool = execute(DirectoryWorkspace("."), approval="never")
        command = "trap '' TERM HUP; setsid sleep 1000 & echo $$ $! $PPID; while :; do wait; done"
        asyncio.run(tool.function(ToolContext("x", report), command=command))
    """
    with python(code, tmp_path) as us:
        assert us.stdout is not None
        pids = [int(pid) for pid in us.stdout.readline().split()]
        assert len(pids) == 3

        if way != "os._exit":
            us.send_signal(getattr(signal, way))

        await until(lambda: not any(map(is_running, pids)), SOON)


# --- what people see meanwhile ------------------------------------------------------------------


@in_real_time
async def test_output_is_shown_in_whole_lines_while_the_command_runs(
    directory: Directory, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "gate")
    command = "echo one; printf tw; read x < gate; echo o"
    running = Call(execute(DirectoryWorkspace(directory), approval="never"), command=command)
    await running.until_told()
    assert running.progress == ["one\n"]
    assert not running.task.done()

    opened(tmp_path / "gate")
    await running.task

    assert running.progress == ["one\n", "two\n"]


def opened(gate: Path) -> None:
    """Let a command go on that reads from here."""
    with open(gate, "w") as file:
        file.write("\n")


@asynccontextmanager
async def watched_loop() -> AsyncIterator[list[float]]:
    """How long, each time, the event loop worked before it came round: not how busy others were."""
    gaps: list[float] = []

    async def watch() -> None:
        last = time.thread_time()
        while True:
            await asyncio.sleep(0)
            gaps.append(time.thread_time() - last)
            last = time.thread_time()

    task = asyncio.create_task(watch())
    try:
        yield gaps
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.mark.parametrize("flood", ["yes", "cat /dev/zero", "cat /dev/urandom", "yes $'\\r\\b'"])
@in_real_time
async def test_a_flood_is_shown_little_by_little_and_holds_nobody_up(
    flood: str, directory: Directory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "MAX_LOG", 2**20)
    running = Call(
        execute(DirectoryWorkspace(directory), approval="never"), command=flood, timeout=0.7
    )

    async with watched_loop() as gaps:
        result = await running.task

    assert result.outcome == "timed_out"
    assert len(running.progress) <= 9
    assert max(map(len, running.progress)) < 5_000
    assert len(result.text) < 40_000
    assert max(gaps) < 0.1


@in_real_time
async def test_100_mb_of_output_take_little_memory(directory: Directory, tmp_path: Path) -> None:
    await run(directory, "true")  # what is imported once is not counted
    tracemalloc.start()
    try:
        result = await run(directory, "yes 'a line of some length' | head -c 100000000")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert lines(result)[1] == "[exit code 0"
    assert "limited to 64" in result.text
    (log,) = (tmp_path / ".holdfast" / "output").iterdir()
    assert log.stat().st_size == 64 * 2**20
    log.unlink()
    assert peak < 4 * 2**20


@pytest.mark.parametrize("writer", [["sleep", "1000"], ["yes"]], ids=["silent", "busy"])
@in_real_time
async def test_a_pipe_that_somebody_else_holds_does_not_keep_the_command_from_ending(
    writer: list[str], directory: Directory, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "gate")
    running = Call(
        execute(DirectoryWorkspace(directory), approval="never"), command="echo $$; read x < gate"
    )
    await running.until_told()
    stranger = into_output_of(int(running.progress[0]), writer)
    opened(tmp_path / "gate")
    try:
        async with asyncio.timeout(LONG):
            assert lines(await running.task)[1] == "[exit code 0"
    finally:
        stranger.kill()
        stranger.wait()


def into_output_of(pid: int, command: list[str]) -> subprocess.Popen[bytes]:
    """A process that shares another's output without being a descendant of it."""
    with open(f"/proc/{pid}/fd/1", "wb") as held:
        return subprocess.Popen(command, stdout=held)


# --- many ---------------------------------------------------------------------------------------


@in_real_time
async def test_commands_that_run_at_once_do_not_disturb_each_other(directory: Directory) -> None:
    tool = execute(DirectoryWorkspace(directory), approval="never")
    commands = [f"seq {n}000 {n}999; sleep 1000 & (exit {n})" for n in range(1, 9)]
    calls = [Call(tool, command=command) for command in commands[:6]]
    stopped = Call(tool, command="echo 7; sleep 1000")
    late = Call(tool, command="echo 8; sleep 1000", timeout=0.3)
    await stopped.until_told()

    assert (await stopped.interrupted()).text.startswith("7\n[interrupted")
    for number, one in enumerate(calls, 1):
        output, ending = lines(await one.task)
        assert output.splitlines()[:-1] == [str(number * 1000 + i) for i in range(1000)]
        assert ending == f"[exit code {number}"
    assert (await late.task).outcome == "timed_out"


def children() -> list[int]:
    return [pid for thread in Path("/proc/self/task").iterdir() for pid in children_of(thread)]


def children_of(thread: Path) -> list[int]:
    try:
        return [int(pid) for pid in (thread / "children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):  # it ended since the directory was listed
        return []


def test_fifty_commands_leave_neither_descriptors_nor_processes(directory: Directory) -> None:
    tool = execute(DirectoryWorkspace(directory), approval="never")

    @in_real_time
    async def fifty() -> None:
        before = set(descriptors()), set(children())
        for number in range(50):
            left = "sleep 1000 &" if number % 10 == 2 else ""
            running = Call(tool, command=f"seq {number * 500}; {left}")
            if number % 10 == 1:
                await asyncio.sleep(0)
                await running.interrupted()
            else:
                await running.task
        # Of an earlier test's, some may go meanwhile.
        assert set(descriptors()) <= before[0]
        assert set(children()) <= before[1]

    with asyncio.Runner() as runner:  # the first loop of a process opens what it keeps
        runner.run(asyncio.to_thread(lambda: None))
    fifty()


# --- through an agent ---------------------------------------------------------------------------


@in_real_time
async def test_interrupting_a_run_stops_its_command_and_keeps_the_output(
    directory: Directory,
) -> None:
    command = "trap '' TERM; setsid sleep 1000 & echo $$ $!; while :; do wait; done"
    model = ScriptedModel([call("execute", command=command), "not reached"])
    shown = []

    async with Agent(
        model=model, tools=[execute(DirectoryWorkspace(directory), approval="never")]
    ).run("Go.") as run:
        async for event in run:
            if isinstance(event, ToolProgressed) and event.what == "progress":
                shown.append(event.text)
                run.interrupt()
    outcome = await run

    assert outcome.reason == "interrupted"
    (result,) = [made for message in outcome.history for made in message.results]
    assert result.outcome == "interrupted"
    assert result.text.startswith(shown[0])
    assert "all processes it started" in result.text
    assert not any(is_running(int(pid)) for pid in shown[0].split())


@in_real_time
async def test_the_model_reads_the_result(directory: Directory) -> None:
    model = ScriptedModel([call("execute", command="echo hello"), "done"])
    agent = Agent(model=model, tools=[execute(DirectoryWorkspace(directory), approval="never")])

    labels = []
    async with agent.run("Go.") as run:
        async for event in run:
            if isinstance(event, ToolStarted):
                labels.append(event.label)

    (result,) = model.requests[-1].messages[-1].results
    assert lines(result) == ("hello", "[exit code 0")
    assert labels == ["Run echo hello"]


async def test_a_person_is_asked_and_sees_the_command(directory: Directory) -> None:
    model = ScriptedModel([call("execute", command="echo a\u202eb\x1b[2K\nls", timeout=9999)])

    outcome = await Agent(model=model, tools=[execute(DirectoryWorkspace(directory))]).run("Go.")

    assert outcome.reason == "requires_action"
    (action,) = outcome.actions
    assert action.preview == (
        f"Runs as you, without isolation, in {directory.path}, for at most 3600 s:\n\n"
        "echo a\\u202eb\\x1b[2K\nls"
    )


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"command": "  "}, "the command is empty"),
        ({"command": "ls", "directory": "missing"}, "missing does not exist"),
        ({"command": "ls", "timeout": 0}, "timeout"),
        ({"command": "ls", "shell": "zsh"}, "shell"),
        ({}, "command"),
    ],
)
async def test_what_cannot_run_is_refused_before_anybody_is_asked(
    arguments: dict[str, Any], why: str, directory: Directory
) -> None:
    model = ScriptedModel([call("execute", **arguments), "I see."])

    outcome = await Agent(model=model, tools=[execute(DirectoryWorkspace(directory))]).run("Go.")

    assert outcome.text == "I see."
    (result,) = model.requests[-1].messages[-1].results
    assert result.outcome == "failed"
    assert why in result.text


# --- in words -----------------------------------------------------------------------------------


def test_what_cannot_be_seen_is_shown() -> None:
    assert visible("a b\tc\nä\x00\x1b\u200b\u202e\ud800\xa0") == (
        "a b\tc\nä\\x00\\x1b\\u200b\\u202e\\ud800\\xa0"
    )


@pytest.mark.parametrize(
    ("command", "label"),
    [
        ("pytest -q", "Run pytest -q"),
        ("a\n  b\tc", "Run a b c"),
        ("x" * 100, "Run " + "x" * 79 + "…"),
        ("\x1b[2K", "Run \\x1b[2K"),
    ],
)
def test_a_call_is_described_in_a_short_line(
    command: str, label: str, directory: Directory
) -> None:
    tool = execute(DirectoryWorkspace(directory))
    assert tool.describe is not None

    assert tool.describe({"command": command}) == label


def test_the_tool_says_that_nothing_is_isolated_and_describes_each_argument(
    directory: Directory,
) -> None:
    tool = execute(DirectoryWorkspace(directory), time_limit=90)

    assert "not isolated" in tool.description
    properties = tool.arguments.schema["properties"]
    assert set(properties) == {"command", "directory", "timeout"}
    assert all(argument["description"] for argument in properties.values())
    assert "Default: 90" in properties["timeout"]["description"]
    assert (tool.effect, tool.on_steer, tool.approval) == ("once", "finish", "ask")


@in_real_time
async def test_any_number_of_seconds_may_be_asked_for(directory: Directory) -> None:
    result = await Call(
        execute(DirectoryWorkspace(directory)), command="echo hi", timeout=10**400
    ).task
    assert "exit code 0" in result.text
