"""The rules of Landlock for a policy: which files may be read and written. Pure.

Landlock is the wall where user namespaces are refused. The system calls are made by `launcher.py`.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

MIN_ABI: Final = 6
"""The first version that also keeps signals and abstract sockets inside (Linux 6.12)."""

EXECUTE: Final = 1 << 0
WRITE_FILE: Final = 1 << 1
READ_FILE: Final = 1 << 2
READ_DIRECTORY: Final = 1 << 3
TRUNCATE: Final = 1 << 14
DEVICE: Final = 1 << 15
ALL: Final = (1 << 16) - 1
"""Every right on files of version 5 and later."""

READ: Final = EXECUTE | READ_FILE | READ_DIRECTORY
WRITE: Final = ALL & ~(1 << 6 | 1 << 11)
"""All rights, but not to create character and block devices."""
OF_FILES: Final = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | DEVICE
"""The rights that a file, as opposed to a directory, can have."""

NETWORK: Final = 3
"""Bind and connect of TCP."""
SCOPE: Final = 3
"""Abstract sockets, and signals."""


class LandlockRule(Struct, frozen=True):
    """The rights on what an open descriptor names, and on everything in it."""

    descriptor: int
    rights: int


def rule(descriptor: int, *, writable: bool, is_file: bool) -> LandlockRule:
    rights = WRITE if writable else READ
    return LandlockRule(descriptor, rights & OF_FILES if is_file else rights)
