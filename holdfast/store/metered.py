"""A database wrapper that measures the duration and counts the errors of transactions."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TypeVar

from holdfast.observe.metrics import DATABASE_BUCKETS, MetricRegistry
from holdfast.store.database import (
    Bulk,
    ChangeNotice,
    Database,
    Dialect,
    StoreError,
    Transaction,
)

T = TypeVar("T")
A = TypeVar("A")


class MeteredDatabase:
    """Wraps a database and measures the duration of each transaction, waiting included."""

    def __init__(self, db: Database, metrics: MetricRegistry) -> None:
        self._db = db
        self._seconds = metrics.histogram(
            "holdfast_database_seconds",
            "Duration of database transactions in seconds, by kind.",
            "kind",
            bounds=DATABASE_BUCKETS,
        )
        self._errors = metrics.counter(
            "holdfast_database_errors_total", "Database transactions that failed, by kind.", "kind"
        )

    @property
    def dialect(self) -> Dialect:
        return self._db.dialect

    @property
    def exclusive(self) -> bool:
        return self._db.exclusive

    async def write(self, transaction: Transaction[T], *, short: bool = False) -> T:
        started_at = perf_counter()
        try:
            return await self._db.write(transaction, short=short)
        except StoreError:
            self._errors.add("write")
            raise
        finally:
            self._seconds.take(perf_counter() - started_at, "write")

    async def write_together(self, bulk: Bulk[A, T], item: A) -> T:
        started_at = perf_counter()
        try:
            return await self._db.write_together(bulk, item)
        except StoreError:
            self._errors.add("commit")
            raise
        finally:
            self._seconds.take(perf_counter() - started_at, "commit")

    async def read(self, transaction: Transaction[T], *, short: bool = False) -> T:
        started_at = perf_counter()
        try:
            return await self._db.read(transaction, short=short)
        except StoreError:
            self._errors.add("read")
            raise
        finally:
            self._seconds.take(perf_counter() - started_at, "read")

    def listen(self, receive: Callable[[ChangeNotice], None]) -> Callable[[], None]:
        return self._db.listen(receive)

    def check_writable(self) -> None:
        self._db.check_writable()
