"""The tool that lists files, on real directories."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.kernel.workspace import PathRefused
from holdfast.tools import list_files as module
from holdfast.tools.files.kind import size
from holdfast.tools.list_files import label, list_files
from holdfast.tools.workspace.directory import Directory
from holdfast.tools.workspace.directory_workspace import DirectoryWorkspace
from holdfast.tools.workspace.glob import BadGlob
from holdfast.tools.workspace.openat import opener


@pytest.fixture
def top(tmp_path: Path) -> Path:
    (tmp_path / "top").mkdir()
    return tmp_path / "top"


@pytest.fixture
def directory(top: Path) -> Iterator[Directory]:
    with Directory(top) as directory:
        yield directory


def write(top: Path, *paths: str, text: str = "") -> None:
    for path in paths:
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text(text)


async def listed(directory: Directory, *, seconds: float = 60.0, **arguments: Any) -> list[str]:
    """The lines that a model would see."""
    tool = list_files(DirectoryWorkspace(directory), seconds=seconds)
    assert tool.function is not None
    text = await tool.function(**tool.arguments.check(arguments))
    assert isinstance(text, str)
    return text.split("\n")


async def test_an_entry_is_a_line_that_says_what_it_is(directory: Directory, top: Path) -> None:
    write(top, "src/a.py", "src/deep/b.py")
    write(top, "README.md", text="x" * 1300)
    (top / "current").symlink_to("src")
    os.mkfifo(top / "pipe")
    assert await listed(directory) == [
        "README.md  1.3 KB",
        "current -> src",
        "pipe (not a regular file)",
        "src/",
    ]


async def test_paths_are_those_that_the_other_tools_take(directory: Directory, top: Path) -> None:
    write(top, "src/a.py", "src/deep/b.py")
    assert await listed(directory, path="src") == ["src/a.py  0 B", "src/deep/"]
    assert await listed(directory, path=str(top / "src/deep")) == ["src/deep/b.py  0 B"]


async def test_depth_says_how_far_down_is_listed(directory: Directory, top: Path) -> None:
    write(top, "a/b/c/d")
    assert await listed(directory, depth=2) == ["a/", "a/b/"]


async def test_a_pattern_finds_names_at_any_depth(directory: Directory, top: Path) -> None:
    write(top, "a.md", "docs/b.md", "docs/deep/c.md", "docs/c.txt")
    assert await listed(directory, pattern="*.md") == [
        "a.md  0 B",
        "docs/b.md  0 B",
        "docs/deep/c.md  0 B",
    ]
    assert await listed(directory, pattern="*.md", depth=1) == ["a.md  0 B"]


async def test_a_pattern_with_a_slash_is_a_path_from_where_the_listing_starts(
    directory: Directory, top: Path
) -> None:
    write(top, "src/a.py", "src/x/a.py", "a.py")
    assert await listed(directory, path="src", pattern="*/a.py") == ["src/x/a.py  0 B"]
    assert await listed(directory, pattern="src/*") == ["src/a.py  0 B", "src/x/"]


async def test_what_is_ignored_is_named_once_or_counted(directory: Directory, top: Path) -> None:
    write(top, "node_modules/x", "build/y", "a.log", "b.log", "c")
    write(top, ".gitignore", text="build/\n*.log\n")
    assert await listed(directory) == [
        ".gitignore  13 B",
        "build/ (not listed)",
        "c  0 B",
        "node_modules/ (not listed)",
        "Ignored entries not listed: 2; set all=true to list them.",
    ]
    assert await listed(directory, all=True, depth=2) == [
        ".gitignore  13 B",
        "a.log  0 B",
        "b.log  0 B",
        "build/",
        "build/y  0 B",
        "c  0 B",
        "node_modules/",
        "node_modules/x  0 B",
    ]
    assert await listed(directory, path="node_modules") == ["node_modules/x  0 B"]


async def test_a_pattern_that_may_match_what_is_ignored_is_told_so(
    directory: Directory, top: Path
) -> None:
    write(top, "node_modules/x.js", "a.log", "b.py")
    write(top, ".gitignore", text="*.log\n")
    assert await listed(directory, pattern="*.py") == ["b.py  0 B"]
    assert await listed(directory, pattern="*.js") == [
        "Nothing matches '*.js' in .: 4 entries examined.",
        "Ignored files were not examined; set all=true to include them.",
    ]
    assert await listed(directory, pattern="*.log") == [
        "Nothing matches '*.log' in .: 4 entries examined.",
        "Ignored entries not listed: 1; set all=true to list them.",
    ]


async def test_an_empty_directory_is_told_as_one(directory: Directory, top: Path) -> None:
    (top / "empty").mkdir()
    write(top, "hidden/.gitignore", text="*\n")
    assert await listed(directory, path="empty") == ["empty is empty."]
    assert (await listed(directory, path="hidden"))[0] == "Nothing to list."


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("a.txt", "a.txt is a file: read it, or list the directory it is in"),
        ("a.tx", "does not exist.*a.txt"),
        ("a.txt/b", "needs a directory"),
        ("..", "outside"),
        ("/etc", "outside"),
        ("out", "outside"),
    ],
)
async def test_a_path_that_cannot_be_listed_is_refused_in_words(
    directory: Directory, top: Path, path: str, words: str
) -> None:
    write(top, "a.txt")
    (top / "out").symlink_to("/etc")
    with pytest.raises(PathRefused, match=words):
        await listed(directory, path=path)


async def test_a_bad_pattern_is_refused_in_words(directory: Directory) -> None:
    with pytest.raises(BadGlob, match=r"use a glob such as"):
        await listed(directory, pattern="../*")


async def test_a_link_to_the_outside_is_shown_and_not_followed(
    directory: Directory, top: Path, tmp_path: Path
) -> None:
    write(tmp_path, "outside/secret.txt")
    (top / "link").symlink_to(tmp_path / "outside")
    (top / "gone").symlink_to("nowhere")
    assert await listed(directory, depth=9) == ["gone -> nowhere", f"link -> {tmp_path}/outside"]
    assert (await listed(directory, pattern="*.txt"))[0].startswith("Nothing matches")


async def test_any_name_is_one_line(directory: Directory, top: Path) -> None:
    for name in (b"two\nlines", b"caf\xe9", "grün €".encode(), b"\x1b[31mred"):
        write(top, os.fsdecode(name))
    (top / "link").symlink_to("to\nnowhere")
    lines = await listed(directory)
    assert lines == [
        r"'\x1b[31mred'  0 B",
        r"'caf\udce9'  0 B",
        "grün €  0 B",
        r"link -> 'to\nnowhere'",
        r"'two\nlines'  0 B",
    ]
    "\n".join(lines).encode()


async def test_a_long_listing_is_cut_and_says_how_much_is_missing(
    directory: Directory, top: Path
) -> None:
    for number in range(503):
        (top / f"{number:03}").touch()
    lines = await listed(directory)
    assert lines[0] == "000  0 B"
    assert lines[499:] == ["499  0 B", "… and 3 more: narrow it by path, pattern or depth."]


async def test_a_listing_of_long_names_is_cut_by_its_size(directory: Directory, top: Path) -> None:
    for number in range(300):
        (top / f"{number:03}{'x' * 240}").touch()
    lines = await listed(directory)
    assert len("\n".join(lines[:-1])) <= module.MAX_BYTES
    shown = len(lines) - 1
    assert lines[-1] == f"… and {300 - shown} more: narrow it by path, pattern or depth."
    assert shown == module.MAX_BYTES // (243 + len("  0 B\n"))


async def test_a_listing_that_takes_too_long_tells_what_it_has(
    directory: Directory, top: Path
) -> None:
    write(top, "a", "b")
    assert await listed(directory, seconds=0) == [
        "a  0 B",
        "Incomplete, stopped after 1 entries: narrow the path.",
    ]


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KB"),
        (10_240, "10 KB"),
        (1_023_999, "1000 KB"),
        (1_048_576, "1.0 MB"),
        (5 * 1024**3, "5.0 GB"),
        (2 * 1024**4, "2.0 TB"),
    ],
)
def test_a_size_is_told_in_units(count: int, words: str) -> None:
    assert size(count) == words


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "List files"),
        ({"path": "src"}, "List src"),
        ({"pattern": "*.py"}, "List *.py"),
        ({"pattern": "*.py", "path": "src"}, "List *.py in src"),
        ({"path": "a\nb"}, r"List 'a\nb'"),
    ],
)
def test_people_are_told_what_is_listed(arguments: dict[str, str], words: str) -> None:
    assert label(arguments) == words


async def test_the_model_is_told_what_each_argument_means(directory: Directory) -> None:
    spec = list_files(DirectoryWorkspace(directory)).spec
    assert spec.description.startswith("List the contents of a directory")
    assert all(each["description"] for each in spec.schema["properties"].values())


class Counted:
    """An opener that counts how often it is asked."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, top: int, path: str, flags: int, mode: int = 0) -> int:
        self.calls += 1
        return opener()(top, path, flags, mode)


@pytest.mark.parametrize("there", [0, 1, 200])
async def test_a_deep_path_that_is_missing_costs_a_few_look_ups(top: Path, there: int) -> None:
    path = "/".join("a" * there)
    (top / path).mkdir(parents=True, exist_ok=True)
    counted = Counted()
    with Directory(top, opener=counted) as directory:
        with pytest.raises(PathRefused, match="does not exist"):
            await listed(directory, path=f"{path}/{'/'.join('b' * 900)}".lstrip("/"))
    assert counted.calls <= 20


async def test_ignore_files_above_are_looked_for_without_suggestions(top: Path) -> None:
    """A similar name is looked for among a thousand others, which takes long in each directory."""
    path = "/".join("a" * 100)
    write(top, f"{path}/file")
    counted = Counted()
    with Directory(top, opener=counted) as directory:
        assert await listed(directory, path=path) == [f"{path}/file  0 B"]
    assert counted.calls <= 100 + 5
