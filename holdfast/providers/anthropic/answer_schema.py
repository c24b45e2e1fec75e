"""Converts a JSON schema into the subset that the Anthropic Messages API can enforce. Pure.

Objects are closed, there is no recursion, and bounds and patterns are unknown. These are added to
the description instead, and the loop checks them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from holdfast.providers.request_body import encoded
from holdfast.providers.unenforceable_keywords import UNENFORCEABLE_KEYWORDS, JsonSchema

MAX_OPTIONAL: Final = 24
"""Maximum number of optional fields in a schema; the API refuses more."""
MAX_UNIONS: Final = 16
"""Maximum number of unions in a schema; the API refuses more."""

_ANNOTATIONS: Final = frozenset({"default", "description", "title"})
_DEFINITIONS: Final = frozenset({"$defs", "definitions"})
_DIRECT_KEYWORDS: Final = frozenset({"const", "enum", "items", "properties", "required", "type"})
"""Keywords that define a value in place."""
_DELEGATING_KEYWORDS: Final = frozenset({"$ref", "allOf", "anyOf", "oneOf"})
"""Keywords that refer to other schemas."""
_DROPPED_KEYWORDS: Final = frozenset(
    {"$comment", "$id", "$schema", "additionalProperties", "discriminator"}
)
"""Keywords that are expressed in another way, or irrelevant to a model."""
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

_NUMBER_KEYWORDS: Final = (
    "exclusiveMaximum",
    "exclusiveMinimum",
    "maximum",
    "minimum",
    "multipleOf",
)
_KEYWORDS_BY_TYPE: Final[Mapping[str, tuple[str, ...]]] = {
    "array": ("items", "maxItems", "minItems", "uniqueItems"),
    "boolean": (),
    "integer": _NUMBER_KEYWORDS,
    "null": (),
    "number": _NUMBER_KEYWORDS,
    "object": (
        "additionalProperties",
        "maxProperties",
        "minProperties",
        "properties",
        "required",
    ),
    "string": ("format", "maxLength", "minLength", "pattern"),
}
"""Types, each with the keywords that apply to it alone."""


class _Unsupported(Exception):
    """The API cannot enforce the schema, or would forbid values that it allows."""


def answer_schema(schema: JsonSchema) -> dict[str, Any] | None:
    """The schema as the API accepts it, or None if it cannot be converted."""
    try:
        converted = _converted(schema)
        _refuse_recursion(converted)
        _refuse_too_many(converted)
    except (_Unsupported, RecursionError):
        return None
    return converted


# --- One schema ---------------------------------------------------------------------------------


def _converted(schema: Any) -> dict[str, Any]:
    if not isinstance(schema, Mapping) or not UNENFORCEABLE_KEYWORDS.isdisjoint(schema):
        raise _Unsupported
    if isinstance(schema.get("type"), list):
        return _converted(_by_type(schema))
    elsewhere = _DELEGATING_KEYWORDS & schema.keys()
    if len(elsewhere) > 1 or (elsewhere and not _DIRECT_KEYWORDS.isdisjoint(schema)):
        raise _Unsupported  # both would apply, and the API cannot express that
    if "allOf" in schema:
        return _converted(_single_all_of(schema))
    result: dict[str, Any] = {}
    rules: list[str] = []
    for key, value in sorted(schema.items()):
        if key in _DEFINITIONS or key == "properties":
            result[key] = {name: _converted(inner) for name, inner in value.items()}
        elif key == "items":
            result[key] = _converted(value)
        elif key in ("anyOf", "oneOf"):
            result["anyOf"] = [_converted(variant) for variant in value]
        elif (
            key == "$ref"
            or key in _ANNOTATIONS
            or key in _DIRECT_KEYWORDS
            or _is_supported(schema, key)
        ):
            result[key] = value
        elif key not in _DROPPED_KEYWORDS:
            rules.append(f"{key}: {encoded(value).decode()}")
    if rules:
        result["description"] = "\n".join(filter(None, (result.get("description"), *rules)))
    return _reference_alone(_checked(schema, result))


def _by_type(schema: JsonSchema) -> dict[str, Any]:
    """A schema with several types as a union of schemas.

    Each has one type, and the keywords that apply to it.
    """
    variants = []
    for kind in schema["type"]:
        one = {key: schema[key] for key in _KEYWORDS_BY_TYPE.get(kind, ()) if key in schema}
        if "enum" in schema:
            one["enum"] = [value for value in schema["enum"] if kind in _types_of(value)]
        if "const" in schema:
            one["const"] = schema["const"]
        if one.get("enum") != [] and ("const" not in one or kind in _types_of(one["const"])):
            variants.append({"type": kind, **one})
    if not variants or "anyOf" in schema:
        raise _Unsupported
    split = {"const", "enum", "type"}.union(*_KEYWORDS_BY_TYPE.values())
    return {**{key: schema[key] for key in schema if key not in split}, "anyOf": variants}


def _single_all_of(schema: JsonSchema) -> dict[str, Any]:
    """A schema with a single `allOf` merged: it is used to add keywords to a reference."""
    variants = schema["allOf"]
    if len(variants) != 1 or not isinstance(variants[0], Mapping):
        raise _Unsupported
    return {**variants[0], **{key: schema[key] for key in schema if key != "allOf"}}


def _is_supported(schema: JsonSchema, key: str) -> bool:
    if key == "format":
        return schema.get("type") == "string" and schema[key] in _FORMATS
    return key == "minItems" and schema.get("type") == "array" and schema[key] in (0, 1)


def _checked(schema: JsonSchema, result: dict[str, Any]) -> dict[str, Any]:
    kind = result.get("type")
    if result.keys().isdisjoint(("type", "anyOf", "$ref", "enum", "const")):
        raise _Unsupported
    if kind not in (None, *_KEYWORDS_BY_TYPE) or (kind == "array" and "items" not in result):
        raise _Unsupported
    for value in (*result.get("enum", ()), *([result["const"]] if "const" in result else ())):
        types = _types_of(value)
        if (kind is not None and kind not in types) or "object" in types or "array" in types:
            raise _Unsupported
    return _closed(schema, result) if kind == "object" else result


def _closed(schema: JsonSchema, result: dict[str, Any]) -> dict[str, Any]:
    """Close an object. An object that allows additional fields cannot be enforced."""
    properties = result.setdefault("properties", {})
    if schema.get("additionalProperties", not properties) is not False:
        raise _Unsupported
    if not properties.keys() >= set(result.get("required", ())):
        raise _Unsupported
    return {**result, "additionalProperties": False}


def _reference_alone(result: dict[str, Any]) -> dict[str, Any]:
    """A schema whose reference has no other keywords, as required.

    They move to a schema around it.
    """
    others = {key: value for key, value in result.items() if key != "$ref"}
    if "$ref" not in result or not others:
        return result
    return {**others, "anyOf": [{"$ref": result["$ref"]}]}


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


def _refuse_recursion(schema: JsonSchema) -> None:
    """Refuse recursive and missing definitions."""
    definitions = {**schema.get("definitions", {}), **schema.get("$defs", {})}
    checked: set[str] = set()

    def follow(name: str, path: tuple[str, ...]) -> None:
        if name in path or name not in definitions:
            raise _Unsupported
        if name not in checked:
            for inner in _refs(definitions[name]):
                follow(inner, (*path, name))
            checked.add(name)

    for name in _refs(schema):
        follow(name, ())


def _refuse_too_many(schema: JsonSchema) -> None:
    optional = unions = 0
    for one in _all_schemas(schema):
        optional += len(one.get("properties", {}).keys() - set(one.get("required", ())))
        unions += "anyOf" in one
    if optional > MAX_OPTIONAL or unions > MAX_UNIONS:
        raise _Unsupported


def _refs(schema: JsonSchema) -> Iterator[str]:
    """Names of the definitions that a schema refers to directly."""
    if "$ref" in schema:
        yield str(schema["$ref"]).rpartition("/")[2]
    for one in _inner_schemas(schema):
        yield from _refs(one)


def _all_schemas(schema: JsonSchema) -> Iterator[JsonSchema]:
    """A schema and all schemas inside it, including definitions."""
    yield schema
    definitions = [one for key in _DEFINITIONS for one in schema.get(key, {}).values()]
    for one in (*_inner_schemas(schema), *definitions):
        yield from _all_schemas(one)


def _inner_schemas(schema: JsonSchema) -> Iterator[JsonSchema]:
    yield from schema.get("properties", {}).values()
    yield from schema.get("anyOf", ())
    if "items" in schema:
        yield schema["items"]
