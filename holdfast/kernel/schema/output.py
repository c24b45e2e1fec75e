"""The required form of an answer: a type or a JSON schema, with its validator.

Providers accept only schemas that are one object. Any other value, also a choice between objects,
is requested as a field of an object.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from types import UnionType
from typing import Any, Final, TypedDict, Union, get_args, get_origin

import msgspec
from msgspec import Struct

from holdfast.kernel.errors import ConfigError, describe
from holdfast.kernel.schema.arguments import VALUE, Arguments
from holdfast.kernel.schema.json_schema import SchemaArguments, StructArguments
from holdfast.kernel.schema.name import DEFAULT_NAME, as_name
from holdfast.kernel.schema.problems import ANSWER_TERMS
from holdfast.kernel.schema.pydantic_adapter import dereferenced, of_type
from holdfast.kernel.schema.typed_arguments import TypedArguments
from holdfast.kernel.schema.union_members import with_named_members

ROOT_KEYWORDS: Final = ("$schema", "$id", "$defs", "definitions")
"""Keywords that stay at the root of a schema, where `$ref` finds them."""


class OutputForm(Struct, frozen=True):
    """The required form of an answer: its validator, and its name for providers."""

    check: Arguments
    wrapped: bool
    """Whether the value is the field `VALUE` of an object."""
    name: str = DEFAULT_NAME


def of(declared: Any) -> OutputForm:
    """The form of an answer. Raises `ConfigError` if `declared` cannot be one."""
    if isinstance(declared, Mapping):
        return _of_schema(declared)
    if isinstance(declared, str) or inspect.isroutine(declared):
        raise ConfigError(f"output is {declared!r}: use a type, or a JSON schema in a dict")
    try:
        adapter, schema, wrapped = of_type(with_named_members(declared))
    except Exception as error:  # a type may bring any code of its own
        form = _by_msgspec(declared)
        if form is None:
            if _has_structs(declared):
                raise ConfigError(
                    f"output is {declared!r}, whose Structs cannot be told apart: give each a tag, "
                    "as in `class City(Struct, tag=True)`"
                ) from error
            words = describe(error).splitlines()[0]
            raise ConfigError(
                f"output is {declared!r}, which JSON cannot become ({words}): use a pydantic "
                "model, a dataclass, a TypedDict, a msgspec Struct or a type made of these"
            ) from error
        return form
    return OutputForm(
        TypedArguments(adapter, schema, ANSWER_TERMS), wrapped, _name(declared, wrapped)
    )


def _has_structs(declared: Any) -> bool:
    """Whether the type is a union with several Structs, which msgspec takes only with tags."""
    members = get_args(declared) if get_origin(declared) in (Union, UnionType) else ()
    structs = [one for one in members if isinstance(one, type) and issubclass(one, Struct)]
    return len(structs) > 1


def _by_msgspec(declared: Any) -> OutputForm | None:
    """The form by msgspec: pydantic has no Structs, and before Python 3.12 no plain TypedDict."""
    try:
        schema = dereferenced(msgspec.json.schema(declared))
        wrapped = schema.get("type") != "object"
        kind = declared
        if wrapped:
            typed_dict: Any = TypedDict  # made while running, which mypy cannot follow
            kind = typed_dict("Answer", {VALUE: declared})
            schema = dereferenced(msgspec.json.schema(kind))
    except Exception:  # pydantic's error is raised instead, which people know
        return None
    return OutputForm(
        StructArguments(kind, schema, ANSWER_TERMS), wrapped, _name(declared, wrapped)
    )


def _of_schema(schema: Mapping[str, Any]) -> OutputForm:
    wrapped = schema.get("type") != "object"
    name = schema.get("title", DEFAULT_NAME)
    whole = _wrap(schema) if wrapped else schema
    return OutputForm(
        SchemaArguments(whole, ANSWER_TERMS),
        wrapped,
        DEFAULT_NAME if wrapped else as_name(str(name)),
    )


def _wrap(schema: Mapping[str, Any]) -> dict[str, Any]:
    if '"$ref": "#"' in json.dumps(dict(schema), default=str):
        raise ConfigError(
            "the JSON schema refers to itself as '#' and is not of an object: "
            "put it under $defs, and refer to it there"
        )
    return {
        "type": "object",
        "properties": {VALUE: {k: v for k, v in schema.items() if k not in ROOT_KEYWORDS}},
        "required": [VALUE],
        "additionalProperties": False,
        **{key: schema[key] for key in ROOT_KEYWORDS if key in schema},
    }


def _name(declared: Any, wrapped: bool) -> str:
    return DEFAULT_NAME if wrapped else as_name(getattr(declared, "__name__", DEFAULT_NAME))
