"""Runs a search in a process of its own, which can be killed: `search_child.py`."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.kernel.errors import ExpectedFailure, ToolFailed
from holdfast.kernel.workspace import PathRefused, Workspace
from holdfast.tools.search_query import SearchQuery
from holdfast.tools.workspace.walk_query import FileSearcher

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from asyncio.subprocess import Process

    from holdfast.tools.workspace.directory import Directory

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
_MAX_QUESTION: Final = 2**20
"""Bytes of a line that the process writes: its result has at most 50,000 characters."""
_PASSED: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""Variables an interpreter may need to start. All others, such as secrets, are not passed."""


async def search_workspace(workspace: Workspace, query: SearchQuery, seconds: float) -> str:
    """Search the files of a workspace. `seconds`: after which the search is ended."""
    if isinstance(workspace, FileSearcher):
        return await workspace.search(query, seconds)
    import asyncio

    process = await _start(-1, seconds)
    assert process.stdin is not None
    assert process.stdout is not None
    async with _ended(process):
        process.stdin.write(_query_line(query))
        try:
            async with asyncio.timeout(seconds):  # the workspace may take it, too
                written = await _answer_questions(workspace, process.stdout, process.stdin)
        except TimeoutError:
            raise _took_too_long(seconds) from None
        return await _result(process, written, seconds)


async def search_directory(directory: Directory, query: SearchQuery, seconds: float) -> str:
    """Search a directory of this machine, which the process reads itself."""
    top = directory.open(".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        process = await _start(top, seconds)
    finally:
        os.close(top)
    assert process.stdin is not None
    assert process.stdout is not None
    async with _ended(process):
        process.stdin.write(_query_line(query))
        return await _result(process, await process.stdout.read(), seconds)


async def _start(top: int, seconds: float) -> Process:
    import asyncio

    return await asyncio.create_subprocess_exec(
        *_command(top, seconds),
        stdin=asyncio.subprocess.PIPE,  # stays open: when it closes, the process ends
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,  # of no use to the user
        limit=_MAX_QUESTION,
        env={name: os.environ[name] for name in _PASSED if name in os.environ},
        pass_fds=() if top < 0 else (top,),
    )


@asynccontextmanager
async def _ended(process: Process) -> AsyncIterator[None]:
    """Wait for the end of the process, even if cancelled."""
    try:
        yield
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


def _query_line(query: SearchQuery) -> bytes:
    return json.dumps(msgspec.structs.asdict(query)).encode() + b"\n"


async def _result(process: Process, written: bytes, seconds: float) -> str:
    code = await process.wait()
    if code == -signal.SIGALRM:
        raise _took_too_long(seconds)
    if code != 0:
        raise ToolFailed(f"the search failed (exit code {code}): try a narrower one")
    answer = json.loads(written)
    if "refused" in answer:
        raise (ExpectedFailure if answer["expected"] else ToolFailed)(answer["refused"])
    return str(answer["text"])


def _took_too_long(seconds: float) -> ToolFailed:
    return ToolFailed(
        f"the search took longer than {seconds:g} s: use a simpler pattern or a narrower path"
    )


# --- For a workspace that the process cannot read -----------------------------------------------


async def _answer_questions(
    workspace: Workspace, questions: StreamReader, answers: StreamWriter
) -> bytes:
    """Answer what the process asks, until it ends with its result, or without one."""
    while line := await questions.readline():
        if not line.startswith(b"["):
            return line
        answer, data = await _answer(workspace, json.loads(line))
        answers.write(json.dumps(answer).encode() + b"\n" + data)
        with suppress(ConnectionError):  # its time is up
            await answers.drain()
    return b""


async def _answer(workspace: Workspace, question: list[Any]) -> tuple[dict[str, Any], bytes]:
    try:
        match question:
            case ["list", str(path), int() | None as most]:
                entries = await workspace.list(path, most)
                return {"entries": [msgspec.structs.asdict(entry) for entry in entries]}, b""
            case ["stat", str(path)]:
                return {"kind": (await workspace.stat(path)).kind}, b""
            case ["read", str(path), int(limit)]:
                data = (await workspace.read(path, limit)).data
                return {"size": len(data)}, data
        raise AssertionError(f"not a question: {question}")
    except PathRefused as refused:
        if question[0] == "read" and refused.code == errno.EFBIG:
            return {}, b""
        words = {"refused": str(refused), "code": refused.code, "expected": refused.expected}
        return words, b""
