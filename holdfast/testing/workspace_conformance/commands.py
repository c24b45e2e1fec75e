"""Conformance cases: commands of a workspace."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from typing import Final

from holdfast.kernel.workspace import CannotAttach, Command, Workspace
from holdfast.testing.workspace_conformance.case import (
    TIMEOUT,
    WorkspaceCase,
    case,
    finished,
    output_of,
    refusal,
    require,
    run,
)

STOPPED: Final = 10.0
"""Seconds in which everything must have been stopped."""
MAX_PIECE: Final = 1 << 20
FLOOD: Final = 5_000_000
FAMILY: Final = """\
trap '' TERM HUP
sleep 1000 & echo $! > child
(trap '' TERM; sleep 1000 & echo $! > orphan)
echo ready
while :; do wait; done
"""
"""A command that ignores requests to end, with a child, and a grandchild without its parent."""
SECRET: Final = "WORKSPACE_CONFORMANCE_SECRET"


async def start(workspace: Workspace, command: str) -> Command:
    return await workspace.start(command, time_limit=TIMEOUT)


async def until_ready(command: Command) -> None:
    output = b""
    while b"ready\n" not in output:
        piece = await command.read()
        require(piece is not None, f"it ended with the output {output!r}")
        output += piece or b""


async def require_stopped(workspace: Workspace, *files: str) -> None:
    """Require that the processes whose numbers are in these files are no longer running."""
    for file in files:
        check = f"kill -0 $(cat {file}) 2>/dev/null && echo alive || echo gone"
        output = await run(workspace, check)
        require(output == b"gone\n", f"the process of {file} is still running")


@case("commands")
async def a_command_gives_its_output_and_exit_code(workspace: Workspace) -> None:
    """Output and errors come in the order in which they were written, then the exit code."""
    output, end = await finished(await start(workspace, "echo one; echo two >&2; echo 3; exit 7"))
    require(output == b"one\ntwo\n3\n", f"the output is {output!r}")
    require((end.code, end.left, end.alive) == (7, 0, 0), f"it ended with {end}")


@case("commands")
async def a_signal_is_told_as_a_negative_code(workspace: Workspace) -> None:
    """The exit code of a command that a signal has killed is the negative number of the signal."""
    _, end = await finished(await start(workspace, "kill -9 $$"))
    require(end.code == -signal.SIGKILL, f"the code is {end.code}")


@case("commands")
async def a_command_arrives_unchanged(workspace: Workspace) -> None:
    """Quotes, newlines, backslashes and wildcards in a command reach the shell as they are."""
    text = "a 'b' \"c\" \\d $e `f` *\n\ttab  two ! # ü 日本"
    quoted = text.replace("'", "'\\''")
    output = await run(workspace, f"printf '%s' '{quoted}'")
    require(output == text.encode(), f"the output is {output!r}")


@case("commands")
async def output_may_be_any_bytes(workspace: Workspace) -> None:
    """Output is not changed: not by a terminal, and not by an encoding."""
    data = bytes(range(256)) * 4
    await workspace.replace("data", data)
    output = await run(workspace, "cat data")
    require(output == data, f"the output is {output[:300]!r}")


@case("commands")
async def a_command_starts_in_a_directory(workspace: Workspace) -> None:
    """A command starts in the top directory, or in the directory named, which must exist."""
    await workspace.replace("a/b/file", b"here")
    output, _ = await finished(await start(workspace, "cat a/b/file"))
    require(output == b"here", f"the output is {output!r}")
    inner = await workspace.start("cat file", directory="a/b", time_limit=TIMEOUT)
    output, _ = await finished(inner)
    require(output == b"here", f"the output is {output!r}")
    for path, code in (("missing", errno.ENOENT), ("a/b/file", errno.ENOTDIR)):
        await refusal(workspace.start("true", directory=path, time_limit=TIMEOUT), code)
    await refusal(workspace.start("true", directory="..", time_limit=TIMEOUT))


@case("commands")
async def a_command_has_no_input(workspace: Workspace) -> None:
    """Standard input is empty, so a command that reads it does not wait."""
    require(await run(workspace, "cat; echo end") == b"end\n", "it read something")


@case("commands")
async def variables_are_set(workspace: Workspace) -> None:
    """The variables given are set as they are, in addition to a usual environment."""
    variables = {"ONE": "1", "ODD": "a 'b' \"c\"\n$d `e` \\f", "EMPTY": ""}
    command = 'printf "%s|%s|%s|%s" "$ONE" "$ODD" "${EMPTY-unset}" "${PATH:+path}"'
    started = await workspace.start(command, variables=variables, time_limit=TIMEOUT)
    output, _ = await finished(started)
    expected = "|".join((*variables.values(), "path")).encode()
    require(output == expected, f"the output is {output!r}")


@case("commands")
async def secrets_of_this_process_are_not_passed(workspace: Workspace) -> None:
    """A variable of this process reaches a command only if it was named."""
    os.environ[SECRET] = "secret"
    try:
        output = await run(workspace, "env")
    finally:
        del os.environ[SECRET]
    require(SECRET.encode() not in output, "it was passed")


@case("commands")
async def output_is_read_while_it_is_written(workspace: Workspace) -> None:
    """Output is there before the command ends; `read` returns empty when there is none in time."""
    command = await start(workspace, "echo ready; while [ ! -e go ]; do sleep 0.05; done; echo end")
    try:
        await until_ready(command)
        require(await command.read(0.01) == b"", "there is output that was not written")
        await workspace.replace("go", b"")
        require(await output_of(command) == b"end\n", "the rest is missing")
        require((await command.wait()).code == 0, "it failed")
    finally:
        await command.close()


@case("commands")
async def a_flood_of_output_is_complete_and_comes_in_pieces(workspace: Workspace) -> None:
    """No output is lost, and a piece of it has a bounded size."""
    command = await start(workspace, f"head -c {FLOOD} /dev/zero")
    total = 0
    try:
        while (piece := await command.read()) is not None:
            require(len(piece) <= MAX_PIECE, f"a piece has {len(piece):,} bytes")
            total += len(piece)
    finally:
        await command.close()
    require(total == FLOOD, f"{total:,} of {FLOOD:,} bytes were read")


@case("commands")
async def a_command_that_is_stopped_leaves_nothing_running(workspace: Workspace) -> None:
    """`stop` ends a command with all its processes, also those that ignore requests to end."""
    command = await start(workspace, FAMILY)
    try:
        await until_ready(command)
        async with asyncio.timeout(STOPPED):
            await command.stop()
            await output_of(command)
            await command.wait()
    finally:
        await command.close()
    await require_stopped(workspace, "child", "orphan")


@case("commands")
async def an_endless_flood_can_be_stopped(workspace: Workspace) -> None:
    """A command that writes without end is stopped, although its output is not read."""
    command = await start(workspace, "echo $$ > flood; echo ready; exec yes")
    try:
        await until_ready(command)
        async with asyncio.timeout(STOPPED):
            await command.stop()
            await output_of(command)
            await command.wait()
    finally:
        await command.close()
    await require_stopped(workspace, "flood")


@case("commands")
async def processes_left_behind_are_stopped(workspace: Workspace) -> None:
    """Processes that a command leaves running are stopped after its end, and counted."""
    script = "sleep 1000 & echo $! > child; echo started"
    output, end = await finished(await start(workspace, script))
    require((output, end.code) == (b"started\n", 0), f"it ended with {end}, {output!r}")
    require(end.left >= 1, f"it ended with {end}")
    await require_stopped(workspace, "child")


@case("commands")
async def a_command_ends_when_its_time_is_up(workspace: Workspace) -> None:
    """A command is stopped by the workspace after its time limit, also if no caller does so."""
    command = await workspace.start("echo $$ > shell; sleep 1000", time_limit=0.5)
    async with asyncio.timeout(STOPPED):
        _, end = await finished(command)
    require(end.code != 0, f"it ended with {end}")
    await require_stopped(workspace, "shell")


@case("commands")
async def commands_do_not_disturb_each_other(workspace: Workspace) -> None:
    """Commands run concurrently, each with its own output."""
    numbers = range(6)
    works = [run(workspace, f"for i in 1 2 3; do echo {it}; done") for it in numbers]
    outputs = await asyncio.gather(*works)
    expected = [b"%d\n" % number * 3 for number in numbers]
    require(outputs == expected, f"the outputs are {outputs}")


@case("commands")
async def an_unknown_command_cannot_be_attached_to(workspace: Workspace) -> None:
    """Attaching to a command that is not known raises `CannotAttach`."""
    try:
        await workspace.attach("no-such-command")
    except CannotAttach as error:
        require(str(error), "the error has no message")
    else:
        raise AssertionError("it was attached to")


@case("commands", "attach")
async def a_command_can_be_attached_to(workspace: Workspace) -> None:
    """A command continues without its handle; attaching by its id gives its output and its end."""
    script = "echo one; while [ ! -e go ]; do sleep 0.05; done; echo two; exit 5"
    command = await start(workspace, script)
    await command.close()
    attached = await workspace.attach(command.id)
    await workspace.replace("go", b"")
    output, end = await finished(attached)
    require(output.endswith(b"two\n"), f"the output is {output!r}")
    require(end.code == 5, f"it ended with {end}")


CASES: Final[tuple[WorkspaceCase, ...]] = tuple(
    each for each in tuple(globals().values()) if isinstance(each, WorkspaceCase)
)
