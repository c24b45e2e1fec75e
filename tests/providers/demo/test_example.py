"""An example fits the schema that it was made for."""

from __future__ import annotations

import datetime
import uuid
from typing import Annotated, Any, Literal

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter

from holdfast.providers.demo.schema_example import FORMATS, example


class Leaf(BaseModel):
    name: Annotated[str, Field(min_length=2, max_length=3)]


class Tree(BaseModel):
    left: Tree | Leaf
    right: Tree | None
    children: list[Tree] = []


class Order(BaseModel):
    id: uuid.UUID
    day: datetime.date
    at: datetime.datetime
    state: Literal["open", "done"]
    lines: Annotated[list[Leaf], Field(min_length=2)]
    count: Annotated[int, Field(gt=0, lt=10)]
    share: Annotated[float, Field(gt=0, lt=1)]
    note: str | None
    tags: dict[str, int]
    pair: tuple[int, str]
    unneeded: int = 3


@pytest.mark.parametrize("kind", [Leaf, Tree, Order, int, str | None, list[Order], bool, float])
def test_a_type_is_met(kind: Any) -> None:
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    made = example(adapter.json_schema())
    adapter.validate_python(made, strict=False)
    assert "unneeded" not in str(made)


SCHEMAS: list[dict[str, Any]] = [
    {},
    {"type": ["null", "integer"]},
    {"enum": [None, 1]},
    {"const": {"a": [1]}},
    {"type": "integer", "exclusiveMinimum": 3, "maximum": 4},
    {"type": "integer", "minimum": 2**63},
    {"type": "number", "exclusiveMinimum": -1, "exclusiveMaximum": -0.5},
    {"type": "string", "minLength": 12},
    {"type": "string", "maxLength": 0},
    {"anyOf": [{"type": "null"}, {"type": "string", "minLength": 7}]},
    {"properties": {"a": {"$ref": "#/$defs/b"}}, "required": ["a"], "$defs": {"b": {"const": 1}}},
    *({"type": "string", "format": format} for format in FORMATS),
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_a_schema_is_met(schema: dict[str, Any]) -> None:
    jsonschema_rs.validate(schema, example(schema), validate_formats=True)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#"}}},
        {"type": "array", "minItems": 3, "items": {"$ref": "#"}},
        {"$ref": 5, "type": 7, "enum": "abc", "required": 3, "minLength": -1},
        {"type": "integer", "minimum": 5, "maximum": 3},
    ],
    ids=str,
)
def test_a_schema_that_nothing_meets_gives_something_all_the_same(schema: Any) -> None:
    example(schema)


WORDS = ("type", "properties", "required", "items", "anyOf", "enum", "minimum", "$ref")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(JSON)
def test_anything_may_stand_for_a_schema(schema: Any) -> None:
    example(schema)
