"""A JSON schema in the form that the Anthropic Messages API can hold an answer to. Pure.

It takes a part of the language: objects are closed, nothing refers to itself, and bounds and
patterns are unknown to it. These are told in the description instead; whoever asked checks them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

Schema = Mapping[str, Any]

_KEPT: Final = frozenset({"const", "default", "description", "enum", "required", "title"})
"""Taken as they are."""
_SILENT: Final = frozenset({"$comment", "$id", "$schema", "additionalProperties", "discriminator"})
"""Said otherwise, or nothing that a model needs to know."""
_SHAPES: Final = frozenset(
    {
        "additionalItems",
        "contains",
        "dependentRequired",
        "dependentSchemas",
        "else",
        "if",
        "not",
        "patternProperties",
        "prefixItems",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
"""What cannot be said at all."""
_FORMATS: Final = frozenset(
    {
        "date",
        "date-time",
        "duration",
        "email",
        "hostname",
        "ipv4",
        "ipv6",
        "time",
        "uri",
        "uuid",
    }
)


class _NotHeld(Exception):
    """The API cannot be held to it, or would forbid what it allows."""


def held_schema(schema: Schema) -> dict[str, Any] | None:
    """The schema as the API takes it, or None where it has no words for it."""
    try:
        made = _held(schema)
        _refuse_circles(made)
    except (_NotHeld, RecursionError):
        return None
    return made


def _refuse_circles(schema: Schema) -> None:
    """Definitions that lead back to themselves, and those that are not there."""
    definitions = {**schema.get("definitions", {}), **schema.get("$defs", {})}
    cleared: set[str] = set()

    def follow(name: str, path: tuple[str, ...]) -> None:
        if name in path or name not in definitions:
            raise _NotHeld
        if name not in cleared:
            for inner in _refs(definitions[name]):
                follow(inner, (*path, name))
            cleared.add(name)

    for name in _refs(schema):
        follow(name, ())


def _refs(schema: Schema) -> Iterator[str]:
    """Names of the definitions that a schema needs right where it is."""
    if "$ref" in schema:
        yield str(schema["$ref"]).rpartition("/")[2]
    inner = [*schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    if "items" in schema:
        inner.append(schema["items"])
    for one in inner:
        yield from _refs(one)


def _held(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, Mapping) or not _SHAPES.isdisjoint(schema):
        raise _NotHeld
    given = schema.get("type")
    if isinstance(given, list):
        return _one_of_types(schema, given)
    made: dict[str, Any] = {} if given is None else {"type": given}
    told: list[str] = []
    for key, value in schema.items():
        if key in ("$defs", "definitions", "properties"):
            made[key] = {name: _held(inner) for name, inner in value.items()}
        elif key == "items":
            made[key] = _held(value)
        elif key in ("anyOf", "oneOf"):
            made["anyOf"] = [_held(variant) for variant in value]
        elif key == "allOf":
            made.update(_all(value))
        elif key in _KEPT or _understood(key, value):
            made[key] = value
        elif key not in _SILENT and key != "type":
            told.append(f"{key}: {msgspec.json.encode(value).decode()}")
    if told:
        made["description"] = "\n".join(filter(None, (made.get("description"), *told)))
    return _closed(schema, made)


def _one_of_types(schema: Schema, types: list[str]) -> dict[str, Any]:
    around = {key: schema[key] for key in ("title", "description") if key in schema}
    rest = {key: value for key, value in schema.items() if key not in around}
    return {**around, "anyOf": [_held({**rest, "type": one}) for one in types]}


def _all(variants: list[Any]) -> dict[str, Any]:
    """Only as it is used to say something beside a reference."""
    if len(variants) != 1:
        raise _NotHeld
    return _held(variants[0])


def _understood(key: str, value: Any) -> bool:
    if key == "minItems":
        return value in (0, 1)
    return key == "$ref" or (key == "format" and value in _FORMATS)


def _closed(schema: Schema, made: dict[str, Any]) -> dict[str, Any]:
    """An object has no fields but its own. One that is meant to have others cannot be held."""
    if made.keys().isdisjoint(("type", "anyOf", "$ref", "enum", "const")):
        raise _NotHeld
    if made.get("type") == "array" and "items" not in made:
        raise _NotHeld
    if any(isinstance(value, (dict, list)) for value in made.get("enum", ())):
        raise _NotHeld
    if made.get("type") == "object":
        properties = made.setdefault("properties", {})
        if schema.get("additionalProperties", not properties) is not False:
            raise _NotHeld
        made["additionalProperties"] = False
    return _apart(made)


def _apart(made: dict[str, Any]) -> dict[str, Any]:
    """A reference stands alone: what is said beside it is said around it."""
    beside = {key: value for key, value in made.items() if key != "$ref"}
    if "$ref" not in made or not beside:
        return made
    return {**beside, "anyOf": [{"$ref": made["$ref"]}]}
