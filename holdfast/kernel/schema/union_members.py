"""Unions whose members are named in the answer: `{"Refund": {…}}` or `{"NoRefund": {}}`.

Two members of the same JSON type cannot be told apart by their values: an object without required
fields accepts any other. Unions with a discriminator, and members of different JSON types, need no
names.
"""

from __future__ import annotations

import types
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Annotated, Any, Final, Union, get_args, get_origin

from holdfast.kernel.schema.name import as_name
from holdfast.kernel.schema.pydantic_adapter import plain_schema
from holdfast.kernel.schema.schema_walk import expanded, tags_of

CONTAINERS: Final = (list, tuple, set, frozenset, dict)
"""Types in whose items unions are named as well."""
AMBIGUOUS: Final = frozenset({"object", "array"})
"""JSON types that are too wide to tell two members apart."""


def with_named_members(declared: Any) -> Any:
    """The type as it is requested: each ambiguous member of a union in an object with its name.

    Validation returns values of the declared type.
    """
    declared = _alias_target(declared)
    origin, args = get_origin(declared), get_args(declared)
    if origin is Annotated:
        inner, *metadata = args
        if any(map(_has_discriminator, metadata)):
            return declared
        changed = with_named_members(inner)
        return declared if changed is inner else Annotated[(changed, *metadata)]
    if origin in (Union, types.UnionType):
        return _named_union(declared)
    if origin in CONTAINERS:
        items = [arg if arg is Ellipsis else with_named_members(arg) for arg in args]
        unchanged = all(new is old for new, old in zip(items, args, strict=True))
        return declared if unchanged else origin[tuple(items)]
    return declared


def _alias_target(declared: Any) -> Any:
    """The union that a `type` statement gives a name, or the type itself."""
    target = getattr(declared, "__value__", None)
    return declared if get_origin(target) not in (Union, types.UnionType, Annotated) else target


def _has_discriminator(metadata: Any) -> bool:
    # `Field(discriminator=…)`, or a `Discriminator` itself.
    return getattr(metadata, "discriminator", None) is not None


def _named_union(declared: Any) -> Any:
    members = list(_members(declared))
    kinds = [_json_types(member) & AMBIGUOUS for member in members]
    counts = Counter(kind for each in kinds for kind in each)
    ambiguous = [any(counts[kind] > 1 for kind in each) for each in kinds]
    if not any(ambiguous):
        return declared
    pairs = list(zip(members, ambiguous, strict=True))
    named = _by_name([each for member, is_named in pairs if is_named for each in _split(member)])
    rest = [with_named_members(member) for member, is_named in pairs if not is_named]
    return reduce(lambda one, other: Union[one, other], rest, Annotated[Any, _OneOf(named)])


def _members(declared: Any) -> Iterator[Any]:
    """The members of a union; those of a union in it are members, too."""
    for member in get_args(declared):
        inner = _alias_target(member)
        if get_origin(inner) in (Union, types.UnionType):
            yield from _members(inner)
        else:
            yield inner


def _split(member: Any) -> Iterator[Any]:
    """The members of a union with a discriminator, which another member makes ambiguous."""
    if get_origin(member) is Annotated and any(map(_has_discriminator, get_args(member)[1:])):
        yield from _members(get_args(member)[0])
    else:
        yield member


def _json_types(member: Any) -> frozenset[str]:
    from pydantic import TypeAdapter

    schema = plain_schema(TypeAdapter(member))
    return frozenset(
        "object" if tags_of(each) else each.get("type", "") for each in expanded([schema], schema)
    )


def _by_name(members: Sequence[Any]) -> dict[str, Any]:
    named: dict[str, Any] = {}
    for member in members:
        name = as_name(_type_name(member))
        same = sum(other.partition("-")[0] == name for other in named)
        named[f"{name}-{same + 1}" if same else name] = member
    return named


def _type_name(member: Any) -> str:
    origin, args = get_origin(member), get_args(member)
    if origin is Annotated:
        return _type_name(args[0])
    name = getattr(member, "__name__", None) or str(member)
    return "_".join((name, *map(_type_name, args))) if origin in CONTAINERS else name


class _OneOf:
    """Makes a type that takes an object with exactly one of the names, and returns its value."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._choice = " or ".join(f'{{"{name}": …}}' for name in named)

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic_core import core_schema

        fields = {
            name: core_schema.typed_dict_field(handler.generate_schema(member), required=False)
            for name, member in self._named.items()
        }
        # Unknown names are accepted here, to be reported in one sentence with those that are known.
        shape = core_schema.typed_dict_schema(fields, extra_behavior="allow")
        return core_schema.no_info_after_validator_function(self._value, shape)

    def __get_pydantic_json_schema__(self, core: Any, handler: Any) -> dict[str, Any]:
        """Each member as an object of its own with one key, which strict modes enforce."""
        members: Mapping[str, Any] = handler(core)["properties"]
        return {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {name: member},
                    "required": [name],
                    "additionalProperties": False,
                }
                for name, member in members.items()
            ]
        }

    def _value(self, value: Mapping[str, Any]) -> Any:
        if len(value) != 1 or not self._named.keys() >= value.keys():
            raise ValueError(f"should be {self._choice}")
        return next(iter(value.values()))
