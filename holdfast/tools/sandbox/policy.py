"""What a sandboxed command may use: directories, hosts, limits. Pure."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Final

from msgspec import Struct, field

from holdfast.kernel.errors import ConfigError

PROTECTED: Final = (".git/hooks", ".git/config")
"""Paths that other programs run or obey later: a command could leave code there for you to run."""
PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

RESERVED: Final = ("/proc", "/dev", "/sys", "/run", "/var/run")
"""Directories of the host that are never mounted: devices, kernel files, sockets of services."""
SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/boot")

_HOST: Final = re.compile(
    r"(?:\*\.)?(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
    r"(?::[0-9]{1,5})?",
    re.ASCII,
)
_MiB: Final = 1024 * 1024


class SandboxMount(Struct, frozen=True):
    """A directory or file of the host that is visible inside, at the same path."""

    path: str
    writable: bool = False


class SandboxLimits(Struct, frozen=True, kw_only=True):
    """Limits of one command. Each process has its own limit of CPU time, memory and file size."""

    cpu_seconds: int = 3600
    memory: int = 4096 * _MiB
    """Bytes of memory that a process may allocate."""
    file_size: int = 4096 * _MiB
    """Bytes of the largest file that can be written."""
    processes: int = 512
    """Number of processes and threads."""
    open_files: int = 4096
    temporary: int = 256 * _MiB
    """Bytes of all files in `/tmp`, which is in memory and private to the command."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            if getattr(self, name) <= 0:
                raise ConfigError(
                    f"the sandbox limit {name} is {getattr(self, name)}: use a positive number"
                )


class SandboxPolicy(Struct, frozen=True, kw_only=True):
    """The policy of a sandbox: everything that it does not name is refused."""

    directory: str
    """The writable directory, at the same path inside."""
    mounts: tuple[SandboxMount, ...] = ()
    """More of the host. Sockets do not belong there: a service acts with its own rights."""
    network: tuple[str, ...] = ()
    """Hosts that are reachable, as `pypi.org`, `*.example.com` or `example.com:8443`. Empty: no
    network. Without a port, 80 and 443 are allowed."""
    limits: SandboxLimits = SandboxLimits()
    environ: Mapping[str, str] = field(default_factory=dict)
    """All variables inside, in addition to `PATH`, `HOME` and `TMPDIR`, which have defaults."""
    masked: tuple[str, ...] = ()
    """Files and directories that look empty inside, such as `.env`; relative to `directory`."""
    protected: tuple[str, ...] = PROTECTED
    """Files and directories that are read-only inside; relative to `directory`."""

    def __post_init__(self) -> None:
        _check_path("directory", self.directory)
        for mount in self.mounts:
            _check_path("mount", mount.path)
        for name in ("masked", "protected"):
            for path in getattr(self, name):
                _check_relative(name, path)
        for host in self.network:
            _check_host(host)


def inside(path: str, directory: str) -> bool:
    """Whether a path is the directory or in it, by its names alone."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def variables(policy: SandboxPolicy, temporary: str = "/tmp") -> dict[str, str]:
    """The environment inside."""
    defaults = {"PATH": PATH, "HOME": temporary, "TMPDIR": temporary}
    return {**defaults, **policy.environ}


def _check_path(what: str, path: str) -> None:
    problem = ""
    if not os.path.isabs(path) or os.path.normpath(path) != path:
        problem = "is not an absolute path without '.' and '..'"
    elif path == "/" or any(inside(path, each) for each in RESERVED):
        problem = "must not be visible inside"
    elif what == "directory" and any(inside(path, each) for each in SYSTEM):
        problem = "is a directory of the system"
    if problem:
        raise ConfigError(f"the sandbox {what} {path!r} {problem}: name another directory")


def _check_relative(what: str, path: str) -> None:
    names = path.split("/")
    if not path or "\0" in path or any(name in ("", ".", "..") for name in names):
        raise ConfigError(
            f"the sandbox {what} path {path!r} is not relative to the directory: write it without "
            "'.', '..' and a slash at either end, as '.git/hooks'"
        )


def _check_host(host: str) -> None:
    if not _HOST.fullmatch(host) or re.fullmatch(r"[0-9.]+(?::\d+)?", host):
        raise ConfigError(
            f"{host!r} is not a host name in lower case: use one such as pypi.org, *.example.com "
            "or example.com:8443"
        )
