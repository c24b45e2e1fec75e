"""Converts a JSON schema for OpenAI's strict mode. Pure.

Strict mode holds a model to a schema token by token, and therefore takes only a part of the
language: every object is closed and has all of its fields, and many rules are unknown to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from holdfast.providers.grammar import UNSAYABLE
from holdfast.providers.json_body import encoded

Schema = Mapping[str, Any]

_KEPT: Final = frozenset(
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
_SILENT: Final = frozenset({"$comment", "$id", "$schema", "required"})
"""Said otherwise, or nothing that a model needs to know."""
_OPEN: Final = UNSAYABLE | {"allOf"}
"""Shapes that strict mode has no word for."""
_CHOICES: Final = frozenset({"anyOf", "oneOf"})
_FORMATS: Final = frozenset(
    {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
)
_LOOKAROUND: Final = ("(?=", "(?!", "(?<=", "(?<!")


class _NotStrict(Exception):
    """Strict mode cannot say it."""


def strict_schema(schema: Schema) -> tuple[dict[str, Any], bool]:
    """The schema for strict mode and True; or the schema as it is and False, where strict mode
    would not take it or would forbid what it allows.

    A field that may be left out has to be given in strict mode, with a value that the schema
    allows: so whatever fits the strict schema has the shape of the original. Rules that strict mode
    does not know are told in the description.
    """
    plain = _unfolded(dict(schema))
    if plain.get("type") != "object" or not _CHOICES.isdisjoint(plain):
        return plain, False  # a root is one object, and no choice between several
    try:
        return _strict(plain), True
    except _NotStrict:
        return plain, False


def _unfolded(schema: dict[str, Any]) -> dict[str, Any]:
    """A root that only refers to a definition, as that definition: a root has to be an object."""
    seen: set[str] = set()
    while (ref := schema.get("$ref")) is not None and ref not in seen:
        seen.add(ref)
        target: Any = schema
        for step in str(ref).removeprefix("#/").split("/"):
            target = target.get(step) if isinstance(target, Mapping) else None
        if not isinstance(target, Mapping):
            break
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**target, **rest}
    return schema


def _strict(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, Mapping) or not _OPEN.isdisjoint(schema):
        raise _NotStrict
    if len(schema.keys() & {*_CHOICES, "$ref"}) > 1:
        raise _NotStrict  # all of them hold, and there is a word for one
    made: dict[str, Any] = {}
    told: list[str] = []
    for key, value in schema.items():
        if key in _KEPT:
            made[key] = value
        elif key in ("$defs", "definitions", "properties"):
            made[key] = {name: _strict(inner) for name, inner in value.items()}
        elif key == "items":
            made[key] = _strict(value)
        elif key in ("anyOf", "oneOf"):
            made["anyOf"] = [_strict(variant) for variant in value]
        elif key == "$ref" or _understood(key, value):
            made[key] = value
        elif key != "additionalProperties" and key not in _SILENT:
            told.append(f"{key}: {encoded(value).decode()}")
    if told:
        made["description"] = "\n".join(filter(None, (made.get("description"), *told)))
    _say_type(made)
    if "object" in _types(made):
        _close(schema, made)
    return _apart(made)


def _understood(key: str, value: Any) -> bool:
    if key == "format":
        return value in _FORMATS
    return key == "pattern" and not any(look in value for look in _LOOKAROUND)


def _types(schema: Schema) -> tuple[str, ...]:
    given = schema.get("type", ())
    return (given,) if isinstance(given, str) else tuple(given)


_NAMES: Final[Mapping[type, str]] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): "null",
}


def _say_type(made: dict[str, Any]) -> None:
    """Strict mode wants to know what every value is. Listed values say it themselves."""
    if "type" not in made and ("enum" in made or "const" in made):
        values = made["enum"] if "enum" in made else [made["const"]]
        names = list(dict.fromkeys(_NAMES.get(type(value), "") for value in values))
        if "" in names:
            raise _NotStrict
        made["type"] = names[0] if len(names) == 1 else names
    if made.keys().isdisjoint(("type", "anyOf", "$ref")):
        raise _NotStrict
    if "array" in _types(made) and "items" not in made:
        raise _NotStrict


def _close(schema: Schema, made: dict[str, Any]) -> None:
    """An object has exactly its fields. One that is meant to have others is not for strict mode."""
    properties = made.setdefault("properties", {})
    if schema.get("additionalProperties", not properties) is not False:
        raise _NotStrict
    made["required"] = list(properties)
    made["additionalProperties"] = False


def _apart(made: dict[str, Any]) -> dict[str, Any]:
    """A reference stands alone: what is said beside it is said around it."""
    if "$ref" not in made or len(made) == 1:
        return made
    around = {key: value for key, value in made.items() if key != "$ref"}
    return {**around, "anyOf": [{"$ref": made["$ref"]}]}
