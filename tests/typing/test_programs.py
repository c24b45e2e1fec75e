"""What type checkers find in programs of users: nothing in correct ones, and each mistake.

`programs/refused.py` marks the lines that must be reported. Pyright is run as basedpyright, which
brings its own Node, in pyright's strict mode.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from holdfast import Agent
from holdfast.kernel.agent_arguments import AgentFields, ChangedFields, RunArguments

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parent.parent
ACCEPTED: Final = HERE / "programs" / "accepted.py"
REFUSED: Final = HERE / "programs" / "refused.py"

Report: TypeAlias = dict[str, dict[int, str]]
"""By name of the file: the first error on each line."""


def mypy() -> Report:
    """The errors by mypy, strict as configured for this project."""
    command = [sys.executable, "-m", "mypy", "--no-error-summary", str(ACCEPTED), str(REFUSED)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode in (0, 1), ended.stdout + ended.stderr
    found: Report = {}
    for path, line, error in re.findall(r"^(.+?):(\d+): error: (.+)$", ended.stdout, re.MULTILINE):
        found.setdefault(Path(path).name, {}).setdefault(int(line), error)
    return found


def pyright() -> Report:
    """The errors and warnings by pyright in its strict mode."""
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable]
    command += ["--project", str(HERE / "pyright.json")]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode in (0, 1), ended.stdout + ended.stderr
    report = json.loads(ended.stdout)
    assert report["summary"]["filesAnalyzed"] == 2
    found: Report = {}
    for one in report["generalDiagnostics"]:
        line = one["range"]["start"]["line"] + 1
        found.setdefault(Path(one["file"]).name, {}).setdefault(line, one["message"])
    return found


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_type_checkers_report_every_mistake_and_nothing_else(checker: Callable[[], Report]) -> None:
    found = checker()
    assert found.get(ACCEPTED.name, {}) == {}
    lines = REFUSED.read_text("utf-8").splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# refused")}
    assert marked
    reported = found[REFUSED.name]
    assert {
        lines[number - 1]: error for number, error in reported.items() if number not in marked
    } == {}
    assert [lines[number - 1] for number in sorted(marked - reported.keys())] == []


def test_the_arguments_for_type_checkers_are_those_of_agents_and_runs() -> None:
    typed = {"model", "output", "deps_type"}
    assert AgentFields.__annotations__.keys() == set(Agent.__struct_fields__) - typed
    assert ChangedFields.__annotations__.keys() == AgentFields.__annotations__.keys() | {"model"}
    for method in (Agent.run, Agent.run_sync, Agent.stream_sync):
        parameters = method.__annotations__.keys() - {"self", "prompt", "deps", "return"}
        assert parameters == RunArguments.__annotations__.keys()
