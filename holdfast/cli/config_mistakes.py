"""Collects configuration mistakes, so that they are reported in one message."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import indent
from typing import TypeVar

from holdfast.kernel.errors import ConfigError

T = TypeVar("T")


class Mistakes:
    """Collects configuration mistakes, to report them together."""

    def __init__(self, where: str = "the settings") -> None:
        self.where = where
        """The file, or other source, that the mistakes are in."""
        self._found: list[str] = []

    def __len__(self) -> int:
        return len(self._found)

    def add(self, setting: str, what: str) -> None:
        self._found.append(f"{setting}: {what}")

    def tried(self, setting: str, make: Callable[[], T]) -> T | None:
        """The result of `make`; None if it raised a `ConfigError`, which is recorded."""
        try:
            return make()
        except ConfigError as error:
            self.add(setting, str(error))
            return None

    def end(self) -> None:
        """Raise a `ConfigError` with all mistakes, if there were any."""
        if not self._found:
            return
        lines = "".join(f"\n{indent(found, '  ')}" for found in self._found)
        several = "" if len(self._found) == 1 else f" ({len(self._found)} mistakes)"
        raise ConfigError(f"{self.where} cannot be used{several}:{lines}")
