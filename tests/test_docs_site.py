"""The documentation site: it builds, with every page and every public name."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import metadata
from pathlib import Path
from typing import Final

from tests.namespace import FRONT, NAMESPACES, TESTING, public_names

ROOT: Final = Path(__file__).resolve().parent.parent


def test_the_site_has_every_page_and_every_public_name_with_its_fields(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "build.py", tmp_path], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    site = tmp_path / "site"
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")} - {"README"}
    navigation = (site / "index.html").read_text("utf-8")
    assert {page for page in pages if f'href="{page}.html"' not in navigation} == set()
    assert {page for page in pages if not (site / f"{page}.html").exists()} == set()
    for namespace in (FRONT, *NAMESPACES, TESTING):
        page = namespace if namespace == FRONT else f"{FRONT}.{namespace}"
        text = (site / "api" / f"{page}.html").read_text("utf-8")
        names = {f"{module}.{name}" for name, module in public_names(namespace).items()}
        assert names - set(re.findall(r'id="([\w.]+)"', text)) == set()
    front = (site / "api" / "holdfast.html").read_text("utf-8")
    assert re.search(r'id="holdfast\.chat\.host\.Host\.create"[^§]{0,400}doc-label-async', front)
    assert 'id="holdfast.chat.host.Host.run_close_callbacks"' not in front
    options = re.sub(r"<[^>]+>", "", (site / "api" / "holdfast.options.html").read_text("utf-8"))
    assert re.search(r"attempts:\s*int\s*=\s*10", options)


def test_links_of_the_readme_work_on_a_package_index() -> None:
    text = str(metadata("holdfast").json["description"])
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert links
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
