"""Which calls run beside which, in what order they start, and how their words come out."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Tool, ToolContext, tool
from holdfast.kernel.events import (
    Event,
    MessageCommitted,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
)
from holdfast.kernel.tool import Values
from holdfast.options import Calls, Policy, Ports
from holdfast.testing import ScriptedModel, call, ports
from tests.kernel.runs import now, only
from tests.kernel.toolkit import agent_for, finished, outcomes, progress, results_in, watched


class Log:
    """When which call ran, in virtual seconds."""

    def __init__(self) -> None:
        self.started: list[tuple[str, float]] = []
        self.spans: dict[str, tuple[float, float]] = {}
        self.running: set[str] = set()
        self.most = 0

    async def work(self, name: str, seconds: float) -> str:
        began = now()
        self.started.append((name, began))
        self.running.add(name)
        self.most = max(self.most, len(self.running))
        await asyncio.sleep(seconds)
        self.running.remove(name)
        self.spans[name] = (began, now())
        return name

    @property
    def order(self) -> list[str]:
        return [name for name, _ in self.started]


def reader_and_writer(log: Log) -> tuple[Tool, Tool]:
    """A tool that may run beside others, and one that may not. Neither starts before the commit."""

    @tool(effect="idempotent", parallel=True)
    async def read(name: str, seconds: float) -> str:
        return await log.work(name, seconds)

    @tool(effect="once")
    async def write(name: str, seconds: float) -> str:
        return await log.work(name, seconds)

    return read, write


def calls(*wanted: tuple[str, str, float]) -> list[Any]:
    return [call(tool, name=name, seconds=seconds) for tool, name, seconds in wanted]


async def scheduled(log: Log, *wanted: tuple[str, str, float], **limits: Any) -> list[Event]:
    agent = agent_for([calls(*wanted), "."], *reader_and_writer(log))
    agent = agent.replace(policy=Policy(calls=Calls(**limits)))
    events, _ = await watched(agent.run("Go."))
    return events


async def test_parallel_calls_run_together() -> None:
    log = Log()
    await scheduled(log, ("read", "a", 5), ("read", "b", 5), ("read", "c", 5))
    assert log.most == 3
    assert now() == 5


async def test_a_call_that_is_not_parallel_runs_alone_and_nothing_overtakes_it() -> None:
    log = Log()
    await scheduled(
        log,
        ("read", "a", 2),
        ("read", "b", 1),
        ("write", "c", 5),
        ("read", "d", 1),
        ("read", "e", 1),
    )
    assert log.order == ["a", "b", "c", "d", "e"]
    assert log.spans == {"a": (0, 2), "b": (0, 1), "c": (2, 7), "d": (7, 8), "e": (7, 8)}


async def test_calls_that_are_not_parallel_run_one_after_another_in_call_order() -> None:
    log = Log()
    await scheduled(log, ("write", "a", 3), ("write", "b", 2), ("write", "c", 1))
    assert log.spans == {"a": (0, 3), "b": (3, 5), "c": (5, 6)}
    assert log.most == 1


async def test_no_more_than_the_limit_run_together() -> None:
    log = Log()
    await scheduled(log, *[("read", f"{n}", 1.0) for n in range(5)], concurrency=2)
    assert log.most == 2
    assert now() == 3


async def test_eight_run_together_unless_told_otherwise() -> None:
    log = Log()
    await scheduled(log, *[("read", f"{n}", 1.0) for n in range(20)])
    assert log.most == 8


async def test_with_a_limit_of_one_parallel_calls_take_turns() -> None:
    log = Log()
    await scheduled(log, ("read", "a", 1), ("read", "b", 1), concurrency=1)
    assert log.spans == {"a": (0, 1), "b": (1, 2)}


async def test_a_free_place_is_taken_at_once_by_the_next_in_line() -> None:
    log = Log()
    await scheduled(
        log, ("read", "a", 5), ("read", "b", 1), ("read", "c", 1), ("read", "d", 1), concurrency=2
    )
    assert log.spans == {"a": (0, 5), "b": (0, 1), "c": (1, 2), "d": (2, 3)}


async def test_a_call_that_is_refused_keeps_its_turn() -> None:
    """Also a call that does not run is told of in call order: no overtaking."""
    log = Log()
    agent = agent_for(
        [[*calls(("write", "a", 1)), call("nothing"), *calls(("write", "b", 1))], "."],
        *reader_and_writer(log),
    )
    events, result = await watched(agent.run("Go."))
    assert finished(events) == [("call_1", "ok"), ("call_2", "refused"), ("call_3", "ok")]
    assert outcomes(result.history) == ["ok", "refused", "ok"]


async def test_results_are_shown_as_each_finishes_and_committed_in_call_order() -> None:
    agent = agent_for(
        [calls(("read", "a", 3), ("read", "b", 1), ("read", "c", 2)), "."],
        *reader_and_writer(Log()),
    )
    seen: list[tuple[str, float]] = []
    run = agent.run("Go.")

    async for event in run:
        if isinstance(event, ToolFinished):
            seen.append((event.result.text, now()))
        if isinstance(event, MessageCommitted) and event.message.kind == "results":
            seen.append(("committed", now()))

    assert seen == [("b", 1), ("c", 2), ("a", 3), ("committed", 3)]
    results = results_in((await run).history)
    assert [(result.call_id, result.text) for result in results] == [
        ("call_1", "a"),
        ("call_2", "b"),
        ("call_3", "c"),
    ]


async def test_all_results_of_an_answer_are_one_message() -> None:
    agent = agent_for(
        [calls(("write", "a", 1), ("read", "b", 1), ("write", "c", 1)), "."],
        *reader_and_writer(Log()),
    )
    result = await agent.run("Go.")
    assert [message.kind for message in result.history] == ["prompt", "answer", "results", "answer"]


async def test_a_failure_does_not_concern_the_calls_beside_it() -> None:
    log = Log()

    @tool(parallel=True)
    async def explode() -> None:
        await asyncio.sleep(1)
        raise OSError("boom")

    script = [[*calls(("read", "a", 2)), call("explode"), *calls(("read", "b", 3))], "."]
    result = await agent_for(script, *reader_and_writer(log), explode).run("Go.")

    assert outcomes(result.history) == ["ok", "failed", "ok"]
    assert now() == 3


# --- what is parallel ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("effect", "together"), [("pure", True), ("idempotent", False), ("once", False)]
)
async def test_only_pure_tools_are_parallel_by_default(effect: Any, together: bool) -> None:
    log = Log()

    @tool(effect=effect)
    async def work(name: str) -> str:
        return await log.work(name, 1)

    await agent_for([[call("work", name="a"), call("work", name="b")], "."], work).run("Go.")

    assert (log.most == 2) == together


async def test_a_pure_tool_may_say_that_it_is_not_parallel() -> None:
    log = Log()

    @tool(effect="pure", parallel=False)
    async def work(name: str) -> str:
        return await log.work(name, 1)

    await agent_for([[call("work", name="a"), call("work", name="b")], "."], work).run("Go.")

    assert log.most == 1


def working(log: Log, parallel: Callable[[Values], bool]) -> Tool:
    @tool(parallel=parallel)
    async def work(name: str) -> str:
        return await log.work(name, 1)

    return work


async def test_whether_a_call_is_parallel_may_depend_on_its_arguments() -> None:
    log = Log()
    work = working(log, lambda values: str(values["name"]).islower())
    script = [[call("work", name=name) for name in ("a", "b", "C", "d")], "."]

    await agent_for(script, work).run("Go.")

    assert log.spans == {"a": (0, 1), "b": (0, 1), "C": (1, 2), "d": (2, 3)}


async def test_a_call_that_cannot_say_whether_it_is_parallel_runs_alone() -> None:
    def unsure(values: Values) -> bool:
        raise KeyError("path")

    log = Log()
    script = [[call("work", name="a"), call("work", name="b")], "."]

    result = await agent_for(script, working(log, unsure)).run("Go.")

    assert outcomes(result.history) == ["ok", "ok"]
    assert log.most == 1


# --- the rule, for any batch --------------------------------------------------------------------

PLAN = st.lists(st.tuples(st.booleans(), st.integers(0, 4)), min_size=1, max_size=12)


@given(plan=PLAN, concurrency=st.integers(1, 4))
async def test_any_batch_keeps_the_rules_of_scheduling(
    plan: list[tuple[bool, int]], concurrency: int
) -> None:
    log = Log()
    wanted = [
        ("read" if parallel else "write", f"{at}", float(seconds))
        for at, (parallel, seconds) in enumerate(plan)
    ]
    events = await scheduled(log, *wanted, concurrency=concurrency)

    names = [name for _, name, _ in wanted]
    assert log.order == names, "they start in call order"
    assert log.most <= concurrency
    for at, (parallel, _) in enumerate(plan):
        began, ended = log.spans[names[at]]
        for later in range(at + 1, len(plan)):
            if not parallel or not plan[later][0]:
                assert log.spans[names[later]][0] >= ended, "one of them runs alone"
        assert ended - began == plan[at][1]
    (committed,) = [e for e in only(MessageCommitted, events) if e.message.kind == "results"]
    assert [result.text for result in committed.message.results] == names


# --- progress -----------------------------------------------------------------------------------


async def test_progress_of_an_async_tool_is_shown_between_its_start_and_its_end() -> None:
    @tool
    async def build(context: ToolContext, steps: int) -> str:
        for step in range(steps):
            await context.progress(f"{step + 1}/{steps}")
        return "built"

    events, _ = await watched(agent_for([call("build", steps=3), "."], build).run("Go."))

    shown = [e for e in events if isinstance(e, (ToolStarted, ToolProgressed, ToolFinished))]
    assert [type(e) for e in shown] == [ToolStarted, *[ToolProgressed] * 3, ToolFinished]
    assert progress(events) == ["1/3", "2/3", "3/3"]
    assert {event.what for event in only(ToolProgressed, events)} == {"progress"}


async def test_progress_need_not_be_awaited() -> None:
    @tool
    async def build(context: ToolContext) -> None:
        context.progress("on it")

    events, _ = await watched(agent_for([call("build"), "."], build).run("Go."))
    assert progress(events) == ["on it"]


async def test_progress_of_a_tool_that_is_not_async_is_shown() -> None:
    @tool
    def build(context: ToolContext, steps: int) -> str:
        for step in range(steps):
            context.progress(f"{step + 1}/{steps}")
        return "built"

    events, result = await watched(agent_for([call("build", steps=3), "."], build).run("Go."))

    assert progress(events) == ["1/3", "2/3", "3/3"]
    assert outcomes(result.history) == ["ok"]


@pytest.mark.parametrize("world", [ports, Ports])
async def test_progress_of_an_async_tool_in_a_wrapper_that_is_not_is_shown(
    world: Callable[[], Ports],
) -> None:
    async def dig(context: ToolContext) -> str:
        await context.progress("half way")
        return "dug"

    @functools.wraps(dig)
    def wrapper(context: ToolContext) -> Awaitable[str]:
        return dig(context)

    agent = agent_for([call("dig"), "Done."], tool(wrapper), ports=world())
    events, result = await watched(agent.run("Go."))
    assert outcomes(result.history) == ["ok"]
    assert progress(events) == ["half way"]


async def test_progress_costs_nothing_where_nobody_watches() -> None:
    @tool
    async def build(context: ToolContext) -> str:
        for step in range(10_000):
            await context.progress(f"{step}")
        return "built"

    result = await agent_for([call("build"), "."], build).run("Go.")
    assert outcomes(result.history) == ["ok"]


async def test_a_slow_reader_slows_a_tool_that_awaits_its_progress() -> None:
    told = 0

    @tool
    async def build(context: ToolContext) -> None:
        nonlocal told
        for step in range(100):
            await context.progress(f"{step}")
            told += 1

    agent = agent_for([call("build"), "."], build, policy=Policy(buffer=4))
    seen: list[str] = []
    async for event in agent.run("Go."):
        await asyncio.sleep(1)
        if isinstance(event, ToolProgressed):
            seen.append(event.text)
            assert told <= len(seen) + 8, "the tool runs ahead of its reader"

    assert seen == [f"{step}" for step in range(100)], "a slow reader loses nothing"


async def test_a_slow_reader_slows_every_tool_and_holds_none_for_ever() -> None:
    @tool(effect="idempotent", parallel=True)
    async def build(context: ToolContext, name: str) -> str:
        for step in range(50):
            await context.progress(f"{name}{step}")
        return name

    names = ("a", "b", "c")
    script = [[call("build", name=name) for name in names], "."]
    agent = agent_for(script, build, policy=Policy(buffer=4))
    seen: list[str] = []
    run = agent.run("Go.")
    async for event in run:
        await asyncio.sleep(1)
        if isinstance(event, ToolProgressed):
            seen.append(event.text)

    assert outcomes((await run).history) == ["ok"] * 3
    for name in names:
        assert [text for text in seen if text[0] == name] == [f"{name}{n}" for n in range(50)]


async def test_an_early_call_and_the_answer_may_both_wait_for_a_slow_reader() -> None:
    @tool(effect="pure")
    async def search(context: ToolContext) -> str:
        for step in range(50):
            await context.progress(f"{step}")
        return "found"

    script = [[call("search"), *["word "] * 50], "."]
    agent = agent_for(script, search, policy=Policy(buffer=4))
    run = agent.run("Go.")
    async for _ in run:
        await asyncio.sleep(1)

    assert outcomes((await run).history) == ["ok"]


async def test_a_tool_that_waits_for_a_reader_can_be_timed_out() -> None:
    @tool(timeout=30)
    async def build(context: ToolContext) -> None:
        while True:
            await context.progress("still at it")

    @tool(effect="idempotent", parallel=True)
    async def other() -> str:
        return "fine"

    agent = agent_for([[call("build"), call("other")], "."], build, other)
    run = agent.replace(policy=Policy(buffer=4)).run("Go.")
    events: list[Event] = []
    async for event in run:
        events.append(event)
        if isinstance(event, ToolStarted) and event.tool == "build":
            await asyncio.sleep(60)  # somebody went for a coffee

    assert finished(events) == [("call_1", "timed_out"), ("call_2", "ok")]


@pytest.mark.parametrize("length", [10, 1_000])
async def test_long_progress_is_cut(length: int) -> None:
    @tool
    async def build(context: ToolContext) -> None:
        await context.progress("x" * 1_000_000)

    policy = Policy(calls=Calls(progress_length=length))
    events, _ = await watched(agent_for([call("build"), "."], build, policy=policy).run("Go."))

    assert progress(events) == ["x" * length]


async def test_progress_that_is_no_text_is_shown_as_text() -> None:
    @tool
    async def build(context: ToolContext) -> None:
        await context.progress(7)  # type: ignore[arg-type]

    events, _ = await watched(agent_for([call("build"), "."], build).run("Go."))
    assert progress(events) == ["7"]


async def test_progress_after_the_end_of_a_call_is_dropped() -> None:
    kept: list[ToolContext] = []

    @tool
    async def forget(context: ToolContext) -> None:
        kept.append(context)
        await context.progress("in time")

    @tool
    async def remember() -> None:
        await kept[0].progress("too late")

    events, result = await watched(
        agent_for([[call("forget"), call("remember")], "."], forget, remember).run("Go.")
    )

    assert progress(events) == ["in time"]
    assert outcomes(result.history) == ["ok", "ok"]


# --- threads ------------------------------------------------------------------------------------


async def test_a_tool_that_is_not_async_runs_through_the_threads_port() -> None:
    ran: list[str] = []

    async def in_thread(function: Callable[[], Any]) -> Any:
        ran.append("thread")
        return function()

    @tool
    def blocking(name: str) -> str:
        return f"hello {name}"

    @tool
    async def friendly() -> str:
        return "hi"

    world = ports()
    watching = Ports(now=world.now, random=world.random, new_id=world.new_id, in_thread=in_thread)
    script = [[call("blocking", name="you"), call("friendly")], "."]
    result = await agent_for(script, blocking, friendly, ports=watching).run("Go.")

    assert [made.text for made in results_in(result.history)] == ["hello you", "hi"]
    assert ran == ["thread"]


def test_a_tool_that_is_not_async_runs_in_a_real_thread() -> None:
    import threading

    threads: set[int] = set()

    @tool(effect="pure")
    def blocking(context: ToolContext, name: str) -> str:
        threads.add(threading.get_ident())
        context.progress(f"about {name}")
        context.progress(f"about {name} again")
        return f"hello {name}"

    async def main() -> tuple[list[Event], list[str]]:
        model = ScriptedModel([[call("blocking", name="a"), call("blocking", name="b")], "."])
        run = agent_for([], blocking, ports=Ports()).replace(model=model).run("Go.")
        events, result = await watched(run)
        return events, [made.text for made in results_in(result.history)]

    events, texts = asyncio.run(main())

    assert texts == ["hello a", "hello b"]
    assert threading.get_ident() not in threads
    assert sorted(progress(events)) == ["about a", "about a again", "about b", "about b again"]
