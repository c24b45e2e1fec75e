"""The schema of a tool's arguments as OpenAI's protocols take it: one object at its root. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from holdfast.providers.body import encoded

NOT_AT_THE_ROOT: Final = frozenset({"$ref", "allOf", "anyOf", "enum", "not", "oneOf"})
"""Words that are refused at the root of a function's parameters."""
_CHOICES: Final = ("allOf", "anyOf", "oneOf")
MAX_DEPTH: Final = 4
"""How far the root of a schema is followed. One may refer to itself."""


def one_object(schema: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """A schema whose root is nothing but an object with fields, and the rest of it in words."""
    made = {key: value for key, value in schema.items() if key not in NOT_AT_THE_ROOT}
    made.setdefault("type", "object")
    made.setdefault("properties", {})  # an object without is refused
    rest = {key: value for key, value in schema.items() if key in NOT_AT_THE_ROOT}
    if not rest:
        return made, ""
    fields = dict(made["properties"])
    for part in _parts_of(schema, schema):
        fields = {**part.get("properties", {}), **fields}
    made["properties"] = fields
    return made, f"The arguments also have to fit this JSON schema: {encoded(rest).decode()}"


def _parts_of(
    schema: Mapping[str, Any], root: Mapping[str, Any], depth: int = 0
) -> list[Mapping[str, Any]]:
    """The schemas that a schema is put together from, and those that they are."""
    parts = [part for key in _CHOICES for part in schema.get(key, ())]
    if "$ref" in schema:
        parts.append(_named(str(schema["$ref"]), root))
    found: list[Mapping[str, Any]] = []
    for part in parts:
        if isinstance(part, Mapping) and depth < MAX_DEPTH:
            found += [part, *_parts_of(part, root, depth + 1)]
    return found


def _named(ref: str, root: Mapping[str, Any]) -> Any:
    found: Any = root
    for step in ref.removeprefix("#/").split("/"):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found
