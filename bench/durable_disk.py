"""Creates the databases of a benchmark on a disk: a commit mostly waits for the disk."""

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

DEFAULT_DIRECTORY: Final = Path(__file__).resolve().parent / ".disk"
MIN_SYNC: Final = 20.0
"""Microseconds: a sync that takes less has not waited for a disk."""


def fdatasync(directory: Path) -> float:
    """Median time in microseconds until a page is on the disk."""
    taken = []
    with tempfile.TemporaryFile(dir=directory) as file:
        for _ in range(200):
            os.pwrite(file.fileno(), os.urandom(4096), 0)
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            taken.append((time.perf_counter() - began) * 1e6)
    return statistics.median(taken)


class Disk:
    """Creates empty databases, each used once."""

    def __init__(self, directory: Path, server: Server | None) -> None:
        self.directory = directory
        self._server = server
        self._numbers = count(1)

    @property
    def stores(self) -> tuple[Store, ...]:
        return ("SQLite",) if self._server is None else ("SQLite", "PostgreSQL")

    def empty(self, store: Store) -> str:
        """The path or URL of a new database, which a program gets as `BENCH_TARGET`."""
        name = f"bench{next(self._numbers)}"
        if store == "SQLite":
            return str(self.directory / f"{name}.db")
        assert self._server is not None
        return self._server.create(name)

    def report(self) -> None:
        """Print how fast the disk is, and warn if it is not a disk."""
        taken = fdatasync(self.directory)
        print(f"\ndisk: fdatasync in {self.directory.parent} takes {taken:.0f} µs")
        if taken < MIN_SYNC:
            print("This is not a disk: name a directory on one with --directory.", file=sys.stderr)


@contextmanager
def disk(directory: Path | None) -> Iterator[Disk]:
    """Databases in a new directory, with a PostgreSQL server that syncs its commits."""
    with ExitStack() as stack:
        around = directory or DEFAULT_DIRECTORY
        around.mkdir(exist_ok=True)
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=around)))
        place.chmod(0o755)  # the server does not run as root, and has to reach its data
        server: Server | None = None
        try:
            server = stack.enter_context(running(place / "pg", durable=True))
        except (NoPostgres, PostgresFailed) as error:
            print(f"PostgreSQL skipped: {error}", file=sys.stderr)
        yield Disk(place, server)
