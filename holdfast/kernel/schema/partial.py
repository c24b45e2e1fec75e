"""The beginning of a JSON text as a value, plain or of a type."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from pydantic import TypeAdapter


def parse(text: str) -> Any:
    """Parse the beginning of a JSON text: open objects, lists and strings end where it ends.

    Raises `ValueError` for a text that does not begin like JSON, or that has no value yet.
    """
    from pydantic_core import from_json

    # Not cached: the strings of an answer hardly ever repeat.
    return from_json(
        text, allow_inf_nan=False, cache_strings="keys", allow_partial="trailing-strings"
    )


def value_of(declared: Any, value: Any, *, complete: bool) -> Any:
    """The value as one of a type. None if it is not one, or not yet."""
    try:
        adapter = _adapter(declared)
    except TypeError:  # a type that is not hashable
        adapter = _adapter.__wrapped__(declared)
    try:
        if adapter is None:
            return msgspec.convert(value, declared)
        return adapter.validate_python(value, experimental_allow_partial=not complete)
    except ValueError:  # pydantic's error, and msgspec's
        return None


@lru_cache(maxsize=64)
def _adapter(declared: Any) -> TypeAdapter[Any] | None:
    """The validator of a type, built once; None for a type that only msgspec knows."""
    from pydantic import PydanticUserError, TypeAdapter

    from holdfast.kernel.schema.union_members import with_named_members

    try:
        return TypeAdapter(with_named_members(declared))
    except PydanticUserError:
        return None
