"""`--reload`: restarts the server when a file of the user changes. For development.

A process imports the changed files and reports when it is ready; only then does it replace the one
that serves. So a file with an error leaves the running server as it is. `reloadable_server.py` is
the other side.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, Final

import msgspec

from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.trust_prompt import ensure_trusted_settings
from holdfast.config import ServeOptions
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.escape import escape

TICK: Final = 0.2
"""Seconds between two looks at the files. A file has to be unchanged for one before it is used."""
STOP_WAIT: Final = 20.0
"""Seconds that a process has to end."""


def main(options: ServeOptions) -> int:
    """Serve until a signal; returns the exit code."""
    ensure_trusted_settings(options.settings, options.data)
    return Reloader(options).run()


class WatchedFiles:
    """Files of the user, as they were when a process imported them."""

    def __init__(self) -> None:
        self._known: dict[str, int | None] = {}

    def add(self, paths: Iterable[str], since: int) -> None:
        """Watch more files. A file modified since this time, in nanoseconds, counts as changed."""
        for path in paths:
            if path not in self._known:
                modified = _modified(path)
                late = modified is not None and since < modified <= time.time_ns()
                self._known[path] = None if late else modified

    def changed(self) -> list[str]:
        """The files that are not as they were. From now on they are known as they are."""
        now = {path: _modified(path) for path in self._known}
        changed = [path for path, modified in now.items() if modified != self._known[path]]
        self._known = dict(now)
        return changed


def _modified(path: str) -> int | None:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return None


class ServerProcess:
    """A process that imports the agents, waits for the command to serve, and serves."""

    def __init__(self, options: ServeOptions) -> None:
        self.started = time.time_ns()
        self.ready = self.failed = False
        self._unread = b""
        self.reports, report = os.pipe()
        module = "holdfast.cli.reloadable_server"
        try:
            self._child = subprocess.Popen(
                [sys.executable, "-m", module, str(report)],
                stdin=subprocess.PIPE,
                pass_fds=[report],
                process_group=0,  # Ctrl-C at the terminal is for this process, which passes it on
            )
        finally:
            os.close(report)
        self._tell(msgspec.json.encode(options))

    @property
    def code(self) -> int | None:
        """Its exit code; None while it runs."""
        return self._child.poll()

    def read(self) -> Iterator[Mapping[str, Any]]:
        """The reports that have arrived."""
        os.set_blocking(self.reports, False)
        with suppress(BlockingIOError):
            while data := os.read(self.reports, 65_536):
                self._unread += data
        *lines, self._unread = self._unread.split(b"\n")
        yield from map(msgspec.json.decode, lines)

    def serve(self) -> None:
        self._tell(b"serve")

    def _tell(self, line: bytes) -> None:
        assert self._child.stdin is not None
        with suppress(OSError):  # it has ended, which is noticed elsewhere
            self._child.stdin.write(line + b"\n")
            self._child.stdin.flush()

    def stop(self) -> None:
        """Ask it to end, and wait. Running steps have a short grace period."""
        if self.code is None:
            self._child.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._child.wait(STOP_WAIT)
        self.kill()

    def kill(self) -> None:
        self._child.kill()
        self._child.communicate()
        if self.reports >= 0:
            os.close(self.reports)
            self.reports = -1


class Reloader:
    """Keeps one process serving, and replaces it when files change."""

    def __init__(self, options: ServeOptions) -> None:
        self._options = replace(options, reload=False)
        self._files = WatchedFiles()
        self._serving: ServerProcess | None = None
        self._next: ServerProcess | None = None
        self._signals = 0

    def run(self) -> int:
        with _signals_to(self._on_signal):
            try:
                self._begin()
                while not self._signals:
                    self._wait()
                    self._follow_next()
                    self._follow_serving()
                    self._follow_files()
            finally:
                self._end()
        return ExitCode.FINISHED

    def _on_signal(self) -> None:
        self._signals += 1
        if self._signals > 1:
            for process in (self._next, self._serving):
                if process is not None:
                    process._child.kill()

    def _begin(self) -> None:
        if self._next is not None:
            self._next.kill()
        self._next = ServerProcess(self._options)

    def _wait(self) -> None:
        """Wait for a report, a signal, or the next look at the files."""
        running = [one.reports for one in (self._next, self._serving) if one and one.code is None]
        if select.select(running, [], [], TICK)[0]:
            time.sleep(TICK / 10)  # the pipe of a process that is about to end is always ready

    def _follow_next(self) -> None:
        process = self._next
        if process is None:
            return
        self._take_reports(process)
        if process.ready:
            self._replace(process)
        elif process.failed or process.code is not None:
            self._take_reports(process)
            process.stop()
            self._next = None
            state = "the previous version keeps running, " if self._serving else ""
            say(f"{state}waiting for the next save")

    def _replace(self, process: ServerProcess) -> None:
        before, self._serving, self._next = self._serving, process, None
        if before is not None:
            before.stop()
        process.serve()
        self._options = replace(self._options, open=False, restarted=True)

    def _follow_serving(self) -> None:
        process = self._serving
        if process is None:
            return
        self._take_reports(process)
        if process.code is not None and not self._signals:
            say(f"the server ended with exit code {process.code}, waiting for the next save")
            process.kill()
            self._serving = None

    def _take_reports(self, process: ServerProcess) -> None:
        for report in process.read():
            self._files.add(report.get("files", ()), process.started)
            process.ready = process.ready or report.get("ready", False)
            process.failed = process.failed or report.get("failed", False)
            if listen := report.get("listen"):
                self._options = replace(self._options, listen=listen)

    def _follow_files(self) -> None:
        changed = self._files.changed()
        if not changed:
            return
        time.sleep(TICK)
        while self._files.changed() and not self._signals:  # files that are still being written
            time.sleep(TICK)
        say(f"{name_of_file(changed[0])} changed: restarting")
        try:
            ensure_trusted_settings(self._options.settings, self._options.data)
        except ConfigError as error:
            say(str(error))
        else:
            self._begin()

    def _end(self) -> None:
        for process in (self._next, self._serving):
            if process is not None:
                process.stop()


@contextmanager
def _signals_to(handler: Any) -> Iterator[None]:
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(each, lambda *_: handler()) for each in signals]
    try:
        yield
    finally:
        for each, previous in zip(signals, before, strict=True):
            signal.signal(each, previous)


def name_of_file(path: str) -> str:
    """A file's path for the user, relative to the current directory if it is inside."""
    if os.path.isdir(path):
        return "a directory of your modules"
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def say(text: str) -> None:
    print(f"holdfast: {escape(text)}", file=sys.stderr, flush=True)
