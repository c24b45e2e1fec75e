"""The `search_files` tool. The search runs in a process of its own: `search_child.py`."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from holdfast.kernel.errors import ExpectedFailure, ToolFailed
from holdfast.kernel.tool import Tool, Values
from holdfast.tools.description import description
from holdfast.tools.display_text import on_one_line
from holdfast.tools.workspace.directory import Directory

if TYPE_CHECKING:
    from asyncio.subprocess import Process

TIME_LIMIT: Final = 30.0
SOFT_LIMIT: Final = 0.8
"""Fraction of its time after which a search returns what it has, unless stuck in one line."""
MAX_LABEL: Final = 60

SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "pattern": {
            "type": "string",
            "minLength": 1,
            "maxLength": 2000,
            "description": "A regular expression; with `literal`, plain text.",
        },
        "path": {
            "type": "string",
            "description": "The directory or file to search in. Default: the working directory.",
        },
        "literal": {
            "type": "boolean",
            "description": "Treat the pattern as plain text. Default: false.",
        },
        "glob": {
            "type": "string",
            "maxLength": 500,
            "description": "Only files that match, e.g. `*.py` or `src/**/*.ts`.",
        },
        "ignore_case": {
            "type": "boolean",
            "description": "Ignore case. Default: false.",
        },
        "context": {
            "type": "integer",
            "minimum": 0,
            "maximum": 5,
            "description": "Lines to show before and after each match. Default: 0.",
        },
        "all": {
            "type": "boolean",
            "description": "Include ignored files (.gitignore, .git, node_modules …).",
        },
        "max_results": {
            "type": "integer",
            "minimum": 1,
            "maximum": 1000,
            "description": "Maximum number of matches to show. Default: 100.",
        },
    },
    "required": ["pattern"],
    "additionalProperties": False,
}

_PROGRAM: Final = """
import signal, sys
signal.pthread_sigmask(signal.SIG_SETMASK, ())
signal.signal(signal.SIGALRM, signal.SIG_DFL)
signal.setitimer(signal.ITIMER_REAL, float(sys.argv[1]))
sys.path += sys.argv[3:]
sys.modules["typing_extensions"] = None
from holdfast.tools.search_child import main
main(int(sys.argv[2]))
"""
"""The program of the search process. The system limits its time, which `re` cannot prevent.

msgspec works without typing_extensions, which would take a fifth of the time to start.
"""

_NEEDED: Final = ("holdfast", "msgspec")
_PASSED: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Variables an interpreter may need to start. All others, such as secrets, are not passed."""


def search_files(directory: Directory, *, seconds: float = TIME_LIMIT) -> Tool:
    """The `search_files` tool. `seconds`: time limit of a search."""

    async def run(
        pattern: str,
        path: str = ".",
        literal: bool = False,
        glob: str = "",
        ignore_case: bool = False,
        context: float = 0,
        all: bool = False,
        max_results: float = 100,
    ) -> str:
        query = {
            "pattern": pattern,
            "path": directory.relative(path),
            "literal": literal,
            "glob": glob,
            "ignore_case": ignore_case,
            "context": int(context),  # JSON schema counts 2.0 as an integer
            "all": all,
            "max_results": int(max_results),
            "seconds": SOFT_LIMIT * seconds,
        }
        return await _search(directory, query, seconds)

    return Tool(
        name="search_files",
        description=description(__file__),
        schema=SCHEMA,
        function=run,
        effect="pure",
        describe=label,
    )


def label(values: Values) -> str:
    """Title of a call, for people."""
    pattern, path = values["pattern"], values.get("path", ".")
    short = pattern if len(pattern) <= MAX_LABEL else pattern[: MAX_LABEL - 1] + "…"
    return f"Search for {short!r}" + ("" if path == "." else f" in {on_one_line(path)}")


async def _search(directory: Directory, query: Mapping[str, Any], seconds: float) -> str:
    """Run the search process, and wait for its end, even if cancelled."""
    import asyncio

    top = directory.open(".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        process = await asyncio.create_subprocess_exec(
            *_command(top, seconds),
            stdin=asyncio.subprocess.PIPE,  # stays open: when it closes, the process ends
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,  # of no use to the user
            env={name: os.environ[name] for name in _PASSED if name in os.environ},
            pass_fds=(top,),
        )
    finally:
        os.close(top)
    try:
        return await _answer(process, query, seconds)
    finally:
        if process.returncode is None:
            process.kill()
        assert process.stdin is not None
        process.stdin.close()
        await process.wait()


def _command(top: int, seconds: float) -> list[str]:
    """The command line: isolated, so no module is imported from the directory or environment."""
    options = ("-I", "-S", "-X", "utf8", "-W", "ignore")
    return [sys.executable, *options, "-c", _PROGRAM, str(seconds), str(top), *_found_in()]


def _found_in() -> list[str]:
    """Import paths of our own modules, however installed: the process uses the same."""
    from importlib.util import find_spec

    specs = map(find_spec, _NEEDED)
    files = [spec.origin for spec in specs if spec is not None and spec.origin is not None]
    return list(dict.fromkeys(os.path.dirname(os.path.dirname(os.path.abspath(f))) for f in files))


async def _answer(process: Process, query: Mapping[str, Any], seconds: float) -> str:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(query).encode() + b"\n")
    written = await process.stdout.read()
    code = await process.wait()
    if code == -signal.SIGALRM:
        raise ToolFailed(
            f"the search took longer than {seconds:g} s: use a simpler pattern or a narrower path"
        )
    if code != 0:
        raise ToolFailed(f"the search failed (exit code {code}): try a narrower one")
    answer = json.loads(written)
    if "refused" in answer:
        raise (ExpectedFailure if answer["expected"] else ToolFailed)(answer["refused"])
    return str(answer["text"])
