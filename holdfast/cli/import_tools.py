"""Imports tools named as `module:name`, on the command line or in the settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import ModuleType
from typing import Any

from holdfast.cli.user_modules import find_object
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.tool import Tool


def load_tools(
    specs: Sequence[str], option: str = "", directory: str = ""
) -> list[Tool | Callable[..., Any]]:
    """The tools named by each `module:name`: a tool, a function, or a list of them.

    Modules are looked up in a directory first, by default the current one, as Python does for a
    script. Error messages mention the `option` that named them.
    """
    return [one for spec in specs for one in _named(spec, f"{option} {spec}".strip(), directory)]


def _named(spec: str, where: str, directory: str) -> list[Tool | Callable[..., Any]]:
    module, name, found = find_object(spec, where, directory, "mytools:weather")
    if found is None:
        known = ", ".join(_tools_of(module)) or "none"
        raise ConfigError(f"{where}: {module.__name__} has no {name!r} (tools in it: {known})")
    several = [found] if isinstance(found, Tool) or callable(found) else found
    if isinstance(several, str) or not isinstance(several, Iterable):
        raise ConfigError(
            f"{where}: that is a value of type {type(found).__name__}; "
            "name a tool, a function, or a list of them"
        )
    return list(several)


def _tools_of(module: ModuleType) -> list[str]:
    return [name for name, value in vars(module).items() if isinstance(value, Tool)]
