"""The contract of a store: transactions as functions, notices after their commit, errors.

A transaction is an `async` function of a `Tx`. It must await nothing but the database: on SQLite it
runs, without ever being suspended, in a thread or on the event loop itself. The layers above are
written once, in SQL that both databases accept; the differences are in the `Dialect`.

The errors:

    HoldfastError
    └── StoreError
        ├── Unavailable         not reachable or not writable now; nothing was changed
        │   ├── NotWritable     readable only: full disk, replaced file, standby server
        │   ├── Closed          used outside of the block that opened it
        │   ├── LostConnection          PostgreSQL: the connection broke (`postgres/`)
        │   │   └── StaleConnection     a retry on another connection is safe
        │   └── TransactionConflict     PostgreSQL: the transaction is run again (`postgres/`)
        ├── OutcomeUnknown      the commit may or may not have happened: read it back
        ├── OtherLoop           used on another event loop
        ├── Damaged             a stored value cannot be decoded
        ├── Violation           a constraint refused a row; nothing was changed
        └── CannotOpen          the message says what to do
            └── InUse           another process has the SQLite file open
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
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
    """The differences between the two databases in the text of a statement."""

    name: Literal["sqlite", "postgres"]
    lock: str
    """Suffix of a SELECT that locks its rows until the end of the transaction."""
    skip_locked: str
    """Suffix of a SELECT that locks its rows and skips those locked by others."""
    now: str
    """Expression for the database's clock, in microseconds since 1970."""
    writes_in_with: bool
    """Whether a WITH may contain an UPDATE or an INSERT, so that one statement is a transaction."""

    def one_of(self, expression: str, param: str) -> str:
        """Return a condition: the expression is in a list of texts given as a parameter."""
        if self.name == "sqlite":
            return f"{expression} IN (SELECT value FROM json_each(:{param}))"
        return f"{expression} = ANY(:{param})"


SQLITE: Final = Dialect("sqlite", lock="", skip_locked="", now=":now", writes_in_with=False)
"""The dialect of SQLite. It has one writer at a time and no row locks; the connection binds
`:now`."""
POSTGRES: Final = Dialect(
    "postgres",
    # Weaker than FOR UPDATE, so that a foreign-key check of another row does not wait for it.
    lock="FOR NO KEY UPDATE",
    skip_locked="FOR NO KEY UPDATE SKIP LOCKED",
    now="(extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
    writes_in_with=True,
)


class Changed(Struct, frozen=True, gc=False):
    """Notice: a chat has a new snapshot."""

    chat: str
    version: int


class Claimable(Struct, frozen=True):
    """Notice: a chat is runnable and needs a worker."""

    chat: str


class NoticesLost(Struct, frozen=True):
    """Notice: notices may have been lost, so query everything once."""


ChangeNotice: TypeAlias = Changed | Claimable | NoticesLost
"""A hint that something changed; never the truth. May be lost, duplicated or late."""


class Tx(Protocol):
    """A transaction, as passed to the function that runs in it. Parameters are `:named`."""

    @property
    def dialect(self) -> Dialect: ...

    async def fetch(self, sql: str, params: Params = NO_PARAMS) -> Sequence[Row]:
        """Return all rows of a query, or of a write with RETURNING."""
        ...

    async def fetch_many(self, sql: str, params: Sequence[Params]) -> Sequence[Row]:
        """Return all rows of a statement, run once for each set of parameters."""
        ...

    async def one(self, sql: str, params: Params = NO_PARAMS) -> Row | None:
        """Return the first row, or None."""
        ...

    async def execute(self, sql: str, params: Params = NO_PARAMS) -> int:
        """Run a statement, and return the number of changed rows."""
        ...

    async def execute_many(self, sql: str, params: Sequence[Params]) -> None:
        """Run a statement once for each set of parameters."""
        ...

    def notify(self, notice: ChangeNotice) -> None:
        """Send a notice once this transaction is committed. A rollback discards it."""
        ...


Transaction: TypeAlias = Callable[[Tx], Awaitable[T]]


class Bulk(Protocol[A_contra, T_co]):
    """A frequent transaction with two forms: for one item, and for the items of many callers."""

    async def alone(self, tx: Tx, item: A_contra) -> T_co: ...

    async def together(self, tx: Tx, items: Sequence[A_contra]) -> Sequence[T_co | None]:
        """Run the transaction for several items of different chats.

        The result is None for an item that could not take part, which then runs alone. Must be
        exactly one statement where `Dialect.writes_in_with` holds.
        """
        ...


class Database(Protocol):
    """A database with a schema, open in this process."""

    @property
    def dialect(self) -> Dialect: ...

    @property
    def exclusive(self) -> bool:
        """Whether no other process can write to it, so that every other worker is dead."""
        ...

    async def write(self, transaction: Transaction[T], *, short: bool = False) -> T:
        """Run a transaction and commit it. An exception rolls it back and is raised here.

        `short`: the transaction touches few rows, by their keys, so that running it takes less time
        than passing it to another thread.

        Once begun it cannot be withdrawn: a cancelled caller still waits for the outcome, at most
        `OUTCOME_TIMEOUT` seconds. `OutcomeUnknown` means that it may or may not be committed.
        """
        ...

    async def write_together(self, bulk: Bulk[A, T], item: A) -> T:
        """Run a bulk transaction for one item. It may share statement and commit with others."""
        ...

    async def read(self, transaction: Transaction[T], *, short: bool = False) -> T:
        """Run a read-only transaction on one consistent snapshot. `short`: as in `write`."""
        ...

    def listen(self, receive: Callable[[ChangeNotice], None]) -> Callable[[], None]:
        """Receive every notice of this and other processes. Call the result to stop."""
        ...

    def check_writable(self) -> None:
        """Raise `NotWritable` while writes are known to fail: a deleted file, a full disk.

        Sends no query and writes nothing.
        """
        ...


OUTCOME_TIMEOUT: Final = 10.0
"""Seconds that a caller waits for the outcome of its transaction."""
MAX_GROUP_SIZE: Final = 50
"""Maximum number of transactions that share a commit."""


class StoreError(HoldfastError):
    """Base class of the errors of a database."""


class Unavailable(StoreError):
    """The database cannot be reached, or cannot be written, now. Nothing was changed."""


class NotWritable(Unavailable):
    """The database can be read but not written, as with a full disk or on a standby server."""


class Closed(Unavailable):
    """The database is closed."""

    def __init__(self) -> None:
        super().__init__("the database is closed: use it inside the block that opened it")


class OtherLoop(StoreError):
    """The database was used on another event loop than the one that opened it."""

    def __init__(self) -> None:
        super().__init__(
            "the database belongs to another event loop: use it on the loop that opened it, "
            "or open it again here"
        )


class OutcomeUnknown(StoreError):
    """The connection was lost during a commit, which may or may not have happened."""

    def __init__(self, why: str) -> None:
        super().__init__(f"it is unknown whether this was committed: read it back ({why})")


class Damaged(StoreError):
    """A stored value cannot be decoded, such as text that is not UTF-8."""


class Violation(StoreError):
    """A constraint or a trigger of the database refused a row. Nothing was changed."""


class CannotOpen(StoreError):
    """The database cannot be opened; the message says what to do."""


class InUse(CannotOpen):
    """Another process has the SQLite file open, and only one can write to it."""
