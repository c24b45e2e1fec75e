"""The clock of the database, and how far queries for changes reach back."""

from __future__ import annotations

from typing import Final

from holdfast.store.database import Tx

QUERY_OVERLAP: Final = 60_000_000
"""Microseconds by which a query for changes reaches back before the query before it.

A transaction that was not committed at that time may write an earlier time."""


async def now_of(tx: Tx) -> int:
    """Read the database's clock."""
    row = await tx.one(f"SELECT {tx.dialect.now}")
    assert row is not None
    return int(row[0])
