"""The `Arguments` protocol: schema and validator of a tool's arguments, however declared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, TypeAlias

from holdfast.kernel.errors import HoldfastError

Values: TypeAlias = Mapping[str, Any]
"""Validated arguments by name, as the function receives them."""
VALUE: Final = "value"
"""Name of the field that wraps an answer that is not an object."""


class BadArguments(HoldfastError):
    """The arguments are not valid, so the tool cannot run. The message is for the model."""

    def __init__(self, problems: Sequence[str], more: int = 0) -> None:
        self.problems = tuple(problems)
        self.more = more
        """Number of further problems, which are not listed."""
        rest = (f"and {more} more",) if more else ()
        super().__init__("\n- ".join(("These arguments are not valid:", *self.problems, *rest)))


class Arguments(Protocol):
    """Schema and validator of one tool's arguments."""

    schema: Mapping[str, Any]
    """JSON schema of an object; `properties` is always present."""

    def parse(self, text: str) -> Values:
        """Parse and validate what the model wrote. Empty text means no arguments."""

    def check(self, value: Mapping[str, Any]) -> Values:
        """Validate arguments that did not arrive as text, for example from a gate."""

    def plain(self, values: Values) -> dict[str, Any]:
        """Values as builtins that JSON has; equal values give equal builtins in every process."""
