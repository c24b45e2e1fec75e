"""Usage: tokens and cost of chats."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import reduce
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from holdfast.chat.handle import Chat
from holdfast.chat.queries import Spent
from holdfast.kernel.messages import Usage
from holdfast.server.operation import ApiCall, operation
from holdfast.server.shared_request_types import MAX_SAFE_INTEGER, RequestStruct
from holdfast.store.database import Tx

DAY_MICROSECONDS: Final = 24 * 3600 * 1_000_000


class ChatUsageQuery(RequestStruct, frozen=True):
    """Query of the usage of a chat."""

    tree: bool = False
    """Include its child chats."""


@operation("GET", "/chats/{chat}/usage", "Tokens and cost of a chat")
async def chat_usage(call: ApiCall, chat: Chat, query: ChatUsageQuery) -> Spent:
    return await chat.usage(tree=query.tree)


class UsageQuery(RequestStruct, frozen=True):
    """A period of time."""

    since: Annotated[int, Meta(ge=0, le=MAX_SAFE_INTEGER)] = 0
    """Microseconds since 1970, UTC."""
    until: Annotated[int, Meta(ge=0, le=MAX_SAFE_INTEGER)] = MAX_SAFE_INTEGER


class DayUsage(Struct, frozen=True):
    """Usage of one day."""

    day: str
    """Date as 2026-12-31, UTC."""
    spent: Spent


class UsageReport(Struct, frozen=True):
    """Usage of the caller's chats."""

    total: Spent
    days: tuple[DayUsage, ...]
    """Days with any usage, in order."""


@operation("GET", "/usage", "Tokens and cost of all chats of the caller, by day")
async def usage(call: ApiCall, query: UsageQuery) -> UsageReport:
    columns = "input, output, reasoning, cache_read, cache_write, cost, created_at"
    day = f"created_at / {DAY_MICROSECONDS}"
    mine = "chat_id IN (SELECT id FROM chats WHERE owner = :owner)"

    async def read(tx: Tx) -> Any:
        return await tx.fetch(
            f"""
            SELECT {day}, sum(input), sum(output), sum(reasoning), sum(cache_read),
                   sum(cache_write), sum(cost), count(*), count(*) - count(cost)
              FROM (SELECT {columns} FROM messages WHERE {mine} AND input IS NOT NULL
                    UNION ALL SELECT {columns} FROM usage WHERE {mine}) AS counted
             WHERE created_at >= :since AND created_at < :until
             GROUP BY {day} ORDER BY {day}
            """,
            {"owner": call.user, "since": query.since, "until": query.until},
        )

    days = tuple(_day(row) for row in await call.server.db.read(read))
    none = Spent(Usage(), 0, 0)
    return UsageReport(reduce(_sum, (day.spent for day in days), none), days)


def _day(row: Any) -> DayUsage:
    day, *tokens, cost, calls, unpriced = row
    input, output, reasoning, cache_read, cache_write = (int(count) for count in tokens)
    used = Usage(input, output, reasoning, cache_read, cache_write, cost)
    date = datetime.fromtimestamp(day * DAY_MICROSECONDS / 1_000_000, UTC).date()
    return DayUsage(date.isoformat(), Spent(used, calls, unpriced))


def _sum(one: Spent, other: Spent) -> Spent:
    return Spent(one.usage + other.usage, one.calls + other.calls, one.unpriced + other.unpriced)
