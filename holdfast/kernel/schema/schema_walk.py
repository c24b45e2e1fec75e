"""Steps through a JSON schema along a path of pydantic, to tell keys from the tags of unions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from holdfast.kernel.schema.coerce import ABSENT, step
from holdfast.kernel.schema.problems import Path

Schema: TypeAlias = Mapping[str, Any]

CHOICES: Final = ("anyOf", "oneOf", "allOf")


def expanded(schemas: Iterable[Any], root: Schema) -> Iterator[Schema]:
    """The schemas without references and without choices, except those with a discriminator."""
    waiting, visited = list(schemas), set[str]()
    while waiting:
        schema = waiting.pop()
        if not isinstance(schema, Mapping):
            continue
        ref = schema.get("$ref")
        if isinstance(ref, str) and ref not in visited:
            visited.add(ref)
            waiting.append(_target(ref, root))
        if "discriminator" not in schema:
            waiting += [inner for key in CHOICES for inner in schema.get(key, ())]
        if ref is None:
            yield schema


def below(schemas: Iterable[Schema], key: str | int) -> list[Any]:
    """The schemas of the value that is one step down."""
    found: list[Any] = []
    for schema in schemas:
        if isinstance(key, str):
            inner = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
        else:
            prefix: Sequence[Any] = schema.get("prefixItems", ())
            inner = prefix[key] if key < len(prefix) else schema.get("items")
        found.append(inner)
    return found


def located(where: Sequence[str | int], tree: Any, root: Schema) -> tuple[Path, str]:
    """The path that pydantic means, and the last union member that it names on the way.

    pydantic also lists which member of a union it tried: its tag, or the name of its type.
    """
    path: list[str | int] = []
    schemas, member = list(expanded([root], root)), ""
    for each in where:
        inside = step(tree, each)
        if (reference := tagged(schemas, each)) is not None:
            schemas, member = list(expanded([{"$ref": reference}], root)), ""
        elif inside is ABSENT:
            member = str(each)
        else:
            tree = inside
            path.append(each)
            schemas = list(expanded(below(schemas, each), root))
    return tuple(path), member if member.isidentifier() else ""


def schemas_at(path: Path, root: Schema) -> list[Schema]:
    """The schemas of the value at a path."""
    schemas = list(expanded([root], root))
    for each in path:
        schemas = list(expanded(below(schemas, each), root))
    return schemas


def tagged(schemas: Iterable[Schema], tag: object) -> str | None:
    """The reference to the member of a union that has this tag."""
    for schema in schemas:
        reference = tags_of(schema).get(str(tag))
        if reference is not None:
            return str(reference)
    return None


def tags_of(schema: Schema) -> Mapping[str, str]:
    """References to the members of a union with a discriminator, by their tags."""
    found: Mapping[str, str] = schema.get("discriminator", {}).get("mapping", {})
    return found


def _target(ref: str, root: Schema) -> Any:
    target: Any = root
    for key in ref.removeprefix("#").split("/")[1:]:
        target = target.get(key) if isinstance(target, Mapping) else None
    return target
