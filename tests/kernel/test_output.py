"""The form of the last answer: how it is asked for, what fits, what is done about the rest."""

import dataclasses
import enum
import json
import sys
import typing
from datetime import date
from itertools import count
from typing import Annotated, Any, Final, Generic, Literal, NewType, TypedDict, TypeVar

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, field_validator

from holdfast import Limits, tool
from holdfast.errors import ConfigError, RunFailed
from holdfast.hooks import Context, Inject, Stopping
from holdfast.kernel.errors import InvalidOutput
from holdfast.kernel.events import Delivered, RunEnded
from holdfast.kernel.messages import Injection, encode, injected, note
from holdfast.kernel.model import PartAdded
from holdfast.kernel.output import Fits, Misfit, Output, Repair, judge, spoken, value_in
from holdfast.kernel.policy import Wording
from holdfast.kernel.summary_checkpoint import SUMMARY_SECTIONS
from holdfast.messages import Message, Text
from holdfast.options import Policy
from holdfast.testing import ScriptItem, call, fail, finish, pause, say
from tests.kernel.histories import (
    answer,
    checkpoint,
    marker,
    prompt,
    provider_call,
    provider_result,
)
from tests.kernel.runs import (
    asks_client,
    check_events,
    events_of,
    kinds,
    later,
    look,
    only,
    outcome,
    requests_of,
    scripted,
    texts,
)

if sys.version_info < (3, 12):  # pydantic cannot read the older one
    from typing_extensions import TypedDict

T = TypeVar("T")


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


class City(BaseModel):
    """A city and when it was founded."""

    name: str
    people: Annotated[int, Field(ge=0)]
    founded: date | None = None


class Tree(BaseModel):
    leaf: str
    under: list["Tree"] = []


class Page(BaseModel, Generic[T]):
    items: list[T]


class Even(BaseModel):
    n: int

    @field_validator("n")
    @classmethod
    def even(cls, n: int) -> int:
        if n % 2:
            raise ValueError("should be even")
        return n


@dataclasses.dataclass
class Box:
    width: int
    label: str = ""


class Point(TypedDict):
    x: float
    y: float


class PlainPoint(typing.TypedDict):
    x: int


class Coin(msgspec.Struct):
    """A coin."""

    cents: Annotated[int, msgspec.Meta(ge=1)]
    struck: date | None = None

    def __post_init__(self) -> None:
        if self.cents == 3:
            raise ValueError("nobody ever made one of 3")


class Loose(BaseModel):
    """Everything may be left out."""

    note: str = ""


CITY: Final = Output(City)
OSLO: Final = City(name="Oslo", people=700_000)
OSLO_TEXT: Final = '{"name": "Oslo", "people": 700000}'
BAD_TEXT: Final = '{"people": -1, "mayor": 5}'
NUMBER: Final = {"type": "integer", "minimum": 1}


def fits(output: Output, text: str) -> Any:
    verdict = output.check(text)
    assert isinstance(verdict, Fits), verdict
    return verdict.value


def problems(output: Output, text: str) -> tuple[str, ...]:
    verdict = output.check(text)
    assert isinstance(verdict, Misfit), verdict
    return verdict.problems


# --- What is asked for --------------------------------------------------------------------------


def test_a_type_of_an_object_is_asked_for_as_it_is() -> None:
    shape = CITY.shape
    assert shape.name == "City"
    assert shape.description == "A city and when it was founded."
    assert shape.schema["type"] == "object"
    assert shape.schema["required"] == ["name", "people"]
    assert list(shape.schema["properties"]) == ["name", "people", "founded"]


@pytest.mark.parametrize(
    "wanted",
    [int, list[City], Literal["a", "b"], City | None, Colour, NUMBER, Any, list[Coin]],
    ids=count(),
)
def test_what_is_no_object_is_asked_for_in_one(wanted: Any) -> None:
    shape = Output(wanted).shape
    assert shape.name == "answer"
    assert shape.schema["type"] == "object"
    assert list(shape.schema["properties"]) == ["value"]
    assert shape.schema["required"] == ["value"]


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        (Box, "Box"),
        (Point, "Point"),
        (Coin, "Coin"),
        (Tree, "Tree"),
        (Page[int], "Page_int"),
        ({"type": "object", "title": "My answer!"}, "My_answer"),
        ({"type": "object", "title": "é"}, "answer"),
        ({"type": "object"}, "answer"),
        (dict[str, int], "dict"),
    ],
    ids=count(),
)
def test_the_name_is_one_that_providers_take(wanted: Any, name: str) -> None:
    shape = Output(wanted).shape
    assert shape.name == name
    assert shape.schema["type"] == "object"
    assert "value" not in shape.schema["properties"]


def test_definitions_stay_where_references_find_them() -> None:
    item = {"$ref": "#/$defs/Item"}
    defs = {"Item": {"type": "string"}}
    output = Output({"type": "array", "items": item, "$defs": defs})
    assert output.shape.schema["$defs"] == defs
    assert "$defs" not in output.shape.schema["properties"]["value"]
    assert fits(output, '{"value": ["a"]}') == ["a"]
    assert problems(output, '{"value": [{}]}') == ("value[0]: should be a string, got {}",)


@pytest.mark.parametrize(
    "wanted",
    [
        "City",
        5,
        City(name="Oslo", people=1),
        Box(1),
        [City],
        lambda city: city,
        len,
        typing.Callable[[], int],
        {"type": "no such type"},
        {"type": "object", "properties": 5},
        {"type": "array", "items": {"$ref": "#"}},
    ],
    ids=count(),
)
def test_what_no_answer_can_be_is_refused_when_the_agent_is_built(wanted: Any) -> None:
    with pytest.raises(ConfigError):
        scripted([], output=wanted)


# --- What fits ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "text", "value"),
    [
        (City, OSLO_TEXT, OSLO),
        (Box, '{"width": 1}', Box(1)),
        (Point, '{"x": 1, "y": 2.5}', {"x": 1, "y": 2.5}),
        (PlainPoint, '{"x": 1}', {"x": 1}),
        (Coin, '{"cents": 5, "struck": "1999-01-02"}', Coin(5, date(1999, 1, 2))),
        (list[Coin], '{"value": [{"cents": 5}]}', [Coin(5)]),
        (Tree, '{"leaf": "a", "under": [{"leaf": "b"}]}', Tree(leaf="a", under=[Tree(leaf="b")])),
        (Page[int], '{"items": [1]}', Page[int](items=[1])),
        (int, '{"value": 5}', 5),
        (bool, '{"value": false}', False),
        (str, '{"value": "hello"}', "hello"),
        (list[City], f'{{"value": [{OSLO_TEXT}]}}', [OSLO]),
        (City | None, '{"value": null}', None),
        (City | int, f'{{"value": {OSLO_TEXT}}}', OSLO),
        (Literal["a", "b"], '{"value": "b"}', "b"),
        (Colour, '{"value": "red"}', Colour.RED),
        (NewType("Id", int), '{"value": 5}', 5),
        (dict[str, int], '{"a": 1}', {"a": 1}),
        (date, '{"value": "2020-02-29"}', date(2020, 2, 29)),
        ({"type": "object", "required": ["a"]}, '{"a": [1]}', {"a": [1]}),
        (NUMBER, '{"value": 5}', 5),
        ({"type": ["object", "null"]}, '{"value": {"a": 1}}', {"a": 1}),
    ],
    ids=count(),
)
def test_an_answer_becomes_a_value_of_the_type(wanted: Any, text: str, value: Any) -> None:
    found = fits(Output(wanted), text)
    assert found == value
    assert type(found) is type(value)


def test_an_object_in_the_middle_of_a_sentence_is_no_answer() -> None:
    assert problems(CITY, f"I cannot. It should look like {OSLO_TEXT}, but I lack data.")


@pytest.mark.parametrize(
    ("wanted", "text", "value"), [(str, "hello", "hello"), (Literal["a", "b"], "a", "a")]
)
def test_words_are_the_value_where_a_value_of_words_was_asked_for(
    wanted: Any, text: str, value: str
) -> None:
    assert fits(Output(wanted), text) == value


@pytest.mark.parametrize(
    "text",
    [
        "true",
        "null",
        "5",
        "1.50",
        "1e3",
        "[1, 2]",
        '["a"',
        "{}",
        '{"a": 1}',
        "{name}",
        '"a" or "b"',
    ],
)
@pytest.mark.parametrize("wanted", [str, {"type": "string"}, Annotated[str, Field(max_length=99)]])
def test_any_text_is_the_value_where_a_text_was_asked_for(wanted: Any, text: str) -> None:
    assert fits(Output(wanted), text) == text


def test_a_word_that_is_also_json_is_one_of_the_words_that_were_asked_for() -> None:
    assert fits(Output(Literal["true", "false"]), "true") == "true"


@pytest.mark.parametrize(
    "text", ['{"value": null}', '{ "value" : ["a"]}', '{"value": "a" or "b"}', '{"value": "a"']
)
def test_a_text_that_was_to_be_in_an_object_is_asked_for_again_when_it_is_not(text: str) -> None:
    assert problems(Output(str), text)


@pytest.mark.parametrize(
    "text",
    [
        f"  {OSLO_TEXT}\n",
        f"```json\n{OSLO_TEXT}\n```",
        f"```\n{OSLO_TEXT}\n```\n",
        f"```{OSLO_TEXT}```",
        f"```JSON\n{OSLO_TEXT}\n```",
        f"Here it is:\n\n```json\n{OSLO_TEXT}\n```\nAnything else?",
        f"Here it is: {OSLO_TEXT}. (Source: a book.)",
        '{"name": "Oslo", "people": "700000"}',
        json.dumps(OSLO_TEXT),
    ],
)
def test_what_a_model_puts_around_an_answer_may_go(text: str) -> None:
    assert fits(CITY, text) == OSLO


@pytest.mark.parametrize(
    ("wanted", "text", "value"),
    [
        (int, "5", 5),
        (int, "```json\n5\n```", 5),
        (int, '"5"', 5),
        (list[str], '["a", "b"]', ["a", "b"]),
        (Literal["a", "b"], '"b"', "b"),
        (City | None, "null", None),
    ],
    ids=count(),
)
def test_a_value_that_is_no_object_may_also_come_alone(wanted: Any, text: str, value: Any) -> None:
    assert fits(Output(wanted), text) == value


@pytest.mark.parametrize(
    "text",
    [
        f"Either {OSLO_TEXT} or {OSLO_TEXT}",
        f"[{OSLO_TEXT}]",
        f"[{OSLO_TEXT}",
        f"[{OSLO_TEXT}, and so on",
        f'{{"city": {OSLO_TEXT}, "and": ',
        f'{{"city": {OSLO_TEXT}}}',
        f"{{name}} is what I would put here: {OSLO_TEXT}",
        f"{OSLO_TEXT} {{",
        OSLO_TEXT[:-1],
        f"```json\n{OSLO_TEXT}\n``` or ```json\n{OSLO_TEXT}\n```",
        "Oslo has 700000 people.",
        "5",
        "null",
    ],
)
def test_what_may_mean_something_else_is_not_guessed(text: str) -> None:
    assert problems(CITY, text)


@pytest.mark.parametrize("text", ["", " \n", "``````", "```json\n```", "```"])
def test_no_text_is_no_answer_even_where_everything_may_be_left_out(text: str) -> None:
    assert fits(Output(Loose), "{}") == Loose()
    assert problems(Output(Loose), text)


def test_all_that_is_wrong_is_said_at_once() -> None:
    assert problems(CITY, BAD_TEXT) == (
        "name: missing",
        "people: should be greater than or equal to 0, got -1",
    )


@pytest.mark.parametrize(
    ("wanted", "text", "said"),
    [
        (City, "", "the answer: there is no text in it"),
        (City, "5", "the answer: should be an object, got 5"),
        (City, "Sure!", "the answer: not JSON: Expecting value"),
        (City, 'So: {"name": "Oslo"}', "people: missing"),
        (City, '```json\n{"name": "Oslo"}\n```', "people: missing"),
        (int, "five", 'value: should be a whole number, got "five"'),
        (int, '{"value": "five"}', 'value: should be a whole number, got "five"'),
        (list[int], '[1, "x"]', 'value[1]: should be a whole number, got "x"'),
        (Even, '{"n": 3}', "n: should be even, got 3"),
        (Coin, '{"cents": 0}', "cents: it is less than the minimum of 1, got 0"),
        (Coin, '{"cents": 3}', "the answer: nobody ever made one of 3"),
        (
            {"type": "object", "properties": {"a": {}}, "additionalProperties": False},
            '{"b": 1}',
            "b: unknown name; known: a",
        ),
    ],
    ids=count(),
)
def test_what_is_wrong_is_said_in_words(wanted: Any, text: str, said: str) -> None:
    (problem,) = problems(Output(wanted), text)
    assert problem.startswith(said)


def test_of_very_many_problems_the_first_are_said_and_the_others_counted() -> None:
    many = json.dumps({"value": ["x"] * 100})
    *said, last = problems(Output(list[int]), many)
    assert len(said) == 20
    assert last == "and 80 more"


@given(st.text() | st.sampled_from('{}[]"`,:5 \n').map(str), st.sampled_from([City, int, NUMBER]))
def test_whatever_is_written_fits_or_does_not(text: str, wanted: Any) -> None:
    verdict = Output(wanted).check(text)
    assert isinstance(verdict, Fits) or verdict.problems


plain: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
wordy: Final = st.text(st.characters(exclude_characters="{}[]", exclude_categories=["Cs"]))


@given(st.dictionaries(st.text(), plain), wordy, wordy)
def test_an_object_that_words_lead_up_to_is_found_whole(
    value: dict[str, Any], a: str, b: str
) -> None:
    output = Output({"type": "object"})
    assert fits(output, f"{a}:{json.dumps(value)}{b}") == value


@given(plain, st.booleans())
def test_anything_comes_out_of_an_object_as_it_went_in(value: Any, escape: bool) -> None:
    text = json.dumps({"value": value}, ensure_ascii=escape)
    assert fits(Output(Any), text) == value


# --- Which text is the answer -------------------------------------------------------------------


def cut(text: str) -> Message:
    return answer(text, finish="length")


def go_on(why: Injection | None = "recovery") -> Message:
    return injected("Go on.", why)


def test_the_last_answer_is_what_counts() -> None:
    assert spoken([prompt(), answer("a"), prompt(), answer("b"), note("x"), marker()]) == ["b"]
    assert spoken([prompt()]) == []


def test_answers_that_were_cut_by_length_are_one_with_what_follows() -> None:
    history = [prompt(), answer("old"), prompt(), cut("a"), go_on(), cut("b"), go_on(), answer("c")]
    assert spoken(history) == ["a", "b", "c"]
    assert spoken(history[:-2]) == ["a", "b"]


def test_what_stands_between_for_people_or_for_the_context_does_not_part_them() -> None:
    failed = answer("x", finish="error", visibility="user")
    history = [prompt(), cut("a"), note("n"), go_on(), checkpoint(1), failed, marker(), answer("b")]
    assert spoken(history) == ["a", "b"]


@pytest.mark.parametrize("why", ["repair", "guard", None])
def test_an_answer_that_was_asked_for_again_begins_anew(why: Injection | None) -> None:
    assert spoken([prompt(), cut("a"), go_on(why), answer("b")]) == ["b"]


def test_an_answer_to_a_person_begins_anew() -> None:
    assert spoken([prompt(), cut("a"), prompt("Shorter!"), answer("b")]) == ["b"]


def test_what_is_said_before_the_provider_executes_something_is_no_part_of_the_answer() -> None:
    searched = answer("I look [it] up. ", provider_call(), provider_result(), "{", "}")
    assert spoken([prompt(), searched]) == ["{}"]
    assert spoken([prompt(), answer("{}", provider_call(), provider_result())]) == ["{}"]


# --- What follows from it -----------------------------------------------------------------------

TWICE: Final = Policy(repairs=2, wording=Wording(repair="No:"))


def test_an_answer_that_fits_may_be_the_last() -> None:
    history = [prompt(), answer(OSLO_TEXT)]
    assert judge(value_in(CITY, spoken(history)), 0, TWICE) == Fits(OSLO)
    assert judge(value_in(CITY, spoken(history)), 99, TWICE) == Fits(OSLO)


def test_an_answer_that_does_not_is_asked_for_again_with_all_that_is_wrong() -> None:
    verdict = judge(value_in(CITY, spoken([prompt(), answer(BAD_TEXT)])), 1, TWICE)
    wrong = "name: missing", "people: should be greater than or equal to 0, got -1"
    assert verdict == Repair("\n- ".join(("No:", *wrong)))


@pytest.mark.parametrize(("repairs", "allowed"), [(0, 0), (2, 2), (3, 2)])
def test_it_is_not_asked_for_more_often_than_the_policy_says(repairs: int, allowed: int) -> None:
    with pytest.raises(InvalidOutput) as caught:
        judge(value_in(CITY, spoken([prompt(), answer("?")])), repairs, Policy(repairs=allowed))
    assert caught.value.repairs == repairs
    assert caught.value.problems[0].startswith("the answer: not JSON")


@pytest.mark.parametrize("at", range(1, len(OSLO_TEXT)))
def test_an_answer_in_two_pieces_fits_wherever_it_was_cut(at: int) -> None:
    history = [prompt(), cut(OSLO_TEXT[:at]), go_on(), answer(OSLO_TEXT[at:])]
    assert judge(value_in(CITY, spoken(history)), 0, TWICE) == Fits(OSLO)


def test_a_model_that_begins_anew_instead_of_going_on_is_understood() -> None:
    history = [prompt(), cut(OSLO_TEXT[:9]), go_on(), answer(OSLO_TEXT)]
    assert judge(value_in(CITY, spoken(history)), 0, TWICE) == Fits(OSLO)


# --- Runs ---------------------------------------------------------------------------------------

REPAIR: Final = Policy().wording.repair


def repairs(messages: typing.Iterable[Message]) -> list[str]:
    return [message.text for message in messages if message.why == "repair"]


async def test_the_output_of_a_run_is_its_last_answer_as_a_value() -> None:
    agent = scripted([call("look"), OSLO_TEXT], look, output=City)
    result = await agent.run("Oslo?")
    assert result.output == OSLO
    assert result.text == OSLO_TEXT
    assert [request.output for request in requests_of(agent)] == [CITY.shape] * 2


async def test_without_an_output_type_the_output_is_the_text_and_nothing_is_checked() -> None:
    agent = scripted([OSLO_TEXT])
    result = await agent.run("Oslo?")
    assert result.output == OSLO_TEXT
    assert requests_of(agent)[0].output is None


async def test_a_wrong_answer_is_asked_for_again() -> None:
    agent = scripted([BAD_TEXT, OSLO_TEXT], output=City)
    run = agent.run("Oslo?")
    events = await events_of(run)
    result = await run
    assert result.output == OSLO
    assert kinds(result.history) == ["prompt", "answer", "injected", "answer"]
    (told,) = repairs(result.history)
    assert told.startswith(REPAIR)
    assert "\n- name: missing\n- people: " in told
    assert requests_of(agent)[1].messages[-1].text == told
    (delivered,) = only(Delivered, events)
    assert (delivered.why, delivered.messages) == ("repair", (result.history[2],))
    assert delivered.messages[0].visibility == "model"
    assert check_events(events).reason == "stop"


async def test_an_answer_that_stays_wrong_ends_the_run_with_what_was_wrong() -> None:
    agent = scripted(["a", "b", BAD_TEXT, "never asked"], output=City)
    result = await outcome(agent.run("Oslo?"))
    assert result.reason == "error"
    assert result.output is None
    failure = result.failure
    assert failure is not None
    assert (failure.kind, failure.retryable, failure.failover) == ("invalid_output", False, False)
    assert failure.message == "scripted:model did not answer in the required form."
    assert "2 repairs: name: missing; people: " in failure.detail
    assert len(repairs(result.history)) == 2


async def test_repairs_are_counted_in_a_turn_and_not_in_a_run() -> None:
    agent = scripted(["a", OSLO_TEXT, "b", OSLO_TEXT], output=City, policy=Policy(repairs=1))
    first = await agent.run("Oslo?")
    second = await agent.run("Again?", history=first.history)
    assert second.output == OSLO


async def test_repairs_of_an_earlier_run_count_where_the_turn_goes_on() -> None:
    agent = scripted(["a", "b", OSLO_TEXT], output=City, policy=Policy(repairs=1))
    first = await outcome(agent.run("Oslo?"))
    assert first.failure is not None
    again = await outcome(agent.run(history=first.history))
    assert again.failure is not None
    assert again.failure.kind == "invalid_output"
    assert again.new == ()
    more = agent.replace(policy=Policy(repairs=2))
    assert (await more.run(history=first.history)).output == OSLO


async def test_repairs_can_be_switched_off() -> None:
    agent = scripted(["a"], output=City, policy=Policy(repairs=0))
    result = await outcome(agent.run("Oslo?"))
    assert result.failure is not None
    assert result.failure.kind == "invalid_output"
    assert kinds(result.history) == ["prompt", "answer"]


async def test_an_answer_in_the_history_is_checked_when_a_run_goes_on_from_it() -> None:
    words = await scripted(["It is large."]).run("Oslo?")
    agent = scripted([OSLO_TEXT], output=City)
    result = await agent.run(history=words.history)
    assert result.output == OSLO
    assert len(repairs(result.new)) == 1
    at_once = await agent.run(history=result.history)
    assert (at_once.output, at_once.new) == (OSLO, ())


async def test_an_answer_that_calls_tools_is_not_checked() -> None:
    agent = scripted([[say("Let me see."), call("look")], OSLO_TEXT], look, output=City)
    assert repairs((await agent.run("?")).history) == []


async def test_a_model_may_call_tools_again_to_repair_its_answer() -> None:
    agent = scripted(["Hm.", call("look"), "Hm?", OSLO_TEXT], look, output=City)
    result = await agent.run("?")
    assert result.output == OSLO
    assert len(repairs(result.history)) == 2


@tool(stop_after=True)
async def hand_in(text: str) -> str:
    """End the turn."""
    return text


async def test_a_turn_that_a_tool_ends_has_no_output() -> None:
    agent = scripted([[say(OSLO_TEXT), call("hand_in", text="x")]], hand_in, output=City)
    result = await agent.run("?")
    assert (result.reason, result.output) == ("stop_after_tool", None)


async def test_a_turn_that_waits_or_was_interrupted_or_reached_its_limit_has_no_output() -> None:
    waits = await scripted([call("asks_client", n=1)], asks_client, output=City).run("?")
    assert (waits.reason, waits.output) == ("requires_action", None)
    few = scripted(["a", OSLO_TEXT], output=City, limits=Limits(steps=1))
    limited = await outcome(few.run("?"))
    assert (limited.reason, limited.output) == ("limit", None)
    run = scripted([[say(OSLO_TEXT), pause(9)]], output=City).run("?")
    later(1, run.interrupt)
    assert ((await run).reason, (await run).output) == ("interrupted", None)


async def test_an_answer_cut_by_length_is_asked_to_go_on_before_it_is_checked() -> None:
    half, rest = OSLO_TEXT[:10], OSLO_TEXT[10:]
    agent = scripted([[say(half), finish("length")], rest], output=City)
    result = await agent.run("?")
    assert result.output == OSLO
    assert [message.why for message in result.history] == [None, None, "recovery", None]


async def test_an_answer_that_is_cut_too_often_is_asked_for_again_whole() -> None:
    half, more = ([say(text), finish("length")] for text in ('{"name": "', "Os"))
    agent = scripted([half, more, OSLO_TEXT], output=City, policy=Policy(recoveries=1))
    result = await agent.run("?")
    assert result.output == OSLO
    (told,) = repairs(result.history)
    assert "the text ends too early" in told


async def test_follow_ups_wait_for_an_answer_that_fits_and_are_answered_in_the_form_too() -> None:
    rome = json.dumps({"name": "Rome", "people": 5})
    agent = scripted(["Hm.", OSLO_TEXT, "Hm.", rome], output=City)
    run = agent.run("Oslo?")
    run.follow_up("And Rome?")
    result = await run
    assert result.output == City(name="Rome", people=5)
    assert texts(result.history, "prompt") == ["Oslo?", "And Rome?"]
    assert [m.why or m.text for m in result.history if m.role == "user"] == [
        "Oslo?",
        "repair",
        "And Rome?",
        "repair",
    ]


async def test_the_guard_is_asked_about_answers_that_fit_and_is_shown_the_value() -> None:
    asked: list[object] = []

    def guard(_context: Context, stopping: Stopping) -> Inject | None:
        asked.append(stopping.output)
        return Inject("Larger.") if stopping.output.people < 2 else None

    small = '{"name": "Oslo", "people": 1}'
    agent = scripted(["Hm.", small, OSLO_TEXT], output=City, guard=guard)
    result = await agent.run("?")
    assert asked == [City(name="Oslo", people=1), OSLO]
    assert result.output == OSLO
    assert [m.why for m in result.history if m.kind == "injected"] == ["repair", "guard"]


async def test_what_is_said_while_the_guard_thinks_makes_the_output_that_of_its_answer() -> None:
    async def guard(_context: Context, stopping: Stopping) -> None:
        if stopping.output.name == "Oslo":
            run.steer("Rome!")

    rome = json.dumps({"name": "Rome", "people": 5})
    run = scripted([OSLO_TEXT, rome], output=City, guard=guard).run("Oslo?")
    assert (await run).output == City(name="Rome", people=5)


async def test_an_answer_with_what_the_provider_executed_is_checked_by_its_last_words() -> None:
    turn: ScriptItem = [
        "I look.",
        PartAdded(provider_call()),
        PartAdded(provider_result()),
        OSLO_TEXT,
    ]
    result = await scripted([turn], output=City).run("?")
    assert result.output == OSLO
    assert repairs(result.history) == []


async def test_a_failed_attempt_at_a_repair_is_retried_and_not_another_repair() -> None:
    script = ["Hm.", fail(status=529), ["half", fail(status=529)], OSLO_TEXT]
    agent = scripted(script, output=City, policy=Policy(repairs=1))
    assert (await agent.run("?")).output == OSLO


async def test_the_failure_names_the_model_that_answered() -> None:
    said = Message("assistant", (Text("Hm."),), "answer", finish="stop", model="acme:two")
    agent = scripted([], output=City, policy=Policy(repairs=0))
    result = await outcome(agent.run(history=[prompt(), said]))
    assert result.failure is not None
    assert result.failure.model == "acme:two"


async def test_a_compaction_on_request_checks_nothing() -> None:
    first = await scripted(["It is large. " * 500]).run("Oslo?")
    agent = scripted(["\n".join(f"## {section}" for section in SUMMARY_SECTIONS)], output=City)
    result = await agent.run(history=first.history, compact=True)
    assert (result.reason, result.output) == ("stop", None)


async def test_the_events_of_a_run_with_an_output_can_be_stored() -> None:
    """The value is no part of them: it may be anything."""
    events = await events_of(scripted([OSLO_TEXT], output=City).run("?"))
    for event in events:
        assert encode(event)
    assert only(RunEnded, events)[0].reason == "stop"


async def test_a_refused_answer_is_not_asked_for_again() -> None:
    agent = scripted([[say("I will not."), finish("content_filter")]], output=int)
    with pytest.raises(RunFailed) as caught:
        await agent.run("How many?")
    assert caught.value.failure.kind == "content_filter"
    assert len(requests_of(agent)) == 1
