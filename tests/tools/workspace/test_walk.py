"""A walk through a real directory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.kernel.workspace import DirectoryEntry, PathRefused
from holdfast.tools.display_text import on_one_line
from holdfast.tools.workspace.directory import Directory
from holdfast.tools.workspace.walk import DirectoryWalk


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Directory]:
    top = tmp_path / "top"
    top.mkdir()
    with Directory(top) as directory:
        yield directory


def write(directory: Directory, *paths: str, text: str = "") -> None:
    for path in paths:
        target = Path(directory.path, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


def paths(walk: DirectoryWalk) -> list[str]:
    """What was seen; in brackets what was left out."""
    return [f"[{seen.path}]" if seen.left_out else seen.path for seen in walk]


def test_entries_come_sorted_and_what_is_in_a_directory_right_behind_it(
    directory: Directory,
) -> None:
    write(directory, "b/z", "b/a/x", "c", "a", "b.txt")
    assert paths(DirectoryWalk(directory)) == ["a", "b", "b/a", "b/a/x", "b/z", "b.txt", "c"]


def test_a_walk_starts_where_it_is_told_and_says_paths_from_the_top(directory: Directory) -> None:
    write(directory, "a/b/c", "a/d", "e")
    assert paths(DirectoryWalk(directory, "a")) == ["a/b", "a/b/c", "a/d"]
    assert paths(DirectoryWalk(directory, f"{directory.path}/a/b/")) == ["a/b/c"]


def test_a_directory_is_listed_when_the_walk_gets_there_and_not_before(
    directory: Directory,
) -> None:
    write(directory, "a/old")
    walk = iter(DirectoryWalk(directory))
    assert next(walk).path == "a"
    write(directory, "a/new")
    assert next(walk).path == "a/new"


@pytest.mark.parametrize(("depth", "seen"), [(1, ["a"]), (2, ["a", "a/b"]), (9, 4)])
def test_a_walk_goes_no_deeper_than_it_is_told(
    directory: Directory, depth: int, seen: list[str] | int
) -> None:
    write(directory, "a/b/c/d")
    found = paths(DirectoryWalk(directory, depth=depth))
    assert (found if isinstance(seen, list) else len(found)) == seen


def test_a_tree_may_be_deeper_than_functions_may_nest(directory: Directory) -> None:
    levels = ["/".join([directory.path, *["d"] * depth]) for depth in range(1, 1_200)]
    for level in levels:
        os.mkdir(level)
    try:
        assert len(paths(DirectoryWalk(directory))) == len(levels)
    finally:
        for level in reversed(levels):  # who tidies up after the test may not be able to
            os.rmdir(level)


def test_links_are_seen_and_not_followed(directory: Directory, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").touch()
    write(directory, "inside/file")
    for name, target in {"in": "inside", "loop": ".", "out": f"{tmp_path}/outside"}.items():
        Path(directory.path, name).symlink_to(target)
    assert paths(DirectoryWalk(directory)) == ["in", "inside", "inside/file", "loop", "out"]
    assert paths(DirectoryWalk(directory, "in")) == ["in/file"]
    with pytest.raises(PathRefused, match="outside"):
        paths(DirectoryWalk(directory, "out"))


def test_a_walk_stops_at_its_limit_and_says_so(directory: Directory) -> None:
    write(directory, "a", "b", "c")
    short = DirectoryWalk(directory, limit=2)
    assert paths(short) == ["a", "b"]
    assert short.stopped
    whole = DirectoryWalk(directory, limit=3)
    assert len(paths(whole)) == 3
    assert not whole.stopped


def test_a_directory_that_vanished_or_may_not_be_read_is_counted(directory: Directory) -> None:
    write(directory, "a/x", "b")
    walk = DirectoryWalk(directory)
    found = []
    for seen in walk:
        found.append(seen.path)
        if seen.path == "a":
            Path(directory.path, "a/x").unlink()
            Path(directory.path, "a").rmdir()
    assert found == ["a", "b"]
    assert walk.unreadable == 1


@pytest.mark.parametrize("path", ["missing", "file", "file/x", ".."])
def test_a_start_that_cannot_be_listed_is_refused(directory: Directory, path: str) -> None:
    write(directory, "file")
    with pytest.raises(PathRefused):
        paths(DirectoryWalk(directory, path))


# --- What is ignored ----------------------------------------------------------------------------


def test_what_is_ignored_is_seen_and_not_entered(directory: Directory) -> None:
    write(directory, "node_modules/x/y", "build/z", "a.log", "src/a.log", "src/b")
    write(directory, ".gitignore", text="build/\n*.log\n")
    walk = DirectoryWalk(directory)
    assert paths(walk) == [
        ".gitignore", "[a.log]", "[build]", "[node_modules]", "src", "[src/a.log]", "src/b",
    ]  # fmt: skip
    assert walk.left_out == 4


def test_everything_is_entered_when_all_is_wanted(directory: Directory) -> None:
    write(directory, "node_modules/x", "build/z")
    write(directory, ".gitignore", text="build/\n")
    assert paths(DirectoryWalk(directory, all=True)) == [
        ".gitignore", "build", "build/z", "node_modules", "node_modules/x",
    ]  # fmt: skip


def test_files_of_the_directories_above_the_start_count(directory: Directory) -> None:
    write(directory, "a/b/x.log", "a/b/y.tmp", "a/b/z")
    write(directory, ".gitignore", text="*.log\n")
    write(directory, "a/.gitignore", text="/b/*.tmp\n")
    assert paths(DirectoryWalk(directory, "a/b")) == ["[a/b/x.log]", "[a/b/y.tmp]", "a/b/z"]


@pytest.mark.parametrize("start", ["build", "build/deep", "node_modules", "cache"])
def test_what_is_asked_for_by_name_is_entered(directory: Directory, start: str) -> None:
    write(directory, "build/deep/x", "node_modules/x", "cache/x")
    write(directory, ".gitignore", text="build\ncache\n")
    write(directory, "cache/.gitignore", text="*\n")
    found = paths(DirectoryWalk(directory, start))
    assert found
    assert not any(path.startswith("[") for path in found)


def test_inside_of_what_is_asked_for_the_names_of_tools_still_hold(directory: Directory) -> None:
    write(directory, "node_modules/a/node_modules/b", "node_modules/a/c")
    assert paths(DirectoryWalk(directory, "node_modules/a")) == [
        "node_modules/a/c", "[node_modules/a/node_modules]",
    ]  # fmt: skip


def test_a_gitignore_that_is_no_file_of_text_is_no_error(directory: Directory) -> None:
    write(directory, "a/x", "b/x", "c/x")
    Path(directory.path, "a/.gitignore").mkdir()
    Path(directory.path, "b/.gitignore").symlink_to("nowhere")
    Path(directory.path, "c/.gitignore").write_bytes(b"\xff\0\n[z-a]\n\\\n")
    assert not any(seen.left_out for seen in DirectoryWalk(directory))


def test_a_path_with_dots_is_walked_by_what_is_in_it(directory: Directory) -> None:
    write(directory, "a/x", "b.log")
    write(directory, ".gitignore", text="*.log\n")
    assert paths(DirectoryWalk(directory, "a/../a")) == ["a/../a/x"]
    assert "[a/../b.log]" in paths(DirectoryWalk(directory, "a/.."))


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("ünï €.txt", "ünï €.txt"),
        ("two\nlines", r"'two\nlines'"),
        ("\x1b[31m", r"'\x1b[31m'"),
        (os.fsdecode(b"caf\xe9"), r"'caf\udce9'"),
        ("a\u2028b", r"'a\u2028b'"),
    ],
)
def test_a_name_is_one_line_that_can_be_sent(name: str, line: str) -> None:
    assert on_one_line(name) == line
    line.encode()


def test_no_more_of_a_huge_directory_is_listed_than_is_looked_at(tmp_path: Path) -> None:
    class Counting(Directory):
        listed = 0

        def entries(self, path: str = ".", most: int | None = None) -> list[DirectoryEntry]:
            found = super().entries(path, most)
            self.listed += len(found)
            return found

    for number in range(50):
        (tmp_path / f"{number}").touch()
    directory = Counting(tmp_path)
    with directory:
        walk = DirectoryWalk(directory, limit=10)
        assert len(list(walk)) == 10
        assert walk.stopped
        assert directory.listed == 11
