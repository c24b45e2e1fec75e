from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from holdfast.testing import Clock
from tests.worker.crash.databases import Arena, postgres_arena, sqlite_arena


@pytest.fixture(params=["sqlite", "postgres"])
def open_arena(
    request: pytest.FixtureRequest, tmp_path: Path, clock: Clock
) -> Callable[[], AbstractAsyncContextManager[Arena]]:
    if request.param == "sqlite":
        return lambda: sqlite_arena(tmp_path, clock)
    url: str = request.getfixturevalue("postgres_url")
    return lambda: postgres_arena(url, clock)


@pytest.fixture
async def arena(
    open_arena: Callable[[], AbstractAsyncContextManager[Arena]],
) -> AsyncIterator[Arena]:
    """Databases to crash on, of each kind in turn."""
    async with open_arena() as made:
        yield made
