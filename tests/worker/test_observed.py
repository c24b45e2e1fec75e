"""Whoever observes a worker is told what it does: numbers, traces, recordings, logs."""

from __future__ import annotations

import json
import logging
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from opentelemetry.trace import SpanKind

from holdfast.agent import Agent
from holdfast.chat.transitions import user
from holdfast.hooks import Context
from holdfast.host import serving
from holdfast.kernel.messages import Message
from holdfast.kernel.model import Finished, TextDelta
from holdfast.kernel.observer import ChatObserver, Observer, Stretch, several
from holdfast.kernel.policy import ContextLimits, Policy, Retry
from holdfast.kernel.summary_checkpoint import SUMMARY_SECTIONS
from holdfast.kernel.tool import tool
from holdfast.observe.logs import log_fields
from holdfast.observe.metrics import MetricRegistry
from holdfast.observe.metrics_observer import MetricsObserver
from holdfast.observe.model_call_recorder import Recorder
from holdfast.observe.redact import HIDDEN, Redactor
from holdfast.observe.tracing import Tracing
from holdfast.store.database import Database
from holdfast.testing import (
    Clock,
    ScriptedModel,
    call,
    cut,
    fail,
    finish,
    hang,
    pause,
    ports,
    say,
    usage,
)
from holdfast.testing.recorded import recorded
from tests.databases import OpenDatabase
from tests.observe.spans import Spans, attributes
from tests.worker.test_takeover import another
from tests.worker.workers import asks, living, soon

SECRET = "sk-very-secret"
SUMMARY = "\n".join(f"## {section}\n-" for section in SUMMARY_SECTIONS)
QUICK = Policy(retry=Retry(attempts=2, first_delay=1))


@tool(effect="pure")
async def nap(seconds: float) -> str:
    """Sleep."""
    await anyio.sleep(seconds)
    return "rested"


@tool(effect="pure")
async def trip() -> str:
    """Fail."""
    raise ValueError(f"no way with {SECRET}")


def lines(meters: MetricRegistry) -> dict[str, float]:
    """Every number, by its name and labels."""
    told = [line for line in meters.text().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in told)}


# --- numbers ---


async def test_the_steps_tokens_and_times_of_a_turn_are_counted(db: Database, clock: Clock) -> None:
    meters = MetricRegistry()
    script = [
        [pause(2), call("nap", seconds=3), usage(input=5, output=7, cache_read=11)],
        [call("trip"), call("nothing")],
        "Done.",
    ]
    async with living(
        db, script, [nap, trip], clock=clock, observer=MetricsObserver(meters)
    ) as life:
        model = life.agent.model.name  # type: ignore[union-attr]
        await life.rest(await life.begin())
    told = lines(meters)
    assert told[f'holdfast_steps_total{{model="{model}"}}'] == 3
    assert told[f'holdfast_tokens_total{{model="{model}",kind="cache_read"}}'] == 11
    assert told[f'holdfast_tokens_total{{model="{model}",kind="output"}}'] == 7
    assert told[f'holdfast_first_delta_seconds_count{{model="{model}"}}'] == 3
    assert told[f'holdfast_first_delta_seconds_sum{{model="{model}"}}'] == pytest.approx(2)
    assert told['holdfast_tool_seconds_sum{tool="nap"}'] == pytest.approx(3)
    assert told['holdfast_tool_calls_total{tool="nap",outcome="ok"}'] == 1
    assert told['holdfast_tool_calls_total{tool="trip",outcome="failed"}'] == 1
    assert not any('tool="nothing"' in name for name in told)
    unknown = [name for name in told if 'calls_total{tool="unknown"' in name]
    assert [told[name] for name in unknown] == [1]
    assert told['holdfast_turns_total{reason="stop"}'] == 1
    assert (told["holdfast_claims_total"], told["holdfast_takeovers_total"]) == (1, 0)
    assert told["holdfast_running_chats"] == 0


async def test_a_chat_that_is_driven_is_counted_meanwhile(db: Database, clock: Clock) -> None:
    meters = MetricRegistry()
    async with living(
        db, [[pause(5), "Hi."]], clock=clock, observer=MetricsObserver(meters)
    ) as life:
        chat_id = await life.begin()
        await anyio.sleep(2)
        assert lines(meters)["holdfast_running_chats"] == 1
        await life.rest(chat_id)
    assert lines(meters)["holdfast_running_chats"] == 0


async def test_retries_and_failures_are_counted_by_their_kind(db: Database, clock: Clock) -> None:
    meters = MetricRegistry()
    script = [fail(kind="overloaded"), [say("Half"), cut()]]
    async with living(
        db, script, clock=clock, observer=MetricsObserver(meters), policy=QUICK
    ) as life:
        assert (await life.rest(await life.begin())).status == "error"
    told = lines(meters)
    of = 'provider="scripted",model="scripted:model"'
    assert told[f'holdfast_retries_total{{{of},kind="overloaded"}}'] == 1
    assert told['holdfast_failures_total{kind="stream_cut"}'] == 1
    assert told['holdfast_turns_total{reason="error"}'] == 1
    assert not any(name.startswith("holdfast_steps_total") for name in told)


async def test_a_summary_is_a_compaction_and_no_step(db: Database, clock: Clock) -> None:
    meters = MetricRegistry()
    script = ["One. " * 500, [usage(input=3, output=1), say(SUMMARY)]]
    async with living(db, script, clock=clock, observer=MetricsObserver(meters)) as life:
        model = life.agent.model.name  # type: ignore[union-attr]
        chat_id = await life.begin()
        await life.rest(chat_id)
        await life.do(user.compact, chat_id)
        await life.rest(chat_id)
    told = lines(meters)
    assert told['holdfast_compactions_total{outcome="summary"}'] == 1
    assert told[f'holdfast_steps_total{{model="{model}"}}'] == 1
    assert told[f'holdfast_tokens_total{{model="{model}",kind="input"}}'] == 3


async def test_the_size_of_requests_and_results_is_counted(db: Database, clock: Clock) -> None:
    meters = MetricRegistry()
    asked = call("nap", seconds=0)
    async with living(
        db,
        [asked, "Done."],
        [nap],
        clock=clock,
        observer=MetricsObserver(meters),
        instructions="Grüße!",
    ) as life:
        await life.rest(await life.begin("Well?"))
    told = lines(meters)
    of = '{model="scripted:model"}'
    assert told[f"holdfast_request_messages_count{of}"] == 2
    assert told[f"holdfast_request_messages_sum{of}"] == 1 + 3
    prompt = len("Grüße!".encode()) + len("Well?")
    assert told[f"holdfast_request_bytes_sum{of}"] == 2 * prompt + len('{"seconds":0}rested')
    assert told['holdfast_tool_result_bytes_sum{tool="nap"}'] == len("rested")


@pytest.mark.parametrize(
    ("script", "outcomes"),
    [
        ([[say(SUMMARY), finish("length")]] * 3, {"failed": 1}),
        ([fail(kind="overloaded"), SUMMARY, "Done."], {"summary": 1}),
        ([SUMMARY, [call("nap", seconds=0), usage(input=7_100)]], {"summary": 1, "no_progress": 1}),
    ],
    ids=["failed", "retried", "no progress"],
)
async def test_compactions_are_counted_by_their_outcome(
    db: Database, clock: Clock, script: list[Any], outcomes: dict[str, int]
) -> None:
    meters = MetricRegistry()
    policy = Policy(retry=Retry(attempts=2), context=ContextLimits(window=10_000))
    full = ["One. " * 500, usage(input=9_000)]
    observer = MetricsObserver(meters)
    async with living(
        db, [full, *script], [nap], clock=clock, observer=observer, policy=policy
    ) as life:
        chat_id = await life.begin()
        await life.rest(chat_id)
        await life.send(chat_id, "and?")
        await life.rest(chat_id)
    told = lines(meters)
    counted = {name: value for name, value in told.items() if "compactions_total" in name}
    assert counted == {
        f'holdfast_compactions_total{{outcome="{outcome}"}}': count
        for outcome, count in outcomes.items()
    }
    retried = sum(value for name, value in told.items() if "retries_total" in name)
    assert retried == (1 if outcomes == {"summary": 1} else 0)


async def test_every_way_a_turn_can_end_is_counted(db: Database, clock: Clock) -> None:
    meters = MetricRegistry()
    script = [[pause(5), "One."], "Two.", call("asks"), hang()]
    async with living(db, script, [asks], clock=clock, observer=MetricsObserver(meters)) as life:
        chat_id = await life.begin("1")
        await soon(1, lambda: life.send(chat_id, "2"))  # a second turn without a rest between
        await life.rest(chat_id)
        await life.begin("3")
        await anyio.sleep(1)
        stopped = await life.begin("4")
        await anyio.sleep(1)
        await life.interrupted(stopped)
    told = lines(meters)
    reasons = {
        name.partition('reason="')[2][:-2]: value for name, value in told.items() if "turns" in name
    }
    assert reasons == {"stop": 2, "requires_action": 1, "interrupted": 1}


async def test_a_chat_of_a_dead_worker_is_a_takeover(
    db: Database, open_db: OpenDatabase, clock: Clock
) -> None:
    model = ScriptedModel([[say("Half"), pause(100)], "Whole."])
    first, second = MetricRegistry(), MetricRegistry()
    async with living(db, model, clock=clock, observer=MetricsObserver(first)) as life:
        chat_id = await life.begin()
        await anyio.sleep(3)
        await life.die()
    async with (
        another(db, open_db) as theirs,
        living(theirs, model, clock=clock, seed=1, observer=MetricsObserver(second)) as life,
    ):
        await life.rest(chat_id)
    assert lines(first)["holdfast_takeovers_total"] == 0
    assert lines(second)["holdfast_takeovers_total"] == lines(second)["holdfast_claims_total"] == 1


async def test_nobody_is_told_of_single_deltas(db: Database, clock: Clock) -> None:
    heard: list[str] = []

    class Listener(ChatObserver):
        def __getattribute__(self, name: str) -> Any:
            heard.append(name)
            return super().__getattribute__(name)

    class Listening(Observer):
        def drives(self, stretch: Stretch) -> ChatObserver:
            return Listener()

    script = [say("word " * 500, chunks=500)]
    async with living(db, script, clock=clock, observer=Listening()) as life:
        await life.rest(await life.begin())
    assert heard == ["around", "begins", "asks", "answered", "turned", "ends"]


# --- traces ---


def tracing(spans: Spans, content: bool = False) -> Tracing:
    redact = Redactor()
    redact.know(SECRET)
    return Tracing(redact, content=content, tracer_provider=spans.provider)


async def test_a_turn_is_a_trace_of_its_model_calls_and_tools(db: Database, clock: Clock) -> None:
    spans = Spans()

    @tool(effect="pure")
    async def look() -> str:
        """Look."""
        spans.tracer.start_span("inside").end()
        return "seen"

    def asked(request: object) -> None:
        spans.tracer.start_span("http").end()

    script = [
        [asked, pause(1), call("look"), usage(input=5, output=7, cache_read=11)],
        [asked, "Done."],
    ]
    async with living(db, script, [look], clock=clock, observer=tracing(spans)) as life:
        model = life.agent.model.name  # type: ignore[union-attr]
        chat = await life.rest(await life.begin())
    provider, _, name = model.partition(":")
    assert spans.tree() == [
        "invoke_agent agent",
        f"  chat {name}",
        "    http",
        "  execute_tool look",
        "    inside",
        f"  chat {name}",
        "    http",
    ]
    assert spans.all_ended
    assert not any(spans.failed)
    turn, first, look_span = spans.all[0], spans.all[1], spans.named("execute_tool look")
    assert turn.kind is look_span.kind is SpanKind.INTERNAL
    assert attributes(turn)["gen_ai.operation.name"] == "invoke_agent"
    assert attributes(turn)["gen_ai.agent.name"] == "agent"
    assert attributes(turn)["gen_ai.conversation.id"] == chat.id
    assert attributes(turn)["holdfast.turn.end"] == "stop"
    assert first.kind is SpanKind.CLIENT
    assert attributes(first)["gen_ai.operation.name"] == "chat"
    assert attributes(first)["gen_ai.provider.name"] == provider
    assert attributes(first)["gen_ai.request.model"] == name
    assert attributes(first)["gen_ai.usage.input_tokens"] == 16
    assert attributes(first)["gen_ai.usage.cache_read.input_tokens"] == 11
    assert attributes(first)["gen_ai.usage.output_tokens"] == 7
    assert attributes(first)["gen_ai.response.finish_reasons"] == ("tool_call",)
    assert attributes(first)["gen_ai.response.time_to_first_chunk"] == pytest.approx(1)
    assert attributes(look_span)["gen_ai.operation.name"] == "execute_tool"
    assert attributes(look_span)["gen_ai.tool.name"] == "look"
    assert attributes(look_span)["gen_ai.tool.call.id"]


async def test_each_turn_is_a_trace_of_its_own(db: Database, clock: Clock) -> None:
    spans = Spans()
    script = [[pause(5), "One."], "Two."]
    async with living(db, script, clock=clock, observer=tracing(spans)) as life:
        chat_id = await life.begin("1")
        await soon(1, lambda: life.send(chat_id, "2"))
        await life.rest(chat_id)
    tops = [span for span in spans.all if span.parent is None]
    assert [span.name for span in tops] == ["invoke_agent agent"] * 2
    assert [attributes(span)["holdfast.turn.end"] for span in tops] == ["stop", "stop"]


async def test_what_fails_says_so_in_its_span(db: Database, clock: Clock) -> None:
    spans = Spans()
    script = [call("trip"), fail(kind="overloaded"), [say("Half"), cut()]]
    async with living(
        db, script, [trip], clock=clock, observer=tracing(spans), policy=QUICK
    ) as life:
        await life.rest(await life.begin())
    names = [span.name.split()[0] for span in spans.all]
    wrong = list(zip(names, spans.values("error.type"), strict=True))
    assert wrong == [
        ("invoke_agent", "stream_cut"),
        ("chat", None),
        ("execute_tool", "ValueError"),
        ("chat", "overloaded"),
        ("chat", "stream_cut"),
    ]
    assert spans.values("holdfast.attempt") == [None, 1, None, 1, 2]
    assert spans.failed == [kind is not None for _, kind in wrong]


async def test_a_turn_that_is_given_away_ends_its_spans(db: Database, clock: Clock) -> None:
    spans = Spans()
    async with living(db, [hang()], clock=clock, observer=tracing(spans)) as life:
        await life.begin()
        await anyio.sleep(1)
    assert len(spans.all) == 2
    assert spans.all_ended
    assert attributes(spans.all[0])["holdfast.turn.end"] == "handed_over"


async def test_what_was_said_is_in_no_span_unless_that_is_wanted(
    db: Database, clock: Clock
) -> None:
    for content in (False, True):
        spans = Spans()
        script = [[say("aha"), call("nap", seconds=0)], f"The word is {SECRET}."]
        observer = tracing(spans, content)
        async with living(
            db, script, [nap], clock=clock, observer=observer, seed=int(content)
        ) as life:
            await life.rest(await life.begin("open sesame"))
        told = json.dumps([attributes(span) for span in spans.all])
        assert ("open sesame" in told, "aha" in told, "seconds" in told) == (content,) * 3
        assert (HIDDEN in told, SECRET in told) == (content, False)
        assert not any(spans.values("error.type"))


async def test_the_spans_of_a_summary_are_there_too(db: Database, clock: Clock) -> None:
    spans = Spans()
    script = ["One. " * 500, [usage(input=3, output=1), say(SUMMARY)]]
    async with living(db, script, clock=clock, observer=tracing(spans)) as life:
        chat_id = await life.begin()
        await life.rest(chat_id)
        await life.do(user.compact, chat_id)
        await life.rest(chat_id)
    *_, summary = spans.all
    assert summary.name.startswith("chat ")
    assert attributes(summary)["gen_ai.usage.input_tokens"] == 3
    assert spans.all_ended


# --- recordings ---


def recorder(directory: Path, clock: Clock) -> Recorder:
    redact = Redactor()
    redact.know(SECRET)
    return Recorder(str(directory), redact, clock.now)


def read(directory: Path) -> Sequence[dict[str, Any]]:
    (path,) = directory.iterdir()
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_a_recorded_turn_has_each_request_and_all_that_was_said(
    db: Database, clock: Clock, tmp_path: Path
) -> None:
    script = [call("nap", seconds=1), fail(kind="overloaded"), say("All done.", chunks=3)]
    async with living(
        db, script, [nap], clock=clock, observer=recorder(tmp_path / "r", clock), policy=QUICK
    ) as life:
        chat = await life.rest(await life.begin("rest"))
    told = read(tmp_path / "r")
    assert [line["what"] for line in told if line["what"] != "delta"] == ["request", "end"] * 3
    requests = [line for line in told if line["what"] == "request"]
    assert [line["attempt"] for line in requests] == [1, 1, 2]
    assert requests[0]["request"]["messages"][0]["parts"][0]["text"] == "rest"
    assert [line["error"]["kind"] for line in told if "error" in line] == ["overloaded"]
    pieces = [line["delta"]["text"] for line in told if line.get("kind") == "TextDelta"]
    assert (len(pieces), "".join(pieces)) == (3, "All done.")
    path = tmp_path / "r" / f"{chat.id}.jsonl"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_a_recorded_turn_can_be_played_again(
    db: Database, clock: Clock, tmp_path: Path
) -> None:
    script = [call("nap", seconds=1), fail(kind="overloaded"), say("All done.", chunks=3)]
    observer = recorder(tmp_path / "r", clock)
    async with living(db, script, [nap], clock=clock, observer=observer, policy=QUICK) as life:
        chat_id = await life.begin("rest")
        await life.rest(chat_id)
        told = await life.lines(chat_id)
        again = recorded(tmp_path / "r" / f"{chat_id}.jsonl")
    async with living(db, again, [nap], clock=clock, policy=QUICK, seed=1) as life:
        chat_id = await life.begin("rest")
        await life.rest(chat_id)
        assert await life.lines(chat_id) == told


async def test_no_secret_is_in_a_recording_not_even_in_pieces(
    db: Database, clock: Clock, tmp_path: Path
) -> None:
    answer = f"your key is {SECRET}, keep it"
    script = [call("trip"), call("nap", seconds=0, api_key="unheard-of"), say(answer, chunks=12)]
    observer = recorder(tmp_path / "r", clock)
    async with living(db, script, [nap, trip], clock=clock, observer=observer) as life:
        chat_id = await life.begin(f"mine is {SECRET}, and Authorization: Bearer unheard-of")
        await life.rest(chat_id)
    (path,) = (tmp_path / "r").iterdir()
    text = path.read_text()
    assert SECRET not in text
    assert "unheard-of" not in text
    (line,) = (line for line in read(tmp_path / "r") if line.get("kind") == "TextDelta")
    assert line["delta"]["text"] == f"your key is {HIDDEN}, keep it"
    last = recorded(path)[-1]
    assert isinstance(last, list)
    assert [type(delta) for delta in last] == [TextDelta, Finished]


async def test_a_stopped_answer_is_recorded_as_far_as_it_came(
    db: Database, clock: Clock, tmp_path: Path
) -> None:
    observer = recorder(tmp_path / "r", clock)
    async with living(db, [[say("Half"), hang()]], clock=clock, observer=observer) as life:
        chat_id = await life.begin()
        await anyio.sleep(1)
        await life.interrupted(chat_id)
    *_, delta, end = read(tmp_path / "r")
    assert delta["delta"]["text"] == "Half"
    assert (end["what"], "kind" in end["error"]) == ("end", False)


async def test_a_directory_that_is_gone_stops_no_turn(
    db: Database, clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    observer = recorder(tmp_path / "r", clock)
    (tmp_path / "r").rmdir()
    async with living(db, ["Hi."], clock=clock, observer=observer) as life:
        assert (await life.rest(await life.begin())).status == "idle"
    assert "cannot write a recording" in caplog.text


# --- all at once, and logs ---


async def test_a_title_is_counted_traced_and_recorded_apart_from_the_turns(
    db: Database, clock: Clock, tmp_path: Path
) -> None:
    meters, spans, world = MetricRegistry(), Spans(), ports(clock=clock)
    observer = several([MetricsObserver(meters), tracing(spans), recorder(tmp_path / "r", clock)])
    answer = [usage(input=7, output=2), say("Done.")]
    model = ScriptedModel([answer, [usage(input=30, output=5), say("A title")]])
    agent = Agent(model=model, ports=world)
    async with serving(db, [agent], ports=world, observer=observer) as host:
        chat = await host.create("fix it")
        await chat.rest()
        await anyio.sleep(60)
        assert (await chat.read()).title == "A title"
    told = lines(meters)
    name = 'model="scripted:model"'
    assert told[f"holdfast_steps_total{{{name}}}"] == 1
    assert told[f'holdfast_tokens_total{{{name},kind="input"}}'] == 37
    assert told[f"holdfast_model_seconds_count{{{name}}}"] == 2
    assert told["holdfast_running_chats"] == 0
    assert spans.tree() == ["invoke_agent agent", "  chat model", "chat model"]
    assert attributes(spans.all[-1])["gen_ai.usage.input_tokens"] == 30
    assert attributes(spans.all[-1])["gen_ai.conversation.id"] == chat.id
    assert spans.all_ended
    files = {path.name: recorded(path) for path in (tmp_path / "r").iterdir()}
    assert set(files) == {f"{chat.id}.jsonl", f"{chat.id}.title.jsonl"}
    assert [len(turns) for turns in files.values()] == [1, 1]


async def test_a_title_that_cannot_be_had_ends_its_span_with_why(
    db: Database, clock: Clock
) -> None:
    spans, world = Spans(), ports(clock=clock)
    agent = Agent(model=ScriptedModel(["Done.", fail(kind="overloaded")]), ports=world)
    async with serving(db, [agent], ports=world, observer=tracing(spans)) as host:
        chat = await host.create("fix it")
        await chat.rest()
        await anyio.sleep(60)
    assert attributes(spans.all[-1])["error.type"] == "overloaded"
    assert spans.all_ended


async def test_several_observers_hear_the_same(db: Database, clock: Clock, tmp_path: Path) -> None:
    meters, spans = MetricRegistry(), Spans()
    observer = several([MetricsObserver(meters), tracing(spans), recorder(tmp_path / "r", clock)])
    script = [call("nap", seconds=1), "Done."]
    async with living(db, script, [nap], clock=clock, observer=observer) as life:
        await life.rest(await life.begin())
    assert lines(meters)['holdfast_turns_total{reason="stop"}'] == 1
    assert len(spans.tree()) == 4
    assert [line["what"] for line in read(tmp_path / "r")].count("request") == 2


async def test_what_a_repair_removed_of_a_durable_chat_is_logged(
    db: Database, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    def without_answers(_context: Context, messages: Sequence[Message]) -> Sequence[Message]:
        return [message for message in messages if message.role != "assistant"]

    script = [call("nap", seconds=0), "Done."]
    with caplog.at_level("INFO", "holdfast"):
        async with living(db, script, [nap], clock=clock, project=without_answers) as life:
            await life.rest(await life.begin())
    assert [line for line in caplog.messages if "sequence repair" in line] == [
        "sequence repair removed 0 tool calls and 1 tool results of what project returned from the "
        "request"
    ]


async def test_what_is_logged_under_a_chat_says_so(db: Database, clock: Clock) -> None:
    seen: list[Mapping[str, object]] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(log_fields())

    @tool(effect="pure")
    async def speak() -> str:
        """Speak."""
        logging.getLogger("app").warning("from a tool")
        return "ok"

    handler = Handler()
    logging.getLogger("app").addHandler(handler)
    try:
        script = [fail(kind="overloaded"), call("speak"), "Done."]
        async with living(db, script, [speak], clock=clock, policy=QUICK) as life:
            worker = life.worker.id
            chat = await life.rest(await life.begin())
    finally:
        logging.getLogger("app").removeHandler(handler)
    # The second attempt brought the call, which is pure: it began before the answer was committed.
    assert seen == [{"chat": chat.id, "worker": worker, "epoch": 1, "attempt": 2}]
    assert log_fields() == {}
