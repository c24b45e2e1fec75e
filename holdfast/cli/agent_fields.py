"""The fields of an agent that a settings file can set, found in the types of `Agent` by one rule.

Numbers, texts, choices, lists and tables are data. A nested struct, such as `Policy`, is a table of
its own. A model is its name, or a list of names: the next one is used if one fails. Functions and
objects are not data: an agent that needs them is written in Python.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias, Union, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, Struct, structs

from holdfast.agent import Agent
from holdfast.cli.config_mistakes import Mistakes
from holdfast.cli.toml_values import in_words, members
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.keywords import FOREIGN_KEYWORDS
from holdfast.kernel.model import Model
from holdfast.kernel.suggest import did_you_mean

ModelNames: TypeAlias = str | tuple[str, ...]
"""The name of a model, or of several, each used if the ones before it fail."""
ModelMaker: TypeAlias = Callable[[ModelNames], Model | None]
NOT_SET_HERE: Final = frozenset({"name", "eager"})
"""Fields of an agent without a setting: the table has its name, and a server allows one `eager`."""


class DataField(NamedTuple):
    """A field of a struct that can be written as data."""

    kind: Any
    """Type of the value in TOML."""
    default: Any
    table: type[Struct] | None = None
    """The struct whose fields are written one by one, as a table."""
    model: bool = False
    """Whether the value names a model."""


@cache
def data_fields(kind: type[Struct]) -> Mapping[str, DataField]:
    """The fields of a struct that can be written as data."""
    left_out = NOT_SET_HERE if issubclass(kind, Agent) else frozenset[str]()
    found = {}
    for field in structs.fields(kind):
        data = None if field.name in left_out else as_data(field.type)
        if data is not None:
            kinds = members(field.type)
            found[field.name] = DataField(data, _default(field), _struct_in(kinds), Model in kinds)
    return found


def as_data(kind: Any) -> Any | None:
    """The type in TOML of values of a type; None if they are not data."""
    origin, parameters = get_origin(kind) or kind, get_args(kind)
    if kind is Model:
        return ModelNames
    if len(members(kind)) > 1 or type(None) in parameters:
        kinds = tuple(data for one in members(kind) if (data := as_data(one)) is not None)
        return Union[kinds] if kinds else None
    if origin is Literal or kind in (str, int, float, bool):
        return kind
    if isinstance(origin, type) and issubclass(origin, Struct):
        fields = data_fields(origin)
        required = {field.name for field in structs.fields(origin) if field.required}
        return origin if fields and required <= fields.keys() else None
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return kind if parameters[:1] == (str,) else None
    if isinstance(origin, type) and issubclass(origin, Sequence) and parameters:
        item = as_data(parameters[0])
        return None if item is None else tuple[item, ...]  # type: ignore[valid-type]
    return None


def _default(field: structs.FieldInfo) -> Any:
    if field.default_factory is not NODEFAULT:
        return field.default_factory()
    return field.default


def _struct_in(kinds: Sequence[Any]) -> type[Struct] | None:
    for one in kinds:
        kind = get_origin(one) or one
        if isinstance(kind, type) and issubclass(kind, Struct):
            return kind
    return None


# --- reading --------------------------------------------------------------------------------------


def read_fields(
    table: Mapping[str, Any],
    kind: type[Struct],
    setting: str,
    mistakes: Mistakes,
    others: Sequence[str] = (),
) -> dict[str, Any]:
    """The valid values of a table, by field. Those of a nested table are a dict of their own.

    `others` are names that the table may have as well, for suggestions.
    """
    known, fields = data_fields(kind), dict[str, Any]()
    for name, value in table.items():
        where = f"{setting}.{name}"
        if name not in known:
            mistakes.add(where, _unknown(name, kind, [*known, *others]))
        elif (nested := known[name].table) is not None and isinstance(value, dict):
            fields[name] = read_fields(value, nested, where, mistakes)
        else:
            before = len(mistakes)
            read = read_value(value, known[name].kind, where, mistakes)
            if len(mistakes) == before:
                fields[name] = read
    return fields


def _unknown(name: str, kind: type[Struct], known: Sequence[str]) -> str:
    """The message for a name that is not a setting: the one to write instead."""
    if name in kind.__struct_fields__ and name not in NOT_SET_HERE:
        return (
            "only Python can express this: write the agent in a module, and name it, "
            'as in python = "app:agent"'
        )
    if setting := _setting_instead(name, kind):
        return f"unknown setting: write {setting}"
    if near := did_you_mean(name, known):
        return f"unknown setting{near}"
    nested = next((one for one in _nested_settings(kind) if one.endswith(f".{name}")), None)
    listed = ", ".join(sorted(known))
    return f"unknown setting: {f'did you mean {nested}?' if nested else f'use one of {listed}'}"


def _setting_instead(name: str, kind: type[Struct]) -> str | None:
    """The setting for an argument of another library, from what Python programs are answered."""
    if kind is Agent and name in _IN_TABLES:
        return _IN_TABLES[name]
    remedy = FOREIGN_KEYWORDS.get(kind.__name__, {}).get(name, "")
    path = ".".join(re.findall(r"(\w+)=", remedy.partition(", or ")[0]))
    return path if path in _nested_settings(kind) else None


_IN_TABLES: Final = {
    **dict.fromkeys(("fallback", "fallbacks", "fallback_model"), 'model = ["first", "second"]'),
    **dict.fromkeys(("sub_agents", "agents"), 'subagents = ["…"]'),
    **dict.fromkeys(
        ("retries", "max_retries"),
        "policy.repairs, for answers of a wrong type, or policy.retry.attempts, for failed model "
        "calls",
    ),
}
"""Settings that other libraries have, and that a table writes otherwise than Python."""


def _nested_settings(kind: type[Struct]) -> Iterator[str]:
    """The settings of a table and of the tables in it, as they are written after its name."""
    for name, field in data_fields(kind).items():
        yield name
        if field.table is not None:
            yield from (f"{name}.{inner}" for inner in _nested_settings(field.table))


def read_value(value: object, kind: Any, where: str, mistakes: Mistakes) -> Any:
    """A value converted to its type. Mistakes in it are reported, and the result is then unused."""
    items = [get_args(one)[0] for one in members(kind) if get_origin(one) is tuple]
    if isinstance(value, list) and (item := _struct_in(items)) is not None:
        return tuple(
            _read_item(one, item, f"{where}[{number}]", mistakes)
            for number, one in enumerate(value)
        )
    if (table := _struct_in(members(kind))) is not None:
        mistakes.add(where, f"write a table, as in [{where}] ({', '.join(data_fields(table))})")
        return None
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        mistakes.add(where, in_words(error, kind))
        return None


def _read_item(value: object, kind: type[Struct], where: str, mistakes: Mistakes) -> Struct | None:
    """A struct of a list: a table, or the text of its first field."""
    first = kind.__struct_fields__[0]
    table = {first: value} if isinstance(value, str) else value
    if not isinstance(table, dict):
        mistakes.add(where, f'write text in quotes, or a table, as in {{{first} = "…"}}')
        return None
    fields = read_fields(table, kind, where, mistakes)
    missing = [one.name for one in structs.fields(kind) if one.required and one.name not in table]
    if missing:
        mistakes.add(where, f"{', '.join(missing)} is missing")
        return None
    return mistakes.tried(where, lambda: kind(**fields))


# --- using ----------------------------------------------------------------------------------------


def field_values(
    fields: Mapping[str, Any],
    kind: type[Struct],
    base: Struct | None,
    setting: str,
    make_model: ModelMaker,
    mistakes: Mistakes,
) -> dict[str, Any]:
    """Arguments for a struct, or changes of `base`: `fields` with their models and nested structs.

    A nested table changes the struct that the base has, or else the default one.
    """
    values: dict[str, Any] = {}
    for name, value in fields.items():
        field, where = data_fields(kind)[name], f"{setting}.{name}"
        made: Any = value
        if field.model and isinstance(value, str | tuple):
            made = mistakes.tried(where, lambda value=value: make_model(value))  # type: ignore[misc]
        elif field.table is not None and isinstance(value, dict):
            current = field.default if base is None else getattr(base, name)
            nested = field_values(value, field.table, current, where, make_model, mistakes)
            made = mistakes.tried(where, _changed(field.table, current, nested))
        if made is not None:
            values[name] = made
    return values


def _changed(
    kind: type[Struct], current: Struct | None, values: Mapping[str, Any]
) -> Callable[[], Struct]:
    if current is None:
        return lambda: kind(**values)
    return lambda: structs.replace(current, **values)


def model_names(fields: Mapping[str, Any], kind: type[Struct] = Agent) -> list[str]:
    """The names of all models in the fields."""
    names: list[str] = []
    for name, value in fields.items():
        field = data_fields(kind)[name]
        if field.model:
            names += [value] if isinstance(value, str) else value
        elif field.table is not None and isinstance(value, dict):
            names += model_names(value, field.table)
    return names


def check_names(names: ModelNames) -> tuple[str, ...]:
    """The names of models in order. Raises `ConfigError` if there are none."""
    listed = (names,) if isinstance(names, str) else names
    if not listed:
        raise ConfigError('name at least one model, as in ["anthropic:…", "openai:…"]')
    return listed
