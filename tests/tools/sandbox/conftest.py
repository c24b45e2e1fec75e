"""A machine around a sandbox: files, processes and sockets that a command must not reach."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import tempfile
import threading
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from holdfast.tools.sandbox.support import support
from tests.tools.sandbox.contained import CommandServer

USER: Final = 61234
"""A user for the tests, if they run as root."""


class Setting(NamedTuple):
    """A profile, and the user that starts the command."""

    profile: str
    as_root: bool


class Surroundings:
    """A directory for the sandbox, and what is next to it."""

    def __init__(self, setting: Setting, server: CommandServer, stack: ExitStack) -> None:
        self._server = server
        self.profile = setting.profile
        self.user = (USER if not setting.as_root else 0) if not os.geteuid() else 0
        """The user that this process becomes; 0: unchanged."""
        self.owner = USER if not os.geteuid() else os.geteuid()
        self.canary = f"canary-{uuid.uuid4().hex}"
        self.top = Path(tempfile.mkdtemp(prefix="escape-"))
        stack.callback(shutil.rmtree, self.top, ignore_errors=True)
        self.top.chmod(0o755)
        self.work = self.top / "work"
        self.outside = self.top / "outside"
        self._files()
        self.program = self._program()
        self.sockets = _Listeners(self.outside, stack)
        self.victim = self._victim(stack)
        self.before = self.snapshot()

    def _files(self) -> None:
        for folder in (self.work, self.outside, self.work / ".git" / "hooks"):
            folder.mkdir(parents=True)
        for name, mode in (("secret", 0o600), ("public", 0o644)):
            path = self.outside / name
            path.write_text(f"{self.canary}\n")
            path.chmod(mode)
        (self.work / ".git" / "config").write_text("[core]\n")
        (self.work / ".env").write_text(f"{self.canary}\n")
        for path in [self.work, self.outside, *self.work.rglob("*"), *self.outside.rglob("*")]:
            self._own(path)

    def _own(self, path: Path) -> None:
        if not os.geteuid():
            os.chown(path, self.owner, self.owner)

    def _program(self) -> str:
        """Bubblewrap at a path that the user can reach, which this checkout's may not be."""
        program = support().program
        folder = Path(program).parent
        if not program or all(part.stat().st_mode & stat.S_IXOTH for part in folder.parents):
            return program
        libraries = folder.parent.with_name(f"{folder.parent.name}.libs")
        for source in (folder.parent, libraries):
            shutil.copytree(source, self.top / source.name)
        return str(self.top / folder.parent.name / folder.name / "bwrap")

    def _victim(self, stack: ExitStack) -> int:
        """A process of the same user, with a secret in its environment."""
        user = {"user": self.owner, "group": self.owner, "extra_groups": []}
        process = subprocess.Popen(
            ["/bin/sleep", "600"],
            env={"SECRET": self.canary},
            cwd="/",
            **(user if not os.geteuid() else {}),  # type: ignore[call-overload]
        )

        def end() -> None:
            process.kill()
            process.wait()

        stack.callback(end)
        return int(process.pid)

    def snapshot(self) -> dict[str, Any]:
        """Everything of the machine that an attempt could have changed."""
        files = {}
        for path in [self.outside, *sorted(self.outside.rglob("*"))]:
            found = path.lstat()
            content = path.read_bytes() if stat.S_ISREG(found.st_mode) else b""
            files[str(path)] = (found.st_mode, found.st_uid, found.st_mtime_ns, content)
        config = (self.work / ".git" / "config").read_bytes()
        return {
            "files": files,
            "neighbours": sorted(os.listdir(self.top)),
            "hooks": sorted(os.listdir(self.work / ".git" / "hooks")),
            "git config": config,
            "masked": (self.work / ".env").read_bytes(),
            "host": os.uname().nodename,
            "mounts": Path("/proc/self/mounts").read_text(),
            "victim": _state(self.victim),
        }

    def run(self, command: list[str], **policy: Any) -> Result:
        """Run a command in the sandbox."""
        defaults: dict[str, Any] = {"directory": str(self.work), "protected": []}
        if self.profile == "bubblewrap":
            defaults |= {"protected": [".git/hooks", ".git/config"], "masked": [".env", "late"]}
        request = {
            "profile": self.profile,
            "user": self.user,
            "program": self.program,
            "policy": defaults | policy,
            "command": command,
        }
        return Result(**self._server.run(request))

    def variables(self) -> dict[str, str]:
        """What an attempt knows about the machine."""
        return {
            "OUTSIDE": str(self.outside),
            "VICTIM": str(self.victim),
            "TCP": str(self.sockets.tcp),
            "UDP": str(self.sockets.udp),
            "ABSTRACT": self.sockets.abstract,
        }


class Result(NamedTuple):
    code: int
    output: str
    errors: str


class _Listeners:
    """Sockets of services on the machine, each of which remembers that it was reached."""

    def __init__(self, outside: Path, stack: ExitStack) -> None:
        self.reached: list[str] = []
        self.abstract = f"escape-{uuid.uuid4().hex}"
        stream, datagram = socket.SOCK_STREAM, socket.SOCK_DGRAM
        tcp = self._open(stack, "tcp", socket.AF_INET, stream, ("127.0.0.1", 0))
        udp = self._open(stack, "udp", socket.AF_INET, datagram, ("127.0.0.1", 0))
        self._open(stack, "abstract", socket.AF_UNIX, stream, f"\0{self.abstract}")
        self._open(stack, "path", socket.AF_UNIX, stream, str(outside / "stream.sock"))
        self._open(stack, "datagram", socket.AF_UNIX, datagram, str(outside / "datagram.sock"))
        for path in outside.glob("*.sock"):
            path.chmod(0o777)
        self.tcp, self.udp = tcp.getsockname()[1], udp.getsockname()[1]

    def _open(
        self, stack: ExitStack, name: str, family: int, kind: int, address: Any
    ) -> socket.socket:
        listener = socket.socket(family, kind)
        listener.bind(address)
        if kind == socket.SOCK_STREAM:
            listener.listen()

        def accept() -> None:
            with suppress(OSError):
                if kind == socket.SOCK_STREAM:
                    listener.accept()[0].close()
                    self.reached.append(name)
                elif listener.recv(10):
                    self.reached.append(name)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()

        def close() -> None:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
            thread.join(5)

        stack.callback(close)
        return listener


def _state(pid: int) -> str:
    """Whether a process runs, is stopped (T), or has ended (Z)."""
    state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    return "runs" if state in "RSD" else state


def settings() -> list[Any]:
    """Every profile of this machine, started by root and by a user; the rest says why not."""
    found = []
    works = {layer.name: layer for layer in support().layers}
    for profile in ("bubblewrap", "landlock"):
        for as_root in (True, False):
            layer = works[profile]
            marks = []
            if not layer.works:
                marks.append(pytest.mark.skip(reason=f"no {profile} here: {layer.problem}"))
            elif as_root and os.geteuid():
                marks.append(pytest.mark.skip(reason="only root can start a command as root"))
            name = f"{profile}-{'root' if as_root else 'user'}"
            found.append(pytest.param(Setting(profile, as_root), id=name, marks=marks))
    return found


@pytest.fixture(params=settings())
def setting(request: pytest.FixtureRequest) -> Setting:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def command_server() -> Iterator[CommandServer]:
    server = CommandServer()
    yield server
    server.close()


@pytest.fixture
def unprotected(command_server: CommandServer) -> Iterator[Surroundings]:
    """The same machine for a command without a sandbox, run by the same user."""
    with ExitStack() as stack:
        yield Surroundings(Setting("none", as_root=False), command_server, stack)


@pytest.fixture
def surroundings(setting: Setting, command_server: CommandServer) -> Iterator[Surroundings]:
    with ExitStack() as stack:
        yield Surroundings(setting, command_server, stack)
