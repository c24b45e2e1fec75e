"""Short blocking work of a tool, beside the event loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from holdfast.tools.blocking_work import to_end


async def test_the_event_loop_goes_on_meanwhile() -> None:
    loop = asyncio.get_running_loop()
    heard = threading.Event()

    def work() -> str:
        loop.call_soon_threadsafe(heard.set)
        assert heard.wait(5), "the loop stood still"
        return "done"

    assert await to_end(work) == "done"


async def test_what_it_raises_is_raised() -> None:
    def work() -> None:
        raise OSError("no such thing")

    with pytest.raises(OSError, match="no such thing"):
        await to_end(work)


async def test_work_that_is_cancelled_comes_to_its_end_and_its_result_is_kept() -> None:
    begun, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def work() -> str:
        loop.call_soon_threadsafe(begun.set)
        assert go_on.wait(5)
        return "written"

    task = asyncio.create_task(to_end(work))
    await begun.wait()
    task.cancel()
    await asyncio.sleep(0)
    go_on.set()
    assert await task == "written"


async def test_a_second_cancellation_does_not_wait() -> None:
    begun, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def work() -> None:
        loop.call_soon_threadsafe(begun.set)
        assert go_on.wait(5)

    task = asyncio.create_task(to_end(work))
    await begun.wait()
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go_on.set()
