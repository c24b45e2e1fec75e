from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Agent, Limits, Run, RunResult, Tool, tool
from holdfast.errors import ProviderError, RunFailed
from holdfast.hooks import Context, Inject, Stopping
from holdfast.kernel.errors import ConfigError, FailureKind
from holdfast.kernel.events import (
    Compacted,
    Compacting,
    Delivered,
    Event,
    MessageCommitted,
    Retrying,
    RunEnded,
    Warned,
)
from holdfast.kernel.messages import (
    MARKER_TEXTS,
    AskedBy,
    Checkpoint,
    File,
    Message,
    MessageRole,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    dump,
    load,
    marker,
    note,
    results_message,
    user_message,
)
from holdfast.kernel.model import Model, Request, TextDelta
from holdfast.kernel.model_context import Trim, estimate, view
from holdfast.kernel.summary_checkpoint import (
    SUMMARY_INSTRUCTIONS,
    SUMMARY_PREFIX,
    SUMMARY_SECTIONS,
    transcript,
)
from holdfast.options import ContextLimits, Policy, Retry, Wording
from holdfast.testing import (
    ScriptedModel,
    ScriptedTurn,
    ScriptItem,
    call,
    fail,
    finish,
    hang,
    pause,
    ports,
    say,
    think,
    usage,
)

WINDOW: Final = 10_000
LIMIT: Final = 7_000
OVERFLOW: Final = fail("prompt is too long", status=400)


def summary(word: str = "everything") -> str:
    return "\n".join(
        f"## {section}\n{word} about {section.lower()}" for section in SUMMARY_SECTIONS
    )


SUMMARY: Final = summary()


# --- Histories ----------------------------------------------------------------------------------


def text_of(tokens: int) -> str:
    """A text whose message is estimated at exactly this many tokens."""
    return "x" * (4 * (tokens - 4))


def prompt(text: str) -> Message:
    return user_message(text)


def said(text: str, tokens: int | Usage | None = None) -> Message:
    used = Usage(input=tokens) if isinstance(tokens, int) else tokens
    return Message("assistant", (Text(text),), "answer", finish="stop", usage=used)


def step(
    id: str, result: str, *, words: str = "", tokens: int | None = None
) -> tuple[Message, ...]:
    """An answer that calls a tool, and what the tool returned."""
    called: tuple[Part, ...] = (ToolCall(id, "look", f'{{"at": "{id}"}}'),)
    parts = (Text(words), *called) if words else called
    used = None if tokens is None else Usage(input=tokens)
    return (
        Message("assistant", parts, "answer", finish="tool_calls", usage=used),
        results_message([ToolResult(id, "look", (Text(result),))]),
    )


def long_chat(*, tokens: int = 9_000) -> tuple[Message, ...]:
    """A finished chat that fills this much of the window, as the provider counted it."""
    return (
        prompt("Please build a house. " * 50),
        said("I build it. " * 200),
        prompt("Now paint it. " * 50),
        said("I paint it. " * 200, tokens),
    )


@tool(effect="pure")
async def look(at: str = "") -> str:
    """Look."""
    return f"nothing at {at}"


def bulky(size: int) -> Tool:
    async def look(at: str = "") -> str:
        """Look."""
        return "y" * size

    return tool(effect="pure")(look)


# --- Runs ---------------------------------------------------------------------------------------


def agent(
    model: Model,
    /,
    *,
    retry: Retry | None = None,
    window: int | None = WINDOW,
    tools: Sequence[Tool] = (look,),
    guard: Any = None,
    instructions: str = "",
    steps: int = 100,
    **context: Any,
) -> Agent:
    return Agent(
        model=model,
        tools=tools,
        instructions=instructions,
        guard=guard,
        limits=Limits(steps=steps),
        policy=Policy(
            retry=retry or Retry(first_delay=0),
            context=ContextLimits(window=window, **context),
        ),
        ports=ports(),
    )


async def happened(run: Run) -> list[Event]:
    return [event async for event in run]


async def failed(run: Run) -> RunResult:
    with pytest.raises(RunFailed) as caught:
        await run
    return caught.value.result


def kind(result: RunResult) -> FailureKind:
    assert result.failure is not None
    return result.failure.kind


def asks_for_summary(request: Request) -> bool:
    return any(block.text == SUMMARY_INSTRUCTIONS for block in request.system)


def summaries(model: ScriptedModel) -> list[Request]:
    return [request for request in model.requests if asks_for_summary(request)]


def answers(model: ScriptedModel) -> list[Request]:
    return [request for request in model.requests if not asks_for_summary(request)]


def asked(request: Request) -> str:
    (message,) = request.messages
    return message.text


def checkpoints(history: Sequence[Message]) -> list[Checkpoint]:
    return [message.checkpoint for message in history if message.checkpoint is not None]


def texts(request: Request) -> list[str]:
    return [message.text for message in request.messages]


def of(events: Sequence[Event], *types: type[Any]) -> list[Any]:
    return [event for event in events if isinstance(event, types)]


def now() -> float:
    return asyncio.get_running_loop().time()


def assert_accepted(request: Request) -> None:
    """What every provider checks about the sequence of a request."""
    messages = request.messages
    assert messages[0].role == "user"
    expected: list[str] = []
    for message in messages:
        assert message.parts
        if message.role == "tool":
            assert [result.call_id for result in message.results] == expected
            expected = []
        else:
            assert expected == [], "a call has no result right behind it"
            expected = [call.id for call in message.calls]
    assert expected == []


# --- When ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("added", "compacted"), [(99, False), (100, True), (101, True)])
async def test_exactly_the_threshold_is_enough(added: int, compacted: bool) -> None:
    """What the provider counted, and our estimate of what came since."""
    history = long_chat(tokens=LIMIT - 100)
    question = text_of(added)
    assert estimate(prompt(question)) == added
    model = ScriptedModel([SUMMARY, "Done."] if compacted else ["Done."])
    result = await agent(model).run(question, history=history)
    assert result.text == "Done."
    assert len(summaries(model)) == compacted


async def test_tokens_of_a_cache_fill_the_window_like_others() -> None:
    history = (*long_chat()[:-1], said("I paint it. " * 200, Usage(1, 0, 0, 5_000, 3_000)))
    model = ScriptedModel([SUMMARY, "Done."])
    await agent(model).run("Go on.", history=history)
    assert len(summaries(model)) == 1


async def test_what_counts_is_the_last_request_and_not_their_sum() -> None:
    history = (
        prompt("a"),
        said("b", 5_000),
        prompt("c"),
        said("d", 5_500),
    )
    model = ScriptedModel(["Done."])
    await agent(model).run("Go on.", history=history)
    assert summaries(model) == []


async def test_without_a_count_of_the_provider_everything_is_estimated() -> None:
    history = (prompt(text_of(3_000)), said(text_of(3_900)))
    for instructions, compacted in ("", False), (text_of(200), True):
        model = ScriptedModel([SUMMARY, "Done."] if compacted else ["Done."])
        await agent(model, instructions=instructions, tools=()).run("Go on.", history=history)
        assert len(summaries(model)) == compacted


async def test_results_that_came_since_the_last_answer_count() -> None:
    """Here the provider's count is under the threshold, and the next request would not fit."""
    model = ScriptedModel([[call("look"), usage(input=6_000)], SUMMARY, "Done."])
    events = await happened(agent(model, tools=[bulky(8_000)]).run("Go."))
    assert len(summaries(model)) == 1
    (compacted,) = of(events, Compacted)
    assert compacted.before >= 6_000 + 2_000


@pytest.mark.parametrize("tokens", [7_000, 30_000])
async def test_a_threshold_of_100_switches_it_off(tokens: int) -> None:
    model = ScriptedModel(["Done."])
    await agent(model, threshold=100).run("Go on.", history=long_chat(tokens=tokens))
    assert summaries(model) == []


async def test_an_unknown_window_is_never_filled() -> None:
    model = ScriptedModel(["Done."])
    await agent(model, window=None).run("Go on.", history=long_chat(tokens=10**9))
    assert summaries(model) == []


@pytest.mark.parametrize(("threshold", "compacted"), [(30, True), (89, True), (95, False)])
async def test_the_threshold_can_be_set(threshold: int, compacted: bool) -> None:
    model = ScriptedModel([SUMMARY, "Done."] if compacted else ["Done."])
    await agent(model, threshold=threshold).run("Go on.", history=long_chat(tokens=9_000))
    assert len(summaries(model)) == compacted


async def test_a_turn_that_ends_above_the_threshold_is_compacted_when_the_next_begins() -> None:
    model = ScriptedModel([["A long story. " * 300, usage(input=9_000)], SUMMARY, "Done."])
    holdfast = agent(model)
    first = await holdfast.run("Tell me.")
    assert summaries(model) == []
    assert checkpoints(first.history) == []
    second = await holdfast.run("And then?", history=first.history)
    assert second.text == "Done."
    assert len(summaries(model)) == 1


async def test_a_turn_that_begins_too_large_with_nothing_to_summarize_is_just_tried() -> None:
    model = ScriptedModel(["Done."])
    result = await agent(model).run(text_of(9_000))
    assert result.text == "Done."


# --- Shortening is tried first ------------------------------------------------------------------


def steps(count: int, size: int, tokens: int | None = None) -> tuple[Message, ...]:
    """Steps whose results are bulky; the last answer before them says how much that is."""
    made: list[Message] = []
    for number in range(count):
        last = number == count - 1
        made += step(f"c{number}", (f"{number}" * size)[:size], tokens=tokens if last else None)
    return tuple(made)


async def test_shortening_old_results_is_enough_without_a_model_call() -> None:
    history = (prompt("Go."), *steps(10, 8_000, 19_000))
    model = ScriptedModel(["Done."])
    events = await happened(agent(model, window=30_000).run(history=history))
    assert summaries(model) == []
    (compacted,) = of(events, Compacted)
    assert not compacted.summarized
    assert compacted.after < compacted.before
    assert of(events, Compacting) == []


async def test_the_newest_results_are_sent_whole_and_the_older_ones_shortened() -> None:
    history = (prompt("Go."), *steps(10, 8_000, 19_000))
    model = ScriptedModel(["Done."])
    result = await agent(model, window=30_000, keep_results=3, trim_to=500).run(history=history)
    (request,) = model.requests
    assert_accepted(request)
    lengths = [len(r.text) for message in request.messages for r in message.results]
    assert lengths[-3:] == [8_000] * 3
    assert all(500 <= length < 600 for length in lengths[:-3])
    kept = [len(r.text) for message in result.history for r in message.results]
    assert kept == [8_000] * 10


async def test_results_that_are_not_bulky_are_left_alone() -> None:
    history = (prompt("Go."), *steps(10, 8_000, 19_000), *step("small", "z" * 4_000))
    model = ScriptedModel(["Done."])
    await agent(model, window=30_000, keep_results=0).run(history=history)
    results = [r.text for message in model.requests[0].messages for r in message.results]
    assert results[-1] == "z" * 4_000
    assert all(len(result) < 2_000 for result in results[:-1])


async def test_images_in_old_results_are_no_longer_sent() -> None:
    picture = results_message([ToolResult("p", "look", (File("image/png", "p.png", b"png"),))])
    shown = Message("assistant", (ToolCall("p", "look", "{}"),), "answer")
    history = (prompt("Go."), shown, picture, *steps(10, 8_000, 19_000))
    model = ScriptedModel(["Done."])
    await agent(model, window=30_000).run(history=history)
    content = model.requests[0].messages[2].results[0].content
    assert content == (Text("[image/png p.png, no longer shown]"),)


async def test_shortening_that_is_not_enough_is_followed_by_a_summary() -> None:
    history = (prompt("Go."), *steps(10, 8_000, 19_000))
    model = ScriptedModel([SUMMARY, "Done."])
    events = await happened(agent(model, window=20_000, keep_results=9).run(history=history))
    assert len(summaries(model)) == 1
    assert [compacted.summarized for compacted in of(events, Compacted)] == [True]


async def test_shortening_that_only_just_helps_is_not_enough() -> None:
    """Otherwise the very next step would be over the threshold again."""
    history = (prompt("Go."), *steps(10, 8_000, 22_000))
    for relief, summarized in ((100, False), (30, True)):
        model = ScriptedModel([SUMMARY, "Done."] if summarized else ["Done."])
        holdfast = agent(model, window=30_000, relief=relief)
        events = await happened(holdfast.run(history=history))
        assert [compacted.summarized for compacted in of(events, Compacted)] == [summarized]


async def test_people_are_told_that_old_results_were_shortened() -> None:
    history = (prompt("Go."), *steps(10, 8_000, 19_000))
    result = await agent(ScriptedModel(["Done."]), window=25_000).run(history=history)
    (told,) = (message for message in result.new if message.kind == "note")
    assert "shortened automatically" in told.text
    assert told.visibility == "user"


async def test_shortening_keeps_an_earlier_summary() -> None:
    model = ScriptedModel(["Done."])
    first = await compacted_once()
    history = (*first.history, prompt("Look around."), *steps(10, 8_000, 19_000))
    result = await agent(model, window=25_000).run(history=history)
    assert not checkpoints(result.new)[0].summarized
    assert SUMMARY in texts(model.requests[0])[0]
    assert_accepted(model.requests[0])


async def test_what_was_shortened_stays_shortened() -> None:
    """A provider's cache goes on matching."""
    history = (prompt("Go."), *steps(10, 8_000, 19_000))
    model = ScriptedModel([call("look", at="here"), "Done."])
    await agent(model, window=30_000).run(history=history)
    first, second = model.requests
    assert second.messages[: len(first.messages)] == first.messages


# --- What is asked ------------------------------------------------------------------------------


async def compacted_once(text: str = SUMMARY) -> RunResult:
    return await agent(ScriptedModel([text])).run(history=long_chat(), compact=True)


async def test_a_summary_is_asked_for_with_the_conversation_and_nothing_else() -> None:
    history = (
        prompt("Please build a house."),
        *step("c1", "a hammer", words="Let me look."),
        said("I build it. " * 500, 9_000),
    )
    model = ScriptedModel([SUMMARY, "Done."])
    await agent(model, instructions="Be brief.", keep=0).run("Go on.", history=history)
    (request,) = summaries(model)
    assert [block.text for block in request.system] == [SUMMARY_INSTRUCTIONS]
    assert request.tools == ()
    conversation = asked(request)
    for line in (
        "user: Please build a house.",
        "assistant: Let me look.",
        'assistant calls look({"at": "c1"})',
        "look returned (ok): a hammer",
        "assistant: I build it.",
    ):
        assert line in conversation
    assert "earlier-memory" not in conversation


async def test_a_summary_is_asked_for_every_section() -> None:
    for section in SUMMARY_SECTIONS:
        assert f"\n## {section}\n" in SUMMARY_INSTRUCTIONS


async def test_a_summary_is_not_told_what_is_for_people_or_what_was_only_thought() -> None:
    history = (
        prompt("Please build a house. " * 100),
        Message("assistant", (Reasoning("secret thought"), Text("I build it. " * 200)), "answer"),
        note("for people only"),
        prompt("Now paint it."),
        Message("assistant", (Text("half a sen"),), "answer", "user", "error"),
        said("I paint it. " * 200, 9_000),
    )
    model = ScriptedModel([SUMMARY])
    await agent(model, keep=0).run(history=history, compact=True)
    conversation = asked(model.requests[0])
    assert "I paint it." in conversation
    for hidden in ("secret thought", "for people only", "half a sen"):
        assert hidden not in conversation


async def test_long_results_and_arguments_are_shortened_in_what_is_summarized() -> None:
    big = ToolCall("c2", "write", '{"text": "%s"}' % ("w" * 50_000))
    history = (
        prompt("Go."),
        *step("c1", "start" + "y" * 50_000 + "finish"),
        Message("assistant", (big,), "answer"),
        results_message([ToolResult("c2", "write", (Text("ok"),))]),
        said("Done. " * 100, 9_000),
    )
    model = ScriptedModel([SUMMARY])
    await agent(model, window=100_000, keep=0).run(history=history, compact=True)
    conversation = asked(model.requests[0])
    assert "start" in conversation
    assert "finish" in conversation
    assert len(conversation) < 10_000


async def test_files_are_named_in_what_is_summarized() -> None:
    history = (
        user_message([Text("See this. " * 100), File("image/png", "plan.png", b"png")]),
        said("I see. " * 100, 9_000),
    )
    model = ScriptedModel([SUMMARY])
    await agent(model, keep=0).run(history=history, compact=True)
    assert "[image/png plan.png]" in asked(model.requests[0])


async def test_a_summary_may_be_as_long_as_the_policy_says() -> None:
    model = ScriptedModel([SUMMARY])
    holdfast = agent(model, window=100_000, summary_tokens=1_234)
    await holdfast.run(history=long_chat(), compact=True)
    assert model.requests[0].settings.max_output_tokens == 1_234


@pytest.mark.parametrize("window", [1_000, 4_000, 9_000, 20_000])
async def test_a_summary_leaves_room_for_its_input(window: int) -> None:
    """Providers refuse a request whose longest answer would not fit beside it."""
    model = ScriptedModel([SUMMARY])
    history = (prompt("Go. " * 50), said("Words. " * 20_000, 100))
    await agent(model, window=window, keep=0).run(history=history, compact=True)
    (request,) = summaries(model)
    longest = request.settings.max_output_tokens
    assert longest is not None
    size = sum(map(estimate, request.messages)) + len(SUMMARY_INSTRUCTIONS) // 4
    assert size + longest <= window
    assert "assistant: Words." in asked(request)


async def test_what_does_not_fit_is_left_out_at_the_old_end() -> None:
    history: list[Message] = []
    for number in range(100):
        history += [prompt(f"question {number} " * 20), said(f"answer {number} " * 20)]
    model = ScriptedModel([SUMMARY])
    holdfast = agent(model, window=6_000, summary_tokens=1_000, keep=0)
    await holdfast.run(history=history, compact=True)
    conversation = asked(model.requests[0])
    assert "answer 99 " in conversation
    assert "answer 0 " not in conversation
    assert "[earlier messages omitted]" in conversation


# --- How the answer is judged -------------------------------------------------------------------


@pytest.mark.parametrize("missing", SUMMARY_SECTIONS)
async def test_a_summary_that_lacks_a_section_is_asked_for_again(missing: str) -> None:
    lacking = SUMMARY.replace(f"## {missing}", "")
    model = ScriptedModel([lacking, SUMMARY])
    events = await happened(agent(model).run(history=long_chat(), compact=True))
    assert len(model.requests) == 2
    assert of(events, Warned) == []
    committed = [event.message for event in of(events, MessageCommitted)]
    assert committed[0].text == SUMMARY_PREFIX + SUMMARY


async def test_a_summary_that_still_lacks_a_section_is_taken_with_a_warning() -> None:
    lacking = SUMMARY.replace("## Decisions", "").replace("## Next steps", "")
    model = ScriptedModel([lacking] * 3)
    events = await happened(agent(model).run(history=long_chat(), compact=True))
    (warned,) = of(events, Warned)
    assert "Decisions" in warned.text
    assert "Next steps" in warned.text
    assert "Goal" not in warned.text
    assert of(events, MessageCommitted)[0].message.text == SUMMARY_PREFIX + lacking.strip()


UNUSABLE: Final[dict[str, ScriptItem]] = {
    "empty": [],
    "blank": "  \n ",
    "only thought about": think("what happened?"),
    "cut by length": [SUMMARY, finish("length")],
    "longer than what it replaces": SUMMARY + "\n" + "blah " * 20_000,
}


@pytest.mark.parametrize("bad", UNUSABLE.values(), ids=UNUSABLE.keys())
@pytest.mark.parametrize("window", [WINDOW, 200_000, None])
async def test_an_unusable_summary_is_asked_for_again_with_less_input(
    bad: ScriptItem, window: int | None
) -> None:
    model = ScriptedModel([bad, bad, SUMMARY])
    events = await happened(agent(model, window=window).run(history=long_chat(), compact=True))
    assert of(events, Compacted)
    assert of(events, RunEnded)[0].reason == "stop"
    sizes = [len(asked(request)) for request in model.requests]
    assert sizes[0] > sizes[1] > sizes[2]


@pytest.mark.parametrize("window", [WINDOW, 200_000, None])
async def test_less_input_is_less_also_where_every_message_is_short(window: int | None) -> None:
    history: list[Message] = []
    for number in range(1_000):
        history += [prompt(f"q{number}?"), said(f"a{number}.")]
    history.append(said("Done.", 9_000))
    model = ScriptedModel([OVERFLOW, OVERFLOW, SUMMARY])
    await agent(model, window=window).run(history=history, compact=True)
    lines = [asked(request).splitlines() for request in model.requests]
    assert len(lines[0]) > len(lines[1]) > len(lines[2]) > 10
    newest = lines[0][-10:]
    assert all(line[-10:] == newest for line in lines)


@pytest.mark.parametrize("bad", UNUSABLE.values(), ids=UNUSABLE.keys())
async def test_a_summary_that_stays_unusable_ends_the_run_and_changes_nothing(
    bad: ScriptItem,
) -> None:
    history = long_chat()
    model = ScriptedModel([bad] * 5)
    result = await failed(agent(model).run(history=history, compact=True))
    assert len(model.requests) == 3
    assert result.history == history


async def test_a_summary_with_all_but_a_section_is_better_than_none() -> None:
    lacking = SUMMARY.replace("## Decisions", "")
    for worse in [], [SUMMARY, finish("length")], OVERFLOW:
        model = ScriptedModel([lacking, worse, worse])
        events = await happened(agent(model).run(history=long_chat(), compact=True))
        assert len(of(events, Warned)) == 1
        assert of(events, MessageCommitted)[0].message.text == SUMMARY_PREFIX + lacking


@pytest.mark.parametrize("attempts", [1, 2, 4])
async def test_how_often_a_summary_is_asked_for_can_be_set(attempts: int) -> None:
    model = ScriptedModel([], default=[])
    holdfast = agent(model, summary_attempts=attempts)
    await failed(holdfast.run(history=long_chat(), compact=True))
    assert len(model.requests) == attempts


async def test_a_summary_request_that_does_not_fit_is_made_smaller() -> None:
    model = ScriptedModel([OVERFLOW, SUMMARY])
    events = await happened(agent(model).run(history=long_chat(), compact=True))
    assert of(events, RunEnded)[0].reason == "stop"
    assert len(asked(model.requests[1])) < len(asked(model.requests[0]))


async def test_a_summary_request_that_a_group_says_does_not_fit_is_made_smaller() -> None:
    overflow = ProviderError("too long", status=400, code="context_length_exceeded")
    model = ScriptedModel([fail(ExceptionGroup("of a task group", [overflow])), SUMMARY])
    events = await happened(agent(model).run(history=long_chat(), compact=True))
    assert of(events, RunEnded)[0].reason == "stop"
    assert len(asked(model.requests[1])) < len(asked(model.requests[0]))


@pytest.mark.parametrize("length", [1, 2, 3])
def test_what_is_shortened_for_a_summary_is_shorter_however_little_is_left(length: int) -> None:
    text = transcript(step("call_1", "a" * 500), result_length=length, room=None)
    assert len(text) < 100


# --- When the summary's model fails -------------------------------------------------------------


@pytest.mark.parametrize(
    ("trouble", "expected"),
    [
        (fail(status=529), "overloaded"),
        (fail(ConnectionResetError()), "network"),
        (hang(), "stream_silent"),
    ],
)
async def test_a_failed_summary_call_is_retried_by_the_policy(
    trouble: ScriptItem, expected: FailureKind
) -> None:
    model = ScriptedModel([trouble, trouble, SUMMARY])
    events = await happened(agent(model).run(history=long_chat(), compact=True))
    assert [event.kind for event in of(events, Retrying)] == [expected] * 2
    assert of(events, RunEnded)[0].reason == "stop"
    assert len({asked(request) for request in model.requests}) == 1


@pytest.mark.parametrize("question", [None, "Go on."])
async def test_the_waits_between_summary_calls_are_waited(question: str | None) -> None:
    """Also while a prompt waits for the summary to be done."""
    model = ScriptedModel([fail(status=529, retry_after=100), SUMMARY, "Done."])
    await agent(model).run(question, history=long_chat(), compact=True)
    assert now() == 100


async def test_a_steering_message_does_not_cut_the_wait_between_summary_calls_short() -> None:
    model = ScriptedModel([fail(status=529, retry_after=100), SUMMARY, "Done."])
    run = agent(model).run("Go on.", history=long_chat())
    async for event in run:
        if isinstance(event, Retrying):
            run.steer("Hurry.")
    assert now() == 100
    assert texts(model.requests[-1])[-2:] == ["Go on.", "Hurry."]


async def test_a_summary_call_that_will_not_succeed_ends_the_run_at_once() -> None:
    model = ScriptedModel([fail(status=401)])
    history = long_chat()
    result = await failed(agent(model).run("Go on.", history=history))
    assert kind(result) == "auth"
    assert [message.kind for message in result.new] == ["prompt"]


async def test_summary_calls_are_given_up_after_the_attempts_of_the_policy() -> None:
    model = ScriptedModel([], default=[say("half a summ"), fail(status=503)])
    holdfast = agent(model, retry=Retry(attempts=4, first_delay=0))
    history = long_chat()
    result = await failed(holdfast.run(history=history, compact=True))
    assert kind(result) == "overloaded"
    assert len(model.requests) == 4
    assert result.history == history


async def test_what_a_summary_cost_is_counted() -> None:
    model = ScriptedModel([[SUMMARY, usage(input=5_000, output=500)]])
    result = await agent(model).run(history=long_chat(), compact=True)
    assert result.summary.usage == Usage(5_000, 500)


# --- A model of its own -------------------------------------------------------------------------


async def test_a_model_of_its_own_writes_the_summaries_and_nothing_else() -> None:
    model = ScriptedModel(["Done."])
    scribe = ScriptedModel([SUMMARY], name="scripted:scribe")
    result = await agent(model, model=scribe).run("Go on.", history=long_chat())
    assert result.text == "Done."
    assert len(summaries(scribe)) == len(scribe.requests) == 1
    assert len(answers(model)) == len(model.requests) == 1


@pytest.mark.parametrize(
    ("own", "scribes", "compacted"),
    [
        (100_000, 10_000, True),
        (10_000, 100_000, True),
        (100_000, 100_000, False),
        (None, 10_000, True),
    ],
)
async def test_the_stricter_window_of_both_models_counts(
    own: int | None, scribes: int, compacted: bool
) -> None:
    model = ScriptedModel(["Done."], window=own)
    scribe = ScriptedModel([SUMMARY], name="scripted:scribe", window=scribes)
    holdfast = agent(model, window=None, model=scribe)
    await holdfast.run("Go on.", history=long_chat(tokens=9_000))
    assert len(scribe.requests) == compacted


@pytest.mark.parametrize("trouble", [fail(status=401), []])
async def test_who_failed_is_named(trouble: ScriptItem) -> None:
    scribe = ScriptedModel([], default=trouble, name="scripted:scribe")
    holdfast = agent(ScriptedModel([]), model=scribe)
    result = await failed(holdfast.run(history=long_chat(), compact=True))
    assert result.failure is not None
    assert result.failure.model == "scripted:scribe"
    assert result.failure.message.startswith("scripted:scribe ")


# --- What is shown ------------------------------------------------------------------------------


@pytest.mark.parametrize("asked_by", [None, "person", "overflow"])
async def test_people_see_the_summary_being_written(asked_by: AskedBy | None) -> None:
    script: list[ScriptedTurn] = [say(SUMMARY, chunks=3), "Done."]
    model = ScriptedModel([OVERFLOW, *script] if asked_by == "overflow" else script)
    holdfast = agent(model, threshold=100 if asked_by else 70)
    run = holdfast.run("Go on.", history=long_chat(), compact=asked_by == "person")
    events = await happened(run)
    compacting = of(events, Compacting)
    assert [event.asked_by for event in compacting] == [asked_by] * 4
    assert compacting[0].delta == ""
    assert "".join(event.delta for event in compacting) == SUMMARY
    assert [event.text for event in of(events, TextDelta)] == ["Done."]


async def test_the_end_of_a_compaction_is_shown_once_it_is_committed() -> None:
    events = await happened(agent(ScriptedModel([SUMMARY])).run(history=long_chat(), compact=True))
    shown = of(events, Compacting, MessageCommitted, Compacted)
    assert [type(event) for event in shown] == [
        Compacting,
        Compacting,
        MessageCommitted,
        MessageCommitted,
        Compacted,
    ]
    checkpoint = shown[2].message.checkpoint
    assert checkpoint is not None
    assert (shown[-1].before, shown[-1].after) == (checkpoint.before, checkpoint.after)


# --- What is committed --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked_by", "words"),
    [(None, "automatically"), ("person", "as asked"), ("overflow", "no longer fit")],
)
async def test_a_compaction_is_a_hidden_checkpoint_and_an_entry_for_people(
    asked_by: AskedBy | None, words: str
) -> None:
    script: list[ScriptedTurn] = [OVERFLOW] if asked_by == "overflow" else []
    model = ScriptedModel([*script, SUMMARY, "Done."])
    holdfast = agent(model, threshold=100 if asked_by else 70)
    history = long_chat(tokens=9_000)
    result = await holdfast.run("Go on.", history=history, compact=asked_by == "person")
    at = next(n for n, message in enumerate(result.history) if message.kind == "checkpoint")
    hidden, entry = result.history[at : at + 2]
    assert (hidden.role, hidden.visibility) == ("user", "model")
    assert hidden.text == SUMMARY_PREFIX + SUMMARY
    made = hidden.checkpoint
    assert made is not None
    assert made.summarized
    assert made.asked_by == asked_by
    assert made.before >= 9_000
    assert 0 < made.after < made.before
    assert (entry.kind, entry.visibility) == ("note", "user")
    assert words in entry.text
    assert f"{made.before:,}" in entry.text
    assert f"{made.after:,}" in entry.text


async def test_the_history_before_a_compaction_stays_readable() -> None:
    history = long_chat()
    result = await agent(ScriptedModel([SUMMARY, "Done."])).run("Go on.", history=history)
    assert result.history[: len(history)] == history
    assert load(dump(result.history)) == result.history


async def test_a_compacted_history_is_about_as_large_as_the_entry_says() -> None:
    model = ScriptedModel([SUMMARY, "Done."])
    result = await agent(model).run("Go on.", history=long_chat())
    (made,) = checkpoints(result.history)
    sent = sum(map(estimate, model.requests[-1].messages))
    before = sum(map(estimate, (*long_chat(), prompt("Go on."))))
    assert made.after / made.before == pytest.approx(sent / before, rel=0.2)


# --- What is kept -------------------------------------------------------------------------------


async def test_the_last_message_of_the_user_is_kept_verbatim() -> None:
    model = ScriptedModel([SUMMARY, "Done."])
    await agent(model, keep=0).run("Go on, exactly so.", history=long_chat())
    assert texts(model.requests[-1]) == [SUMMARY_PREFIX + SUMMARY, "Go on, exactly so."]


async def test_the_last_message_of_the_user_is_kept_however_long_ago_it_was() -> None:
    history = (prompt("Build it, exactly so."), *steps(30, 1_000, 9_000))
    model = ScriptedModel([SUMMARY, "Done."])
    await agent(model).run(history=history)
    request = model.requests[-1]
    assert texts(request)[:2] == [SUMMARY_PREFIX + SUMMARY, "Build it, exactly so."]
    assert_accepted(request)


async def test_the_newest_steps_are_kept_and_the_older_ones_summarized() -> None:
    history = (prompt("Go."), *steps(30, 1_000, 9_000))
    model = ScriptedModel([SUMMARY, "Done."])
    await agent(model, summary_tokens=500).run(history=history)
    kept = [r.call_id for message in model.requests[-1].messages for r in message.results]
    assert kept
    assert kept == [f"c{number}" for number in range(30 - len(kept), 30)]
    conversation = asked(model.requests[0])
    for number in range(30):
        assert (f'"c{number}"' in conversation) is (f"c{number}" not in kept)


@pytest.mark.parametrize("keep", [0, 5, 10, 20])
async def test_how_much_is_kept_can_be_set(keep: int) -> None:
    history = (prompt("Go."), *steps(30, 1_000, 9_000))
    model = ScriptedModel([SUMMARY, "Done."])
    await agent(model, keep=keep).run(history=history)
    kept = [message for message in model.requests[-1].messages if message.role != "user"]
    size = sum(map(estimate, kept))
    assert size <= WINDOW * keep // 100
    one_more = sum(map(estimate, steps(1, 1_000)))
    assert size + one_more > min(WINDOW * keep // 100, 9_000 // 4)


async def test_an_answer_that_was_given_up_is_not_taken_for_something_to_summarize() -> None:
    """It is there for people only: covering just that would win nothing."""
    history = (
        prompt("Hello? " * 20),
        Message("assistant", (Text("half a sen"),), "answer", "user", "error"),
        prompt("Hello again?"),
        said("Words. " * 50, 9_000),
    )
    model = ScriptedModel([SUMMARY])
    await agent(model).run(history=history, compact=True)
    assert "Words." in asked(model.requests[0])


Shape = list[tuple[int, list[int]]]
"""Turns: the length of the prompt, and of each step's result; 0 is a plain answer."""


def history_of(shape: Shape) -> list[Message]:
    history: list[Message] = []
    for number, (length, results) in enumerate(shape):
        history.append(prompt(f"prompt {number} " + "p" * length))
        for at, size in enumerate(results):
            id = f"t{number}s{at}"
            if size:
                history += step(id, "r" * size, words=id)
            else:
                history.append(said(id))
        if results and results[-1]:
            history.append(said(f"end of {number}"))
    return history


@given(
    shape=st.lists(
        st.tuples(st.integers(0, 3_000), st.lists(st.integers(0, 3_000), min_size=1, max_size=6)),
        min_size=1,
        max_size=6,
    ),
    keep=st.integers(0, 60),
    window=st.integers(1_000, 20_000),
)
async def test_whatever_is_compacted_the_next_request_is_accepted(
    shape: Shape, keep: int, window: int
) -> None:
    history = [prompt("Once"), said("upon a time. " * 100), *history_of(shape)]
    model = ScriptedModel([summary("x")], default="Done.")
    holdfast = agent(model, window=window, keep=keep, threshold=99, summary_attempts=1)
    compacted = await holdfast.run(history=history, compact=True)
    result = await holdfast.run("What next?", history=compacted.history)
    request = answers(model)[-1]
    assert_accepted(request)
    assert request.messages[0].text == SUMMARY_PREFIX + summary("x")
    said_last = [m.text for m in history if m.kind == "prompt"][-1]
    assert texts(request).count(said_last) == 1
    assert texts(request)[-1] == "What next?"
    # What is sent is the newest of the history, without a gap.
    rest = [message for message in request.messages[1:-1] if message.text != said_last]
    tail = [message for message in history if message.text != said_last]
    assert [m.parts for m in rest] == [m.parts for m in tail[len(tail) - len(rest) :]]
    assert result.text == "Done."


# --- Again and again ----------------------------------------------------------------------------


async def test_a_later_summary_updates_the_earlier_one() -> None:
    first = await compacted_once(summary("early"))
    history = (*first.history, prompt("Now the roof."), said("I roof it. " * 300, 9_000))
    model = ScriptedModel([summary("late")])
    result = await agent(model, keep=0).run(history=history, compact=True)
    request = asked(model.requests[0])
    assert f"<earlier-memory>\n{summary('early')}\n</earlier-memory>" in request
    assert "Now the roof." in request
    assert "I build it." not in request
    assert len(checkpoints(result.history)) == 2
    assert [m.text for m in view(result.history, Trim(4_000, 1_000))] == [
        SUMMARY_PREFIX + summary("late"),
        "Now the roof.",
    ]


async def test_the_input_of_a_later_summary_does_not_grow_with_the_history() -> None:
    history: tuple[Message, ...] = long_chat()
    sizes = []
    for number in range(5):
        model = ScriptedModel([SUMMARY])
        result = await agent(model, keep=0).run(history=history, compact=True)
        sizes.append(len(asked(model.requests[0])))
        more = (prompt(f"{number}? " * 100), said("I go on. " * 250, 9_000))
        history = (*result.history, *more)
    assert max(sizes[1:]) < 1.2 * min(sizes[1:])


# --- Overflow -----------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [WINDOW, None])
async def test_an_overflow_is_answered_with_a_compaction_and_one_more_try(
    window: int | None,
) -> None:
    model = ScriptedModel([OVERFLOW, SUMMARY, "Done."])
    run = agent(model, window=window).run("Go on.", history=long_chat(tokens=100))
    events = await happened(run)
    assert of(events, RunEnded)[0].reason == "stop"
    assert of(events, Retrying) == []
    assert [asks_for_summary(request) for request in model.requests] == [False, True, False]
    assert_accepted(model.requests[-1])


async def test_an_overflow_in_the_middle_of_a_turn_is_compacted_away() -> None:
    model = ScriptedModel([call("look"), OVERFLOW, SUMMARY, "Done."])
    holdfast = agent(model, window=None, tools=[bulky(60_000)])
    result = await holdfast.run("Go.", history=long_chat(tokens=100))
    assert result.text == "Done."
    assert_accepted(model.requests[-1])


async def test_a_second_overflow_before_an_answer_is_the_end() -> None:
    model = ScriptedModel([OVERFLOW, SUMMARY, OVERFLOW, "never asked"])
    result = await failed(agent(model, window=None).run("Go on.", history=long_chat()))
    assert kind(result) == "still_over_limit"
    assert model.left == 1
    assert result.reason == "error"


async def test_an_overflow_with_nothing_to_compact_is_the_end() -> None:
    model = ScriptedModel([OVERFLOW, "never asked"])
    result = await failed(agent(model, window=None).run("Hello?"))
    assert kind(result) == "still_over_limit"
    assert model.left == 1
    assert [message.kind for message in result.history] == ["prompt"]


async def test_a_first_message_that_does_not_fit_is_what_is_too_long() -> None:
    model = ScriptedModel([OVERFLOW, OVERFLOW])
    result = await failed(agent(model, instructions="Be brief.").run("word " * 40_000))
    assert result.failure is not None
    said = result.failure.message
    assert said.startswith("The message is too long for scripted:model: about 50,")
    assert said.endswith(
        " tokens with instructions and tools, and 10,000 fit. Shorten it, in place or in a new "
        "conversation, or use a model with a larger window."
    )
    again = await failed(agent(model).run("Shorter?", history=result.history))
    assert again.failure is not None
    assert "about 50," in again.failure.message  # the first is still there


@pytest.mark.parametrize("window", [None, WINDOW])
async def test_a_size_that_would_fit_is_not_held_against_a_provider(window: int | None) -> None:
    result = await failed(agent(ScriptedModel([OVERFLOW]), window=window).run("Hello?"))
    assert result.failure is not None
    assert "The message is too long" in result.failure.message
    assert "with instructions and tools. Shorten it" in result.failure.message


async def test_a_conversation_that_does_not_fit_is_not_taken_for_a_message() -> None:
    model = ScriptedModel([OVERFLOW, SUMMARY, OVERFLOW])
    result = await failed(agent(model, window=None).run("Go on.", history=long_chat()))
    assert result.failure is not None
    assert "The conversation is too long" in result.failure.message


async def test_an_overflow_right_after_a_compaction_on_request_is_the_end() -> None:
    first = await compacted_once()
    model = ScriptedModel([OVERFLOW, "never asked"])
    result = await failed(agent(model, window=None).run("Go on.", history=first.history))
    assert kind(result) == "still_over_limit"


async def test_another_trouble_after_an_overflow_is_retried_as_usual() -> None:
    model = ScriptedModel([OVERFLOW, SUMMARY, fail(status=529), "Done."])
    result = await agent(model, window=None).run("Go on.", history=long_chat())
    assert result.text == "Done."


async def test_an_overflow_that_is_over_an_answer_later_is_compacted_again() -> None:
    model = ScriptedModel(
        [OVERFLOW, SUMMARY, call("look"), OVERFLOW, SUMMARY, "Done."],
    )
    holdfast = agent(model, window=None, tools=[bulky(60_000)])
    result = await holdfast.run("Go on.", history=long_chat())
    assert result.text == "Done."


async def test_a_limit_that_came_with_an_overflow_is_what_the_compaction_aims_below() -> None:
    said_so = fail(ProviderError("prompt is too long", status=400, window=4_000))
    model = ScriptedModel([said_so, SUMMARY, "Done."])
    await agent(model, window=None).run("Go on.", history=long_chat(tokens=100))
    assert model.requests[1].settings.max_output_tokens == 4_000 // 4
    model = ScriptedModel([OVERFLOW, SUMMARY, "Done."])
    await agent(model, window=None).run("Go on.", history=long_chat(tokens=100))
    assert model.requests[1].settings.max_output_tokens == ContextLimits().summary_tokens


async def test_a_limit_that_came_with_an_overflow_counts_for_the_rest_of_the_run() -> None:
    said_so = fail(ProviderError("prompt is too long", status=400, window=4_000))
    fills = [call("look"), usage(input=2_000), "Well. " * 500]
    model = ScriptedModel([said_so, SUMMARY, fills, [call("look"), usage(input=3_000)], SUMMARY])
    with pytest.raises(RunFailed):  # the script ends here: more than this test wants to know
        await agent(model).run("Go on.", history=long_chat(tokens=100))
    asked_for = [asks_for_summary(request) for request in model.requests[:5]]
    assert asked_for == [False, True, False, False, True]


async def test_the_run_can_go_on_after_it_was_still_over_the_limit() -> None:
    model = ScriptedModel([OVERFLOW, SUMMARY, OVERFLOW])
    result = await failed(agent(model, window=None).run("Go on.", history=long_chat()))
    larger = ScriptedModel(["Done."])
    again = await agent(larger, window=None).run(history=result.history)
    assert again.text == "Done."
    assert_accepted(larger.requests[0])


# --- A compaction that does not help ------------------------------------------------------------


async def test_an_answer_that_is_over_the_threshold_again_right_away_is_the_end() -> None:
    """The system prefix and the tools alone may be too large."""
    model = ScriptedModel([SUMMARY, [call("look"), usage(input=7_100)], "never asked"])
    result = await failed(agent(model).run("Go on.", history=long_chat()))
    assert kind(result) == "still_over_limit"
    assert result.failure is not None
    assert "7000" in result.failure.detail
    assert model.left == 1


async def test_a_final_answer_that_is_over_the_threshold_again_is_still_an_answer() -> None:
    model = ScriptedModel([SUMMARY, ["Done.", usage(input=7_100)]])
    result = await agent(model).run("Go on.", history=long_chat())
    assert (result.reason, result.text) == ("stop", "Done.")


def grows(count: int) -> list[ScriptedTurn]:
    """Steps that come under the threshold after a summary and then go over it again."""
    script: list[ScriptedTurn] = []
    for _ in range(count):
        script += [
            SUMMARY,
            [say("Words. " * 200), call("look"), usage(input=3_000)],
            [say("Words. " * 200), call("look"), usage(input=7_500)],
        ]
    return script


async def test_a_turn_is_compacted_as_often_as_it_needs() -> None:
    model = ScriptedModel([*grows(20)[:-1], "Done."])
    result = await agent(model).run("Go on.", history=long_chat())
    assert result.text == "Done."
    assert len(checkpoints(result.history)) == 20


async def test_a_long_answer_right_after_a_summary_is_not_the_end() -> None:
    """The summary helped: its request was small, and what fills the window now is the answer."""
    model = ScriptedModel(
        [
            SUMMARY,
            [say("Words. " * 2_500), call("look"), usage(input=3_000, output=4_500)],
            SUMMARY,
            "Done.",
        ]
    )
    result = await agent(model).run("Go on.", history=long_chat())
    assert result.text == "Done."


OVER_AGAIN: Final = [say("Words. " * 200), call("look"), usage(input=7_100)]


async def test_a_run_that_goes_on_after_it_was_still_over_the_limit_tries_again() -> None:
    model = ScriptedModel([SUMMARY, OVER_AGAIN])
    result = await failed(agent(model).run("Go on.", history=long_chat()))
    model = ScriptedModel([SUMMARY, [say("Words."), call("look"), usage(input=3_000)], "Done."])
    again = await agent(model).run(history=result.history)
    assert again.text == "Done."
    assert len(summaries(model)) == 1


async def test_another_try_that_does_not_help_fails_again() -> None:
    model = ScriptedModel([SUMMARY, OVER_AGAIN])
    result = await failed(agent(model).run("Go on.", history=long_chat()))
    model = ScriptedModel([SUMMARY, OVER_AGAIN, "never asked"])
    again = await failed(agent(model).run(history=result.history))
    assert kind(again) == "still_over_limit"
    assert model.left == 1


async def test_another_try_with_a_larger_window_needs_no_summary() -> None:
    model = ScriptedModel([SUMMARY, OVER_AGAIN])
    result = await failed(agent(model).run("Go on.", history=long_chat()))
    larger = ScriptedModel(["Done."])
    again = await agent(larger, window=50_000).run(history=result.history)
    assert again.text == "Done."
    assert summaries(larger) == []


async def test_the_failure_says_how_much_is_too_much_and_what_a_person_can_do() -> None:
    model = ScriptedModel([SUMMARY, OVER_AGAIN])
    result = await failed(agent(model).run("Go on.", history=long_chat()))
    assert result.failure is not None
    assert result.failure.message == (
        "The conversation is too long for scripted:model, even after it was summarized: it has "
        "about 7,111 tokens and 7,000 are allowed. Retry to summarize it again, use a model with "
        "a larger window, or start a new conversation."
    )


async def test_a_summary_that_cannot_be_had_is_said_to_be_that() -> None:
    model = ScriptedModel([say(""), say(""), say(""), "never asked"])
    result = await failed(agent(model).run("Go on.", history=long_chat()))
    assert result.failure is not None
    assert result.failure.message == (
        "scripted:model could not summarize the conversation: the summary is empty. "
        "Retry, or use another model."
    )
    model = ScriptedModel([[say(SUMMARY), finish("length")]] * 3)
    result = await failed(agent(model).run("Go on.", history=long_chat()))
    assert result.failure is not None
    assert result.failure.message == (
        "scripted:model could not summarize the conversation: the summary was cut off. "
        "Retry, or use another model."
    )


async def test_the_next_turn_is_compacted_after_a_failure() -> None:
    holdfast = agent(ScriptedModel([SUMMARY, OVER_AGAIN]))
    result = await failed(holdfast.run("Go on.", history=long_chat()))
    model = ScriptedModel([SUMMARY, "Done."])
    again = await agent(model).run("And now?", history=result.history)
    assert again.text == "Done."
    assert len(summaries(model)) == 1


# --- Context messages ---------------------------------------------------------------------------


def about(text: str, role: MessageRole = "system") -> Message:
    return Message(role, (Text(text),), "context", "model")


def starts(model: ScriptedModel) -> list[tuple[str, ...]]:
    """The texts before the summary, of each request for an answer."""
    found = []
    for request in answers(model):
        at = next((i for i, m in enumerate(request.messages) if m.checkpoint is not None), 0)
        found.append(tuple(texts(request)[:at]))
    return found


@pytest.mark.parametrize("role", ["system", "user"])
async def test_context_survives_every_summary_at_the_beginning_of_the_requests(
    role: MessageRole,
) -> None:
    first, *rest = long_chat()
    history = (first, about("Use tabs.", role), *rest)
    model = ScriptedModel([*grows(5)[:-1], "Done."])
    result = await agent(model).run("Go on.", history=history)
    assert result.text == "Done."
    assert len(checkpoints(result.history)) == 5
    assert set(starts(model)) == {("Use tabs.",)}
    for request in answers(model):
        assert [m for m in request.messages if m.kind == "context"] == [history[1]]


async def test_context_that_came_later_is_put_after_what_was_there() -> None:
    history = (*long_chat()[:2], about("Use tabs."), *long_chat()[2:])
    first = await agent(ScriptedModel([SUMMARY])).run(history=history, compact=True)
    more = (prompt("And?"), about("Say please."), said("I say it. " * 300, 9_000))
    model = ScriptedModel([SUMMARY, "Done."])
    result = await agent(model, keep=0).run("Go on.", history=(*first.history, *more))
    assert result.text == "Done."
    assert starts(model) == [("Use tabs.", "Say please.")]


async def test_context_that_is_pinned_is_not_summarized_as_well() -> None:
    model = ScriptedModel([SUMMARY, "Done."])
    await agent(model).run("Go on.", history=(about("Use tabs."), *long_chat()))
    assert "Use tabs." not in asked(summaries(model)[0])


async def test_context_beyond_its_share_is_cut_and_then_left_out_from_the_oldest_on() -> None:
    old, middle, new = (about(letter * 2_000) for letter in "abc")
    history = (old, middle, new, *long_chat())
    model = ScriptedModel([SUMMARY, "Done."])
    await agent(model, context_tokens=800).run("Go on.", history=history)
    ((cut, whole),) = starts(model)
    assert whole == "c" * 2_000
    assert cut.startswith("b" * 100)
    assert cut.endswith("b" * 100)
    assert "characters cut" in cut
    assert len(cut) < 1_300
    assert "a" * 100 in asked(summaries(model)[0])  # what is not pinned is summarized


async def test_the_share_of_context_is_an_eighth_of_the_window_at_most() -> None:
    history = (about("a" * 40_000), *long_chat())
    model = ScriptedModel([SUMMARY, "Done."])
    await agent(model).run("Go on.", history=history)
    ((cut,),) = starts(model)
    assert len(cut) // 4 == pytest.approx(WINDOW // 8, rel=0.05)


async def test_context_that_was_given_twice_is_pinned_once() -> None:
    history = (about("Use tabs."), *long_chat()[:2], about("Use tabs."), *long_chat()[2:])
    model = ScriptedModel([SUMMARY, "Done."])
    await agent(model).run("Go on.", history=history)
    assert starts(model) == [("Use tabs.",)]


async def test_without_a_share_no_context_survives() -> None:
    model = ScriptedModel([SUMMARY, "Done."])
    history = (about("Use tabs."), *long_chat())
    await agent(model, context_tokens=0).run("Go on.", history=history)
    assert starts(model) == [()]


async def test_context_survives_that_an_earlier_version_covered_without_it() -> None:
    covered = Checkpoint(4, 4, 9_000, 900)
    earlier = Message(
        "user", (Text(SUMMARY_PREFIX + SUMMARY),), "checkpoint", "model", checkpoint=covered
    )
    history = (about("Use tabs."), *long_chat(), earlier, prompt("?"), said("I. " * 900, 9_000))
    model = ScriptedModel([SUMMARY, "Done."])
    await agent(model).run("Go on.", history=history)
    assert starts(model) == [("Use tabs.",)]


async def test_shortening_alone_leaves_context_where_it_is() -> None:
    history = (prompt("Go."), about("Use tabs."), *steps(10, 8_000, 19_000))
    model = ScriptedModel(["Done."])
    await agent(model, window=30_000).run(history=history)
    assert texts(model.requests[0])[:2] == ["Go.", "Use tabs."]


# --- On request ---------------------------------------------------------------------------------


def never(_context: Context, stopping: Stopping) -> Inject:
    raise AssertionError("the guard was asked")


@pytest.mark.parametrize("options", [{}, {"threshold": 100}, {"window": None}])
async def test_a_finished_chat_is_summarized_on_request_and_nothing_else_happens(
    options: dict[str, Any],
) -> None:
    model = ScriptedModel([SUMMARY])
    history = long_chat(tokens=100)
    result = await agent(model, guard=never, **options).run(history=history, compact=True)
    assert result.reason == "stop"
    assert len(summaries(model)) == len(model.requests) == 1
    assert result.history[: len(history)] == history
    assert [message.kind for message in result.new] == ["checkpoint", "note"]


async def test_what_the_model_was_just_told_is_kept_whole() -> None:
    """By the guard, for example: nobody has answered it yet, so no summary stands for it."""
    objection = "Not yet. " * 1_000
    objections = iter([Inject(objection)])
    answer = ["I paint it.", usage(input=LIMIT, output=10)]
    model = ScriptedModel([answer, SUMMARY, "Done."])
    guarded = agent(model, guard=lambda context, _: next(objections, None))
    result = await guarded.run("Paint it.", history=long_chat(tokens=100))
    assert result.text == "Done."
    assert len(summaries(model)) == 1
    assert texts(model.requests[-1])[-1] == objection


async def test_a_compaction_on_request_comes_before_the_prompt_that_is_with_it() -> None:
    model = ScriptedModel([SUMMARY, "Done."])
    result = await agent(model).run("Go on.", history=long_chat(tokens=100), compact=True)
    assert result.text == "Done."
    assert [message.kind for message in result.new] == ["checkpoint", "note", "prompt", "answer"]
    assert "Go on." not in asked(model.requests[0])
    assert texts(model.requests[1])[-1] == "Go on."
    assert_accepted(model.requests[1])


async def test_a_chat_that_is_not_at_rest_goes_on_after_it_was_summarized() -> None:
    model = ScriptedModel([SUMMARY, "Done."])
    history = (*long_chat(tokens=100), prompt("Go on."))
    result = await agent(model).run(history=history, compact=True)
    assert result.text == "Done."
    assert texts(model.requests[1])[-1] == "Go on."


async def test_a_compaction_on_request_waits_until_open_calls_are_answered() -> None:
    opened = Message("assistant", (ToolCall("c1", "ask", "{}"),), "answer")
    client = Tool(name="ask", description="Ask.", schema={"type": "object"})
    history = (*long_chat(tokens=100), prompt("Ask them."), opened)
    model = ScriptedModel([SUMMARY, "Done."])
    holdfast = agent(model, tools=[client])
    result = await holdfast.run(history=history, resolve={"c1": "they said yes"}, compact=True)
    assert [m.kind for m in result.new] == ["results", "checkpoint", "note", "answer"]
    assert_accepted(model.requests[-1])


async def test_a_chat_without_an_answer_has_nothing_to_summarize() -> None:
    with pytest.raises(ConfigError, match="nothing to compact"):
        agent(ScriptedModel([SUMMARY])).run(history=[prompt("Tell me.")], compact=True)


async def test_a_chat_that_was_just_summarized_is_not_summarized_again() -> None:
    first = await compacted_once()
    with pytest.raises(ConfigError, match="nothing to compact"):
        agent(ScriptedModel([SUMMARY])).run(history=first.history, compact=True)


async def test_a_turn_after_a_compaction_goes_as_usual() -> None:
    first = await compacted_once()
    model = ScriptedModel([[call("look", at="home")], "Done."])
    result = await agent(model).run("Look.", history=first.history)
    assert result.text == "Done."
    for request in model.requests:
        assert_accepted(request)
        assert request.messages[0].text == SUMMARY_PREFIX + SUMMARY
    assert model.requests[1].messages[: len(model.requests[0].messages)] == (
        model.requests[0].messages
    )


async def test_what_was_kept_is_not_asked_for_again_in_the_turn_after() -> None:
    """A chat at rest ends with an answer: the model must see that its last prompt was answered."""
    history = (*long_chat(tokens=100)[:-1], said("It is painted.", 9_000))
    model = ScriptedModel([SUMMARY, "Done."])
    holdfast = agent(model)
    first = await holdfast.run(history=history, compact=True)
    await holdfast.run("And now?", history=first.history)
    assert texts(model.requests[-1])[-2:] == ["It is painted.", "And now?"]


# --- People meanwhile ---------------------------------------------------------------------------


async def interrupted_after(seconds: float, run: Run) -> RunResult:
    asyncio.get_running_loop().call_later(seconds, run.interrupt)
    return await run


@pytest.mark.parametrize(
    "turn",
    [
        [say("## Goal"), pause(10), say(SUMMARY)],
        [pause(10), say(SUMMARY)],
        fail(status=529, retry_after=100),
    ],
)
async def test_an_interrupt_during_a_summary_leaves_the_history_as_it_was(
    turn: ScriptedTurn,
) -> None:
    history = long_chat()
    model = ScriptedModel([turn])
    result = await interrupted_after(5, agent(model).run("Go on.", history=history))
    assert result.reason == "interrupted"
    assert result.history[: len(history)] == history
    assert [message.kind for message in result.new] == ["prompt", "marker"]
    assert now() == 5


async def test_a_summary_is_written_from_markers_in_the_words_of_the_policy() -> None:
    model = ScriptedModel([SUMMARY])
    limits, words = ContextLimits(keep=0), Wording(interrupted_tools="[stopped you]")
    policy = Policy(context=limits, wording=words)
    history = (prompt("?"), marker("interrupted_tools"), *long_chat())
    await Agent(model=model, policy=policy, ports=ports()).run(history=history, compact=True)
    conversation = asked(model.requests[0])
    assert "user: [stopped you]" in conversation
    assert MARKER_TEXTS["interrupted_tools"] not in conversation


async def test_an_interrupted_summary_on_request_leaves_no_trace() -> None:
    history = long_chat()
    model = ScriptedModel([[pause(10), SUMMARY]])
    run = agent(model).run(history=history, compact=True)
    result = await interrupted_after(5, run)
    assert result.reason == "interrupted"
    assert result.history == history


async def test_an_interrupted_compaction_is_made_up_for_in_the_next_turn() -> None:
    model = ScriptedModel([hang(), SUMMARY, "Done."])
    holdfast = agent(model)
    result = await interrupted_after(5, holdfast.run("Go on.", history=long_chat()))
    again = await holdfast.run("Well?", history=result.history)
    assert again.text == "Done."
    assert_accepted(model.requests[-1])


async def test_a_message_that_arrives_during_a_summary_is_delivered_after_it() -> None:
    model = ScriptedModel([[say("## Goal"), lambda request: run.steer("Hurry."), SUMMARY], "Done."])
    run = agent(model).run("Go on.", history=long_chat())
    events = await happened(run)
    delivered = of(events, Delivered)
    assert [event.why for event in delivered] == ["steering"]
    assert events.index(of(events, Compacted)[0]) < events.index(delivered[0])
    assert texts(model.requests[-1])[-2:] == ["Go on.", "Hurry."]


async def test_a_message_that_arrives_during_a_summary_on_request_is_answered() -> None:
    model = ScriptedModel([[lambda request: run.steer("Hello?"), SUMMARY], "Done."])
    run = agent(model).run(history=long_chat(), compact=True)
    result = await run
    assert result.text == "Done."
    assert [m.kind for m in result.new] == ["checkpoint", "note", "prompt", "answer"]


async def test_leaving_the_run_during_a_summary_leaves_nothing_behind() -> None:
    model = ScriptedModel([[say("## Goal"), hang()]])
    async with agent(model).run("Go on.", history=long_chat()) as run:
        async for event in run:
            if isinstance(event, Compacting) and event.delta:
                break
    assert len(run.history) == len(long_chat()) + 1
