"""The process that `--reload` replaces: imports the agents, reports its files, and then serves.

It reads its options and commands from standard input, and ends when that is closed: it does not
outlive `reload.py`, which starts it.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
import sysconfig
import threading
from collections.abc import Iterator
from typing import Final, TextIO
from urllib.parse import urlsplit

import msgspec
from msgspec import structs

from holdfast.cli import main as program
from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.serve import run_until_stopped
from holdfast.cli.serve_config import ServeConfig, resolve_config
from holdfast.cli.settings_trust import SETTINGS_FILE
from holdfast.cli.user_modules import is_users
from holdfast.config import ServeOptions

GRACE: Final = 2.0
"""Seconds that running steps have when the process is replaced. The rest is done by the next."""
REPORT_INTERVAL: Final = 1.0
"""Seconds between two reports of files, which may be imported late."""
LIBRARIES: Final = tuple(
    sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")
)
"""Directories of files that are not the user's."""


def main(report: TextIO) -> int:
    """Import, wait for the command, and serve; returns the exit code."""
    sys.dont_write_bytecode = True  # compiled files are compared by the second: edits are faster
    options = msgspec.json.decode(sys.stdin.buffer.readline(), type=ServeOptions)
    reporter = FileReporter(report, options)
    try:
        config = resolve_config(options, os.environ)
    except BaseException as error:
        code, words = program.describe_error(error)
        print(f"holdfast: {words}", file=sys.stderr, flush=True)
        reporter.failed(error)
        return code
    reporter.send(ready=True)
    if sys.stdin.buffer.readline() != b"serve\n":
        return ExitCode.FINISHED
    threading.Thread(target=reporter.follow, daemon=True).start()
    with config.telemetry.logging():
        asyncio.run(
            run_until_stopped(_shortened(config), lambda url: reporter.listens(config, url))
        )
    return ExitCode.FINISHED


def _shortened(config: ServeConfig) -> ServeConfig:
    """The configuration with a short grace period: a developer waits for the restart."""
    worker = config.settings.worker
    worker = structs.replace(worker, grace=min(worker.grace, GRACE))
    return config._replace(settings=structs.replace(config.settings, worker=worker))


class FileReporter:
    """Reports to `reload.py`, as lines of JSON."""

    def __init__(self, stream: TextIO, options: ServeOptions) -> None:
        self._stream = stream
        self._settings = os.path.abspath(options.settings or SETTINGS_FILE)
        self._sent: set[str] = set()

    def send(self, **facts: object) -> None:
        """Send facts, with the files of the user that were not sent yet."""
        files = {self._settings, *loaded_files()} - self._sent
        self._sent |= files
        if files or facts:
            line = msgspec.json.encode({"files": sorted(files), **facts}).decode()
            print(line, file=self._stream, flush=True)

    def failed(self, error: BaseException) -> None:
        """Report an import that failed: also the files of its traceback, and new files count."""
        files = {*files_of_error(error)}
        files |= {os.path.dirname(path) for path in files | set(loaded_files())} | {os.getcwd()}
        line = msgspec.json.encode({"files": sorted(files)}).decode()
        print(line, file=self._stream, flush=True)
        self.send(failed=True)

    def listens(self, config: ServeConfig, url: str) -> None:
        """Report the address, so that the next process takes the same free port."""
        if url and config.listen[1] == 0 and (port := urlsplit(url).port) is not None:
            self.send(listen=f"{config.listen[0]}:{port}")

    def follow(self) -> None:
        """Report files that are imported late. Stop this process when standard input is closed."""
        while not select.select([sys.stdin], [], [], REPORT_INTERVAL)[0]:
            self.send()
        os.kill(os.getpid(), signal.SIGTERM)


def loaded_files() -> Iterator[str]:
    """The files of the modules that are the user's."""
    for module in tuple(sys.modules.values()):
        path = getattr(module, "__file__", None)
        if isinstance(path, str) and is_users(path) and not path.startswith(LIBRARIES):
            yield os.path.abspath(path)


def files_of_error(error: BaseException) -> Iterator[str]:
    """The user's files in the traceback of an error, and in those of its causes."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, SyntaxError) and seen.filename:
            yield os.path.abspath(seen.filename)
        trace = seen.__traceback__
        while trace is not None:
            path = trace.tb_frame.f_code.co_filename
            if is_users(path) and os.path.isfile(path) and not path.startswith(LIBRARIES):
                yield os.path.abspath(path)
            trace = trace.tb_next
        seen = seen.__cause__ or seen.__context__


if __name__ == "__main__":
    with os.fdopen(int(sys.argv[1]), "w", encoding="utf-8") as reports:
        try:
            sys.exit(main(reports))
        except Exception as error:
            code, words = program.describe_error(error)
            print(f"holdfast: {words}", file=sys.stderr, flush=True)
            sys.exit(code)
