"""Arguments of tools: what the schema says, what is accepted, what is mended, what is told."""

import enum
import functools
import json
import string
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal, TypedDict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, field_validator

from holdfast.kernel.errors import ConfigError
from holdfast.kernel.schema import (
    Arguments,
    BadArguments,
    complaint,
    from_function,
    from_schema,
)
from holdfast.kernel.schema.problems import MAX_PROBLEMS

if sys.version_info < (3, 12):  # pydantic cannot read the older one
    from typing_extensions import TypedDict


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


class Cat(BaseModel):
    name: str
    lives: int = 9


class Dog(BaseModel):
    name: str
    barks: bool


@dataclass
class Box:
    width: int
    label: str = ""


class Point(TypedDict):
    x: float
    y: float


def forecast(
    city: Annotated[str, "where"],
    days: int = 3,
    exact: bool = False,
    hours: list[int] = [],  # noqa: B006
    box: Box | None = None,
    colour: Colour = Colour.RED,
) -> str:
    return ""


RAW: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "description": "where"},
        "days": {"type": "integer", "default": 3},
        "exact": {"type": "boolean"},
        "hours": {"type": "array", "items": {"type": "integer"}},
        "box": {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {"width": {"type": "integer"}, "label": {"type": "string"}},
                    "required": ["width"],
                },
                {"type": "null"},
            ]
        },
        "colour": {"enum": ["red", "green"]},
    },
    "required": ["city"],
    "additionalProperties": False,
}


def typed(function: Callable[..., Any]) -> Arguments:
    return from_function(function, skip_first=False)


TYPED = typed(forecast)
BOTH = pytest.mark.parametrize(
    "arguments", [TYPED, from_schema(RAW)], ids=["from a function", "from a schema"]
)


def refused(arguments: Arguments, text: str) -> list[str]:
    with pytest.raises(BadArguments) as caught:
        arguments.parse(text)
    return list(caught.value.problems)


def accepted(arguments: Arguments, value: object) -> dict[str, Any]:
    return arguments.plain(arguments.parse(json.dumps(value)))


# --- The schema ---------------------------------------------------------------------------------


def test_the_schema_shows_types_descriptions_and_defaults_in_the_order_of_the_parameters() -> None:
    assert list(TYPED.schema["properties"]) == ["city", "days", "exact", "hours", "box", "colour"]
    assert TYPED.schema["type"] == "object"
    assert TYPED.schema["required"] == ["city"]
    assert TYPED.schema["properties"]["city"] == {"type": "string", "description": "where"}
    assert TYPED.schema["properties"]["days"] == {"type": "integer", "default": 3}
    assert TYPED.schema["properties"]["colour"] == {"$ref": "#/$defs/Colour", "default": "red"}
    assert TYPED.schema["$defs"]["Box"]["required"] == ["width"]


def test_no_title_repeats_a_name_but_a_property_may_be_called_title() -> None:
    def publish(title: str, cat: Cat, box: Box) -> None: ...

    schema = typed(publish).schema
    assert schema["properties"]["title"] == {"type": "string"}
    assert json.dumps(schema).count('"title"') == 2  # the property, and that it is required


def test_a_function_without_parameters_has_an_empty_object() -> None:
    def now() -> str:
        return ""

    arguments = typed(now)
    assert arguments.schema["type"] == "object"
    assert arguments.schema["properties"] == {}
    assert arguments.parse("") == arguments.parse("  \n") == arguments.parse("{}") == {}
    assert refused(arguments, '{"zone": 1}') == ["zone: unknown argument; known: none"]


def test_properties_are_never_null() -> None:
    assert from_schema({"type": "object", "properties": None}).schema["properties"] == {}
    assert from_schema({}).schema == {"type": "object", "properties": {}}


def test_a_default_that_json_cannot_show_is_left_out() -> None:
    def wait(seconds: float = float("inf"), marker: Any = object()) -> None: ...  # noqa: B008

    arguments = typed(wait)
    assert arguments.schema["properties"] == {"seconds": {"type": "number"}, "marker": {}}
    assert arguments.parse("{}") == {}


def test_a_description_may_stand_in_a_field_or_in_the_docstring_and_the_annotation_wins() -> None:
    def search(
        query: Annotated[str, Field(description="from the field", max_length=5)],
        limit: Annotated[int, "from the annotation"],
        page: int,
        sort: str,
    ) -> None:
        """Search.

        Args:
            query: from the docstring
            limit: from the docstring
            page (int): from the docstring,
                over two lines
            sort: note: even with a colon

        Returns:
            sort: nothing
        """

    properties = typed(search).schema["properties"]
    assert [properties[name]["description"] for name in properties] == [
        "from the field",
        "from the annotation",
        "from the docstring, over two lines",
        "note: even with a colon",
    ]
    assert properties["query"]["maxLength"] == 5


def test_importing_the_package_imports_neither_a_validator_nor_what_needs_one() -> None:
    script = "import sys, holdfast.kernel.schema; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert loaded.isdisjoint({"pydantic", "pydantic_core", "jsonschema_rs"})
    assert {name for name in loaded if name.startswith("holdfast.kernel.schema.")} == {
        "holdfast.kernel.schema.arguments",
        "holdfast.kernel.schema.text",
    }


# --- Functions ----------------------------------------------------------------------------------


def test_values_are_what_the_annotations_say() -> None:
    def draw(
        at: Point, box: Box, cat: Cat, colour: Colour, when: datetime, mode: Literal["a", 1]
    ) -> None: ...

    arguments = typed(draw)
    plain = {
        "at": {"x": 1.0, "y": 2.5},
        "box": {"width": 1, "label": "b"},
        "cat": {"name": "Tom", "lives": 9},
        "colour": "green",
        "when": "2024-05-06T07:08:09",
        "mode": 1,
    }
    values = arguments.parse(json.dumps(plain))
    assert values == {
        "at": {"x": 1.0, "y": 2.5},
        "box": Box(1, "b"),
        "cat": Cat(name="Tom"),
        "colour": Colour.GREEN,
        "when": datetime(2024, 5, 6, 7, 8, 9),
        "mode": 1,
    }
    assert arguments.plain(values) == plain
    assert arguments.check(values) == arguments.check(plain) == values


def test_an_omitted_argument_is_not_passed() -> None:
    assert TYPED.parse('{"city": "Rome"}') == {"city": "Rome"}


def test_no_name_of_a_parameter_clashes_with_the_validator() -> None:
    def odd(
        json: int, schema: int, copy: int, self_: int, model_config: int, model_x: int, _hidden: int
    ) -> None: ...

    values = {
        name: index
        for index, name in enumerate(
            ["json", "schema", "copy", "self_", "model_config", "model_x", "_hidden"]
        )
    }
    assert accepted(typed(odd), values) == values


def test_keyword_only_parameters_are_arguments_like_others() -> None:
    def find(query: str, *, limit: int = 3, strict: bool) -> None: ...

    arguments = typed(find)
    assert arguments.schema["required"] == ["query", "strict"]
    assert accepted(arguments, {"query": "a", "strict": True}) == {"query": "a", "strict": True}


def test_the_context_is_no_argument() -> None:
    def find(context: object, query: str) -> None: ...

    assert list(from_function(find, skip_first=True).schema["properties"]) == ["query"]


def test_kwargs_take_further_arguments_of_their_type() -> None:
    def anything(query: str, **rest: Any) -> None: ...

    def numbers(**rest: int) -> None: ...

    assert accepted(typed(anything), {"query": "a", "b": [1]}) == {"query": "a", "b": [1]}
    assert accepted(typed(numbers), {"a": "1"}) == {"a": 1}
    assert refused(typed(numbers), '{"a": "x", "b": null}') == [
        'a: should be a whole number, got "x"',
        "b: should be a whole number, got null",
    ]


def test_an_alias_is_the_name_for_the_model_and_the_parameter_that_for_the_function() -> None:
    def between(from_: Annotated[int, Field(alias="from")], to: int = 5) -> None: ...

    arguments = typed(between)
    assert list(arguments.schema["properties"]) == ["from", "to"]
    values = arguments.parse('{"from": "1"}')
    assert values == {"from_": 1}
    assert arguments.plain(values) == {"from": 1}
    assert arguments.check(values) == values
    assert refused(arguments, "{}") == ["from: missing"]


def test_annotations_may_be_strings() -> None:
    def draw(box: "Box", cats: "list[Cat]", note: 'Annotated[str, "a note"]' = "") -> None: ...

    arguments = typed(draw)
    assert arguments.schema["properties"]["note"]["description"] == "a note"
    values = arguments.parse('{"box": {"width": 1}, "cats": [{"name": "Tom"}]}')
    assert values == {"box": Box(1), "cats": [Cat(name="Tom")]}


def test_a_string_may_name_what_the_function_closes_over() -> None:
    class Local(BaseModel):
        x: int

    def draw(local: "Local") -> int:
        return Local.model_validate(local).x

    assert typed(draw).parse('{"local": {"x": 1}}') == {"local": Local(x=1)}


def test_a_name_that_cannot_be_resolved_is_refused_with_the_parameter_and_what_to_do() -> None:
    def draw(shape: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(ConfigError, match=r"'shape' of .*draw.*Nowhere.*top level of its module"):
        typed(draw)


def test_callables_of_every_sort_have_arguments() -> None:
    class Search:
        def __call__(self, query: "str") -> None: ...

        def method(self, query: "str") -> None: ...

    def search(prefix: str, query: "str") -> None: ...

    @functools.wraps(search)
    def wrapped(*args: Any, **kwargs: Any) -> None: ...

    assert list(typed(Search()).schema["properties"]) == ["query"]
    assert list(typed(Search().method).schema["properties"]) == ["query"]
    assert list(typed(functools.partial(search, "a")).schema["properties"]) == ["query"]
    assert list(typed(wrapped).schema["properties"]) == ["prefix", "query"]


def star(*args: int) -> None: ...


def slash(x: int, /) -> None: ...


def bare(x) -> None: ...  # type: ignore[no-untyped-def]


def field_default(x: int = Field(5)) -> None: ...


def opaque(ok: int, x: Callable[[], int]) -> None: ...


def unknown_class(ok: int, x: subprocess.Popen[bytes]) -> None: ...


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (star, "'args' of star cannot be passed by name"),
        (slash, "'x' of slash cannot be passed by name"),
        (bare, "'x' of bare has no type: annotate it"),
        (field_default, "'x' of field_default has a Field as default"),
        (opaque, "'x' of opaque has a type that JSON cannot become"),
        (unknown_class, "'x' of unknown_class has a type that JSON cannot become"),
        (dict.fromkeys, "no signature|cannot be passed by name"),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_refused_when_built(
    function: Callable[..., Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        typed(function)


def test_an_iterable_is_read_at_once() -> None:
    def total(numbers: Iterable[int]) -> None: ...

    assert accepted(typed(total), {"numbers": ["1", 2]}) == {"numbers": [1, 2]}


def test_sets_are_plain_in_the_same_order_in_every_process() -> None:
    class Tags(BaseModel):
        names: set[str]

    def tag(tags: Tags, numbers: frozenset[int]) -> None: ...

    names = [*string.ascii_lowercase]
    plain = accepted(typed(tag), {"tags": {"names": names[::-1]}, "numbers": [2, 1, 2]})
    assert plain == {"tags": {"names": names}, "numbers": [1, 2]}


# --- Raw schemas --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "array"}, "type 'array': use 'object'"),
        ({"properties": {"a": {"type": "integr"}}}, r"properties\.a\.type: .*integr"),
        ({"properties": {"a": {"minimum": "x"}}}, r"properties\.a\.minimum"),
        ({"properties": {"a": {"pattern": "("}}}, "regex"),
        ({"properties": {"a": object()}}, "not valid"),
        ({"$ref": "#/nowhere"}, "nowhere"),
        ({"$ref": "https://example.com/schema.json"}, "disabled"),
        ({"$ref": "file:///schema.json"}, "disabled"),
    ],
)
def test_a_schema_that_is_wrong_or_leads_elsewhere_is_refused_when_built(
    schema: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        from_schema(schema)


def test_a_keyword_without_words_of_ours_is_told_in_those_of_the_library() -> None:
    arguments = from_schema({"properties": {"a": {"maxLength": 2}, "b": {"minimum": 3}}})
    assert refused(arguments, '{"a": "abc", "b": 2}') == [
        'a: it is longer than 2 characters, got "abc"',
        "b: it is less than the minimum of 3, got 2",
    ]


# --- What is told -------------------------------------------------------------------------------


@BOTH
def test_all_problems_are_told_at_once_and_in_order(arguments: Arguments) -> None:
    text = '{"tint": 1, "days": "x", "exact": "yes", "hours": ["a", 1, []], "box": {}}'
    assert refused(arguments, text) == [
        "box.width: missing",
        "city: missing",
        'days: should be a whole number, got "x"',
        'exact: should be true or false, got "yes"',
        'hours[0]: should be a whole number, got "a"',
        "hours[2]: should be a whole number, got []",
        "tint: unknown argument; known: city, days, exact, hours, box, colour",
    ]


@BOTH
def test_the_message_for_the_model_lists_the_problems(arguments: Arguments) -> None:
    with pytest.raises(BadArguments) as caught:
        arguments.parse('{"days": "x"}')
    assert str(caught.value) == (
        'These arguments are not valid:\n- city: missing\n- days: should be a whole number, got "x"'
    )


@BOTH
def test_a_wrong_choice_is_told_the_choices(arguments: Arguments) -> None:
    [problem] = refused(arguments, '{"city": "Rome", "colour": "blue"}')
    assert problem.replace("'", '"') == 'colour: should be "red" or "green", got "blue"'


@BOTH
def test_many_problems_and_long_values_are_cut(arguments: Arguments) -> None:
    with pytest.raises(BadArguments) as caught:
        arguments.parse(json.dumps({"city": "a", "hours": ["x" * 1_000] * 30}))
    assert len(caught.value.problems) == MAX_PROBLEMS
    assert str(caught.value).endswith("\n- and 10 more")
    assert all(len(problem) < 150 for problem in caught.value.problems)


def test_the_members_of_a_union_share_one_line() -> None:
    def pick(what: int | list[int], pet: Cat | Dog) -> None: ...

    assert refused(typed(pick), '{"what": "x", "pet": {}}') == [
        "pet.barks: missing (for Dog)",
        "pet.name: missing (for Cat)",
        "pet.name: missing (for Dog)",
        'what: should be a whole number or a list, got "x"',
    ]


def test_neither_a_link_nor_the_name_of_a_library_reaches_the_model() -> None:
    def sized(
        n: Annotated[int, Field(gt=3)], s: Annotated[str, Field(max_length=2)], d: dict[int, str]
    ) -> None: ...

    with pytest.raises(BadArguments) as caught:
        typed(sized).parse('{"n": 2, "s": "abc", "d": {"x": "y"}}')
    assert caught.value.problems == (
        "d.x: its name should be a valid integer, unable to parse string as an integer",
        "n: should be greater than 3, got 2",
        's: String should have at most 2 characters, got "abc"',
    )
    assert "http" not in str(caught.value)
    assert "pydantic" not in str(caught.value)


def test_a_validator_of_the_users_speaks_for_itself() -> None:
    class Even(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def is_even(cls, n: int) -> int:
            if n % 2:
                raise ValueError("odd numbers are not sold")
            return n

    def buy(even: Even) -> None: ...

    assert refused(typed(buy), '{"even": {"n": 3}}') == ["even.n: odd numbers are not sold, got 3"]


@pytest.mark.parametrize("error", [KeyError("n"), ZeroDivisionError(), TypeError("no " * 1_000)])
def test_a_validator_of_the_users_may_raise_anything(error: Exception) -> None:
    class Fragile(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def breaks(cls, n: int) -> int:
            raise error

    def buy(fragile: Fragile, days: int = 1) -> None: ...

    for text in ('{"fragile": {"n": 3}}', '{"fragile": {"n": "3"}, "days": "5"}'):
        [problem] = refused(typed(buy), text)
        assert problem.startswith(f"arguments: checking failed with {type(error).__name__}")
        assert len(problem) < 500


# --- What is mended -----------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ({"days": "5"}, {"days": 5}),
        ({"days": " 5 "}, {"days": 5}),
        ({"days": "5.0"}, {"days": 5}),
        ({"days": 5.0}, {"days": 5}),
        ({"exact": "true"}, {"exact": True}),
        ({"exact": "False"}, {"exact": False}),
        ({"hours": "[1]"}, {"hours": [1]}),
        ({"hours": ["1", 2]}, {"hours": [1, 2]}),
        ({"hours": '["1", 2]'}, {"hours": [1, 2]}),
        ({"box": '{"width": 1, "label": "b"}'}, {"box": {"width": 1, "label": "b"}}),
        ({"box": '{"width": "1", "label": 5}'}, {"box": {"width": 1, "label": "5"}}),
        ({"box": "null"}, {"box": None}),
        ({"city": 5}, {"city": "5"}),
        ({"days": None, "hours": None, "colour": None}, {}),
    ],
)
def test_a_trivial_mistake_is_mended(
    arguments: Arguments, written: dict[str, Any], meant: dict[str, Any]
) -> None:
    assert accepted(arguments, {"city": "Rome"} | written) == {"city": "Rome"} | meant


@BOTH
def test_arguments_that_were_encoded_twice_are_opened(arguments: Arguments) -> None:
    assert accepted(arguments, json.dumps({"city": "Rome", "days": "5"})) == {
        "city": "Rome",
        "days": 5,
    }


@BOTH
def test_a_number_for_a_string_is_the_text_that_was_written(arguments: Arguments) -> None:
    assert arguments.parse('{"city": 1.10}') == {"city": "1.10"}
    assert arguments.parse('{"city": 12345678901234567890}') == {"city": "12345678901234567890"}


def test_a_choice_is_found_whatever_it_was_written_as() -> None:
    def pick(
        number: Literal[1, 2], text: Literal["1", "2"], both: Literal["auto"] | int
    ) -> None: ...

    written = {"number": "1", "text": 2, "both": "3"}
    assert accepted(typed(pick), written) == {"number": 1, "text": "2", "both": 3}


@BOTH
@pytest.mark.parametrize(
    "argument",
    [
        {"days": "5.7"},
        {"days": 5.7},
        {"days": True},
        {"days": "five"},
        {"exact": 1},
        {"exact": "yes"},
        {"hours": "abc"},
        {"hours": "1"},
        {"hours": '{"a": 1}'},
        {"hours": [None]},
        {"city": True},
        {"city": None},
        {"city": ["Rome"]},
    ],
)
def test_what_would_lose_information_is_not_mended(
    arguments: Arguments, argument: dict[str, Any]
) -> None:
    [name] = argument
    [problem] = refused(arguments, json.dumps({"city": "Rome"} | argument))
    assert problem.startswith(name)
    [value] = argument.values()
    quoted = json.dumps(value[0] if value == [None] else value)
    assert problem.endswith(f"got {quoted}")


@BOTH
@pytest.mark.parametrize("text", ["5", "true", "null", "[1]", '{"a": 1}', '"quoted"', "NaN"])
def test_a_string_that_looks_like_json_stays_a_string(arguments: Arguments, text: str) -> None:
    assert accepted(arguments, {"city": text, "days": "5"}) == {"city": text, "days": 5}


def test_what_can_be_mended_is_not_complained_about_when_something_else_is_wrong() -> None:
    assert refused(TYPED, '{"days": "5"}') == ["city: missing"]
    assert refused(TYPED, '{"city": "a", "box": "{\\"width\\": \\"x\\"}"}') == [
        'box.width: should be a whole number, got "x"'
    ]


def bounded(n: Annotated[int, Field(ge=3)], colour: Literal["red", "1"]) -> None: ...


@pytest.mark.parametrize("arguments", [typed(bounded), from_schema(typed(bounded).schema)])
def test_a_value_that_is_still_wrong_when_mended_is_told_what_is_wrong_with_it(
    arguments: Arguments,
) -> None:
    *colour, n = refused(arguments, '{"n": "2", "colour": 5}')
    assert n.endswith("3, got 2")
    assert all(each.endswith("got 5") for each in colour)  # as it was written: "5" is no better


def test_a_value_that_fits_one_member_of_a_union_is_not_turned_into_another() -> None:
    def pick(what: Annotated[int, Field(gt=3)] | str) -> None: ...

    assert refused(typed(pick), '{"what": 2}') == [
        "what: should be a string, got 2",
        "what: should be greater than 3, got 2",
    ]


# --- Text that is no JSON, and text made to hurt ------------------------------------------------


@BOTH
def test_text_that_is_not_json_is_quoted_with_the_place(arguments: Arguments) -> None:
    assert refused(arguments, '{"city": Rome}') == [
        'arguments: not JSON: Expecting value (character 10 of 14), near "{\\"city\\": Rome}"'
    ]
    [problem] = refused(arguments, '{"city": "Rom')
    assert "the text ends too early" in problem


@BOTH
@pytest.mark.parametrize("text", ["[1]", '"x"', "5", "null", "true"])
def test_json_that_is_not_an_object_is_refused(arguments: Arguments, text: str) -> None:
    assert refused(arguments, text) == [f"arguments: should be an object, got {text}"]


@BOTH
@pytest.mark.parametrize("text", ['{"city": "\ud800"}', r'{"city": "\ud800"}'])
def test_a_lone_surrogate_is_kept(arguments: Arguments, text: str) -> None:
    values = arguments.parse(text)
    assert values == {"city": "\ud800"}
    assert arguments.plain(values) == {"city": "\ud800"}
    assert arguments.check(values) == values


@BOTH
def test_beside_a_lone_surrogate_the_rest_is_checked_as_always(arguments: Arguments) -> None:
    values = arguments.parse('{"city": "\ud800", "days": "5", "box": {"width": 1}}')
    assert arguments.plain(values)["days"] == 5
    for text in ('{"city": "\ud800", "days": true}', '{"city": "a", "days": "\ud800"}'):
        [problem] = refused(arguments, text)
        problem.encode()  # what the model is told can be sent
    [problem] = refused(arguments, '{"city": "a", "\ud800": 1}')
    problem.encode()


HOSTILE = {
    "nul": '{"city": "\\u0000", "days": "\\u0000"}',
    "raw nul": '{"city": "\x00"}',
    "deep": '{"city": ' + "[" * 10_000 + "]" * 10_000 + "}",
    "deep and open": '{"city": ' + "[" * 10_000,
    "rather deep": '{"city": ' + "[" * 400 + "]" * 400 + "}",
    "deep in a string": json.dumps({"hours": "[" * 10_000 + "]" * 10_000}),
    "long string": '{"days": "' + "x" * 10_000_000 + '"}',
    "not a number": '{"city": NaN}',
    "infinite": '{"city": "a", "days": -Infinity}',
    "too large": '{"city": "a", "days": 1e400}',
    "too many digits": '{"city": ' + "1" * 100_000 + "}",
    "many digits in a string": json.dumps({"days": "1" * 100_000}),
    "byte order mark": '\ufeff{"city": "a"}',
    "many unknown": json.dumps({str(number): 1 for number in range(20_000)}),
    "many wrong": json.dumps({"hours": ["x"] * 1_000_000}),
    "many wrong in a string": json.dumps({"hours": json.dumps(["x"] * 200_000)}),
    "many wrong after many right": json.dumps({"hours": [1] * 50_000 + ["x"] * 20_000}),
    "long name": json.dumps({"x" * 1_000_000: 1}),
}


@BOTH
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_is_refused_soon_and_in_few_words(arguments: Arguments, text: str) -> None:
    started = time.thread_time()
    with pytest.raises(BadArguments) as caught:
        arguments.parse(text)
    assert time.thread_time() - started < 5
    assert len(str(caught.value)) < 5_000


@BOTH
def test_of_a_name_given_twice_the_last_counts(arguments: Arguments) -> None:
    assert arguments.parse('{"city": 1, "city": "Rome"}') == {"city": "Rome"}


def test_values_that_no_json_can_hold_are_refused_by_check() -> None:
    circle: dict[str, Any] = {}
    circle["city"] = circle
    for arguments in (TYPED, from_schema(RAW)):
        for city in (object(), float("nan"), circle):
            with pytest.raises(BadArguments):
                arguments.check({"city": city})


# --- complaint ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["", " \n", "{}", "[1]", '"\ud800"', r'"\ud800"', '{"a": 1, "a": 2}']
)
def test_json_gives_no_complaint(text: str) -> None:
    assert complaint(text) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1', "the text ends too early"),
        ('{"a": "x', "the text ends too early"),
        ("{'a': 1}", "character 2 of 8"),
        ('{"a": 1}}', "character 9 of 9"),
        ("NaN", "NaN is not a JSON value"),
        ("1e400", "too large"),
        ("1" * 100_000, "too many digits"),
        ("[" * 10_000, "nested too deeply"),
        ("x" * 10_000_000, "character 1 of 10000000"),
        ("\ud800", "near"),
    ],
)
def test_a_complaint_is_short_and_says_where(text: str, words: str) -> None:
    message = complaint(text)
    assert message is not None
    assert words in message
    assert len(message) < 250
    message.encode()


# --- Properties ---------------------------------------------------------------------------------

TEXT = st.text(st.characters(categories=None), max_size=8)  # lone surrogates too
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
NEARLY = st.fixed_dictionaries(
    {},
    optional={
        name: JSON | JSON.map(json.dumps)
        for name in ("city", "days", "exact", "hours", "box", "colour", "tint")
    },
)
VALID = st.fixed_dictionaries(
    {"city": TEXT},
    optional={
        "days": st.integers(),
        "exact": st.booleans(),
        "hours": st.lists(st.integers(), max_size=3),
        "box": st.none() | st.fixed_dictionaries({"width": st.integers(), "label": TEXT}),
        "colour": st.sampled_from(["red", "green"]),
    },
)


@BOTH
@given(value=JSON | NEARLY | NEARLY.map(json.dumps), ascii=st.booleans())
@settings(max_examples=300, deadline=None)
def test_whatever_json_is_written_gives_values_or_a_refusal(
    arguments: Arguments, value: Any, ascii: bool
) -> None:
    try:
        values = arguments.parse(json.dumps(value, ensure_ascii=ascii))
    except BadArguments as refusal:
        str(refusal).encode()
    else:
        assert arguments.check(arguments.plain(values)) == values


@BOTH
@given(text=st.text(max_size=20) | st.text('{}[]":,\\ u0d8ntrue1.eE-', max_size=20))
@settings(max_examples=300, deadline=None)
def test_whatever_text_is_written_gives_values_or_a_refusal(
    arguments: Arguments, text: str
) -> None:
    told = ""
    try:
        arguments.parse(text)
    except BadArguments as refusal:
        told = str(refusal)
    assert ("not JSON" in told) == (complaint(text) is not None)


@BOTH
@given(value=VALID, ascii=st.booleans())
@settings(max_examples=200, deadline=None)
def test_valid_arguments_survive_unchanged(
    arguments: Arguments, value: dict[str, Any], ascii: bool
) -> None:
    assert arguments.plain(arguments.parse(json.dumps(value, ensure_ascii=ascii))) == value


@BOTH
@given(value=VALID, days=st.integers())
@settings(max_examples=200, deadline=None)
def test_mending_one_value_never_changes_another_that_was_valid(
    arguments: Arguments, value: dict[str, Any], days: int
) -> None:
    written = value | {"days": str(days)}
    assert arguments.plain(arguments.parse(json.dumps(written))) == value | {"days": days}
