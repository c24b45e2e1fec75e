"""The page's types of the API are those of the document, and nothing is left out in silence."""

from __future__ import annotations

import pytest

from holdfast.server.routes.health import document
from tests.server.typescript import FILE, Schema, UnknownSchema, type_of, typescript


def test_the_page_has_the_types_of_this_api() -> None:
    assert FILE.read_text("utf-8") == typescript(document()), "run make types"


@pytest.mark.parametrize(
    ("schema", "made"),
    [
        ({}, "unknown"),
        ({"description": "anything"}, "unknown"),
        ({"type": "integer", "minimum": 0}, "number"),
        ({"enum": ["a", "b"]}, '"a" | "b"'),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string | null"),
        (
            {"type": "array", "items": {"$ref": "#/components/schemas/Part"}},
            'Array<Schemas["Part"]>',
        ),
        ({"type": "array", "prefixItems": [{"type": "string"}], "items": False}, "[string]"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "Record<string, string>"),
        ({"type": "object"}, "Record<string, unknown>"),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "string"}, "b-c": {"type": "number", "default": 1}},
                "required": ["a"],
            },
            '{\n  a: string;\n  /** @default 1 */\n  "b-c"?: number;\n}',
        ),
    ],
)
def test_a_schema_is_the_type_of_what_it_lets_through(schema: Schema, made: str) -> None:
    assert type_of(schema) == made


@pytest.mark.parametrize("schema", [{"oneOf": []}, {"type": "array", "contains": {}}])
def test_a_keyword_that_is_not_known_stops_it(schema: Schema) -> None:
    with pytest.raises(UnknownSchema, match="say here what it is"):
        type_of(schema)


def test_words_cannot_end_the_comment_that_they_stand_in() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "description": "*/ import 'x' /*"}},
    }
    assert type_of(schema).count("*/") == 1


def test_a_stream_that_is_new_has_to_be_named() -> None:
    api = {"paths": {"/api/v1/news": {"get": {"x-events": {}}}}, "components": {"schemas": {}}}
    with pytest.raises(UnknownSchema, match="/news"):
        typescript(api)
