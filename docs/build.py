"""Build the documentation site: the pages of this folder, with a reference of every public name.

    python docs/build.py [FOLDER]   build the site in FOLDER/site; without FOLDER, in .docs/site

The navigation is the list of pages in README.md. The reference is made from docstrings. A broken
link or an unknown name fails the build.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

HERE: Final = Path(__file__).resolve().parent
ROOT: Final = HERE.parent
PROJECT_PAGES: Final = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md")
NAMESPACES: Final = (
    "messages",
    "events",
    "errors",
    "models",
    "options",
    "hooks",
    "chats",
    "telemetry",
    "web",
    "workspaces",
)
"""Public namespaces below `holdfast` itself: modules that only import."""
TESTING: Final = "testing"
"""A package with modules of its own, which names its public names in the same way."""


def main(words: list[str]) -> int:
    work = Path(words[0] if words else ROOT / ".docs").absolute()
    shutil.rmtree(work, ignore_errors=True)
    copy_pages(work / "pages")
    write_reference(work / "pages" / "api")
    navigation = f"nav = [\n{''.join(navigation_lines())}]\n"
    settings = (HERE / "site.toml").read_text("utf-8")
    settings = settings.replace("[project.theme]\n", f"{navigation}\n[project.theme]\n", 1)
    settings = settings.replace('paths = [".."]', f"paths = [{json.dumps(str(ROOT))}]", 1)
    (work / "zensical.toml").write_text(settings, "utf-8")
    zensical = Path(sys.executable).with_name("zensical")
    return subprocess.run([zensical, "build", "--strict"], cwd=work, check=False).returncode


def copy_pages(pages: Path) -> None:
    """Copy the pages, with links that lead where the site has them."""
    shutil.copytree(HERE, pages, ignore=shutil.ignore_patterns("*.py", "*.toml", "__pycache__"))
    for name in PROJECT_PAGES:
        shutil.copy(ROOT / name, pages)
    for page in pages.rglob("*.md"):
        text = site_links(page.read_text("utf-8"), page.relative_to(pages))
        page.write_text(text, "utf-8")
    (pages / "README.md").rename(pages / "index.md")
    (pages / "decisions.md").write_text(decisions(), "utf-8")


def site_links(text: str, page: Path) -> str:
    """The text of a page, with links as they are in the site. `page`: its path in the site.

    A link to source code, which the site does not have, becomes the name of the file.
    """

    folder = ROOT if page.name in PROJECT_PAGES else HERE / page.parent

    def link(match: re.Match[str]) -> str:
        text, target = match[1], match[2]
        path, _, anchor = target.partition("#")
        file = (folder / path).resolve()
        if "://" in target or not path or not file.exists():
            return match[0]
        if file.parent == ROOT and file.name in PROJECT_PAGES:
            file = HERE / file.name
        if not file.is_relative_to(HERE):
            return text if "`" in text else f"`{file.relative_to(ROOT)}`"
        file = HERE / "index.md" if file == HERE / "README.md" else file
        file = file.with_suffix(".md") if file.is_dir() else file
        up = "../" * len(page.parent.parts)
        return f"[{text}]({up}{file.relative_to(HERE)}{'#' if anchor else ''}{anchor})"

    return re.sub(r"(?<!!)\[([^\]\n]*)\]\(([^)\s]+)\)", link, text)


def decisions() -> str:
    """A page that lists the decisions."""
    lines = ["# Decisions\n"]
    for page in sorted((HERE / "decisions").glob("*.md")):
        title = page.read_text("utf-8").partition("\n")[0].lstrip("# ")
        lines.append(f"- [{title}](decisions/{page.name})")
    return "\n".join(lines) + "\n"


def write_reference(folder: Path) -> None:
    """Write a page for each namespace that names what it documents; mkdocstrings does the rest."""
    folder.mkdir()
    for namespace in reference_pages():
        entries = [f"::: {module}.{name}" for name, module in public_names(namespace)]
        text = "\n\n".join([f"# {namespace}", *entries])
        (folder / f"{namespace}.md").write_text(f"{text}\n", "utf-8")


def reference_pages() -> tuple[str, ...]:
    return ("holdfast", *(f"holdfast.{name}" for name in (*NAMESPACES, TESTING)))


def public_names(namespace: str) -> list[tuple[str, str]]:
    """The names that a namespace imports, each with the module that defines it."""
    name = namespace.removeprefix("holdfast").lstrip(".")
    stub = ROOT / "holdfast" / f"{name or '__init__'}.pyi"  # of names imported on first use
    module = stub.with_suffix(".py")
    package = stub.with_suffix("") / "__init__.py"
    source = next(path for path in (stub, module, package) if path.exists())
    tree = ast.parse(source.read_text("utf-8"))
    names = [
        (alias.name, str(node.module))
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module not in ("holdfast", "__future__")
        for alias in node.names
    ]
    return sorted(names, key=lambda name: name[0].lower())


def navigation_lines() -> Iterator[str]:
    """The navigation, as lines of TOML: the sections and pages of README.md, and the reference."""
    yield '    { "Home" = "index.md" },\n'
    for section in (HERE / "README.md").read_text("utf-8").split("\n## ")[1:]:
        yield f'    {{ "{section.partition(chr(10))[0]}" = [\n'
        for title, target in re.findall(r"^\| \[([^\]]+)\]\(([^)#]+)\) \|", section, re.MULTILINE):
            page = "decisions.md" if target == "decisions" else target.removeprefix("../")
            yield f'        {{ "{title}" = "{page}" }},\n'
        yield "    ] },\n"
    yield '    { "API reference" = [\n'
    for namespace in reference_pages():
        yield f'        {{ "{namespace}" = "api/{namespace}.md" }},\n'
    yield "    ] },\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
