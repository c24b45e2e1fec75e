"""Holdfast: a durable agent loop for Python.

Write an agent once, and run it in your process, or as durable chats on SQLite or PostgreSQL.

- `Agent`, `tool`, `Limits`, `Run`: an agent, its tools and limits, and one run of it in memory.
- `open`, `connect`: durable chats in this process, or on a server. `Host` and `Chat` are handles;
  `Budgets` limits what chats and users may spend.
- `serve`, `serve_sync`: a server with your agents: the API, the web page and a worker.
- `asgi`, `holdfast.web`: the API of a host, mounted into a web application with its own users.
- `holdfast.messages`, `events`, `errors`: what a history, a stream and a failure consist of.
- `holdfast.models`, `options`, `hooks`: what an agent can be configured with.
- `holdfast.chats`: snapshots, queued messages and receipts of durable chats.
- `instrument`, `holdfast.telemetry`: traces, metrics, recordings and log lines.
- `holdfast.workspaces`: where the bundled tools act, and the protocol for a kind of your own.
- `holdfast.tools`, `testing`: bundled tools; scripted models and fake providers for tests.

`docs/python.md` lists every public name. Other modules are internal, and may change. For readers of
the code, ARCHITECTURE.md is the map: start with `kernel/decide.py`.

`import holdfast` imports nothing else: a name or namespace of `__init__.pyi` is imported when it is
first used.
"""

from __future__ import annotations

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    from holdfast.public_names import import_name

    return import_name("holdfast", "__init__.pyi", name)


def __dir__() -> list[str]:
    from holdfast.public_names import homes_of_names

    return sorted([*homes_of_names("__init__.pyi"), "__version__"])
