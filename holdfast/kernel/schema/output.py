"""What an answer has to be: a type or a JSON schema, as something that checks it.

Providers want the schema of an object. Whatever is none is asked for under one name of an object.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping
from typing import Any, Final, TypedDict

import msgspec
from msgspec import Struct

from holdfast.kernel.errors import ConfigError, describe
from holdfast.kernel.schema.arguments import VALUE, Arguments
from holdfast.kernel.schema.from_types import TypedArguments
from holdfast.kernel.schema.json_schema import SchemaArguments, StructArguments
from holdfast.kernel.schema.problems import ANSWER_TERMS
from holdfast.kernel.schema.shape import dereferenced, of_type

OF_THE_WHOLE: Final = ("$schema", "$id", "$defs", "definitions")
"""What a schema says once, and `$ref` finds only at the top."""
NAMELESS: Final = "answer"


class OutputForm(Struct, frozen=True):
    """How an answer is checked, and what a model is told about that."""

    check: Arguments
    wrapped: bool
    """The value is under `VALUE`."""
    name: str = NAMELESS


def of(wanted: Any) -> OutputForm:
    """The form of an answer, or a ConfigError that says what cannot be one."""
    if isinstance(wanted, Mapping):
        return _of_schema(wanted)
    if isinstance(wanted, str) or inspect.isroutine(wanted):
        raise ConfigError(f"output is {wanted!r}: use a type, or a JSON schema in a dict")
    try:
        adapter, schema, wrapped = of_type(wanted)
    except Exception as error:  # a type may bring any code of its own
        form = _by_msgspec(wanted)
        if form is None:
            words = describe(error).splitlines()[0]
            raise ConfigError(
                f"output is {wanted!r}, which JSON cannot become ({words}): use a pydantic model, "
                "a dataclass, a TypedDict, a msgspec Struct or a type made of these"
            ) from error
        return form
    return OutputForm(
        TypedArguments(adapter, schema, ANSWER_TERMS), wrapped, _name(wanted, wrapped)
    )


def _by_msgspec(wanted: Any) -> OutputForm | None:
    """Structs are strange to pydantic, and so is a plain TypedDict before Python 3.12."""
    try:
        schema = dereferenced(msgspec.json.schema(wanted))
        wrapped = schema.get("type") != "object"
        kind = wanted
        if wrapped:
            typed_dict: Any = TypedDict  # made while running, which mypy cannot follow
            kind = typed_dict("Answer", {VALUE: wanted})
            schema = dereferenced(msgspec.json.schema(kind))
    except Exception:  # pydantic's complaint is the one that people know
        return None
    return OutputForm(StructArguments(kind, schema, ANSWER_TERMS), wrapped, _name(wanted, wrapped))


def _of_schema(schema: Mapping[str, Any]) -> OutputForm:
    wrapped = schema.get("type") != "object"
    name = schema.get("title", NAMELESS)
    whole = _wrap(schema) if wrapped else schema
    return OutputForm(
        SchemaArguments(whole, ANSWER_TERMS), wrapped, NAMELESS if wrapped else _as_name(str(name))
    )


def _wrap(schema: Mapping[str, Any]) -> dict[str, Any]:
    if '"$ref": "#"' in json.dumps(dict(schema), default=str):
        raise ConfigError(
            "the JSON schema refers to itself as '#' and is not of an object: "
            "put it under $defs, and refer to it there"
        )
    return {
        "type": "object",
        "properties": {VALUE: {k: v for k, v in schema.items() if k not in OF_THE_WHOLE}},
        "required": [VALUE],
        "additionalProperties": False,
        **{key: schema[key] for key in OF_THE_WHOLE if key in schema},
    }


def _name(wanted: Any, wrapped: bool) -> str:
    return NAMELESS if wrapped else _as_name(getattr(wanted, "__name__", NAMELESS))


def _as_name(text: str) -> str:
    """As providers take it: `Page[int]` is none."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", text).strip("_")[:64] or NAMELESS
