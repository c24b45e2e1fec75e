"""Imports tools named as `module:name`, on the command line or in the settings."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

from holdfast.kernel.errors import ConfigError, describe
from holdfast.kernel.tool import Tool


def load_tools(
    specs: Sequence[str], option: str = "", directory: str = ""
) -> list[Tool | Callable[..., Any]]:
    """The tools named by each `module:name`: a tool, a function, or a list of them.

    Modules are looked up in a directory first, by default the current one, as Python does for a
    script. Error messages mention the `option` that named them.
    """
    if specs and directory not in sys.path:
        sys.path.insert(0, directory)
    return [one for spec in specs for one in _named(spec, f"{option} {spec}".strip(), directory)]


def _named(spec: str, where: str, directory: str) -> list[Tool | Callable[..., Any]]:
    module_name, colon, name = spec.partition(":")
    if not (module_name and colon and name):
        raise ConfigError(f"{where}: write module:name, as in mytools:weather")
    module = _imported(where, module_name, directory)
    found = getattr(module, name, None)
    if found is None:
        known = ", ".join(_tools_of(module)) or "none"
        raise ConfigError(f"{where}: {module_name} has no {name!r} (tools in it: {known})")
    several = [found] if isinstance(found, Tool) or callable(found) else found
    if isinstance(several, str) or not isinstance(several, Iterable):
        raise ConfigError(
            f"{where}: that is a value of type {type(found).__name__}; "
            "name a tool, a function, or a list of them"
        )
    return list(several)


def _imported(where: str, name: str, directory: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            here = f"in {directory}" if directory else "here"
            raise ConfigError(
                f"{where}: module {name!r} was not found {here} or among installed packages: "
                "put it there, or add its directory to PYTHONPATH"
            ) from None
        raise ConfigError(f"{where}: {name} needs {error.name!r}: install it") from error
    except (Exception, SystemExit) as error:  # anything a user's module does on import
        raise ConfigError(f"{where}: {name} cannot be imported. {describe(error)}") from error


def _tools_of(module: ModuleType) -> list[str]:
    return [name for name, value in vars(module).items() if isinstance(value, Tool)]
