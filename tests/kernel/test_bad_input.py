"""Whatever a model, a tool, a hook or a reader does, it ends as a result that the model can read or
as an error of the right kind: never as a traceback, never as a hang, never beyond a limit."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast import Agent, Limits, Run, RunResult, Tool, ToolContext, tool
from holdfast.errors import ConfigError, RunOver
from holdfast.hooks import Context
from holdfast.kernel.errors import FailureKind
from holdfast.kernel.events import Event, RunEnded, ToolFinished, ToolProgressed, ToolStarted
from holdfast.kernel.messages import FinishReason
from holdfast.kernel.model import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    Delta,
    Finished,
    Notice,
    Opened,
    PartAdded,
    PartEnded,
    Ping,
    ReasoningDelta,
    TextDelta,
)
from holdfast.kernel.tool import Values
from holdfast.messages import (
    File,
    Message,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
    dump,
    load,
)
from holdfast.models import Request, Settings
from holdfast.options import Calls, Policy, Retry
from holdfast.testing import (
    ScriptedModel,
    ScriptItem,
    call,
    call_raw,
    cut,
    fail,
    finish,
    pause,
    ports,
)
from tests.kernel.runs import only, outcome
from tests.kernel.toolkit import agent_for, assert_valid, outcomes, results_in, turns


async def say_back(x: Any = None) -> str:
    """What it was given, as Python writes it."""
    return repr(x)


echo = tool(name="echo", effect="pure")(say_back)


def assert_stored(history: Sequence[Message]) -> None:
    assert load(dump(history)) == tuple(history)


# --- arguments ----------------------------------------------------------------------------------

NOT_JSON: Final = {
    "cut": '{"x": 1',
    "trailing comma": '{"x": 1,}',
    "single quotes": "{'x': 1}",
    "no quotes": "{x: 1}",
    "words": "Sure! Here you go:",
    "two values": '{"x": 1} {"x": 2}',
    "NaN": '{"x": NaN}',
    "Infinity": '{"x": -Infinity}',
    "open string": '{"x": "abc',
    "bad escape": '{"x": "\\q"}',
    "raw newline": '{"x": "a\nb"}',
    "NUL": "\x00",
    "half a character": "\ud800",
    "closing only": "}" * 100,
    "10,000 deep list": "[" * 10_000,
    "10,000 deep object": '{"x":' * 10_000 + "1" + "}" * 10_000,
    "too many digits": '{"x": ' + "9" * 10_000 + "}",
}


@pytest.mark.parametrize("name", NOT_JSON)
async def test_arguments_that_are_not_json_reach_nobody_but_the_model(name: str) -> None:
    text = NOT_JSON[name]
    agent = agent_for([call_raw("echo", text), "I see."], echo)

    result = await agent.run("Go.")

    (made,) = results_in(result.history)
    (asked,) = result.history[1].calls
    assert asked.arguments == text, "kept exactly as the model wrote it"
    assert asked.complaint
    assert made.outcome == "failed"
    assert asked.complaint in made.text
    assert len(made.text) < 1_000
    assert result.text == "I see."
    assert_stored(result.history)


@pytest.mark.parametrize("text", ["[]", "1", '"x"', "null", "true", "[[1]]", '{"y": 1}'])
async def test_json_that_are_no_arguments_is_told_to_the_model(text: str) -> None:
    result = await agent_for([call_raw("echo", text), "I see."], echo).run("Go.")
    (made,) = results_in(result.history)
    assert made.outcome == "failed"
    assert result.history[1].calls[0].complaint is None


ODD_TEXTS: Final = ("\ud800", "\udfff\ud800", "\ue000", "\ue0000000", "🦔", "\u2028", "plain")


@pytest.mark.parametrize(
    ("x", "raw"), [("\x00", False), *((x, raw) for x in ODD_TEXTS for raw in (False, True))]
)
async def test_any_text_goes_through_a_tool_and_comes_back_unchanged(x: str, raw: bool) -> None:
    @tool
    async def same(x: str) -> str:
        return x

    text = json.dumps({"x": x}, ensure_ascii=not raw)
    result = await agent_for([call_raw("same", text), "I see."], same).run("Go.")
    (made,) = results_in(result.history)
    assert (made.outcome, made.text) == ("ok", x)
    assert_stored(result.history)


async def test_arguments_of_ten_megabytes_are_refused_with_their_size() -> None:
    text = json.dumps({"x": "a" * 10_000_000})
    result = await agent_for([call_raw("echo", text, chunks=100), "I see."], echo).run("Go.")
    (made,) = results_in(result.history)
    assert made.outcome == "failed"
    assert f"{len(text)}" in made.text
    assert len(made.text) < 1_000


async def test_how_long_arguments_may_be_is_a_setting() -> None:
    policy = Policy(calls=Calls(max_arguments=20))
    script = [[call("echo", x="short"), call("echo", x="a" * 20)], "."]
    result = await agent_for(script, echo, policy=policy).run("Go.")
    assert outcomes(result.history) == ["ok", "failed"]


async def test_long_arguments_within_the_limit_are_run() -> None:
    @tool
    async def count(x: str) -> int:
        return len(x)

    result = await agent_for([call("count", x="a" * 5_000_000), "."], count).run("Go.")
    assert results_in(result.history)[0].text == "5000000"


async def test_arguments_nested_as_deeply_as_json_allows_are_run_or_refused() -> None:
    for depth in (10, 100, 200, 500, 900, 1_000, 5_000):
        text = '{"x": ' + "[" * depth + "]" * depth + "}"
        result = await agent_for([call_raw("echo", text), "."], echo).run("Go.")
        assert outcomes(result.history) in (["ok"], ["failed"])
        assert_stored(result.history)


# --- ids and names ------------------------------------------------------------------------------


def raw_call(id: str, x: int, name: str = "echo") -> ScriptItem:
    return call_raw(name, f'{{"x": {x}}}', id=id)


@pytest.mark.parametrize(
    "ids",
    [("same", "same"), ("", ""), ("", "a", ""), ("a", "b", "a", "a"), ("\x00", "\x00"), (" ", " ")],
)
async def test_ids_that_are_missing_or_used_twice_are_told_apart(ids: tuple[str, ...]) -> None:
    script = [[raw_call(id, x) for x, id in enumerate(ids)], "I see."]
    result = await agent_for(script, echo).run("Go.")

    assert_valid(result.history)
    assert [made.text for made in results_in(result.history)] == [f"{x}" for x in range(len(ids))]
    calls = result.history[1].calls
    assert [made.call_id for made in results_in(result.history)] == [asked.id for asked in calls]
    assert_stored(result.history)


async def test_an_id_of_an_earlier_answer_is_not_taken_again() -> None:
    script = [raw_call("same", 1), raw_call("same", 2), "I see."]
    result = await agent_for(script, echo).run("Go.")
    assert_valid(result.history)
    again = await agent_for([raw_call("same", 3), "."], echo).run("Go.", history=result.history)
    assert_valid(again.history)
    assert [made.text for made in results_in(again.history)] == ["1", "2", "3"]


async def test_calls_that_come_whole_are_run_like_the_others() -> None:
    whole = [
        PartAdded(ToolCall(id, "echo", f'{{"x": {x}}}')) for x, id in enumerate(("a", "a", ""))
    ]
    result = await agent_for([[*whole, raw_call("a", 3)], "I see."], echo).run("Go.")
    assert_valid(result.history)
    assert [made.text for made in results_in(result.history)] == ["0", "1", "2", "3"]


async def test_pieces_of_calls_may_come_in_any_order() -> None:
    script: list[Any] = [
        [
            ArgumentsDelta("a", '{"x": 0}'),  # before its call: of nobody
            CallStarted("a", "echo"),
            CallStarted("b", "echo"),
            ArgumentsDelta("b", '{"x": '),
            ArgumentsDelta("a", '{"x": 1'),
            CallEnded("c"),
            ArgumentsDelta("b", "2}"),
            CallEnded("b"),
            ArgumentsDelta("b", "3}"),  # after its end: of nobody
            CallEnded("b"),
            ArgumentsDelta("a", "}"),
            CallEnded("a"),
            Finished("tool_calls"),
            CallStarted("d", "echo"),  # after the end: of nobody
            CallEnded("d"),
        ],
        "I see.",
    ]
    result = await agent_for(script, echo).run("Go.")
    assert [made.text for made in results_in(result.history)] == ["1", "2"]
    assert_valid(result.history)


@pytest.mark.parametrize(
    "name",
    ["", " ", "echo ", "\x00", "\ud800", "ECHO", "é", pytest.param("a" * 100_000, id="long")],
)
async def test_a_name_that_no_tool_has_is_refused(name: str) -> None:
    result = await agent_for([call_raw(name, "{}"), "I see."], echo).run("Go.")
    (made,) = results_in(result.history)
    assert made.outcome == "refused"
    assert "echo" in made.text
    assert_stored(result.history)


async def test_a_model_that_only_calls_what_does_not_exist_stops_at_its_limit() -> None:
    agent = agent_for([], echo, limits=Limits(steps=5))
    endless = agent.replace(model=ScriptedModel(default=call("nothing")))
    result = await outcome(endless.run("Go."))
    assert result.reason == "limit"
    assert outcomes(result.history) == ["refused"] * 5


async def test_a_thousand_calls_in_one_answer_are_run() -> None:
    result = await agent_for([[raw_call("", x) for x in range(1_000)], "."], echo).run("Go.")
    assert [made.text for made in results_in(result.history)] == [f"{x}" for x in range(1_000)]
    assert_valid(result.history)


# --- hooks --------------------------------------------------------------------------------------


def raises(*_: Any) -> Any:
    raise RuntimeError("broken hook")


async def raises_later(*_: Any) -> Any:
    await asyncio.sleep(1)
    raise RuntimeError("broken hook")


@pytest.mark.parametrize(
    ("hook", "kind"),
    [
        ({"active": raises}, "prepare"),
        ({"active": lambda history: 5}, "config"),
        ({"project": raises}, "prepare"),
        ({"project": lambda context, messages: None}, "config"),
        ({"guard": raises}, "escalated"),
        ({"guard": raises_later}, "escalated"),
    ],
    ids=["active", "active gives nonsense", "project", "project gives nonsense", "guard", "later"],
)
async def test_a_hook_of_the_run_that_raises_ends_it_with_an_error_of_its_kind(
    hook: dict[str, Any], kind: FailureKind
) -> None:
    policy = Policy(retry=Retry(attempts=2))
    events, result = await watched_to_the_end(
        agent_for(["Hello."] * 3, echo, policy=policy, **hook).run("Go.")
    )
    assert result.reason == "error"
    assert result.failure is not None
    assert result.failure.kind == kind
    assert len(only(RunEnded, events)) == 1


@pytest.mark.parametrize("broken", [raises, raises_later])
async def test_a_hook_of_a_call_that_raises_is_a_result(broken: Callable[..., Any]) -> None:
    for place, ended in (("validate", "failed"), ("preview", "ok")):
        hooks: dict[str, Any] = {place: broken}
        one = tool(name="echo", **hooks)(say_back)
        result = await agent_for([call("echo"), "I see."], one).run("Go.")
        assert outcomes(result.history) == [ended]
    result = await agent_for([call("echo"), "I see."], echo, gate=broken).run("Go.")
    assert outcomes(result.history) == ["refused"]


async def test_a_hook_that_never_returns_can_be_interrupted() -> None:
    async def gate(_context: Context, call: ToolCall, values: Values) -> None:
        await asyncio.Event().wait()

    run = agent_for([call("echo")], echo, gate=gate).run("Go.")
    asyncio.get_running_loop().call_later(5, run.interrupt)
    result = await run
    assert (result.reason, outcomes(result.history)) == ("interrupted", ["interrupted"])


# --- tools --------------------------------------------------------------------------------------


async def test_a_tool_that_never_returns_ends_at_its_timeout_or_at_an_interrupt() -> None:
    @tool(timeout=60)
    async def patient() -> None:
        await asyncio.Event().wait()

    result = await agent_for([call("patient"), "I see."], patient).run("Go.")
    assert outcomes(result.history) == ["timed_out"]

    @tool
    async def endless() -> None:
        await asyncio.Event().wait()

    run = agent_for([call("endless")], endless).run("Go.")
    asyncio.get_running_loop().call_later(1_000, run.interrupt)
    assert outcomes((await run).history) == ["interrupted"]


async def test_a_tool_that_leaves_a_task_behind_does_not_hold_the_run() -> None:
    tasks: list[asyncio.Task[None]] = []

    @tool
    async def spawn() -> str:
        tasks.append(asyncio.create_task(asyncio.sleep(1_000)))
        return "spawned"

    result = await agent_for([call("spawn"), "I see."], spawn).run("Go.")
    assert outcomes(result.history) == ["ok"]
    assert not tasks[0].done()
    tasks[0].cancel()


async def test_a_tool_that_floods_with_progress_is_held_to_the_reader_s_pace() -> None:
    """Only awaited progress is; what is not awaited is the tool's own memory."""
    sent = 0

    @tool
    async def flood(context: ToolContext) -> None:
        nonlocal sent
        while True:
            await context.progress("x" * 1_000)
            sent += 1

    run = agent_for([call("flood")], flood, policy=Policy(buffer=10)).run("Go.")
    async for event in run:
        if isinstance(event, ToolProgressed):
            await asyncio.sleep(3_600)
            break
    assert sent < 50
    await run.aclose()


async def test_a_tool_that_floods_with_progress_can_be_stopped_where_nobody_reads() -> None:
    go = asyncio.Event()

    @tool
    async def flood(context: ToolContext) -> None:
        asyncio.get_running_loop().call_soon(run.interrupt)
        while not go.is_set():
            try:
                await context.progress("x")
            except asyncio.CancelledError:
                asyncio.get_running_loop().call_soon(go.set)

    run = agent_for([call("flood")], flood).run("Go.")
    result = await run
    assert go.is_set()
    assert outcomes(result.history) == ["ok"]


# --- readers ------------------------------------------------------------------------------------


def endless_model(said: list[int]) -> ScriptedModel:
    def note(request: Request) -> None:
        said.append(1)

    return ScriptedModel(default=[[note, "word "] * 1_000, call("echo", x="a" * 100)])


async def test_a_reader_that_stops_reading_holds_the_run_within_its_buffer() -> None:
    said: list[int] = []
    agent = agent_for([], echo, policy=Policy(buffer=16)).replace(model=endless_model(said))
    run = agent.run("Go.")
    async for _ in run:
        break
    held = aiter(run)  # somebody still means to read on, and never does
    await asyncio.sleep(100_000)
    assert len(said) < 100

    run.interrupt()
    result = await outcome(run)

    assert result.reason == "interrupted"
    assert_valid(result.history)
    del held


async def test_a_reader_that_leaves_ends_the_run() -> None:
    said: list[int] = []
    agent = agent_for([], echo, policy=Policy(buffer=16)).replace(model=endless_model(said))
    async for _ in agent.run("Go."):
        break
    await turns()
    assert len(said) < 100


async def test_a_reader_that_only_closes_ends_the_run() -> None:
    async with agent_for([], echo).replace(model=endless_model([])).run("Go."):
        pass


# --- garbage ------------------------------------------------------------------------------------

IDS = st.sampled_from(["", "a", "b", "c", "\ud800"])
TOOLS = st.sampled_from(["look", "act", "block", "ask", "client", "alone", "done", "nothing", ""])
TEXT = st.text(max_size=8) | st.sampled_from(
    [
        "{",
        "}",
        '{"x": 1}',
        '{"x": "5"}',
        '{"x":',
        '"',
        "[",
        "1",
        " ",
        "\x00",
        "\ud800",
        "\ue000d800",
    ]
)
ARGUMENTS = st.sampled_from(["", "{}", '{"x": 1}', '{"x": "no"}', "{"]) | TEXT
METADATA = st.none() | st.dictionaries(st.text(max_size=3), TEXT, max_size=2)
PARTS = st.one_of(
    st.builds(Text, TEXT),
    st.builds(Reasoning, TEXT, st.none() | TEXT),
    st.builds(Source, TEXT, st.none() | TEXT),
    st.builds(File, st.just("a/b"), st.none() | TEXT, st.binary(max_size=4)),
    st.builds(ToolCall, IDS, TOOLS, ARGUMENTS, provider_executed=st.booleans()),
    st.builds(
        ToolResult, IDS, TOOLS, st.tuples(st.builds(Text, TEXT)), provider_executed=st.booleans()
    ),
)
DELTAS: st.SearchStrategy[Delta] = st.one_of(
    st.builds(TextDelta, TEXT),
    st.builds(ReasoningDelta, TEXT),
    st.builds(CallStarted, IDS, TOOLS, st.booleans()),
    st.builds(ArgumentsDelta, IDS, ARGUMENTS),
    st.builds(CallEnded, IDS, METADATA),
    st.builds(PartEnded, st.none() | TEXT, METADATA),
    st.builds(PartAdded, PARTS),
    st.builds(Ping),
    st.builds(Opened, TEXT),
    st.builds(Notice, TEXT),
)
CALLS = st.builds(call_raw, TOOLS, ARGUMENTS, id=st.none() | IDS, ended=st.booleans())
GOOD_CALLS = st.builds(
    call_raw,
    st.sampled_from(["look", "look", "act", "block", "done", "ask"]),
    st.sampled_from(["{}", '{"x": 1}', '{"x": "5"}']),
    id=st.none() | IDS,
)
FINISHES = st.sampled_from(get_args(FinishReason))
TROUBLE: st.SearchStrategy[ScriptItem] = st.one_of(
    st.sampled_from([1, 20]).map(pause),
    st.sampled_from([401, 429, 500]).map(lambda status: fail(status=status)),
    st.just(fail(ValueError("a bug in the model's client"))),
    FINISHES.map(finish),
    st.just(cut()),
)


def weighted(*choices: tuple[int, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    return st.sampled_from([one for weight, one in choices for _ in range(weight)]).flatmap(
        lambda one: one
    )


ITEMS = weighted((4, GOOD_CALLS), (1, CALLS), (2, DELTAS))
TURNS = st.tuples(
    st.lists(ITEMS, min_size=1, max_size=6),
    weighted((3, st.just([])), (1, TROUBLE.map(lambda trouble: [trouble]))),
).map(lambda turn: [*turn[0], *turn[1]])

BEHAVIOURS = st.sampled_from(
    [
        "return",
        "return nothing",
        "return nonsense",
        "return much",
        "wait",
        "wait long",
        "raise",
        "exit",
        "cancel itself",
        "clean up",
        "swallow",
        "ignore",
        "report",
        "steer",
        "follow up",
        "interrupt",
    ]
)


class Chaos:
    """Tools that behave as the test says, call by call."""

    def __init__(self, behaviours: Sequence[str]) -> None:
        self.run: Run | None = None
        self._left = list(behaviours)

    def tools(self) -> list[Tool]:
        schema = {"type": "object", "properties": {"x": {"type": "integer"}}}
        return [
            tool(name="look", effect="pure")(self.work),
            tool(name="act", timeout=10)(self.work),
            tool(name="block")(self.block),
            tool(name="ask", approval="ask")(self.work),
            tool(name="alone", exclusive=True)(self.work),
            tool(name="done", stop_after=True, on_steer="cancel")(self.work),
            Tool(name="client", schema=schema),
        ]

    def block(self, context: ToolContext, x: int = 0) -> object:
        behaviour = self._next()
        context.progress(behaviour)
        return self._quick(behaviour)

    async def work(self, context: ToolContext, x: int = 0) -> object:
        match behaviour := self._next():
            case "wait":
                await asyncio.sleep(1)
            case "wait long":
                await asyncio.sleep(60)
            case "cancel itself":
                raise asyncio.CancelledError
            case "clean up":
                try:
                    await asyncio.sleep(30)
                finally:
                    await asyncio.sleep(1)
            case "swallow":
                try:
                    await asyncio.sleep(30)
                except asyncio.CancelledError:
                    return "swallowed"
            case "ignore":
                until = asyncio.get_running_loop().time() + 30
                while (left := until - asyncio.get_running_loop().time()) > 0:
                    try:
                        await asyncio.sleep(left)
                    except asyncio.CancelledError:
                        continue
            case "report":
                for step in range(100):
                    await context.progress(f"{step}")
        return self._quick(behaviour)

    def _next(self) -> str:
        return self._left.pop(0) if self._left else "return"

    def _quick(self, behaviour: str) -> object:
        assert self.run is not None
        match behaviour:
            case "return nothing":
                return None
            case "return nonsense":
                return object()
            case "return much":
                return ["x\ud800é" * 100_000]
            case "raise":
                raise ExceptionGroup("several", [OSError("\x00"), ValueError("\ud800")])
            case "exit":
                raise SystemExit(1)
            case "steer":
                self.run.steer("Something else.")
            case "follow up":
                self.run.follow_up("And then.")
            case "interrupt":
                self.run.interrupt()
        return behaviour


async def watched_to_the_end(run: Run, pace: float = 0) -> tuple[list[Event], RunResult]:
    events: list[Event] = []
    async for event in run:
        events.append(event)
        if pace:
            await asyncio.sleep(pace)
    return events, await outcome(run)


def assert_whole(events: Sequence[Event], result: RunResult) -> None:
    """What holds of every run, whatever went wrong in it."""
    assert len(only(RunEnded, events)) == 1
    assert isinstance(events[-1], RunEnded)
    assert (events[-1].reason, events[-1].failure) == (result.reason, result.failure)
    assert (result.failure is not None) == (result.reason == "error")
    assert (
        result.failure is None
        or result.failure.kind != "internal"
        or "bug" in (result.failure.detail)
    )
    if result.reason not in ("requires_action", "error"):
        assert_valid(result.history)
    started = Counter(event.call_id for event in only(ToolStarted, events))
    ended = Counter(event.result.call_id for event in only(ToolFinished, events))
    assert started <= ended
    assert {made.call_id for made in results_in(result.new)} <= set(ended)
    assert_stored(result.history)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    script=st.lists(TURNS, min_size=1, max_size=4),
    behaviours=st.lists(BEHAVIOURS, max_size=8),
    pace=st.sampled_from([0, 0, 1]),
    stop_at=st.none() | st.integers(0, 60),
    steer_at=st.none() | st.integers(0, 60),
    eager=st.sampled_from(["pure", "all"]),
)
async def test_a_run_survives_any_garbage(
    script: list[ScriptItem],
    behaviours: list[str],
    pace: float,
    stop_at: int | None,
    steer_at: int | None,
    eager: Any,
) -> None:
    chaos = Chaos(behaviours)
    agent = Agent(
        model=ScriptedModel(script, default="The end."),
        tools=chaos.tools(),
        limits=Limits(steps=8),
        policy=Policy(buffer=4, retry=Retry(attempts=3)),
        eager=eager,
        ports=ports(),
    )
    loop = asyncio.get_running_loop()
    run = chaos.run = agent.run("Go.")
    if stop_at is not None:
        loop.call_later(stop_at, run.interrupt)
    if steer_at is not None:
        loop.call_later(steer_at, lambda: steer(run))

    events, result = await watched_to_the_end(run, pace)
    assert_whole(events, result)

    # Whatever came of it, the conversation goes on from there.
    go_on = agent.replace(model=ScriptedModel(default="Fine.")).run("And?", history=result.history)
    chaos.run = go_on
    events, result = await watched_to_the_end(go_on)
    assert_whole(events, result)
    assert result.reason == "stop"
    assert_valid(result.history)

    await asyncio.sleep(100)  # what was left behind ends by itself


def steer(run: Run) -> None:
    with suppress(RunOver):
        run.steer("Wait.")


@pytest.mark.parametrize("prompt", ["", " ", "\n\t"])
def test_a_blank_prompt_is_refused(prompt: str) -> None:
    with pytest.raises(ConfigError, match="the prompt is empty"):
        Agent(model=ScriptedModel(["x"])).run(prompt)


def test_a_file_whose_data_is_no_bytes_is_refused() -> None:
    text: Any = "text"
    with pytest.raises(ConfigError, match=r"a\.png is a str: use bytes"):
        Agent(model=ScriptedModel(["x"])).run([File("image/png", "a.png", text)])


@pytest.mark.parametrize(
    ("file", "told"),
    [
        (File("image/png", "a.png"), r"a\.png has no bytes: pass data=…, or a reference"),
        (
            File("chart.png", data=b"x"),
            r"'chart\.png' is not a media type: use one such as image/png",
        ),
        (File("", "a.png", b"x"), r"'' is not a media type: use one such as image/png"),
    ],
    ids=["no bytes", "a name for a type", "no type"],
)
def test_a_file_that_no_model_could_be_shown_is_refused(file: File, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        Agent(model=ScriptedModel(["x"])).run([Text("And this?"), file])


def test_options_that_name_no_provider_are_refused() -> None:
    wrong: Any = {"service_tier": "flex"}
    with pytest.raises(ConfigError, match="by provider"):
        Settings(options=wrong)
