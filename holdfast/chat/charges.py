"""Charges: usage that no message carries, such as that of a failed attempt or of a title."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.chat.locked_chat import LockedChat
from holdfast.chat.rows import Charge
from holdfast.chat.spending_counters import NOTHING_SPENT, Spending, spend


async def charge(locked: LockedChat, charges: Sequence[Charge]) -> None:
    """Record charges of a chat. The id of a charge makes this idempotent."""
    spending = Spending()
    for item in charges:
        usage = item.usage
        values: dict[str, Any] = {
            "chat_id": locked.chat.id,
            "id": item.id,
            "purpose": item.purpose,
            "model": item.model,
            "input": usage.input,
            "output": usage.output,
            "reasoning": usage.reasoning,
            "cache_read": usage.cache_read,
            "cache_write": usage.cache_write,
            "cost": usage.cost,
            "created_at": locked.now,
        }
        count = await locked.tx.execute(
            f"""
            INSERT INTO usage ({", ".join(values)})
            VALUES ({", ".join(f":{name}" for name in values)})
            ON CONFLICT (chat_id, id) DO NOTHING
            """,
            values,
        )
        if count:
            spending.add_usage(usage)
    if spending != NOTHING_SPENT:
        await spend(locked.tx, locked.chat.id, locked.now, spending)
