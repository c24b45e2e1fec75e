"""Checks that a block of async code leaves no task running."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from holdfast.testing.virtual_time import describe_task


@asynccontextmanager
async def no_leaked_tasks(*, turns: int = 10) -> AsyncIterator[None]:
    """Fail if a task started inside still runs, or an error was reported to the event loop.

    A task has `turns` iterations of the loop to end after the block. Reported errors are, for
    example, an exception that was never retrieved and a generator that failed while it was being
    closed. If the block itself raises, the findings are added to that exception as notes.

    Also a decorator for async functions.
    """
    loop = asyncio.get_running_loop()
    before = asyncio.all_tasks()
    reports: list[str] = []

    def report(_: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        message, error = str(context.get("message")), context.get("exception")
        reports.append(f"{message}: {error!r}" if error else message)

    handler = loop.get_exception_handler()
    loop.set_exception_handler(report)
    try:
        try:
            yield
        except Exception as error:
            for line in await _findings(before, reports, turns):
                error.add_note(line)
            raise
        if findings := await _findings(before, reports, turns):
            raise AssertionError("\n".join(findings))
    finally:
        loop.set_exception_handler(handler)


async def _findings(before: set[asyncio.Task[Any]], reports: list[str], turns: int) -> list[str]:
    # Young objects only: that is cheap, and finds the tasks that failed a moment ago.
    gc.collect(1)
    leaked: set[asyncio.Task[Any]] = set()
    for _ in range(turns):
        await asyncio.sleep(0)
        leaked = asyncio.all_tasks() - before - {asyncio.current_task()}
        if not leaked:
            break
    lines = [f"still running: {task}" for task in sorted(map(describe_task, leaked))]
    return lines + [f"reported to the event loop: {line}" for line in reports]
