"""Converts a JSON schema for OpenAI's strict mode. Pure.

Strict mode constrains a model to a schema token by token. It accepts only a subset of JSON schema:
every object is closed and has all of its fields, and many keywords are unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from holdfast.providers.request_body import encoded
from holdfast.providers.unenforceable_keywords import UNENFORCEABLE_KEYWORDS, JsonSchema

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
"""Keywords that are passed on unchanged."""
_DROPPED_KEYWORDS: Final = frozenset({"$comment", "$id", "$schema", "required"})
"""Keywords that are expressed in another way, or irrelevant to a model."""
_UNSUPPORTED_KEYWORDS: Final = UNENFORCEABLE_KEYWORDS | {"allOf"}
"""Keywords that strict mode cannot express."""
_CHOICE_KEYWORDS: Final = frozenset({"anyOf", "oneOf"})
_FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)
_LOOKAROUND: Final = ("(?=", "(?!", "(?<=", "(?<!")


class _NotStrict(Exception):
    """Strict mode cannot express the schema."""


def strict_schema(schema: JsonSchema) -> tuple[dict[str, Any], bool]:
    """The schema for strict mode and True; or the unchanged schema and False.

    False means that strict mode would refuse the schema, or forbid values that it allows.

    Strict mode requires optional fields too, with a value that the schema allows, so every answer
    also fits the original schema. Keywords that strict mode does not know are added to the
    description.
    """
    plain = _resolved_root(dict(schema))
    if plain.get("type") != "object" or not _CHOICE_KEYWORDS.isdisjoint(plain):
        return plain, False  # a root is one object, not a choice between several
    try:
        return _strict(plain), True
    except _NotStrict:
        return plain, False


def _resolved_root(schema: dict[str, Any]) -> dict[str, Any]:
    """A root with its reference replaced by the definition, because a root has to be an object."""
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
        raise _NotStrict  # all of them apply, and only one can be expressed
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
    """Add the type, which strict mode requires. The type of listed values follows from them."""
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
    """Close an object: strict mode has no additional properties."""
    properties = result.setdefault("properties", {})
    if schema.get("additionalProperties", not properties) is not False:
        raise _NotStrict
    result["required"] = list(properties)
    result["additionalProperties"] = False


def _reference_alone(result: dict[str, Any]) -> dict[str, Any]:
    """A schema whose reference has no other keywords, as required.

    They move to a schema around it.
    """
    if "$ref" not in result or len(result) == 1:
        return result
    around = {key: value for key, value in result.items() if key != "$ref"}
    return {**around, "anyOf": [{"$ref": result["$ref"]}]}
