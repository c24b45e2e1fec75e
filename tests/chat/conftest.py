from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Generator, Iterator
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

import anyio
import pytest

from holdfast.chat import doctor
from tests.chat.chats import Chats

if TYPE_CHECKING:
    from holdfast.store.database import Database
    from holdfast.testing import Clock


DAMAGING: Final = frozenset({"test_doctor.py", "test_guards.py"})
"""They write rows that no transition would."""


@pytest.fixture
def chats(db: Database, clock: Clock) -> Iterator[Chats]:
    """A database of each kind in turn, for chats."""
    made = Chats(db, clock)
    end = db.listen(made.notices.append)
    yield made
    end()


@pytest.fixture
async def postgres(postgres_url: str, clock: Clock) -> AsyncIterator[Chats]:
    """For what only happens where several sessions write at once."""
    from holdfast.store.postgres.database import open_postgres

    async with open_postgres(postgres_url, now=clock.now, probe=None) as db:
        made = Chats(db, clock)
        end = db.listen(made.notices.append)
        yield made
        end()


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: Any) -> Generator[None, object, object]:
    """What a test leaves behind is sound, as far as the doctor can see.

    Notices to other processes are on their way when it ends: time waits for them.
    """
    test = pyfuncitem.obj
    if inspect.iscoroutinefunction(test):

        @wraps(test)
        async def then_examine(**fixtures: Any) -> None:
            await test(**fixtures)
            await anyio.sleep(0.001)
            if pyfuncitem.path.name not in DAMAGING:
                for chats in {f for f in fixtures.values() if isinstance(f, Chats)}:
                    await doctor.check(chats.db)

        pyfuncitem.obj = then_examine
    return (yield)
