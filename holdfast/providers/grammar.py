"""Keywords of JSON schema that no provider can enforce on an answer."""

from __future__ import annotations

from typing import Final

UNSAYABLE: Final = frozenset(
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
