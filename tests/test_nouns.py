"""One noun names one thing: a reader who searches for a class finds one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent
PACKAGE: Final = ROOT / "holdfast"
TYPE_VARIABLES: Final = frozenset({"TypeVar", "TypeVarTuple", "ParamSpec"})
MAY_SHARE_NAMES: Final = (frozenset({"server", "worker"}), frozenset({"server", "client"}))
"""Layers that do not import each other. All others do, directly or not."""


def public_types(source: str) -> Iterator[str]:
    """Names of the public classes and type aliases of a module."""
    for node in ast.parse(source).body:
        match node:
            case ast.ClassDef(name=name):
                yield name
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if is_type(name, value):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias")):
                yield name
            case _:
                pass


def is_type(name: str, value: ast.expr) -> bool:
    """Whether an assignment names a type, as in `Json = dict[str, Any]`."""
    if not name[0].isupper() or name.isupper():
        return False
    return not (
        isinstance(value, ast.Call)
        and isinstance(value.func, ast.Name)
        and value.func.id in TYPE_VARIABLES
    )


def layer(module: str) -> str:
    """The part of the package that a module belongs to, as `kernel` for `kernel/decide.py`."""
    return module.partition("/")[0].removesuffix(".py")


def shared_names(modules: dict[str, str]) -> list[str]:
    """Names that two modules define, with the modules."""
    homes: dict[str, list[str]] = {}
    for module, source in modules.items():
        for name in public_types(source):
            if not name.startswith("_"):
                homes.setdefault(name, []).append(module)
    return [
        f"{name}: {', '.join(found)}"
        for name, found in sorted(homes.items())
        if len(found) > 1 and frozenset(map(layer, found)) not in MAY_SHARE_NAMES
    ]


def test_a_public_class_name_stands_for_one_thing() -> None:
    modules = {
        f"{path.relative_to(PACKAGE)}": path.read_text("utf-8")
        for path in sorted(PACKAGE.rglob("*.py"))
    }
    assert shared_names(modules) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("class Call: ...", "class Call: ..."),
        ("class Json: ...", "Json = dict[str, object]"),
        ("Line: TypeAlias = str", "class Line: ..."),
    ],
)
def test_a_name_that_two_layers_define_is_found(first: str, second: str) -> None:
    assert shared_names({"kernel/a.py": first, "chat/b.py": second}) != []
    assert shared_names({"kernel/a.py": first, "kernel/b.py": second}) != []
    assert shared_names({"server/a.py": first, "client/b.py": second}) == []


@pytest.mark.parametrize("source", ['T = TypeVar("T")', "LIMIT = 3", "class _Call: ...", "x = 1"])
def test_a_name_that_is_no_public_type_may_be_used_again(source: str) -> None:
    assert shared_names({"kernel/a.py": source, "chat/b.py": source}) == []
