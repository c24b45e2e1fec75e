"""Implements `holdfast doctor`: reports violated invariants of a database. Read-only."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from holdfast.chat import doctor
from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.run_texts import count
from holdfast.cli.target import database_of, refuse_missing
from holdfast.cli.trust_prompt import ensure_trusted
from holdfast.config import ChatTarget
from holdfast.kernel.escape import escape
from holdfast.kernel.ports import wall_clock
from holdfast.store.url import open_database


def main(where: ChatTarget) -> int:
    ensure_trusted(where)
    database = database_of(where, makes=False)
    refuse_missing(database, where.data, "--database or --config")
    return asyncio.run(_examine(database))


async def _examine(url: str) -> int:
    found = 0
    async with (
        open_database(url, now=wall_clock, writes=False) as db,
        aclosing(doctor.examine(db)) as findings,
    ):
        async for finding in findings:
            print(escape(" ".join(str(finding).split())), flush=True)
            found += 1
        print(summary(found, await doctor.count(db)))
    return ExitCode.FAILED if found else ExitCode.FINISHED


def summary(found: int, chats: int) -> str:
    """The last line of the output."""
    result = count(found, "finding") if found else "no problems found"
    return f"{count(chats, 'chat')}: {result}"
