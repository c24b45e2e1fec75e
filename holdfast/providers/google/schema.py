"""A JSON schema in the forms that the Gemini API takes. Pure.

Arguments and answers are described in JSON schema, of which the API knows a good part. Older models
and gateways know only a subset of OpenAPI's schema objects: no references, one type for a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

Schema = Mapping[str, Any]

_NAMES: Final[Mapping[type, str]] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
}


def answer_schema(schema: Schema) -> dict[str, Any]:
    """JSON schema for an answer: what may be only one value is said as a list of one."""
    made = {key: value for key, value in schema.items() if key not in ("$schema", "const")}
    if "const" in schema:
        made.setdefault("enum", [schema["const"]])
        if type(schema["const"]) in _NAMES:
            made.setdefault("type", _NAMES[type(schema["const"])])
    return _inside(made, answer_schema)


_MAPS: Final = frozenset({"$defs", "definitions", "patternProperties", "properties"})
_LISTS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_ONES: Final = frozenset({"additionalProperties", "items"})


def _inside(schema: Schema, change: Callable[[Schema], dict[str, Any]]) -> dict[str, Any]:
    """The schema with each schema inside it changed."""

    def changed(value: Any) -> Any:
        return change(value) if isinstance(value, Mapping) else value

    made = dict(schema)
    for key, value in schema.items():
        if key in _MAPS and isinstance(value, Mapping):
            made[key] = {name: changed(inner) for name, inner in value.items()}
        elif key in _LISTS and isinstance(value, list):
            made[key] = [changed(inner) for inner in value]
        elif key in _ONES:
            made[key] = changed(value)
    return made


# --- OpenAPI ------------------------------------------------------------------------------------

_KEPT: Final = frozenset(
    {
        "description",
        "maxItems",
        "maxLength",
        "maxProperties",
        "maximum",
        "minItems",
        "minLength",
        "minProperties",
        "minimum",
        "nullable",
        "pattern",
        "required",
    }
)
"""Taken as they are."""
_TOLD: Final = ("exclusiveMaximum", "exclusiveMinimum", "format", "multipleOf", "uniqueItems")
"""Rules that it has no word for: they are told in the description."""
_FORMATS: Final = frozenset({"date-time", "double", "enum", "float", "int32", "int64"})


def openapi_schema(schema: Schema) -> dict[str, Any]:
    """The schema in OpenAPI's subset. Allows what the schema allows, and here and there more."""
    return _reduced(schema, schema, ())


def _reduced(schema: Any, root: Schema, within: tuple[str, ...]) -> dict[str, Any]:
    """`within` are the references that led here: one that leads back to itself is cut off."""
    if not isinstance(schema, Mapping):
        return {}  # true: anything
    if "$ref" in schema:
        ref = str(schema["$ref"])
        if ref in within:
            return {"type": "object"}
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        return _reduced({**_target(ref, root), **rest}, root, (*within, ref))
    schema, within = _together(schema, root, within)
    made = {key: value for key, value in schema.items() if key in _KEPT}
    if schema.get("format") in _FORMATS:
        made["format"] = schema["format"]
    _tell(made, [key for key in _TOLD if key in schema and key not in made], schema)
    _say_values(made, schema)
    _say_types(made, schema, root, within)
    if isinstance(schema.get("properties"), Mapping):
        made["properties"] = {
            name: _reduced(inner, root, within) for name, inner in schema["properties"].items()
        }
    _say_items(made, schema, root, within)
    return made


def _target(ref: str, root: Schema) -> Schema:
    """What a reference points at; anything, when that is not in the schema."""
    target: Any = root
    for step in ref.removeprefix("#").split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        target = target.get(step) if isinstance(target, Mapping) else None
    return target if isinstance(target, Mapping) else {}


def _together(
    schema: Schema, root: Schema, within: tuple[str, ...]
) -> tuple[Schema, tuple[str, ...]]:
    """What has to fit several schemas at once, as one. What stands beside them wins."""
    several = schema.get("allOf")
    if not isinstance(several, list):
        return schema, within
    made: dict[str, Any] = {}
    properties: dict[str, Any] = {}
    required: dict[str, None] = {}
    for each in (*several, {key: value for key, value in schema.items() if key != "allOf"}):
        if not isinstance(each, Mapping):
            continue
        if "$ref" in each:
            ref = str(each["$ref"])
            each = {**({"type": "object"} if ref in within else _target(ref, root)), **each}
            within = (*within, ref)
        made |= {key: value for key, value in each.items() if key not in ("allOf", "$ref")}
        properties |= each.get("properties", {})
        required |= dict.fromkeys(each.get("required", ()))
    if properties:
        made["properties"] = properties
    if required:
        made["required"] = list(required)
    return made, within


def _tell(made: dict[str, Any], keys: list[str], schema: Schema) -> None:
    told = [f"{key}: {msgspec.json.encode(schema[key]).decode()}" for key in keys]
    if told:
        made["description"] = "\n".join(filter(None, (made.get("description"), *told)))


def _say_values(made: dict[str, Any], schema: Schema) -> None:
    """Listed values. They can only be text: others are told, and keep their type."""
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(values, list):
        return
    if None in values:
        made["nullable"] = True
    values = [value for value in values if value is not None]
    names = {_NAMES.get(type(value), "object") for value in values}
    if names == {"string"}:
        made["type"] = "string"
        made["enum"] = values
        return
    if len(names) == 1:
        made["type"] = names.pop()
    _tell(made, ["one of"], {"one of": values})


def _say_types(made: dict[str, Any], schema: Schema, root: Schema, within: tuple[str, ...]) -> None:
    """One type for a value, or else several schemas of which it has to fit one."""
    given = schema.get("type", ())
    types = [given] if isinstance(given, str) else list(given)
    variants: list[Any] = [*schema.get("anyOf", ()), *schema.get("oneOf", ())]
    if "null" in types or {"type": "null"} in variants:
        made["nullable"] = True
    types = [name for name in types if name != "null"]
    variants = [variant for variant in variants if variant != {"type": "null"}]
    if not variants and len(types) > 1:
        variants, types = [{"type": name} for name in types], []
    if types:
        made["type"] = types[0]
    if len(variants) == 1:
        for key, value in _reduced(variants[0], root, within).items():
            made.setdefault(key, value)
    elif variants:
        made["anyOf"] = [_reduced(variant, root, within) for variant in variants]


def _say_items(made: dict[str, Any], schema: Schema, root: Schema, within: tuple[str, ...]) -> None:
    """What is in a list. It cannot be said by position, so each may be any of them."""
    places = schema.get("prefixItems")
    if isinstance(places, list):
        each = [_reduced(place, root, within) for place in places]
        each = [item for at, item in enumerate(each) if item not in each[:at]]
        made["items"] = each[0] if len(each) == 1 else {"anyOf": each}
    elif "items" in schema or made.get("type") == "array":
        made["items"] = _reduced(schema.get("items", True), root, within)
