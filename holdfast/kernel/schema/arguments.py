"""What the arguments of every tool can do, however they were declared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

from holdfast.kernel.errors import HoldfastError

Values: TypeAlias = Mapping[str, Any]
"""Validated arguments by name, as the function will get them."""
VALUE: Final = "value"
"""The name under which an answer that is no object stands in one."""


class BadArguments(HoldfastError):
    """Arguments that the tool cannot be run with. The message is for the model."""

    def __init__(self, problems: Sequence[str], more: int = 0) -> None:
        self.problems = tuple(problems)
        self.more = more
        """How many further problems were found and are not listed."""
        rest = (f"and {more} more",) if more else ()
        super().__init__("\n- ".join(("These arguments are not valid:", *self.problems, *rest)))


class Arguments(Protocol):
    """Schema and validator of one tool's arguments."""

    schema: Mapping[str, Any]
    """JSON schema of an object; `properties` is always there."""

    def parse(self, text: str) -> Values:
        """The values in what the model wrote; nothing at all counts as no arguments."""

    def check(self, value: Mapping[str, Any]) -> Values:
        """The same for arguments that did not come as text, for example from a gate."""

    def plain(self, values: Values) -> dict[str, Any]:
        """Values as builtins that JSON knows; equal values give equal builtins in every process."""
