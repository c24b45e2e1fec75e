"""Commands: `execute` runs one in a shell, and nothing of it outlives the call."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, Literal

from holdfast.kernel.errors import ConfigError, ToolFailed
from holdfast.kernel.messages import Outcome, Text, ToolResult
from holdfast.kernel.tool import Tool, ToolContext, Values
from holdfast.tools.commands.output import Output, ended
from holdfast.tools.commands.process import End, Process, start
from holdfast.tools.description import description
from holdfast.tools.visible import visible
from holdfast.tools.workspace.directory import Directory

NAME: Final = "execute"
MAX_TIME: Final = 3600.0
"""Seconds that a command may be given."""
MAX_COMMAND: Final = 32 * 1024
"""Characters of a command as it is shown. A person who agrees to it has to have seen all of it."""
SHOW_EVERY: Final = 0.1
"""Seconds between two pieces of output that people are shown."""
LAST_WAIT: Final = 3.0
"""Seconds for the supervisor to stop everything. It takes two at the most."""

QUIET: Final[Mapping[str, str]] = {
    "HOLDFAST": "1",
    "NO_COLOR": "1",
    "TERM": "dumb",
    "PAGER": "cat",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    "EDITOR": "true",
    "VISUAL": "true",
}
"""Set for every command: nobody is there to page, to edit or to answer."""


def execute(
    directory: Directory,
    *,
    approval: Literal["never", "ask"] = "ask",
    time_limit: float = 120.0,
    environ: Mapping[str, str] | None = None,
) -> Tool:
    """The tool that runs commands in a directory: as you, and with no isolation at all.

    `time_limit`: seconds for a command that does not ask for another time. `environ`: variables
    for commands, instead of those of this process; keys of providers are taken out of either.
    """
    if not 0 < time_limit <= MAX_TIME:
        raise ConfigError(f"time_limit is {time_limit!r}: use seconds, at most {MAX_TIME:g}")
    commands = _Commands(directory, time_limit, environ)
    return Tool(
        name=NAME,
        description=description(__file__),
        function=commands.run,
        schema=_schema(time_limit),
        approval=approval,
        label="run a command",
        describe=lambda values: f"Run {_short(values['command'])}",
        validate=commands.validate,
        preview=commands.preview,
    )


class _Commands:
    """What the tool does, from the arguments to the result."""

    def __init__(
        self, root: Directory, time_limit: float, environ: Mapping[str, str] | None
    ) -> None:
        self._root = root
        self._time_limit = time_limit
        self._environ = environ

    def _limit(self, values: Values) -> float:
        return float(min(values.get("timeout") or self._time_limit, MAX_TIME))

    def validate(self, values: Values) -> None:
        _check(values["command"])
        os.close(_open(self._root, values))

    def preview(self, values: Values) -> str:
        where = os.path.normpath(os.path.join(self._root.path, values.get("directory") or "."))
        return (
            "Runs as you, without isolation, "
            f"in {visible(where)}, for at most {self._limit(values):g} s:\n\n"
            f"{visible(values['command'])}"
        )

    async def run(self, context: ToolContext, **values: Any) -> ToolResult:
        environ = os.environ if self._environ is None else self._environ
        process = _start(self._root, values, environ)
        output = Output(self._root)
        limit, began = self._limit(values), time.monotonic()
        try:
            outcome = await _follow(process, output, context, limit)
            end = await process.end()
        finally:
            process.close()
            output.end()
        ending = _ending(outcome, end, time.monotonic() - began, limit)
        said = ended(output.text() or "(no output)") + ending
        seen = output.coloured()
        # The model reads words; what they looked like is kept beside them, for people.
        look = None if seen is None else {"holdfast": {"coloured": ended(seen) + ending}}
        return ToolResult(context.call_id, NAME, (Text(said),), outcome, metadata=look)


def _schema(time_limit: float) -> Mapping[str, Any]:
    where = "Where it begins, relative to the top directory; the top unless given"
    usual = f"Seconds after which it is stopped; {time_limit:g} unless given, at most {MAX_TIME:g}"
    return {
        "type": "object",
        "properties": {
            "command": {"type": "string", "minLength": 1, "description": "What the shell runs"},
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
        raise ToolFailed("a command cannot have a zero byte in it: leave it out")
    if any("\ud800" <= character <= "\udfff" for character in command):
        raise ToolFailed("the command has half of a surrogate pair in it: write it whole")
    if len(visible(command)) > MAX_COMMAND:
        raise ToolFailed(
            f"the command has more than {MAX_COMMAND} characters: write it to a file, and run that"
        )


def _open(root: Directory, values: Values) -> int:
    return root.open(values.get("directory") or ".", os.O_RDONLY | os.O_DIRECTORY)


def _start(root: Directory, values: Values, environ: Mapping[str, str]) -> Process:
    _check(values["command"])
    ready = environment(environ)
    shell = _shell(ready)
    # The command begins in what is opened here, whatever the name means by then.
    folder = _open(root, values)
    try:
        return start(shell, values["command"], folder, ready)
    finally:
        os.close(folder)


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables for a command: without what is secret, and set for nobody's presence.

    Left out are the keys of providers and our own settings, the URL of the database among them, so
    that they do not end up in a log or a model's context by accident. This isolates nothing: a
    command can read whatever its user can, this process's variables too.
    """
    kept = {name: value for name, value in environ.items() if not _is_secret(name)}
    for stale in ("PWD", "OLDPWD"):
        kept.pop(stale, None)
    return {**kept, **QUIET}


def _is_secret(name: str) -> bool:
    return name.startswith("HOLDFAST_") or name == "PGPASSWORD" or name in _keys()


@cache
def _keys() -> frozenset[str]:
    from holdfast.providers.known import PROVIDERS

    return frozenset(key for facts in PROVIDERS.values() for key in facts.keys)


def _shell(environ: Mapping[str, str]) -> str:
    """The shell for commands, never one of the directory that they run in."""
    import shutil

    folders = environ.get("PATH", os.defpath).split(os.pathsep)
    path = os.pathsep.join(folder for folder in folders if os.path.isabs(folder))
    shell = shutil.which("bash", path=path) or shutil.which("sh", path=path)
    if shell is None:
        raise ToolFailed(f"there is neither bash nor sh in {path or 'PATH'}: install one")
    return shell


def _short(command: str, length: int = 80) -> str:
    line = " ".join(visible(command[: 4 * length]).split())
    return line if len(line) <= length else line[: length - 1] + "…"


# --- While it runs ------------------------------------------------------------------------------


async def _follow(process: Process, output: Output, context: ToolContext, limit: float) -> Outcome:
    """Take its output until its end, or make an end of it. Everything has then stopped."""
    outcome: Outcome
    try:
        async with asyncio.timeout(limit):
            await _show(process, output, context)
            return "ok"
    except TimeoutError:
        outcome = "timed_out"
    except asyncio.CancelledError:  # what has come so far is not lost: see the result
        outcome = "interrupted"
    process.stop()
    await _take_rest(process, output)
    return outcome


async def _show(process: Process, output: Output, context: ToolContext) -> None:
    clock = asyncio.get_running_loop().time
    due = clock()
    while True:
        data = await process.read(max(0.0, due - clock()) if output.news else None)
        if data is None:
            output.end()
        else:
            output.feed(data)
        if output.news and (data is None or clock() >= due):
            await context.progress(output.news.take())  # waits for whoever watches to keep up
            due = clock() + SHOW_EVERY
        if data is None:
            return


async def _take_rest(process: Process, output: Output) -> None:
    clock = asyncio.get_running_loop().time
    until = clock() + LAST_WAIT
    while (rest := until - clock()) > 0:
        data = await process.read(rest)
        if data is None:
            return
        output.feed(data)
    process.force()


# --- After its end ------------------------------------------------------------------------------


def _ending(outcome: Outcome, end: End, seconds: float, limit: float) -> str:
    """How it ended, in lines for the model."""
    lines = []
    if end.left:
        left = "1 process" if end.left == 1 else f"{end.left} processes"
        were = "was" if end.left == 1 else "were"
        lines.append(f"[{left} it had left running {were} stopped]")
    stopped = "the command was stopped, with everything that it had started"
    if end.alive:
        stopped = "the command was stopped"
        lines.append(f"[{end.alive} of its processes could not be stopped]")
    elif end.code is None:
        stopped = "the command was killed"
        lines.append("[the process that looks after it was killed; something may still be running]")
    if outcome == "timed_out":
        more = "" if limit >= MAX_TIME else ' (a longer one can be given as "timeout")'
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
