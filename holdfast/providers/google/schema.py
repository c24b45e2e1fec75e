"""Converts the JSON schema of an answer for the Gemini API. Pure.

The schema of arguments goes as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Schema = Mapping[str, Any]

_NAMES: Final[Mapping[type, str]] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
}
_MAPS: Final = frozenset({"$defs", "definitions", "patternProperties", "properties"})
_LISTS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_ONES: Final = frozenset({"additionalProperties", "items"})


def answer_schema(schema: Schema) -> dict[str, Any]:
    """What may be only one value is said as a list of one, and a reference stands alone."""
    made = {key: _inside(key, value) for key, value in schema.items()}
    made.pop("$schema", None)
    if "const" in made:
        value = made.pop("const")
        made.setdefault("enum", [value])
        if type(value) in _NAMES:
            made.setdefault("type", _NAMES[type(value)])
    return _referring(made) if "$ref" in made else made


def _inside(key: str, value: Any) -> Any:
    """What a schema says under a key, with each schema in it changed."""
    if key in _MAPS and isinstance(value, Mapping):
        return {name: _changed(inner) for name, inner in value.items()}
    if key in _LISTS and isinstance(value, list):
        return [_changed(inner) for inner in value]
    return _changed(value) if key in _ONES else value


def _changed(schema: Any) -> Any:
    return answer_schema(schema) if isinstance(schema, Mapping) else schema


def _referring(schema: dict[str, Any]) -> dict[str, Any]:
    """A reference that stands alone. Its description, which the model should read, goes around it;
    the rest is left out, but for what may be referred to."""
    kept = {
        key: value for key, value in schema.items() if key.startswith("$") or key == "definitions"
    }
    if "description" not in schema:
        return kept
    reference = {"$ref": kept.pop("$ref")}
    return {"anyOf": [reference], "description": schema["description"], **kept}
