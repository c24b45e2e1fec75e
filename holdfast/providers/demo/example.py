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


def example(schema: object) -> Any:
    return _made(schema, schema, ())


def _made(schema: object, root: object, refs: tuple[str, ...]) -> Any:
    """`refs`: what was referred to on the way here, because a type may contain itself."""
    facts: Mapping[str, Any] = schema if isinstance(schema, Mapping) else {}
    if reference := _get(facts, "$ref", str, ""):
        endless = refs.count(reference) > 1
        return None if endless else _made(_referred(reference, root), root, (*refs, reference))
    if "const" in facts:
        return facts["const"]
    if choices := _get(facts, "enum", list, []):
        return choices[0]
    for word in ("anyOf", "oneOf", "allOf"):
        if options := _get(facts, word, list, []):
            return _made(_chosen(options, refs), root, refs)
    return _of_type(facts, root, refs)


def _of_type(facts: Mapping[str, Any], root: object, refs: tuple[str, ...]) -> Any:
    kinds = facts.get("type", "object" if "properties" in facts else "string")
    several = kinds if isinstance(kinds, list) else [kinds]
    match next((kind for kind in several if kind != "null"), "null"):
        case "object":
            known = _get(facts, "properties", Mapping, {})
            names = [str(name) for name in _get(facts, "required", list, [])]
            return {name: _made(known.get(name), root, refs) for name in names}
        case "array":
            made = [_made(one, root, refs) for one in _get(facts, "prefixItems", list, [])]
            missing = _get(facts, "minItems", int, 0) - len(made)
            return made + [_made(facts.get("items"), root, refs) for _ in range(missing)]
        case "string":
            text = FORMATS.get(_get(facts, "format", str, ""), "demo")
            padded = text.ljust(_get(facts, "minLength", int, 0), ".")
            return padded[: max(0, _get(facts, "maxLength", int, len(padded)))]
        case "integer" | "number":
            return _number(facts)
        case kind:
            return True if kind == "boolean" else None


def _referred(reference: str, root: object) -> object:
    """What `#/$defs/name` points to."""
    found: object = root
    for step in reference.split("/")[1:]:
        found = found.get(step) if isinstance(found, Mapping) else None
    return found


def _chosen(options: list[Any], refs: tuple[str, ...]) -> object:
    """Something that is new here, else nothing where that is allowed."""
    null = [one for one in options if one == {"type": "null"}]
    real = [one for one in options if one not in null]
    new = [one for one in real if not isinstance(one, Mapping) or one.get("$ref") not in refs]
    return [*new, *null, *real][0]


def _number(facts: Mapping[str, Any]) -> float:
    """The first that fits of nothing, the ends of the range, and what is near them."""

    def end(word: str, default: Any) -> Any:
        return _get(facts, word, (int, float), default)

    def fits(number: Any) -> Any:
        low, high = end("exclusiveMinimum", number - 1), end("exclusiveMaximum", number + 1)
        return end("minimum", number) <= number <= end("maximum", number) and low < number < high

    words = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
    ends = [end(word, 0) for word in words if word in facts]
    near = [one + by for one in ends for by in (0, 1, -1)]
    return next(filter(fits, (0, *near, sum(ends) / max(1, len(ends)))), 0)


def _get(facts: Mapping[str, Any], word: str, kind: Any, default: Any) -> Any:
    """What a schema says under a word, when it is of the kind that is expected there."""
    found = facts.get(word)
    return found if isinstance(found, kind) and not isinstance(found, bool) else default
