"""Converts a JSON schema for OpenAI's strict mode. Pure.

Strict mode holds a model to a schema token by token, and therefore takes only a part of the
language: every object is closed and has all of its fields, and many rules are unknown to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from holdfast.providers.grammar import UNENFORCEABLE_KEYWORDS, JsonSchema
from holdfast.providers.json_body import encoded

_SUPPORTED_KEYWORDS: Final = frozenset(
    {
        "const",
        "description",
        "enum",
        "exclusiveMaximum",
        "exclusiveMinimum",
        "maxItems",
        "maximum",
        "minItems",
        "minimum",
        "multipleOf",
        "title",
        "type",
    }
)
"""Taken as they are."""
_DROPPED_KEYWORDS: Final = frozenset({"$comment", "$id", "$schema", "required"})
"""Said otherwise, or nothing that a model needs to know."""
_UNSUPPORTED_KEYWORDS: Final = UNENFORCEABLE_KEYWORDS | {"allOf"}
"""Shapes that strict mode has no word for."""
_CHOICE_KEYWORDS: Final = frozenset({"anyOf", "oneOf"})
_FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)
_LOOKAROUND: Final = ("(?=", "(?!", "(?<=", "(?<!")


class _NotStrict(Exception):
    """Strict mode cannot say it."""


def strict_schema(schema: JsonSchema) -> tuple[dict[str, Any], bool]:
    """The schema for strict mode and True; or the schema as it is and False, where strict mode
    would not take it or would forbid what it allows.

    A field that may be left out has to be given in strict mode, with a value that the schema
    allows: so whatever fits the strict schema has the shape of the original. Rules that strict mode
    does not know are told in the description.
    """
    plain = _resolved_root(dict(schema))
    if plain.get("type") != "object" or not _CHOICE_KEYWORDS.isdisjoint(plain):
        return plain, False  # a root is one object, and no choice between several
    try:
        return _strict(plain), True
    except _NotStrict:
        return plain, False


def _resolved_root(schema: dict[str, Any]) -> dict[str, Any]:
    """A root that only refers to a definition, as that definition: a root has to be an object."""
    visited: set[str] = set()
    while (ref := schema.get("$ref")) is not None and ref not in visited:
        visited.add(ref)
        target: Any = schema
        for step in str(ref).removeprefix("#/").split("/"):
            target = target.get(step) if isinstance(target, Mapping) else None
        if not isinstance(target, Mapping):
            break
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**target, **rest}
    return schema


def _strict(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, Mapping) or not _UNSUPPORTED_KEYWORDS.isdisjoint(schema):
        raise _NotStrict
    if len(schema.keys() & {*_CHOICE_KEYWORDS, "$ref"}) > 1:
        raise _NotStrict  # all of them hold, and there is a word for one
    result: dict[str, Any] = {}
    rules: list[str] = []
    for key, value in schema.items():
        if key in _SUPPORTED_KEYWORDS:
            result[key] = value
        elif key in ("$defs", "definitions", "properties"):
            result[key] = {name: _strict(inner) for name, inner in value.items()}
        elif key == "items":
            result[key] = _strict(value)
        elif key in ("anyOf", "oneOf"):
            result["anyOf"] = [_strict(variant) for variant in value]
        elif key == "$ref" or _is_supported(key, value):
            result[key] = value
        elif key != "additionalProperties" and key not in _DROPPED_KEYWORDS:
            rules.append(f"{key}: {encoded(value).decode()}")
    if rules:
        result["description"] = "\n".join(filter(None, (result.get("description"), *rules)))
    _add_type(result)
    if "object" in _types(result):
        _close_object(schema, result)
    return _reference_alone(result)


def _is_supported(key: str, value: Any) -> bool:
    if key == "format":
        return value in _FORMATS
    return key == "pattern" and not any(look in value for look in _LOOKAROUND)


def _types(schema: JsonSchema) -> tuple[str, ...]:
    value = schema.get("type", ())
    return (value,) if isinstance(value, str) else tuple(value)


_TYPE_NAMES: Final[Mapping[type, str]] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}


def _add_type(result: dict[str, Any]) -> None:
    """Strict mode wants to know what every value is. Listed values say it themselves."""
    if "type" not in result and ("enum" in result or "const" in result):
        values = result["enum"] if "enum" in result else [result["const"]]
        names = list(dict.fromkeys(_TYPE_NAMES.get(type(value), "") for value in values))
        if "" in names:
            raise _NotStrict
        result["type"] = names[0] if len(names) == 1 else names
    if result.keys().isdisjoint(("type", "anyOf", "$ref")):
        raise _NotStrict
    if "array" in _types(result) and "items" not in result:
        raise _NotStrict


def _close_object(schema: JsonSchema, result: dict[str, Any]) -> None:
    """An object has exactly its fields. One that is meant to have others is not for strict mode."""
    properties = result.setdefault("properties", {})
    if schema.get("additionalProperties", not properties) is not False:
        raise _NotStrict
    result["required"] = list(properties)
    result["additionalProperties"] = False


def _reference_alone(result: dict[str, Any]) -> dict[str, Any]:
    """A reference stands alone: what is said beside it is said around it."""
    if "$ref" not in result or len(result) == 1:
        return result
    around = {key: value for key, value in result.items() if key != "$ref"}
    return {**around, "anyOf": [{"$ref": result["$ref"]}]}
