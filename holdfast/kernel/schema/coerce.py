"""Coercion of invalid arguments: trivial mistakes are corrected, the rest is reported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import reduce
from typing import Any, Final, TypeAlias

from holdfast.kernel.schema.arguments import BadArguments, Values
from holdfast.kernel.schema.problems import (
    ONE_OF,
    InputTerms,
    Path,
    Rank,
    ValidationProblem,
    refusal,
)
from holdfast.kernel.schema.text import TOO_DEEP, JsonNumber, NotJson, load

TOO_MANY_PROBLEMS: Final = 1_000
"""Number of problems from which nothing is coerced any more: it would take too long."""
EXACT: Final = 2**53
"""Limit up to which a float holds every whole number; above it, the intended one may be missing."""
WANTED_FROM_STRING: Final[Mapping[type, frozenset[str]]] = {
    bool: ONE_OF | {"boolean"},
    int: ONE_OF | {"integer", "number"},
    JsonNumber: ONE_OF | {"number"},
    list: frozenset({"array"}),
    dict: frozenset({"object"}),
}
"""Wanted types for which a string is replaced by the JSON value that it contains, by the type of
that value."""
ABSENT: Final = object()
"""Marker: there is no such value."""
DROP: Final = object()
"""Marker: remove the value."""

TreeValidator: TypeAlias = Callable[[Any], tuple[Values, list[ValidationProblem]]]
"""Function that validates a JSON tree: returns its values, or its problems."""


def coerced(
    text: str, schema: Mapping[str, Any], validate: TreeValidator, terms: InputTerms
) -> Values:
    """The values in a text after coercion. Raises `BadArguments` with all remaining problems."""
    optional = frozenset(schema["properties"]) - frozenset(schema.get("required") or ())
    try:
        values, problems = _coerce(load(text) if text.strip() else {}, validate, optional)
    except NotJson as error:
        raise BadArguments([f"{terms.whole}: not JSON: {error}"]) from None
    except RecursionError:
        raise BadArguments([f"{terms.whole}: {TOO_DEEP}"]) from None
    if problems:
        raise refusal(problems, schema, terms)
    return values


def _coerce(
    tree: Any, validate: TreeValidator, optional: frozenset[str]
) -> tuple[Values, list[ValidationProblem]]:
    """Change values that the validator rejects, and no others, for as long as that helps.

    A change that does not produce a wanted type is undone, and no value is changed twice. A value
    that was decoded from a string may itself contain the next mistake.
    """
    root = [tree]  # so that the tree itself can be replaced like any value in it
    tried: set[Path] = set()
    values, problems = _validated(tree, validate)
    while len(problems) < TOO_MANY_PROBLEMS:
        every = _changes(root[0], problems, optional)
        changes = {path: new for path, new in every if path not in tried}
        if not changes:
            break
        tried |= changes.keys()
        old = {path: _put(root, path, new) for path, new in changes.items()}
        values, problems = _validated(root[0], validate)
        if failed := changes.keys() & {each.path for each in problems if each.wants}:
            for path in failed:
                _put(root, path, old[path])
            values, problems = _validated(root[0], validate)
    return values, problems


def _validated(tree: Any, validate: TreeValidator) -> tuple[Values, list[ValidationProblem]]:
    """Validate a tree, and leave out problems of union members that were not meant."""
    # The libraries collect all problems, which is slow. If the first values alone have too many,
    # the others are not validated.
    start = _start(tree, iter(range(2 * TOO_MANY_PROBLEMS)))
    values, problems = validate(start)
    if len(problems) < TOO_MANY_PROBLEMS and start != tree:
        values, problems = validate(tree)
    if len(problems) >= TOO_MANY_PROBLEMS:
        return values, problems
    inside = {each.path[:depth] for each in problems for depth in range(len(each.path))}
    # One member of a union looked inside the value, so its type was right: the others, which wanted
    # another type, were not meant.
    return values, [each for each in problems if each.rank != Rank.TYPE or each.path not in inside]


def _start(tree: Any, room: Iterator[int]) -> Any:
    """The first values of a tree, as many as `room` has items."""
    match tree:
        case list():
            return [_start(item, room) for item, _ in zip(tree, room, strict=False)]
        case dict():
            items = zip(tree.items(), room, strict=False)
            return {name: _start(item, room) for (name, item), _ in items}
        case _:
            return tree


def _changes(
    tree: Any, problems: Iterable[ValidationProblem], optional: frozenset[str]
) -> Iterator[tuple[Path, Any]]:
    wants: dict[Path, frozenset[str]] = {}
    wrong: set[Path] = set()
    for problem in problems:
        if problem.wants:
            wants[problem.path] = problem.wants | wants.get(problem.path, frozenset())
        else:
            wrong.add(problem.path)
    for path, kinds in wants.items():
        if path in wrong:  # the right type for one member of a union: then that one was meant
            continue
        value = reduce(step, path, tree)
        null = value is None and len(path) == 1 and path[0] in optional
        new = DROP if null else _closest(value, kinds)
        if new is not ABSENT:
            yield path, new


def _closest(value: Any, wants: frozenset[str]) -> Any:
    """The value of a wanted type that this one represents without loss, or ABSENT."""
    match value:
        case str():
            return _decoded(value, wants)
        case bool():
            return ABSENT
        case float() if "integer" in wants and value.is_integer() and abs(value) <= EXACT:
            return int(value)
        case int() | float() if wants & (ONE_OF | {"string"}):
            return str(value)
        case _:
            return ABSENT


def _decoded(text: str, wants: frozenset[str]) -> Any:
    """The JSON value in a string, if its type is wanted; otherwise ABSENT."""
    if "boolean" in wants and text.lower() in ("true", "false"):  # also as Python writes it
        return text.lower() == "true"
    try:
        value = load(text)
    except NotJson:
        return ABSENT
    if value is None or wants & WANTED_FROM_STRING.get(type(value), frozenset()):
        return value
    return _closest(value, wants) if isinstance(value, float) else ABSENT


def step(tree: Any, to: str | int) -> Any:
    """The value one step down the path, or ABSENT."""
    match tree:
        case dict():
            return tree.get(to, ABSENT)
        case list() if isinstance(to, int) and to < len(tree):
            return tree[to]
        case _:
            return ABSENT


def _put(root: list[Any], path: Path, new: Any) -> Any:
    """Replace a value, or remove it if `new` is DROP. Returns the old value."""
    *steps, last = (0, *path)
    node: Any = reduce(step, steps, root)
    old = node[last]
    if new is DROP:
        del node[last]
    else:
        node[last] = new
    return old
