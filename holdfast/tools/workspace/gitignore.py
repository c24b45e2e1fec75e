"""Which files are ignored by default: caches and the like, and those that .gitignore names."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Final

from msgspec import Struct

from holdfast.tools.workspace.gitignore_patterns import NoMatch, expressions
from holdfast.tools.workspace.glob import Parts, fit, parts

IGNORE_FILE: Final = ".gitignore"
MAX_IGNORE_FILE: Final = 256 * 1024
"""Maximum bytes of a .gitignore; a larger file is something else, and not read."""
MAX_PATTERN: Final = 500
"""Maximum characters of a pattern. No name is that long."""
MAX_RULES: Final = 2_000
"""Maximum rules of one file: parsing them takes time, and each name is compared with all."""

IGNORED_DIRECTORIES: Final = frozenset(
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
"""Directories created by tools: often large, and rarely what is searched for."""


class IgnoreRule(Struct, frozen=True):
    """One line of a .gitignore."""

    leaves_out: bool
    """Whether matching files are ignored; otherwise the line cancels an earlier one."""
    directories_only: bool
    parts: Parts

    def matches(self, names: Sequence[str], is_directory: bool) -> bool:
        return (is_directory or not self.directories_only) and fit(self.parts, names)


class IgnoreRules(Struct, frozen=True):
    """The rules of the .gitignore files from the top directory down to one directory."""

    files: tuple[tuple[int, tuple[IgnoreRule, ...]], ...] = ()
    """The rules of each file, with the depth of its directory, the innermost first."""

    def and_file(self, depth: int, data: bytes) -> IgnoreRules:
        """These rules, and those of another file, `depth` directories below the top."""
        found = (rule for line in _lines(data) if (rule := rule_in(line)) is not None)
        rules = tuple(islice(found, MAX_RULES))
        return IgnoreRules(((depth, rules[::-1]), *self.files)) if rules else self

    def holds(self, path: str, is_directory: bool) -> bool:
        """Whether a path is ignored; its directory must not be ignored.

        The last line that matches decides, and the lines of the innermost file come last.
        """
        names = path.split("/")
        if is_directory and names[-1] in IGNORED_DIRECTORIES:
            return True
        for depth, rules in self.files:
            below = names[depth:]
            for rule in rules:
                if rule.matches(below, is_directory):
                    return rule.leaves_out
        return False


def _lines(data: bytes) -> list[str]:
    # Like names that are not UTF-8, so that those can be matched.
    text = data.removeprefix(b"\xef\xbb\xbf").decode(errors="surrogateescape")
    return [line.removesuffix("\r") for line in text.split("\n")]


def rule_in(line: str) -> IgnoreRule | None:
    """The rule of a line; None if it is empty, a comment, or invalid for git too."""
    line = _without_trailing_spaces(line)
    if len(line) > MAX_PATTERN or line.startswith("#"):
        return None
    text = line.removeprefix("!")
    try:
        names = expressions(text.removesuffix("/").removeprefix("/"))
    except NoMatch:
        return None
    anchored = "/" in text[:-1]
    return IgnoreRule(
        leaves_out=text == line,
        directories_only=text.endswith("/"),
        parts=parts(names if anchored else [None, *names]),
    )


def _without_trailing_spaces(line: str) -> str:
    short = line.rstrip(" ")
    return f"{short} " if short != line and _ends_in_escape(short) else short


def _ends_in_escape(text: str) -> bool:
    return (len(text) - len(text.rstrip("\\"))) % 2 == 1
