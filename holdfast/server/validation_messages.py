"""Validation errors of bodies and queries in words, with the accepted values."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec
from msgspec import inspect

CHOICE: Final = re.compile(r"Invalid (?:enum )?value .* - at `(?:key in )?\$(?P<path>.*)`", re.S)
STEP: Final = re.compile(r"\.([^.\[]+)|\[[^\]]*\]")
"""One step of a path: a field by name, or an item."""


def in_words(error: msgspec.ValidationError, kind: Any) -> str:
    """The decoder's message; for a value outside a fixed set, with all accepted values."""
    message = str(error)
    choice = CHOICE.fullmatch(message)
    if choice is None:
        return message
    steps = [step[1] for step in STEP.finditer(choice["path"])]
    choices = dict.fromkeys(map(str, _choices(inspect.type_info(kind), steps)))
    return f"{message}: use one of {', '.join(choices)}" if choices else message


def _choices(kind: inspect.Type, steps: Sequence[str | None]) -> Iterator[Any]:
    """The values accepted at a path. A step is the name of a field, or None for an item."""
    match kind, steps:
        case inspect.Metadata(), _:
            yield from _choices(kind.type, steps)
        case inspect.UnionType(), _:
            for one in kind.types:
                yield from _choices(one, steps)
        case inspect.LiteralType(), []:
            yield from kind.values
        case inspect.EnumType(), []:
            yield from (one.value for one in kind.cls)
        case inspect.StructType(), [str(name)] if name == kind.tag_field:
            yield kind.tag
        case inspect.StructType(), [str(name), *rest]:
            for field in kind.fields:
                if field.encode_name == name:
                    yield from _choices(field.type, rest)
        case inspect.DictType(), [None, *rest]:
            yield from _choices(kind.value_type, rest)
        case _, [None, *rest] if isinstance(kind, inspect.CollectionType):
            yield from _choices(kind.item_type, rest)
