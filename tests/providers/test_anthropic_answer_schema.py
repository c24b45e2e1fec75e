"""Schemas as the Anthropic Messages API takes them."""

from __future__ import annotations

from copy import deepcopy
from typing import Annotated, Any, Final, Literal

import jsonschema_rs
import pytest
from anthropic import transform_schema
from pydantic import BaseModel, Field

from holdfast.providers.anthropic.answer_schema import answer_schema

TEXT = {"type": "string"}


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def closed(**properties: Any) -> dict[str, Any]:
    return {**of(**properties), "additionalProperties": False}


def test_objects_are_closed_and_may_lack_fields() -> None:
    schema = {**of(a=TEXT, b=of(c=TEXT)), "required": ["a"]}
    assert answer_schema(schema) == {**closed(a=TEXT, b=closed(c=TEXT)), "required": ["a"]}


def test_the_original_is_left_as_it_is() -> None:
    schema = of(a=of(b={"type": "string", "maxLength": 3}))
    before = deepcopy(schema)
    answer_schema(schema)
    assert schema == before


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({"type": "string", "format": "date"}, None),
        ({"type": "array", "items": TEXT, "minItems": 1}, None),
        ({"enum": ["a", 1, None]}, None),
        ({"const": "a", "title": "A", "default": "a"}, None),
        ({"type": "integer", "minimum": 1}, {"type": "integer", "description": "minimum: 1"}),
        (
            {"type": "string", "description": "A.", "pattern": "^a$", "maxLength": 2},
            {"type": "string", "description": 'A.\nmaxLength: 2\npattern: "^a$"'},
        ),
        (
            {"type": "string", "format": "binary"},
            {"type": "string", "description": 'format: "binary"'},
        ),
        (
            {"type": "array", "items": TEXT, "minItems": 2},
            {"type": "array", "items": TEXT, "description": "minItems: 2"},
        ),
        ({"oneOf": [TEXT, {"type": "null"}]}, {"anyOf": [TEXT, {"type": "null"}]}),
        (
            {"type": ["string", "null"], "title": "A", "minLength": 1},
            {
                "title": "A",
                "anyOf": [{"type": "string", "description": "minLength: 1"}, {"type": "null"}],
            },
        ),
        (
            {"type": ["string", "null"], "enum": ["a", "b", None], "default": None},
            {
                "default": None,
                "anyOf": [
                    {"type": "string", "enum": ["a", "b"]},
                    {"type": "null", "enum": [None]},
                ],
            },
        ),
        (
            {"type": ["integer", "number", "boolean", "string"], "enum": [True, 1, 2.5]},
            {
                "anyOf": [
                    {"type": "integer", "enum": [1]},
                    {"type": "number", "enum": [1, 2.5]},
                    {"type": "boolean", "enum": [True]},
                ]
            },
        ),
        (
            {"type": ["string", "null"], "const": "a"},
            {"anyOf": [{"type": "string", "const": "a"}]},
        ),
        (
            {"type": ["array", "null"], "items": TEXT, "minItems": 1, "x": 1},
            {
                "description": "x: 1",
                "anyOf": [{"type": "array", "items": TEXT, "minItems": 1}, {"type": "null"}],
            },
        ),
        ({**of(b=TEXT), "type": ["object", "null"]}, {"anyOf": [closed(b=TEXT), {"type": "null"}]}),
        ({"type": ["string"], "format": "date"}, {"anyOf": [{"type": "string", "format": "date"}]}),
        (
            {"anyOf": [TEXT, {"type": "null"}], "format": "date"},
            {"anyOf": [TEXT, {"type": "null"}], "description": 'format: "date"'},
        ),
        ({"$schema": "x", "$id": "y", "$comment": "z", **TEXT}, TEXT),
    ],
)
def test_what_is_not_known_is_told(given: dict[str, Any], made: dict[str, Any] | None) -> None:
    assert answer_schema(of(a=given)) == closed(a=given if made is None else made)


def test_a_schema_of_several_types_keeps_its_definitions() -> None:
    schema = {
        **of(a={"$ref": "#/$defs/A"}),
        "type": ["object", "null"],
        "$defs": {"A": of(b=TEXT)},
    }
    assert answer_schema(schema) == {
        "anyOf": [closed(a={"$ref": "#/$defs/A"}), {"type": "null"}],
        "$defs": {"A": closed(b=TEXT)},
    }


@pytest.mark.parametrize("turn", [dict, lambda items: dict(reversed(list(items)))])
def test_the_order_of_keywords_means_nothing(turn: Any) -> None:
    inner = {"description": "An A.", "type": "string", "pattern": "a", "minLength": 1}
    outer = {"description": "The A.", "allOf": [turn(inner.items())], "title": "A"}
    assert answer_schema(of(a=turn(outer.items()))) == closed(
        a={
            "type": "string",
            "title": "A",
            "description": 'The A.\nminLength: 1\npattern: "a"',
        }
    )


def test_a_reference_stands_alone() -> None:
    schema = {**of(a={"$ref": "#/$defs/A", "description": "An A."}), "$defs": {"A": of(b=TEXT)}}
    assert answer_schema(schema) == {
        **closed(a={"description": "An A.", "anyOf": [{"$ref": "#/$defs/A"}]}),
        "$defs": {"A": closed(b=TEXT)},
    }
    wrapped = {**of(a={"allOf": [{"$ref": "#/$defs/A"}]}), "$defs": {"A": of(b=TEXT)}}
    assert answer_schema(wrapped) == {
        **closed(a={"$ref": "#/$defs/A"}),
        "$defs": {"A": closed(b=TEXT)},
    }


@pytest.mark.parametrize(
    "schema",
    [
        {},
        of(a={}),
        of(a=True),
        {"type": "object"},
        {**of(a=TEXT), "additionalProperties": True},
        {**of(a=TEXT), "additionalProperties": TEXT},
        of(a={"type": "array"}),
        of(a={"type": "array", "prefixItems": [TEXT]}),
        of(a={"not": TEXT}),
        of(a={"enum": [{"b": 1}]}),
        of(a={"allOf": [of(b=TEXT), of(c=TEXT)]}),
        {**of(a=TEXT), "allOf": [of(b=TEXT)]},
        {**of(a=TEXT), "anyOf": [of(b=TEXT), of(c=TEXT)]},
        {**of(a=TEXT), "oneOf": [{"required": ["a"]}]},
        of(a={"items": TEXT, "anyOf": [{"type": "array"}, TEXT]}),
        of(a={"anyOf": [TEXT], "oneOf": [TEXT]}),
        of(a={"anyOf": [TEXT], "allOf": [TEXT]}),
        of(a={"type": ["string", "null"], "anyOf": [TEXT]}),
        {**of(a={"$ref": "#/$defs/A", "anyOf": [TEXT]}), "$defs": {"A": TEXT}},
        {**of(a={"$ref": "#/$defs/A", "properties": {}}), "$defs": {"A": TEXT}},
        of(a={"type": "string", "enum": ["a", None]}),
        of(a={"type": "string", "const": 1}),
        of(a={"type": ["string", "null"], "enum": [1]}),
        of(a={"type": "file"}),
        {**of(a=TEXT), "required": ["a", "b"]},
        of(a={"$ref": "#/$defs/missing"}),
        {**of(a={"$ref": "#/$defs/A"}), "$defs": {"A": of(a={"$ref": "#/$defs/A"})}},
        {
            "$ref": "#/definitions/A",
            "definitions": {
                "A": of(b={"type": "array", "items": {"$ref": "#/definitions/B"}}),
                "B": of(a={"anyOf": [{"$ref": "#/definitions/A"}, {"type": "null"}]}),
            },
        },
    ],
)
def test_what_cannot_be_said_is_not_held(schema: dict[str, Any]) -> None:
    assert answer_schema(schema) is None


NULL: Final = {"type": "null"}
MAYBE: Final = {"anyOf": [TEXT, NULL]}


def fields(count: int, schema: Any, *, required: bool) -> dict[str, Any]:
    properties = {f"f{at}": schema for at in range(count)}
    return {**of(**properties), "required": list(properties)} if required else of(**properties)


def test_only_so_many_fields_may_be_optional() -> None:
    assert answer_schema(fields(24, TEXT, required=False)) is not None
    assert answer_schema(fields(25, TEXT, required=False)) is None
    assert answer_schema(fields(100, TEXT, required=True)) is not None
    halves = {**of(a={"$ref": "#/$defs/A"}), "$defs": {"A": fields(24, TEXT, required=False)}}
    assert answer_schema(halves) is None
    assert answer_schema({**halves, "required": ["a"]}) is not None


def test_only_so_many_fields_may_be_of_several_types() -> None:
    assert answer_schema(fields(16, MAYBE, required=True)) is not None
    assert answer_schema(fields(17, MAYBE, required=True)) is None
    assert answer_schema(fields(17, {"type": ["string", "null"]}, required=True)) is None


def test_a_definition_may_be_used_often() -> None:
    name = {"$ref": "#/$defs/N0"}
    levels = {
        f"N{at}": of(a={"$ref": f"#/$defs/N{at + 1}"}, b={"$ref": f"#/$defs/N{at + 1}"})
        for at in range(40)
    }
    always = {key: {**level, "required": ["a", "b"]} for key, level in levels.items()}
    assert answer_schema({**of(a=name), "$defs": {**always, "N40": of(a=TEXT)}}) is not None


class Address(BaseModel):
    street: str
    number: Annotated[int, Field(ge=1)]


class Person(BaseModel):
    """Somebody."""

    name: Annotated[str, Field(min_length=1, description="All of it.")]
    kind: Literal["friend", "stranger"]
    nick: str | None = None
    home: Address
    others: Annotated[list[Address], Field(max_length=3, description="Where else.")] = []


def test_a_model_of_pydantic_is_held_as_the_sdk_does_it() -> None:
    """Beside the words in descriptions, which are ours."""

    def plain(schema: Any) -> Any:
        if isinstance(schema, dict):
            drop = (
                ("description", "default", "type")
                if "enum" in schema
                else ("description", "default")
            )
            return {key: plain(value) for key, value in schema.items() if key not in drop}
        return [plain(one) for one in schema] if isinstance(schema, list) else schema

    schema = Person.model_json_schema()
    assert plain(answer_schema(schema)) == plain(transform_schema(schema))


def test_what_fits_fits_both() -> None:
    schema = Person.model_json_schema()
    held = answer_schema(schema)
    assert held is not None
    person = {
        "name": "A",
        "kind": "friend",
        "home": {"street": "B", "number": 1},
        "others": [{"street": "C", "number": 2}],
    }
    assert jsonschema_rs.is_valid(schema, person)
    assert jsonschema_rs.is_valid(held, person)
    assert not jsonschema_rs.is_valid(held, {**person, "age": 3})
