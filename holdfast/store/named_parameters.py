"""Conversion of `:named` parameters, used in all SQL, to positional values."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from operator import itemgetter
from typing import Any, Final

from msgspec import Struct

from holdfast.store.database import Params, StoreError

# A colon is a parameter only outside of quotes and comments, and not in a cast or a slice.
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
    """A statement with numbered parameters, and the names of their values in order."""

    text: str
    names: tuple[str, ...]


class ValueOrder(Struct, frozen=True):
    """Selects the values of a statement from a mapping, in the order of its names."""

    select: Callable[[Params], tuple[Any, ...]]
    now: int | None
    """Index of `:now`, which the connection provides; None when it is not used."""

    def values(self, params: Params, now: int) -> tuple[Any, ...]:
        """Return the values in order."""
        try:
            values = self.select(params)
        except KeyError as missing:
            raise missing_value(missing) from None
        if self.now is None:
            return values
        return (*values[: self.now], now, *values[self.now :])


def missing_value(missing: KeyError) -> StoreError:
    """Return the error for a parameter without a value."""
    return StoreError(f"no value was given for :{missing.args[0]}")


@lru_cache(maxsize=1_024)
def numbered(sql: str) -> Statement:
    """Convert named to numbered parameters. A name that occurs twice becomes one parameter."""
    numbers: dict[str, int] = {}

    def replace(match: re.Match[str]) -> str:
        name = match["name"]
        if name is None:
            return match[0]
        return f"${numbers.setdefault(name, len(numbers) + 1)}"

    text = _TOKEN.sub(replace, sql)
    return Statement(text, tuple(numbers))


@lru_cache(maxsize=1_024)
def value_order(sql: str) -> ValueOrder:
    """Return the order of a statement's values for SQLite, which numbers names as `numbered` does.

    Binding by number is much faster than by name.
    """
    names = numbered(sql).names
    now = names.index("now") if "now" in names else None
    param_names = [name for name in names if name != "now"]
    if len(param_names) > 1:
        return ValueOrder(itemgetter(*param_names), now)
    return ValueOrder(lambda params: tuple([params[name] for name in param_names]), now)
