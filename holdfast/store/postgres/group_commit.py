"""Group commit: transactions that wait at the same time share one statement and one fsync."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

from holdfast.store.completion import Answer
from holdfast.store.database import (
    GROUP,
    Bulk,
    Hold,
    Notice,
    OutcomeUnknown,
    StoreError,
    Transaction,
    Unavailable,
)
from holdfast.store.postgres.errors import Lost
from holdfast.store.postgres.transaction import OneStatement

T = TypeVar("T")
A = TypeVar("A")


class Waiting:
    """A transaction that waits to be committed, and its outcome."""

    def __init__(self, bulk: Bulk[Any, Any], one: Any) -> None:
        self.bulk = bulk
        self.one = one
        self.chat = getattr(one, "chat", None)
        self.answer: Answer[Any] = Answer()

    def succeed(self, result: Any) -> None:
        """Complete it with a result."""
        self.answer.value = result
        self.answer.tell()

    def fail(self, error: Exception) -> None:
        """Complete it with an error."""
        self.answer.error = error
        self.answer.tell()


class Committer:
    """The committer of a database. There is only one: two would make each other's groups
    smaller."""

    def __init__(
        self,
        *,
        one_statement: Callable[[], Awaitable[OneStatement]],
        write: Callable[[Transaction[Any]], Awaitable[Any]],
        tell: Callable[[Sequence[Notice]], None],
        start: Callable[[Coroutine[Any, Any, None]], object],
        hold: Hold,
    ) -> None:
        """one_statement: runs a transaction on the committer's own connection.
        write: runs and commits a separate transaction.
        start: runs a function in a background task."""
        self._one_statement = one_statement
        self._write = write
        self._tell = tell
        self._start = start
        self._hold = hold
        self._waiting: list[Waiting] = []
        self._working = False

    def submit(self, bulk: Bulk[A, T], one: A) -> Answer[T]:
        """Commit a transaction; returns its outcome. Submissions in the same iteration of the loop
        share the commit."""
        waiting = Waiting(bulk, one)
        self._waiting.append(waiting)
        if not self._working:
            self._working = True
            self._start(self._work())
        return waiting.answer

    async def _work(self) -> None:
        try:
            with self._hold():
                while self._waiting:
                    group, self._waiting = next_group(self._waiting)
                    await self._commit(group)
        finally:
            self._working = False

    async def _commit(self, group: Sequence[Waiting]) -> None:
        try:
            tx = await self._one_statement()
        except StoreError as error:
            for each in group:
                each.fail(Unavailable(str(error)))
            return
        try:
            outcomes = await group[0].bulk.together(tx, [each.one for each in group])
            if tx.failed:
                raise tx.failed
            if len(outcomes) != len(group):
                raise RuntimeError(f"{len(outcomes)} outcomes for {len(group)} transactions")
        except Exception as error:
            self._part(group, error, unknown=tx.committed or isinstance(error, Lost))
            return
        finally:
            tx.end()
        self._tell(tx.told)
        for each, outcome in zip(group, outcomes, strict=True):
            if outcome is None:
                self._start(self._alone(each))
            else:
                each.succeed(outcome)

    def _part(self, group: Sequence[Waiting], error: Exception, *, unknown: bool) -> None:
        """Run each transaction alone after the group failed, unless the group may have been
        committed."""
        for each in group:
            if unknown:
                each.fail(OutcomeUnknown(str(error)))
            else:
                self._start(self._alone(each))

    async def _alone(self, each: Waiting) -> None:
        try:
            each.succeed(await self._write(lambda tx: each.bulk.alone(tx, each.one)))
        except Exception as error:
            each.fail(error)


def next_group(
    waiting: Sequence[Waiting], limit: int = GROUP
) -> tuple[list[Waiting], list[Waiting]]:
    """Split off the next group: same kind as the first, one per chat, at most `limit`."""
    group: list[Waiting] = []
    left: list[Waiting] = []
    chats = set()
    for each in waiting:
        alike = each.bulk == waiting[0].bulk and len(group) < limit
        (group if alike and each.chat not in chats else left).append(each)
        if each.chat is not None:
            chats.add(each.chat)
    return group, left
