"""Public names: imported on first use, known to type checkers, and listed in docs/python.md."""

from __future__ import annotations

import builtins
import subprocess
import sys
from importlib import import_module
from types import ModuleType
from typing import assert_type

import pytest

import holdfast
from holdfast import *  # noqa: F403
from tests.namespace import COMMAND, FRONT, NAMESPACES, PAGE, TESTING, page, public_names


def module_of(namespace: str) -> ModuleType:
    return holdfast if namespace == FRONT else import_module(f"holdfast.{namespace}")


@pytest.mark.parametrize("namespace", [FRONT, *NAMESPACES])
def test_every_name_of_a_namespace_is_the_one_its_module_defines(namespace: str) -> None:
    names = public_names(namespace)
    assert names
    for name, home in names.items():
        assert getattr(module_of(namespace), name) is getattr(import_module(home), name)


def test_a_namespace_has_no_other_names_than_those_that_are_listed() -> None:
    for namespace in NAMESPACES:
        names = {name for name in dir(module_of(namespace)) if not name.startswith("_")}
        assert names - {"annotations"} == set(public_names(namespace))
    modules = {*NAMESPACES, "testing", "tools"}
    assert set(dir(holdfast)) == {*public_names(FRONT), *modules, "__version__"}


def test_a_public_name_is_in_one_namespace() -> None:
    names = [name for namespace in (FRONT, *NAMESPACES) for name in public_names(namespace)]
    assert sorted(names) == sorted(set(names))


def test_the_page_lists_the_names_that_are_there() -> None:
    text = PAGE.read_text("utf-8")
    assert page(text) == text, f"docs/python.md is not up to date: run {COMMAND}"


def test_every_public_name_says_what_it_is() -> None:
    rows = [line for line in page(PAGE.read_text("utf-8")).splitlines() if line.startswith("| `")]
    assert len(rows) == sum(len(public_names(each)) for each in (FRONT, *NAMESPACES, TESTING))
    assert [row for row in rows if len(row.split("|")[2].split()) < 3] == []


def test_importing_holdfast_alone_imports_no_other_module_of_it() -> None:
    program = "import sys, holdfast; print(*[m for m in sys.modules if m.startswith('holdfast')])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["holdfast"]


def test_a_name_of_models_imports_no_http_client_unless_it_needs_one() -> None:
    program = "import sys; from holdfast.models import Settings; print('aiohttp' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["False"]


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    for name in ("TextDelta", "kernel_", "_private"):
        with pytest.raises(AttributeError, match=f"module 'holdfast' has no attribute '{name}'"):
            getattr(holdfast, name)


def test_import_star_brings_the_front_and_leaves_open_alone() -> None:
    brought: dict[str, object] = {}
    exec("from holdfast import *", brought)
    assert set(dir(holdfast)) - {"open", "__version__"} == brought.keys() - {"__builtins__"}
    assert brought.get("open", builtins.open) is builtins.open


def test_type_checkers_know_the_names_and_the_namespaces() -> None:
    assert_type(Agent(model="demo"), holdfast.Agent)  # noqa: F405
    history = holdfast.messages.load(holdfast.messages.dump([]))
    assert_type(history, tuple[holdfast.messages.Message, ...])
