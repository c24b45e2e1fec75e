"""The names that `holdfast` has: found late, and known to type checkers, which run nothing."""

from __future__ import annotations

import ast
import builtins
from pathlib import Path
from typing import Final, assert_type

import holdfast
from holdfast import *  # noqa: F403

TREE: Final = ast.parse(Path(holdfast.__file__).read_text("utf-8"))


def imported_for_type_checkers() -> set[tuple[str | None, str, str | None]]:
    found = (node for node in ast.walk(TREE) if isinstance(node, ast.ImportFrom))
    ours = (node for node in found if (node.module or "").startswith("holdfast."))
    return {(node.module, each.name, each.asname) for node in ours for each in node.names}


def written_for_import_star() -> list[str]:
    for node in TREE.body:
        match node:
            case ast.Assign(targets=[ast.Name("__all__")], value=value):
                found = ast.literal_eval(value)
                assert isinstance(found, list)
                return found
    raise AssertionError("there is no __all__")


def test_what_is_found_late_is_what_type_checkers_know() -> None:
    late = {(home, name, name) for home, names in holdfast._HOMES.items() for name in names}
    assert imported_for_type_checkers() == late


def test_import_star_brings_every_name_that_python_has_not_itself() -> None:
    names = {name for names in holdfast._HOMES.values() for name in names}
    assert written_for_import_star() == holdfast.__all__
    assert sorted(holdfast.__all__) == sorted({*names, "__version__"} - {*dir(builtins)})


def test_what_import_star_brings_has_its_type() -> None:
    assert_type(Agent(model="demo"), holdfast.Agent)  # noqa: F405
    assert_type(load(dump([])), tuple[holdfast.Message, ...])  # noqa: F405
    assert open is builtins.open
