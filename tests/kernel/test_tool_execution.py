"""The way of one call: each station in its order, each failure on it a result for the model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, Literal, get_args

import pydantic
import pytest

from holdfast import Tool, ToolContext, approve, tool
from holdfast.errors import ExpectedFailure, ToolFailed
from holdfast.hooks import Allow, Context, Deny, Rewrite
from holdfast.kernel.call_admission import Gate, Middleware, Proceed
from holdfast.kernel.events import ToolFinished, ToolProgressed, ToolStarted, Warned
from holdfast.kernel.messages import ToolOutcome
from holdfast.kernel.model import TextDelta
from holdfast.kernel.tool import Decision, Values
from holdfast.messages import Text, ToolCall, ToolResult, dump, load
from holdfast.options import Calls, Policy
from holdfast.testing import Clock, ScriptedModel, call, call_raw, pause, ports
from tests.kernel.runs import only
from tests.kernel.toolkit import agent_for, outcomes, result_of, results_in, watched


@tool(effect="pure")
async def double(number: int) -> int:
    return 2 * number


def failing_tool(times: list[str]) -> Tool:
    @tool
    async def shaky(works: bool = False) -> str:
        times.append("ran")
        if works:
            return "fine"
        raise OSError("no disk")

    return shaky


# --- find the tool ------------------------------------------------------------------------------


async def test_an_unknown_tool_is_refused_and_the_known_ones_are_listed() -> None:
    @tool
    async def other() -> None: ...

    agent = agent_for([call("doubel", number=1), "Oh."], double, other)

    (made,) = results_in((await agent.run("Go.")).history)

    assert made.outcome == "refused"
    assert made.tool == "doubel"
    for name in ("doubel", "double", "other"):
        assert name in made.text


async def test_an_unknown_tool_is_refused_where_there_are_none() -> None:
    (made,) = results_in((await agent_for([call("magic"), "Oh."]).run("Go.")).history)
    assert (made.outcome, "none" in made.text) == ("refused", True)


async def test_a_very_long_unknown_name_is_not_repeated_to_the_model() -> None:
    name = "x" * 1_000_000
    (made,) = results_in((await agent_for([call(name), "Oh."], double).run("Go.")).history)
    assert made.outcome == "refused"
    assert len(made.text) < 1_000


async def test_a_tool_that_is_not_active_is_refused() -> None:
    made = await result_of(double, {"number": 1}, active=lambda context: ["other"])
    assert made.outcome == "refused"
    assert "double" in made.text


async def test_a_tool_that_is_active_runs() -> None:
    made = await result_of(double, {"number": 1}, active=lambda context: ["double"])
    assert (made.outcome, made.text) == ("ok", "2")


async def test_what_is_active_is_asked_again_for_each_answer() -> None:
    def active(context: Context) -> list[str]:
        return ["double"] if len(context.history) < 3 else []

    agent = agent_for([call("double", number=1), call("double", number=1), "."], double)

    result = await agent.replace(active=active).run("Go.")

    assert outcomes(result.history) == ["ok", "refused"]


async def test_an_open_call_of_an_earlier_run_is_refused_when_its_tool_is_not_active() -> None:
    @tool(approval="ask")
    async def wipe() -> str:
        return "wiped"

    waiting = await agent_for([call("wipe")], wipe).run("Go.")
    free = tool(name="wipe")(wipe.function)
    agent = agent_for(["Oh."], free, active=lambda context: [])

    result = await agent.run(history=waiting.history)

    assert outcomes(result.history) == ["refused"]


# --- the circuit breaker ------------------------------------------------------------------------


async def test_a_tool_that_failed_in_three_answers_in_a_row_is_refused_and_later_tried_again() -> (
    None
):
    times: list[str] = []
    agent = agent_for([*[call("shaky")] * 8, "I give up."], failing_tool(times))

    result = await agent.run("Go.")

    opened = ["failed"] * 3 + ["refused"] * 3
    assert outcomes(result.history) == [*opened, "failed", "refused"]
    assert len(times) == 4
    refusals = [made.text for made in results_in(result.history) if made.outcome == "refused"]
    assert "failed in 3 answers in a row" in refusals[0]
    assert [said.partition("again ")[2] for said in refusals[:3]] == [
        "after 2 more answers: use something else until then.",
        "after 1 more answer: use something else until then.",
        "in the next answer: use something else until then.",
    ]
    assert "failed in 4 answers in a row" in refusals[3]


async def test_a_success_of_the_trial_closes_the_breaker() -> None:
    times: list[str] = []
    bad, good = call("shaky"), call("shaky", works=True)
    agent = agent_for([*[bad] * 6, good, bad, bad, "."], failing_tool(times))

    result = await agent.run("Go.")

    assert outcomes(result.history)[6:] == ["ok", "failed", "failed"]


async def test_many_failures_in_one_answer_are_one_for_the_breaker() -> None:
    times: list[str] = []
    batch = [call("shaky")] * 4
    agent = agent_for([batch, batch, call("shaky"), batch, "."], failing_tool(times))

    result = await agent.run("Go.")

    assert outcomes(result.history) == ["failed"] * 9 + ["refused"] * 4


async def test_one_success_among_the_calls_of_an_answer_resets_the_breaker() -> None:
    times: list[str] = []
    bad, good = call("shaky"), call("shaky", works=True)
    mixed = [bad, good, bad]
    agent = agent_for([bad, bad, mixed, bad, bad, bad, "."], failing_tool(times))

    result = await agent.run("Go.")

    assert "refused" not in outcomes(result.history)


async def test_an_answer_that_does_not_use_the_tool_neither_counts_nor_resets() -> None:
    times: list[str] = []
    other = call("double", number=1)
    script = [call("shaky"), other, call("shaky"), other, call("shaky"), call("shaky"), "."]

    result = await agent_for(script, failing_tool(times), double).run("Go.")

    assert outcomes(result.history) == ["failed", "ok", "failed", "ok", "failed", "refused"]


async def test_an_expected_failure_resets_the_breaker_and_is_stored_as_such() -> None:
    @tool(effect="pure")
    async def find(path: str) -> str:
        if path == "broken":
            raise OSError("disk")
        raise ExpectedFailure(f"{path} is not there")

    broken, miss = call("find", path="broken"), call("find", path="a")
    script = [broken, broken, miss, broken, broken, miss, *[[miss] * 3] * 4, "."]

    result = await agent_for(script, find).run("Go.")

    made = results_in(load(dump(result.history)))
    assert {one.outcome for one in made} == {"failed"}
    assert [one.expected for one in made[:4]] == [False, False, True, False]
    assert made[2].text == "find failed: a is not there"
    assert result.summary.tool_errors == 4


async def test_a_result_may_say_itself_that_its_failure_is_expected() -> None:
    @tool(effect="pure")
    async def find() -> ToolResult:
        return ToolResult("", "", (Text("no match"),), "failed", expected=True)

    result = await agent_for([*[call("find")] * 5, "."], find).run("Go.")

    assert outcomes(result.history) == ["failed"] * 5


async def test_the_breaker_of_one_tool_does_not_concern_another() -> None:
    times: list[str] = []
    script = [*[call("shaky")] * 3, [call("shaky"), call("double", number=2)], "."]

    result = await agent_for(script, failing_tool(times), double).run("Go.")

    assert outcomes(result.history)[-2:] == ["refused", "ok"]


async def test_timeouts_count_for_the_breaker_and_refusals_do_not() -> None:
    @tool(timeout=1)
    async def slow() -> None:
        await asyncio.sleep(60)

    agent = agent_for([*[call("slow")] * 5, "."], slow)
    assert outcomes((await agent.run("Go.")).history) == ["timed_out"] * 3 + ["refused"] * 2

    agent = agent_for(
        [*[call("slow")] * 5, "."], slow, gate=lambda context, call, values: Deny("no")
    )
    denied = results_in((await agent.run("Go.")).history)
    assert {made.text for made in denied} == {"slow was not run: no"}


async def test_arguments_that_do_not_fit_count_for_the_breaker() -> None:
    result = await agent_for([*[call("double")] * 4, "."], double).run("Go.")
    assert outcomes(result.history) == ["failed"] * 3 + ["refused"]


async def test_a_new_prompt_closes_the_breaker_again() -> None:
    times: list[str] = []
    tools = failing_tool(times)
    first = await agent_for([*[call("shaky")] * 4, "."], tools).run("Go.")

    second = await agent_for([call("shaky"), "."], tools).run("Again.", history=first.history)

    assert outcomes(second.new) == ["failed"]


async def test_when_the_breaker_opens_and_for_how_long_are_settings() -> None:
    times: list[str] = []
    policy = Policy(calls=Calls(failures=1, cooldown=1))
    agent = agent_for([*[call("shaky")] * 4, "."], failing_tool(times), policy=policy)
    assert outcomes((await agent.run("Go.")).history) == ["failed", "refused"] * 2


# --- parse and validate -------------------------------------------------------------------------


async def test_arguments_that_are_not_json_are_quoted_with_the_complaint_and_not_run() -> None:
    times: list[str] = []
    broken = '{"works": tru'
    agent = agent_for([call_raw("shaky", broken), "Oh."], failing_tool(times))

    result = await agent.run("Go.")

    (asked,) = result.history[1].calls
    (made,) = results_in(result.history)
    assert asked.arguments == broken
    assert asked.complaint
    assert made.outcome == "failed"
    assert asked.complaint in made.text
    assert times == []


async def test_all_problems_of_the_arguments_are_told_at_once() -> None:
    @tool
    async def book(day: str, people: int, window: bool) -> None: ...

    made = await result_of(book, {"people": "many", "window": 3, "colour": "red"})

    assert made.outcome == "failed"
    for word in ("day", "people", "many", "window", "colour"):
        assert word in made.text


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ('{"number": "5"}', "10"),
        ('{"number": 5.0}', "10"),
        ('{"number": 5}', "10"),
    ],
)
async def test_trivial_mistakes_in_arguments_are_mended(arguments: str, wanted: str) -> None:
    assert (await result_of(double, arguments)).text == wanted


def stumble(value: object) -> object:
    raise ZeroDivisionError("a bug in the validator")


class Stumbling(pydantic.BaseModel):
    name: str

    @pydantic.model_validator(mode="before")
    @classmethod
    def look(cls, data: object) -> object:
        return stumble(data)


@pytest.mark.parametrize("effect", ["pure", "once"])
async def test_a_type_whose_own_validator_breaks_is_a_failure_of_the_call(effect: Any) -> None:
    async def odd(number: Annotated[int, pydantic.AfterValidator(stumble)]) -> None: ...

    async def deep(model: Stumbling) -> None: ...

    made = await result_of(tool(effect=effect)(odd), {"number": 1})
    assert made.outcome == "failed"
    assert "a bug in the validator" in made.text
    made = await result_of(tool(effect=effect)(deep), {"model": {"name": "x"}})
    assert made.outcome == "failed"


async def test_a_list_in_a_string_is_opened() -> None:
    @tool(effect="pure")
    async def total(numbers: list[int]) -> int:
        return sum(numbers)

    assert (await result_of(total, {"numbers": "[1, 2]"})).text == "3"


async def test_no_arguments_at_all_are_no_arguments() -> None:
    @tool(effect="pure")
    async def ping() -> str:
        return "pong"

    assert (await result_of(ping, "")).text == "pong"


# --- the validate hook --------------------------------------------------------------------------


def refuse_odd(values: Values) -> str | None:
    return "odd numbers are not doubled" if values["number"] % 2 else None


async def refuse_odd_later(values: Values) -> str | None:
    await asyncio.sleep(1)
    return refuse_odd(values)


def raise_on_odd(values: Values) -> None:
    if values["number"] % 2:
        raise ValueError("odd numbers are not doubled")


@pytest.mark.parametrize("validate", [refuse_odd, refuse_odd_later, raise_on_odd])
async def test_the_validate_hook_refuses_with_its_own_words(
    validate: Callable[[Values], object],
) -> None:
    checked = tool(effect="pure", name="double", validate=validate)(_double)

    assert (await result_of(checked, {"number": 2})).text == "4"

    made = await result_of(checked, {"number": "3"})  # it sees the coerced value
    assert made.outcome == "failed"
    assert "odd numbers are not doubled" in made.text


async def test_the_validate_hook_may_say_yes_or_no() -> None:
    checked = tool(effect="pure", name="double", validate=lambda values: values["number"] < 3)(
        _double
    )
    assert (await result_of(checked, {"number": 2})).text == "4"
    made = await result_of(checked, {"number": 3})
    assert (made.outcome, made.text) == (
        "failed",
        "double was not run: the arguments are not valid",
    )


async def test_a_hook_cannot_change_the_arguments() -> None:
    def meddle(values: Values) -> None:
        values["number"] = 5  # type: ignore[index]

    checked = tool(effect="pure", name="double", validate=meddle)(_double)
    assert (await result_of(checked, {"number": 2})).outcome == "failed"


async def _double(number: int) -> int:
    return 2 * number


# --- the gate -----------------------------------------------------------------------------------


def made_async(gate: Callable[[Context, ToolCall, Values], Decision]) -> Gate:
    async def later(context: Context, call: ToolCall, values: Values) -> Decision:
        await asyncio.sleep(1)
        return gate(context, call, values)

    return later


def gated(decision: Callable[[], Decision], form: Literal["sync", "async"]) -> Gate:
    def gate(_context: Context, call: ToolCall, values: Values) -> Decision:
        return decision()

    return gate if form == "sync" else made_async(gate)


def broken_gate() -> Decision:
    raise RuntimeError("no connection to the directory")


@pytest.mark.parametrize("form", ["sync", "async"])
@pytest.mark.parametrize(
    ("decision", "outcome", "words"),
    [
        pytest.param(lambda: None, "ok", "10", id="none"),
        pytest.param(Allow, "ok", "10", id="allow"),
        pytest.param(lambda: Deny("not on Sundays"), "refused", "not on Sundays", id="deny"),
        pytest.param(lambda: Rewrite({"number": 7}), "ok", "14", id="rewrite"),
        pytest.param(lambda: Rewrite({"number": "7"}), "ok", "14", id="rewrite is coerced"),
        pytest.param(lambda: Rewrite({"nummer": 7}), "refused", "nummer", id="rewrite misfits"),
        pytest.param(lambda: Rewrite({"number": object()}), "refused", "JSON", id="rewrite odd"),
        pytest.param(broken_gate, "refused", "no connection to the directory", id="raises"),
        pytest.param(lambda: False, "refused", "gate", id="answers nonsense"),
    ],
)
async def test_the_gate_decides(
    decision: Callable[[], Decision], outcome: str, words: str, form: Literal["sync", "async"]
) -> None:
    made = await result_of(double, {"number": 5}, gate=gated(decision, form))
    assert made.outcome == outcome
    assert words in made.text


async def test_the_gate_sees_the_call_and_the_coerced_arguments() -> None:
    seen: list[tuple[ToolCall, Values]] = []

    def gate(_context: Context, call: ToolCall, values: Values) -> None:
        seen.append((call, dict(values)))

    await result_of(double, {"number": "5"}, gate=gate)

    ((asked, values),) = seen
    assert (asked.id, asked.tool, asked.arguments) == ("call_1", "double", '{"number":"5"}')
    assert values == {"number": 5}


async def test_what_the_gate_rewrote_is_not_what_the_history_says_the_model_wrote() -> None:
    agent = agent_for(
        [call("double", number=5), "."],
        double,
        gate=lambda context, call, values: Rewrite({"number": 1}),
    )
    result = await agent.run("Go.")
    assert result.history[1].calls[0].arguments == '{"number":5}'


async def test_a_call_whose_gate_swallows_the_interrupt_is_not_run() -> None:
    times: list[str] = []

    async def gate(_context: Context, call: ToolCall, values: Values) -> None:
        run.interrupt()
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            return

    run = agent_for([call("shaky", works=True)], failing_tool(times), gate=gate).run("Go.")
    result = await run

    assert times == []
    assert outcomes(result.history) == ["interrupted"]


# --- the preview --------------------------------------------------------------------------------


def write_tool(preview: Callable[[Values], object], ran: list[str]) -> Tool:
    @tool(preview=preview)
    async def write(path: str) -> str:
        ran.append(path)
        return "written"

    return write


async def preview_later(values: Values) -> str:
    await asyncio.sleep(1)
    return f"+ {values['path']}"


@pytest.mark.parametrize("preview", [lambda values: f"+ {values['path']}", preview_later])
async def test_a_preview_is_shown_before_the_call_starts(
    preview: Callable[[Values], object],
) -> None:
    agent = agent_for([call("write", path="a.txt"), "."], write_tool(preview, []))

    events, _ = await watched(agent.run("Go."))

    shown = [e for e in events if isinstance(e, (ToolProgressed, ToolStarted, ToolFinished))]
    assert shown[0] == ToolProgressed("call_1", "write", "preview", "+ a.txt")
    assert [type(event) for event in shown] == [ToolProgressed, ToolStarted, ToolFinished]


@pytest.mark.parametrize("error", [FileNotFoundError("a.txt"), ToolFailed("no a.txt")])
async def test_a_preview_that_fails_is_shown_as_missing_and_the_call_runs(error: Exception) -> None:
    ran: list[str] = []

    def preview(values: Values) -> str:
        raise error

    agent = agent_for([call("write", path="a.txt"), "."], write_tool(preview, ran))
    events, result = await watched(agent.run("Go."))

    assert (outcomes(result.history), ran) == (["ok"], ["a.txt"])
    (shown,) = only(ToolProgressed, events)
    assert shown.what == "preview"
    assert shown.text.startswith("[There is no preview: ")
    assert "a.txt" in shown.text


async def test_a_person_is_asked_without_a_preview_where_it_fails() -> None:
    def preview(values: Values) -> str:
        raise ValueError("no idea")

    @tool(preview=preview, approval="ask")
    async def write(path: str) -> str:
        return "written"

    agent = agent_for([call("write", path="a.txt"), "Done."], write)
    asked = await agent.run("Go.")
    (action,) = asked.actions
    assert action.preview == "[There is no preview: ValueError: no idea]"
    done = await agent.run(history=asked.history, resolve={action.call.id: approve(action)})
    assert outcomes(done.history) == ["ok"]


async def test_a_preview_that_has_nothing_to_show_shows_nothing() -> None:
    agent = agent_for([call("write", path="a"), "."], write_tool(lambda values: None, []))
    events, _ = await watched(agent.run("Go."))
    assert only(ToolProgressed, events) == []


async def test_the_preview_is_of_what_the_gate_made_of_it() -> None:
    agent = agent_for(
        [call("write", path="a"), "."],
        write_tool(lambda values: str(values["path"]), []),
        gate=lambda context, call, values: Rewrite({"path": "b"}),
    )
    events, _ = await watched(agent.run("Go."))
    assert [event.text for event in only(ToolProgressed, events)] == ["b"]


# --- middleware ---------------------------------------------------------------------------------


def named(name: str, log: list[str]) -> Middleware:
    async def middleware(
        _context: Context, call: ToolCall, values: Values, proceed: Proceed
    ) -> object:
        log.append(f"{name} in")
        try:
            return await proceed()
        finally:
            log.append(f"{name} out")

    return middleware


async def test_the_first_middleware_is_the_outermost() -> None:
    log: list[str] = []
    made = await result_of(
        double, {"number": 1}, middleware=(named("outer", log), named("inner", log))
    )
    assert made.text == "2"
    assert log == ["outer in", "inner in", "inner out", "outer out"]


async def test_a_middleware_may_answer_in_place_of_the_tool() -> None:
    times: list[str] = []
    log: list[str] = []

    async def cache(_context: Context, call: ToolCall, values: Values, proceed: Proceed) -> object:
        return {"cached": values["works"]}

    made = await result_of(
        failing_tool(times), {"works": True}, middleware=(cache, named("inner", log))
    )

    assert (made.outcome, made.text) == ("ok", '{"cached":true}')
    assert times == log == []


async def test_a_middleware_may_change_the_value() -> None:
    async def shout(_context: Context, call: ToolCall, values: Values, proceed: Proceed) -> object:
        return f"{await proceed()}!"

    assert (await result_of(double, {"number": 1}, middleware=(shout,))).text == "2!"


async def test_a_middleware_may_catch_what_the_tool_raises() -> None:
    async def patient(
        _context: Context, call: ToolCall, values: Values, proceed: Proceed
    ) -> object:
        try:
            return await proceed()
        except OSError as error:
            return f"mended: {error}"

    made = await result_of(failing_tool([]), middleware=(patient,))
    assert (made.outcome, made.text) == ("ok", "mended: no disk")


async def test_a_middleware_that_raises_is_a_failure_of_the_call() -> None:
    async def broken(_context: Context, call: ToolCall, values: Values, proceed: Proceed) -> object:
        raise LookupError("the cache is gone")

    made = await result_of(double, {"number": 1}, middleware=(broken,))
    assert made.outcome == "failed"
    assert "the cache is gone" in made.text


async def test_a_middleware_cannot_set_an_argument() -> None:
    async def sly(_context: Context, call: ToolCall, values: Any, proceed: Proceed) -> object:
        try:
            values["number"] = 100
        except TypeError:
            return await proceed()
        return "it could"

    assert (await result_of(double, {"number": 1}, middleware=(sly,))).text == "2"


async def test_a_middleware_cannot_change_what_is_inside_an_argument() -> None:
    @tool
    async def send(to: list[str], data: dict[str, list[int]]) -> str:
        return f"{to} {data}"

    async def sly(_context: Context, call: ToolCall, values: Values, proceed: Proceed) -> object:
        values["to"].append("mallory")
        values["data"]["n"].clear()
        return await proceed()

    made = await result_of(send, {"to": ["bob"], "data": {"n": [1]}}, middleware=(sly,))
    assert made.text == "['bob'] {'n': [1]}"


async def test_every_middleware_sees_what_the_gate_made_of_the_arguments() -> None:
    seen: list[Values] = []

    async def look(_context: Context, call: ToolCall, values: Values, proceed: Proceed) -> object:
        seen.append(dict(values))
        return await proceed()

    gate = gated(lambda: Rewrite({"number": 3}), "sync")
    await result_of(double, {"number": 1}, gate=gate, middleware=(look, look))
    assert seen == [{"number": 3}] * 2


# --- the whole way ------------------------------------------------------------------------------

STATIONS = (
    "parallel",
    "validate",
    "gate",
    "preview",
    "approval",
    "middleware",
    "run",
    "stop_after",
)


def walked(log: list[str], fails_at: str | None) -> dict[str, Any]:
    """A tool and an agent's hooks that note each station; one of them may raise."""

    def at(station: str, value: Any) -> Any:
        log.append(station)
        if station == fails_at:
            raise RuntimeError(f"broken at {station}")
        return value

    async def middleware(
        _context: Context, call: ToolCall, values: Values, proceed: Proceed
    ) -> object:
        at("middleware", None)
        return await proceed()

    @tool(
        parallel=lambda values: bool(at("parallel", True)),
        validate=lambda values: at("validate", None),
        preview=lambda values: at("preview", "a diff"),
        approval=lambda values: bool(at("approval", False)),
        stop_after=lambda result: bool(at("stop_after", False)),
    )
    async def walk() -> str:
        return str(at("run", "there"))

    return {
        "tool": walk,
        "gate": lambda context, call, values: at("gate", None),
        "middleware": (middleware,),
    }


async def test_a_call_passes_its_stations_in_order() -> None:
    log: list[str] = []
    assert (await result_of(**walked(log, None))).outcome == "ok"
    assert tuple(log) == STATIONS


@pytest.mark.parametrize("station", sorted({*STATIONS[1:-1]} - {"preview"}))
async def test_a_station_that_raises_ends_the_way_there_with_a_result(station: str) -> None:
    log: list[str] = []

    made = await result_of(**walked(log, station))

    assert made.outcome == ("refused" if station == "gate" else "failed")
    assert f"broken at {station}" in made.text
    assert tuple(log) == STATIONS[: STATIONS.index(station) + 1]


@pytest.mark.parametrize("station", ["parallel", "stop_after"])
async def test_a_property_that_raises_does_not_stop_the_call(station: str) -> None:
    assert (await result_of(**walked([], station))).outcome == "ok"


@pytest.mark.parametrize("station", sorted({*STATIONS[1:-1]} - {"preview"}))
async def test_a_failure_on_the_way_reaches_the_model_and_the_run_goes_on(station: str) -> None:
    hooks = walked([], station)
    walk = hooks.pop("tool")
    model = ScriptedModel([call("walk"), "I see."])
    agent = agent_for([], walk, **hooks).replace(model=model)

    result = await agent.run("Go.")

    assert result.text == "I see."
    (told,) = model.requests[1].messages[-1].results
    assert f"broken at {station}" in told.text


# --- how a call starts and ends for people ------------------------------------------------------


async def test_a_call_is_shown_with_its_label_and_what_it_says_about_its_arguments() -> None:
    def label_of(**properties: Any) -> Tool:
        return tool(effect="pure", name="double", **properties)(_double)

    async def shown(one: Tool) -> str:
        events, _ = await watched(agent_for([call("double", number=3), "."], one).run("Go."))
        (started,) = only(ToolStarted, events)
        return started.label

    def broken(values: Values) -> str:
        raise KeyError("x")

    assert await shown(label_of()) == "double"
    assert await shown(label_of(label="Doubling")) == "Doubling"
    assert await shown(label_of(describe=lambda values: f"2 × {values['number']}")) == "2 × 3"
    assert await shown(label_of(label="Doubling", describe=broken)) == "Doubling"


async def test_a_call_that_never_started_is_shown_as_finished_all_the_same() -> None:
    agent = agent_for([[call("nothing"), call("double")], "."], double)
    events, _ = await watched(agent.run("Go."))
    ends = [(e.result.call_id, e.result.outcome, e.seconds) for e in only(ToolFinished, events)]
    assert ends == [("call_1", "refused", 0.0), ("call_2", "failed", 0.0)]
    assert only(ToolStarted, events) == []


async def test_a_finished_call_says_how_long_it_took() -> None:
    @tool
    async def slow() -> None:
        await asyncio.sleep(3)

    events, _ = await watched(agent_for([call("slow"), "."], slow).run("Go."))
    (event,) = only(ToolFinished, events)
    assert event.seconds == 3


async def test_a_tool_may_know_its_call_and_its_deadline() -> None:
    seen: list[ToolContext] = []

    @tool(timeout=30)
    async def look(context: ToolContext, what: str) -> str:
        seen.append(context)
        return what

    @tool
    async def patient(context: ToolContext) -> None:
        seen.append(context)

    agent = agent_for([[call("look", what="x"), call("patient")], "."], look, patient)
    result = await agent.run("Go.")

    assert outcomes(result.history) == ["ok", "ok"]
    limited, unlimited = seen
    assert (limited.call_id, limited.deadline) == ("call_1", 30)
    assert (unlimited.call_id, unlimited.deadline) == ("call_2", None)
    assert limited.chat is limited.workspace is None


# --- the outcomes -------------------------------------------------------------------------------


@pytest.mark.parametrize("outcome", get_args(ToolOutcome))
async def test_a_tool_may_say_itself_what_the_outcome_is(outcome: ToolOutcome) -> None:
    @tool(stop_after=True)
    async def judge() -> ToolResult:
        return ToolResult("somebody's", "other", (Text("verdict"),), outcome, stops=True)

    result = await agent_for([call("judge"), "."], judge).run("Go.")

    (made,) = results_in(result.history)
    assert (made.call_id, made.tool) == ("call_1", "judge")
    assert (made.outcome, made.text) == (outcome, "verdict")
    assert made.stops == (outcome == "ok")


async def test_failures_and_timeouts_are_counted_as_errors_of_the_run() -> None:
    @tool(timeout=1)
    async def slow() -> None:
        await asyncio.sleep(60)

    script = [[call("shaky"), call("slow"), call("nothing"), call("double", number=1)], "."]
    result = await agent_for(script, failing_tool([]), slow, double).run("Go.")
    assert outcomes(result.history) == ["failed", "timed_out", "refused", "ok"]
    assert (result.summary.tool_calls, result.summary.tool_errors) == (4, 2)


async def test_the_traceback_of_a_tool_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    @tool
    async def stumble() -> str:
        """Fail."""
        raise KeyError("missing")

    caplog.set_level("INFO", "holdfast")
    assert (await result_of(stumble, {})).text == "stumble failed: KeyError: 'missing'"
    (record,) = caplog.records
    assert record.getMessage() == "stumble failed"
    assert record.exc_info is not None
    assert record.exc_info[0] is KeyError


async def test_a_tool_may_say_in_its_own_words_why_it_failed() -> None:
    @tool
    async def read(path: str) -> str:
        raise ToolFailed(f"{path} is not there")

    agent = agent_for([call("read", path="a.txt"), "Oh."], read)

    (made,) = results_in((await agent.run("Go.")).history)
    assert (made.outcome, made.text) == ("failed", "read failed: a.txt is not there")


async def test_a_tool_that_lists_agents_is_told_that_a_run_in_memory_has_none() -> None:
    @tool(effect="pure")
    async def look(context: ToolContext) -> object:
        return await context.children()

    made = await result_of(look)
    assert made.outcome == "failed"
    assert "only a durable chat has them" in made.text


# --- times --------------------------------------------------------------------------------------


async def test_a_result_says_when_its_call_ran() -> None:
    @tool(effect="pure", timeout=4)
    async def nap(seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "rested"

    clock = Clock()
    began = clock.now()
    agent = agent_for([[call("nap", seconds=2.5), call("nap", seconds=9), call("nap")], "."], nap)
    run = await agent.replace(ports=ports(clock=clock)).run("Go.")
    slept, late, invalid = results_in(run.history)
    assert (slept.started_at, slept.finished_at) == (began, began + 2_500_000)
    assert (late.outcome, late.started_at, late.seconds) == ("timed_out", began, 4.0)
    assert (invalid.outcome, invalid.started_at, invalid.finished_at) == ("failed", None, None)


async def test_an_interrupted_answer_says_how_long_its_attempt_took() -> None:
    agent = agent_for([["Well", pause(60), "?"]])
    run = agent.run("Go.")
    async for event in run:
        if isinstance(event, TextDelta):
            await asyncio.sleep(2)
            run.interrupt()
    assert [message.runtime for message in run.history if message.kind == "answer"] == [2_000]


# --- structured progress ------------------------------------------------------------------------


@pytest.mark.parametrize("in_thread", [False, True])
async def test_progress_may_have_a_json_value_beside_its_text(in_thread: bool) -> None:
    found = {"done": [1, "\ud800"]}

    if in_thread:

        @tool(name="work", effect="pure")
        def work(context: ToolContext) -> str:
            context.progress("one", found)
            found["done"] = []
            context.progress(data=2)
            return "done"
    else:

        @tool(name="work", effect="pure")
        async def work(context: ToolContext) -> str:
            await context.progress("one", found)
            found["done"] = []
            await context.progress(data=2)
            return "done"

    events, run = await watched(agent_for([call("work"), "."], work).run("Go."))
    assert outcomes(run.history) == ["ok"]
    reports = [(event.text, event.data) for event in only(ToolProgressed, events)]
    assert reports == [("one", {"done": [1, "\ud800"]}), ("", 2)]


async def test_progress_data_that_is_not_json_fails_the_call_and_says_why() -> None:
    @tool(effect="pure")
    async def work(context: ToolContext) -> str:
        await context.progress("one", object())
        return "done"

    made = await result_of(work, {})
    assert made.outcome == "failed"
    assert "the data of a progress report is not JSON" in made.text


async def test_progress_data_that_is_too_long_is_left_out_with_a_warning() -> None:
    @tool(effect="pure")
    async def work(context: ToolContext) -> str:
        await context.progress("one", "x" * 1_000_000)
        return "done"

    events, run = await watched(agent_for([call("work"), "."], work).run("Go."))
    assert outcomes(run.history) == ["ok"]
    assert [(event.text, event.data) for event in only(ToolProgressed, events)] == [("one", None)]
    (warning,) = only(Warned, events)
    assert "not shown: report at most" in warning.text
