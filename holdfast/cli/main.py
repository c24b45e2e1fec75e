"""The program: finds the verb, calls it, and turns whatever goes wrong into words and a code."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from typing import Any, Final

from holdfast.cli.arguments import VERBS, parse
from holdfast.cli.codes import ExitCode
from holdfast.cli.terminal import drop, safe
from holdfast.cli.verbs.parser import UsageError

MOMENT: Final = 0.1
"""Seconds for a thread that is about to end."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program. Never raises: the exit code says how it ended."""
    try:
        _ready_streams()
        code = _run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
    except BaseException as error:
        code, words = told(error)
        if code is ExitCode.INTERRUPTED and argv is None:
            _hush()
        _end(code, words, error)
    if argv is None:
        _leave_threads(code)
    return code


def _run(argv: Sequence[str]) -> int:
    try:
        verb, said = parse(argv)
        return VERBS[verb].call(said, os.environ)
    except SystemExit as left:  # by --help and --version, and by whatever code a user's tool is
        if left.code is None or isinstance(left.code, int):
            return left.code or 0
        print(left.code, file=sys.stderr)
        return ExitCode.FAILED


# --- What went wrong ----------------------------------------------------------------------------


def told(error: BaseException) -> tuple[ExitCode, str]:
    """The one table of what ends the program: its exit code, and what a person is told."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]  # a task group around what happened says nothing more
    match error:
        case UsageError():
            return ExitCode.USAGE, str(error)
        case KeyboardInterrupt():
            return ExitCode.INTERRUPTED, "interrupted"
        case BrokenPipeError():  # on our own streams: nothing else lets it out
            return ExitCode.READER_GONE, ""
        case OSError():
            return ExitCode.FAILED, _of_the_system(error)
    from holdfast.kernel.errors import ConfigError, HoldfastError

    match error:
        case ConfigError():
            return ExitCode.USAGE, str(error)
        case HoldfastError():
            refused = getattr(error, "kind", "") == "unauthenticated"
            return ExitCode.FAILED, _LET_IN if refused else str(error)
    what = " ".join(f"{type(error).__name__}: {error}".split())
    return ExitCode.FAILED, f"this is a bug: {what} (HOLDFAST_DEBUG=1 shows where)"


_LET_IN: Final = (
    "the server does not take this token (wrong, expired or revoked): say --token, or set "
    "HOLDFAST_TOKEN; where the server is, `holdfast token` makes one"
)
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})


def _of_the_system(error: OSError) -> str:
    why = error.strerror or str(error) or type(error).__name__
    if error.filename is not None:
        return f"{error.filename}: {why}"
    return f"the output cannot be written: {why}" if error.errno in _FULL else why


def _end(code: ExitCode, words: str, error: BaseException) -> None:
    try:
        if code is ExitCode.FAILED:
            _debug(error)
        if words:
            print(f"holdfast: {safe(words)}", file=sys.stderr, flush=True)
    except OSError:
        drop(sys.stderr)
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        drop(sys.stdout)


def _hush() -> None:
    """What was cut off in the middle complains when it is thrown away, and that is no news: a
    connection to PostgreSQL that was being made, for example."""
    logging = sys.modules.get("logging")
    if logging is not None:
        logging.getLogger("asyncio").disabled = True


def _leave_threads(code: int) -> None:
    """End at once if a tool has left a thread behind: nobody can stop it, and Python waits for it.

    That is for the program alone. Whoever calls `main` with arguments has threads of their own.
    """
    threading = sys.modules.get("threading")
    if threading is None:  # nobody has started any
        return
    main = threading.main_thread()
    others = [one for one in threading.enumerate() if one is not main and not one.daemon]
    for one in others:
        one.join(MOMENT)
    if any(one.is_alive() for one in others):
        os._exit(code)


def _debug(error: BaseException) -> None:
    from holdfast.config import wants_debug

    if wants_debug(os.environ):
        from traceback import print_exception

        print_exception(error)


# --- The standard streams -----------------------------------------------------------------------


def _ready_streams() -> None:
    """Whatever the streams are, writing to them raises nothing but an OSError.

    One that is closed becomes the null device: no file that is opened later gets its number.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(null, mode, closefd=False))  # it lasts as long as we do
    stdout: Any = sys.stdout
    if getattr(stdout, "errors", None) == "strict":
        stdout.reconfigure(errors="replace")
