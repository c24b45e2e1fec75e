"""A process that lasts gives large blocks of memory back when they are freed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from holdfast.cli.allocator import THRESHOLD_VARIABLE, return_large_blocks

GLIBC = "CS_GNU_LIBC_VERSION" in os.confstr_names
PROGRAM = """
from holdfast.cli.allocator import return_large_blocks

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * 4096

assert return_large_blocks()
before = resident()
bytearray(32_000_000)  # freed: glibc by itself would now cut what is smaller from its heap
blocks = [bytes([1]) * 1_000_000 for _ in range(100)]
kept = [bytes(2_000) for _ in range(100)]  # small blocks behind them
peak = resident()
del blocks
assert peak - before > 90_000_000
print(resident() - before)
"""


@pytest.mark.skipif(not GLIBC, reason="the threshold is glibc's")
def test_memory_is_given_back_after_a_peak() -> None:
    environ = {name: value for name, value in os.environ.items() if name != THRESHOLD_VARIABLE}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environ, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) < 10_000_000


def test_a_threshold_from_the_environment_is_left_alone() -> None:
    assert return_large_blocks({THRESHOLD_VARIABLE: "1048576"})
