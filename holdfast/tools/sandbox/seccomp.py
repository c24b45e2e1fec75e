"""The filter of system calls, as a program for the kernel (classic BPF). Pure.

A denied call fails with EPERM, as it does for a user without rights, and the program continues. The
list has calls that look into other processes, that change mounts, namespaces, clocks or the kernel,
and parts of the kernel in which errors were often found and which tools do not need (io_uring, bpf,
keyrings, userfaultfd, rare protocols).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import cache
from typing import Final, Literal, NamedTuple

from holdfast.kernel.errors import ConfigError

SandboxProfile = Literal["bubblewrap", "landlock"]


class CallTable(NamedTuple):
    """How a processor numbers its system calls."""

    audit: int
    column: int
    """Position of the number in `CALLS`."""
    has_x32: bool
    """Whether calls have a second number, with bit 30 set."""


ARCHITECTURES: Final[Mapping[str, CallTable]] = {
    "x86_64": CallTable(0xC000003E, 0, has_x32=True),
    "aarch64": CallTable(0xC00000B7, 1, has_x32=False),
}

ALWAYS: Final[Mapping[str, tuple[int | None, int | None]]] = {
    # Other processes.
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    # Parts of the kernel with a history of errors.
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "request_key": (249, 218),
    # Mounts and namespaces.
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "mount_setattr": (442, 442),
    "setns": (308, 268),
    "unshare": (272, 97),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "fanotify_init": (300, 262),
    # The machine.
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "iopl": (172, None),
    "ioperm": (173, None),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "move_pages": (279, 239),
    "migrate_pages": (256, 238),
    "lookup_dcookie": (212, 18),
    "nfsservctl": (180, 42),
}
"""Denied calls, with their numbers on x86_64 and aarch64."""

WITHOUT_NAMESPACES: Final[Mapping[str, tuple[int | None, int | None]]] = {
    # Landlock does not restrict these, and the files of the host can be named.
    "chmod": (90, None),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, None),
    "lchown": (94, None),
    "fchownat": (260, 54),
    "utime": (132, None),
    "utimes": (235, None),
    "futimesat": (261, None),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "setxattrat": (463, 463),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
    # Sockets of the host's services can be named, and there is no network of our own.
    "socket": (41, 198),
    "connect": (42, 203),
}

CLONE: Final = (56, 220)
CLONE3: Final = (435, 435)
IOCTL: Final = (16, 29)
SOCKET: Final = (41, 198)
SOCKETPAIR: Final = (53, 199)
UTIMENSAT: Final = (280, 88)

NEW_NAMESPACES: Final = 0x7E020080
"""The flags of `clone` that create a namespace."""
TERMINAL_INPUT: Final = (0x5412, 0x541C)
"""Requests of `ioctl` that type into a terminal: TIOCSTI and TIOCLINUX."""
FAMILIES: Final = (1, 2, 10, 16)
"""Families of sockets that exist per network namespace and that tools need: unix, IPv4, IPv6 and
netlink. AF_VSOCK, which leads to the host of a virtual machine, is not among them."""
SOCK_DGRAM: Final = 2

_DENY: Final = 0x0005_0000 | 1  # SECCOMP_RET_ERRNO, EPERM
_ABSENT: Final = 0x0005_0000 | 38  # ENOSYS: the C library then uses clone, whose flags are visible
_KILL: Final = 0x8000_0000  # SECCOMP_RET_KILL_PROCESS
_ALLOW: Final = 0x7FFF_0000

_LOAD: Final = 0x20
_AND: Final = 0x54
_EQUAL: Final = 0x15
_AT_LEAST: Final = 0x35
_ANY_BIT: Final = 0x45
_RETURN: Final = 0x06

_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16


class BpfInstruction(NamedTuple):
    """One instruction of BPF; the jumps count instructions from the next one."""

    code: int
    true: int
    false: int
    value: int


def program(profile: SandboxProfile, machine: str) -> list[BpfInstruction]:
    """The filter for a machine, as `os.uname().machine` names it."""
    architecture = ARCHITECTURES.get(machine)
    if architecture is None:
        known = " and ".join(ARCHITECTURES)
        raise ConfigError(
            f"there is no system call filter for {machine}: sandboxes need {known}; use "
            "another machine, or run without a sandbox"
        )
    column = architecture.column
    calls = {**ALWAYS, **(WITHOUT_NAMESPACES if profile == "landlock" else {})}
    return [
        BpfInstruction(_LOAD, 0, 0, _ARCHITECTURE),
        BpfInstruction(_EQUAL, 1, 0, architecture.audit),
        BpfInstruction(_RETURN, 0, 0, _KILL),
        BpfInstruction(_LOAD, 0, 0, _NUMBER),
        *([_at_least(0x4000_0000)] if architecture.has_x32 else []),
        *([BpfInstruction(_RETURN, 0, 0, _KILL)] if architecture.has_x32 else []),
        *_refused([number[column] for number in calls.values()], _DENY),
        *_refused([CLONE3[column]], _ABSENT),
        *_examined(CLONE[column], 0, [(_ANY_BIT, NEW_NAMESPACES)]),
        *_examined(IOCTL[column], 1, [(_EQUAL, request) for request in TERMINAL_INPUT]),
        *_sockets(profile, column),
        BpfInstruction(_RETURN, 0, 0, _ALLOW),
    ]


@cache
def encoded(profile: SandboxProfile, machine: str) -> bytes:
    """The filter for a machine, as the kernel reads it."""
    return encode(program(profile, machine))


def encode(instructions: list[BpfInstruction]) -> bytes:
    """The filter as the kernel reads it."""
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)


def _sockets(profile: SandboxProfile, column: int) -> list[BpfInstruction]:
    if profile == "bubblewrap":
        families = [
            BpfInstruction(_EQUAL, len(FAMILIES) - at, 0, f) for at, f in enumerate(FAMILIES)
        ]
        return _block(SOCKET[column], 0, [*families, BpfInstruction(_RETURN, 0, 0, _DENY)])
    # A datagram of a pair can be sent to any socket with a name.
    type_ = [BpfInstruction(_AND, 0, 0, 0xF)]
    return [
        *_examined(SOCKETPAIR[column], 1, [(_EQUAL, SOCK_DGRAM)], type_),
        *_utimensat(column),
    ]


def _utimensat(column: int) -> list[BpfInstruction]:
    """Deny a name; without one, the times are those of an open file."""
    return _block(
        UTIMENSAT[column],
        1,
        [
            BpfInstruction(_EQUAL, 0, 2, 0),
            BpfInstruction(_LOAD, 0, 0, _ARGUMENTS + 8 + 4),
            BpfInstruction(_EQUAL, 1, 0, 0),
            BpfInstruction(_RETURN, 0, 0, _DENY),
        ],
    )


def _at_least(value: int) -> BpfInstruction:
    """Skip the next instruction unless the number is at least this."""
    return BpfInstruction(_AT_LEAST, 0, 1, value)


def _refused(numbers: list[int | None], result: int) -> list[BpfInstruction]:
    known = sorted(number for number in numbers if number is not None)
    found: list[BpfInstruction] = []
    for number in known:
        found += [BpfInstruction(_EQUAL, 0, 1, number), BpfInstruction(_RETURN, 0, 0, result)]
    return found


def _examined(
    number: int,
    argument: int,
    tests: list[tuple[int, int]],
    before: list[BpfInstruction] | None = None,
) -> list[BpfInstruction]:
    """Deny a call if its argument passes one of the tests."""
    found = list(before or ())
    for code, value in tests:
        found += [BpfInstruction(code, 0, 1, value), BpfInstruction(_RETURN, 0, 0, _DENY)]
    return _block(number, argument, found)


def _block(number: int, argument: int, examination: list[BpfInstruction]) -> list[BpfInstruction]:
    """Instructions for one call, with the lower half of an argument loaded; then the number again.

    The kernel reads these arguments as 32 bits. Both processors are little-endian.
    """
    load = BpfInstruction(_LOAD, 0, 0, _ARGUMENTS + 8 * argument)
    again = BpfInstruction(_LOAD, 0, 0, _NUMBER)
    return [
        BpfInstruction(_EQUAL, 0, len(examination) + 1, number),
        load,
        *examination,
        again,
    ]
