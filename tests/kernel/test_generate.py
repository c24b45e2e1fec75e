from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Final

import anyio
import anyio.lowlevel
import pytest

from holdfast import Agent, Run, RunResult, tool
from holdfast.errors import RunFailed
from holdfast.kernel.errors import FailureKind, ProviderError
from holdfast.kernel.events import (
    Compacted,
    Event,
    MessageCommitted,
    Retrying,
    RunEnded,
    StepStarted,
    ToolFinished,
    ToolStarted,
    Warned,
)
from holdfast.kernel.messages import Reasoning, Usage
from holdfast.kernel.model import (
    Delta,
    Finished,
    Model,
    Opened,
    PartEnded,
    Ping,
    ReasoningDelta,
    Request,
    TextDelta,
)
from holdfast.options import ContextLimits, Policy, Retry, Stream
from holdfast.testing import (
    ScriptedModel,
    ScriptItem,
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
    ports,
    say,
    source,
    think,
    usage,
)
from tests.kernel.runs import scripted

ONCE: Final = Retry(attempts=1)
AT_ONCE: Final = Retry(first_delay=0)
LIMITS: Final = Stream()
CONTEXT: Final = ContextLimits()
Streaming = Callable[[Request], AsyncIterator[Delta]]


class Streams:
    """A model whose every stream is the test's own. Notes which of them were closed, and when."""

    def __init__(self, *streams: Streaming) -> None:
        self.name = "scripted:model"
        self.window = None
        self.requests: list[Request] = []
        self.closed: list[float] = []
        self._streams = streams

    def stream(self, request: Request) -> AsyncIterator[Delta]:
        self.requests.append(request)
        return self._watched(self._streams[len(self.requests) - 1], request)

    async def _watched(self, stream: Streaming, request: Request) -> AsyncIterator[Delta]:
        try:
            async for delta in stream(request):
                yield delta
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()  # letting go of a connection may take a moment
            self.closed.append(now())


async def answers(request: Request) -> AsyncIterator[Delta]:
    yield TextDelta("Here.")
    yield Finished()


def now() -> float:
    return asyncio.get_running_loop().time()


def policy(
    *,
    retry: Retry = AT_ONCE,
    stream: Stream = LIMITS,
    context: ContextLimits = CONTEXT,
    buffer: int = 64,
) -> Policy:
    return Policy(retry=retry, stream=stream, context=context, buffer=buffer)


PATIENT: Final = policy()
IMPATIENT: Final = policy(retry=ONCE)


async def happened(model: Model, policy: Policy = PATIENT) -> list[Event]:
    agent = Agent(model=model, policy=policy, ports=ports())
    return [event async for event in agent.run("Hello?")]


async def failed(model: Model, policy: Policy = IMPATIENT) -> RunResult:
    with pytest.raises(RunFailed) as caught:
        await Agent(model=model, policy=policy, ports=ports()).run("Hello?")
    return caught.value.result


def kinds(events: Sequence[Event]) -> list[FailureKind]:
    return [event.kind for event in events if isinstance(event, Retrying)]


def kind(result: RunResult) -> FailureKind:
    assert result.failure is not None
    return result.failure.kind


def answer(events: Sequence[Event]) -> str:
    end = events[-1]
    assert isinstance(end, RunEnded)
    assert end.reason == "stop"
    committed = [event.message for event in events if isinstance(event, MessageCommitted)]
    return committed[-1].text


# --- Silence ------------------------------------------------------------------------------------


async def test_a_model_that_says_nothing_for_a_minute_is_asked_again() -> None:
    events = await happened(ScriptedModel([hang(), "Here."]))
    assert kinds(events) == ["stream_silent"]
    assert answer(events) == "Here."
    assert now() == 60


async def test_a_first_event_just_before_the_minute_is_over_is_in_time() -> None:
    events = await happened(ScriptedModel([[pause(59.999), "Here."]]))
    assert kinds(events) == []
    assert answer(events) == "Here."


async def test_a_model_that_says_nothing_more_for_ten_minutes_is_asked_again() -> None:
    events = await happened(ScriptedModel([["Well,", hang()], "Here."]))
    assert kinds(events) == ["stream_silent"]
    assert now() == 600


async def test_silence_between_events_counts_from_the_last_of_them() -> None:
    script = [[pause(50), "a", pause(599), "b", pause(599), "c", hang()], "Here."]
    events = await happened(ScriptedModel(script))
    assert kinds(events) == ["stream_silent"]
    assert now() == 50 + 599 + 599 + 600


@pytest.mark.parametrize(
    "sign",
    [
        ping(),
        say(""),
        think("hm"),
        call_raw("look", "{}", ended=False),
        source("https://example.org"),
    ],
)
async def test_any_event_of_the_provider_shows_that_it_is_alive(sign: ScriptItem) -> None:
    script = [[pause(59), sign, *[[pause(599), ping()]] * 2, pause(599), "Here."]]
    events = await happened(ScriptedModel(script))
    assert kinds(events) == []
    assert now() == 59 + 3 * 599


async def test_a_stream_that_only_pings_is_ended_after_half_an_hour_without_content() -> None:
    events = await happened(ScriptedModel([[*[[pause(50), ping()]] * 60], "Here."]))
    assert kinds(events) == ["stream_silent"]
    assert answer(events) == "Here."
    assert now() == pytest.approx(50 + 1_800)


async def test_content_ends_the_time_without_it() -> None:
    pings = [[pause(50), ping()]] * 30
    events = await happened(ScriptedModel([[*pings, "a", *pings, think("b"), *pings, "c"]]))
    assert kinds(events) == []
    assert now() == 3 * 30 * 50


async def test_the_bound_without_content_can_be_set_below_the_others() -> None:
    limits = Stream(first_event=60, between_events=600, without_content=20)
    script = [hang(), [*[[pause(3), ping()]] * 9], ["a", *[[pause(3), ping()]] * 9], "Here."]
    events = await happened(ScriptedModel(script), policy(stream=limits))
    assert kinds(events) == ["stream_silent"] * 3
    assert now() == pytest.approx(20 + 23 + 20)
    last = [event for event in events if isinstance(event, Retrying)][-1]
    assert "no content for 20 s" in last.detail


async def test_a_slow_reader_is_not_a_stream_without_content() -> None:
    limits = Stream(without_content=5)
    agent = Agent(
        model=ScriptedModel([[*["x"] * 20, pause(4), "end"]]),
        policy=policy(retry=ONCE, stream=limits, buffer=1),
        ports=ports(),
    )
    read: list[Event] = []
    async for event in agent.run("Hello?"):
        await anyio.sleep(2)
        read.append(event)
    assert kinds(read) == []
    assert answer(read) == "x" * 20 + "end"


@pytest.mark.parametrize(
    ("before", "seconds"), [([], 60), ([pause(30)], 60), ([ping(), pause(30)], 600)]
)
async def test_a_notice_does_not_show_that_the_provider_is_alive(
    before: list[ScriptItem], seconds: int
) -> None:
    model = ScriptedModel([[*before, notice("no images here"), hang()], "Here."])
    events = await happened(model)
    assert kinds(events) == ["stream_silent"]
    assert now() == seconds


async def test_a_notice_is_not_the_first_delta_of_an_answer() -> None:
    events = await happened(ScriptedModel([[notice("no images"), pause(2), "Here."]]))
    (*_, committed) = [event for event in events if isinstance(event, MessageCommitted)]
    assert committed.first_delta == 2


async def test_that_a_model_is_about_to_be_asked_does_not_show_that_it_is_alive() -> None:
    model = ScriptedModel([[Opened("scripted:model"), hang()], "Here."])
    events = await happened(model)
    assert kinds(events) == ["stream_silent"]
    assert now() == 60


async def test_the_sentence_names_the_model_that_went_silent() -> None:
    result = await failed(ScriptedModel([[Opened("acme:two"), hang()]]))
    assert result.failure is not None
    assert result.failure.message == "acme:two stopped sending."
    assert "60 s" in result.failure.detail


async def test_both_limits_of_silence_can_be_set() -> None:
    limits = Stream(first_event=5, between_events=20)
    script = [hang(), ["a", hang()], [pause(4.9), "b", pause(19.9), "c"]]
    events = await happened(ScriptedModel(script), policy(stream=limits))
    assert kinds(events) == ["stream_silent", "stream_silent"]
    assert answer(events) == "bc"
    assert now() == pytest.approx(5 + 20 + 4.9 + 19.9)


async def test_silence_between_events_may_be_shorter_than_before_the_first() -> None:
    limits = Stream(first_event=60, between_events=5)
    events = await happened(ScriptedModel([["a", hang()], "Here."]), policy(stream=limits))
    assert kinds(events) == ["stream_silent"]
    assert now() == 5


async def test_a_slow_reader_is_not_the_silence_of_the_provider() -> None:
    limits = Stream(first_event=5, between_events=5)
    agent = Agent(
        model=ScriptedModel([say("abcdefgh", chunks=8)]),
        policy=policy(stream=limits, buffer=1),
        ports=ports(),
    )
    events = []
    async for event in agent.run("Hello?"):
        await anyio.sleep(60)
        events.append(event)
    assert kinds(events) == []
    assert answer(events) == "abcdefgh"


async def test_silence_after_a_slow_reader_is_still_the_silence_of_the_provider() -> None:
    limits = Stream(first_event=5, between_events=5)
    agent = Agent(
        model=ScriptedModel([[say("abcd", chunks=4), hang()], "Here."]),
        policy=policy(stream=limits, buffer=1),
        ports=ports(),
    )
    events = []
    async for event in agent.run("Hello?"):
        await anyio.sleep(7)
        events.append(event)
    assert kinds(events) == ["stream_silent"]
    assert answer(events) == "Here."


@pytest.mark.parametrize("steps", [1, 2, 3, 6])
@pytest.mark.parametrize("rest", [[], [pause(1)], [hang()]])
async def test_when_timer_and_stream_meet_exactly_one_of_them_wins(
    steps: int, rest: list[ScriptItem]
) -> None:
    """The first event comes at the very instant at which the silence has lasted too long."""
    script = [[*[pause(60 / steps)] * steps, "first", *rest], "second"]
    model = ScriptedModel(script)
    events = await happened(model)
    if kinds(events):
        assert kinds(events) == ["stream_silent"]
        assert answer(events) == "second"
        assert len(model.requests) == 2
    else:
        assert answer(events) == "first"
        assert len(model.requests) == 1


async def test_a_timer_that_fired_once_does_not_end_the_next_attempt() -> None:
    events = await happened(ScriptedModel([hang(), [pause(59), "a", pause(599), "b"]]))
    assert kinds(events) == ["stream_silent"]
    assert answer(events) == "ab"


async def test_each_step_has_a_silence_of_its_own() -> None:
    @tool(effect="pure")
    async def look() -> str:
        """Look."""
        await anyio.sleep(3_000)
        return "nothing"

    model = ScriptedModel([[pause(59), call("look")], [pause(59), "Here."]])
    agent = Agent(model=model, tools=[look], policy=policy(), ports=ports())
    events = [event async for event in agent.run("Hello?")]
    assert kinds(events) == []
    assert answer(events) == "Here."


async def test_a_tool_that_runs_is_not_the_silence_of_the_provider() -> None:
    """Eager calls run while the stream goes on; what they take is their own affair."""

    @tool(effect="pure")
    async def look() -> str:
        """Look."""
        await anyio.sleep(3_000)
        return "nothing"

    model = ScriptedModel([[call("look"), pause(1)], "Here."])
    agent = Agent(model=model, tools=[look], policy=policy(), ports=ports())
    assert (await agent.run("Hello?")).text == "Here."
    assert len(model.requests) == 2


# --- A model that does not take our cancellation as it should -----------------------------------


async def turns_it_into_an_error(request: Request) -> AsyncIterator[Delta]:
    yield TextDelta("half")
    try:
        await anyio.sleep_forever()
    except BaseException:
        raise ProviderError("bad key", status=401) from None


async def ends_silently(request: Request) -> AsyncIterator[Delta]:
    yield TextDelta("half")
    try:
        await anyio.sleep_forever()
    except BaseException:
        return


async def goes_on_talking(request: Request) -> AsyncIterator[Delta]:
    yield TextDelta("half")
    while True:
        try:
            await anyio.sleep_forever()
        except BaseException:
            yield TextDelta(" and half")


DISOBEDIENT = [turns_it_into_an_error, ends_silently, goes_on_talking]


@pytest.mark.parametrize("stream", DISOBEDIENT)
async def test_silence_is_silence_whatever_the_model_makes_of_being_stopped(
    stream: Streaming,
) -> None:
    model = Streams(stream, answers)
    events = await happened(model)
    assert kinds(events) == ["stream_silent"]
    assert answer(events) == "Here."
    assert len([event for event in events if isinstance(event, TextDelta)]) <= 3


@pytest.mark.parametrize("stream", DISOBEDIENT)
async def test_an_interrupt_is_one_whatever_the_model_makes_of_being_stopped(
    stream: Streaming,
) -> None:
    result = await interrupted_after(1, Streams(stream))
    assert result.reason == "interrupted"
    assert result.failure is None
    assert result.history[1].text.startswith("half")
    assert result.history[1].finish == "interrupted"
    assert now() < 10


@pytest.mark.parametrize("stream", DISOBEDIENT)
async def test_closing_the_run_ends_it_whatever_the_model_makes_of_being_stopped(
    stream: Streaming,
) -> None:
    model = Streams(stream)
    run = Agent(model=model, ports=ports()).run("Hello?")
    async with run:
        async for event in run:
            if isinstance(event, TextDelta):
                break
    assert len(model.requests) == 1
    assert now() < 10


async def interrupted_after(seconds: float, model: Model) -> RunResult:
    run: Run = Agent(model=model, policy=PATIENT, ports=ports()).run("Hello?")
    asyncio.get_running_loop().call_later(seconds, run.interrupt)
    return await run


# --- Streams that end as they should not --------------------------------------------------------


@pytest.mark.parametrize(
    "half",
    [
        [],
        ["half an answer"],
        [think("hm"), "half"],
        [call("look")],
        ["text and", call_raw("look", "{", ended=False)],
        [ping()],
    ],
)
async def test_a_stream_that_ends_without_its_last_event_is_never_an_answer(
    half: list[ScriptItem],
) -> None:
    model = ScriptedModel([[*half, cut()], "Here."])
    events = await happened(model)
    assert kinds(events) == ["stream_cut"]
    assert answer(events) == "Here."
    committed = [event.message for event in events if isinstance(event, MessageCommitted)]
    assert [message.text for message in committed] == ["Hello?", "Here."]


@pytest.mark.parametrize(
    "nothing",
    [
        [],
        [say("")],
        [say(" \n\t ")],
        [think("I wonder")],
        [think("", signature="abc")],
        [ping(), notice("nothing to say")],
        [finish("stop")],
        [finish("tool_calls")],
        [finish("length")],
        [think("so long"), finish("length")],
    ],
)
async def test_an_answer_without_text_or_call_is_tried_again(nothing: list[ScriptItem]) -> None:
    events = await happened(ScriptedModel([nothing, "Here."]))
    assert kinds(events) == ["empty_response"]
    assert answer(events) == "Here."


async def test_an_answer_that_stays_empty_is_an_error_and_not_a_silent_end() -> None:
    result = await failed(
        ScriptedModel([], default=[]), policy(retry=Retry(attempts=3, first_delay=0))
    )
    assert kind(result) == "empty_response"
    assert [message.text for message in result.history] == ["Hello?"]


@pytest.mark.parametrize(
    "something",
    [
        [say("x")],
        [source("https://example.org")],
        [file("image/png", b"png")],
        [think("hm"), say("x")],
    ],
)
async def test_an_answer_with_anything_to_see_is_one(something: list[ScriptItem]) -> None:
    model = ScriptedModel([something])
    result = await Agent(model=model).run("Hello?")
    assert result.reason == "stop"
    assert len(model.requests) == 1


@pytest.mark.parametrize("hidden", [[], [say("  ")], [think("should I?")]])
async def test_a_content_filter_that_leaves_nothing_visible_is_terminal(
    hidden: list[ScriptItem],
) -> None:
    model = ScriptedModel([[*hidden, finish("content_filter")], "never asked"])
    result = await failed(model, policy())
    assert kind(result) == "content_filter"
    assert len(model.requests) == 1


async def test_a_content_filter_with_visible_output_keeps_the_output() -> None:
    model = ScriptedModel([["So far", finish("content_filter")], "never asked"])
    result = await Agent(model=model).run("Hello?")
    assert result.reason == "stop"
    assert result.text == "So far"
    assert result.history[-1].finish == "content_filter"
    assert len(model.requests) == 1


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConnectionResetError("gone"), "network"),
        (ProviderError("busy", status=529), "overloaded"),
        (ProviderError("bad key", status=401), "auth"),
        (ValueError("a bug"), "internal"),
    ],
)
async def test_a_model_may_fail_at_any_point_of_its_stream(
    error: Exception, expected: FailureKind
) -> None:
    def at_once(request: Request) -> AsyncIterator[Delta]:
        raise error

    async def before_anything(request: Request) -> AsyncIterator[Delta]:
        await anyio.lowlevel.checkpoint()
        raise error
        yield Ping()

    async def half_way(request: Request) -> AsyncIterator[Delta]:
        yield TextDelta("half")
        raise error

    for stream in (at_once, before_anything, half_way):
        assert kind(await failed(Raising(stream))) == expected


async def test_a_model_that_finishes_with_an_error_is_asked_again() -> None:
    events = await happened(ScriptedModel([["Hal", finish("error")], "Here."]))
    assert kinds(events) == ["server"]
    assert answer(events) == "Here."


async def test_a_model_that_finishes_with_an_error_ends_the_run_with_one() -> None:
    result = await failed(ScriptedModel([["Half", finish("error")]]))
    assert result.reason == "error"
    assert kind(result) == "server"
    kept = result.history[-1]
    assert (kept.text, kept.finish, kept.visibility) == ("Half", "error", "user")


async def test_a_model_may_finish_with_an_error_and_nothing_else() -> None:
    result = await failed(ScriptedModel([finish("error")]))
    assert kind(result) == "server"


class Raising:
    """A model that does in `stream` itself what its function does."""

    name = "scripted:model"
    window = None

    def __init__(self, stream: Streaming) -> None:
        self.stream = stream


async def test_a_model_without_a_real_stream_fails_the_run_and_nothing_else() -> None:
    def nothing(request: Request) -> AsyncIterator[Delta]:
        return None  # type: ignore[return-value]

    assert kind(await failed(Raising(nothing))) == "internal"


@pytest.mark.parametrize(
    "trouble",
    [fail(status=500), fail(ConnectionResetError()), fail(ValueError("a bug")), hang()],
)
async def test_trouble_after_the_last_event_does_not_lose_the_answer(trouble: ScriptItem) -> None:
    model = ScriptedModel([["Here.", usage(input=9, output=1), finish("stop"), trouble]])
    events = await happened(model)
    assert kinds(events) == []
    assert answer(events) == "Here."
    end = events[-1]
    assert isinstance(end, RunEnded)
    assert end.summary.usage == Usage(9, 1)


@pytest.mark.parametrize("before", [0, 30, 61, 500])
async def test_an_answer_that_is_complete_does_not_wait_for_its_connection(before: float) -> None:
    model = ScriptedModel([["He", pause(before), "re.", finish("stop"), hang()]])
    events = await happened(model)
    assert answer(events) == "Here."
    assert now() <= before + 10


async def test_a_stream_that_goes_on_after_its_last_event_is_left() -> None:
    model = ScriptedModel([["Here.", finish("stop"), *[[ping(), pause(1)]] * 1_000]])
    assert answer(await happened(model)) == "Here."
    assert now() <= 10


async def test_what_comes_after_the_last_event_is_neither_shown_nor_kept() -> None:
    late = [say("late"), ReasoningDelta("late"), call("look"), Finished("length"), notice("late")]
    events = await happened(ScriptedModel([["Here.", finish("stop"), *late]]))
    assert answer(events) == "Here."
    shown = [event.text for event in events if isinstance(event, (TextDelta, ReasoningDelta))]
    assert shown == ["Here."]


# --- Streams that do not end --------------------------------------------------------------------


@pytest.mark.parametrize(
    "flood",
    [
        say("a" * 101),
        say("a" * 101, chunks=101),
        think("a" * 101),
        say("é" * 51),
        say("\U0001f600" * 26),
        call_raw("look", '"' + "a" * 100),
        ["a" * 60, call_raw("look", "b" * 60, ended=False)],
        file("image/png", b"x" * 101),
    ],
)
async def test_a_stream_of_too_many_bytes_is_ended_for_good(flood: ScriptItem) -> None:
    model = ScriptedModel([[flood, hang()], "never asked"])
    result = await failed(model, policy(stream=Stream(max_bytes=100)))
    assert kind(result) == "stream_too_long"
    assert len(model.requests) == 1
    assert now() < 10


@pytest.mark.parametrize("text", ["a" * 100, "é" * 50, "\ud800" * 33])
async def test_a_stream_of_exactly_as_many_bytes_as_allowed_is_taken(text: str) -> None:
    events = await happened(ScriptedModel([text]), policy(stream=Stream(max_bytes=100)))
    assert answer(events) == text


@pytest.mark.parametrize("flood", [say("a" * 101, chunks=101), [ping()] * 101])
async def test_a_stream_of_too_many_events_is_ended_for_good(flood: ScriptItem) -> None:
    model = ScriptedModel([[flood, hang()], "never asked"])
    result = await failed(model, policy(stream=Stream(max_events=100)))
    assert kind(result) == "stream_too_long"
    assert len(model.requests) == 1
    assert now() < 10


async def test_a_stream_of_exactly_as_many_events_as_allowed_is_taken() -> None:
    model = ScriptedModel([say("a" * 99, chunks=99)])  # and the last one
    events = await happened(model, policy(stream=Stream(max_events=100)))
    assert answer(events) == "a" * 99


async def test_what_a_never_ending_stream_said_is_kept_for_people() -> None:
    model = ScriptedModel([[think("hm"), say("a" * 200, chunks=4), hang()]])
    result = await failed(model, policy(stream=Stream(max_bytes=120)))
    partial = result.history[-1]
    assert partial.text.startswith("aaa")
    assert isinstance(partial.parts[0], Reasoning)
    assert (partial.visibility, partial.finish) == ("user", "error")


# --- Letting go ---------------------------------------------------------------------------------


async def talks_for_ever(request: Request) -> AsyncIterator[Delta]:
    while True:
        yield TextDelta("a")
        await anyio.sleep(1)


async def fails_half_way(request: Request) -> AsyncIterator[Delta]:
    yield TextDelta("half")
    raise ProviderError("busy", status=529)


async def is_cut(request: Request) -> AsyncIterator[Delta]:
    yield TextDelta("half")


async def goes_silent(request: Request) -> AsyncIterator[Delta]:
    yield TextDelta("half")
    await anyio.sleep_forever()


async def has_more_after_the_end(request: Request) -> AsyncIterator[Delta]:
    yield TextDelta("Here.")
    yield Finished()
    await anyio.sleep_forever()


@pytest.mark.parametrize(
    ("stream", "limits"),
    [
        (talks_for_ever, Stream(max_events=3)),
        (talks_for_ever, Stream(max_bytes=3)),
        (fails_half_way, Stream()),
        (is_cut, Stream()),
        (goes_silent, Stream()),
        (has_more_after_the_end, Stream()),
        (answers, Stream()),
    ],
)
async def test_a_stream_is_closed_before_anything_else_happens(
    stream: Streaming, limits: Stream
) -> None:
    model = Streams(stream)
    agent = Agent(model=model, policy=policy(retry=ONCE, stream=limits), ports=ports())
    async for event in agent.run("Hello?"):
        if isinstance(event, RunEnded):
            assert len(model.closed) == 1
    assert len(model.requests) == 1


async def test_a_stream_is_closed_before_the_next_attempt_begins() -> None:
    def next_one(request: Request) -> AsyncIterator[Delta]:
        assert len(model.closed) == 1
        return answers(request)

    model = Streams(fails_half_way, next_one)
    assert answer(await happened(model)) == "Here."


async def test_an_interrupted_stream_is_closed() -> None:
    model = Streams(talks_for_ever)
    result = await interrupted_after(2.5, model)
    assert result.history[1].text == "aaa"
    assert model.closed == [2.5]


async def test_a_stream_of_a_run_that_is_left_is_closed() -> None:
    model = Streams(talks_for_ever)
    async with Agent(model=model, ports=ports()).run("Hello?") as run:
        async for event in run:
            if isinstance(event, TextDelta):
                break
    assert len(model.closed) == 1


async def test_a_stream_that_does_not_let_go_is_left_after_a_while() -> None:
    async def clings(request: Request) -> AsyncIterator[Delta]:
        try:
            yield TextDelta("half")
            await anyio.sleep_forever()
        finally:
            await anyio.sleep(10_000)

    result = await interrupted_after(1, Raising(clings))
    assert result.reason == "interrupted"
    assert result.history[1].text == "half"
    assert now() < 30


async def test_how_a_stream_complains_about_being_closed_is_nobodys_business() -> None:
    async def complains(request: Request) -> AsyncIterator[Delta]:
        try:
            while True:
                yield TextDelta("a")
        finally:
            raise RuntimeError("I was not done")

    result = await failed(Raising(complains), policy(stream=Stream(max_events=3)))
    assert kind(result) == "stream_too_long"


async def test_a_stream_that_is_no_generator_needs_no_closing() -> None:
    class Plain:
        def __init__(self) -> None:
            self._deltas: Iterator[Delta] = iter([TextDelta("Here."), Finished()])

        def __aiter__(self) -> Plain:
            return self

        async def __anext__(self) -> Delta:
            for delta in self._deltas:
                return delta
            raise StopAsyncIteration

    result = await Agent(model=Raising(lambda request: Plain())).run("Hello?")
    assert result.text == "Here."


# --- Interrupts ---------------------------------------------------------------------------------


async def test_an_interrupt_before_the_first_event_leaves_no_answer() -> None:
    result = await interrupted_after(5, ScriptedModel([hang()]))
    assert result.reason == "interrupted"
    assert [message.kind for message in result.history] == ["prompt", "marker"]
    assert now() == 5


async def test_an_interrupt_before_the_run_begins_asks_nobody() -> None:
    model = ScriptedModel(["never asked"])
    run = Agent(model=model).run("Hello?")
    run.interrupt()
    assert (await run).reason == "interrupted"
    assert model.requests == []


async def test_an_interrupt_after_the_last_event_keeps_the_answer_whole() -> None:
    model = ScriptedModel([["Here.", finish("stop"), lambda request: run.interrupt(), hang()]])
    run = Agent(model=model, ports=ports()).run("Hello?")
    result = await run
    assert result.reason == "interrupted"
    assert result.history[1].text == "Here."
    assert result.history[1].finish == "stop"


async def test_the_interrupt_of_a_slow_reader_is_not_held_up_by_it() -> None:
    model = ScriptedModel([say("abcdefgh" * 10, chunks=80)])
    run = Agent(model=model, policy=policy(buffer=1), ports=ports()).run("Hello?")
    seen = 0
    async for event in run:
        seen += 1
        if isinstance(event, TextDelta):
            run.interrupt()
            break
    result = await run
    assert result.reason == "interrupted"
    assert "abcdefgh".startswith(result.history[1].text[:1])
    assert now() < 10


# --- What is measured ---------------------------------------------------------------------------


async def test_the_time_to_the_first_delta_and_of_the_whole_answer_is_measured() -> None:
    events = await happened(ScriptedModel([[pause(3), "He", pause(4), "re."]]))
    committed = [event for event in events if isinstance(event, MessageCommitted)]
    assert (committed[1].first_delta, committed[1].seconds) == (3, 7)
    assert (committed[0].first_delta, committed[0].seconds) == (None, None)


async def test_the_size_of_the_prompt_and_the_number_of_messages_are_measured() -> None:
    events = await happened(ScriptedModel(["Here."]))
    (step,) = (event for event in events if isinstance(event, StepStarted))
    assert (step.number, step.messages) == (1, 1)
    assert step.tokens > 0


async def test_the_time_of_a_failed_attempt_is_not_part_of_the_answers() -> None:
    script = [[pause(30), fail(status=429, retry_after=100)], [pause(3), "Here."]]
    events = await happened(ScriptedModel(script))
    committed = [event for event in events if isinstance(event, MessageCommitted)]
    assert (committed[-1].first_delta, committed[-1].seconds) == (3, 3)


async def test_the_tokens_of_failed_answers_are_counted() -> None:
    """They were paid for."""
    script = [[think("hm"), usage(input=10, output=5)], ["Here.", usage(input=10, output=2)]]
    events = await happened(ScriptedModel(script))
    end = events[-1]
    assert isinstance(end, RunEnded)
    assert end.summary.usage == Usage(input=20, output=7)


@pytest.mark.parametrize(
    ("costs", "total"), [((0.25, 0.5), 0.75), ((None, 0.5), 0.5), ((None, None), None)]
)
async def test_what_a_run_cost_is_the_sum_of_what_is_known(
    costs: tuple[float | None, ...], total: float | None
) -> None:
    script: list[ScriptItem] = [
        [think("hm"), Usage(10, cost=costs[0])],  # empty, and paid for all the same
        ["Here.", Usage(10, cost=costs[1])],
    ]
    end = (await happened(ScriptedModel(script)))[-1]
    assert isinstance(end, RunEnded)
    assert end.summary.cost == end.summary.usage.cost == total


async def test_what_the_provider_wants_people_to_know_is_shown() -> None:
    events = await happened(ScriptedModel([[notice("no images here"), "Here."]]))
    assert Warned("no images here") in events


async def test_what_people_were_told_in_a_run_they_are_not_told_again() -> None:
    same, other = notice("no images here"), notice("no audio either")
    script = [[same, same, call("look")], [same, fail(status=529)], [same, other, "Here."], [same]]
    agent = Agent(model=ScriptedModel(script), tools=[look], policy=PATIENT, ports=ports())
    events = [event async for event in agent.run("Hello?")]
    warned = [event.text for event in events if isinstance(event, Warned)]
    assert warned == ["no images here", "no audio either"]


async def test_the_next_run_tells_it_again() -> None:
    model = ScriptedModel([], default=[notice("no images here"), "Here."])
    for _ in range(2):
        assert Warned("no images here") in await happened(model)


# --- The context limit --------------------------------------------------------------------------


@tool(effect="pure")
async def look() -> str:
    """Look."""
    return "nothing " * 400


async def compacts(
    first: ScriptItem, *, profile: int | None = None, context: ContextLimits = CONTEXT
) -> bool:
    """Whether a run whose first step fills 8,000 tokens is compacted before the second."""
    model = ScriptedModel(
        [[call("look"), usage(input=7_900, output=100), first]], default="Here.", window=profile
    )
    agent = Agent(
        model=model, tools=[look], policy=policy(retry=ONCE, context=context), ports=ports()
    )
    events = [event async for event in agent.run("Hello?")]
    assert answer(events) == "Here."
    return any(isinstance(event, Compacted) for event in events)


async def test_without_anybody_who_knows_the_window_nothing_is_compacted() -> None:
    assert not await compacts(finish("tool_calls"))


@pytest.mark.parametrize(
    ("reported", "profile", "configured", "small"),
    [
        (10_000, None, None, True),
        (100_000, None, None, False),
        (10_000, 100_000, None, True),
        (100_000, 10_000, None, False),
        (10_000, None, 100_000, True),
        (100_000, None, 10_000, False),
        (None, 10_000, 100_000, True),
        (None, 100_000, 10_000, False),
        (None, None, 10_000, True),
        (None, None, 100_000, False),
    ],
)
async def test_the_window_is_the_providers_else_the_profiles_else_the_configured_one(
    reported: int | None, profile: int | None, configured: int | None, small: bool
) -> None:
    first = finish("tool_calls", window=reported)
    context = ContextLimits(window=configured)
    assert await compacts(first, profile=profile, context=context) is small


# --- Calls --------------------------------------------------------------------------------------


async def test_an_unfinished_call_is_not_run() -> None:
    model = ScriptedModel([["Well", call_raw("look", "{", ended=False), cut()], "Here."])
    agent = Agent(model=model, tools=[look], policy=policy(), ports=ports())
    events = [event async for event in agent.run("Go.")]
    assert not [event for event in events if isinstance(event, (ToolStarted, ToolFinished))]
    assert answer(events) == "Here."


async def test_a_model_that_cancels_itself_was_cut_off() -> None:
    model = ScriptedModel([["Half", fail(asyncio.CancelledError())], "Whole."])
    result = await Agent(model=model, ports=ports()).run("?")
    assert result.text == "Whole."
    assert len(model.requests) == 2


async def test_a_ping_is_not_the_first_delta() -> None:
    model = ScriptedModel([[pause(1), ping(), pause(2), "Hello."]])
    events = [event async for event in Agent(model=model, ports=ports()).run("?")]
    committed = [event for event in events if isinstance(event, MessageCommitted)]
    assert committed[-1].first_delta == 3


async def test_whoever_reads_no_events_finds_the_warnings_in_the_result() -> None:
    agent = scripted(
        [[notice("a.pdf was not sent."), call("look")], [notice("a.pdf was not sent."), "Done."]],
        look,
    )
    result = await agent.run("Read it.")
    assert result.warnings == ("a.pdf was not sent.",)


async def test_what_has_to_be_replayed_counts_into_the_size_of_a_stream() -> None:
    big = {"provider": {"citations": ["x" * 5_000]}}
    agent = scripted(
        [["Hi.", PartEnded(metadata=big), "more"]], policy=Policy(stream=Stream(max_bytes=1_000))
    )
    with pytest.raises(RunFailed) as caught:
        await agent.run("Go.")
    assert caught.value.failure.kind == "stream_too_long"
