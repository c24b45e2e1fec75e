"""Every program and every command in the documents runs, and does what is shown."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from holdfast import Agent
from holdfast.cli.exit_codes import ExitCode
from holdfast.kernel.events import Event
from holdfast.tools import bundled
from holdfast.worker.options import WorkerOptions

ROOT = Path(__file__).resolve().parent.parent
COOKBOOK = sorted((ROOT / "docs" / "cookbook").glob("*.md"))
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *COOKBOOK]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SESSION = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def programs(kind: re.Pattern[str] = BLOCK) -> list[object]:
    return [
        pytest.param(text, id=f"{path.name}-{number}")
        for path in DOCUMENTS
        for number, text in enumerate(kind.findall(path.read_text("utf-8")), 1)
    ]


def commands(session: str) -> list[tuple[str, str]]:
    """Each command of a session, with what the document says that it prints."""
    return [
        (command, shown)
        for command, _, shown in (part.partition("\n") for part in session.split("$ ")[1:])
    ]


def pattern(shown: str) -> str:
    """A regular expression for an output. `…` stands for anything; on a line of its own, for any
    number of lines."""
    literal = re.escape(shown).replace("…\\\n", "(?:.*\\n)*").replace("…", ".*")
    return literal.rstrip("\\\n") + "\\n*"


@pytest.mark.parametrize("session", programs(SESSION))
def test_a_command_in_the_documents_prints_what_is_shown(
    session: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (tmp_path / "notes.md").write_text("# Notes\n\nCall Ann on Monday.\n")
    keys = ("_API_KEY", "_BASE_URL", "_HOST", "_TOKEN", "HOLDFAST_")
    environ = {k: v for k, v in os.environ.items() if not any(part in k for part in keys)}
    environ["XDG_DATA_HOME"] = str(tmp_path_factory.mktemp("data"))
    environ["PATH"] = f"{Path(sys.executable).parent}:{environ['PATH']}"
    for command, shown in commands(session):
        done = subprocess.run(
            ["bash", "-c", f"({command}) 2>&1"],
            cwd=tmp_path,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert re.fullmatch(pattern(shown), done.stdout), f"$ {command}\n{done.stdout}"


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


def test_every_event_has_a_line_in_the_page_about_events() -> None:
    page = (ROOT / "docs" / "events.md").read_text("utf-8")
    for event in get_args(Event):
        assert f"| `{event.__name__}` | `{event.__struct_config__.tag}` |" in page


def test_all_that_an_agent_takes_is_in_the_quick_start() -> None:
    page = (ROOT / "docs" / "quickstart.md").read_text("utf-8")
    first = "\n".join(row.split("|")[1] for row in page.splitlines() if row.startswith("| `"))
    assert set(re.findall(r"`(\w+)`", first)) == set(Agent.__struct_fields__)


def test_every_tool_that_comes_along_has_a_line_in_the_page_about_them(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "bundled-tools.md").read_text("utf-8")
    for tool in bundled(tmp_path):
        assert f"| `{tool.name}` |" in page


def test_every_exit_code_is_in_the_page_about_the_command_line() -> None:
    page = (ROOT / "docs" / "command-line.md").read_text("utf-8")
    for code in ExitCode:
        assert f"| {code:d} | {code.meaning}" in page


def test_links_between_documents_point_somewhere() -> None:
    for path in [*DOCUMENTS, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#]+)\)", path.read_text("utf-8")):
            if "://" not in target:
                assert (path.parent / target).exists(), f"{path.name} links to {target}"


DEFAULTS = WorkerOptions()


@pytest.mark.parametrize(
    ("document", "says"),
    [
        ("durable", f"running steps have {DEFAULTS.grace:g} seconds to finish"),
        ("durable", f"running steps have `grace` seconds ({DEFAULTS.grace:g}) to finish"),
        ("durable", f"after {DEFAULTS.lease:g} to {DEFAULTS.lease + DEFAULTS.poll:g} seconds"),
        (
            "guarantees",
            f"within `lease` + `poll` ({DEFAULTS.lease + DEFAULTS.poll:g} s) after a crash",
        ),
        ("deployment", f"its steps (`[worker] grace`, {DEFAULTS.grace:g} s)"),
        ("deployment", f"when the lease ({DEFAULTS.lease:g} s) has expired"),
        ("deployment", f"chats = {DEFAULTS.chats}"),
        ("deployment", f"grace for steps. TimeoutStopSec={DEFAULTS.grace + 15:g}"),
    ],
)
def test_the_documents_say_what_workers_go_by(document: str, says: str) -> None:
    text = (ROOT / "docs" / f"{document}.md").read_text("utf-8")
    assert says in " ".join(text.split())
