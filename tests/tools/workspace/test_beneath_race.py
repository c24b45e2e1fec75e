"""Another process turns a directory into a link to the outside and back while paths are used."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from holdfast.kernel.workspace import PathRefused
from holdfast.tools.workspace.directory import Directory
from holdfast.tools.workspace.openat import Opener, openat2, opener, walk

TRIES: Final = 10_000
SEEN: Final = 100
"""Of each outcome at least so many, or there was no race."""
SECRET: Final = b"secret"
INSIDE: Final = b"inside"
OPENERS: Final = [
    pytest.param(
        openat2, id="openat2", marks=pytest.mark.skipif(opener() is walk, reason="no openat2 here")
    ),
    pytest.param(walk, id="walk"),
]

SWAP: Final = """
import ctypes, os, select, sys
outside = sys.argv[1]
libc = ctypes.CDLL(None, use_errno=True)
def exchange():
    if sys.platform == "darwin":
        failed = libc.renamex_np(b"dir", b"link", 2)
    else:
        failed = libc.renameat2(-100, b"dir", -100, b"link", 2)
    if failed:
        sys.exit(77)
exchange()
exchange()
print("ready", flush=True)
swaps = 0
while not select.select([sys.stdin], [], [], 0)[0]:
    for _ in range(10):
        exchange()
        os.symlink(outside, "next")
        os.rename("next", "file")
        exchange()
        with open("next", "w") as file:
            file.write("inside")
        os.rename("next", "file")
        swaps += 2
print(swaps)
"""


@pytest.fixture
def scratch() -> Iterator[Path]:
    """In memory, where there is such a place: there nothing waits for a disk."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as path:
        yield Path(path).resolve()


@pytest.fixture
def top(scratch: Path) -> Path:
    """`dir` and `file` are inside, or lead outside, as it happens."""
    (scratch / "outside").mkdir()
    (scratch / "outside" / "file").write_bytes(SECRET)
    top = scratch / "top"
    (top / "dir" / "sub").mkdir(parents=True)
    (top / "dir" / "file").write_bytes(INSIDE)
    (top / "file").write_bytes(INSIDE)
    (top / "link").symlink_to("../outside")
    return top


@contextmanager
def swapping(top: Path, target: str) -> Iterator[None]:
    """Swap as fast as another process can. `target`: what the link for the file leads to."""
    command = [sys.executable, "-c", SWAP, target]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=top, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                pytest.skip("two names cannot be exchanged here")
            yield
        finally:
            swaps, _ = process.communicate(timeout=30)  # the end of its input ends it
    print(f"{int(swaps):,} swaps")
    assert int(swaps) > 5 * SEEN


def race(act: Callable[[int], str], tries: int = TRIES) -> None:
    """How an act ended, over many tries and until both ends were seen often enough."""
    seen: Counter[str] = Counter()
    number = 0
    while number < tries or (min(seen["done"], seen["refused"]) < SEEN and number < 5 * TRIES):
        seen[act(number)] += 1
        number += 1
    print(dict(seen))
    assert not seen["confused"]
    assert seen["done"] >= SEEN
    assert seen["refused"] >= SEEN


@pytest.mark.parametrize("way", OPENERS)
def test_nothing_outside_is_read_in_a_race(top: Path, way: Opener) -> None:
    paths = ("dir/file", "file", "dir/sub/../file", "dir/../dir/file", "dir/../file")

    def read(number: int) -> str:
        try:
            data = directory.read(paths[number % len(paths)], 100).data
        except PathRefused as refusal:
            return "refused" if refusal.code == errno.EXDEV else "confused"
        assert data == INSIDE
        return "done"

    with Directory(top, opener=way) as directory, swapping(top, "../outside/file"):
        race(read)


@pytest.mark.parametrize("way", OPENERS)
def test_nothing_outside_is_written_in_a_race(top: Path, way: Opener) -> None:
    def write(number: int) -> str:
        try:
            match number % 10:
                case 0:
                    directory.write(f"dir/made{number}/new", INSIDE)
                case 1:
                    os.close(directory.create(f"dir/new{number}"))
                case 2 | 3 | 4:
                    directory.write("file", INSIDE)
                case 5:
                    directory.write("dir/sub/../new", INSIDE)
                case _:
                    directory.write("dir/new", INSIDE)
        except PathRefused:
            return "refused"
        return "done"

    with Directory(top, opener=way) as directory, swapping(top, "../outside/new"):
        race(write)
    outside = top.parent / "outside"
    assert {path.name: path.read_bytes() for path in outside.iterdir()} == {"file": SECRET}
    left = [path for path in top.rglob("*") if path.name.endswith(".tmp")]
    assert left == []


def test_a_check_before_opening_runs_the_same_race(top: Path) -> None:
    """What the others are measured against. Whether it loses is chance, and so only told."""
    escapes = 0

    def check_then_open(number: int) -> str:
        nonlocal escapes
        path = top / "dir" / "file"
        try:
            real = os.path.realpath(path)
        except OSError:  # even the check is confused by a link that is one no more
            return "refused"
        if not Path(real).is_relative_to(top):
            return "refused"
        escapes += path.read_bytes() == SECRET
        return "done"

    with swapping(top, "../outside/file"):
        race(check_then_open, tries=5_000)
    print(f"a check before opening was passed and the secret read {escapes} times")
