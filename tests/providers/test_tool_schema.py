"""The schema of a tool's arguments, as one object."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.providers.tool_schema import one_object

A = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
B = {"type": "object", "properties": {"b": {"type": "integer"}}}


def test_an_object_is_sent_as_it_is() -> None:
    assert one_object(A) == (A, "")


def test_an_object_without_fields_says_that_it_has_none() -> None:
    assert one_object({}) == ({"type": "object", "properties": {}}, "")


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [A, B]},
        {"allOf": [A, {"oneOf": [B]}]},
        {"$ref": "#/$defs/Both", "$defs": {"Both": {"anyOf": [A, B]}}},
    ],
)
def test_what_is_put_together_at_the_root_is_one_object_and_the_rest_is_told(
    schema: dict[str, Any],
) -> None:
    made, rest = one_object(schema)
    assert made["type"] == "object"
    assert made["properties"] == {"a": {"type": "string"}, "b": {"type": "integer"}}
    assert not {"anyOf", "allOf", "oneOf", "$ref"} & made.keys()
    assert rest.startswith("The arguments also have to fit")


def test_a_schema_that_refers_to_itself_comes_to_an_end() -> None:
    schema, _ = one_object({"$ref": "#", "properties": {"a": {}}})
    assert schema["properties"] == {"a": {}}
