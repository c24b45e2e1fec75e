"""What .gitignore files mean: compared with what git says, and told by example."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.tools.workspace.directory import Directory
from holdfast.tools.workspace.gitignore import IGNORED_DIRECTORIES, IgnoreRules, rule_in
from holdfast.tools.workspace.walk import DirectoryWalk

NAMES = st.sampled_from(["a", "b", "ab", "a.o", "b.o", "!x", "#x", "a b", "a*", "[a]"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)
WORDS = st.sampled_from(
    ["a", "b", "*", "**", "?", "*.o", "[ab]", "[!a]", "[^a]", "a*", "\\*", "\\!x", "\\#x", "a b"]
)
SETS = st.sampled_from(["[[:alpha:]]*", "[^[:punct:]]", "[\\[]a]", "[b-a]", "[a", "[a/b]", "***"])
LINES = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(["", "", "!"]),
        st.sampled_from(["", "", "/"]),
        st.lists(WORDS | SETS, min_size=1, max_size=3).map("/".join),
        st.sampled_from(["", "", "/", "  ", "\\ ", "\r"]),
    ),
)
TEXTS = st.lists(LINES | st.sampled_from(["", "# a", "!", "/", "\\"]), max_size=5).map("\n".join)


def kept_by_git(top: Path) -> list[str]:
    git = shutil.which("git")
    if git is None:
        pytest.skip("git is not installed")
    alone = {"PATH": os.environ["PATH"], "HOME": str(top), "GIT_CONFIG_NOSYSTEM": "1"}
    for path in (".git/objects", ".git/refs"):  # what `git init` would make, without waiting for it
        (top / path).mkdir(parents=True)
    (top / ".git/HEAD").write_text("ref: refs/heads/main\n")
    listed = subprocess.run(
        [git, "ls-files", "-z", "--others", "--exclude-standard"],
        cwd=top,
        env=alone,
        capture_output=True,
        check=True,
    )
    return sorted(filter(None, listed.stdout.decode().split("\0")))


def kept_by_us(top: Path) -> list[str]:
    with Directory(top) as directory:
        seen = list(DirectoryWalk(directory))
    return sorted(each.path for each in seen if each.entry.kind == "file" and not each.left_out)


def write(top: Path, path: str, text: str = "") -> None:
    target = top / path
    with suppress(OSError):  # of a file and a directory of the same name the first one stays
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8", newline="")


@given(
    st.lists(PATHS, min_size=1, max_size=8),
    TEXTS,
    st.lists(st.tuples(PATHS, TEXTS), max_size=2),
)
@settings(max_examples=settings().max_examples // 4)  # each asks git
@example(["src/x.py", "src/x.o", "src/sub/y.py", "top.py", "top.o"], "*\n!*/\n!*.py", [])
@example(["a/b", "a/ab/b", "b/b"], "/*\n!/a\n/a/*\n!/a/ab", [])
@example(["a/b/a.o", "a/a.o"], "*.o", [("a/b", "!a.o")])
@example(["a/b/a", "a/a"], "a/**", [])
@example(["a/b", "ab/b"], "**/b", [("a", "!b")])
def test_what_is_left_out_is_what_git_leaves_out(
    paths: list[str], text: str, inner: list[tuple[str, str]]
) -> None:
    with tempfile.TemporaryDirectory() as name:
        top = Path(name)
        for path in paths:
            write(top, path)
        for path, other in inner:
            write(top, f"{path}/.gitignore", other)
        write(top, ".gitignore", text)
        assert kept_by_us(top) == kept_by_git(top)


ODD = (
    "[[:alpha:]] [[:alnum:]_] [[:digit:]] [[:xdigit:]-] [[:punct:]] [[:space:]] [[:blank:]]",
    "*[[:upper:]] [^[:lower:]] [![:graph:]] [[:print:]] [[:cntrl:]] [[:alpha:][:digit:]]",
    "[[:nope:]] [[:alpha:] [[:] [[:]] [ [a a[ *[a [\\ a\\ a\\/ [a/c] x[a/c]y",
    "[]a] [!]a] [^]] [\\]a] [\\a] [a\\-c] [a-\\c] [c-a] [a-c-e] [--a] [!-a] [a-] [[-a] [a[^b]",
    "*** x/***/y x/**y x/[a-c] x\\/y x\\y \\[a]",
)


@pytest.mark.parametrize("lines", ODD)
def test_brackets_mean_what_they_mean_to_git(tmp_path: Path, lines: str) -> None:
    for line in lines.split():
        top = tmp_path / line.replace("/", " ")
        for name in "abcexyA1-][!^:_~\\ \t\r\v\x7f":
            write(top, name)
        for path in ("[a", "[a]", "xy", "aA", "xay", "d/x/y", "d/x/a/y", "d/x/y/a", "d/x/a/b/y"):
            write(top, path)
        write(top, ".gitignore", line)
        write(top, "d/.gitignore", line)
    assert kept_by_us(tmp_path) == kept_by_git(tmp_path)


def left_out(text: str | bytes, path: str, *, is_directory: bool = False) -> bool:
    data = text if isinstance(text, bytes) else text.encode()
    return IgnoreRules().and_file(0, data).holds(path, is_directory)


@pytest.mark.parametrize("name", sorted(IGNORED_DIRECTORIES))
def test_a_directory_that_tools_make_is_left_out(name: str) -> None:
    assert IgnoreRules().holds(name, is_directory=True)
    assert IgnoreRules().holds(f"deep/down/{name}", is_directory=True)
    assert not IgnoreRules().holds(name, is_directory=False)


def test_no_file_can_let_in_what_tools_make() -> None:
    assert left_out("!node_modules", "node_modules", is_directory=True)


def test_a_file_speaks_of_its_own_directory() -> None:
    inner = IgnoreRules().and_file(0, b"*.log").and_file(1, b"/x\n!keep.log")
    assert inner.holds("a/x", is_directory=False)
    assert not inner.holds("a/b/x", is_directory=False)
    assert inner.holds("a/b/y.log", is_directory=False)
    assert not inner.holds("a/b/keep.log", is_directory=False)


@pytest.mark.parametrize("line", ["", "   ", "# x", "!", "/", "//", "a//b", "\\", "x\\", "x" * 501])
def test_a_line_that_means_nothing_is_skipped(line: str) -> None:
    assert rule_in(line) is None


def test_bytes_that_are_no_text_are_no_error_and_match_a_name_of_them() -> None:
    name = os.fsdecode(b"caf\xe9")
    assert left_out(b"\xff\xfe\0\ncaf\xe9\n", name)
    assert not left_out(b"\xff\xfe\0\ncaf\xe9\n", "other")


def test_a_mark_at_the_start_of_the_file_belongs_to_no_line() -> None:
    assert left_out(b"\xef\xbb\xbfa", "a")


def test_a_line_that_was_made_to_take_for_ever_takes_no_time() -> None:
    stars = "*a" * 100 + "*b"
    directories = "**/a/" * 80 + "b"
    assert not left_out(stars, "a" * 255)
    assert not left_out(directories, "a/" * 300 + "a")
    assert not left_out("[" * 500, "a")


def test_of_a_file_with_very_many_rules_the_first_count() -> None:
    began = time.process_time()
    ignored = IgnoreRules().and_file(0, b"\n".join(b"a*%d" % n for n in range(35_000)))
    assert time.process_time() - began < 2
    assert ignored.holds("ab999", is_directory=False)
