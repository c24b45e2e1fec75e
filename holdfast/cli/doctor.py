"""`holdfast doctor`: says which invariants do not hold in a database. Changes nothing."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from holdfast.chat import doctor
from holdfast.cli.codes import ExitCode
from holdfast.cli.place import database_of, refuse_missing
from holdfast.cli.terminal import safe
from holdfast.cli.wording import count
from holdfast.config import Where
from holdfast.kernel.ports import wall_clock
from holdfast.store.url import open_database


def main(where: Where) -> int:
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
            print(safe(" ".join(str(finding).split())), flush=True)
            found += 1
        print(summary(found, await doctor.count(db)))
    return ExitCode.FAILED if found else ExitCode.FINISHED


def summary(found: int, chats: int) -> str:
    """The last line."""
    said = count(found, "finding") if found else "nothing is wrong"
    return f"{count(chats, 'chat')}: {said}"
