"""Public names that are imported on first use, as listed by the stub of their module.

A name that does not exist, and is the name of another library or of another namespace, is answered
with the one to write.
"""

from __future__ import annotations

import ast
from importlib import import_module
from pkgutil import get_data
from typing import Final

STUBS: Final = (
    "__init__.pyi",
    "chats.py",
    "errors.py",
    "events.py",
    "hooks.py",
    "messages.py",
    "models.pyi",
    "options.py",
    "telemetry.py",
    "testing/__init__.py",
    "tools/__init__.py",
)
"""Where the namespaces list their names."""


def import_name(module: str, stub: str, name: str) -> object:
    """Import a name of a module's stub, and keep it as an attribute of the module."""
    if name.startswith("_") and name != "__all__":
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    homes = homes_of_names(stub)
    if name == "__all__":  # not `open`: `from holdfast import *` keeps Python's own
        return sorted(homes.keys() - {"open"})
    if name not in homes:
        from holdfast.kernel.import_hints import missing_name

        raise missing_name(module, name, _remedy(name))
    home, attribute = homes[name]
    value = import_module(home)
    found = value if attribute is None else getattr(value, attribute)
    setattr(import_module(module), name, found)
    return found


def _remedy(name: str) -> str:
    """A sentence for a name of another library or namespace; empty for any other name."""
    from holdfast.kernel.import_hints import FOREIGN_NAMES

    if name in FOREIGN_NAMES:
        return f"use {FOREIGN_NAMES[name]}"
    for stub in STUBS:
        namespace = "holdfast." + stub.partition(".py")[0].partition("/")[0]
        if name in homes_of_names(stub):
            return f"write `from {namespace.removesuffix('.__init__')} import {name}`"
    return ""


def homes_of_names(stub: str) -> dict[str, tuple[str, str | None]]:
    """The module of each public name, and its name there; a namespace is a module itself."""
    return {
        alias.name: ("holdfast." + alias.name, None)
        if node.module == "holdfast"
        else (str(node.module), alias.name)
        for node in ast.parse(get_data("holdfast", stub) or b"").body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
