from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final, get_args

import anyio
import anyio.lowlevel
import pytest

import holdfast
from holdfast import Agent, Run, RunResult, tool
from holdfast.errors import ConfigError, ProviderError, RunFailed
from holdfast.kernel.errors import FAILURE_KINDS, FailureKind
from holdfast.kernel.events import Event, Retrying, RunEnded, Warned
from holdfast.kernel.messages import Message, Text, ToolCall, user_message
from holdfast.kernel.model import Delta, Finished, Model, Request, TextDelta, known_efforts
from holdfast.kernel.summary_checkpoint import SUMMARY_SECTIONS
from holdfast.models import Fallback, ProviderTool
from holdfast.options import ContextLimits, Policy, Retry, Stream
from holdfast.testing import (
    FakeProvider,
    ScriptedModel,
    ScriptedTurn,
    ScriptItem,
    call,
    cut,
    fail,
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

BUSY: Final = fail(status=529)
SUMMARY: Final = "\n".join(f"## {section}\nx" for section in SUMMARY_SECTIONS)


def model(name: str, *script: ScriptedTurn, window: int | None = None) -> ScriptedModel:
    return ScriptedModel(list(script), name=f"scripted:{name}", window=window)


def agent(*models: Model | str, retry: Retry | None = None, **options: Any) -> Agent:
    policy = Policy(retry=retry or Retry(first_delay=0), **options)
    return Agent(model=Fallback(models), tools=[look], policy=policy, ports=ports())


@tool(effect="pure")
async def look() -> str:
    """Look."""
    return "nothing"


async def happened(run: Run) -> list[Event]:
    return [event async for event in run]


async def failed(run: Run) -> RunResult:
    with pytest.raises(RunFailed) as caught:
        await run
    return caught.value.result


def writers(history: Sequence[Message]) -> list[str | None]:
    return [message.model for message in history if message.kind == "answer"]


def retries(events: Sequence[Event]) -> list[FailureKind]:
    return [event.kind for event in events if isinstance(event, Retrying)]


def warnings(events: Sequence[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Warned)]


def asked(*models: ScriptedModel) -> list[int]:
    return [len(model.requests) for model in models]


def now() -> float:
    return asyncio.get_running_loop().time()


# --- Moving on ----------------------------------------------------------------------------------


async def test_the_first_model_answers_when_it_can() -> None:
    a, b = model("a", "Here."), model("b")
    result = await agent(a, b).run("Hello?")
    assert writers(result.history) == ["scripted:a"]
    assert asked(a, b) == [1, 0]


async def test_the_next_model_is_asked_when_one_fails_before_it_has_shown_anything() -> None:
    a, b = model("a", BUSY), model("b", "Here.")
    events = await happened(agent(a, b).run("Hello?"))
    assert retries(events) == []
    assert now() == 0
    assert asked(a, b) == [1, 1]
    assert a.requests[0].messages == b.requests[0].messages


async def test_every_model_is_asked_the_same() -> None:
    searches = ProviderTool("web_search", {"max_uses": 3})
    a, b = model("a", BUSY), model("b", '{"value": 5}')
    one = agent(a, b).replace(provider_tools=[searches], output=int)
    assert (await one.run("Hello?")).output == 5
    assert a.requests == b.requests
    (request,) = b.requests
    assert request.provider_tools == (searches,)
    assert request.output is not None
    assert request.output.schema["required"] == ["value"]
    assert request.cache_key == one.cache_key


async def test_each_model_may_have_something_to_say_about_the_request() -> None:
    a = model("a", [notice("a reads no PDF"), BUSY])
    b = model("b", [notice("b hears nothing"), call("look")], [notice("b hears nothing"), "Here."])
    events = await happened(agent(a, b).run("Hello?"))
    assert warnings(events) == [
        "a reads no PDF",
        "scripted:a is overloaded. Trying the next model.",
        "b hears nothing",
    ]
    assert now() == 0


async def test_a_notice_leaves_the_next_model_its_patience() -> None:
    a, b = model("a", [notice("a reads no PDF"), BUSY], "Here."), model("b", hang())
    assert retries(await happened(agent(a, b).run("Hello?"))) == ["stream_silent"]
    assert now() == 60


async def test_every_model_is_asked_in_turn() -> None:
    a, b, c = model("a", BUSY), model("b", fail(status=500)), model("c", "Here.")
    result = await agent(a, b, c).run("Hello?")
    assert writers(result.history) == ["scripted:c"]
    assert asked(a, b, c) == [1, 1, 1]


async def test_people_are_told_who_failed_and_why() -> None:
    a, b = model("a", BUSY), model("b", "Here.")
    events = await happened(agent(a, b).run("Hello?"))
    assert warnings(events) == ["scripted:a is overloaded. Trying the next model."]


@pytest.mark.parametrize("quiet", [ping(), notice("no images here"), [ping(), ping()]])
async def test_signs_of_life_are_not_the_beginning_of_an_answer(quiet: ScriptItem) -> None:
    a, b = model("a", [quiet, BUSY]), model("b", "Here.")
    events = await happened(agent(a, b).run("Hello?"))
    assert retries(events) == []
    assert asked(a, b) == [1, 1]


@pytest.mark.parametrize("kind", get_args(FailureKind))
async def test_only_what_another_model_may_not_have_is_worth_asking_it(kind: FailureKind) -> None:
    a, b = model("a", fail("no", kind=kind)), model("b", "Here.")
    run = agent(a, b, retry=Retry(attempts=1)).run("Hello?")
    if FAILURE_KINDS[kind].failover:
        assert (await run).text == "Here."
    else:
        await failed(run)
        assert asked(a, b) == [1, 0]


@pytest.mark.parametrize(
    ("error", "moves"),
    [
        (ConnectionResetError(), True),
        (TimeoutError(), True),
        (ValueError("a bug"), False),
        (ProviderError("", status=401), False),
        (ProviderError("", status=503, should_retry=False), True),
    ],
)
async def test_a_model_may_fail_with_any_exception(error: Exception, moves: bool) -> None:
    a, b = model("a", fail(error)), model("b", "Here.")
    run = agent(a, b, retry=Retry(attempts=1)).run("Hello?")
    if moves:
        assert (await run).text == "Here."
    else:
        await failed(run)
    assert asked(b) == [int(moves)]


class Broken:
    """A model that fails before there is a stream."""

    name = "scripted:broken"
    window = None

    def stream(self, request: Request) -> AsyncIterator[Delta]:
        raise ConnectionRefusedError("nobody there")


async def test_a_model_that_fails_before_there_is_a_stream_is_moved_on_from() -> None:
    events = await happened(agent(Broken(), model("b", "Here.")).run("Hello?"))
    assert retries(events) == []
    assert warnings(events) == ["scripted:broken cannot be reached. Trying the next model."]


# --- Not moving on ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shown", [say("half"), think("hm"), call("look"), source("https://example.org")]
)
async def test_once_something_was_shown_the_failure_is_the_attempts(shown: ScriptItem) -> None:
    """The next attempt begins with the next model, and what was shown is said to be void."""
    a, b = model("a", [shown, BUSY]), model("b", "Here.")
    events = await happened(agent(a, b).run("Hello?"))
    assert retries(events) == ["overloaded"]
    assert warnings(events) == []
    assert asked(a, b) == [1, 1]


async def test_once_something_was_shown_and_there_is_no_further_attempt_the_run_fails() -> None:
    a, b = model("a", [say("half"), BUSY]), model("b", "never asked")
    result = await failed(agent(a, b, retry=Retry(attempts=1)).run("Hello?"))
    assert result.failure is not None
    assert result.failure.model == "scripted:a"
    assert result.history[-1].text == "half"
    assert asked(a, b) == [1, 0]


async def test_when_all_of_them_fail_the_last_failure_is_the_attempts() -> None:
    a, b = model("a", BUSY, "Here."), model("b", fail(status=500))
    events = await happened(agent(a, b).run("Hello?"))
    assert retries(events) == ["server"]
    end = events[-1]
    assert isinstance(end, RunEnded)
    assert end.reason == "stop"
    assert asked(a, b) == [2, 1]


async def test_when_all_of_them_fail_for_good_the_run_names_the_last() -> None:
    a, b = model("a", *[BUSY] * 3), model("b", *[fail(status=503)] * 3)
    result = await failed(agent(a, b, retry=Retry(attempts=3, first_delay=0)).run("Hello?"))
    assert result.failure is not None
    assert result.failure.model in ("scripted:a", "scripted:b")
    assert asked(a, b) == [3, 3]


async def test_an_overflow_is_not_another_models_business() -> None:
    a, b = model("a", fail("prompt is too long", status=400)), model("b", "never asked")
    result = await failed(agent(a, b).run("Hello?"))
    assert result.failure is not None
    assert result.failure.kind == "still_over_limit"
    assert asked(b) == [0]


@pytest.mark.parametrize("nothing", [[], think("hm")])
async def test_an_empty_answer_is_asked_for_again(nothing: ScriptItem) -> None:
    a, b = model("a", nothing, "Here."), model("b")
    result = await agent(a, b).run("Hello?")
    assert writers(result.history) == ["scripted:a"]


# --- Staying ------------------------------------------------------------------------------------


async def test_the_model_of_the_turns_last_answer_is_asked_first() -> None:
    a, b = model("a", BUSY), model("b", call("look"), call("look"), "Here.")
    result = await agent(a, b).run("Hello?")
    assert writers(result.history) == ["scripted:b"] * 3
    assert asked(a, b) == [1, 3]


async def test_a_new_turn_begins_with_the_first_model_again() -> None:
    a, b = model("a", BUSY, "I am back."), model("b", "Here.")
    holdfast = agent(a, b)
    first = await holdfast.run("Hello?")
    second = await holdfast.run("And now?", history=first.history)
    assert writers(second.history) == ["scripted:b", "scripted:a"]


async def test_what_we_inject_does_not_begin_a_turn() -> None:
    a, b = model("a", BUSY), model("b", ["It was", Finished("length")], " late.")
    result = await agent(a, b).run("Hello?")
    assert writers(result.history) == ["scripted:b"] * 2


def answered_by(name: str) -> tuple[Message, ...]:
    """A turn in which this model has called a tool."""
    called = Message("assistant", (ToolCall("c1", "look", "{}"),), "answer", model=name)
    return user_message("Hello?"), called


async def test_a_model_that_is_stayed_with_and_fails_is_followed_by_the_others_in_turn() -> None:
    a, b, c = model("a", "Here."), model("b", BUSY), model("c", BUSY)
    events = await happened(agent(a, b, c).run(history=answered_by("scripted:b")))
    assert [text.partition(" ")[0] for text in warnings(events)] == ["scripted:b", "scripted:c"]
    assert asked(a, b, c) == [1, 1, 1]


async def test_a_model_that_is_no_longer_there_is_not_stayed_with() -> None:
    a, b = model("a", "Here."), model("b")
    await agent(a, b).run(history=answered_by("scripted:gone"))
    assert asked(a, b) == [1, 0]


async def test_a_compaction_does_not_change_who_is_stayed_with() -> None:
    a = model("a", BUSY, SUMMARY, "never asked")
    b = model("b", ["Words. " * 500, call("look"), usage(input=7_500)], "Here.")
    holdfast = agent(a, b, context=ContextLimits(window=10_000, keep=0))
    result = await holdfast.run("Hello?")
    assert writers(result.history) == ["scripted:b"] * 2


# --- Silence ------------------------------------------------------------------------------------


async def test_a_model_that_goes_silent_is_followed_by_the_next_on_retry() -> None:
    a, b = model("a", hang()), model("b", "Here.")
    events = await happened(agent(a, b).run("Hello?"))
    assert retries(events) == ["stream_silent"]
    assert a.requests[0].avoid == frozenset()
    assert b.requests[0].avoid == {"scripted:a"}
    assert now() == 60


async def test_models_that_went_silent_are_asked_last() -> None:
    a, b, c = model("a", hang(), "Here."), model("b", hang()), model("c", hang())
    events = await happened(agent(a, b, c).run("Hello?"))
    assert retries(events) == ["stream_silent"] * 3
    assert asked(a, b, c) == [2, 1, 1]


async def test_a_model_that_was_cut_is_followed_by_the_next_on_retry() -> None:
    a, b = model("a", ["half", cut()]), model("b", "Here.")
    events = await happened(agent(a, b).run("Hello?"))
    assert retries(events) == ["stream_cut"]
    assert asked(a, b) == [1, 1]


async def test_which_models_failed_is_forgotten_in_the_next_step() -> None:
    a, b = model("a", hang()), model("b", call("look"), "Here.")
    await agent(a, b).run("Hello?")
    assert [request.avoid for request in b.requests] == [{"scripted:a"}, frozenset()]


async def test_the_silence_of_the_next_model_counts_from_when_it_was_asked() -> None:
    """Not from the first model's beginning, and not with the patience for one that talks."""
    a = model("a", [pause(50), BUSY], "Here.")
    b = model("b", hang(), BUSY)
    events = await happened(agent(a, b).run("Hello?"))
    assert retries(events) == ["stream_silent"]
    assert now() == 50 + 60


async def test_the_next_model_may_take_as_long_as_the_first() -> None:
    a = model("a", [pause(55), BUSY])
    b = model("b", [pause(55), "He", pause(500), "re."])
    events = await happened(agent(a, b).run("Hello?"))
    assert retries(events) == []
    assert now() == 55 + 55 + 500


async def test_a_model_that_talked_and_failed_leaves_the_next_one_its_own_patience() -> None:
    a = model("a", [ping(), pause(100), BUSY])
    b = model("b", hang(), "Here.")
    holdfast = agent(a, b, stream=Stream(first_event=60, between_events=600))
    events = await happened(holdfast.run("Hello?"))
    assert retries(events)[:1] == ["stream_silent"]
    assert now() == 100 + 60


# --- One model for the rest of the loop ---------------------------------------------------------


@pytest.mark.parametrize(
    ("windows", "smallest"),
    [((None,), None), ((None, 5_000), 5_000), ((9_000, 5_000, None), 5_000), ((7_000,), 7_000)],
)
def test_the_window_is_the_smallest(windows: tuple[int | None, ...], smallest: int | None) -> None:
    models = [model(str(at), window=window) for at, window in enumerate(windows)]
    assert Fallback(models).window == smallest


def test_the_name_is_the_first_models() -> None:
    assert Fallback([model("a"), model("b")]).name == "scripted:a"


def test_no_model_at_all_is_refused() -> None:
    nothings: tuple[Any, ...] = ([], "ab", model("a", "Here."))
    for nothing in nothings:
        with pytest.raises(ConfigError, match=r"Fallback\(\[first, second\]\)"):
            Fallback(nothing)
    with pytest.raises(ConfigError, match="'a' names no provider"):
        Fallback(["a"])


async def test_a_fallback_takes_names() -> None:
    events = await happened(agent(model("a", BUSY), "demo").run("say hello"))
    assert [event.reason for event in events if isinstance(event, RunEnded)] == ["stop"]
    assert warnings(events) == ["scripted:a is overloaded. Trying the next model."]


async def test_models_of_one_name_are_told_apart() -> None:
    one, two = model("a", BUSY, BUSY), model("a", "One.", "Two.")
    pair = agent(one, two)
    first = await pair.run("1")
    second = await pair.run("2", history=first.history)
    assert writers(second.history) == ["scripted:a#2", "scripted:a#2"]
    assert (len(one.requests), len(two.requests)) == (2, 2)


def test_a_label_tells_a_model_from_others_of_its_name() -> None:
    cheap = holdfast.model("openai:gpt-5.1", api_key="k", label="cheap")
    assert cheap.name == "openai:gpt-5.1#cheap"
    assert cheap.window == holdfast.model("openai:gpt-5.1", api_key="k").window
    assert known_efforts(cheap) == known_efforts(holdfast.model("openai:gpt-5.1", api_key="k"))
    with pytest.raises(ConfigError, match="label is '': use a word"):
        holdfast.model("openai:gpt-5.1", api_key="k", label="")


async def test_a_labelled_model_answers_under_its_name() -> None:
    fake = FakeProvider("openai_responses", ["Hi."])
    cheap = holdfast.model("openai:gpt-5.1", api_key="k", http=fake, label="cheap")
    result = await Agent(model=cheap).run("Hello?")
    assert writers(result.history) == ["openai:gpt-5.1#cheap"]
    assert fake.requests[0].json["model"] == "gpt-5.1"


def test_a_fallback_to_a_model_without_a_key_is_refused_when_it_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    pair = agent(model("a", "Hi."), "groq:llama")
    with pytest.raises(ConfigError, match="groq needs a key: set GROQ_API_KEY"):
        pair.run("?")


async def test_one_model_alone_is_like_itself() -> None:
    a = model("a", BUSY, "Here.")
    events = await happened(agent(a).run("Hello?"))
    assert retries(events) == ["overloaded"]
    assert warnings(events) == []


async def test_a_failure_names_the_model_that_failed() -> None:
    a, b = model("a", BUSY), model("b", fail(status=401))
    result = await failed(agent(a, b).run("Hello?"))
    assert result.failure is not None
    assert result.failure.model == "scripted:b"
    assert result.failure.message == "scripted:b did not accept the API key: check it."


async def test_summaries_fall_back_too() -> None:
    a, b = model("a", BUSY), model("b", SUMMARY)
    history = (
        user_message("Build. " * 100),
        Message("assistant", (Text("Built. " * 200),), "answer", model="scripted:a"),
    )
    holdfast = agent(a, b, context=ContextLimits(window=10_000))
    result = await holdfast.run(history=history, compact=True)
    assert result.reason == "stop"
    assert asked(a, b) == [1, 1]


async def test_a_fallback_may_stand_in_a_fallback() -> None:
    a, b, c = model("a", BUSY), model("b", BUSY), model("c", "Here.")
    result = await agent(Fallback([a, b]), c).run("Hello?")
    assert writers(result.history) == ["scripted:c"]
    assert asked(a, b, c) == [1, 1, 1]


# --- Letting go ---------------------------------------------------------------------------------


class Watched:
    """A model whose streams say when they are closed."""

    window = None

    def __init__(self, name: str, *turn: Delta | Exception) -> None:
        self.name = f"scripted:{name}"
        self.open = 0
        self._turn = turn

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        self.open += 1
        try:
            for item in self._turn:
                await anyio.lowlevel.checkpoint()
                if isinstance(item, Exception):
                    raise item
                yield item
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            self.open -= 1


async def test_the_stream_of_a_model_that_failed_is_closed_before_the_next_is_asked() -> None:
    a = Watched("a", ProviderError("", status=529))

    class Next:
        name = "scripted:b"
        window = None

        async def stream(self, request: Request) -> AsyncIterator[Delta]:
            assert a.open == 0
            yield TextDelta("Here.")
            yield Finished()

    assert (await agent(a, Next()).run("Hello?")).text == "Here."


async def test_an_interrupt_closes_the_stream_inside() -> None:
    a = Watched("a", TextDelta("half"))
    run = agent(a, model("b")).run("Hello?")
    asyncio.get_running_loop().call_later(1, run.interrupt)
    result = await run
    assert result.reason == "interrupted"
    assert result.history[1].text == "half"
    assert result.history[1].model == "scripted:a"
    assert a.open == 0


async def test_a_stream_that_is_too_long_is_closed_inside() -> None:
    a = Watched("a", *[TextDelta("x")] * 10)
    holdfast = agent(a, model("b"), stream=Stream(max_events=5))
    result = await failed(holdfast.run("Hello?"))
    assert result.failure is not None
    assert result.failure.kind == "stream_too_long"
    assert a.open == 0


async def test_leaving_the_run_closes_the_stream_inside() -> None:
    a = Watched("a", TextDelta("half"))
    async with agent(a, model("b")).run("Hello?") as run:
        async for event in run:
            if isinstance(event, TextDelta):
                break
    assert a.open == 0


async def test_the_tokens_of_the_model_that_answered_are_counted() -> None:
    a, b = model("a", BUSY), model("b", ["Here.", usage(input=10, output=1)])
    result = await agent(a, b).run("Hello?")
    assert result.summary.usage.input == 10
