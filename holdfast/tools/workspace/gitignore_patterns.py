"""Translates the wildcards of a .gitignore into regular expressions, as git interprets them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from holdfast.tools.workspace.glob import ANY

_ONE: Final = r"(?:\\.|[^\]\\])"
_CLASS: Final = r"\[:[^\]]*:\]"
_ITEM: Final = rf"{_CLASS}|{_ONE}(?:-{_ONE})?"
_TOKEN: Final = re.compile(
    r"(?P<stars>\*+)|(?P<any>\?)|\\?(?P<slash>/)|\\(?P<escaped>.)|(?P<plain>[^*?/\\\[]+)"
    # A bracket that comes first is in the set and does not close it.
    rf"|\[(?P<not>[!^]?)(?P<set>(?>(?:\](?:-{_ONE})?|{_ITEM})(?:{_ITEM})*))\]",
    re.DOTALL,
)
_ITEMS: Final = re.compile(r"\[:(?P<name>[^\]]*):\]|\\?(?P<low>.)(?:-\\?(?P<high>.))?", re.DOTALL)
_CLASSES: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r" \t\n\r",
    "upper": "A-Z",
    "xdigit": "0-9A-Fa-f",
}


class NoMatch(ValueError):
    """A pattern that git never matches: an open bracket, or an unknown class."""


def expressions(pattern: str) -> list[str | None]:
    """One regular expression for each name of a path; None matches any number of names."""
    names: list[list[str]] = [[]]
    for token in _tokens(pattern):
        if token == "/":
            names.append([])
        else:
            names[-1].append(token)
    if [] in names:
        raise NoMatch(pattern)
    return [None if name == [ANY] else _expression(name) for name in names]


def _tokens(pattern: str) -> Iterator[str]:
    """Slashes, stars (two, if more than one), and expressions for what is between them."""
    at = 0
    while at < len(pattern):
        found = _TOKEN.match(pattern, at)
        if found is None:
            raise NoMatch(pattern)
        at = found.end()
        match found.lastgroup:
            case "stars":
                yield found["stars"][:2]
            case "any":
                yield "."
            case "slash":
                yield "/"
            case "set":
                items = "".join(map(_item, _ITEMS.finditer(found["set"])))
                yield f"[{'^' if found['not'] else ''}{items}]"
            case _:
                yield re.escape(found["escaped"] or found["plain"])


def _item(found: re.Match[str]) -> str:
    if found["name"] is not None:
        if found["name"] not in _CLASSES:
            raise NoMatch(found[0])
        return _CLASSES[found["name"]]
    low, high = found["low"], found["high"]
    # A range from a letter to an earlier one is empty, but git has already compared the first.
    return re.escape(low) if high is None or high < low else f"{re.escape(low)}-{re.escape(high)}"


def _expression(tokens: Sequence[str]) -> str:
    """The expression of one name. Like `fnmatch`, it does not backtrack into a star."""
    pieces = [""]
    for token in tokens:
        if token in ("*", ANY):
            pieces.append("")
        else:
            pieces[-1] += token
    first, *others = pieces
    if not others:
        return rf"(?s:{first})\Z"
    *between, last = others
    taken = "".join(f"(?>.*?{piece})" for piece in between if piece)
    return rf"(?s:{first}{taken}.*{last})\Z"
