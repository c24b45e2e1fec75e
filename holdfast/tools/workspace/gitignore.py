"""What is left out unless it is asked for: what tools make, and what .gitignore files name."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final

from msgspec import Struct

from holdfast.tools.workspace.glob import Parts, fit, parts
from holdfast.tools.workspace.wildcards import NoMatch, expressions

FILE: Final = ".gitignore"
MAX_FILE: Final = 256 * 1024
"""Bytes. A larger one is taken for something else."""
MAX_LINE: Final = 500
"""Characters. No name is that long."""
MAX_RULES: Final = 2_000
"""Of one file. It takes a moment to understand them, and more to try them all on each name."""

DIRECTORIES: Final = frozenset(
    {
        ".git",
        ".gradle",
        ".hg",
        ".holdfast",
        ".hypothesis",
        ".jj",
        ".mypy_cache",
        ".nox",
        ".pytest_cache",
        ".ruff_cache",
        ".svn",
        ".terraform",
        ".tox",
        ".venv",
        "__pycache__",
        "node_modules",
        "venv",
    }
)
"""Made by tools, often large, and hardly ever what is looked for."""


class Rule(Struct, frozen=True):
    """One line of a .gitignore."""

    leaves_out: bool
    """Else it takes back what an earlier line says."""
    directories_only: bool
    parts: Parts

    def matches(self, names: Sequence[str], is_directory: bool) -> bool:
        return (is_directory or not self.directories_only) and fit(self.parts, names)


class Ignored(Struct, frozen=True):
    """What the .gitignore files from the top down to one directory say."""

    files: tuple[tuple[int, tuple[Rule, ...]], ...] = ()
    """Each with the depth of its directory, the innermost first."""

    def and_file(self, depth: int, data: bytes) -> Ignored:
        """The same, and what another file says, which is so many directories further down."""
        found = (rule for line in _lines(data) if (rule := rule_in(line)) is not None)
        rules = tuple(islice(found, MAX_RULES))
        return Ignored(((depth, rules[::-1]), *self.files)) if rules else self

    def holds(self, path: str, is_directory: bool) -> bool:
        """Whether to leave out a path that is in no directory which is left out.

        The last line that matches decides, and those of the innermost file come last.
        """
        names = path.split("/")
        if is_directory and names[-1] in DIRECTORIES:
            return True
        for depth, rules in self.files:
            below = names[depth:]
            for rule in rules:
                if rule.matches(below, is_directory):
                    return rule.leaves_out
        return False


def _lines(data: bytes) -> list[str]:
    # As names are read that are no UTF-8: they can be matched.
    text = data.removeprefix(b"\xef\xbb\xbf").decode(errors="surrogateescape")
    return [line.removesuffix("\r") for line in text.split("\n")]


def rule_in(line: str) -> Rule | None:
    """None, if the line says nothing: it is empty, a comment, or makes no sense to git either."""
    line = _without_spaces_behind(line)
    if len(line) > MAX_LINE or line.startswith("#"):
        return None
    text = line.removeprefix("!")
    try:
        names = expressions(text.removesuffix("/").removeprefix("/"))
    except NoMatch:
        return None
    anchored = "/" in text[:-1]
    return Rule(
        leaves_out=text == line,
        directories_only=text.endswith("/"),
        parts=parts(names if anchored else [None, *names]),
    )


def _without_spaces_behind(line: str) -> str:
    short = line.rstrip(" ")
    return f"{short} " if short != line and _ends_in_escape(short) else short


def _ends_in_escape(text: str) -> bool:
    return (len(text) - len(text.rstrip("\\"))) % 2 == 1
