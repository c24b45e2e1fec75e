"""The contract of a store: whole transactions as functions, and notices after their commit.

A transaction is an `async` function of a `Tx`. It waits for nothing but the database: on SQLite it
runs, without ever being suspended, in a thread or on the event loop itself. Everything above this
layer is written once, in SQL that both databases read; what differs is the `Dialect`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar

from msgspec import Struct

from holdfast.kernel.errors import HoldfastError

T = TypeVar("T")
A = TypeVar("A")
A_contra = TypeVar("A_contra", contravariant=True)
T_co = TypeVar("T_co", covariant=True)

Params: TypeAlias = Mapping[str, Any]
Row: TypeAlias = Sequence[Any]
NO_PARAMS: Final[Params] = {}


class Dialect(Struct, frozen=True):
    """All that differs between the two databases in the text of a statement."""

    name: Literal["sqlite", "postgres"]
    lock: str
    """Behind a SELECT: its rows cannot be changed by others until the end of the transaction."""
    skip_locked: str
    """The same, without the rows that somebody else holds."""
    now: str
    """The database's clock, in microseconds since 1970."""
    writes_in_with: bool
    """Whether a WITH may hold an UPDATE or an INSERT, so that one statement is a transaction."""

    def one_of(self, expression: str, param: str) -> str:
        """A condition: the expression is among the texts of a list given as a parameter."""
        if self.name == "sqlite":
            return f"{expression} IN (SELECT value FROM json_each(:{param}))"
        return f"{expression} = ANY(:{param})"


SQLITE: Final = Dialect("sqlite", lock="", skip_locked="", now=":now", writes_in_with=False)
"""One writer at a time: nobody to wait for, nobody to skip. `:now` is bound by the connection."""
POSTGRES: Final = Dialect(
    "postgres",
    # Weaker than FOR UPDATE, so that a foreign-key check of another row does not wait for it.
    lock="FOR NO KEY UPDATE",
    skip_locked="FOR NO KEY UPDATE SKIP LOCKED",
    now="(extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
    writes_in_with=True,
)


class Changed(Struct, frozen=True):
    """A chat has a new snapshot."""

    chat: str
    version: int


class Claimable(Struct, frozen=True):
    """A chat wants a worker."""

    chat: str


class Missed(Struct, frozen=True):
    """Notices may have been lost: look at everything once."""


Notice: TypeAlias = Changed | Claimable | Missed
"""A hint that something changed; never the truth. May be lost, doubled or late."""


class Tx(Protocol):
    """A transaction, as the function that runs in it sees it. Parameters are `:named`."""

    @property
    def dialect(self) -> Dialect: ...

    async def fetch(self, sql: str, params: Params = NO_PARAMS) -> Sequence[Row]:
        """All rows that a statement gives. Also for a write with RETURNING."""
        ...

    async def fetch_many(self, sql: str, params: Sequence[Params]) -> Sequence[Row]:
        """All rows that a statement gives, for one set of parameters after the other."""
        ...

    async def one(self, sql: str, params: Params = NO_PARAMS) -> Row | None:
        """The first row, or None."""
        ...

    async def execute(self, sql: str, params: Params = NO_PARAMS) -> int:
        """Run a statement; how many rows it changed."""
        ...

    async def execute_many(self, sql: str, params: Sequence[Params]) -> None:
        """Run a statement once for each of several sets of parameters."""
        ...

    def tell(self, notice: Notice) -> None:
        """Send a notice once this is committed. One that is rolled back tells nobody anything."""
        ...


Transaction: TypeAlias = Callable[[Tx], Awaitable[T]]


class Bulk(Protocol[A_contra, T_co]):
    """A frequent transaction that many callers run at once, in a form for one and one for many."""

    async def alone(self, tx: Tx, one: A_contra) -> T_co: ...

    async def together(self, tx: Tx, many: Sequence[A_contra]) -> Sequence[T_co | None]:
        """For different chats. None for one that could not take part: it then runs alone.

        In exactly one statement where that is a transaction, see `Dialect.writes_in_with`.
        """
        ...


class Database(Protocol):
    """A database with a schema, open in this process."""

    @property
    def dialect(self) -> Dialect: ...

    @property
    def exclusive(self) -> bool:
        """Whether nobody else can have it open for writing: then every other worker is dead."""
        ...

    async def write(self, transaction: Transaction[T], *, short: bool = False) -> T:
        """Run a transaction and commit it. What it raises rolls it back and is raised here.

        `short`: it touches a few rows that it finds by their keys, so that handing it to another
        thread would take longer than to run it.
        Once begun it cannot be withdrawn: a caller that is cancelled still waits for the outcome,
        at most `OUTCOME` seconds. `OutcomeUnknown` says that nobody knows whether it is committed.
        """
        ...

    async def write_together(self, bulk: Bulk[A, T], one: A) -> T:
        """Run a transaction that may share its commit, and its statement, with others like it."""
        ...

    async def read(self, transaction: Transaction[T], *, short: bool = False) -> T:
        """Run a transaction that only reads, on one consistent snapshot. `short`: as in `write`."""
        ...

    def listen(self, hear: Callable[[Notice], None]) -> Callable[[], None]:
        """Hear every notice, of this process and of others. The result ends it."""
        ...


OUTCOME: Final = 10.0
"""Seconds that a caller waits to hear what became of its transaction."""
GROUP: Final = 50
"""The most transactions that share a commit."""

Hold: TypeAlias = Callable[[], AbstractContextManager[None]]
"""Entered while the database is waited for: a loop with virtual time stands still meanwhile."""


class StoreError(HoldfastError):
    """What a database refuses or cannot do."""


class Unavailable(StoreError):
    """The database cannot be reached, or not written to, now. Nothing was changed."""


class Closed(Unavailable):
    """The database is not open any more, or not here."""

    def __init__(self) -> None:
        super().__init__("the database is closed: use it inside the block that opened it")


class OtherLoop(StoreError):
    """Asked from another event loop than the one that the database was opened on."""

    def __init__(self) -> None:
        super().__init__(
            "this belongs to another event loop: use it in the one that opened it, "
            "or open it again here"
        )


class OutcomeUnknown(StoreError):
    """The connection was lost while a transaction was being committed."""

    def __init__(self, why: str) -> None:
        super().__init__(f"nobody knows whether this was committed, read it back: {why}")


class Violation(StoreError):
    """A constraint or a guard of the database refused a row. Nothing was changed."""


class CannotOpen(StoreError):
    """The database cannot be opened; the message says what to do."""


class InUse(CannotOpen):
    """Another process has the file, which serves one at a time."""
