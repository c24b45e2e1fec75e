from __future__ import annotations

from typing import Any, get_args

import pytest

from holdfast.kernel.events import (
    Compacted,
    Compacting,
    Delivered,
    Event,
    HandedOver,
    MessageCommitted,
    OutputDelta,
    Retrying,
    RunEnded,
    RunStarted,
    StepStarted,
    Summary,
    ToolCalled,
    ToolFinished,
    ToolStarted,
    Warned,
)
from holdfast.kernel.messages import (
    File,
    Message,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    decode,
    encode,
)
from holdfast.kernel.model import ArgumentsDelta, CallStarted, ReasoningDelta, TextDelta
from holdfast.live.buffer import DeltaRange
from holdfast.live.delta_fragments import Fragment, Omitted, fragment_of, parts_of, shortened
from tests.live.fixtures import FIRST, finished, in_few, progress

SHOWN: list[Fragment] = [
    TextDelta("hello"),
    ReasoningDelta("hm"),
    CallStarted("a", "execute"),
    ArgumentsDelta("a", '{"x":'),
    ToolCalled(ToolCall("a", "execute", '{"x": 1}')),
    ToolStarted("a", "execute", "run it"),
    progress("half way"),
    finished("done"),
    Compacting("person", "in short"),
    Compacting(None),
    Warned("look out"),
]
NOT_SHOWN: list[Event] = [
    RunStarted(1),
    StepStarted(1, 1, 10),
    MessageCommitted(Message("assistant", (Text("hello"),), "answer"), 1),
    Retrying(1, 3, 0.5, 0, "network", "no route"),
    Compacted(100, 10, True),
    OutputDelta({"name": "Os"}),
    Delivered("steering", ()),
    HandedOver("triage", "billing"),
    RunEnded("stop", Summary()),
]


def test_of_every_event_it_is_decided_whether_it_is_shown() -> None:
    assert {type(event) for event in [*SHOWN, *NOT_SHOWN]} == set(get_args(Event))
    assert [fragment_of(event) for event in SHOWN if not isinstance(event, Omitted)] == SHOWN
    assert [fragment_of(event) for event in NOT_SHOWN] == [None] * len(NOT_SHOWN)


@pytest.mark.parametrize("event", [TextDelta(""), ReasoningDelta(""), ArgumentsDelta("a", "")])
def test_a_piece_that_says_nothing_is_not_shown(event: Any) -> None:
    assert fragment_of(event) is None


@pytest.mark.parametrize("fragment", [*SHOWN, Omitted(("a", "b")), TextDelta("\ud83d\x00\ue000")])
def test_a_delta_comes_back_from_json_as_it_was(fragment: Fragment) -> None:
    delta = DeltaRange(FIRST, 3, 7, fragment)
    assert decode(encode(delta), DeltaRange) == delta


def test_only_neighbours_that_say_more_of_the_same_are_joined() -> None:
    assert in_few(
        [
            TextDelta("a"),
            TextDelta("b"),
            ReasoningDelta("c"),
            TextDelta("d"),
            ArgumentsDelta("a", "1"),
            ArgumentsDelta("a", "2"),
            ArgumentsDelta("b", "3"),
            Compacting(None, "e"),
            Compacting(None, "f"),
            Compacting("person", "g"),
            Warned("h"),
            Warned("h"),
            Omitted(("a",)),
            Omitted(("b", "a")),
        ]
    ) == [
        TextDelta("ab"),
        ReasoningDelta("c"),
        TextDelta("d"),
        ArgumentsDelta("a", "12"),
        ArgumentsDelta("b", "3"),
        Compacting(None, "ef"),
        Compacting("person", "g"),
        Warned("h"),
        Warned("h"),
        Omitted(("a", "b")),
    ]


def test_a_summary_that_begins_anew_is_not_joined_to_the_one_before() -> None:
    pieces: list[Fragment] = [
        Compacting(None, "wrong"),
        Compacting(None),
        Compacting(None),
        Compacting(None, "right"),
    ]
    assert in_few(pieces) == pieces


# --- shortening ---


def test_shortened_output_has_both_ends_and_says_how_much_is_missing() -> None:
    short = shortened(progress("a" * 10 + "b" * 100 + "c" * 10), 10)
    assert short == progress("a" * 10 + "\n[… 100 characters left out here …]\n" + "c" * 10)


def test_output_that_fits_is_not_shortened() -> None:
    assert shortened(progress("abc"), 2) == progress("abc")


def test_a_shortened_result_still_says_how_the_call_ended() -> None:
    whole = ToolFinished(
        ToolResult("a", "draw", (Text("x" * 50), File("image/png", data=b"." * 50)), "failed"), 2.0
    )
    short = shortened(whole, 4)
    assert isinstance(short, ToolFinished)
    assert (short.result.call_id, short.result.outcome, short.seconds) == ("a", "failed", 2.0)
    assert short.result.text.startswith("xxxx\n[… 42 characters left out here …]\nxxxx")
    assert "image/png left out here" in short.result.text
    assert len(short.result.content) == 1


# --- the answer so far ---


def test_the_answer_so_far_has_what_the_model_wrote_in_its_order() -> None:
    first, second = ToolCall("a", "look", "{}"), ToolCall("b", "look", "{}")
    result = ToolResult("b", "search", (Text("found"),), provider_executed=True)
    assert parts_of(
        [
            ReasoningDelta("hm"),
            TextDelta("I look"),
            CallStarted("a", "look"),
            CallStarted("b", "look"),
            ToolCalled(second),
            ToolCalled(first),
            ToolStarted("a", "look", "look"),
            finished("mine", "a"),
            ToolFinished(result, 0.0),
            Warned("…"),
        ]
    ) == (Reasoning("hm"), Text("I look"), first, second, result)


def test_a_call_that_is_still_being_written_is_not_in_the_answer() -> None:
    begun: list[Fragment] = [TextDelta("x"), CallStarted("a", "look"), ArgumentsDelta("a", "{")]
    assert parts_of(begun) == (Text("x"),)
