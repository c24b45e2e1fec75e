"""The pages about the server say what the code does: tables, settings, commands, tests."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from holdfast.cli.config_mistakes import Mistakes
from holdfast.cli.settings import settings_of
from tests.server import reference
from tests.test_docs import DOCUMENTS, ROOT

SHELL: Final = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TOML: Final = re.compile(r"^```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED: Final = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
HIDDEN: Final = ("_API_KEY", "_BASE_URL", "_HOST", "_TOKEN", "HOLDFAST_", "XDG_DATA_HOME")


# --- what is made from the code ------------------------------------------------------------------


@pytest.mark.parametrize(("page", "name"), reference.TABLES, ids=" ".join)
def test_a_table_is_the_one_of_the_code(page: str, name: str) -> None:
    text = (ROOT / "docs" / page).read_text("utf-8")
    made = reference.placed(text, name, reference.TABLES[page, name]())
    assert text == made, f"docs/{page} is not up to date: run {reference.COMMAND}"


def test_the_words_of_a_table_are_about_something_that_is_there() -> None:
    assert set(reference.WHEN) == dict(reference._kinds()).keys()
    known = {row[0].strip("`") for row in reference._settings()}
    assert set(reference.INSTEAD) <= known


# --- what is written by hand ---------------------------------------------------------------------


def test_every_test_behind_a_guarantee_exists() -> None:
    text = (ROOT / "docs" / "guarantees.md").read_text("utf-8")
    named = NAMED.findall(text)
    for path, test in named:
        assert re.search(rf"def {test}\(", (ROOT / path).read_text("utf-8")), f"{path}::{test}"
    assert len(named) == text.count("tests/")


def test_every_guarantee_has_a_test() -> None:
    text = (ROOT / "docs" / "guarantees.md").read_text("utf-8")
    for chapter in text.split("\n## ")[1:]:
        assert NAMED.search(chapter), chapter.partition("\n")[0]


def test_links_into_a_page_find_their_heading() -> None:
    for path in [*DOCUMENTS, ROOT / "ARCHITECTURE.md"]:
        for target, anchor in re.findall(r"\]\(([\w./-]*)#([^)]+)\)", path.read_text("utf-8")):
            page = path if not target else path.parent / target
            assert anchor in anchors(page), f"{path.name} links to {target}#{anchor}"


def anchors(page: Path) -> set[str]:
    """As GitHub makes them of headings."""
    heads = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


def settings_in_documents() -> list[object]:
    return [
        pytest.param(text, id=f"{path.name}-{number}")
        for path in DOCUMENTS
        for number, text in enumerate(TOML.findall(path.read_text("utf-8")), 1)
    ]


@pytest.mark.parametrize("text", settings_in_documents())
def test_settings_in_the_documents_have_no_mistake(text: str) -> None:
    mistakes = Mistakes("the example")
    settings_of(tomllib.loads(text), mistakes)
    mistakes.end()


# --- commands ------------------------------------------------------------------------------------


@contextmanager
def server(home: Path, listen: str = "0", **variables: str) -> Iterator[str]:
    """A server as `holdfast serve` starts it in a home of its own; the URL that it prints."""
    child = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "serve", "--listen", listen],
        cwd=home / "work",
        env={**environment(home), **variables},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stderr is not None
        said, found, url = child.stderr.readline().strip().partition("Holdfast is at ")
        assert found, said
        yield url
    finally:
        child.kill()
        child.communicate()


def bash(script: str, home: Path, **variables: str) -> str:
    """What a script prints. It has to succeed."""
    done = subprocess.run(
        ["bash", "-c", PRELUDE + script],
        cwd=home / "work",
        env={**environment(home), **variables},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def environment(home: Path) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not any(part in k for part in HIDDEN)}
    path = f"{Path(sys.executable).parent}:{kept['PATH']}"
    return {**kept, "HOME": str(home), "PATH": path}


def chapter(page: Path, title: str) -> str:
    (found,) = re.findall(rf"^## {title}\n(.*?)(?=^## )", page.read_text("utf-8"), re.M | re.S)
    return str(found)


def blocks(page: str, title: str) -> list[str]:
    """The commands of a chapter."""
    return SHELL.findall(chapter(ROOT / page, title))


# A stream ends when its reader leaves; everything else has to succeed. The name of the example is
# found here.
PRELUDE: Final = """\
set -eu -o pipefail
curl() {
    case "$*" in
        */stream) command curl --max-time 2 "$@" || test $? = 28;;
        *) command curl --fail ${HOST:+-H "Host: $HOST"} "$@";;
    esac
}
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a directory to work in, on a machine that has what the examples need."""
    if not (shutil.which("curl") and shutil.which("jq")):
        pytest.skip("needs curl and jq")
    if sys.platform == "darwin":
        pytest.skip("the data directory has another name there")
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "notes.md").write_text("Call Ann on Monday.\n")
    return tmp_path


@pytest.mark.parametrize(
    ("page", "title"), [("README.md", "A server"), ("docs/server.md", "Quick start")]
)
def test_the_commands_for_a_server_work_as_they_are_written(
    page: str, title: str, home: Path
) -> None:
    commands = "".join(text for text in blocks(page, title) if "api " in text)
    with server(home) as url:
        where = url.partition("/#token=hf_")[0]
        said = bash(commands.replace("http://127.0.0.1:8765", where), home)
    assert "event: message\n" in said
    assert '"text":"hello"' in said
    if "monday" in commands:
        first, second = said.splitlines()[-2:]
        assert first == second


def test_the_commands_for_a_team_work_as_they_are_written(home: Path) -> None:
    text = chapter(ROOT / "docs/server.md", "Team mode")
    (settings,), (first, others) = TOML.findall(text), SHELL.findall(text)
    (home / "work" / "holdfast.toml").write_text(settings)
    named = {"HOLDFAST_CONFIG": "holdfast.toml"}  # there is no terminal to be asked at
    token = bash(first + 'echo "$TOKEN"', home, **named).strip()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with server(home, f"127.0.0.1:{port}", **named) as url:
        commands = others.replace(url, f"http://127.0.0.1:{port}")
        said = bash(commands, home, TOKEN=token, HOST="chats.example.org")
    assert re.fullmatch(r"hf_\S{43}", said.strip())
