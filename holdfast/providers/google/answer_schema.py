"""Converts the JSON schema of an answer for the Gemini API. Pure.

Schemas of arguments are sent unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from holdfast.providers.unenforceable_keywords import JsonSchema

_TYPE_NAMES: Final[Mapping[type, str]] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
}
_SCHEMA_MAPS: Final = frozenset({"$defs", "definitions", "patternProperties", "properties"})
_SCHEMA_LISTS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SINGLE_SCHEMAS: Final = frozenset({"additionalProperties", "items"})


def answer_schema(schema: JsonSchema) -> dict[str, Any]:
    """The schema with `const` as a list of one value, and references without other keywords."""
    converted = {key: _converted_value(key, value) for key, value in schema.items()}
    converted.pop("$schema", None)
    if "const" in converted:
        value = converted.pop("const")
        converted.setdefault("enum", [value])
        if type(value) in _TYPE_NAMES:
            converted.setdefault("type", _TYPE_NAMES[type(value)])
    return _reference_alone(converted) if "$ref" in converted else converted


def _converted_value(key: str, value: Any) -> Any:
    """The value of a keyword, with each schema in it converted."""
    if key in _SCHEMA_MAPS and isinstance(value, Mapping):
        return {name: _converted(inner) for name, inner in value.items()}
    if key in _SCHEMA_LISTS and isinstance(value, list):
        return [_converted(inner) for inner in value]
    return _converted(value) if key in _SINGLE_SCHEMAS else value


def _converted(schema: Any) -> Any:
    return answer_schema(schema) if isinstance(schema, Mapping) else schema


def _reference_alone(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema whose reference has no other keywords, as required.

    Its description moves to a schema around it, so that the model reads it; other keywords are
    dropped, except definitions.
    """
    result = {
        key: value for key, value in schema.items() if key.startswith("$") or key == "definitions"
    }
    if "description" not in schema:
        return result
    reference = {"$ref": result.pop("$ref")}
    return {"anyOf": [reference], "description": schema["description"], **result}
