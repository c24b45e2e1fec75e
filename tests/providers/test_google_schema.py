from __future__ import annotations

from typing import Any

import pytest

from holdfast.providers.google.schema import answer_schema, openapi_schema

Json = dict[str, Any]

NODE: Json = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "next": {"$ref": "#/$defs/Node"}},
}


def one(schema: Json, **defs: Json) -> Any:
    """A schema after it was reduced as the schema of a field."""
    root: Json = {"type": "object", "properties": {"x": schema}}
    if defs:
        root["$defs"] = defs
    return openapi_schema(root)["properties"]["x"]


@pytest.mark.parametrize(
    ("schema", "reduced"),
    [
        ({"type": "string", "minLength": 1, "title": "X"}, {"type": "string", "minLength": 1}),
        ({"type": ["string", "null"]}, {"type": "string", "nullable": True}),
        (
            {"type": ["string", "integer", "null"]},
            {"nullable": True, "anyOf": [{"type": "string"}, {"type": "integer"}]},
        ),
        (
            {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}], "description": "n"},
            {"type": "integer", "minimum": 0, "description": "n", "nullable": True},
        ),
        (
            {"oneOf": [{"type": "integer"}, {"type": "boolean"}]},
            {"anyOf": [{"type": "integer"}, {"type": "boolean"}]},
        ),
        ({"const": "a"}, {"type": "string", "enum": ["a"]}),
        ({"enum": ["a", "b", None]}, {"type": "string", "enum": ["a", "b"], "nullable": True}),
        (
            {"enum": [1, 2], "description": "n"},
            {"type": "integer", "description": "n\none of: [1,2]"},
        ),
        ({"enum": ["a", 1]}, {"description": 'one of: ["a",1]'}),
        ({"type": "integer", "format": "int64"}, {"type": "integer", "format": "int64"}),
        (
            {"type": "string", "format": "email"},
            {"type": "string", "description": 'format: "email"'},
        ),
        (
            {"type": "number", "exclusiveMinimum": 0, "multipleOf": 2},
            {"type": "number", "description": "exclusiveMinimum: 0\nmultipleOf: 2"},
        ),
        ({"type": "array"}, {"type": "array", "items": {}}),
        (
            {"type": "array", "items": {"type": ["string", "null"]}, "minItems": 1},
            {"type": "array", "items": {"type": "string", "nullable": True}, "minItems": 1},
        ),
        (
            {"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]},
            {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "integer"}]}},
        ),
        (
            {"type": "array", "prefixItems": [{"type": "string"}, {"type": "string"}]},
            {"type": "array", "items": {"type": "string"}},
        ),
        (
            {"type": "object", "properties": {"const": {"const": "c"}}, "required": ["const"]},
            {
                "type": "object",
                "properties": {"const": {"type": "string", "enum": ["c"]}},
                "required": ["const"],
            },
        ),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {"type": "object"}),
        (True, {}),
    ],
)
def test_a_schema_is_said_in_what_openapi_knows(schema: Json, reduced: Json) -> None:
    assert one(schema) == reduced


def test_a_reference_is_replaced_by_what_it_points_at() -> None:
    city: Json = {"type": "string", "description": "of the world"}
    assert one({"$ref": "#/$defs/City"}, City=city) == city
    said = one({"$ref": "#/$defs/City", "description": "here"}, City=city)
    assert said == {"type": "string", "description": "here"}
    assert one({"$ref": "#/$defs/Gone"}) == {}


def test_a_reference_that_leads_back_to_itself_is_cut_off() -> None:
    reduced = one({"$ref": "#/$defs/Node"}, Node=NODE)
    assert reduced["properties"] == {"name": {"type": "string"}, "next": {"type": "object"}}


def test_a_reference_among_several_schemas_is_cut_off_too() -> None:
    node: Json = {"type": "object", "properties": {"next": {"allOf": [{"$ref": "#/$defs/Node"}]}}}
    assert one({"$ref": "#/$defs/Node"}, Node=node) == {
        "type": "object",
        "properties": {"next": {"type": "object"}},
    }


def test_what_has_to_fit_several_schemas_becomes_one() -> None:
    named: Json = {
        "type": "object",
        "properties": {"name": {"type": "string"}},
        "required": ["name"],
    }
    aged: Json = {"properties": {"age": {"type": "integer"}}, "required": ["age"]}
    assert one({"allOf": [{"$ref": "#/$defs/Named"}, aged]}, Named=named) == {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "age"],
    }


def test_the_schema_given_is_not_changed() -> None:
    schema: Json = {"type": "object", "properties": {"x": {"type": ["string", "null"]}}}
    openapi_schema(schema)
    answer_schema(schema)
    assert schema == {"type": "object", "properties": {"x": {"type": ["string", "null"]}}}


def test_the_schema_of_an_answer_lists_what_may_be_only_one_value() -> None:
    schema: Json = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "properties": {
            "kind": {"const": "cat"},
            "const": {"type": "string"},
            "ages": {"type": "array", "items": {"const": 1, "type": "integer"}},
            "any": True,
        },
        "$defs": {"Dog": {"anyOf": [{"const": None}, {"$ref": "#/$defs/Dog"}]}},
    }
    assert answer_schema(schema) == {
        "type": "object",
        "properties": {
            "kind": {"enum": ["cat"], "type": "string"},
            "const": {"type": "string"},
            "ages": {"type": "array", "items": {"enum": [1], "type": "integer"}},
            "any": True,
        },
        "$defs": {"Dog": {"anyOf": [{"enum": [None]}, {"$ref": "#/$defs/Dog"}]}},
    }
