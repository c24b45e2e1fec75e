"""The answer of an agent with an output type, as a value while it is streamed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.events import OutputDelta, PartialOutput, Retrying, TextDelta
from holdfast.kernel.output import Output
from holdfast.testing import call, fail, finish, say
from tests.kernel.runs import events_of, look, only, scripted


@dataclass
class City:
    name: str
    people: int


class Note(msgspec.Struct):
    text: str


def pieces_of(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def values(output: Any, *pieces: str) -> list[Any]:
    """The values after each piece that changed it."""
    partial = PartialOutput(output)
    return [delta.value for delta in map(partial.add, pieces) if delta is not None]


async def deltas(output: Any, *script: Any) -> list[OutputDelta]:
    return only(OutputDelta, await events_of(scripted(script, look, output=output).run("?")))


async def test_a_run_shows_the_value_as_far_as_it_has_arrived() -> None:
    answer = [say(piece) for piece in ('{"na', 'me": "Os', "lo", '", "people": 71', "7710}")]
    shown = await deltas(City, answer)
    assert shown == [
        OutputDelta({}),
        OutputDelta({"name": "Os"}),
        OutputDelta({"name": "Oslo"}),
        OutputDelta({"name": "Oslo", "people": 717710}),
        OutputDelta({"name": "Oslo", "people": 717710}, complete=True),
    ]
    assert [delta.output_as(City) for delta in shown[-2:]] == [City("Oslo", 717710)] * 2
    assert shown[2].output_as(City) is None


async def test_the_value_follows_the_text_that_it_is_of() -> None:
    events = await events_of(scripted([[say('{"name"'), say(": 1}")]], output=City).run("?"))
    shown = [type(event) for event in events if isinstance(event, (TextDelta, OutputDelta))]
    assert shown[:4] == [TextDelta, OutputDelta, TextDelta, OutputDelta]


@pytest.mark.parametrize(
    ("output", "pieces", "expected"),
    [
        (list[int], ['{"value": [1', ", 2", "2, 3]}"], [[], [1], [1, 22, 3]]),
        (list[int], ["[1, 2,", " 3]"], [[1, 2], [1, 2, 3]]),
        (int, ['{"value": 1', "2}"], [12]),
        (str, ["Yes, ", "gladly."], ["Yes, ", "Yes, gladly."]),
        (str, ['{"val', 'ue": "Ye', 's"}'], ["Ye", "Yes"]),
        (Literal["yes", "no"], ["ye", "s"], ["ye", "yes"]),
        (City, ['Here:\n```json\n{"name": "O', '"}\n```'], [{"name": "O"}]),
        (City, ['```json\n{"name": "O', '"}\n```'], [{"name": "O"}]),
        (City, ['A city like {"name": "O', '"} is nice.'], []),
        (City, ["I do not know.", " Sorry."], []),
        (City, ['{"name": "Room 1', '2"}'], [{"name": "Room "}, {"name": "Room 12"}]),
        (City, ['{"name": "\\ud83d', '\\ude00"}'], [{"name": ""}, {"name": "😀"}]),
        (dict[str, float], ['{"a": 1', ".", '5, "b": tr', "ue}"], None),
    ],
)
def test_the_beginning_of_an_answer_is_read_like_an_answer(
    output: Any, pieces: Sequence[str], expected: list[Any] | None
) -> None:
    found = values(output, *pieces)
    if expected is None:
        expected = [{}, {"a": 1.5}, {"a": 1.5, "b": True}]
    assert found == expected


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab"), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text("abc"), json_values, max_size=4), st.integers(1, 9))
def test_no_item_that_was_shown_goes_away_again_and_the_last_value_is_the_whole(
    value: dict[str, Any], size: int
) -> None:
    partial = PartialOutput({"type": "object"})
    before: Any = {}
    for piece in pieces_of(json.dumps(value), size):
        delta = partial.add(piece)
        if delta is not None:
            assert list(delta.value)[: len(before)] == list(before)
            before = delta.value
    last = partial.end()
    assert last == OutputDelta(value, complete=True)


def test_a_long_answer_is_parsed_a_bounded_number_of_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parsed: list[int] = []
    read = Output.partial

    def count(self: Output, text: str, nothing: Any, *, complete: bool) -> Any:
        parsed.append(len(text))
        return read(self, text, nothing, complete=complete)

    monkeypatch.setattr(Output, "partial", count)
    partial = PartialOutput(list[str])
    text = json.dumps({"value": ["word"] * 20_000})
    for piece in pieces_of(text, 4):
        partial.add(piece)
    assert len(parsed) < 500
    assert sum(parsed) < 40 * len(text)


async def test_text_before_a_call_is_not_the_answer() -> None:
    shown = await deltas(str, [say("Let me look."), call("look")], "It is fine.")
    assert [delta.value for delta in shown if delta.complete] == ["It is fine."]


async def test_a_failed_attempt_and_a_repair_begin_anew() -> None:
    events = await events_of(
        scripted(
            [
                [say('{"name": "B'), fail(status=529)],
                '{"name": "Oslo"}',
                '{"name": "O", "people": 1}',
            ],
            output=City,
        ).run("?")
    )
    shown = [event for event in events if isinstance(event, (OutputDelta, Retrying))]
    names = ["-" if isinstance(event, Retrying) else event.value["name"] for event in shown]
    assert names == ["B", "-", "Oslo", "Oslo", "O", "O"]


async def test_an_answer_in_several_pieces_is_one_value() -> None:
    shown = await deltas(list[int], [say('{"value": [1, '), finish("length")], "2]}")
    assert [(delta.value, delta.complete) for delta in shown] == [
        ([1], False),
        ([1, 2], False),
        ([1, 2], True),
    ]


async def test_without_a_reader_nothing_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: Output, *args: Any, **more: Any) -> Any:
        raise AssertionError("computed")

    monkeypatch.setattr(Output, "partial", fails)
    result = await scripted(['{"value": 5}'], output=int).run("?")
    assert result.output == 5


async def test_an_agent_without_an_output_type_emits_none() -> None:
    events = await events_of(scripted(['{"value": 5}']).run("?"))
    assert not only(OutputDelta, events)


def test_the_value_of_a_type_leaves_out_what_does_not_fit_yet() -> None:
    half = OutputDelta([{"name": "Oslo", "people": 1}, {"name": "Ber"}])
    assert half.output_as(list[City]) == [City("Oslo", 1)]
    assert OutputDelta(half.value, complete=True).output_as(list[City]) is None
    assert OutputDelta({"text": "x"}).output_as(Note) == Note("x")
    assert OutputDelta({}).output_as(Note) is None
