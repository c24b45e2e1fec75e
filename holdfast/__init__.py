"""Holdfast: a durable agent loop for Python.

Write an agent once, and run it in your process, or as durable chats on SQLite or PostgreSQL.

- `Agent`, `tool`, `Run`: an agent, its tools, and one run of it in memory.
- `open`, `connect`: durable chats in this process, or on a server. `Host` and `Chat` are handles.
- `holdfast.messages`, `events`, `errors`: what a history, a stream and a failure consist of.
- `holdfast.models`, `options`, `hooks`: what an agent can be configured with.
- `holdfast.chats`: snapshots, queued messages and receipts of durable chats.
- `holdfast.tools`, `testing`: bundled tools; scripted models and fake providers for tests.

`docs/python.md` lists every public name. Other modules are internal, and may change. For readers of
the code, ARCHITECTURE.md is the map: start with `kernel/decide.py`.

`import holdfast` imports nothing else: a name or namespace of `__init__.pyi` is imported when it is
first used.
"""

from __future__ import annotations

__version__ = "0.1.0"


def _home_of_names() -> dict[str, tuple[str, str | None]]:
    """The module of each public name, and its name there; a namespace is a module itself."""
    import ast
    from pkgutil import get_data

    stub = get_data(__name__, "__init__.pyi") or b""
    return {
        alias.name: ("holdfast." + alias.name, None)
        if node.module == "holdfast"
        else (str(node.module), alias.name)
        for node in ast.parse(stub).body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name.startswith("_") and name != "__all__":
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    homes = _home_of_names()
    if name == "__all__":  # not `open`: `from holdfast import *` keeps Python's own
        return sorted(homes.keys() - {"open"})
    if name not in homes:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    home, attribute = homes[name]
    value = import_module(home)
    globals()[name] = value if attribute is None else getattr(value, attribute)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted([*_home_of_names(), "__version__"])
