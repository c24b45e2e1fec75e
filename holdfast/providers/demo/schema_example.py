"""Generates a small value that matches a JSON schema made from types. Pure, never raises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

FORMATS: Final[Mapping[str, str]] = {
    "date": "2025-01-01",
    "date-time": "2025-01-01T00:00:00Z",
    "time": "00:00:00Z",
    "email": "demo@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


def example(schema: Any) -> Any:
    """A value that fits; None if it cannot be found."""
    try:
        return _example(schema, schema, ())
    except (AttributeError, LookupError, TypeError, ValueError):
        return None  # not a schema


def _example(schema: Any, root: Any, refs: tuple[str, ...]) -> Any:
    """`refs`: the references on the way here, because a type may contain itself."""
    if reference := schema.get("$ref"):
        target = root
        for step in reference.split("/")[1:]:
            target = target[step]
        return None if refs.count(reference) > 1 else _example(target, root, (*refs, reference))
    if "const" in schema:
        return schema["const"]
    if choices := schema.get("enum"):
        return choices[0]
    for word in ("anyOf", "oneOf", "allOf"):
        if options := schema.get(word):  # a type that is new here, else null
            order = [(one.get("$ref") in refs, one.get("type") == "null") for one in options]
            return _example(options[order.index(min(order))], root, refs)
    types = schema.get("type", "object" if "properties" in schema else "string")
    match next((t for t in types if t != "null"), "null") if isinstance(types, list) else types:
        case "object":
            fields = schema.get("properties", {})
            return {
                name: _example(fields.get(name, {}), root, refs)
                for name in schema.get("required", ())
            }
        case "array":
            items = [*schema.get("prefixItems", ())]
            items += [schema.get("items", {})] * (schema.get("minItems", 0) - len(items))
            return [_example(item, root, refs) for item in items]
        case "string":
            text = FORMATS.get(schema.get("format", ""), "demo")
            return text.ljust(schema.get("minLength", 0), ".")[: schema.get("maxLength")]
        case "integer" | "number":
            return _number(schema)
        case "boolean":
            return True
    return None


def _number(schema: Mapping[str, Any]) -> Any:
    """The first that fits of 0, the bounds, what is next to them, and their middle."""

    def fits(number: float) -> bool:
        low, high = schema.get("minimum", number), schema.get("maximum", number)
        above = schema.get("exclusiveMinimum", number - 1)
        below = schema.get("exclusiveMaximum", number + 1)
        return bool(low <= number <= high and above < number < below)

    words = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
    bounds = [schema[word] for word in words if word in schema]
    near = [bound + step for bound in bounds for step in (0, 1, -1)]
    return next(filter(fits, (0, *near, sum(bounds) / max(1, len(bounds)))), 0)
