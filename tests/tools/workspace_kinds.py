"""The kinds of workspaces that tests run over."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

from holdfast.kernel.workspace import Workspace

PAGE = Path(__file__).resolve().parents[2] / "docs" / "workspaces.md"
PROGRAM = re.compile(r"^```python\n(.*?^class MemoryWorkspace.*?)^```$", re.MULTILINE | re.DOTALL)


def memory_workspace() -> Workspace:
    """The kind that the documentation shows: nothing but the methods of the protocol."""
    programs = PAGE.read_text("utf-8").partition("## Your own kind")[2]
    found = PROGRAM.search(programs)
    assert found is not None
    names: dict[str, Any] = {"__name__": "memory_workspace"}
    exec(compile(found[1], str(PAGE), "exec"), names)
    return cast("Workspace", names["MemoryWorkspace"]())
