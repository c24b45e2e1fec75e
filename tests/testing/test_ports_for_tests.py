from __future__ import annotations

import threading

import anyio
import pytest

from holdfast.testing import START, Clock, ports


async def test_the_world_answers_the_same_each_time() -> None:
    def answers(seed: int) -> list[object]:
        world = ports(seed)
        return [world.now(), world.random(), world.random(), world.new_id(), world.new_id()]

    assert answers(0) == answers(0)
    assert answers(0)[1:3] != answers(1)[1:3]
    assert answers(0)[3:] == ["id-1", "id-2"]


async def test_the_wall_clock_goes_with_virtual_time() -> None:
    world = ports()
    await anyio.sleep(2)
    assert world.now() == START + 2_000_000


async def test_the_wall_clock_may_be_the_test_s_own() -> None:
    clock = Clock(at=0)
    world = ports(clock=clock)
    clock.advance(1)
    assert world.now() == 1_000_000


async def test_threads_run_on_the_event_loop() -> None:
    assert await ports().in_thread(threading.current_thread) is threading.current_thread()


async def test_a_thread_does_not_start_when_it_is_cancelled_before() -> None:
    started: list[str] = []
    with anyio.CancelScope() as scope:
        scope.cancel()
        await ports().in_thread(lambda: started.append("yes"))
    assert scope.cancelled_caught
    assert not started


async def test_what_a_thread_sends_arrives_in_order_before_its_result() -> None:
    world = ports()
    send, receive = anyio.create_memory_object_stream[int](0)
    received: list[int] = []

    def work() -> str:
        for number in range(3):
            world.from_thread(lambda number=number: send.send(number))  # type: ignore[misc]
        return "done"

    async def read() -> None:
        async for number in receive:
            await anyio.sleep(10)
            received.append(number)

    async with receive, anyio.create_task_group() as group:
        group.start_soon(read)
        async with send:
            assert await world.in_thread(work) == "done"
            assert received == [0, 1]  # the reader holds the third
    assert received == [0, 1, 2]


async def test_what_a_thread_sent_arrives_although_it_fails() -> None:
    world = ports()
    arrived: list[str] = []

    async def arrive() -> None:
        arrived.append("yes")

    def work() -> None:
        world.from_thread(arrive)
        raise OSError("disk")

    with pytest.raises(OSError, match="disk"):
        await world.in_thread(work)
    assert arrived == ["yes"]


async def test_sending_from_outside_a_thread_is_refused() -> None:
    with pytest.raises(RuntimeError, match="in_thread"):
        ports().from_thread(anyio.sleep_forever)
