"""The `execute` tool: runs a command in a shell. Its processes never outlive the call."""

from __future__ import annotations

import asyncio
import posixpath
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from holdfast.kernel.errors import ConfigError, ToolFailed
from holdfast.kernel.messages import Text, ToolOutcome, ToolResult
from holdfast.kernel.tool import Tool, ToolContext, Values
from holdfast.kernel.workspace import Command, CommandExit, Workspace
from holdfast.tools.commands import environment as environments
from holdfast.tools.commands.output import CommandOutput, ended
from holdfast.tools.description_file import description
from holdfast.tools.display_text import visible

NAME: Final = "execute"
ISOLATION: Final = "{isolation}"
"""Stands in the description for what the workspace says about itself."""
MAX_TIME_LIMIT: Final = 3600.0
"""Longest time limit of a command, in seconds."""
MAX_COMMAND: Final = 32 * 1024
"""Longest command, in characters as shown: the person who approves it has to see all of it."""
PROGRESS_INTERVAL: Final = 0.1
"""Seconds between two updates of the output for people."""
STOP_WAIT: Final = 3.0
"""Seconds for the supervisor to stop everything; it takes two at most."""


def execute(
    workspace: Workspace,
    *,
    approval: Literal["never", "ask"] = "ask",
    time_limit: float = 120.0,
    pass_env: Sequence[str] = (),
) -> Tool:
    """The tool that runs commands in a workspace, which says how they are isolated, if at all.

    `time_limit`: default time limit in seconds. `pass_env`: names of variables of this process that
    commands get in addition to those of the workspace, or patterns such as `AWS_*`.
    """
    if not 0 < time_limit <= MAX_TIME_LIMIT:
        raise ConfigError(f"time_limit is {time_limit!r}: use seconds, at most {MAX_TIME_LIMIT:g}")
    environments.check(pass_env)
    commands = _Commands(workspace, time_limit, pass_env)
    return Tool(
        name=NAME,
        description=description(__file__).replace(ISOLATION, workspace.info.description),
        function=commands.run,
        schema=_schema(time_limit),
        approval=approval,
        label="run a command",
        describe=lambda values: f"Run {_short(values['command'])}",
        validate=commands.validate,
        preview=commands.preview,
    )


class _Commands:
    """Implementation of the tool, from the arguments to the result."""

    def __init__(self, workspace: Workspace, time_limit: float, pass_env: Sequence[str]) -> None:
        self._workspace = workspace
        self._time_limit = time_limit
        self._pass_env = pass_env

    def _limit(self, values: Values) -> float:
        return float(min(values.get("timeout") or self._time_limit, MAX_TIME_LIMIT))

    async def validate(self, values: Values) -> None:
        _check(values["command"])
        await self._workspace.list(_directory(values), 0)

    def preview(self, values: Values) -> str:
        info = self._workspace.info
        where = posixpath.normpath(posixpath.join(info.root, _directory(values)))
        return (
            f"Runs {info.isolation}, "
            f"in {visible(where)}, for at most {self._limit(values):g} s:\n\n"
            f"{visible(values['command'])}"
        )

    async def run(self, context: ToolContext, **values: Any) -> ToolResult:
        limit = self._limit(values)
        command = await self._start(values, limit)
        output = CommandOutput(self._workspace)
        began = time.monotonic()
        try:
            outcome = await _follow(command, output, context, limit)
            end = await command.wait()
        finally:
            await command.close()
            await output.close()
        ending = _ending(outcome, end, time.monotonic() - began, limit)
        text = ended(output.text() or "(no output)") + ending
        colored = output.coloured()
        # The model reads plain text; the colored output is in the metadata, for people.
        metadata = None if colored is None else {"holdfast": {"coloured": ended(colored) + ending}}
        return ToolResult(context.call_id, NAME, (Text(text),), outcome, metadata=metadata)

    async def _start(self, values: Values, limit: float) -> Command:
        _check(values["command"])
        return await self._workspace.start(
            values["command"],
            directory=_directory(values),
            variables=environments.variables(self._pass_env),
            time_limit=limit + STOP_WAIT,  # if we cannot
        )


def _schema(time_limit: float) -> Mapping[str, Any]:
    where = "Directory to start in, relative to the top directory. Default: the top"
    usual = f"Time limit in seconds. Default: {time_limit:g}; at most {MAX_TIME_LIMIT:g}"
    return {
        "type": "object",
        "properties": {
            "command": {
                "type": "string",
                "minLength": 1,
                "description": "The shell command to run",
            },
            "directory": {"type": "string", "description": where},
            "timeout": {"type": "number", "exclusiveMinimum": 0, "description": usual},
        },
        "required": ["command"],
        "additionalProperties": False,
    }


# --- Before it runs -----------------------------------------------------------------------------


def _check(command: str) -> None:
    if not command.strip():
        raise ToolFailed("the command is empty: give one")
    if "\0" in command:
        raise ToolFailed("the command contains a zero byte: remove it")
    if any("\ud800" <= character <= "\udfff" for character in command):
        raise ToolFailed("the command contains a lone surrogate: write the whole character")
    if len(visible(command)) > MAX_COMMAND:
        raise ToolFailed(
            f"the command is longer than {MAX_COMMAND} characters: write it to a file, and run that"
        )


def _directory(values: Values) -> str:
    return values.get("directory") or "."


def _short(command: str, length: int = 80) -> str:
    line = " ".join(visible(command[: 4 * length]).split())
    return line if len(line) <= length else line[: length - 1] + "…"


# --- While it runs ------------------------------------------------------------------------------


async def _follow(
    command: Command, output: CommandOutput, context: ToolContext, limit: float
) -> ToolOutcome:
    """Read the output until the command ends, or stop it. Everything has then stopped."""
    outcome: ToolOutcome
    try:
        async with asyncio.timeout(limit):
            await _show(command, output, context)
            return "ok"
    except TimeoutError:
        outcome = "timed_out"
    except asyncio.CancelledError:  # the output so far goes into the result
        outcome = "interrupted"
    await command.stop()
    await _take_rest(command, output)
    return outcome


async def _show(command: Command, output: CommandOutput, context: ToolContext) -> None:
    clock = asyncio.get_running_loop().time
    due = clock()
    while True:
        data = await command.read(max(0.0, due - clock()) if output.unseen else None)
        if data is None:
            output.end()
        else:
            output.feed(data)
            await output.save()
        if output.unseen and (data is None or clock() >= due):
            await context.progress(output.unseen.take())  # waits for slow readers
            due = clock() + PROGRESS_INTERVAL
        if data is None:
            return


async def _take_rest(command: Command, output: CommandOutput) -> None:
    clock = asyncio.get_running_loop().time
    until = clock() + STOP_WAIT
    while (rest := until - clock()) > 0:
        data = await command.read(rest)
        if data is None:
            return
        output.feed(data)
    await command.kill()


# --- After its end ------------------------------------------------------------------------------


def _ending(outcome: ToolOutcome, end: CommandExit, seconds: float, limit: float) -> str:
    """How it ended, as lines for the model."""
    lines = []
    if end.left:
        left = "1 process" if end.left == 1 else f"{end.left} processes"
        were = "was" if end.left == 1 else "were"
        lines.append(f"[{left} left running by it {were} stopped]")
    stopped = "the command and all processes it started were stopped"
    if end.alive:
        stopped = "the command was stopped"
        lines.append(f"[{end.alive} of its processes could not be stopped]")
    elif end.code is None:
        stopped = "the command was killed"
        lines.append(
            "[its supervisor process was killed; some of its processes may still be running]"
        )
    if outcome == "timed_out":
        more = "" if limit >= MAX_TIME_LIMIT else ' (set "timeout" for a longer one)'
        lines.append(f"[time limit of {limit:g} s reached: {stopped}{more}]")
    elif outcome == "interrupted":
        lines.append(f"[interrupted after {seconds:.1f} s: {stopped}]")
    else:
        lines.append(f"[{_code(end.code)}, {seconds:.1f} s]")
    return "\n".join(lines)


def _code(code: int | None) -> str:
    if code is None:
        return "killed"
    if code >= 0:
        return f"exit code {code}"
    import signal

    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"
