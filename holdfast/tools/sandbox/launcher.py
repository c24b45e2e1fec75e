"""Turns a process, just forked, into the first program of a sandbox.

It is loaded by its path: it imports almost nothing, and no other module of Holdfast. Everything was
decided before, in a plan: a dictionary of plain values, received through a file (`marshal`, since
both ends are the same interpreter).

    program     descriptor of the program
    argv, env   of the program
    keep        descriptors that it inherits, besides 0, 1 and 2
    directory   descriptor of the directory to start in; -1: the top, as the program enters another
    user        [uid, gid] to become; empty: unchanged
    limits      [[resource, value]]
    processes   maximum number of processes, besides those that the user has already
    network     descriptor of a socket: enter a new network, and send a listening socket of it there
    landlock    [[descriptor, rights]]; empty: none
    seccomp     the filter; empty: none

The steps are in the only order that works: the user first, since Landlock does not bind root, and
the filter last, since it refuses the calls of the other steps.
"""

from __future__ import annotations

# All here: the standard library may be out of reach for the user that this process becomes.
import _socket
import ctypes
import fcntl
import marshal
import os
import resource
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final

    Plan = dict[str, Any]

FAILED: Final = "the sandbox could not be entered"
"""The beginning of the message if a step fails."""
PORT: Final = 3128
"""Port of the proxy inside, on 127.0.0.1."""

_PR_SET_DUMPABLE: Final = 4
_PR_SET_SECCOMP: Final = 22
_PR_SET_NO_NEW_PRIVS: Final = 38
_CLONE_NEWUSER: Final = 0x10000000
_CLONE_NEWNET: Final = 0x40000000
_SIOCSIFFLAGS: Final = 0x8914
_IFF_UP: Final = 1
_LANDLOCK_CREATE: Final = 444
_LANDLOCK_ADD: Final = 445
_LANDLOCK_RESTRICT: Final = 446
_LANDLOCK_FILES: Final = (1 << 16) - 1
_LANDLOCK_NETWORK: Final = 3
_LANDLOCK_SCOPE: Final = 3


def read_plan(descriptor: int) -> Plan:
    """The plan in a file, which is closed."""
    with open(descriptor, "rb") as file:
        plan: Plan = marshal.load(file)
    return plan


def enter(plan: Plan, report: int = -1) -> None:
    """Become the program, inside the sandbox. Returns only by raising OSError, with the step.

    `report`: a descriptor that stays open until then.
    """
    step = "descriptors"
    try:
        _close_others(plan, report)
        for step, action in STEPS:  # noqa: B007 (for the error)
            action(plan)
        step = "program"
        os.execve(plan["program"], plan["argv"], plan["env"])
    except OSError as error:
        raise OSError(error.errno, f"{step}: {error.strerror}") from error


def _close_others(plan: Plan, report: int) -> None:
    rules = (descriptor for descriptor, _ in plan["landlock"])
    kept = {0, 1, 2, report, plan["program"], plan["directory"], plan["network"], *plan["keep"]}
    kept = {*kept, *rules} - {-1}
    previous = -1
    for descriptor in sorted(kept):
        if descriptor > previous + 1:  # Python closes every descriptor if the range is empty at 0
            os.closerange(previous + 1, descriptor)
        previous = descriptor
    os.closerange(previous + 1, os.sysconf("SC_OPEN_MAX"))
    for descriptor in kept:
        os.set_inheritable(descriptor, descriptor < 3 or descriptor in plan["keep"])


def _start_in(plan: Plan) -> None:
    if plan["directory"] >= 0:
        os.fchdir(plan["directory"])
    else:
        os.chdir("/")


def _be_killed_first(plan: Plan) -> None:
    """If memory runs out, the system ends our processes before those of others."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        pass  # a kernel without it


def _drop_user(plan: Plan) -> None:
    if plan["user"]:
        uid, gid = plan["user"]
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        _prctl(_PR_SET_DUMPABLE, 1)  # otherwise our files in /proc belong to root


def _limit(plan: Plan) -> None:
    for number, value in plan["limits"]:
        _lower(number, value)
    if plan["processes"]:
        _lower(resource.RLIMIT_NPROC, plan["processes"] + _running(os.getuid()))


def _lower(number: int, value: int) -> None:
    hard = resource.getrlimit(number)[1]
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(number, (value, value))


def _running(uid: int) -> int:
    """Number of threads that a user has: the limit of processes counts them, too."""
    count = 0
    for name in os.listdir("/proc"):
        if name.isdecimal():
            try:
                if os.stat(f"/proc/{name}").st_uid == uid:
                    count += os.stat(f"/proc/{name}/task").st_nlink - 2
            except OSError:
                pass  # it has just ended
    return count


def _enter_network(plan: Plan) -> None:
    """Enter a network namespace without any connection but loopback.

    The socket of the proxy is created here, inside, and accepted by its process, outside: so no
    process and no program has to relay between them.
    """
    if plan["network"] < 0:
        return
    uid, gid = os.getuid(), os.getgid()
    _checked(_libc().unshare(_CLONE_NEWUSER | _CLONE_NEWNET))
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{uid} {uid} 1")
    _write("/proc/self/gid_map", f"{gid} {gid} 1")
    listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    fcntl.ioctl(listener.fileno(), _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP))
    listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", PORT))
    listener.listen(128)
    channel = _socket.socket(fileno=plan["network"])
    sent = struct.pack("i", listener.fileno())
    channel.sendmsg([b"."], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, sent)])
    listener.close()
    channel.close()


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def _refuse_new_rights(plan: Plan) -> None:
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def _landlock(plan: Plan) -> None:
    if not plan["landlock"]:
        return
    number, pointer = ctypes.c_long, ctypes.byref
    syscall = _libc().syscall
    handled = (ctypes.c_uint64 * 3)(_LANDLOCK_FILES, _LANDLOCK_NETWORK, _LANDLOCK_SCOPE)
    ruleset = _checked(
        syscall(number(_LANDLOCK_CREATE), pointer(handled), ctypes.c_size_t(24), number(0))
    )
    for descriptor, rights in plan["landlock"]:
        path = ctypes.create_string_buffer(
            rights.to_bytes(8, sys.byteorder) + descriptor.to_bytes(4, sys.byteorder), 12
        )
        # 1: a rule on a path and everything in it.
        _checked(syscall(number(_LANDLOCK_ADD), number(ruleset), number(1), path, number(0)))
    _checked(syscall(number(_LANDLOCK_RESTRICT), number(ruleset), number(0)))
    os.close(ruleset)


def landlock_abi() -> int:
    """The version of Landlock that the kernel has; 0 without it."""
    number = ctypes.c_long
    version = 1  # the flag that asks for it
    found = _libc().syscall(number(_LANDLOCK_CREATE), None, ctypes.c_size_t(0), number(version))
    return max(0, int(found))


def _seccomp(plan: Plan) -> None:
    code = plan["seccomp"]
    if not code:
        return

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    buffer = ctypes.create_string_buffer(code, len(code))
    program = Program(len(code) // 8, ctypes.addressof(buffer))
    _prctl(_PR_SET_SECCOMP, 2, ctypes.addressof(program))


def _prctl(option: int, value: int, more: int = 0) -> None:
    word = ctypes.c_ulong
    _checked(_libc().prctl(option, word(value), word(more), word(0), word(0)))


def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


STEPS: Final[tuple[tuple[str, Callable[[Plan], None]], ...]] = (
    ("memory", _be_killed_first),
    ("user", _drop_user),
    ("directory", _start_in),
    ("network", _enter_network),
    ("limits", _limit),
    ("no new rights", _refuse_new_rights),
    ("landlock", _landlock),
    ("seccomp", _seccomp),
)


def main(descriptor: int) -> None:
    try:
        enter(read_plan(descriptor))
    except OSError as error:
        sys.stderr.write(f"{FAILED}: {error.strerror}\n")
    os._exit(127)


if __name__ == "__main__":
    main(int(sys.argv[1]))
