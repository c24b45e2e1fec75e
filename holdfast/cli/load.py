"""Tools that a user names on the command line as `module:name`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

from holdfast.kernel.errors import ConfigError, describe
from holdfast.kernel.tool import Tool


def load_tools(specs: Sequence[str], where: str = "--tools") -> list[Tool | Callable[..., Any]]:
    """What each `module:name` names: a tool, a function, or a list of them.

    `where` they were named is said with what is wrong.

    Modules are looked for in the current directory first, as Python does for a script.
    """
    if specs and "" not in sys.path:
        sys.path.insert(0, "")
    return [one for spec in specs for one in _named(spec, f"{where} {spec}")]


def _named(spec: str, where: str) -> list[Tool | Callable[..., Any]]:
    module_name, colon, name = spec.partition(":")
    if not (module_name and colon and name):
        raise ConfigError(f"{where}: write module:name, as in mytools:weather")
    module = _imported(where, module_name)
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


def _imported(where: str, name: str) -> ModuleType:
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise ConfigError(
                f"{where}: there is no module {name!r} here or among the installed ones; "
                "run this where it can be imported, or set PYTHONPATH"
            ) from None
        raise ConfigError(f"{where}: {name} needs {error.name!r}: install it") from error
    except (Exception, SystemExit) as error:  # whatever a user's module does when it is imported
        raise ConfigError(f"{where}: {name} cannot be imported. {describe(error)}") from error


def _tools_of(module: ModuleType) -> list[str]:
    return [name for name, value in vars(module).items() if isinstance(value, Tool)]
