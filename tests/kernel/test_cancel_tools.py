"""What a tool may expect when it is stopped, and what it may not do to the run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal

import anyio
import pytest

from holdfast import Tool, ToolContext, tool
from holdfast.hooks import Context
from holdfast.kernel.call_admission import Proceed
from holdfast.kernel.events import RunEnded, ToolFinished, ToolStarted, Warned
from holdfast.kernel.tool import Values
from holdfast.messages import ToolCall, ToolResult
from holdfast.options import Calls, Policy, Ports
from holdfast.testing import ScriptedModel, ScriptItem, call, run_virtual
from tests.kernel.runs import events_of, now, only
from tests.kernel.toolkit import (
    agent_for,
    assert_valid,
    finished,
    outcomes,
    progress,
    result_of,
    results_in,
    turns,
    watched,
)

Stop = Literal["timeout", "interrupt", "steer"]


class Stubborn:
    """A tool that goes on, whatever it is told, until the test lets it go."""

    def __init__(self) -> None:
        self.cancelled = 0
        self.ended = False
        self._go = asyncio.Event()
        self._context: ToolContext | None = None

    def tool(self, **properties: Any) -> Tool:
        async def stubborn(context: ToolContext) -> str:
            self._context = context
            while not self._go.is_set():
                try:
                    await self._go.wait()
                except asyncio.CancelledError:
                    self.cancelled += 1
            await context.progress("hear me")
            self.ended = True
            return "late"

        return tool(**properties)(stubborn)

    async def let_go(self) -> None:
        self._go.set()
        await turns()


@asynccontextmanager
async def stubborn() -> AsyncIterator[Stubborn]:
    one = Stubborn()
    try:
        yield one
    finally:
        await one.let_go()


# --- timeouts -----------------------------------------------------------------------------------


async def test_a_tool_that_takes_too_long_is_cancelled_and_timed_out() -> None:
    @tool(timeout=5)
    async def slow() -> None:
        await asyncio.sleep(60)

    made = await result_of(slow)

    assert made.outcome == "timed_out"
    assert "5 s" in made.text
    assert now() == 5


async def test_a_tool_that_is_in_time_is_not_timed_out() -> None:
    @tool(timeout=5)
    async def quick() -> str:
        await asyncio.sleep(4)
        return "done"

    assert (await result_of(quick)).outcome == "ok"
    assert now() == 4


async def test_the_time_of_a_tool_begins_when_its_function_does() -> None:
    async def gate(_context: Context, call: ToolCall, values: Values) -> None:
        await asyncio.sleep(100)

    @tool(timeout=5)
    async def quick() -> str:
        await asyncio.sleep(4)
        return "done"

    agent = agent_for([[call("quick"), call("quick")], "."], quick, gate=gate)
    assert outcomes((await agent.run("Go.")).history) == ["ok", "ok"]


async def return_anyway() -> str:
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        return "I say I am done"
    return "unreachable"


async def raise_another() -> None:
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        raise ConnectionResetError("the socket is gone") from None


async def fail_to_clean_up() -> None:
    try:
        await asyncio.sleep(60)
    finally:
        raise RuntimeError("cannot clean up")


@pytest.mark.parametrize("function", [return_anyway, raise_another, fail_to_clean_up])
async def test_a_timeout_is_a_timeout_whatever_the_tool_makes_of_it(
    function: Callable[..., Any],
) -> None:
    made = await result_of(tool(timeout=5)(function))
    assert made.outcome == "timed_out"
    assert "I say I am done" not in made.text


@pytest.mark.parametrize("function", [raise_another, fail_to_clean_up])
async def test_a_tool_that_fails_because_it_was_interrupted_counts_as_interrupted(
    function: Callable[..., Any],
) -> None:
    result = await stopped_by("interrupt", tool(name="work")(function))
    assert outcomes(result.history) == ["interrupted"]


async def test_a_tool_that_finishes_in_spite_of_an_interrupt_keeps_its_result() -> None:
    result = await stopped_by("interrupt", tool(name="work")(return_anyway))
    (made,) = results_in(result.history)
    assert (made.outcome, made.text) == ("ok", "I say I am done")


async def test_a_timeout_of_one_call_does_not_concern_the_others() -> None:
    @tool(timeout=1, parallel=True)
    async def slow() -> None:
        await asyncio.sleep(60)

    @tool(effect="pure")
    async def other() -> str:
        await asyncio.sleep(3)
        return "fine"

    result = await agent_for([[call("other"), call("slow"), call("other")], "."], slow, other).run(
        "Go."
    )
    assert outcomes(result.history) == ["ok", "timed_out", "ok"]
    assert now() == 3


# --- cancelled once, with time to clean up ------------------------------------------------------


async def stopped_by(stop: Stop, one: Tool, **limits: Any) -> Any:
    """A run whose tool `work` is stopped after a second. A timeout is the tool's own affair."""
    policy = Policy(calls=Calls(**limits))
    run = agent_for([call("work"), "."], one, policy=policy).run("Go.")
    waiting = asyncio.create_task(_outcome(run))
    await asyncio.sleep(1)
    if stop == "interrupt":
        run.interrupt()
    elif stop == "steer":
        run.steer("Stop that.")
    return await waiting


async def _outcome(run: Any) -> Any:
    return await run


@pytest.mark.parametrize("stop", ["timeout", "interrupt", "steer"])
async def test_a_tool_is_cancelled_once_and_its_clean_up_may_await(stop: Stop) -> None:
    log: list[str] = []

    @tool(timeout=1 if stop == "timeout" else None, on_steer="cancel")
    async def work() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            log.append("cancelled")
            for _ in range(3):
                await asyncio.sleep(1)  # each await would raise again under a cancel scope
                log.append("cleaned")
            raise

    result = await stopped_by(stop, work)

    assert log == ["cancelled", "cleaned", "cleaned", "cleaned"]
    assert outcomes(result.history) == ["timed_out" if stop == "timeout" else "interrupted"]
    assert now() == 4


@pytest.mark.parametrize("first", ["timeout", "steer"])
async def test_a_tool_that_is_stopped_twice_is_cancelled_once(first: Stop) -> None:
    log: list[str] = []

    @tool(timeout=1 if first == "timeout" else None, on_steer="cancel")
    async def work() -> None:
        for _ in range(2):
            try:
                await asyncio.sleep(3)
            except asyncio.CancelledError:
                log.append("cancelled")

    run = agent_for([call("work"), "."], work).run("Go.")
    waiting = asyncio.create_task(_outcome(run))
    await asyncio.sleep(1)
    if first == "steer":
        run.steer("Stop that.")
    await asyncio.sleep(1)
    run.interrupt()
    run.interrupt()
    await waiting

    assert log == ["cancelled"]


@pytest.mark.parametrize("stop", ["timeout", "interrupt", "steer"])
async def test_a_tool_that_does_not_stop_in_time_is_left_behind_with_a_warning(stop: Stop) -> None:
    async with stubborn() as one:
        work = one.tool(
            name="work", timeout=1 if stop == "timeout" else None, on_steer="cancel", effect="pure"
        )
        run = agent_for([call("work"), "."], work).run("Go.")
        reading = asyncio.create_task(events_of(run))
        await asyncio.sleep(1)
        if stop == "interrupt":
            run.interrupt()
        elif stop == "steer":
            run.steer("Stop that.")
        events = await reading

        assert now() == 6, "five seconds of grace, no more"
        assert one.cancelled == 1
        assert not one.ended
        (warning,) = only(Warned, events)
        assert "work" in warning.text
        (event,) = only(ToolFinished, events)
        assert event.result.outcome == ("timed_out" if stop == "timeout" else "interrupted")
        assert "may still be running" in event.result.text
        assert isinstance(events[-1], RunEnded)


async def test_the_late_result_of_a_tool_that_was_left_behind_is_dropped() -> None:
    async with stubborn() as one:
        work = one.tool(name="work", timeout=1)

        async def let_go(request: object) -> None:
            await one.let_go()
            assert one.ended

        script: list[ScriptItem] = [call("work"), [let_go, "Still here."]]
        events, result = await watched(agent_for(script, work).run("Go."))

    assert outcomes(result.history) == ["timed_out"]
    assert finished(events) == [("call_1", "timed_out")]
    assert progress(events) == []
    assert result.text == "Still here."
    assert_valid(result.history)


async def test_a_tool_left_behind_may_even_fail_later() -> None:
    go = asyncio.Event()

    @tool(timeout=1)
    async def work() -> None:
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue
        raise SystemExit("too late")

    made = await result_of(work)
    go.set()
    await turns()

    assert made.outcome == "timed_out"


async def test_a_tool_that_is_left_behind_makes_room_for_the_next() -> None:
    @tool
    async def other() -> str:
        return "fine"

    async with stubborn() as one:
        script = [[call("work"), call("other")], "."]
        result = await agent_for(script, one.tool(name="work", timeout=1), other).run("Go.")

    assert outcomes(result.history) == ["timed_out", "ok"]
    assert now() == 6


@pytest.mark.parametrize("grace", [0, 30])
async def test_the_grace_period_is_a_setting(grace: float) -> None:
    async with stubborn() as one:
        result = await stopped_by("interrupt", one.tool(name="work"), grace=grace)
        assert outcomes(result.history) == ["interrupted"]
        assert now() == 1 + grace


async def test_a_tool_that_swallows_every_cancellation_does_not_hold_up_closing_the_run() -> None:
    async with stubborn() as one:
        run = agent_for([call("work"), "."], one.tool(name="work")).run("Go.")
        async with run:
            await asyncio.sleep(1)
        assert now() == 6
        assert one.cancelled == 1


# --- who is cancelled, and what the model is told -----------------------------------------------


@pytest.mark.parametrize("effect", ["pure", "idempotent", "once"])
async def test_only_a_pure_tool_cannot_have_taken_effect(effect: Any) -> None:
    @tool(effect=effect)
    async def work() -> None:
        await asyncio.sleep(60)

    (made,) = results_in((await stopped_by("interrupt", work)).history)

    assert made.outcome == "interrupted"
    assert ("may have taken effect" in made.text) == (effect != "pure")


async def test_a_call_that_was_stopped_before_its_function_began_has_had_no_effect() -> None:
    @tool
    async def work() -> str:
        return "done"

    async def gate(_context: Context, call: ToolCall, values: Values) -> None:
        await asyncio.sleep(60)

    run = agent_for([call("work"), "."], work, gate=gate).run("Go.")
    waiting = asyncio.create_task(_outcome(run))
    await asyncio.sleep(1)
    run.interrupt()

    (made,) = results_in((await waiting).history)
    assert made.outcome == "interrupted"
    assert "effect" not in made.text


async def test_an_interrupt_cancels_every_running_call_and_starts_no_other() -> None:
    log: list[str] = []

    @tool(effect="pure", on_steer="finish")
    async def work(name: str) -> None:
        log.append(name)
        await asyncio.sleep(60)

    @tool(on_steer="finish")
    async def last() -> None:
        log.append("last")

    run = agent_for(
        [[call("work", name="a"), call("work", name="b"), call("last")]], work, last
    ).run("Go.")
    reading = asyncio.create_task(events_of(run))
    await asyncio.sleep(1)
    run.interrupt()
    events = await reading

    assert log == ["a", "b"]
    result = await run
    assert outcomes(result.history) == ["interrupted"] * 3
    assert sorted(finished(events)) == [(f"call_{n}", "interrupted") for n in (1, 2, 3)]
    assert result.reason == "interrupted"
    assert result.history[-1].kind == "marker"
    assert_valid(result.history)


async def test_an_interrupt_keeps_what_has_finished() -> None:
    @tool(effect="idempotent", parallel=True)
    async def work(seconds: float) -> str:
        await asyncio.sleep(seconds)
        return f"after {seconds:g}"

    run = agent_for([[call("work", seconds=60), call("work", seconds=0.5)]], work).run("Go.")
    waiting = asyncio.create_task(_outcome(run))
    await asyncio.sleep(1)
    run.interrupt()
    result = await waiting

    assert [(made.outcome, made.call_id) for made in results_in(result.history)] == [
        ("interrupted", "call_1"),
        ("ok", "call_2"),
    ]


def working(log: list[str], **properties: Any) -> Tool:
    async def work(name: str) -> str:
        log.append(name)
        await asyncio.sleep(5)
        return name

    return tool(name="work", **properties)(work)


async def steered(one: Tool, *names: str) -> Any:
    script = [[call("work", name=name) for name in names], "I see."]
    run = agent_for(script, one).run("Go.")
    waiting = asyncio.create_task(_outcome(run))
    await asyncio.sleep(1)
    run.steer("Something else.")
    result = await waiting
    assert_valid(result.history)
    assert [message.text for message in result.history if message.kind == "prompt"] == [
        "Go.",
        "Something else.",
    ]
    assert result.text == "I see."
    return result


async def test_steering_lets_a_running_call_finish_and_skips_the_others() -> None:
    log: list[str] = []
    result = await steered(working(log, effect="once"), "a", "b")
    assert outcomes(result.history) == ["ok", "skipped"]
    assert log == ["a"]
    assert "new message" in results_in(result.history)[1].text
    assert now() == 5


async def test_steering_cancels_a_running_call_that_wants_it() -> None:
    log: list[str] = []
    result = await steered(working(log, effect="once", on_steer="cancel"), "a", "b")
    assert outcomes(result.history) == ["interrupted", "skipped"]
    assert now() == 1


async def test_steering_cancels_pure_calls_by_default() -> None:
    result = await steered(working([], effect="pure"), "a", "b")
    assert outcomes(result.history) == ["interrupted"] * 2
    assert now() == 1


async def test_steering_lets_a_pure_call_finish_that_says_so() -> None:
    result = await steered(working([], effect="pure", on_steer="finish"), "a", "b")
    assert outcomes(result.history) == ["ok"] * 2
    assert now() == 5


async def test_a_call_that_has_not_passed_its_gate_when_steering_arrives_is_skipped() -> None:
    log: list[str] = []

    async def gate(_context: Context, call: ToolCall, values: Values) -> None:
        await asyncio.sleep(3)

    run = agent_for([call("work", name="a"), "I see."], working(log), gate=gate).run("Go.")
    waiting = asyncio.create_task(_outcome(run))
    await asyncio.sleep(1)
    run.steer("Something else.")
    result = await waiting

    assert log == []
    (made,) = results_in(result.history)
    assert made.outcome == "skipped"
    assert "effect" not in made.text
    assert now() == 1


async def test_a_tool_may_steer_its_own_run() -> None:
    @tool
    async def work() -> str:
        run.steer("Something else.")
        await asyncio.sleep(1)
        return "done"

    run = agent_for([[call("work"), call("work")], "I see."], work).run("Go.")
    assert outcomes((await run).history) == ["ok", "skipped"]


async def test_a_tool_may_interrupt_its_own_run_and_still_return() -> None:
    @tool
    async def work() -> str:
        run.interrupt()
        return "done"

    run = agent_for([[call("work"), call("work")]], work).run("Go.")
    result = await run
    assert outcomes(result.history) == ["ok", "interrupted"]
    assert result.reason == "interrupted"


async def test_closing_a_run_cancels_its_tools_and_waits_for_their_clean_up() -> None:
    log: list[str] = []

    @tool
    async def work() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(2)
            log.append("clean")

    async with agent_for([call("work"), "."], work).run("Go."):
        await asyncio.sleep(1)

    assert log == ["clean"]
    assert now() == 3


async def test_cancelling_whoever_awaits_a_run_stops_its_tools_with_time_to_clean_up() -> None:
    log: list[str] = []

    @tool
    async def work() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            log.append("cancelled")
            await asyncio.sleep(2)
            log.append("clean")
            raise

    run = agent_for([call("work"), "."], work).run("Go.")
    waiting = asyncio.create_task(_outcome(run))
    await asyncio.sleep(1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    assert log == ["cancelled", "clean"]


async def test_a_cancel_scope_around_a_run_leaves_its_tools_time_to_clean_up() -> None:
    """Such a scope cancels again and again; the tool must not notice."""
    log: list[str] = []

    @tool
    async def work() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            log.append("cancelled")
            await asyncio.sleep(2)
            log.append("clean")
            raise

    run = agent_for([call("work"), "."], work).run("Go.")
    with anyio.move_on_after(1) as scope:
        await run

    assert scope.cancelled_caught
    assert log == ["cancelled", "clean"]


async def test_a_tool_may_use_anyio_s_own_scopes() -> None:
    log: list[str] = []

    @tool
    async def work() -> None:
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.sleep, 60)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(2)
                log.append("clean")

    result = await stopped_by("interrupt", work)

    assert outcomes(result.history) == ["interrupted"]
    assert log == ["clean"]
    assert now() == 3


async def test_a_tool_may_run_an_agent_which_stops_with_it() -> None:
    log: list[str] = []

    @tool
    async def dig() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(2)
            log.append("clean")

    inner = agent_for([call("dig"), "Dug."], dig)

    @tool
    async def work() -> str:
        return (await inner.run("Dig.")).text

    result = await stopped_by("interrupt", work)

    assert outcomes(result.history) == ["interrupted"]
    assert log == ["clean"]
    assert now() == 3


# --- a tool that raises anything ----------------------------------------------------------------


class Odd(BaseException):
    pass


class Speechless(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


class Deadly(Exception):
    def __str__(self) -> str:
        raise SystemExit("not even words")


RAISED: dict[str, Callable[[], BaseException]] = {
    "value": lambda: ValueError("bad value"),
    "assertion": AssertionError,
    "stop iteration": lambda: StopIteration("stop"),
    "stop async iteration": lambda: StopAsyncIteration("stop"),
    "recursion": lambda: RecursionError("too deep"),
    "memory": lambda: MemoryError("too much"),
    "system exit": lambda: SystemExit(3),
    "generator exit": lambda: GeneratorExit("closing"),
    "cancelled": lambda: asyncio.CancelledError("mine"),
    "timeout": lambda: TimeoutError("mine"),
    "base": lambda: Odd("odd"),
    "group": lambda: ExceptionGroup("several", [OSError("one"), KeyError("two")]),
    "base group": lambda: BaseExceptionGroup("several", [Odd("one"), asyncio.CancelledError()]),
    "no words": Speechless,
    "deadly words": Deadly,
    "odd text": lambda: ValueError("NUL \x00 and half a pair \ud800"),
    "long text": lambda: ValueError("x" * 10_000_000),
}


@pytest.mark.parametrize("form", ["async", "thread", "middleware", "validate", "preview"])
@pytest.mark.parametrize("name", RAISED)
async def test_whatever_is_raised_is_a_failure_that_the_model_reads(name: str, form: str) -> None:
    error = RAISED[name]()

    def raises(values: Values) -> None:
        raise error

    async def work() -> str:
        if form == "async":
            raise error
        return "done"

    def work_in_thread() -> None:
        raise error

    async def middleware(
        _context: Context, call: ToolCall, values: Values, proceed: Proceed
    ) -> object:
        if form == "middleware":
            raise error
        return await proceed()

    hooks: dict[str, Any] = {form: raises} if form in ("validate", "preview") else {}
    one = tool(name="work", **hooks)(work_in_thread if form == "thread" else work)

    made = await result_of(one, middleware=(middleware,))

    if form == "preview" and isinstance(error, Exception):  # it is missing, and nothing else
        assert made.outcome == "ok"
        return
    assert made.outcome == "failed"
    kind = "RuntimeError" if isinstance(error, StopIteration) else type(error).__name__
    assert kind in made.text or form == "validate"
    assert len(made.text) < 5_000


async def test_every_error_of_a_group_is_told() -> None:
    @tool
    async def work() -> None:
        raise ExceptionGroup("several", [OSError("one"), ExceptionGroup("more", [KeyError("two")])])

    text = (await result_of(work)).text
    assert "OSError: one" in text
    assert "KeyError: 'two'" in text


async def test_a_tool_that_cancels_its_own_task_fails_and_the_run_goes_on() -> None:
    @tool
    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(60)

    made = await result_of(work)
    assert made.outcome == "failed"
    assert now() == 0


async def test_a_tool_that_awaits_a_cancelled_task_fails_and_the_run_goes_on() -> None:
    @tool
    async def work() -> None:
        task = asyncio.ensure_future(asyncio.sleep(60))
        asyncio.get_running_loop().call_later(1, task.cancel)
        await task

    assert (await result_of(work)).outcome == "failed"


def test_a_keyboard_interrupt_in_a_tool_stops_the_program_at_once() -> None:
    clocks: list[float] = []

    @tool
    async def work() -> None:
        raise KeyboardInterrupt

    async def main() -> None:
        try:
            await agent_for([call("work"), "."], work).run("Go.")
        finally:
            clocks.append(now())

    with pytest.raises(KeyboardInterrupt):
        run_virtual(main())

    assert clocks == [0], "nobody waits for a tool that is gone"


# --- tools in threads ---------------------------------------------------------------------------


def test_a_tool_in_a_thread_is_left_alone_when_it_is_interrupted() -> None:
    go, began = threading.Event(), threading.Event()

    @tool
    def work() -> str:
        began.set()
        go.wait(10)
        return "late"

    async def main() -> ToolResult:
        model = ScriptedModel([call("work"), "."])
        run = agent_for([], work, ports=Ports()).replace(model=model).run("Go.")
        async for event in run:
            if isinstance(event, ToolStarted):
                await asyncio.to_thread(began.wait, 10)
                run.interrupt()
        (made,) = results_in((await run).history)
        go.set()
        return made

    made = asyncio.run(main())

    assert made.outcome == "interrupted"
    assert "may still be running" in made.text
    assert "may have taken effect" in made.text
