"""Every Python program in the documents runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def programs() -> list[object]:
    return [
        pytest.param(text, id=f"{path.name}-{number}")
        for path in DOCUMENTS
        for number, text in enumerate(BLOCK.findall(path.read_text("utf-8")), 1)
    ]


@pytest.mark.parametrize("program", programs())
def test_a_program_in_the_documents_runs(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        cwd=ROOT,
        env={**os.environ, "ANTHROPIC_API_KEY": "example"},  # to make a model; nobody is asked
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_readme_begins_with_one_sentence_and_a_short_program() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    title, sentence, *_ = text.split("\n\n")
    assert title == "# Holdfast"
    assert sentence.count(". ") == 0
    assert sentence.endswith(".")
    first = BLOCK.findall(text)[0]
    assert len([line for line in first.splitlines() if line.strip()]) <= 15


def test_make_run_prints_the_whole_run() -> None:
    script = [sys.executable, "docs/run_readme.py"]
    shown = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    lines = shown.stdout.splitlines()
    assert lines[0].startswith("RunStarted(")
    assert lines[-1].startswith("RunEnded(reason='stop'")
    assert "Light rain in Oslo" in shown.stdout


def test_links_between_documents_point_somewhere() -> None:
    for path in [*DOCUMENTS, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#]+)\)", path.read_text("utf-8")):
            if "://" not in target:
                assert (path.parent / target).exists(), f"{path.name} links to {target}"
