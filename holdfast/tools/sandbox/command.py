"""A command in a sandbox: the plan for its launcher, with everything that it needs opened."""

from __future__ import annotations

import marshal
import os
import resource
import socket
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from msgspec import Struct

from holdfast.kernel.errors import ConfigError, ToolFailed
from holdfast.tools.sandbox import bubblewrap, landlock, seccomp
from holdfast.tools.sandbox.bubblewrap import SandboxView
from holdfast.tools.sandbox.mounts import opened
from holdfast.tools.sandbox.policy import SandboxLimits, SandboxPolicy, inside, variables

NOBODY: Final = 65534
"""The user of commands of a server that runs as root, in a directory that belongs to no user."""
DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")


class PreparedCommand(Struct, frozen=True):
    """A command that can be started: the launcher reads its plan from a descriptor."""

    argv: tuple[str, ...]
    """The command, without what runs it."""
    plan: int
    descriptors: tuple[int, ...]
    """Descriptors that the launcher inherits, the plan among them."""
    channel: socket.socket | None
    """Receives the listening socket inside; None without a network."""


@contextmanager
def in_bubblewrap(
    policy: SandboxPolicy, program: str, command: Sequence[str], chdir: str
) -> Iterator[PreparedCommand]:
    """A command in namespaces of its own. `program`: bubblewrap. `chdir`: where it starts."""
    if not inside(chdir, policy.directory):
        raise ToolFailed(f"{chdir} is outside of the sandbox: start in {policy.directory}")
    with ExitStack() as stack, opened(policy) as view:
        filter_ = seccomp.encoded("bubblewrap", os.uname().machine)
        code = stack.enter_context(_file(filter_))
        binary = os.open(program, os.O_RDONLY | os.O_CLOEXEC)
        stack.callback(os.close, binary)
        channel, theirs = _channel(stack) if policy.network else (None, None)
        argv = bubblewrap.arguments(
            policy, view, command, chdir=chdir, seccomp=code, own_network=theirs is None
        )
        plan = {
            **_plan(policy),
            "program": binary,
            "argv": ["bwrap", *argv],
            "env": variables(policy),
            "keep": [
                code,
                *(path.descriptor for path in (*view.bound, *view.copied)),
            ],
            "network": -1 if theirs is None else theirs.fileno(),
        }
        yield _prepared(command, plan, channel, stack)


@contextmanager
def in_landlock(
    policy: SandboxPolicy, command: Sequence[str], directory: int
) -> Iterator[PreparedCommand]:
    """A command without namespaces of its own. `directory`: descriptor of where it starts."""
    check_landlock(policy)
    with ExitStack() as stack, opened(policy) as view:
        binary = os.open(command[0], os.O_RDONLY | os.O_CLOEXEC)
        stack.callback(os.close, binary)
        temporary, folder = stack.enter_context(_temporary(_user(policy.directory)))
        rules = [
            _rule(folder, writable=True),
            *(_rule(path.descriptor, writable=path.writable) for path in view.bound),
            *_system_rules(view, stack),
        ]
        plan = {
            **_plan(policy),
            "program": binary,
            "argv": list(command),
            "env": variables(policy, temporary),
            "directory": directory,
            "landlock": [[rule.descriptor, rule.rights] for rule in rules],
            "seccomp": seccomp.encoded("landlock", os.uname().machine),
        }
        yield _prepared(command, plan, None, stack)


def _plan(policy: SandboxPolicy) -> dict[str, Any]:
    return {
        "keep": [],
        "directory": -1,
        "user": _user(policy.directory),
        "limits": _limits(policy.limits),
        "processes": policy.limits.processes,
        "network": -1,
        "landlock": [],
        "seccomp": b"",
    }


def _limits(limits: SandboxLimits) -> list[list[int]]:
    return [
        [resource.RLIMIT_CPU, limits.cpu_seconds],
        # Not the size of the address space, of which some runtimes reserve far more than they use.
        [resource.RLIMIT_DATA, limits.memory],
        [resource.RLIMIT_FSIZE, limits.file_size],
        [resource.RLIMIT_NOFILE, limits.open_files],
        [resource.RLIMIT_CORE, 0],
        [resource.RLIMIT_MEMLOCK, 64 * 1024],
        [resource.RLIMIT_MSGQUEUE, 0],
    ]


def check_user(directory: str) -> None:
    """Raises `ConfigError` for a directory in which commands of root could not write."""
    _user(directory)


def _user(directory: str) -> list[int]:
    """The user and group to become; empty unless this process is root's.

    Root's rights on files would remain inside, in a namespace too.
    """
    if os.geteuid():
        return []
    found = os.stat(directory)
    if found.st_uid:
        return [found.st_uid, found.st_gid or NOBODY]
    if not found.st_mode & stat.S_IWOTH:
        raise ConfigError(
            f"{directory} belongs to root, and a sandbox of root's runs as another user: give it "
            f"to one, as in: chown -R nobody {directory}"
        )
    return [NOBODY, NOBODY]


def check_landlock(policy: SandboxPolicy) -> None:
    """Raises `ConfigError` for a policy that needs mounts or a network."""
    missing = [name for name in ("network", "masked", "protected") if getattr(policy, name)]
    if missing:
        names = " and ".join(missing)
        raise ConfigError(
            f"this machine has no user namespaces, and without them a sandbox cannot have {names}: "
            "allow user namespaces for bubblewrap, or set them to ()"
        )


@contextmanager
def _temporary(user: list[int]) -> Iterator[tuple[str, int]]:
    """A directory for temporary files, deleted at the end, and its descriptor."""
    with tempfile.TemporaryDirectory(prefix="sandbox-", ignore_cleanup_errors=True) as path:
        number = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            if user:
                os.chown(path, *user)
            yield path, number
        finally:
            os.close(number)


def _rule(descriptor: int, *, writable: bool) -> landlock.LandlockRule:
    is_file = not stat.S_ISDIR(os.fstat(descriptor).st_mode)
    return landlock.rule(descriptor, writable=writable, is_file=is_file)


def _system_rules(view: SandboxView, stack: ExitStack) -> list[landlock.LandlockRule]:
    system = [path.path for path in view.system]
    readable = [*system, *(path.path for path in view.copied), "/proc"]
    found = []
    for path, writable in [*((path, False) for path in readable), *((d, True) for d in DEVICES)]:
        try:
            number = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        stack.callback(os.close, number)
        found.append(_rule(number, writable=writable))
    return found


def _channel(stack: ExitStack) -> tuple[socket.socket, socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    stack.callback(theirs.close)
    return ours, theirs


@contextmanager
def _file(data: bytes) -> Iterator[int]:
    """A descriptor of an unnamed file with these bytes."""
    with tempfile.TemporaryFile(buffering=0) as file:
        file.write(data)
        file.seek(0)
        yield file.fileno()


def _prepared(
    command: Sequence[str],
    plan: dict[str, Any],
    channel: socket.socket | None,
    stack: ExitStack,
) -> PreparedCommand:
    data = stack.enter_context(_file(marshal.dumps(plan)))
    rules = (descriptor for descriptor, _ in plan["landlock"])
    used = {data, plan["program"], plan["network"], plan["directory"], *plan["keep"], *rules} - {-1}
    return PreparedCommand(tuple(command), data, tuple(sorted(used)), channel)
