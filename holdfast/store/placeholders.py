"""From `:named` parameters, which both databases' SQL is written with, to values in an order."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final

from msgspec import Struct

from holdfast.store.database import Params, StoreError

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


class Taken(Struct, frozen=True):
    """How the values of a statement are taken from what it is given, in the order of its names."""

    take: Callable[[Params], tuple[Any, ...]]
    now: int | None
    """The place of `:now`, which the connection knows and nobody gives."""

    def values(self, params: Params, now: int) -> tuple[Any, ...]:
        try:
            values = self.take(params)
        except KeyError as missing:
            raise missing_value(missing) from None
        if self.now is None:
            return values
        return (*values[: self.now], now, *values[self.now :])


def missing_value(missing: KeyError) -> StoreError:
    return StoreError(f"no value was given for :{missing.args[0]}")


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


@lru_cache(maxsize=1_024)
def taken(sql: str) -> Taken:
    """SQLite numbers names as `numbered` does, and takes their values by number much sooner."""
    names = numbered(sql).names
    now = names.index("now") if "now" in names else None
    given = [name for name in names if name != "now"]
    if len(given) > 1:
        return Taken(itemgetter(*given), now)
    return Taken(lambda params: tuple([params[name] for name in given]), now)
