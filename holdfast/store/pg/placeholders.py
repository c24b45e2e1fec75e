"""From `:named` parameters, which both databases' SQL is written with, to PostgreSQL's `$1`."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from msgspec import Struct

# A colon is a parameter only outside of what is quoted or a comment, and not in a cast or a slice.
_TOKEN: Final = re.compile(
    r"""
      (?<!\w) [eE] ' (?: [^'\\] | \\. | '' )* '
    | ' (?: [^'] | '' )* '
    | " (?: [^"] | "" )* "
    | -- [^\n]*
    | /\* .*? \*/
    | (?<!\w) \$ (?P<tag> \w* ) \$ .*? \$ (?P=tag) \$
    | (?<! [\w:\]] ) : (?P<name> [a-zA-Z_]\w* )
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)


class Statement(Struct, frozen=True):
    """A statement with numbered parameters, and the names of their values in that order."""

    text: str
    names: tuple[str, ...]


@lru_cache(maxsize=1_024)
def numbered(sql: str) -> Statement:
    """A name that comes twice is one parameter."""
    numbers: dict[str, int] = {}

    def replace(match: re.Match[str]) -> str:
        name = match["name"]
        if name is None:
            return match[0]
        return f"${numbers.setdefault(name, len(numbers) + 1)}"

    text = _TOKEN.sub(replace, sql)
    return Statement(text, tuple(numbers))
