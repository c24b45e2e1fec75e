from __future__ import annotations

from typing import Any

import pytest

from holdfast.providers.google.answer_schema import answer_schema

Json = dict[str, Any]

CITY: Json = {"type": "object", "properties": {"name": {"type": "string"}}}


def test_the_schema_given_is_not_changed() -> None:
    def schema() -> Json:
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {"a": {"const": 1}, "b": {"$ref": "#/$defs/City", "description": "b"}},
            "$defs": {"City": CITY},
        }

    given = schema()
    assert answer_schema(given) != given
    assert given == schema()


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


@pytest.mark.parametrize(
    ("field", "made"),
    [
        ({"$ref": "#/$defs/City"}, {"$ref": "#/$defs/City"}),
        ({"$ref": "#/$defs/City", "default": None, "title": "C"}, {"$ref": "#/$defs/City"}),
        (
            {"$ref": "#/$defs/City", "description": "where", "default": None},
            {"anyOf": [{"$ref": "#/$defs/City"}], "description": "where"},
        ),
    ],
)
def test_nothing_stands_beside_a_reference(field: Json, made: Json) -> None:
    """The API takes none of it there."""
    schema: Json = {"type": "object", "properties": {"at": field}, "$defs": {"City": CITY}}
    assert answer_schema(schema) == {**schema, "properties": {"at": made}}


@pytest.mark.parametrize("place", ["$defs", "definitions"])
def test_a_schema_that_is_a_reference_keeps_what_it_refers_to(place: str) -> None:
    kept: Json = {"$ref": f"#/{place}/City", place: {"City": CITY}}
    assert answer_schema({**kept, "title": "C"}) == kept
    assert answer_schema({**kept, "description": "where"}) == {
        "anyOf": [{"$ref": f"#/{place}/City"}],
        "description": "where",
        place: {"City": CITY},
    }


def test_a_field_may_have_the_name_of_a_keyword() -> None:
    fields: Json = {"$ref": {"type": "string"}, "description": {"type": "string"}}
    schema: Json = {"type": "object", "properties": fields}
    assert answer_schema(schema) == schema
