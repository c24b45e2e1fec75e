"""Schemas as OpenAI's strict mode takes them."""

from __future__ import annotations

from copy import deepcopy
from typing import Annotated, Any, Literal

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from holdfast.providers.strict import strict_schema

TEXT = {"type": "string"}


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def test_objects_are_closed_and_have_all_of_their_fields() -> None:
    schema, strict = strict_schema({**of(a=TEXT, b=of(c=TEXT)), "required": ["a"]})
    assert strict
    assert schema == {
        "type": "object",
        "properties": {
            "a": TEXT,
            "b": {
                "type": "object",
                "properties": {"c": TEXT},
                "required": ["c"],
                "additionalProperties": False,
            },
        },
        "required": ["a", "b"],
        "additionalProperties": False,
    }


def test_the_original_is_left_as_it_is() -> None:
    schema = of(a=of(b={"type": "string", "maxLength": 3}))
    before = deepcopy(schema)
    strict_schema(schema)
    assert schema == before


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({"type": "integer", "minimum": 1, "maximum": 3}, None),
        ({"type": "array", "items": TEXT, "minItems": 1, "maxItems": 2}, None),
        ({"type": ["string", "null"], "format": "date", "title": "When"}, None),
        ({"type": "string", "pattern": "^a+$"}, None),
        ({"anyOf": [TEXT, {"type": "null"}], "description": "a name"}, None),
        ({"oneOf": [TEXT, {"type": "null"}]}, {"anyOf": [TEXT, {"type": "null"}]}),
        ({"enum": ["a", "b"]}, {"type": "string", "enum": ["a", "b"]}),
        ({"enum": ["a", None]}, {"type": ["string", "null"], "enum": ["a", None]}),
        ({"const": 3}, {"type": "integer", "const": 3}),
        ({"type": "string", "default": "x"}, {"type": "string", "description": 'default: "x"'}),
        (
            {"type": "string", "description": "A name.", "maxLength": 5, "format": "uri"},
            {"type": "string", "description": 'A name.\nmaxLength: 5\nformat: "uri"'},
        ),
        (
            {"type": "string", "pattern": "a(?=b)"},
            {"type": "string", "description": 'pattern: "a(?=b)"'},
        ),
        ({"$ref": "#/$defs/x"}, None),
        (
            {"$ref": "#/$defs/x", "description": "one"},
            {"description": "one", "anyOf": [{"$ref": "#/$defs/x"}]},
        ),
    ],
    ids=str,
)
def test_rules_are_kept_or_told_in_the_description(
    given: dict[str, Any], made: dict[str, Any] | None
) -> None:
    schema, strict = strict_schema(of(it=given))
    assert strict
    assert schema["properties"]["it"] == (made or given)


@pytest.mark.parametrize(
    "given",
    [
        {"type": "object"},
        {"type": "object", "additionalProperties": TEXT},
        {**of(a=TEXT), "additionalProperties": True},
        {},
        True,
        {"description": "anything"},
        {"type": "array"},
        {"type": "array", "items": {}},
        {"type": "array", "prefixItems": [TEXT], "items": False},
        {"allOf": [of(a=TEXT), of(b=TEXT)]},
        {"type": "string", "not": {"const": "x"}},
        {"enum": [["a"], ["b"]]},
        {"anyOf": [TEXT], "oneOf": [{"type": "integer"}]},
        {"$ref": "#/$defs/x", "anyOf": [TEXT, {"type": "null"}]},
    ],
    ids=str,
)
def test_what_strict_mode_would_forbid_or_not_take_stays_as_it_is(given: Any) -> None:
    schema = {**of(a=TEXT, it=given), "required": ["a"]}
    assert strict_schema(schema) == (schema, False)


@pytest.mark.parametrize(
    "root",
    [
        {"type": "array", "items": TEXT},
        {"anyOf": [of(a=TEXT), of(b=TEXT)]},
        {**of(a=TEXT), "anyOf": [of(a=TEXT), of(b=TEXT)]},
        {**of(a=TEXT), "oneOf": [of(a=TEXT), of(b=TEXT)]},
        {"$ref": "#/$defs/lost"},
        {"$ref": "#/$defs/x", "$defs": {"x": {"$ref": "#/$defs/x"}}},
    ],
    ids=str,
)
def test_only_an_object_can_be_the_root(root: dict[str, Any]) -> None:
    assert strict_schema(root) == (root, False)


class Tree(msgspec.Struct):
    name: str
    kind: Literal["leaf", "branch"]
    children: list[Tree] = []


class Person(BaseModel):
    name: str
    age: Annotated[int, Field(ge=0, description="In years.")] = 0
    nickname: str | None = None
    friends: list[Person] = []


@pytest.mark.parametrize(
    "schema", [msgspec.json.schema(Tree), Person.model_json_schema()], ids=["msgspec", "pydantic"]
)
def test_a_root_that_refers_to_a_definition_is_that_definition(schema: dict[str, Any]) -> None:
    made, strict = strict_schema(schema)
    assert strict
    assert made["type"] == "object"
    assert made["required"] == list(made["properties"])
    for name, definition in made["$defs"].items():
        assert definition["required"] == list(schema["$defs"][name]["properties"])
    jsonschema_rs.validator_for(made)


NAMES = st.sampled_from(["a", "b", "c"])


def schemas() -> st.SearchStrategy[dict[str, Any]]:
    leaves: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
        [
            {"type": "string"},
            {"type": "integer", "minimum": 0},
            {"type": ["string", "null"]},
            {"enum": ["x", "y"]},
            {"type": "string", "minLength": 0, "default": "x"},
        ]
    )

    def nested(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
        objects = st.builds(
            lambda properties, optional: {
                **of(**properties),
                "required": [name for name in properties if name not in optional],
            },
            st.dictionaries(NAMES, inner, min_size=1),
            st.sets(NAMES),
        )
        lists = st.builds(lambda items: {"type": "array", "items": items}, inner)
        unions = st.builds(lambda first, second: {"anyOf": [first, second]}, inner, inner)
        return objects | lists | unions

    return st.recursive(leaves, nested, max_leaves=8)


def example(schema: dict[str, Any]) -> Any:
    """Something that fits, the fullest there is."""
    if "anyOf" in schema:
        return example(schema["anyOf"][0])
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema["type"] if isinstance(schema["type"], str) else schema["type"][-1]
    if kind == "object":
        return {name: example(inner) for name, inner in schema["properties"].items()}
    return {"array": [], "integer": 1, "null": None, "string": "s"}.get(kind)


@given(st.dictionaries(NAMES, schemas(), min_size=1))
def test_what_fits_the_strict_schema_fits_the_original(properties: dict[str, Any]) -> None:
    schema = of(**properties)
    made, strict = strict_schema(schema)
    assert strict
    value = example(made)
    jsonschema_rs.validate(made, value)
    jsonschema_rs.validate(schema, value)


@given(st.dictionaries(NAMES, schemas(), min_size=1))
def test_adapting_twice_changes_nothing_more(properties: dict[str, Any]) -> None:
    strict, _ = strict_schema(of(**properties))
    assert strict_schema(strict) == (strict, True)
