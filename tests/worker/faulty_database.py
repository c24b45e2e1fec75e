"""What lies between a process and its database: it can break, be held up, lose words, and count."""

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
    Database,
    Dialect,
    Notice,
    OutcomeUnknown,
    Params,
    Row,
    Transaction,
    Tx,
)

T = TypeVar("T")
A = TypeVar("A")
Hear: TypeAlias = Callable[[Notice], None]


class Died(BaseException):
    """What a dead process gets from its database. Nobody may take it for trouble."""


class Link:
    """A database as one process has it. Untroubled until a test says otherwise."""

    def __init__(self, inner: Database) -> None:
        self.inner = inner
        self.dead = False
        self.writes: Counter[str] = Counter()
        """How often each transition was asked for."""
        self.statements = 0
        self.rows = 0
        """How many rows were read."""
        self.notices: Callable[[Notice, Hear], None] = lambda notice, hear: hear(notice)
        """What becomes of a notice."""
        self._held: Sequence[str] | None = None
        self._go_on = anyio.Event()
        self._lose: Counter[str] = Counter()
        self._refuse: Counter[str] = Counter()
        self._break: Counter[str] = Counter()
        self._between: tuple[str, Callable[[], Awaitable[object]]] | None = None
        self._met = anyio.Event()
        self._bulks: dict[int, _CountingBulk[Any, Any]] = {}
        self.waiting: list[str] = []
        """Transitions that are held up now."""

    # --- what a test does to it ---

    def hold(self, *names: str) -> None:
        """Hold up writes of these transitions, or everything, until `go_on`."""
        self._held = names
        self._go_on = anyio.Event()

    def go_on(self) -> None:
        self._held = None
        self._go_on.set()

    def lose(self, name: str, times: int = 1) -> None:
        """The next write of this transition is committed, and its answer does not arrive."""
        self._lose[name] += times

    async def committing(self, name: str, act: Callable[[], Awaitable[object]]) -> None:
        """Do something after the next such write is committed, and before its caller knows."""
        self._between = (name, act)
        self._met = anyio.Event()
        await self._met.wait()

    def refuse(self, name: str, times: int = 1) -> None:
        """The next write of this transition fails in a way that nobody has thought of."""
        self._refuse[name] += times

    def break_after(self, name: str, times: int = 1) -> None:
        """The next such write is committed, and then something fails that nobody thought of."""
        self._break[name] += times

    # --- a database ---

    @property
    def dialect(self) -> Dialect:
        return self.inner.dialect

    @property
    def exclusive(self) -> bool:
        return self.inner.exclusive

    async def write(self, transaction: Transaction[T], *, short: bool = False) -> T:
        counted = partial(self._counted, transaction)
        return await self._pass(
            name_of(transaction), lambda: self.inner.write(counted, short=short)
        )

    async def write_together(self, bulk: Bulk[A, T], one: A) -> T:
        counting = self._bulks.setdefault(id(bulk), _CountingBulk(bulk, self))
        return await self._pass("commit", lambda: self.inner.write_together(counting, one))

    async def read(self, transaction: Transaction[T], *, short: bool = False) -> T:
        counted = partial(self._counted, transaction)
        return await self._pass(None, lambda: self.inner.read(counted, short=short))

    def check_writable(self) -> None:
        self.inner.check_writable()

    def listen(self, hear: Hear) -> Callable[[], None]:
        def pass_on(notice: Notice) -> None:
            if not self.dead:
                self.notices(notice, hear)

        return self.inner.listen(pass_on)

    async def _pass(self, name: str | None, ask: Callable[[], Awaitable[T]]) -> T:
        self._check()
        await self._wait(name)
        if name is not None:
            self.writes[name] += 1
            if self._refuse[name]:
                self._refuse[name] -= 1
                raise RuntimeError("the test says so")
        made = await ask()
        self._check()
        if self._between is not None and self._between[0] == name:
            act, self._between = self._between[1], None
            with anyio.CancelScope(shield=True):
                await act()
                await anyio.sleep(1)  # everybody hears of it
            self._met.set()
        if name is not None and self._lose[name]:
            self._lose[name] -= 1
            raise OutcomeUnknown("the test says so")
        if name is not None and self._break[name]:
            self._break[name] -= 1
            raise RuntimeError("the test says so")
        return made

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

    def __init__(self, inner: Tx, link: Link) -> None:
        self._inner = inner
        self._link = link

    @property
    def dialect(self) -> Dialect:
        return self._inner.dialect

    async def fetch(self, sql: str, params: Params = NO_PARAMS) -> Sequence[Row]:
        self._link.statements += 1
        rows = await self._inner.fetch(sql, params)
        self._link.rows += len(rows)
        return rows

    async def fetch_many(self, sql: str, params: Sequence[Params]) -> Sequence[Row]:
        return [row for each in params for row in await self.fetch(sql, each)]

    async def one(self, sql: str, params: Params = NO_PARAMS) -> Row | None:
        self._link.statements += 1
        row = await self._inner.one(sql, params)
        self._link.rows += row is not None
        return row

    async def execute(self, sql: str, params: Params = NO_PARAMS) -> int:
        self._link.statements += 1
        return await self._inner.execute(sql, params)

    async def execute_many(self, sql: str, params: Sequence[Params]) -> None:
        self._link.statements += len(params)
        await self._inner.execute_many(sql, params)

    def tell(self, notice: Notice) -> None:
        self._inner.tell(notice)


class _CountingBulk(Generic[A, T]):
    """A transaction of many that is counted."""

    def __init__(self, inner: Bulk[A, T], link: Link) -> None:
        self._inner = inner
        self._link = link

    async def alone(self, tx: Tx, one: A) -> T:
        return await self._inner.alone(_Counting(tx, self._link), one)

    async def together(self, tx: Tx, many: Sequence[A]) -> Sequence[T | None]:
        return await self._inner.together(_Counting(tx, self._link), many)
