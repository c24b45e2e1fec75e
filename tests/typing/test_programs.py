"""What type checkers find in programs of users: nothing in correct ones, and each mistake.

`programs/refused.py` marks the lines that must be reported. The programs of the documents and the
examples must be as clean as `programs/accepted.py`. Pyright is run as basedpyright, which brings
its own Node: in pyright's strict mode for `programs`, and in its standard mode for the others.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from holdfast import Agent
from holdfast.kernel.argument_types import AgentFields, ChangedFields, RunArguments

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parent.parent
ACCEPTED: Final = HERE / "programs" / "accepted.py"
REFUSED: Final = HERE / "programs" / "refused.py"
BLOCK: Final = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
UNTYPED: Final = ("from django",)
"""Imports of packages without types: their programs are not checked."""

Report: TypeAlias = dict[str, dict[int, str]]
"""By name of the file: the first error on each line."""
Checker: TypeAlias = Callable[[Sequence[Path], Path], Report]


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Path]:
    """The programs of the documents, each in a file, and the examples."""
    directory = tmp_path_factory.mktemp("documents")
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
    return [*write_programs(pages, directory), *sorted((ROOT / "examples").glob("*.py"))]


def write_programs(pages: Iterable[Path], directory: Path) -> Iterable[Path]:
    for page in pages:
        for number, source in enumerate(BLOCK.findall(page.read_text("utf-8"))):
            if not any(line in source for line in UNTYPED):
                file = directory / f"{page.stem.replace('-', '_')}_{number}.py"
                file.write_text(source, "utf-8")
                yield file


def mypy(files: Sequence[Path], directory: Path) -> Report:
    """The errors by mypy, strict as configured for this project."""
    command = [sys.executable, "-m", "mypy", "--no-error-summary", *map(str, files)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode in (0, 1), ended.stdout + ended.stderr
    found: Report = {}
    for path, line, error in re.findall(r"^(.+?):(\d+): error: (.+)$", ended.stdout, re.MULTILINE):
        found.setdefault(Path(path).name, {}).setdefault(int(line), error)
    return found


def pyright(files: Sequence[Path], directory: Path) -> Report:
    """The errors and warnings by pyright."""
    project = directory / "pyright.json"
    settings = {
        "include": list(map(str, files)),
        "strict": [str(HERE / "programs")],
        "typeCheckingMode": "standard",
        "pythonVersion": "3.11",
    }
    project.write_text(json.dumps(settings), "utf-8")
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable]
    command += ["--project", str(project)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode in (0, 1), ended.stdout + ended.stderr
    report = json.loads(ended.stdout)
    assert report["summary"]["filesAnalyzed"] == len(files)
    found: Report = {}
    for one in report["generalDiagnostics"]:
        line = one["range"]["start"]["line"] + 1
        found.setdefault(Path(one["file"]).name, {}).setdefault(line, one["message"])
    return found


@pytest.mark.parametrize("checker", [mypy, pyright])
def test_type_checkers_report_every_mistake_of_a_user_and_nothing_else(
    checker: Checker, documents: Sequence[Path], tmp_path: Path
) -> None:
    found = checker([ACCEPTED, REFUSED, *documents], tmp_path)
    lines = REFUSED.read_text("utf-8").splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# refused")}
    assert marked
    reported = found.pop(REFUSED.name)
    assert found == {}
    unmarked = {lines[at - 1]: error for at, error in reported.items() if at not in marked}
    assert unmarked == {}
    assert [lines[number - 1] for number in sorted(marked - reported.keys())] == []


def test_the_arguments_for_type_checkers_are_those_of_agents_and_runs() -> None:
    typed = {"model", "output", "deps_type", "validate"}
    assert AgentFields.__annotations__.keys() == set(Agent.__struct_fields__) - typed
    assert ChangedFields.__annotations__.keys() == AgentFields.__annotations__.keys() | {"model"}
    for method in (Agent.run, Agent.run_sync, Agent.stream_sync):
        parameters = method.__annotations__.keys() - {"self", "prompt", "deps", "return"}
        assert parameters == RunArguments.__annotations__.keys()
