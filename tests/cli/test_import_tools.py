"""Tools that are named on the command line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from holdfast import Tool
from holdfast.cli.import_tools import load_tools
from holdfast.errors import ConfigError

NUMBERS = count()


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a module in the current directory, with some tools in it."""
    name = f"tools_of_a_user_{next(NUMBERS)}"  # a module is imported once
    (tmp_path / f"{name}.py").write_text(
        """
from holdfast import tool

@tool
async def weather(city: str) -> str:
    '''Weather.'''

async def plain(city: str) -> str:
    '''No decorator.'''

both = [weather, plain]
number = 5
"""
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    yield name
    sys.modules.pop(name, None)


def test_a_tool_is_found_in_the_current_directory(module: str) -> None:
    (found,) = load_tools([f"{module}:weather"])
    assert isinstance(found, Tool)
    assert found.name == "weather"


def test_a_function_and_a_list_will_do(module: str) -> None:
    assert callable(load_tools([f"{module}:plain"])[0])
    assert len(load_tools([f"{module}:both"])) == 2


@pytest.mark.parametrize("spec", ["weather", "module:", ":name", ""])
def test_a_name_without_a_module_is_refused_with_an_example(spec: str) -> None:
    with pytest.raises(ConfigError, match="write module:name, as in mytools:weather"):
        load_tools([spec])


def test_a_missing_name_is_refused_with_the_tools_that_are_there(module: str) -> None:
    with pytest.raises(ConfigError, match=r"has no 'wether' \(tools in it: weather\)"):
        load_tools([f"{module}:wether"])


def test_what_is_no_tool_is_refused(module: str) -> None:
    with pytest.raises(
        ConfigError, match="that is a value of type int; name a tool, a function, or a list"
    ):
        load_tools([f"{module}:number"])


def test_a_missing_module_is_told_from_one_that_a_module_needs(module: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="module 'not_here' was not found"):
        load_tools(["not_here:weather"])
    (tmp_path / f"{module}.py").write_text("import a_library_that_is_missing")
    with pytest.raises(ConfigError, match=r"needs 'a_library_that_is_missing': install it"):
        load_tools([f"{module}:weather"])


def test_a_module_that_raises_is_refused_with_what_it_raised(module: str, tmp_path: Path) -> None:
    (tmp_path / f"{module}.py").write_text("1 / 0")
    with pytest.raises(ConfigError, match=r"cannot be imported\n(?s:.*)ZeroDivisionError: "):
        load_tools([f"{module}:weather"])


def test_a_module_that_ends_the_program_is_refused(module: str, tmp_path: Path) -> None:
    (tmp_path / f"{module}.py").write_text("import sys; sys.exit()")
    with pytest.raises(ConfigError, match=r"cannot be imported\n(?s:.*)SystemExit"):
        load_tools([f"{module}:weather"])
