"""The bundled tools reach files and commands through a workspace, and in no other way."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import holdfast.tools
from tests.test_layers import imports

TOOLS = Path(holdfast.tools.__file__).parent
ACCESS = {"glob", "io", "os", "pathlib", "shutil", "subprocess", "tempfile"}
MODULES = [
    *(f"{name}_file.py" for name in ("read", "write", "edit")),
    *("list_files.py", "search_files.py", "execute.py", "commands/output.py"),
    *(f"files/{path.name}" for path in (TOOLS / "files").glob("*.py")),
]


@pytest.mark.parametrize("module", MODULES)
def test_a_tool_imports_nothing_that_opens_a_file_or_starts_a_command(module: str) -> None:
    targets = {arrow.target for arrow in imports((TOOLS / module).read_text("utf-8"))}
    assert not {target for target in targets if target.partition(".")[0] in ACCESS}
    assert not targets & {
        "holdfast.tools.commands.process",
        "holdfast.tools.workspace.directory",
        "holdfast.tools.workspace.directory_workspace",
    }


@pytest.mark.parametrize("module", MODULES)
def test_a_tool_does_not_open_a_file_by_its_name(module: str) -> None:
    nodes = ast.walk(ast.parse((TOOLS / module).read_text("utf-8")))
    opened = [n for n in nodes if isinstance(n, ast.Call) and ast.unparse(n.func) == "open"]
    assert not opened
