from __future__ import annotations

import asyncio

import anyio
import pytest

from holdfast.kernel.cancel_once import CancelOnce


def a_stop() -> CancelOnce:
    return CancelOnce(asyncio.get_running_loop(), again=5)


def now() -> float:
    return asyncio.get_running_loop().time()


async def test_it_ends_the_block_and_nothing_else() -> None:
    stop = a_stop()
    asyncio.get_running_loop().call_later(3, stop.cancel)
    with stop:
        await anyio.sleep_forever()
    assert now() == 3
    await anyio.sleep(1)  # whoever goes on is not cancelled
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_block_that_nobody_stops_is_left_alone() -> None:
    with a_stop():
        await anyio.sleep(1)
    assert now() == 1


async def test_the_code_inside_may_clean_up() -> None:
    stop = a_stop()
    asyncio.get_running_loop().call_later(1, stop.cancel)
    cleaned = False
    with stop:
        try:
            await anyio.sleep_forever()
        finally:
            await asyncio.wait_for(asyncio.sleep(2), 3)
            cleaned = True
    assert cleaned
    assert now() == 3


async def test_a_stop_from_inside_does_not_reach_beyond_the_block() -> None:
    stop = a_stop()
    with stop:
        stop.cancel()
    await anyio.sleep(1)
    assert now() == 1


async def test_a_stop_that_comes_too_late_stops_nothing() -> None:
    stop = a_stop()
    with stop:
        pass
    stop.cancel()
    await anyio.sleep(1)
    assert now() == 1


async def test_who_keeps_the_cancellation_to_himself_is_cancelled_again() -> None:
    stop = a_stop()
    kept = 0
    asyncio.get_running_loop().call_later(1, stop.cancel)
    with stop:
        while kept < 3:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                kept += 1
    assert now() == 1 + 2 * 5
    await anyio.sleep(1)


async def test_another_cancellation_passes() -> None:
    async def block() -> None:
        with a_stop():
            await anyio.sleep_forever()

    task = asyncio.create_task(block())
    await anyio.sleep(1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("first", ["stop", "cancel"])
async def test_of_two_at_once_the_other_cancellation_wins(first: str) -> None:
    stops: list[CancelOnce] = []

    async def block() -> None:
        stops.append(a_stop())
        with stops[0]:
            await anyio.sleep_forever()

    task = asyncio.create_task(block())
    await anyio.sleep(1)
    for each in (first, "cancel" if first == "stop" else "stop"):
        if each == "stop":
            stops[0].cancel()
        else:
            task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_error_of_the_block_passes_although_it_was_stopped() -> None:
    stop = a_stop()
    asyncio.get_running_loop().call_later(1, stop.cancel)
    with pytest.raises(RuntimeError, match="instead"):
        with stop:
            try:
                await anyio.sleep_forever()
            except asyncio.CancelledError:
                raise RuntimeError("instead") from None
    await anyio.sleep(1)
