"""Converts values of a TOML file to the types of our settings; errors say what to write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin

import msgspec
from msgspec import structs

from holdfast.cli.config_mistakes import Mistakes
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.suggest import unknown_name


def read_struct(table: object, kind: type[Any], setting: str, mistakes: Mistakes) -> Any:
    """Convert a table; invalid fields keep their default."""
    if not isinstance(table, dict):
        mistakes.add(setting, f"write a table, as in [{setting}]")
        return kind()
    known = {field.name: field for field in structs.fields(kind)}
    fields: dict[str, Any] = {}
    for name, value in table.items():
        where = f"{setting}.{name}" if setting else name
        if name not in known:
            mistakes.add(where, f"unknown setting{unknown_name(name, known)}")
            continue
        try:
            fields[name] = msgspec.convert(value, known[name].type)
        except msgspec.ValidationError as error:
            mistakes.add(where, in_words(error, known[name].type))
    try:
        return kind(**fields)
    except ConfigError as error:
        mistakes.add(setting, str(error))
        return kind()


def in_words(error: msgspec.ValidationError, kind: Any) -> str:
    """How to write a value of this type."""
    choices = [choice for one in (kind, *get_args(kind)) for choice in _choices(one)]
    if choices:
        return f"use one of {', '.join(choices)}"
    kinds = {get_origin(one) or one for one in members(kind)}
    wanted = [words for one, words in _WANTED.items() if one in kinds]
    return f"write {', or '.join(wanted)}" if wanted else str(error)


_WANTED: Final[Mapping[Any, str]] = {
    str: "text in quotes",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    tuple: 'a list of strings, as in ["a", "b"]',
    Mapping: "a table",
}


def members(kind: Any) -> tuple[Any, ...]:
    """The types of a union without None; a type that is not a union, alone."""
    if isinstance(kind, UnionType) or get_origin(kind) is Union:
        return tuple(one for one in get_args(kind) if one is not NoneType)
    return (kind,)


def _choices(kind: object) -> Sequence[str]:
    return [one for one in get_args(kind) if isinstance(one, str)]
