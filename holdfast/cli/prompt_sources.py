"""The user's prompt: the words of the command line, piped input, and files."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Sequence
from typing import Final

from holdfast.kernel.errors import ConfigError
from holdfast.kernel.messages import File, Prompt, Text

MAX_STDIN: Final = 10 * 1024 * 1024
READ_SIZE: Final = 64 * 1024
PIPE_WAIT: Final = 2.0
"""Seconds of silence on a pipe after which the user is told that we are reading it."""


def prompt_of(words: str, piped: str, files: Sequence[str]) -> Prompt | None:
    """Build the prompt; None if it is empty, which resumes a history as it is.

    Piped input follows the words: `git diff | holdfast run "review this"`.
    """
    words = "" if words.strip() == "-" else words
    text = "\n\n".join(piece for piece in (words.strip(), piped.strip("\n")) if piece.strip())
    attached = [File.from_path(path) for path in files]
    if attached:
        return [*([Text(text)] if text else []), *attached]
    return text or None


def read_stdin(words: str, note: Callable[[str], None]) -> str:
    """Read piped input, if any; `-` reads from a terminal too.

    The null device and other special files count as empty. A silent pipe is waited for, and
    `note` says so.
    """
    explicit = words.strip() == "-"
    if sys.stdin is None:  # closed by the parent process
        return ""
    try:
        descriptor = sys.stdin.fileno()
        mode = os.fstat(descriptor).st_mode
    except (OSError, ValueError):
        return ""
    piped = stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)
    if not (explicit or piped):
        return ""
    if piped and not explicit and not _has_input(descriptor, PIPE_WAIT):
        note("waiting for standard input: close it, or run with < /dev/null")
    data = _read(descriptor)
    if len(data) > MAX_STDIN:
        raise ConfigError(
            f"standard input is larger than {MAX_STDIN:,} bytes: "
            "name its directory with --dir, and let the tools read it"
        )
    return data.decode("utf-8", "replace")


def _read(descriptor: int) -> bytes:
    """Read to the end, or past our limit; also if the pipe was made non-blocking."""
    data = bytearray()
    while len(data) <= MAX_STDIN:
        _has_input(descriptor)
        try:
            chunk = os.read(descriptor, READ_SIZE)
        except BlockingIOError:
            continue
        if not chunk:
            break
        data += chunk
    return bytes(data)


def _has_input(descriptor: int, timeout: float | None = None) -> bool:
    """Whether there is input, or its end, before the time is up."""
    from select import select

    return bool(select([descriptor], [], [], timeout)[0])
