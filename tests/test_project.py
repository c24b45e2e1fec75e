"""What the project promises around its code: license, commands, lock, pages."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from bench.__main__ import STARTED

ROOT: Final = Path(__file__).resolve().parent.parent
PROJECT: Final[dict[str, Any]] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))[
    "project"
]

LOCAL_PATH: Final = re.compile(r"(?<![\w.])/(?:root|work)/")
LONG: Final = 80
"""Lines. A function that is longer has a docstring which says why it is one."""


class Function(NamedTuple):
    lines: int
    where: str
    documented: bool


def read(path: str) -> str:
    return (ROOT / path).read_text("utf-8")


def project_files() -> Iterator[Path]:
    """What is under version control, or would be after `git add`."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listed = subprocess.run(
        [git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (path := ROOT / name).is_file():
            yield path


def functions() -> Iterator[Function]:
    for path in (ROOT / "holdfast").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                where = f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"
                yield Function(lines, where, ast.get_docstring(node) is not None)


def test_the_license_is_the_one_that_the_package_names() -> None:
    assert PROJECT["license"] == "Apache-2.0"
    text = read("LICENSE")
    assert "Apache License\n" in text
    assert "Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_help_lists_every_word_that_make_knows() -> None:
    make = shutil.which("make")
    if make is None:
        pytest.skip("make is not installed")
    quiet = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    listed = subprocess.run(
        [make, "--no-print-directory"],
        cwd=ROOT,
        env=quiet,
        capture_output=True,
        text=True,
        check=True,
    )
    (phony,) = re.findall(r"^\.PHONY: (.+)$", read("Makefile"), re.MULTILINE)
    verbs = re.findall(r"^  make (\S+) +\S", listed.stdout, re.MULTILINE)
    assert verbs == phony.split()
    assert set(verbs) >= {"run", "test", "check", "fmt", "bench", "clean"}


def test_the_benchmark_of_the_loop_comes_to_its_end() -> None:
    program = [sys.executable, str(ROOT / "bench" / "loop_holdfast.py")]
    ended = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=50)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count('"who": "holdfast"') == 3


def test_every_import_that_the_benchmark_measures_works() -> None:
    for group in STARTED:
        for _, statement in group:
            exec(statement, {})


def test_what_is_checked_is_what_a_newcomer_runs() -> None:
    lines = [line for line in read(".ci/run").splitlines() if not line.startswith("#")]
    assert lines == [
        "set -euo pipefail",
        'cd "$(dirname "${BASH_SOURCE[0]}")/.."',
        "export HOLDFAST_TEST_BROWSER=required",
        "make test",
    ]
    assert os.access(ROOT / ".ci/run", os.X_OK)


def test_the_lock_names_one_registry_and_nothing_of_the_machine_it_was_made_on() -> None:
    packages = tomllib.loads(read("uv.lock"))["package"]
    ours = [package for package in packages if package["source"] == {"editable": "."}]
    others = [package["source"] for package in packages if package not in ours]
    assert [package["name"] for package in ours] == ["holdfast"]
    assert len({source["registry"] for source in others}) == 1
    assert all(source["registry"].startswith("https://") for source in others)


def test_no_file_mentions_a_path_of_the_machine_it_was_written_on() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:100]}"
        for path in project_files()
        for number, line in enumerate(path.read_bytes().decode(errors="replace").splitlines(), 1)
        if LOCAL_PATH.search(line)
    ]
    assert not found, "\n" + "\n".join(found)


def test_the_change_log_has_a_section_for_this_version() -> None:
    version = re.escape(PROJECT["version"])
    assert re.search(rf"^## \[?{version}\b", read("CHANGELOG.md"), re.MULTILINE)


def test_every_dependency_has_its_decision() -> None:
    names = [re.split(r"[^\w-]", dependency)[0] for dependency in PROJECT["dependencies"]]
    pages = " ".join(page.stem for page in (ROOT / "docs/decisions").glob("*.md"))
    assert [name for name in names if name not in pages] == []


def test_a_long_function_says_why_it_is_one(capfd: pytest.CaptureFixture[str]) -> None:
    longest = sorted(functions(), reverse=True)
    with capfd.disabled():  # to stderr: it is what reaches the terminal from a worker of xdist
        print("\nThe longest functions (does one hold two ideas?):", file=sys.stderr)
        for lines, where, _ in longest[:10]:
            print(f"  {lines:4} {where}", file=sys.stderr)
    assert [f for f in longest if f.lines > LONG and not f.documented] == []
