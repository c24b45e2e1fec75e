"""What the demo model streams: always an answer, always the same, and never a claim to be more."""

from __future__ import annotations

from typing import Any

import anyio
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.errors import ConfigError
from holdfast.kernel.errors import ProviderError, classify
from holdfast.kernel.messages import (
    Message,
    Reasoning,
    ToolCall,
    ToolResult,
    Usage,
    results_message,
    user_message,
)
from holdfast.kernel.model import Block, Delta, Finished, Request, Shape, TextDelta
from holdfast.kernel.summary_checkpoint import SUMMARY_INSTRUCTIONS
from holdfast.messages import File, Text
from holdfast.models import Settings
from holdfast.providers.demo import SPEECH, Demo
from holdfast.providers.demo.parser import FAILURES
from tests.kernel.runs import now
from tests.providers.demo.requests import (
    ALL,
    answer,
    ask,
    called,
    deltas,
    message_of,
    specs,
    weather,
)


def check_stream(heard: list[Delta]) -> None:
    assert [type(delta) for delta in heard].count(Finished) == 1
    assert isinstance(heard[-1], Finished)
    message = message_of(heard)
    assert message.text.strip() or message.calls
    assert (message.finish == "tool_calls") == bool(message.calls)


FRAGMENTS = (
    *("list", "read", "write", "then", ";", "say", "call", "weather", "{", "}", "to", "a.txt"),
    *(":", "\n", "-", "1.", "`", "```", "ask me", "think", "plan", "long answer", "markdown"),
    *("help", "slowly", "=", "bad arguments", "\ud800", "\x00", "é", "in", "with", "->"),
)


@given(st.text() | st.lists(st.sampled_from(FRAGMENTS), max_size=12).map(" ".join))
@example("")
@example("say \u200b")
@example("say ` `")
@example("read \ud800")
@example("think about {x} for 0 steps")
@example("be slow; be slow")
async def test_any_prompt_is_answered_and_always_the_same(prompt: str) -> None:
    message = Message("user", (Text(prompt),), "prompt")
    request = Request(messages=(message,), tools=specs(*ALL))
    first, second = await deltas(request), await deltas(request)
    assert first == second
    check_stream(first)


PARTS = st.one_of(
    st.builds(Text, st.text(max_size=20)),
    st.builds(ToolCall, st.sampled_from("ab"), st.sampled_from(["read_file", "x"]), st.text()),
    st.builds(
        ToolResult,
        st.sampled_from("ab"),
        st.sampled_from(["read_file", "ask_user", "x"]),
        st.tuples(st.builds(Text, st.text(max_size=30)) | st.builds(File, st.text(max_size=5))),
        st.sampled_from(["ok", "failed", "timed_out", "edited", "lost"]),
    ),
    st.builds(File, st.text(max_size=5), st.none() | st.text(max_size=5), st.binary(max_size=9)),
)
MESSAGES = st.builds(
    Message,
    st.sampled_from(["user", "assistant", "tool", "system"]),
    st.lists(PARTS, max_size=3).map(tuple),
    st.sampled_from(["prompt", "answer", "results", "injected", "marker", "context"]),
    finish=st.sampled_from([None, "length", "stop"]),
)


@given(st.lists(MESSAGES, max_size=6))
async def test_any_history_is_answered(messages: list[Message]) -> None:
    check_stream(await deltas(Request(messages=tuple(messages), tools=specs(*ALL))))


# --- Words --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ("say hello", "hello"),
        ("say a, then say b", "a\n\nb"),
        ("think", f"{SPEECH}\n\nI thought for 3 steps: there is nothing more to it."),
        ("hello", f"{SPEECH} Say `help` to see what I can do."),
        ("blah", f"{SPEECH} I did not understand “blah”. Say `help` to see what I can do."),
    ],
)
async def test_it_says_what_it_is_unless_it_repeats_your_words(prompt: str, text: str) -> None:
    assert SPEECH == "I am the demo model: a small program, not a language model."
    assert (await answer(ask(prompt))).text == text


async def test_it_says_so_once_in_a_conversation() -> None:
    before = (user_message("say hi"), Message("assistant", (Text("hi"),), "answer"))
    request = Request(messages=(*before, user_message("plan a party")))
    assert (await answer(request)).text.startswith("A plan for a party:\n\n1. ")
    assert SPEECH in (await answer(Request(messages=request.messages[-1:]))).text


async def test_help_names_only_tools_that_are_there() -> None:
    some, none = await answer(ask("help", *ALL)), await answer(ask("help"))
    assert '`call weather {"city": "demo"}`' in some.text
    assert "`read README.md`" in some.text
    assert "`ask me`" not in some.text
    assert "`read README.md`" not in none.text
    assert "`--dir`" in none.text
    assert "`say hello`" in none.text


@pytest.mark.parametrize("count", [1, 500, 20_000])
async def test_a_long_answer_is_as_long_as_is_asked_for(count: int) -> None:
    assert len((await answer(ask(f"long answer of {count:,} words"))).text.split()) == count


async def test_a_paragraph_of_a_long_answer_ends_where_a_sentence_does() -> None:
    text = (await answer(ask("long answer of 500 words"))).text
    *whole, _cut = text.split("\n\n")
    assert len(whole) > 5
    assert [paragraph for paragraph in whole if not paragraph.endswith(".")] == []


async def test_files_are_named_with_type_and_size() -> None:
    picture, there = File("image/png", "a.png", b"x" * 123), File("text/plain", ref="somewhere")
    text = (await answer(ask([Text("say hi"), picture, there]))).text
    assert "I was given `a.png` (image/png, 123 bytes)." in text
    assert text.endswith("I was given a file without a name (text/plain).\n\nhi")


def reasoning(message: Message) -> int:
    """How many steps of it."""
    return "".join(part.text for part in message.parts if isinstance(part, Reasoning)).count("Step")


async def test_it_thinks_as_much_as_is_asked_for_and_counts_it() -> None:
    message = await answer(ask("think about trees for 5 steps"))
    assert reasoning(message) == 5
    assert message.usage is not None
    assert 0 < message.usage.reasoning < message.usage.output
    efforts: tuple[Any, ...] = (None, "none", "minimal", "medium", "max")
    steps = [reasoning(await answer(ask("list", *ALL, effort=effort))) for effort in efforts]
    assert steps == [0, 0, 1, 3, 6]
    assert reasoning(await answer(ask("think", effort="none"))) == 0


@pytest.mark.parametrize(("prompt", "text"), [("blah", '{"n": 0}'), ("list; say x", "x")])
async def test_an_answer_has_the_form_that_is_asked_for(prompt: str, text: str) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    assert (await answer(ask(prompt, output=Shape(schema)))).text == text


# --- Tokens and time ----------------------------------------------------------------------------


async def test_usage_grows_with_what_is_said() -> None:
    prompts = ask("say a"), ask("say a", *ALL), ask("say " + "word " * 100)
    short, tools, long = [(await answer(prompt)).usage or Usage() for prompt in prompts]
    assert short.input < long.input
    assert short.input < tools.input
    assert 0 < short.output < long.output
    assert short.cost == 0  # which is known: nobody asks for money


async def test_an_answer_keeps_to_its_limit_and_goes_on_where_it_was_cut() -> None:
    whole = (await answer(ask("long answer of 100 words"))).text
    messages, pieces = [user_message("long answer of 100 words")], []
    for _ in range(20):
        request = Request(messages=tuple(messages), settings=Settings(max_output_tokens=40))
        message = await answer(request)
        assert message.usage is not None
        assert message.usage.output <= 40
        pieces.append(message.text)
        if message.finish == "stop":
            break
        assert message.finish == "length"
        recovery = Message("user", (Text("Go on."),), "injected", "model", why="recovery")
        messages += [message, recovery]
    assert len(pieces) > 2
    assert "".join(pieces) == whole


async def test_what_is_larger_than_its_window_is_refused() -> None:
    with pytest.raises(ProviderError) as raised:
        await deltas(ask("say " + "word " * 2_000), Demo(pace=0, window=1_000))
    assert (raised.value.kind, raised.value.window) == ("context_overflow", 1_000)


async def test_words_arrive_one_by_one_at_its_pace() -> None:
    began = now()
    heard: list[tuple[float, str]] = []
    async for delta in Demo(pace=0.25).stream(ask("say one two three")):
        if isinstance(delta, TextDelta):
            heard.append((now() - began, delta.text))
    assert heard == [(0.25, "one"), (0.5, " two"), (0.75, " three")]


@pytest.mark.parametrize(
    ("prompt", "seconds"),
    [("long answer", 0), ("slowly say one two three", 1.5), ("wait 90 seconds", 90)],
)
async def test_it_takes_its_time_only_when_asked_to(prompt: str, seconds: float) -> None:
    began = now()
    await deltas(ask(prompt), Demo(pace=0))
    assert now() - began == seconds


# --- Failures -----------------------------------------------------------------------------------

RAISED = [kind for kind in FAILURES if not kind.startswith(("stream_", "empty_"))]


@pytest.mark.parametrize("kind", RAISED)
async def test_it_fails_as_asked_and_as_often(kind: str) -> None:
    model, request = Demo(pace=0), ask(f"fail twice with {kind}")
    for attempt in ("attempt 1", "attempt 2"):
        with pytest.raises(ProviderError, match=attempt) as raised:
            await deltas(request, model)
        assert classify(raised.value).kind == kind
    assert "Attempt 3 went through." in (await answer(request, model)).text
    with pytest.raises(ProviderError, match="attempt 1"):  # as if it were new
        await deltas(request, model)


async def test_a_stream_can_be_cut_empty_or_silent() -> None:
    model = Demo(pace=0)
    cut = await deltas(ask("cut"), model)
    assert {type(delta) for delta in cut} == {TextDelta}
    assert isinstance((await deltas(ask("cut"), model))[-1], Finished)
    assert await deltas(ask("empty"), model) == [Finished()]
    with anyio.move_on_after(1_000) as patience:
        await deltas(ask("silent"), model)
    assert patience.cancelled_caught


async def test_kinds_of_failure_follow_one_another_and_requests_are_counted_apart() -> None:
    model = Demo(pace=0)
    for prompt in ("say a", "say b"):
        request = ask(f"{prompt}, then fail once with network, then fail once with timeout")
        for kind in ("network", "timeout"):
            with pytest.raises(ProviderError) as raised:
                await deltas(request, model)
            assert raised.value.kind == kind
        assert "Attempt 3 went through." in (await answer(request, model)).text


# --- Calls, results and summaries ---------------------------------------------------------------


async def test_a_tool_that_is_not_there_is_not_called() -> None:
    message = await answer(ask("call wether", weather))
    assert not message.calls
    assert "There is no tool `wether` here: on offer are `weather`." in message.text
    for prompt in ("list", "read x", "write a to b.txt", "run a", "use many tools at once"):
        missing = await answer(ask(prompt, weather))
        assert not missing.calls
        assert "--dir" in missing.text


async def test_many_calls_and_mistakes_are_made_on_request() -> None:
    many = await answer(ask("use many tools at once", *ALL))
    assert [call.tool for call in many.calls] == ["list_files", "read_file", "search_files"]
    assert len({call.id for call in many.calls}) == 3
    prompts = ("call an unknown tool", "bad arguments for weather", "wrong arguments")
    unknown, broken, wrong = [(await answer(ask(one, *ALL))).calls[0] for one in prompts]
    assert unknown.tool not in [one.name for one in ALL]
    assert (broken.tool, broken.complaint is None) == ("weather", False)
    assert (wrong.tool, wrong.complaint is None) == ("list_files", True)
    assert not (await answer(ask("bad arguments"))).calls


async def test_text_that_only_an_escape_can_say_arrives() -> None:
    message = await answer(ask("run \ud800\x00 é", *ALL))
    assert called(message) == [("execute", {"command": "\ud800\x00 é"})]
    assert (await answer(ask("run é", *ALL))).calls[0].arguments == '{"command": "é"}'


TWELVE = "\n".join(map(str, range(12)))


@pytest.mark.parametrize(
    ("tool", "outcome", "text", "told"),
    [
        ("read_file", "ok", "x", "`read_file` (`a.txt`) returned:\n\n```\nx\n```"),
        ("weather", "ok", "", "`weather` returned."),
        ("write_file", "refused", "x", "`write_file` (`a.txt`) refused:\n\n```\nx\n```"),
        ("execute", "timed_out", "x", "`execute` timed out:\n\n```\nx\n```"),
        ("weather", "ok", "```\ny", "`weather` returned:\n\n````\n```\ny\n````"),
        ("weather", "ok", "z" * 500, f"`weather` returned:\n\n```\n{'z' * 199}…\n```"),
        (
            "weather",
            "ok",
            TWELVE,
            f"`weather` returned:\n\n```\n{TWELVE[:19]}\n```\n\n… and 2 more lines.",
        ),
    ],
)
async def test_it_tells_what_came_of_a_call(tool: str, outcome: Any, text: str, told: str) -> None:
    said = Message("assistant", (ToolCall("c", tool, '{"path": "a.txt"}'),), "answer")
    result = results_message([ToolResult("c", tool, (Text(text),), outcome)])
    request = Request(messages=(user_message("call weather"), said, result), tools=specs(*ALL))
    assert (await answer(request)).text == told


@pytest.mark.parametrize(("newer", "goal", "done"), [("", "old", 5), ("user: why?\n", "why?", 1)])
async def test_a_summary_has_every_section_and_counts_steps(
    newer: str, goal: str, done: int
) -> None:
    talk = (
        "<earlier-memory>\n## State of work\n- Asked: old\n## Files touched\n- File: old.txt\n"
        "## Next steps\nSteps of the last request that are done: 4.\n</earlier-memory>\n\n"
        f'<conversation>\n{newer}assistant calls read_file({{"path": "a.txt"}})\n'
        "assistant calls weather({})\nweather returned (ok): x\n</conversation>"
    )
    request = Request(system=(Block(SUMMARY_INSTRUCTIONS),), messages=(user_message(talk),))
    asked = "- Asked: old\n- Asked: why?" if newer else "- Asked: old"
    assert (await answer(request)).text == (
        f"## Goal\n{goal}\n## Constraints\nNone known.\n## Decisions\nNone known.\n"
        f"## State of work\n{asked}\n## Files touched\n- File: old.txt\n- File: a.txt\n"
        "## Open questions\nNone known.\n## Next steps\nAnswer the newest message.\n"
        f"Steps of the last request that are done: {done}."
    )


@pytest.mark.parametrize(
    "wrong", [{"pace": -1}, {"pace": "fast"}, {"pace": True}, {"pace": float("nan")}, {"window": 0}]
)
def test_options_that_cannot_be_right_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="use a number"):
        Demo(**wrong)
