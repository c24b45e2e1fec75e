"""Public names that are imported on first use, as listed by the stub of their module."""

from __future__ import annotations

import ast
from importlib import import_module
from pkgutil import get_data


def import_name(module: str, stub: str, name: str) -> object:
    """Import a name of a module's stub, and keep it as an attribute of the module."""
    if name.startswith("_") and name != "__all__":
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    homes = homes_of_names(stub)
    if name == "__all__":  # not `open`: `from holdfast import *` keeps Python's own
        return sorted(homes.keys() - {"open"})
    if name not in homes:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    home, attribute = homes[name]
    value = import_module(home)
    found = value if attribute is None else getattr(value, attribute)
    setattr(import_module(module), name, found)
    return found


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
