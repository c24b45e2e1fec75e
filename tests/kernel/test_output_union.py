"""Answers of union types: which member a value is of, and whose problems the model reads."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from itertools import count
from typing import Annotated, Any, Final, Literal

import msgspec
import pytest
from pydantic import BaseModel, Discriminator, Field, Tag

from holdfast.errors import ConfigError
from holdfast.events import OutputDelta, PartialOutput
from holdfast.kernel.output import Fits, Misfit, Output
from holdfast.providers.anthropic.answer_schema import answer_schema as anthropic_schema
from holdfast.providers.google.answer_schema import answer_schema as google_schema
from holdfast.providers.strict import strict_schema
from tests.kernel.runs import events_of, only, scripted


class Seat(BaseModel):
    """A seat of the aircraft."""

    row: Annotated[int, Field(ge=1, le=30)]
    seat: Literal["A", "B"]


class Failed(BaseModel):
    """No seat could be extracted."""


@dataclass
class Note:
    text: str = ""
    written: date | None = None


class Tagged(BaseModel):
    kind: Literal["seat"]
    seat: str
    row: Annotated[int, Field(le=30)]


class Refused(BaseModel):
    kind: Literal["refused"]
    why: str


class Strict(BaseModel, extra="forbid"):
    a: int


class Other(BaseModel, extra="forbid"):
    b: Annotated[int, Field(le=3)]


class Holder(BaseModel):
    inner: Strict | Other


class Cat(msgspec.Struct, tag="cat"):
    lives: int = 9


class Dog(msgspec.Struct, tag="dog"):
    name: str = ""


def kind_of(value: Any) -> str:
    return "text" if isinstance(value, str) else "seat"


ByFunction = Annotated[
    Annotated[Seat, Tag("seat")] | Annotated[str, Tag("text")], Discriminator(kind_of)
]
ByKind = Annotated[Tagged | Refused, Field(discriminator="kind")]
SEAT: Final = '{"row": 5, "seat": "A"}'


def fits(wanted: Any, text: str) -> Any:
    verdict = Output(wanted).check(text)
    assert isinstance(verdict, Fits), verdict
    return verdict.value


def problems(wanted: Any, text: str) -> tuple[str, ...]:
    verdict = Output(wanted).check(text)
    assert isinstance(verdict, Misfit), verdict
    return verdict.problems


def test_a_union_of_objects_is_requested_with_the_name_of_the_member() -> None:
    (value,) = Output(Seat | Failed).shape.schema["properties"].values()
    assert value == {
        "anyOf": [
            {
                "type": "object",
                "properties": {name: {"$ref": f"#/$defs/{name}"}},
                "required": [name],
                "additionalProperties": False,
            }
            for name in ("Seat", "Failed")
        ]
    }


@pytest.mark.parametrize(
    "wanted",
    [Seat | Failed, Seat | Failed | None, list[Seat | Failed], Seat | Note | str, ByKind | Failed],
    ids=count(),
)
def test_strict_modes_of_the_providers_can_enforce_the_names(wanted: Any) -> None:
    schema = Output(wanted).shape.schema
    assert strict_schema(schema)[1]
    assert anthropic_schema(schema) is not None
    assert google_schema(schema)["properties"].keys() == {"value"}


@pytest.mark.parametrize(
    ("wanted", "text", "value"),
    [
        (Seat | Failed, f'{{"value": {{"Seat": {SEAT}}}}}', Seat(row=5, seat="A")),
        (Failed | Seat, f'{{"value": {{"Seat": {SEAT}}}}}', Seat(row=5, seat="A")),
        (Seat | Failed, '{"value": {"Failed": {}}}', Failed()),
        (Seat | Failed, '{"value": {"Seat": {"row": "5", "seat": "A"}}}', Seat(row=5, seat="A")),
        (Seat | Failed | None, '{"value": null}', None),
        (Seat | Note | str, '{"value": "hello"}', "hello"),
        (
            Seat | Note,
            '{"value": {"Note": {"written": "2020-02-29"}}}',
            Note(written=date(2020, 2, 29)),
        ),
        (Seat | dict[str, int], '{"value": {"dict_str_int": {"row": 1}}}', {"row": 1}),
        (list[Seat] | list[Failed], '{"value": {"list_Seat": []}}', []),
        (
            list[Seat | Failed],
            f'{{"value": [{{"Failed": {{}}}}, {{"Seat": {SEAT}}}]}}',
            [Failed(), Seat(row=5, seat="A")],
        ),
        (dict[str, Seat | Failed], '{"value": {"a": {"Failed": {}}}}', None),
        (
            Annotated[Seat | Failed, Field(description="What was found.")],
            '{"value": {"Failed": {}}}',
            Failed(),
        ),
        (
            ByKind | Failed,
            '{"value": {"Refused": {"kind": "refused", "why": "x"}}}',
            Refused(kind="refused", why="x"),
        ),
    ],
    ids=count(),
)
def test_an_answer_is_of_the_member_that_it_names(wanted: Any, text: str, value: Any) -> None:
    if wanted == dict[str, Seat | Failed]:  # an object, which is requested as it is
        text, value = text[len('{"value": ') : -1], {"a": Failed()}
    found = fits(wanted, text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("wanted", "text", "value"),
    [
        (Seat | None, f'{{"value": {SEAT}}}', Seat(row=5, seat="A")),
        (Seat | str, f'{{"value": {SEAT}}}', Seat(row=5, seat="A")),
        (int | str, '{"value": "a"}', "a"),
        (
            ByKind | None,
            '{"value": {"kind": "refused", "why": "x"}}',
            Refused(kind="refused", why="x"),
        ),
        (list[ByKind], '{"value": [{"kind": "refused", "why": "x"}]}', None),
        (ByFunction, f'{{"value": {SEAT}}}', Seat(row=5, seat="A")),
        (Cat | Dog, '{"value": {"type": "dog"}}', Dog()),
    ],
    ids=count(),
)
def test_members_that_can_be_told_apart_are_not_named(wanted: Any, text: str, value: Any) -> None:
    expected = [Refused(kind="refused", why="x")] if value is None else value
    assert fits(wanted, text) == expected


def test_two_types_of_one_name_are_numbered() -> None:
    mine = type("Seat", (BaseModel,), {"__annotations__": {"x": int}})
    assert fits(Seat | mine, '{"value": {"Seat-2": {"x": 1}}}') == mine(x=1)


@pytest.mark.parametrize(
    ("wanted", "value", "expected"),
    [
        (
            Seat | Failed,
            '{"row": 45, "seat": "A"}',
            ['value: should be {"Seat": …} or {"Failed": …}, got {"row": 45, "seat": "A"}'],
        ),
        (
            Seat | Failed,
            '{"Seat": {"row": 45}}',
            [
                "value.Seat.seat: missing",
                "value.Seat.row: should be less than or equal to 30, got 45",
            ],
        ),
        (
            Seat | Failed,
            '{"Failed": {}, "Seat": {"row": 1, "seat": "A"}}',
            [
                'value: should be {"Seat": …} or {"Failed": …}, '
                'got {"Failed": {}, "Seat": {"row": 1, "seat": "A"}}'
            ],
        ),
        (Seat | Failed, '"none"', ['value: should be an object, got "none"']),
        (
            list[Seat | Failed],
            '[{"Failed": {}}, {"Seat": {"row": 3}}]',
            ["value[1].Seat.seat: missing"],
        ),
        (
            ByKind,
            '{"kind": "seat", "seat": "A", "row": 45}',
            ["value.row: should be less than or equal to 30, got 45"],
        ),
        (ByKind, '{"kind": "seat", "seat": "A"}', ["value.row: missing"]),
        (ByKind, '{"seat": "A"}', ['value.kind: missing; should be "refused" or "seat"']),
        (ByKind, '{"kind": "x"}', ['value.kind: should be "refused" or "seat", got "x"']),
        (
            Cat | Dog,
            '{"type": "cat", "lives": "x"}',
            ['value.lives: should be a whole number, got "x"'],
        ),
        (Cat | Dog, '{"type": "cow"}', ['value.type: should be "cat" or "dog", got "cow"']),
        (
            list[ByKind],
            '[{"kind": "seat", "seat": "A", "row": "x"}, {"why": "?"}]',
            [
                'value[1].kind: missing; should be "refused" or "seat"',
                'value[0].row: should be a whole number, got "x"',
            ],
        ),
    ],
    ids=count(),
)
def test_the_problems_are_those_of_the_named_member(
    wanted: Any, value: str, expected: list[str]
) -> None:
    assert list(problems(wanted, f'{{"value": {value}}}')) == expected


def test_a_problem_of_one_member_says_of_which() -> None:
    assert problems(Holder, '{"inner": {"a": 1, "b": 4}}') == (
        "inner.b: should be less than or equal to 3, got 4 (for Other)",
        "inner.a: unknown (for Other)",
        "inner.b: unknown (for Strict)",
    )


def test_structs_without_tags_are_refused_with_what_to_do() -> None:
    class Plain(msgspec.Struct):
        x: int = 0

    class Other(msgspec.Struct):
        y: int = 0

    with pytest.raises(ConfigError, match="give each a tag"):
        Output(Plain | Other)


async def test_a_wrong_value_of_a_member_is_repaired_instead_of_taken_for_another() -> None:
    wrong, right = (f'{{"value": {{"Seat": {{"row": {row}, "seat": "A"}}}}}}' for row in (45, 4))
    agent = scripted([wrong, right], output=Seat | Failed)
    result = await agent.run("45 A")
    assert result.output == Seat(row=4, seat="A")
    (repair,) = [message.text for message in result.history if message.why == "repair"]
    assert repair.endswith("\n- value.Seat.row: should be less than or equal to 30, got 45")


async def test_the_value_while_it_is_streamed_has_the_name_of_the_member() -> None:
    text = '{"value": {"Seat": {"row": 5, "seat": "A"}}}'
    agent = scripted([text], output=Seat | Failed)
    last = only(OutputDelta, await events_of(agent.run("?")))[-1]
    assert last.value == {"Seat": {"row": 5, "seat": "A"}}
    assert last.output_as(Seat | Failed) == Seat(row=5, seat="A")

    partial = PartialOutput(Seat | Failed)
    begun = partial.add('{"value": {"Seat": {"row": 5')
    assert begun is not None
    assert begun.output_as(Seat | Failed) is None
