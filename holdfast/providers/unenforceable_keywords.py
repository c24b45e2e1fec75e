"""JSON schema as providers see it, and the keywords that none can enforce on an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

JsonSchema: TypeAlias = Mapping[str, Any]
"""A JSON schema, as an object."""

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
"""Keywords that a grammar for constrained answers cannot express."""
