"""Where the databases of a bench are: on a disk, because a commit is mostly the wait for it."""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Final, Literal, TypeAlias

from holdfast.testing.postgres import NoPostgres, PostgresFailed, Server, running

Store: TypeAlias = Literal["SQLite", "PostgreSQL"]

BESIDE: Final = Path(__file__).resolve().parent / ".disk"
MEMORY: Final = 20.0
"""Microseconds: whatever answers sooner than this has not waited for a disk."""


def fdatasync(directory: Path) -> float:
    """Microseconds until a page is on the disk."""
    taken = []
    with tempfile.TemporaryFile(dir=directory) as file:
        for _ in range(200):
            os.pwrite(file.fileno(), os.urandom(4096), 0)
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            taken.append((time.perf_counter() - began) * 1e6)
    return statistics.median(taken)


class Disk:
    """Makes empty databases, each used once."""

    def __init__(self, directory: Path, server: Server | None) -> None:
        self.directory = directory
        self._server = server
        self._numbers = count(1)

    @property
    def stores(self) -> tuple[Store, ...]:
        return ("SQLite",) if self._server is None else ("SQLite", "PostgreSQL")

    def empty(self, store: Store) -> str:
        """What a program is told as `BENCH_TARGET`."""
        name = f"bench{next(self._numbers)}"
        if store == "SQLite":
            return str(self.directory / f"{name}.db")
        assert self._server is not None
        return self._server.create(name)

    def tell(self) -> None:
        """Say what the figures were taken on, and whether that is worth anything."""
        taken = fdatasync(self.directory)
        print(f"\nThe disk under {self.directory.parent} takes {taken:.0f} µs for an fdatasync.")
        if taken < MEMORY:
            print("That is no disk: name a directory on one with --directory.", file=sys.stderr)


@contextmanager
def disk(directory: Path | None) -> Iterator[Disk]:
    """A directory beside this program, or in another one, with a server that keeps its word."""
    with ExitStack() as stack:
        around = directory or BESIDE
        around.mkdir(exist_ok=True)
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=around)))
        place.chmod(0o755)  # the server is not root, and has to get at its data
        server: Server | None = None
        try:
            server = stack.enter_context(running(place / "pg", durable=True))
        except (NoPostgres, PostgresFailed) as error:
            print(f"without PostgreSQL: {error}", file=sys.stderr)
        yield Disk(place, server)
