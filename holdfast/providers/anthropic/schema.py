"""A JSON schema in the form that the Anthropic Messages API can hold an answer to. Pure.

It takes a part of the language: objects are closed, nothing refers to itself, and bounds and
patterns are unknown to it. These are told in the description instead; whoever asked checks them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from holdfast.providers.grammar import UNENFORCEABLE_KEYWORDS, JsonSchema
from holdfast.providers.json_body import encoded

MAX_OPTIONAL: Final = 24
"""Fields of a schema that may be missing. The API refuses more."""
MAX_UNIONS: Final = 16
"""Places that may be one thing or another. The API refuses more."""

_ANNOTATIONS: Final = frozenset({"default", "description", "title"})
_DEFINITIONS: Final = frozenset({"$defs", "definitions"})
_DIRECT_KEYWORDS: Final = frozenset({"const", "enum", "items", "properties", "required", "type"})
"""Say right here what something is."""
_DELEGATING_KEYWORDS: Final = frozenset({"$ref", "allOf", "anyOf", "oneOf"})
"""Leave it to other schemas."""
_DROPPED_KEYWORDS: Final = frozenset(
    {"$comment", "$id", "$schema", "additionalProperties", "discriminator"}
)
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
"""Types, and the keywords that mean something for each alone."""


class _Unsupported(Exception):
    """The API cannot be held to it, or would forbid what it allows."""


def answer_schema(schema: JsonSchema) -> dict[str, Any] | None:
    """The schema as the API takes it, or None where it has no words for it."""
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
        raise _Unsupported  # both would have to hold, and the API does not know both
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
    """The same, where it names several types: one schema for each, with what concerns it alone."""
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
    """`allOf` of one alone, as it is used to say something beside a reference."""
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
    """An object has no fields but its own. One that is meant to have others cannot be held."""
    properties = result.setdefault("properties", {})
    if schema.get("additionalProperties", not properties) is not False:
        raise _Unsupported
    if not properties.keys() >= set(result.get("required", ())):
        raise _Unsupported
    return {**result, "additionalProperties": False}


def _reference_alone(result: dict[str, Any]) -> dict[str, Any]:
    """A reference stands alone: what is said beside it is said around it."""
    beside = {key: value for key, value in result.items() if key != "$ref"}
    if "$ref" not in result or not beside:
        return result
    return {**beside, "anyOf": [{"$ref": result["$ref"]}]}


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
    """Definitions that lead back to themselves, and those that are not there."""
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
    """Names of the definitions that a schema needs right where it is."""
    if "$ref" in schema:
        yield str(schema["$ref"]).rpartition("/")[2]
    for one in _inner_schemas(schema):
        yield from _refs(one)


def _all_schemas(schema: JsonSchema) -> Iterator[JsonSchema]:
    """A schema and all that are in it, its definitions too."""
    yield schema
    definitions = [one for key in _DEFINITIONS for one in schema.get(key, {}).values()]
    for one in (*_inner_schemas(schema), *definitions):
        yield from _all_schemas(one)


def _inner_schemas(schema: JsonSchema) -> Iterator[JsonSchema]:
    yield from schema.get("properties", {}).values()
    yield from schema.get("anyOf", ())
    if "items" in schema:
        yield schema["items"]
