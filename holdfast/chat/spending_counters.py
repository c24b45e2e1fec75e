"""Counters of what a chat has spent, in its row: the UPDATE of a step increments them.

They count since ever and since the beginning of the chat's last day, so that a budget is compared
with sums over few rows. The messages and charges of the chat are what they must agree with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import isclose
from typing import Any, Final

from msgspec import Struct

from holdfast.chat.history_invariants import Complaint
from holdfast.kernel.messages import Message, ToolResult, Usage
from holdfast.kernel.turn import working_time
from holdfast.store.database import Tx

DAY: Final = 24 * 3600 * 1_000_000
"""Microseconds of a day. Days are counted from 1970, in UTC."""


class Spending(Struct):
    """Usage of one transaction, to be added to the counters."""

    steps: int = 0
    """Number of answers."""
    tokens: int = 0
    cost: float = 0.0
    time: int = 0
    """Microseconds of work: answers of models, and calls of tools. Parallel calls count once."""
    unpriced: int = 0
    """Number of model calls without a known price, which `cost` does not include."""

    def add_message(self, message: Message) -> None:
        """Add a message that a runner commits."""
        if message.kind == "answer":
            if message.visibility != "user":
                self.steps += 1
            self.time += 1_000 * (message.runtime or 0)
        elif message.kind == "results":
            self._add_calls(message)
        if message.usage is not None:
            self.add_usage(message.usage)

    def _add_calls(self, results: Message) -> None:
        ran: list[tuple[int, int]] = []
        for part in results.parts:
            if type(part) is ToolResult:
                self.steps += part.steps
                if part.started_at is not None and part.finished_at is not None:
                    ran.append((part.started_at, part.finished_at))
        self.time += working_time(ran)

    def add_usage(self, usage: Usage) -> None:
        """Add the usage of one model call."""
        self.tokens += usage.context
        if usage.cost is None:
            self.unpriced += 1
        else:
            self.cost += usage.cost


NOTHING_SPENT: Final = Spending()


def spending_params(spending: Spending) -> dict[str, Any]:
    """Return the parameters of `SPEND`, except the time."""
    return {
        "steps": spending.steps,
        "tokens": spending.tokens,
        "spent": spending.cost,
        "time": spending.time,
        "unpriced": spending.unpriced,
    }


def spending_of(messages: Iterable[Message]) -> Spending:
    """Add up the usage of messages that a runner commits."""
    spending = Spending()
    for message in messages:
        spending.add_message(message)
    return spending


DAY_COUNTERS: Final = ("steps", "tokens", "cost", "time")
ALL_COUNTERS: Final = (*DAY_COUNTERS, "unpriced")
SPENDING_COLUMNS: Final = (
    *(f"spent_{name}" for name in ALL_COUNTERS),
    "spent_day",
    *(f"day_{name}" for name in DAY_COUNTERS),
)
"""Columns of `chats` and of `deleted_spending`."""


def spend_assignments(row: str, increment: str, now: str) -> str:
    """Return the assignments of an UPDATE that adds to the counters of a chat.

    `row` is the prefix of the columns of `chats`, `increment` that of the added values, `now` the
    time. A clock that is set back begins no new day.
    """
    today = f"{now} / {DAY}"
    of_day = [
        f"day_{name} = CASE WHEN {row}spent_day >= {today} THEN {row}day_{name} ELSE 0 END"
        f" + {_added(increment, name)}"
        for name in DAY_COUNTERS
    ]
    last_day = f"CASE WHEN {row}spent_day > {today} THEN {row}spent_day ELSE {today} END"
    return ", ".join([_since_ever(row, increment), *of_day, f"spent_day = {last_day}"])


def same_day_assignments(row: str, increment: str) -> str:
    """Return the same assignments for a chat whose day has not ended, as `same_day` says.

    SQLite rewrites the index of a column that is assigned, even if its value stays.
    """
    of_day = [f"day_{name} = {row}day_{name} + {_added(increment, name)}" for name in DAY_COUNTERS]
    return ", ".join([_since_ever(row, increment), *of_day])


def same_day(row: str, now: str) -> str:
    """Return the condition that the last day of a chat has not ended."""
    return f"{row}spent_day >= {now} / {DAY}"


def _since_ever(row: str, increment: str) -> str:
    return ", ".join(
        f"spent_{name} = {row}spent_{name} + {_added(increment, name)}" for name in ALL_COUNTERS
    )


def _added(increment: str, name: str) -> str:
    """The value that a statement adds to a counter."""
    return f"{increment}{'spent' if name == 'cost' else name}"


SPEND: Final = spend_assignments("", ":", ":at")


async def spend(tx: Tx, chat_id: str, now: int, spending: Spending) -> None:
    """Add to the counters of a locked chat."""
    await tx.execute(
        f"UPDATE chats SET {SPEND} WHERE id = :id",
        {"id": chat_id, "at": now, **spending_params(spending)},
    )


async def keep_spending(tx: Tx, chat_id: str) -> None:
    """Keep the counters of a chat that is about to be deleted: a deletion refunds nothing."""
    columns = ", ".join(("owner", "root_id", *SPENDING_COLUMNS))
    await tx.execute(
        f"""
        INSERT INTO deleted_spending (chat_id, {columns})
        SELECT id, {columns} FROM chats WHERE id = :id AND (spent_steps > 0 OR spent_tokens > 0)
        """,
        {"id": chat_id},
    )


# --- invariant 20 ---


class SpendingRow(Struct, frozen=True, kw_only=True):
    """The counters of a chat: what it has spent, since ever and on its last day."""

    spent_steps: int
    spent_tokens: int
    spent_cost: float
    spent_time: int
    spent_unpriced: int
    spent_day: int | None
    day_steps: int
    day_tokens: int
    day_cost: float
    day_time: int


def wrong_counters(
    row: SpendingRow, messages: Iterable[tuple[int, Message]], charges: Iterable[tuple[int, Usage]]
) -> Iterator[Complaint]:
    """20: the counters of a chat are the sums of its messages and charges.

    `messages` are those that runners committed, and `charges` the usage of others, with their
    times. A chat of an earlier version may have counted less time.
    """
    since_ever, by_day = Spending(), dict[int, Spending]()
    newest, clock_was_set_back = 0, False
    for at, message in messages:
        since_ever.add_message(message)
        by_day.setdefault(at // DAY, Spending()).add_message(message)
        clock_was_set_back |= at // DAY < newest
        newest = max(newest, at // DAY)
    for at, usage in charges:
        since_ever.add_usage(usage)
        by_day.setdefault(at // DAY, Spending()).add_usage(usage)
    yield from _differences(row, "spent", since_ever, ALL_COUNTERS)
    last_day = max(
        (day for day, spending in by_day.items() if spending != NOTHING_SPENT), default=0
    )
    if last_day > (row.spent_day or 0):
        yield 20, "spent_day", f"it is {row.spent_day}, and usage was committed on day {last_day}"
    elif not clock_was_set_back:
        of_day = by_day.get(row.spent_day or 0, Spending())
        yield from _differences(row, "day", of_day, DAY_COUNTERS)


def _differences(
    row: SpendingRow, prefix: str, spending: Spending, names: Sequence[str]
) -> Iterator[Complaint]:
    for name in names:
        counted, spent = getattr(row, f"{prefix}_{name}"), getattr(spending, name)
        at_most = name == "time" and counted <= spent
        if not at_most and not isclose(counted, spent, rel_tol=1e-9, abs_tol=1e-9):
            yield 20, f"{prefix}_{name}", f"it is {counted}, and the sum is {spent}"
