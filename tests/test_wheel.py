"""What is published has the page in it, whole and small."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = "holdfast/server/built/"
LOADED: Final = re.compile(r'(?:src|href)="/([^"]+)"')
NAMED: Final = re.compile(r"\bassets/[\w.-]+\.\w+")
BUDGET: Final = 250_000
"""Bytes, packed by gzip, of all that is loaded before somebody does anything."""


class Published(NamedTuple):
    wheel: Mapping[str, bytes]
    """The page alone, by paths below it."""
    modules: frozenset[str]
    """Everything else in the wheel."""
    sdist: frozenset[str]


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Published:
    """Built by the hook and with the tools that are here: no registry is asked."""
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as opened:
        page = {
            name.removeprefix(PAGE): opened.read(name)
            for name in opened.namelist()
            if name.startswith(PAGE)
        }
        modules = frozenset(name for name in opened.namelist() if not name.startswith(PAGE))
    with tarfile.open(sdist) as archive:
        names = frozenset(name.partition("/")[2] for name in archive.getnames())
    return Published(page, modules, names)


def loaded(page: Mapping[str, bytes]) -> list[str]:
    """What index.html has a browser load."""
    return LOADED.findall(page["index.html"].decode())


def test_a_wheel_has_the_page_and_all_that_it_loads(published: Published) -> None:
    names = loaded(published.wheel)
    assert any(name.endswith(".js") for name in names)
    assert any(name.endswith(".css") for name in names)
    assert [name for name in names if name not in published.wheel] == []


def test_a_wheel_has_all_that_scripts_and_styles_name(published: Published) -> None:
    named = {
        name
        for file, body in published.wheel.items()
        if file.endswith((".js", ".css", ".html"))
        for name in NAMED.findall(body.decode())
    }
    assert named
    assert named - published.wheel.keys() == set()


def test_what_is_loaded_at_the_start_is_small(published: Published) -> None:
    page = published.wheel
    sizes = {name: len(page.get(f"{name}.gz", page[name])) for name in loaded(page)}
    assert sum(sizes.values()) < BUDGET, sizes


def test_every_script_and_style_is_packed_too(published: Published) -> None:
    page = published.wheel
    large = [name for name in page if name.endswith((".js", ".css"))]
    assert large
    assert [name for name in large if not {f"{name}.gz", f"{name}.br"} <= page.keys()] == []


def test_nothing_stands_in_the_page_that_its_rules_forbid(published: Published) -> None:
    index = published.wheel["index.html"].decode()
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\son\w+=|\sstyle=", index)
    assert not re.search(r"""(?:src|href)=["']?(?:https?:)?//""", index)


def test_an_sdist_has_the_page_and_what_it_is_made_from(published: Published) -> None:
    assert {f"{PAGE}{name}" for name in published.wheel} <= published.sdist
    assert {"ui/package-lock.json", "ui/build.py", "ui/src/main.tsx", "hatch_build.py"} <= (
        published.sdist
    )
    assert not [name for name in published.sdist if "node_modules" in name]


def test_a_wheel_has_the_public_names_and_their_types(published: Published) -> None:
    assert {"holdfast/__init__.pyi", "holdfast/events.py", "holdfast/py.typed"} <= published.modules
