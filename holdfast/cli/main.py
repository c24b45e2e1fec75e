"""Entry point of the program: runs a verb, and turns errors into a message and an exit code."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from typing import Any, Final

from holdfast.cli.command_line import VERBS, parse
from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.output_stream import drop
from holdfast.cli.parsers.argument_parser import UsageError
from holdfast.kernel.escape import escape

THREAD_WAIT: Final = 0.1
"""Seconds to wait for a thread that is about to end."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code. Never raises."""
    try:
        _ready_streams()
        code = _run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
    except BaseException as error:
        code, words = describe_error(error)
        if code is ExitCode.INTERRUPTED and argv is None:
            _silence_asyncio()
        _end(code, words, error)
    if argv is None:
        _leave_threads(code)
    return code


def _run(argv: Sequence[str]) -> int:
    try:
        verb, arguments = parse(argv)
        return VERBS[verb].call(arguments, os.environ)
    except SystemExit as left:  # by --help, --version or a user's tool
        if left.code is None or isinstance(left.code, int):
            return left.code or 0
        print(left.code, file=sys.stderr)
        return ExitCode.FAILED


# --- What went wrong ----------------------------------------------------------------------------


def describe_error(error: BaseException) -> tuple[ExitCode, str]:
    """The exit code and the message for an error that ended the program."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]  # a task group adds no information
    match error:
        case UsageError():
            return ExitCode.USAGE, str(error)
        case KeyboardInterrupt():
            return ExitCode.INTERRUPTED, "interrupted"
        case BrokenPipeError():  # on our own streams: others are handled
            return ExitCode.READER_GONE, ""
        case OSError():
            return ExitCode.FAILED, _of_the_system(error)
    from holdfast.kernel.errors import ConfigError, HoldfastError

    match error:
        case ConfigError():
            return ExitCode.USAGE, str(error)
        case HoldfastError():
            refused = getattr(error, "kind", "") == "unauthenticated"
            return ExitCode.FAILED, _TOKEN_REJECTED if refused else str(error)
    what = " ".join(f"{type(error).__name__}: {error}".split())
    return ExitCode.FAILED, f"internal error: {what} (HOLDFAST_DEBUG=1 prints a traceback)"


_TOKEN_REJECTED: Final = (
    "the server rejected this token (wrong, expired or revoked): use --token, or set "
    "HOLDFAST_TOKEN; `holdfast token` on the server's machine creates one"
)
_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF})


def _of_the_system(error: OSError) -> str:
    why = error.strerror or str(error) or type(error).__name__
    if error.filename is not None:
        return f"{error.filename}: {why}"
    return f"cannot write the output: {why}" if error.errno in _FULL else why


def _end(code: ExitCode, words: str, error: BaseException) -> None:
    try:
        if code is ExitCode.FAILED:
            _debug(error)
        if words:
            print(f"holdfast: {escape(words)}", file=sys.stderr, flush=True)
    except OSError:
        drop(sys.stderr)
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        drop(sys.stdout)


def _silence_asyncio() -> None:
    """Disable asyncio's warnings about objects discarded by the interruption, such as a
    PostgreSQL connection that was being opened."""
    logging = sys.modules.get("logging")
    if logging is not None:
        logging.getLogger("asyncio").disabled = True


def _leave_threads(code: int) -> None:
    """Exit at once if a tool left a thread running, which Python would wait for.

    Only in the program: a caller of `main` with arguments may have threads of its own.
    """
    threading = sys.modules.get("threading")
    if threading is None:  # no thread was started
        return
    main = threading.main_thread()
    others = [one for one in threading.enumerate() if one is not main and not one.daemon]
    for one in others:
        one.join(THREAD_WAIT)
    if any(one.is_alive() for one in others):
        os._exit(code)


def _debug(error: BaseException) -> None:
    from holdfast.config import wants_debug

    if wants_debug(os.environ):
        from traceback import print_exception

        print_exception(error)


# --- The standard streams -----------------------------------------------------------------------


def _ready_streams() -> None:
    """Make the standard streams safe: writing to them raises nothing but an OSError.

    A closed stream becomes the null device, so no file opened later gets its number.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            null = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, os.fdopen(null, mode, closefd=False))  # it lasts as long as we do
    stdout: Any = sys.stdout
    if getattr(stdout, "errors", None) == "strict":
        stdout.reconfigure(errors="replace")
