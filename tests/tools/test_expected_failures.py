"""Which failures of the bundled tools are regular answers, and which count as failures."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, Final

import pytest

from holdfast.kernel.tool import Tool
from holdfast.testing import call
from holdfast.tools.edit_file import edit_file
from holdfast.tools.execute import execute
from holdfast.tools.list_files import list_files
from holdfast.tools.read_file import read_file
from holdfast.tools.search_files import search_files
from holdfast.tools.workspace.directory_workspace import DirectoryWorkspace
from holdfast.tools.write_file import write_file
from tests.kernel.toolkit import agent_for, outcomes, result_of

EDIT: Final = [{"old_text": "not there", "new_text": "x"}]


def tools(top: Path) -> dict[str, Tool]:
    directory = DirectoryWorkspace(top)
    made = (
        read_file(directory),
        write_file(directory, approval="never"),
        edit_file(directory, approval="never"),
        list_files(directory),
        search_files(directory),
        execute(directory, approval="never"),
    )
    return {tool.name: tool for tool in made}


@pytest.fixture
def top(tmp_path: Path) -> Path:
    top = tmp_path / "top"
    top.mkdir()
    (top / "a.txt").write_text("one\n")
    (top / "b.bin").write_bytes(b"\0\1\2")
    (top / "sub").mkdir()
    return top


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read_file", {"path": "missing"}),
        ("read_file", {"path": "missing/deeper"}),
        ("read_file", {"path": "a.txt/deeper"}),
        ("read_file", {"path": "sub"}),
        ("read_file", {"path": "b.bin"}),
        ("read_file", {"path": "a.txt", "offset": 9}),
        ("read_file", {"path": "/etc/passwd"}),
        ("list_files", {"path": "missing"}),
        ("list_files", {"path": "a.txt"}),
        ("search_files", {"pattern": "x", "path": "missing"}),
        ("edit_file", {"path": "missing", "edits": EDIT}),
        ("edit_file", {"path": "a.txt", "edits": EDIT}),
        ("edit_file", {"path": "b.bin", "edits": EDIT}),
        ("write_file", {"path": "a.txt", "content": "unseen"}),
        ("execute", {"command": "true", "directory": "missing"}),
    ],
)
async def test_what_a_path_or_a_file_says_is_an_expected_failure(
    top: Path, name: str, arguments: dict[str, Any]
) -> None:
    made = await result_of(tools(top)[name], arguments)
    assert (made.outcome, made.expected) == ("failed", True)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("read_file", {"path": "nul\0"}),
        ("search_files", {"pattern": "("}),
        ("list_files", {"pattern": "../*"}),
        ("execute", {"command": " "}),
    ],
)
async def test_arguments_that_can_never_work_are_a_failure(
    top: Path, name: str, arguments: dict[str, Any]
) -> None:
    made = await result_of(tools(top)[name], arguments)
    assert (made.outcome, made.expected) == ("failed", False)


async def test_a_working_directory_that_was_removed_is_a_failure(top: Path) -> None:
    read = tools(top)["read_file"]
    shutil.rmtree(top)
    made = await result_of(read, {"path": "a.txt"})
    assert (made.outcome, made.expected) == ("failed", False)


async def test_a_search_without_a_match_succeeds(top: Path) -> None:
    made = await result_of(tools(top)["search_files"], {"pattern": "never"})
    assert made.outcome == "ok"


async def test_guessing_paths_does_not_take_read_file_away(top: Path) -> None:
    guesses = [call("read_file", path=f"guess_{number}") for number in range(3)]
    script = [*[guesses] * 4, call("read_file", path="a.txt"), "."]

    result = await agent_for(script, tools(top)["read_file"]).run("Go.")

    assert outcomes(result.history) == ["failed"] * 12 + ["ok"]
