"""One line observes every agent of a process: spans and metrics of the real OpenTelemetry SDK."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import anyio
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader

import holdfast
from holdfast import Agent, handoff, tool
from holdfast.chats import Status
from holdfast.errors import ConfigError, RunFailed
from holdfast.events import RunEnded, ToolStarted
from holdfast.host import serving
from holdfast.kernel.summary_checkpoint import SUMMARY_SECTIONS
from holdfast.options import ContextLimits, Policy, Ports, Retry
from holdfast.store.database import Database
from holdfast.telemetry import (
    JsonLogFormatter,
    MetricsObserver,
    Observer,
    Recorder,
    Tracing,
    conversation,
    several,
)
from holdfast.testing import (
    Clock,
    ScriptedModel,
    call,
    fail,
    hang,
    pause,
    ports,
    say,
    think,
    usage,
)
from holdfast.testing.recorded import recorded
from holdfast.tools.subagents import subagents
from tests.databases import OpenDatabase
from tests.kernel.runs import act, look, scripted, stumble
from tests.observe.spans import Spans, attributes, events, parent_id
from tests.worker.test_takeover import another
from tests.worker.workers import living

QUICK = Policy(retry=Retry(attempts=2, first_delay=1))


@pytest.fixture
def spans() -> Iterator[Spans]:
    """Spans of this process, while a test runs."""
    kept = Spans()
    undo = holdfast.instrument(tracer_provider=kept.provider)
    yield kept
    undo()


# --- a run in memory ---


async def test_a_run_in_memory_is_a_tree_of_its_model_calls_and_tools(spans: Spans) -> None:
    script = [
        [call("look", what="1"), call("act", what="2"), usage(input=5, output=7, cache_read=11)],
        ["Done.", usage(input=3, output=2)],
    ]
    with spans.tracer.start_as_current_span("request"), conversation("thread-7"):
        await scripted(script, look, act, name="clerk").run("go")
    assert spans.tree() == [
        "request",
        "  invoke_agent clerk",
        "    chat model",
        "    execute_tool look",
        "    execute_tool act",
        "    chat model",
    ]
    assert spans.all_ended
    assert not any(spans.failed)
    assert spans.values("gen_ai.conversation.id") == [None] + ["thread-7"] * 5
    run = attributes(spans.named("invoke_agent clerk"))
    assert run["gen_ai.provider.name"] == "scripted"
    assert run["gen_ai.request.model"] == "model"
    assert run["gen_ai.usage.input_tokens"] == 5 + 11 + 3
    assert run["gen_ai.usage.output_tokens"] == 9
    assert run["holdfast.turn.end"] == "stop"
    assert "holdfast.worker.id" not in run


async def test_a_run_without_a_conversation_has_no_id_of_one(spans: Spans) -> None:
    await scripted(["Hi."]).run("go")
    assert spans.values("gen_ai.conversation.id") == [None, None]


async def test_a_retry_and_a_failure_are_spans_with_their_kinds(spans: Spans) -> None:
    script = [fail(kind="overloaded"), fail(kind="rate_limit")]
    with pytest.raises(RunFailed):
        await scripted(script, policy=QUICK).run("go")
    assert spans.tree() == ["invoke_agent agent", "  chat model", "  chat model"]
    assert spans.values("error.type") == ["rate_limit", "overloaded", "rate_limit"]
    assert spans.values("holdfast.attempt") == [None, 1, 2]
    assert spans.failed == [True] * 3
    assert events(spans.all[0]) == [("holdfast.retry", {"error.type": "overloaded"})]
    assert spans.all_ended


async def test_an_interrupt_is_shown_and_is_not_an_error(spans: Spans) -> None:
    run = scripted([[say("Half"), hang()]]).run("go")
    async for event in run:
        if type(event).__name__ == "TextDelta":
            run.interrupt()
    assert attributes(spans.all[0])["holdfast.turn.end"] == "interrupted"
    assert attributes(spans.all[1])["gen_ai.response.finish_reasons"] == ("interrupted",)
    assert not any(spans.failed)
    assert spans.all_ended


async def test_a_tool_that_is_interrupted_ends_its_span(spans: Spans) -> None:
    run = scripted([call("act", seconds=60)], act).run("go")
    async for event in run:
        if isinstance(event, ToolStarted):
            run.interrupt()
    assert attributes(spans.named("execute_tool act"))["holdfast.tool.outcome"] == "interrupted"
    assert not any(spans.failed)
    assert spans.all_ended


async def test_a_cancelled_run_ends_its_spans(spans: Spans) -> None:
    async with scripted([hang()]).run("go"):
        await anyio.sleep(1)
    assert spans.values("error.type") == ["cancelled", "cancelled"]
    assert spans.all_ended


@tool(timeout=1)
async def stubborn() -> str:
    """Ignore the timeout."""
    try:
        await anyio.sleep(5)
    except BaseException:
        await anyio.sleep(60)
    return "late"


async def test_each_failure_of_a_tool_says_how_it_failed(spans: Spans) -> None:
    @tool(timeout=1)
    async def slow() -> str:
        """Take long."""
        await anyio.sleep(5)
        return "late"

    script = [
        [call("stumble"), call("slow"), call("stubborn"), call("nothing"), call("look", n=1)],
        "Sorry.",
    ]
    await scripted(script, stumble, slow, stubborn, look).run("go")
    await anyio.sleep(60)  # until the abandoned tool has returned
    failed = {
        span.name.removeprefix("execute_tool "): attributes(span)["error.type"]
        for span in spans.all
        if "execute_tool" in span.name
    }
    assert failed == {"stumble": "RuntimeError", "slow": "timed_out", "stubborn": "timed_out"}
    assert events(spans.all[0]) == [
        (
            "holdfast.tool_not_run",
            {"gen_ai.tool.name": "unknown", "holdfast.tool.outcome": "refused"},
        ),
        (
            "holdfast.tool_not_run",
            {"gen_ai.tool.name": "look", "holdfast.tool.outcome": "failed"},
        ),
    ]
    assert spans.all_ended


def test_what_a_tool_does_is_below_its_span_in_threads_and_nested_runs_too(spans: Spans) -> None:
    @tool
    def in_thread() -> str:
        """Work in a thread."""
        spans.tracer.start_span("query").end()
        assert threading.current_thread() is not threading.main_thread()
        return "done"

    @tool
    async def delegate() -> str:
        """Ask another agent."""
        return (await scripted(["Yes."], name="expert").run("?")).text

    script = [[call("in_thread"), call("delegate")], "Done."]
    agent = scripted(script, in_thread, delegate).replace(ports=Ports())  # with real threads

    async def main() -> None:
        await agent.run("go")

    asyncio.run(main())
    assert spans.tree() == [
        "invoke_agent agent",
        "  chat model",
        "  execute_tool in_thread",
        "    query",
        "  execute_tool delegate",
        "    invoke_agent expert",
        "      chat model",
        "  chat model",
    ]


async def test_each_agent_of_a_conversation_that_is_handed_over_has_a_span(spans: Spans) -> None:
    expert = scripted(["Solved."], name="expert")
    clerk = scripted([call("handoff", agent="expert")], handoff([expert]), name="clerk")
    await clerk.run("go")
    assert spans.tree() == [
        "invoke_agent clerk",
        "  chat model",
        "  execute_tool handoff",
        "invoke_agent expert",
        "  chat model",
    ]
    ends = [end for end in spans.values("holdfast.turn.end") if end is not None]
    assert ends == ["handed_over", "stop"]
    assert spans.all_ended


async def test_spans_of_hooks_are_below_the_run(spans: Spans) -> None:
    def project(_context: Any, messages: Any) -> Any:
        spans.tracer.start_span("trim").end()
        return messages

    await scripted(["Hi."], project=project).run("go")
    assert spans.tree() == ["invoke_agent agent", "  trim", "  chat model"]


async def test_a_summary_is_a_model_call_with_its_purpose(spans: Spans) -> None:
    summary = "\n".join(f"## {section}\n-" for section in SUMMARY_SECTIONS)
    policy = Policy(context=ContextLimits(window=10_000))
    agent = scripted(["One. " * 500, summary], policy=policy)
    first = await agent.run("go")
    await agent.run(history=first.history, compact=True)
    assert spans.values("holdfast.purpose") == [None, "answer", None, "summary"]
    outcome = {"holdfast.compaction.outcome": "summary"}
    assert events(spans.all[2]) == [("holdfast.compaction", outcome)]


# --- content ---


async def test_content_is_recorded_in_the_conventional_form_only_if_it_is_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "tok-abcdef")
    script = [[think("Hm."), call("look", what="tok-abcdef")], "Seen."]
    for content in (False, True):
        spans = Spans()
        observer = Tracing(content=content, tracer_provider=spans.provider)
        agent = scripted(script, look, instructions="Be kind.", observer=observer)
        await agent.run("open sesame")
        told = json.dumps([attributes(span) for span in spans.all])
        assert ("open sesame" in told) is ("Be kind." in told) is content
        assert "tok-abcdef" not in told
    _, _, tool_span, last = spans.all
    assert json.loads(attributes(last)["gen_ai.system_instructions"]) == [
        {"type": "text", "content": "Be kind."}
    ]
    prompt, asked, seen = json.loads(attributes(last)["gen_ai.input.messages"])
    assert prompt == {"role": "user", "parts": [{"type": "text", "content": "open sesame"}]}
    reasoning, called = asked["parts"]
    assert reasoning == {"type": "reasoning", "content": "Hm."}
    assert called["type"] == "tool_call"
    assert called["arguments"] == {"what": "[hidden]"}
    assert seen["parts"] == [
        {"type": "tool_call_response", "id": called["id"], "response": "saw [hidden]"}
    ]
    assert json.loads(attributes(last)["gen_ai.output.messages"]) == [
        {
            "role": "assistant",
            "parts": [{"type": "text", "content": "Seen."}],
            "finish_reason": "stop",
        }
    ]
    assert json.loads(attributes(tool_span)["gen_ai.tool.call.arguments"]) == {"what": "[hidden]"}
    assert json.loads(attributes(tool_span)["gen_ai.tool.call.result"]) == "saw [hidden]"
    run = attributes(spans.all[0])
    assert "open sesame" in run["gen_ai.input.messages"]
    assert "Seen." in run["gen_ai.output.messages"]


# --- durable chats ---


async def test_a_chat_keeps_its_conversation_id_over_a_takeover(
    db: Database, open_db: OpenDatabase, clock: Clock, spans: Spans
) -> None:
    model = ScriptedModel([[say("Half"), pause(100)], "Whole."])
    async with living(db, model, clock=clock) as life:
        chat_id = await life.begin()
        await anyio.sleep(3)
        await life.die()
    async with another(db, open_db) as theirs, living(theirs, model, clock=clock, seed=1) as life:
        await life.rest(chat_id)
    assert set(spans.values("gen_ai.conversation.id")) == {chat_id}
    turns = [span for span in spans.all if span.name == "invoke_agent agent"]
    assert [attributes(turn)["holdfast.turn.end"] for turn in turns] == ["handed_over", "stop"]
    assert len({attributes(turn)["holdfast.worker.id"] for turn in turns}) == 2
    assert spans.all_ended


async def test_the_turn_of_a_child_chat_is_linked_to_the_turn_that_spawned_it(
    db: Database, clock: Clock, spans: Spans
) -> None:
    world = ports(clock=clock)
    child = Agent(name="child", model=ScriptedModel(default="Found."), ports=world)
    script = [call("spawn_agent", agent="child", prompt="search"), "Spawned."]
    tools = subagents(["child"])
    parent = Agent(name="parent", model=ScriptedModel(script), tools=tools, ports=world)
    with spans.tracer.start_as_current_span("request"):
        async with serving(db, [parent, child], ports=world, titles=False) as host:
            chat = await host.create("go", agent="parent")
            await chat.rest()
            (spawned,) = await host.list(parent=chat.id)
            await (await host.chat(spawned.id)).rest()
            assert (await chat.read()).status is Status.IDLE
    parent_turn, child_turn = (spans.named(f"invoke_agent {name}") for name in ("parent", "child"))
    assert parent_id(parent_turn) is parent_id(child_turn) is None
    assert [link.context.span_id for link in child_turn.links] == [parent_turn.context.span_id]
    assert attributes(child_turn)["holdfast.parent.conversation.id"] == chat.id
    assert attributes(child_turn)["gen_ai.conversation.id"] == spawned.id
    assert spans.all_ended


# --- metrics ---


def measured(reader: InMemoryMetricReader) -> dict[tuple[str, frozenset[tuple[str, Any]]], Any]:
    """Every histogram: count and sum, by name and attributes."""
    data = reader.get_metrics_data()
    assert data is not None
    return {
        (metric.name, frozenset((point.attributes or {}).items())): (point.count, point.sum)
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
        if isinstance(point, HistogramDataPoint)
    }


async def test_tokens_and_durations_are_measured_with_the_meters_of_the_process() -> None:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    undo = holdfast.instrument(meter_provider=provider)
    try:
        script = [
            fail(kind="overloaded"),
            [pause(2), call("look", seconds=3), usage(input=5, output=7, cache_read=11)],
            "Done.",
        ]
        await scripted(script, look, policy=QUICK).run("go")
    finally:
        undo()
    told = measured(reader)
    call_of = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "model",
        "gen_ai.response.model": "model",
    }

    def value(name: str, **of: str) -> Any:
        return told[name, frozenset(of.items())]

    assert value("gen_ai.client.operation.duration", **call_of) == (2, pytest.approx(2))
    failed = {**call_of, "error.type": "overloaded"}
    assert value("gen_ai.client.operation.duration", **failed)[0] == 1
    first = value("gen_ai.client.operation.time_to_first_chunk", **call_of)
    assert first == (2, pytest.approx(2))
    tokens = {**call_of, "gen_ai.token.type": "input"}
    assert value("gen_ai.client.token.usage", **tokens) == (1, 16)
    tool_of = {
        "gen_ai.tool.name": "look",
        "gen_ai.tool.type": "function",
        "gen_ai.agent.name": "agent",
    }
    assert value("gen_ai.execute_tool.duration", **tool_of) == (1, pytest.approx(3))
    ((count, seconds),) = (
        point for (name, _), point in told.items() if name == "gen_ai.invoke_agent.duration"
    )
    assert count == 1
    assert seconds >= 5
    provider.shutdown()


async def test_prometheus_counts_runs_in_memory_too() -> None:
    metrics = MetricsObserver()
    agent = scripted([call("look"), "Done."], look, observer=metrics)
    await agent.run("go")
    text = metrics.registry.text()
    assert 'holdfast_turns_total{reason="stop"} 1\n' in text
    assert 'holdfast_tool_calls_total{tool="look",outcome="ok"} 1\n' in text
    assert "holdfast_running_chats 0\n" in text


# --- what is observed ---


async def test_a_process_a_host_and_an_agent_have_observers_of_their_own(
    db: Database, clock: Clock
) -> None:
    seen: list[str] = []

    class Named(Observer):
        def __init__(self, name: str) -> None:
            self.name = name

        def drives(self, stretch: Any) -> Any:
            seen.append(self.name)
            return super().drives(stretch)

    world = ports(clock=clock)
    model = ScriptedModel(default="Hi.")
    agent = Agent(model=model, ports=world, observer=Named("agent"))
    undo = holdfast.instrument(Named("process"))
    try:
        async with serving(db, [agent], ports=world, titles=False, observer=Named("host")) as host:
            await (await host.create("go")).rest()
        await agent.run("go")
    finally:
        undo()
    await agent.run("go")
    assert seen == ["process", "host", "agent", "process", "agent", "agent"]


async def test_a_second_call_replaces_the_first_and_an_observer_counts_once(spans: Spans) -> None:
    later = Spans()
    undo = holdfast.instrument(tracer_provider=later.provider)
    await scripted(["Hi."]).run("go")
    undo()
    await scripted(["Hi."]).run("go")
    assert (len(spans.all), len(later.all)) == (0, 2)
    metrics = MetricsObserver()
    undo = holdfast.instrument(several([metrics, metrics]))
    await scripted(["Hi."], observer=metrics).run("go")
    undo()
    assert 'holdfast_turns_total{reason="stop"} 1\n' in metrics.registry.text()


def test_an_observer_of_another_type_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"observer is 1: use an Observer"):
        holdfast.instrument(1)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"observer is 'x': use an Observer"):
        scripted(["Hi."], observer="x")
    with pytest.raises(ConfigError, match="content and providers are for OpenTelemetry"):
        holdfast.instrument(MetricsObserver(), content=True)


async def test_a_recording_of_a_run_in_memory_can_be_played_again(tmp_path: Any) -> None:
    agent = scripted([call("look", what="1"), "Done."], look, observer=Recorder(str(tmp_path)))
    first = await agent.run("go")
    (path,) = tmp_path.iterdir()
    again = await Agent(model=ScriptedModel(recorded(path)), tools=[look]).run("go")
    assert again.text == first.text == "Done."


async def test_log_lines_inside_a_span_have_its_ids(spans: Spans) -> None:
    lines: list[dict[str, Any]] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(json.loads(self.format(record)))

    @tool
    async def speak() -> str:
        """Speak."""
        logging.getLogger("app").warning("hello")
        return "ok"

    handler = Handler()
    handler.setFormatter(JsonLogFormatter())
    logging.getLogger("app").addHandler(handler)
    try:
        await scripted([call("speak"), "Done."], speak).run("go")
        logging.getLogger("app").warning("outside")
    finally:
        logging.getLogger("app").removeHandler(handler)
    span = spans.named("execute_tool speak").context
    assert lines[0]["trace_id"] == f"{span.trace_id:032x}"
    assert lines[0]["span_id"] == f"{span.span_id:016x}"
    assert "trace_id" not in lines[1]


async def test_events_of_an_observed_run_are_those_of_any_run(spans: Spans) -> None:
    seen = [[], []]  # type: list[list[str]]
    for number, observer in enumerate([None, Tracing(tracer_provider=spans.provider)]):
        agent = scripted([call("look"), "Done."], look, observer=observer)
        async for event in agent.run("go"):
            seen[number].append(type(event).__name__)
    assert seen[0] == seen[1]
    assert seen[0][-1] == RunEnded.__name__


def test_nothing_imports_opentelemetry_until_it_is_wanted() -> None:
    program = """
import asyncio, sys
from holdfast import Agent
import holdfast.telemetry
asyncio.run(Agent(model="demo").run("hi").__aexit__(None, None, None))
assert not any(name.startswith("opentelemetry") for name in sys.modules)
holdfast.instrument()
assert "opentelemetry.trace" in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_instrument_without_opentelemetry_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ConfigError, match=r"install holdfast\[otel\]"):
        holdfast.instrument()
