"""Tunes how the C library returns memory to the system in a long-running process."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

MMAP_THRESHOLD: Final = 256 * 1024
"""Bytes from which a block is mapped by itself, and unmapped when freed."""
M_MMAP_THRESHOLD: Final = -3
THRESHOLD_VARIABLE: Final = "MALLOC_MMAP_THRESHOLD_"


def return_large_blocks(environ: Mapping[str, str] = os.environ) -> bool:
    """Return large blocks of memory when they are freed. Returns whether the C library does.

    glibc raises its threshold to the largest block that was freed, up to 32 MB. From then on the
    messages of a long chat are cut from heaps, which a small block at their end keeps for good.
    A threshold that is set stays. One from the environment is the operator's, and is left alone.
    """
    if THRESHOLD_VARIABLE in environ:
        return True
    import ctypes  # not needed by a process that does not last

    try:
        return bool(ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD))
    except (AttributeError, OSError):  # another C library
        return False
