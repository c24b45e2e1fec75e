"""Keywords of JSON schema that no provider can enforce on an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

JsonSchema: TypeAlias = Mapping[str, Any]

UNENFORCEABLE_KEYWORDS: Final = frozenset(
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
"""Shapes that a grammar for an answer has no word for."""
