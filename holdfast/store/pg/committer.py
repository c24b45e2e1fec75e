"""Group commit: transactions that wait at the same time share one statement and one fsync."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, TypeVar

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
from holdfast.store.outcome import Answer
from holdfast.store.pg.refusals import Lost
from holdfast.store.pg.transaction import OneStatement

T = TypeVar("T")
A = TypeVar("A")


class Waiting:
    """One who wants something committed, and where the outcome goes."""

    def __init__(self, bulk: Bulk[Any, Any], one: Any) -> None:
        self.bulk = bulk
        self.one = one
        self.chat = getattr(one, "chat", None)
        self.answer: Answer[Any] = Answer()

    def succeed(self, result: Any) -> None:
        self.answer.value = result
        self.answer.tell()

    def fail(self, error: Exception) -> None:
        self.answer.error = error
        self.answer.tell()


class Committer:
    """There is one of a database: two would only make each other's groups smaller."""

    def __init__(
        self,
        *,
        one_statement: Callable[[], Awaitable[OneStatement]],
        write: Callable[[Transaction[Any]], Awaitable[Any]],
        tell: Callable[[Sequence[Notice]], None],
        start: Callable[[Coroutine[Any, Any, None]], object],
        hold: Hold,
    ) -> None:
        """
        one_statement: a transaction on the connection that is the committer's alone.
        write: runs and commits a transaction of its own.
        start: runs something beside everything else.
        """
        self._one_statement = one_statement
        self._write = write
        self._tell = tell
        self._start = start
        self._hold = hold
        self._waiting: list[Waiting] = []
        self._working = False

    def submit(self, bulk: Bulk[A, T], one: A) -> Answer[T]:
        """The outcome, in time. Whoever else comes in this turn of the loop shares the commit."""
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
        self._tell(tx.told)
        for each, outcome in zip(group, outcomes, strict=True):
            if outcome is None:
                self._start(self._alone(each))
            else:
                each.succeed(outcome)

    def _part(self, group: Sequence[Waiting], error: Exception, *, unknown: bool) -> None:
        """It failed for all: each tries alone, unless it may have been committed after all."""
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
    """Who goes next, and who is left: like the first one, and one of a chat, at most `limit`."""
    group: list[Waiting] = []
    left: list[Waiting] = []
    chats = set()
    for each in waiting:
        alike = each.bulk == waiting[0].bulk and len(group) < limit
        (group if alike and each.chat not in chats else left).append(each)
        if each.chat is not None:
            chats.add(each.chat)
    return group, left
