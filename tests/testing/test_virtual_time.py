from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from holdfast.testing import START, Clock, Deadlock, VirtualLoop, run_virtual
from tests.late_io import late_loop


class Impatient(VirtualLoop):
    patience = 0.0
    max_jumps = 100


def virtual_loop() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop


def deadlock(main: Callable[[], Coroutine[Any, Any, object]]) -> Deadlock:
    with asyncio.Runner(loop_factory=Impatient) as runner, pytest.raises(Deadlock) as caught:
        runner.run(main())
    return caught.value


def test_a_day_passes_in_no_time() -> None:
    async def main() -> float:
        await asyncio.sleep(86_400 * 3)
        return asyncio.get_running_loop().time()

    began = time.monotonic()
    assert run_virtual(main()) == pytest.approx(86_400 * 3)
    assert time.monotonic() - began < 5


def test_virtual_time_begins_at_zero_on_every_loop() -> None:
    async def main() -> float:
        return anyio.current_time()

    assert run_virtual(main()) == run_virtual(main()) == 0


async def test_async_tests_run_on_the_virtual_loop() -> None:
    assert virtual_loop().time() == 0


async def test_timers_fire_in_their_order_whatever_order_they_were_set_in() -> None:
    fired: list[float] = []

    async def sleeper(seconds: float) -> None:
        await anyio.sleep(seconds)
        fired.append(seconds)

    async with anyio.create_task_group() as group:
        for seconds in 30, 0.5, 900, 1:
            group.start_soon(sleeper, seconds)
    assert fired == [0.5, 1, 30, 900]


async def test_time_stands_still_while_there_is_something_to_do() -> None:
    began = anyio.current_time()
    for _ in range(100):
        await anyio.lowlevel.checkpoint()
    assert anyio.current_time() == began


async def test_a_timeout_fires_at_its_virtual_moment() -> None:
    with anyio.move_on_after(60) as scope:
        await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert anyio.current_time() == pytest.approx(60)


async def test_sockets_are_served_before_the_clock_jumps() -> None:
    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readline()).upper())
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(shout, "127.0.0.1", 0)
    async with server:
        address = server.sockets[0].getsockname()
        with anyio.fail_after(1):
            reader, writer = await asyncio.open_connection(*address)
            for line in b"hello\n", b"":
                writer.write(line)
                assert await reader.readline() == line.upper()
            writer.close()
            await writer.wait_closed()
    assert anyio.current_time() < 1


async def test_a_call_in_the_default_executor_holds_the_clock() -> None:
    go = threading.Event()
    loop = virtual_loop()
    loop.call_soon(go.set)
    async with asyncio.timeout(1):
        assert await loop.run_in_executor(None, go.wait, 10)
    await loop.shutdown_default_executor()
    assert loop.time() < 1


async def test_time_can_be_held_for_a_thread() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, virtual_loop().hold_time(), anyio.fail_after(1):
        ours.sendall(b"x")
        assert await anyio.to_thread.run_sync(theirs.recv, 1) == b"x"
    assert anyio.current_time() < 1


def test_waiting_for_what_nobody_does_is_a_deadlock_that_names_the_tasks() -> None:
    async def forgotten() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(forgotten(), name="the-forgotten-one")

    error = deadlock(main)
    assert error.reason == "nothing is ready and no timer is set"
    assert len(error.tasks) == 2
    assert "the-forgotten-one: " in str(error)
    assert "forgotten (test_virtual_time.py:" in str(error)
    assert "> Event.wait (locks.py:" in str(error)


def test_going_round_in_timers_is_a_deadlock_too() -> None:
    async def main() -> None:
        for _ in range(1_000):
            await asyncio.sleep(9)

    assert deadlock(main).reason == "100 timers went by"


def test_after_a_deadlock_the_tasks_are_cancelled_and_may_clean_up() -> None:
    cleaned: list[str] = []

    async def main() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(5)
            cleaned.append("up")

    deadlock(main)
    assert cleaned == ["up"]


def test_a_callback_from_a_thread_is_no_deadlock() -> None:
    async def main() -> str:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[str] = loop.create_future()
        thread = threading.Thread(
            target=lambda: loop.call_soon_threadsafe(answer.set_result, "from outside")
        )
        loop.call_soon(thread.start)
        try:
            return await answer
        finally:
            thread.join()

    assert run_virtual(main()) == "from outside"


def test_the_clock_starts_at_a_fixed_moment_and_goes_with_virtual_time() -> None:
    async def main() -> tuple[int, int]:
        clock = Clock()
        before = clock.now()
        await asyncio.sleep(1.5)
        return before, clock.now()

    assert run_virtual(main()) == (START, START + 1_500_000)


def test_the_clock_stands_still_outside_virtual_time() -> None:
    async def main() -> int:
        return clock.now()

    clock = Clock(at=7)
    assert clock.now() == 7
    assert asyncio.run(main()) == 7


async def test_the_clock_can_be_set_without_any_timer_noticing() -> None:
    clock = Clock(at=0)
    clock.advance(31)
    assert clock.now() == 31_000_000
    clock.advance(-1)
    assert clock.now() == 30_000_000
    assert anyio.current_time() == 0


# --- Answers that come late ---------------------------------------------------------------------


def heard_on(loop: Callable[[], VirtualLoop]) -> str:
    """Whom a loop hears first of two who spoke at the same time, and the time that passed."""

    async def main() -> str:
        heard: list[str] = []
        pairs = {name: socket.socketpair() for name in "ab"}
        running = virtual_loop()

        async def hear(name: str) -> None:
            ours, _ = pairs[name]
            ours.setblocking(False)
            heard.append((await running.sock_recv(ours, 1)).decode())

        async with anyio.create_task_group() as group:
            for name in pairs:
                group.start_soon(hear, name)
            await anyio.lowlevel.checkpoint()
            for name, (_, theirs) in pairs.items():
                theirs.send(name.encode())
        for pair in pairs.values():
            for end in pair:
                end.close()
        assert running.time() == 0
        return "".join(heard)

    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(main())


def test_on_a_late_loop_either_of_two_may_be_heard_first_and_no_time_passes() -> None:
    late = late_loop("any")
    assert {heard_on(late) for _ in range(50)} == {"ab", "ba"}


def test_a_late_loop_still_sees_that_nothing_can_happen() -> None:
    class Hopeless(late_loop("any")):  # type: ignore[misc]
        patience = 0.0

    async def main() -> None:
        await asyncio.get_running_loop().create_future()

    with asyncio.Runner(loop_factory=Hopeless) as runner, pytest.raises(Deadlock):
        runner.run(main())
