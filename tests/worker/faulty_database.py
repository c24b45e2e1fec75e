"""A database that tests can make fail, block or lose responses, and that counts statements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from inspect import getclosurevars
from typing import Any, Generic, TypeAlias, TypeVar

import anyio

from holdfast.store.database import (
    NO_PARAMS,
    Bulk,
    ChangeNotice,
    Database,
    Dialect,
    OutcomeUnknown,
    Params,
    Row,
    Transaction,
    Tx,
)

T = TypeVar("T")
A = TypeVar("A")
NoticeHandler: TypeAlias = Callable[[ChangeNotice], None]


class Died(BaseException):
    """The error of a dead process's database. It must not be handled as a failure."""


class FaultyDatabase:
    """The database of one process. It works until a test makes it fail."""

    def __init__(self, inner: Database) -> None:
        self.inner = inner
        self.dead = False
        self.writes: Counter[str] = Counter()
        """Number of requests of each transition."""
        self.statements = 0
        self.rows = 0
        """Number of rows that were read."""
        self.notices: Callable[[ChangeNotice, NoticeHandler], None] = _deliver
        """Delivers a notice; a test may drop or delay it."""
        self._held: Sequence[str] | None = None
        self._go_on = anyio.Event()
        self._lose: Counter[str] = Counter()
        self._refuse: Counter[str] = Counter()
        self._break: Counter[str] = Counter()
        self._between: tuple[str, Callable[[], Awaitable[object]]] | None = None
        self._met = anyio.Event()
        self._bulks: dict[int, _CountingBulk[Any, Any]] = {}
        self.waiting: list[str] = []
        """Transitions that are blocked now."""

    # --- what a test does to it ---

    def hold(self, *names: str) -> None:
        """Block writes of these transitions, or everything, until `resume`."""
        self._held = names
        self._go_on = anyio.Event()

    def resume(self) -> None:
        self._held = None
        self._go_on.set()

    def lose(self, name: str, times: int = 1) -> None:
        """Commit the next write of this transition, and lose its acknowledgement."""
        self._lose[name] += times

    async def committing(self, name: str, act: Callable[[], Awaitable[object]]) -> None:
        """Call `act` after the next such write is committed, before its caller is notified."""
        self._between = (name, act)
        self._met = anyio.Event()
        await self._met.wait()

    def refuse(self, name: str, times: int = 1) -> None:
        """Make the next write of this transition fail with an unexpected error."""
        self._refuse[name] += times

    def break_after(self, name: str, times: int = 1) -> None:
        """Commit the next such write, and then raise an unexpected error."""
        self._break[name] += times

    # --- a database ---

    @property
    def dialect(self) -> Dialect:
        return self.inner.dialect

    @property
    def exclusive(self) -> bool:
        return self.inner.exclusive

    async def write(self, transaction: Transaction[T], *, short: bool = False) -> T:
        counting = partial(self._counted, transaction)
        return await self._pass(
            name_of(transaction), lambda: self.inner.write(counting, short=short)
        )

    async def write_together(self, bulk: Bulk[A, T], item: A) -> T:
        counting = self._bulks.setdefault(id(bulk), _CountingBulk(bulk, self))
        return await self._pass("commit", lambda: self.inner.write_together(counting, item))

    async def read(self, transaction: Transaction[T], *, short: bool = False) -> T:
        counting = partial(self._counted, transaction)
        return await self._pass(None, lambda: self.inner.read(counting, short=short))

    def check_writable(self) -> None:
        self.inner.check_writable()

    def listen(self, hear: NoticeHandler) -> Callable[[], None]:
        def forward(notice: ChangeNotice) -> None:
            if not self.dead:
                self.notices(notice, hear)

        return self.inner.listen(forward)

    async def _pass(self, name: str | None, operation: Callable[[], Awaitable[T]]) -> T:
        self._check()
        await self._wait(name)
        if name is not None:
            self.writes[name] += 1
            if self._refuse[name]:
                self._refuse[name] -= 1
                raise RuntimeError("the test says so")
        result = await operation()
        self._check()
        if self._between is not None and self._between[0] == name:
            act, self._between = self._between[1], None
            with anyio.CancelScope(shield=True):
                await act()
                await anyio.sleep(1)  # every listener receives the notice
            self._met.set()
        if name is not None and self._lose[name]:
            self._lose[name] -= 1
            raise OutcomeUnknown("the test says so")
        if name is not None and self._break[name]:
            self._break[name] -= 1
            raise RuntimeError("the test says so")
        return result

    async def _wait(self, name: str | None) -> None:
        while self._held is not None and (not self._held or name in self._held):
            self.waiting.append(name or "read")
            try:
                await self._go_on.wait()
            finally:
                self.waiting.remove(name or "read")
            self._check()

    def _check(self) -> None:
        if self.dead:
            raise Died

    async def _counted(self, transaction: Transaction[T], tx: Tx) -> T:
        return await transaction(_Counting(tx, self))


def _deliver(notice: ChangeNotice, handle: NoticeHandler) -> None:
    handle(notice)


def name_of(transaction: Any) -> str:
    """The transition that a transaction makes."""
    if isinstance(transaction, partial):
        return str(transaction.func.__name__).strip("_")
    if transaction.__name__ == "change":  # a transition under its fence
        return str(getclosurevars(transaction).nonlocals["transition"].__name__)
    if transaction.__name__ == "<lambda>":  # module.transition(tx, …)
        return str(transaction.__code__.co_names[1])
    return str(transaction.__name__).strip("_")


class _Counting:
    """A transaction that is counted."""

    def __init__(self, inner: Tx, link: FaultyDatabase) -> None:
        self._inner = inner
        self._db = link

    @property
    def dialect(self) -> Dialect:
        return self._inner.dialect

    async def fetch(self, sql: str, params: Params = NO_PARAMS) -> Sequence[Row]:
        self._db.statements += 1
        rows = await self._inner.fetch(sql, params)
        self._db.rows += len(rows)
        return rows

    async def fetch_many(self, sql: str, params: Sequence[Params]) -> Sequence[Row]:
        return [row for each in params for row in await self.fetch(sql, each)]

    async def one(self, sql: str, params: Params = NO_PARAMS) -> Row | None:
        self._db.statements += 1
        row = await self._inner.one(sql, params)
        self._db.rows += row is not None
        return row

    async def execute(self, sql: str, params: Params = NO_PARAMS) -> int:
        self._db.statements += 1
        return await self._inner.execute(sql, params)

    async def execute_many(self, sql: str, params: Sequence[Params]) -> None:
        self._db.statements += len(params)
        await self._inner.execute_many(sql, params)

    def notify(self, notice: ChangeNotice) -> None:
        self._inner.notify(notice)


class _CountingBulk(Generic[A, T]):
    """A transaction of many that is counted."""

    def __init__(self, inner: Bulk[A, T], link: FaultyDatabase) -> None:
        self._inner = inner
        self._db = link

    async def alone(self, tx: Tx, item: A) -> T:
        return await self._inner.alone(_Counting(tx, self._db), item)

    async def together(self, tx: Tx, items: Sequence[A]) -> Sequence[T | None]:
        return await self._inner.together(_Counting(tx, self._db), items)
