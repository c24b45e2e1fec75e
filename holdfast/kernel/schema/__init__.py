"""Arguments of a tool: their JSON schema, and the way from the model's text to checked values.

The same way is gone by an answer that has to have a form.

A typed function is checked by pydantic, a raw JSON schema by jsonschema-rs; they and all that needs
them are imported when the first tool is built. Text that is right is checked by one call into the
library. Text that is wrong takes the slow way: its problems are found, trivial mistakes among them
are mended, and whatever is left is told to the model, all at once and in the same words for both.
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
    "output_form",
]


def from_function(function: Callable[..., Any], *, skip_first: bool) -> Arguments:
    """Arguments of a typed function; `skip_first` leaves out the parameter for the context."""
    from holdfast.kernel.schema import from_types, shape

    return from_types.TypedArguments(*shape.of(function, skip_first))


def from_schema(schema: Mapping[str, Any]) -> Arguments:
    """Arguments that a JSON schema describes. The values are the plain JSON."""
    from holdfast.kernel.schema import json_schema

    return json_schema.SchemaArguments(schema)


def output_form(wanted: Any) -> OutputForm:
    """What an answer has to be, from a type or a JSON schema."""
    from holdfast.kernel.schema import output

    return output.of(wanted)
