"""Schemas and validation: arguments of tools, and answers that must have a form.

A typed function, a type or a JSON schema becomes the schema that is sent to a model and a validator
for the text that the model writes. Not here: running tools (`kernel/tool_execution.py`), and what
follows after an invalid answer (`kernel/output.py`).

Ideas:

- Valid text costs one call into a library: pydantic for types, jsonschema-rs for JSON schemas.
  Both, and the modules that need them, are imported when the first tool is built.
- Invalid text takes the slow path: all problems are collected, trivial mistakes among them are
  coerced (`"5"` to `5`), and the rest is reported to the model at once.
- Problems of both libraries become `ValidationProblem`, so a model reads the same words for both.

Read `arguments.py` first (the protocol), then `typed_arguments.py` and `json_schema.py` (its two
implementations) and `coerce.py`. `pydantic_adapter.py`, `signature.py` and `docstring.py` inspect
functions and types, `union_members.py` and `schema_walk.py` unions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from holdfast.kernel.schema.arguments import VALUE, Arguments, BadArguments, Values
from holdfast.kernel.schema.text import complaint

if TYPE_CHECKING:
    from holdfast.kernel.schema.output import OutputForm

__all__ = [
    "VALUE",
    "Arguments",
    "BadArguments",
    "Values",
    "complaint",
    "from_function",
    "from_schema",
    "json_of_any",
    "output_form",
    "partial_json",
    "partial_value",
]


def from_function(function: Callable[..., Any], *, skip_first: bool) -> Arguments:
    """Arguments of a typed function. `skip_first` leaves out its first parameter, the context."""
    from holdfast.kernel.schema import pydantic_adapter, typed_arguments

    return typed_arguments.TypedArguments(*pydantic_adapter.of(function, skip_first))


def from_schema(schema: Mapping[str, Any]) -> Arguments:
    """Arguments that a JSON schema describes. Their values are plain JSON."""
    from holdfast.kernel.schema import json_schema

    return json_schema.SchemaArguments(schema)


def json_of_any(value: object) -> str:
    """JSON of any value that pydantic can serialize. Raises what pydantic raises for others."""
    from pydantic_core import to_json

    return to_json(value, inf_nan_mode="null").decode()


def output_form(declared: Any) -> OutputForm:
    """Required form of an answer, declared as a type or as a JSON schema."""
    from holdfast.kernel.schema import output

    return output.of(declared)


def partial_json(text: str) -> Any:
    """Value of the beginning of a JSON text. Raises `ValueError`."""
    from holdfast.kernel.schema import partial

    return partial.parse(text)


def partial_value(declared: Any, value: Any, *, complete: bool) -> Any:
    """The beginning of a JSON value as a value of a type; None if it is not one yet."""
    from holdfast.kernel.schema import partial

    return partial.value_of(declared, value, complete=complete)
