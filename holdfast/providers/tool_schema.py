"""Tool names and argument schemas, adapted for providers with restrictions. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Final

from holdfast.providers.request_body import encoded

OPENAI_ROOT_KEYWORDS: Final = frozenset({"$ref", "allOf", "anyOf", "enum", "not", "oneOf"})
"""Keywords that OpenAI refuses at the root of a function's parameters."""
CHOICE_KEYWORDS: Final = frozenset({"allOf", "anyOf", "oneOf"})
"""Those of these keywords that Anthropic refuses too."""
MAX_REF_DEPTH: Final = 4
"""How many references from the root of a schema are followed; a schema may refer to itself."""
MAX_NAME_LENGTH: Final = 64
_INVALID_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_-]")


def nameable(name: str) -> str:
    """A valid OpenAI name for a tool or a schema; empty for an empty name."""
    return _INVALID_IN_NAMES.sub("_", name)[:MAX_NAME_LENGTH]


def one_object(
    schema: Mapping[str, Any], refused: AbstractSet[str] = OPENAI_ROOT_KEYWORDS
) -> tuple[dict[str, Any], str]:
    """A schema whose root is an object, without keywords that are refused there.

    They are returned as an instruction in words.
    """
    result = {key: value for key, value in schema.items() if key not in refused}
    result.setdefault("type", "object")
    result.setdefault("properties", {})  # an object without properties is refused
    rest = {key: value for key, value in schema.items() if key in refused}
    if not rest:
        return result, ""
    fields = dict(result["properties"])
    for part in _parts_of(schema, schema):
        fields = {**part.get("properties", {}), **fields}
    result["properties"] = fields
    return result, _as_instruction(rest)


def with_names(schema: Mapping[str, Any], valid: re.Pattern[str]) -> tuple[dict[str, Any], str]:
    """A schema with only those fields whose names are valid.

    The other fields are returned as an instruction in words; a model that reads it supplies them
    too.
    """
    result = dict(schema)
    fields = schema.get("properties") or {}
    odd = [name for name in fields if not valid.fullmatch(name)]
    if not odd:
        return result, ""
    result.pop("additionalProperties", None)  # the other fields are additional properties now
    result["properties"] = {name: fields[name] for name in fields if name not in odd}
    rest: dict[str, Any] = {"properties": {name: fields[name] for name in odd}}
    if "required" in schema:
        result["required"] = [name for name in schema["required"] if name not in odd]
        rest["required"] = [name for name in schema["required"] if name in odd]
    return result, _as_instruction(rest)


def _as_instruction(rest: Mapping[str, Any]) -> str:
    return f"The arguments also have to fit this JSON schema: {encoded(rest).decode()}"


def _parts_of(
    schema: Mapping[str, Any], root: Mapping[str, Any], depth: int = 0
) -> list[Mapping[str, Any]]:
    """The schemas that a schema combines, and those that these combine in turn."""
    parts = [part for key in sorted(CHOICE_KEYWORDS) for part in schema.get(key, ())]
    if "$ref" in schema:
        parts.append(_referenced(str(schema["$ref"]), root))
    nested: list[Mapping[str, Any]] = []
    for part in parts:
        if isinstance(part, Mapping) and depth < MAX_REF_DEPTH:
            nested += [part, *_parts_of(part, root, depth + 1)]
    return nested


def _referenced(ref: str, root: Mapping[str, Any]) -> Any:
    node: Any = root
    for step in ref.removeprefix("#/").split("/"):
        node = node.get(step) if isinstance(node, Mapping) else None
    return node
