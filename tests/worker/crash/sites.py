"""A database in which everything that can go wrong goes wrong, at a place of the test's choosing.

Every transaction passes named sites: in front of each of its statements, in front of its COMMIT,
and behind it. A read passes one in front of it and one behind it. The test is asked at each of
them, and may raise.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from types import FrameType
from typing import Any, Final, Literal, TypeVar

from msgspec import Struct

from holdfast.store.database import (
    NO_PARAMS,
    Bulk,
    ChangeNotice,
    Database,
    Dialect,
    Params,
    Row,
    Transaction,
    Tx,
)

T = TypeVar("T")
A = TypeVar("A")

Phase = Literal["statement", "commit", "committed", "read", "was read"]
DOORS: Final = (
    "holdfast.chat.database_clock.now_of",
    "holdfast.chat.idempotency._with_key",
    "holdfast.chat.idempotency.<lambda>",
)
"""Functions that a site is not named for: what they are part of says more."""
ALIKE: Final = {"alone": "step", "together": "step"}
"""Two forms of one transition."""
KEYS: Final = "idempotency.keys"
"""What a site is named for as long as only an idempotency key is looked at."""
OWNER: ContextVar[object | None] = ContextVar("owner", default=None)
"""The process that a task belongs to; None for tasks of a database, which outlive a process."""


WRITES: Final = (
    "budgets.set_budget",
    "claims.write_heartbeat",
    "claims.claim",
    "claims.forget_dead",
    "claims.leave",
    "commit_step.step",
    "lifecycle.archive",
    "lifecycle.create",
    "lifecycle.delete",
    "lifecycle.fork",
    "lifecycle.unarchive",
    "user.compact",
    "user.edit",
    "user.edit_queued",
    "user.interrupt",
    "user.promote",
    "user.remove_queued",
    "user.reorder",
    "user.resolve",
    "user.resume",
    "user.retry",
    "user.send",
    "user.update",
    "runner.charge_abandoned",
    "runner.commit_step",
    "runner.deliver",
    "runner.expire",
    "runner.fail",
    "runner.finish_call",
    "runner.finish_turn",
    "runner.record_retry",
    "runner.require_action",
    "runner.settle",
    "runner.start_calls",
    "runner.write_partial",
)
READS: Final = (
    *("budgets.reached", "budgets.refresh", "claims.owned", "journal.read_journal"),
    *("rows.read_chat", "queries.load"),
)
KNOWN: Final = frozenset(
    [f"{KEYS} statement"]
    + [f"{what} {phase}" for what in WRITES for phase in ("statement", "commit", "committed")]
    + [f"{what} {phase}" for what in READS for phase in ("read", "was read")]
)
"""Every class of sites. A new transition makes itself known by missing here."""


class Site(Struct, frozen=True):
    """A place where something may go wrong."""

    number: int
    """From 1, in the order in which one process comes by."""
    what: str
    """The transition, or the question, that is under way."""
    phase: Phase
    statement: str = ""

    @property
    def name(self) -> str:
        return f"{self.what} {self.phase}"

    def __str__(self) -> str:
        return f"{self.number} ({self.name}{self.statement and f' {self.statement}'})"


class Killed(Exception):
    """Inside a transaction: the process is dead, and this is rolled back."""


class Died(BaseException):
    """What a dead process gets from its database. No `Exception`: it is nobody's to handle."""


class Trouble:
    """What goes wrong in one life: nothing, unless a test says otherwise."""

    struck = False
    """It has happened."""
    die: Callable[[], None]
    """Ends the life that this is the trouble of."""

    freeze: Callable[[], None]
    """Has everybody else believe that it has ended."""

    async def call(self, number: int) -> None:
        """Before anything is asked of the database for the n-th time. May raise, or wait."""

    def thaw(self) -> None:
        """Who froze may go on."""

    def site(self, site: Site) -> None:
        """At a site. May raise."""

    def hear(self, notice: ChangeNotice, hear: Callable[[ChangeNotice], None]) -> None:
        """A notice has come."""
        hear(notice)


class Faulty:
    """A database as one process has it."""

    def __init__(self, inner: Database, trouble: Trouble, dead: Callable[[], bool]) -> None:
        self._inner = inner
        self._trouble = trouble
        self._dead = dead
        self.calls = 0
        self.sites: list[Site] = []
        """Where it came by."""

    @property
    def dialect(self) -> Dialect:
        return self._inner.dialect

    @property
    def exclusive(self) -> bool:
        return self._inner.exclusive

    async def write(self, transaction: Transaction[T], *, short: bool = False) -> T:
        way = _Way(self)

        async def run(tx: Tx) -> T:
            made = await transaction(_Tx(tx, way))
            way.pass_by("commit")
            return made

        made = await self._ask(lambda: self._inner.write(run, short=short))
        way.pass_by("committed")
        return made

    async def write_together(self, bulk: Bulk[A, T], one: A) -> T:
        way = _Way(self)
        alone: Bulk[A, T] = _Alone(bulk, way)
        made = await self._ask(lambda: self._inner.write_together(alone, one))
        way.pass_by("committed")
        return made

    async def read(self, transaction: Transaction[T], *, short: bool = False) -> T:
        way = _Way(self)

        async def run(tx: Tx) -> T:
            return await transaction(_ReadTx(tx, way))

        made = await self._ask(lambda: self._inner.read(run, short=short))
        way.pass_by("was read")
        return made

    def check_writable(self) -> None:
        self._inner.check_writable()

    def listen(self, hear: Callable[[ChangeNotice], None]) -> Callable[[], None]:
        def heard(notice: ChangeNotice) -> None:
            if not self._dead():
                self._trouble.hear(notice, hear)

        return self._inner.listen(heard)

    async def _ask(self, ask: Callable[[], Awaitable[T]]) -> T:
        self._end_if_dead()
        self.calls += 1
        await self._trouble.call(self.calls)
        self._end_if_dead()
        mine = OWNER.set(None)
        try:
            made = await ask()
        except Killed:
            raise Died from None
        finally:
            OWNER.reset(mine)
        self._end_if_dead()
        return made

    def _end_if_dead(self) -> None:
        if self._dead():
            raise Died

    def come_by(self, what: str, phase: Phase, statement: str) -> None:
        """Raises what went wrong: `Died` outside of a transaction, `Killed` inside."""
        inside = phase in ("statement", "commit", "read")
        if not self._dead():
            site = Site(len(self.sites) + 1, what, phase, statement)
            self.sites.append(site)
            self._trouble.site(site)
        if self._dead():
            raise Killed if inside else Died


class _Way:
    """One transaction on its way past the sites."""

    def __init__(self, db: Faulty) -> None:
        self._db = db
        self._what = ""

    def at_statement(self, phase: Phase, sql: str) -> None:
        if not self._what:
            self._what = _transition(sys._getframe(2))
        self._db.come_by(self._what or KEYS, phase, " ".join(sql.split()[:3]))

    def pass_by(self, phase: Phase) -> None:
        self._db.come_by(self._what or KEYS, phase, "")


def _transition(frame: FrameType | None) -> str:
    """The function of the chat's that runs the statement: the outermost one."""
    found = ""
    while frame is not None:
        module, function = frame.f_globals.get("__name__", ""), frame.f_code.co_name
        if module.startswith("holdfast.chat.") and f"{module}.{function}" not in DOORS:
            found = f"{module.rpartition('.')[2]}.{ALIKE.get(function, function)}"
        frame = frame.f_back
    return found


class _Tx:
    """A transaction that passes a site before each statement."""

    phase: Phase = "statement"

    def __init__(self, tx: Tx, way: _Way) -> None:
        self._tx = tx
        self._way = way

    @property
    def dialect(self) -> Dialect:
        return self._tx.dialect

    def _come_by(self, sql: str) -> None:
        self._way.at_statement(self.phase, sql)

    async def fetch(self, sql: str, params: Params = NO_PARAMS) -> Sequence[Row]:
        self._come_by(sql)
        return await self._tx.fetch(sql, params)

    async def fetch_many(self, sql: str, params: Sequence[Params]) -> Sequence[Row]:
        return [row for each in params for row in await self.fetch(sql, each)]

    async def one(self, sql: str, params: Params = NO_PARAMS) -> Row | None:
        self._come_by(sql)
        return await self._tx.one(sql, params)

    async def execute(self, sql: str, params: Params = NO_PARAMS) -> int:
        self._come_by(sql)
        return await self._tx.execute(sql, params)

    async def execute_many(self, sql: str, params: Sequence[Params]) -> None:
        self._come_by(sql)
        await self._tx.execute_many(sql, params)

    def notify(self, notice: ChangeNotice) -> None:
        self._tx.notify(notice)


class _ReadTx(_Tx):
    """Its statements change nothing, so the first stands for all of them."""

    phase = "read"
    _begun = False

    def _come_by(self, sql: str) -> None:
        if not self._begun:
            self._begun = True
            super()._come_by(sql)


class _OneTx(_Tx):
    """The statement is the transaction: whoever is past it is past the COMMIT."""

    def _come_by(self, sql: str) -> None:
        super()._come_by(sql)
        self._way.pass_by("commit")


class _Alone:
    """A frequent transaction that shares its commit with no other."""

    def __init__(self, bulk: Bulk[Any, Any], way: _Way) -> None:
        self._bulk = bulk
        self._way = way
        self._refused: Exception | None = None

    async def alone(self, tx: Tx, one: Any) -> Any:
        if self._refused is not None:  # it failed together, and must not succeed now
            raise self._refused
        made = await self._bulk.alone(_Tx(tx, self._way), one)
        self._way.pass_by("commit")
        return made

    async def together(self, tx: Tx, many: Sequence[Any]) -> Sequence[Any]:
        try:
            return await self._bulk.together(_OneTx(tx, self._way), many)
        except Exception as error:
            self._refused = error
            raise
