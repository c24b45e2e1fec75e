"""The command line of bubblewrap for a policy. Pure.

Everything in the writable directory is given to bubblewrap as an open descriptor: a name there may
lead elsewhere by the time it is mounted, because an earlier command may still be changing it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal

from msgspec import Struct

from holdfast.tools.sandbox.policy import SandboxPolicy

ISOLATION: Final = (
    *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"),
    *("--disable-userns", "--cap-drop", "ALL", "--die-with-parent", "--new-session"),
    *("--hostname", "sandbox"),
)
NO_NETWORK: Final = "--unshare-net"
DEV_BYTES: Final = 64 * 1024 * 1024
"""Size of `/dev/shm`."""


class SystemPath(Struct, frozen=True):
    """A directory or file of the system that programs need, read-only inside."""

    path: str
    target: str = ""
    """For a symbolic link: its target."""


class BoundPath(Struct, frozen=True):
    """A path of the host that is mounted from an open descriptor."""

    path: str
    descriptor: int
    writable: bool = False


class MaskedPath(Struct, frozen=True):
    """A path that looks empty inside."""

    path: str
    kind: Literal["file", "directory"]


class SandboxView(Struct, frozen=True):
    """The files of the machine that a command sees, as they were found just before its start."""

    system: tuple[SystemPath, ...]
    copied: tuple[BoundPath, ...]
    """Small files of the system, copied into memory: each mount takes longer than that."""
    bound: tuple[BoundPath, ...]
    """In the order of mounting: a later path may be inside an earlier one."""
    masked: tuple[MaskedPath, ...] = ()


def arguments(
    policy: SandboxPolicy,
    view: SandboxView,
    command: Sequence[str],
    *,
    chdir: str,
    seccomp: int,
    own_network: bool = True,
) -> list[str]:
    """The command line, without the program itself.

    `seccomp`: a descriptor with the system call filter. `own_network`: bubblewrap creates a network
    namespace; otherwise the process that starts it has already entered one.
    """
    return [
        *ISOLATION,
        *([NO_NETWORK] if own_network else []),
        *("--seccomp", str(seccomp)),
        *(part for path in view.system for part in _system(path)),
        *(part for path in view.copied for part in _copied(path)),
        *("--proc", "/proc", "--dev", "/dev"),
        *("--size", str(DEV_BYTES), "--perms", "1777", "--tmpfs", "/dev/shm"),
        *("--size", str(policy.limits.temporary), "--perms", "1777", "--tmpfs", "/tmp"),
        *(part for path in view.bound for part in _bound(path)),
        *(part for path in view.masked for part in _masked(path)),
        # In memory, and without a size: nothing more is created there.
        *("--remount-ro", "/dev", "--remount-ro", "/"),
        *("--chdir", chdir, "--", *command),
    ]


def _system(path: SystemPath) -> Iterator[str]:
    if path.target:
        yield from ("--symlink", path.target, path.path)
    else:
        yield from ("--ro-bind", path.path, path.path)


def _copied(path: BoundPath) -> Iterator[str]:
    yield from ("--perms", "0444", "--file", str(path.descriptor), path.path)


def _bound(path: BoundPath) -> Iterator[str]:
    yield from ("--bind-fd" if path.writable else "--ro-bind-fd", str(path.descriptor), path.path)


def _masked(path: MaskedPath) -> Iterator[str]:
    if path.kind == "file":
        yield from ("--ro-bind", "/dev/null", path.path)
    else:
        yield from ("--size", "4096", "--perms", "0555", "--tmpfs", path.path)
        yield from ("--remount-ro", path.path)
