from __future__ import annotations

import traceback

import anyio
import pytest

from holdfast import Agent, tool
from holdfast.errors import RunFailed
from holdfast.kernel.errors import ProviderError
from holdfast.kernel.messages import File, Source, Usage, user_message
from holdfast.kernel.model import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    Delta,
    Finished,
    Model,
    Notice,
    PartAdded,
    PartEnded,
    Ping,
    ReasoningDelta,
    Request,
    TextDelta,
)
from holdfast.testing import (
    ScriptedModel,
    ScriptEnded,
    call,
    call_raw,
    cut,
    fail,
    file,
    finish,
    hang,
    notice,
    pause,
    ping,
    say,
    source,
    think,
    usage,
)


def ask(text: str = "Hello?") -> Request:
    return Request(messages=(user_message(text),))


async def played(model: Model, request: Request | None = None) -> list[Delta]:
    return [delta async for delta in model.stream(request or ask())]


async def test_each_call_plays_the_next_turn() -> None:
    model = ScriptedModel([say("one"), say("two")])
    assert await played(model) == [TextDelta("one"), Finished("stop")]
    assert model.left == 1
    assert await played(model) == [TextDelta("two"), Finished("stop")]
    assert model.left == 0


async def test_every_request_is_recorded() -> None:
    model = ScriptedModel(["one", fail(status=500)])
    await played(model, ask("first"))
    with pytest.raises(ProviderError):
        await played(model, ask("second"))
    assert [request.messages[-1].text for request in model.requests] == ["first", "second"]


async def test_a_string_is_short_for_what_the_model_says() -> None:
    assert await played(ScriptedModel(["Hi"])) == await played(ScriptedModel([say("Hi")]))
    assert await played(ScriptedModel("Hi")) == await played(ScriptedModel([["Hi"]]))


async def test_text_comes_in_as_many_pieces_as_asked_for() -> None:
    model = ScriptedModel([say("abcde", chunks=3), say("ab", chunks=9), say("", chunks=2)])
    for pieces in ["ab", "cd", "e"], ["a", "b"], [""]:
        assert (await played(model))[:-1] == [TextDelta(piece) for piece in pieces]


async def test_a_call_streams_its_arguments_and_ends_the_turn_for_tool_calls() -> None:
    assert await played(ScriptedModel([call("weather", city="Oslo")])) == [
        CallStarted("call_1", "weather"),
        ArgumentsDelta("call_1", '{"city":'),
        ArgumentsDelta("call_1", '"Oslo"}'),
        CallEnded("call_1"),
        Finished("tool_calls"),
    ]


async def test_call_ids_count_through_the_script_in_the_order_played() -> None:
    model = ScriptedModel(
        [
            [call("a"), call("b")],
            lambda request: [call("c")],
            [call("d"), call_raw("e", "{}", id="mine"), call("f")],
        ],
        default=call("again"),
    )
    ids = [
        [delta.call_id for delta in await played(model) if isinstance(delta, CallStarted)]
        for _ in range(5)
    ]
    assert ids == [
        ["call_1", "call_2"],
        ["call_3"],
        ["call_4", "mine", "call_5"],
        ["call_6"],
        ["call_7"],
    ]


async def test_a_raw_call_may_be_wrong_in_every_way() -> None:
    turn = [
        call_raw("t", '{"city": ', id="same", chunks=1),
        call_raw("t", "", id="same"),
        call_raw("t", "{}", id="", chunks=1, ended=False),
    ]
    assert await played(ScriptedModel([turn])) == [
        CallStarted("same", "t"),
        ArgumentsDelta("same", '{"city": '),
        CallEnded("same"),
        CallStarted("same", "t"),
        CallEnded("same"),
        CallStarted("", "t"),
        ArgumentsDelta("", "{}"),
        Finished("tool_calls"),
    ]


async def test_a_call_that_the_provider_executes_does_not_ask_for_tools() -> None:
    deltas = await played(ScriptedModel([call_raw("search", "{}", provider_executed=True)]))
    assert deltas[0] == CallStarted("call_1", "search", True)
    assert deltas[-1] == Finished("stop")


async def test_reasoning_is_a_part_with_its_signature() -> None:
    assert await played(ScriptedModel([[think("Hm.", signature="s1"), think("So.")]])) == [
        ReasoningDelta("Hm."),
        PartEnded("s1"),
        ReasoningDelta("So."),
        PartEnded(),
        Finished("stop"),
    ]


async def test_whole_parts_notices_and_pings_are_passed_on() -> None:
    turn = [ping(), source("https://a.example", "A"), file("image/png", b"x", "x.png"), notice("!")]
    assert await played(ScriptedModel([turn])) == [
        Ping(),
        PartAdded(Source("https://a.example", "A")),
        PartAdded(File("image/png", "x.png", b"x")),
        Notice("!"),
        Finished("stop"),
    ]


async def test_usage_and_finish_decide_how_the_turn_ends() -> None:
    model = ScriptedModel(
        [[usage(input=7, output=2), "a"], ["b", finish("length", window=9), usage(input=1)]]
    )
    assert (await played(model))[-1] == Finished("stop", Usage(input=7, output=2))
    assert (await played(model))[-1] == Finished("length", Usage(input=1), window=9)


async def test_deltas_are_played_as_they_are_also_in_a_wrong_order() -> None:
    deltas: list[Delta] = [CallEnded("nobody"), Finished("stop"), TextDelta("late")]
    assert await played(ScriptedModel([deltas])) == deltas


async def test_lists_may_stand_inside_lists() -> None:
    deltas = await played(ScriptedModel([[["a", ["b"]], "c"]]))
    assert deltas[:-1] == [TextDelta("a"), TextDelta("b"), TextDelta("c")]


async def test_a_failure_is_raised_where_it_stands() -> None:
    error = ConnectionResetError()
    model = ScriptedModel([["half", fail(error)], fail("slow down", status=429, retry_after=3)])
    stream = model.stream(ask())
    assert await anext(stream) == TextDelta("half")
    with pytest.raises(ConnectionResetError) as caught:
        await anext(stream)
    assert caught.value is error

    with pytest.raises(ProviderError, match="slow down") as refused:
        await played(model)
    assert (refused.value.kind, refused.value.retry_after) == ("rate_limit", 3)


async def test_a_cut_stream_ends_without_saying_so() -> None:
    assert await played(ScriptedModel([["half", cut()]])) == [TextDelta("half")]


def test_nothing_can_follow_a_cut() -> None:
    with pytest.raises(ValueError, match="nothing can follow"):
        ScriptedModel([[cut(), "more"]])


async def test_a_pause_takes_virtual_time() -> None:
    began = anyio.current_time()
    await played(ScriptedModel([["a", pause(3_600), "b"]]))
    assert anyio.current_time() - began == pytest.approx(3_600)


async def test_a_hanging_stream_can_be_cancelled() -> None:
    seen = []
    with anyio.move_on_after(5) as scope:
        async for delta in ScriptedModel([["half", hang()]]).stream(ask()):
            seen.append(delta)
    assert scope.cancelled_caught
    assert seen == [TextDelta("half")]


async def test_an_event_holds_the_stream_until_it_is_set() -> None:
    go = anyio.Event()
    seen: list[Delta] = []

    async def read() -> None:
        async for delta in ScriptedModel([["a", go, "b"]]).stream(ask()):
            seen.append(delta)

    async with anyio.create_task_group() as group:
        group.start_soon(read)
        await anyio.sleep(1)
        assert seen == [TextDelta("a")]
        go.set()
    assert seen[1] == TextDelta("b")


def test_an_event_made_before_the_loop_runs_is_accepted() -> None:
    ScriptedModel([anyio.Event()])


async def test_a_function_in_a_turn_is_called_when_the_stream_gets_there() -> None:
    happened: list[object] = []

    async def later(request: Request) -> None:
        await anyio.sleep(1)
        happened.append("later")

    model = ScriptedModel([["a", happened.append, "b", later]])
    request = ask()
    async for delta in model.stream(request):
        happened.append(delta)
    assert happened == [TextDelta("a"), request, TextDelta("b"), "later", Finished("stop")]


async def test_a_cancellation_made_by_a_function_takes_effect_right_there() -> None:
    seen = []
    with anyio.CancelScope() as scope:
        async for delta in ScriptedModel([["a", lambda _: scope.cancel(), "b"]]).stream(ask()):
            seen.append(delta)
    assert seen == [TextDelta("a")]


async def test_a_turn_may_be_a_function_of_the_request() -> None:
    model = ScriptedModel([lambda request: f"You said {request.messages[-1].text}"])
    assert (await played(model, ask("hi")))[0] == TextDelta("You said hi")


async def test_a_function_that_returns_no_turn_is_pointed_out() -> None:
    with pytest.raises(TypeError, match="put it into a list"):
        await played(ScriptedModel([lambda request: None]))


async def test_a_script_that_ended_says_how_many_turns_it_had() -> None:
    model = ScriptedModel(["one", "two"])
    await played(model)
    await played(model)
    with pytest.raises(ScriptEnded, match=r"2 turns.*once more.*user:\nthird$"):
        await played(model, ask("third"))


async def test_a_script_that_ended_is_one_short_error_with_the_end_of_the_last_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent = Agent(ScriptedModel(["1"]), output=dict[str, list[int]], instructions="x" * 1000)
    with pytest.raises(RunFailed) as caught:
        await agent.run("?")
    shown = "".join(traceback.format_exception(caught.value.__cause__))
    assert isinstance(caught.value.__cause__, ScriptEnded)
    assert "the answer: should be an object, got 1" in shown
    assert "Traceback" not in shown
    assert str(caught.value).count("the script has 1 turn") == 1
    assert all(record.exc_info is None for record in caplog.records)


async def test_of_a_tool_result_a_script_that_ended_quotes_the_end() -> None:
    @tool
    async def read() -> str:
        """Read."""
        return "a" * 1000 + "the end"

    with pytest.raises(RunFailed, match=r"of the tool:\n…a+the end$"):
        await Agent(ScriptedModel([call("read")]), tools=[read]).run("?")


async def test_the_default_turn_is_played_when_the_script_has_ended() -> None:
    model = ScriptedModel(["one"], default="more")
    assert [(await played(model))[0] for _ in range(3)] == [
        TextDelta("one"),
        TextDelta("more"),
        TextDelta("more"),
    ]


def test_what_is_no_item_is_refused_when_the_script_is_written() -> None:
    with pytest.raises(TypeError, match="not an item"):
        ScriptedModel([[42]])  # type: ignore[list-item]
