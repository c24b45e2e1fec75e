"""Which paths a glob means."""

from __future__ import annotations

import pytest

from holdfast.tools.workspace.glob import BadGlob, Glob


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        ("*.md", "README.md"),
        ("*.md", "docs/deep/page.md"),
        ("*", ".hidden"),
        ("docs/*.md", "docs/page.md"),
        ("./docs/*.md", "docs/page.md"),
        ("/docs/*.md", "docs/page.md"),
        ("**/*.py", "a.py"),
        ("**/*.py", "a/b/c.py"),
        ("src/**/*.py", "src/a.py"),
        ("src/**/*.py", "src/a/b/c.py"),
        ("src/**", "src/a/b"),
        ("**", "a/b"),
        ("**/**/a", "a"),
        ("a/**/b/**/c", "a/x/b/c"),
        ("*.{ts,tsx}", "x.tsx"),
        ("{src,lib}/**/*.{c,h}", "lib/x/y.h"),
        ("{a,{b,c}}.txt", "c.txt"),
        ("[ab]?.txt", "b1.txt"),
        ("a.{b", "a.{b"),
        ("src/", "src"),
    ],
)
def test_a_path_that_is_meant_matches(glob: str, path: str) -> None:
    assert Glob(glob).matches(path)


@pytest.mark.parametrize(
    ("glob", "path"),
    [
        ("*.md", "README.rst"),
        ("*.md", "a.md/b"),
        ("docs/*.md", "docs/deep/page.md"),
        ("docs/*.md", "more/docs/page.md"),
        ("src/**", "src"),
        ("src/**/*.py", "srcs/a.py"),
        ("*.{ts,tsx}", "x.{ts,tsx}"),
        ("a?c", "a/c"),
        ("A", "a"),
    ],
)
def test_a_path_that_is_not_meant_does_not(glob: str, path: str) -> None:
    assert not Glob(glob).matches(path)


@pytest.mark.parametrize(
    ("glob", "path", "leads"),
    [
        ("*.py", "any/where", True),
        ("src/*.py", "src", True),
        ("src/*.py", "src/deep", False),
        ("src/*.py", "lib", False),
        ("src/**/*.py", "src/deep/down", True),
        ("{a,b}/c/*", "b/c", True),
        ("{a,b}/c/*", "b/d", False),
    ],
)
def test_only_a_directory_that_may_hold_a_match_is_worth_entering(
    glob: str, path: str, leads: bool
) -> None:
    assert Glob(glob).leads_into(path) is leads


@pytest.mark.parametrize(
    ("glob", "why"),
    [
        ("", "matches no path"),
        ("/", "matches no path"),
        ("../*", "matches no path"),
        ("{a,b}" * 8, "alternatives: use fewer"),
    ],
)
def test_a_glob_that_cannot_match_is_refused(glob: str, why: str) -> None:
    with pytest.raises(BadGlob, match=why):
        Glob(glob)


def test_a_glob_that_was_made_to_take_for_ever_takes_no_time() -> None:
    assert not Glob("*a" * 100 + "*b").matches("a" * 255)
    assert not Glob("**/a/" * 90 + "b").matches("a/" * 300 + "a")
