from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator

import anyio
import pytest

from holdfast.testing import VirtualLoop, no_leaked_tasks

pytest_plugins = ["pytester"]


async def test_a_task_that_is_left_behind_is_named() -> None:
    async def left_behind() -> None:
        await asyncio.Event().wait()

    @no_leaked_tasks()
    async def block() -> None:
        started.append(asyncio.create_task(left_behind(), name="loose"))

    started: list[asyncio.Task[None]] = []
    with pytest.raises(AssertionError, match=r"still running: loose: .*left_behind \("):
        await block()
    started[0].cancel()


async def test_tasks_that_end_within_a_few_turns_are_no_leak() -> None:
    async def a_few_turns() -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    async with no_leaked_tasks():
        task = asyncio.create_task(a_few_turns())
    assert task.done()


async def test_tasks_from_before_are_no_leak() -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.sleep_forever)
        async with no_leaked_tasks():
            await asyncio.sleep(0)
        group.cancel_scope.cancel()


async def test_an_exception_that_nobody_retrieves_is_reported() -> None:
    async def fails() -> None:
        raise ValueError("unseen")

    @no_leaked_tasks()
    async def block() -> None:
        asyncio.create_task(fails())  # noqa: RUF006
        await asyncio.sleep(1)

    with pytest.raises(AssertionError, match=r"never retrieved.*unseen"):
        await block()


async def test_a_generator_that_fails_while_it_is_closed_is_reported() -> None:
    async def numbers() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            raise ValueError("in the finally")

    @no_leaked_tasks()
    async def block() -> None:
        async for _ in numbers():
            break

    with pytest.raises(AssertionError, match="in the finally"):
        await block()


async def test_what_is_left_by_a_block_that_fails_is_a_note_on_its_error() -> None:
    @no_leaked_tasks()
    async def block() -> None:
        started.append(asyncio.create_task(anyio.sleep_forever()))
        raise KeyError("mine")

    started: list[asyncio.Task[None]] = []
    with pytest.raises(KeyError, match="mine") as caught:
        await block()
    assert "still running" in caught.value.__notes__[0]
    started[0].cancel()


async def test_the_exception_handler_is_put_back() -> None:
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    async with no_leaked_tasks():
        assert loop.get_exception_handler() is not before
    assert loop.get_exception_handler() is before


async def test_it_decorates_an_async_function() -> None:
    @no_leaked_tasks()
    async def double(number: int) -> int:
        return 2 * number

    assert inspect.iscoroutinefunction(double)
    assert [await double(1), await double(2)] == [2, 4]


def test_the_check_runs_around_every_async_test(
    pytester: pytest.Pytester, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(VirtualLoop, "io_timeout", 0.0)
    here = request.config.rootpath / "tests" / "conftest.py"
    pytester.makeconftest(here.read_text())
    pytester.makepyfile(
        """
        import asyncio
        import pytest
        from hypothesis import given, strategies

        pytestmark = pytest.mark.anyio
        tasks = []

        async def test_leaks():
            tasks.append(asyncio.create_task(asyncio.sleep(9)))

        @given(strategies.booleans())
        async def test_leaks_sometimes(flag):
            if flag:
                tasks.append(asyncio.create_task(asyncio.sleep(9)))

        @pytest.mark.parametrize("number", [1, 2])
        @given(strategies.booleans())
        async def test_clean(number, flag):
            await asyncio.sleep(9)

        async def test_hangs():
            await asyncio.Event().wait()

        def test_not_async():
            pass
        """
    )
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")
    result.assert_outcomes(failed=3, passed=3)
    result.stdout.fnmatch_lines(["*still running: *sleep*", "*Deadlock: nothing is ready*"])
