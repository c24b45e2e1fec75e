"""Group commit: transactions that wait at the same time share one statement and one fsync."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from holdfast.store.database import (
    MAX_GROUP_SIZE,
    Bulk,
    ChangeNotice,
    OutcomeUnknown,
    StoreError,
    Transaction,
    Unavailable,
)
from holdfast.store.postgres.errors import LostConnection
from holdfast.store.postgres.transaction import OneStatement
from holdfast.store.transaction_outcome import Completion

T = TypeVar("T")
A = TypeVar("A")


class QueuedCommit:
    """A transaction that waits to be committed, and its outcome."""

    def __init__(self, bulk: Bulk[Any, Any], item: Any) -> None:
        self.bulk = bulk
        self.item = item
        self.chat = getattr(item, "chat", None)
        self.completion: Completion[Any] = Completion()

    def succeed(self, result: Any) -> None:
        """Complete the transaction with a result."""
        self.completion.value = result
        self.completion.announce()

    def fail(self, error: Exception) -> None:
        """Complete it with an error."""
        self.completion.error = error
        self.completion.announce()


class Committer:
    """The committer of a database. There is only one per process, so that groups are large."""

    def __init__(
        self,
        *,
        one_statement: Callable[[], Awaitable[OneStatement]],
        write: Callable[[Transaction[Any]], Awaitable[Any]],
        distribute: Callable[[Sequence[ChangeNotice]], None],
        start: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        """Take the functions of the database that the committer needs.

        one_statement: returns a transaction on the committer's own connection.
        write: runs and commits a separate transaction.
        distribute: sends notices.
        start: runs a coroutine in a background task.
        """
        self._one_statement = one_statement
        self._write = write
        self._distribute = distribute
        self._start = start
        self._queue: list[QueuedCommit] = []
        self._is_working = False

    def submit(self, bulk: Bulk[A, T], item: A) -> Completion[T]:
        """Submit a transaction, and return its completion.

        Submissions in the same iteration of the loop share the commit.
        """
        commit = QueuedCommit(bulk, item)
        self._queue.append(commit)
        if not self._is_working:
            self._is_working = True
            self._start(self._work())
        return commit.completion

    async def _work(self) -> None:
        try:
            while self._queue:
                group, self._queue = next_group(self._queue)
                await self._commit(group)
        finally:
            self._is_working = False

    async def _commit(self, group: Sequence[QueuedCommit]) -> None:
        try:
            tx = await self._one_statement()
        except StoreError as error:
            for commit in group:
                commit.fail(Unavailable(str(error)))
            return
        try:
            outcomes = await group[0].bulk.together(tx, [commit.item for commit in group])
            if tx.failed:
                raise tx.failed
            if len(outcomes) != len(group):
                raise RuntimeError(f"{len(outcomes)} outcomes for {len(group)} transactions")
        except Exception as error:
            self._commit_separately(
                group, error, unknown=tx.committed or isinstance(error, LostConnection)
            )
            return
        finally:
            tx.end()
        self._distribute(tx.notices)
        for commit, outcome in zip(group, outcomes, strict=True):
            if outcome is None:
                self._start(self._alone(commit))
            else:
                commit.succeed(outcome)

    def _commit_separately(
        self, group: Sequence[QueuedCommit], error: Exception, *, unknown: bool
    ) -> None:
        """Run each transaction alone after the group failed, unless the group may have been
        committed."""
        for commit in group:
            if unknown:
                commit.fail(OutcomeUnknown(str(error)))
            else:
                self._start(self._alone(commit))

    async def _alone(self, commit: QueuedCommit) -> None:
        try:
            commit.succeed(await self._write(lambda tx: commit.bulk.alone(tx, commit.item)))
        except Exception as error:
            commit.fail(error)


def next_group(
    queue: Sequence[QueuedCommit], limit: int = MAX_GROUP_SIZE
) -> tuple[list[QueuedCommit], list[QueuedCommit]]:
    """Split the queue into the next group and the rest.

    A group has transactions of the same kind as the first, one per chat, and at most `limit`.
    """
    group: list[QueuedCommit] = []
    remaining: list[QueuedCommit] = []
    chats = set()
    for commit in queue:
        alike = commit.bulk == queue[0].bulk and len(group) < limit
        (group if alike and commit.chat not in chats else remaining).append(commit)
        if commit.chat is not None:
            chats.add(commit.chat)
    return group, remaining
