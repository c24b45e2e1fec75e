"""A JSON schema in the form that the Anthropic Messages API can hold an answer to. Pure.

It takes a part of the language: objects are closed, nothing refers to itself, and bounds and
patterns are unknown to it. These are told in the description instead; whoever asked checks them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from holdfast.providers.grammar import UNSAYABLE
from holdfast.providers.json_body import encoded

Schema = Mapping[str, Any]

MAX_OPTIONAL: Final = 24
"""Fields of a schema that may be missing. The API refuses more."""
MAX_UNIONS: Final = 16
"""Places that may be one thing or another. The API refuses more."""

_NOTES: Final = frozenset({"default", "description", "title"})
_DEFINITIONS: Final = frozenset({"$defs", "definitions"})
_HERE: Final = frozenset({"const", "enum", "items", "properties", "required", "type"})
"""Say right here what something is."""
_ELSEWHERE: Final = frozenset({"$ref", "allOf", "anyOf", "oneOf"})
"""Leave it to other schemas."""
_SILENT: Final = frozenset({"$comment", "$id", "$schema", "additionalProperties", "discriminator"})
"""Said otherwise, or nothing that a model needs to know."""
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

_NUMBER: Final = ("exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf")
_WORDS: Final[Mapping[str, tuple[str, ...]]] = {
    "array": ("items", "maxItems", "minItems", "uniqueItems"),
    "boolean": (),
    "integer": _NUMBER,
    "null": (),
    "number": _NUMBER,
    "object": (
        "additionalProperties",
        "maxProperties",
        "minProperties",
        "properties",
        "required",
    ),
    "string": ("format", "maxLength", "minLength", "pattern"),
}
"""Types, and the keywords that mean something for each alone."""


class _NotHeld(Exception):
    """The API cannot be held to it, or would forbid what it allows."""


def held_schema(schema: Schema) -> dict[str, Any] | None:
    """The schema as the API takes it, or None where it has no words for it."""
    try:
        made = _held(schema)
        _refuse_circles(made)
        _refuse_too_many(made)
    except (_NotHeld, RecursionError):
        return None
    return made


# --- One schema ---------------------------------------------------------------------------------


def _held(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, Mapping) or not UNSAYABLE.isdisjoint(schema):
        raise _NotHeld
    if isinstance(schema.get("type"), list):
        return _held(_by_type(schema))
    elsewhere = _ELSEWHERE & schema.keys()
    if len(elsewhere) > 1 or (elsewhere and not _HERE.isdisjoint(schema)):
        raise _NotHeld  # both would have to hold, and the API does not know both
    if "allOf" in schema:
        return _held(_the_only(schema))
    made: dict[str, Any] = {}
    told: list[str] = []
    for key, value in sorted(schema.items()):
        if key in _DEFINITIONS or key == "properties":
            made[key] = {name: _held(inner) for name, inner in value.items()}
        elif key == "items":
            made[key] = _held(value)
        elif key in ("anyOf", "oneOf"):
            made["anyOf"] = [_held(variant) for variant in value]
        elif key == "$ref" or key in _NOTES or key in _HERE or _understood(schema, key):
            made[key] = value
        elif key not in _SILENT:
            told.append(f"{key}: {encoded(value).decode()}")
    if told:
        made["description"] = "\n".join(filter(None, (made.get("description"), *told)))
    return _apart(_checked(schema, made))


def _by_type(schema: Schema) -> dict[str, Any]:
    """The same, where it names several types: one schema for each, with what concerns it alone."""
    variants = []
    for kind in schema["type"]:
        one = {key: schema[key] for key in _WORDS.get(kind, ()) if key in schema}
        if "enum" in schema:
            one["enum"] = [value for value in schema["enum"] if kind in _types_of(value)]
        if "const" in schema:
            one["const"] = schema["const"]
        if one.get("enum") != [] and ("const" not in one or kind in _types_of(one["const"])):
            variants.append({"type": kind, **one})
    if not variants or "anyOf" in schema:
        raise _NotHeld
    said = {"const", "enum", "type"}.union(*_WORDS.values())
    return {**{key: schema[key] for key in schema if key not in said}, "anyOf": variants}


def _the_only(schema: Schema) -> dict[str, Any]:
    """`allOf` of one alone, as it is used to say something beside a reference."""
    variants = schema["allOf"]
    if len(variants) != 1 or not isinstance(variants[0], Mapping):
        raise _NotHeld
    return {**variants[0], **{key: schema[key] for key in schema if key != "allOf"}}


def _understood(schema: Schema, key: str) -> bool:
    if key == "format":
        return schema.get("type") == "string" and schema[key] in _FORMATS
    return key == "minItems" and schema.get("type") == "array" and schema[key] in (0, 1)


def _checked(schema: Schema, made: dict[str, Any]) -> dict[str, Any]:
    kind = made.get("type")
    if made.keys().isdisjoint(("type", "anyOf", "$ref", "enum", "const")):
        raise _NotHeld
    if kind not in (None, *_WORDS) or (kind == "array" and "items" not in made):
        raise _NotHeld
    for value in (*made.get("enum", ()), *([made["const"]] if "const" in made else ())):
        types = _types_of(value)
        if (kind is not None and kind not in types) or "object" in types or "array" in types:
            raise _NotHeld
    return _closed(schema, made) if kind == "object" else made


def _closed(schema: Schema, made: dict[str, Any]) -> dict[str, Any]:
    """An object has no fields but its own. One that is meant to have others cannot be held."""
    properties = made.setdefault("properties", {})
    if schema.get("additionalProperties", not properties) is not False:
        raise _NotHeld
    if not properties.keys() >= set(made.get("required", ())):
        raise _NotHeld
    return {**made, "additionalProperties": False}


def _apart(made: dict[str, Any]) -> dict[str, Any]:
    """A reference stands alone: what is said beside it is said around it."""
    beside = {key: value for key, value in made.items() if key != "$ref"}
    if "$ref" not in made or not beside:
        return made
    return {**beside, "anyOf": [{"$ref": made["$ref"]}]}


def _types_of(value: Any) -> tuple[str, ...]:
    match value:
        case None:
            return ("null",)
        case bool():
            return ("boolean",)
        case str():
            return ("string",)
        case int() | float():
            return ("integer", "number") if value == value // 1 else ("number",)
        case Mapping():
            return ("object",)
        case _:
            return ("array",)


# --- The whole ----------------------------------------------------------------------------------


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


def _refuse_too_many(schema: Schema) -> None:
    optional = unions = 0
    for one in _every(schema):
        optional += len(one.get("properties", {}).keys() - set(one.get("required", ())))
        unions += "anyOf" in one
    if optional > MAX_OPTIONAL or unions > MAX_UNIONS:
        raise _NotHeld


def _refs(schema: Schema) -> Iterator[str]:
    """Names of the definitions that a schema needs right where it is."""
    if "$ref" in schema:
        yield str(schema["$ref"]).rpartition("/")[2]
    for one in _inner(schema):
        yield from _refs(one)


def _every(schema: Schema) -> Iterator[Schema]:
    """A schema and all that are in it, its definitions too."""
    yield schema
    definitions = [one for key in _DEFINITIONS for one in schema.get(key, {}).values()]
    for one in (*_inner(schema), *definitions):
        yield from _every(one)


def _inner(schema: Schema) -> Iterator[Schema]:
    yield from schema.get("properties", {}).values()
    yield from schema.get("anyOf", ())
    if "items" in schema:
        yield schema["items"]
