"""Implements `holdfast migrate`: applies missing migrations to a database."""

from __future__ import annotations

import asyncio

from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.target import database_of
from holdfast.cli.trust_prompt import ensure_trusted
from holdfast.config import ChatTarget
from holdfast.kernel.ports import wall_clock
from holdfast.store.migrate import migrations
from holdfast.store.url import open_database


def main(where: ChatTarget) -> int:
    ensure_trusted(where)
    asyncio.run(_migrate(database_of(where, makes=True)))
    return ExitCode.FINISHED


async def _migrate(url: str) -> None:
    async with open_database(url, now=wall_clock) as db:
        for name in db.applied:
            print(f"applied {name}")
        if not db.applied:
            print(f"up to date at {migrations(db.dialect)[-1]}")
