"""Public names that are imported on first use, as listed by the stub of their module.

A name that does not exist, and is the name of another library or of another namespace, is answered
with the one to write.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Mapping
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
FOREIGN_NAMES: Final[Mapping[str, str]] = {
    "Runner": "`await agent.run(…)`, or agent.run_sync(…)",
    **dict.fromkeys(("function_tool", "FunctionTool", "StructuredTool", "BaseTool"), "@tool"),
    **dict.fromkeys(("RunContext", "RunContextWrapper", "ToolRuntime"), "ToolContext"),
    "ModelRetry": "ToolFailed of holdfast.errors: the model reads its message",
    "ModelSettings": "Settings of holdfast.models",
    "FallbackModel": "Fallback of holdfast.models",
    **dict.fromkeys(("TestModel", "FunctionModel"), "ScriptedModel of holdfast.testing"),
    **dict.fromkeys(
        ("AgentRunResult", "RunResultStreaming", "StreamedRunResult"), "RunResult, or Run"
    ),
    **dict.fromkeys(
        ("DeferredToolRequests", "DeferredToolResults", "ToolApproved"),
        "result.actions, and agent.run(history=…, resolve={call id: approve(action)})",
    ),
    "ToolDenied": "Deny of holdfast.hooks",
    **dict.fromkeys(("BinaryContent", "ImageUrl", "DocumentUrl"), "File of holdfast.messages"),
    **dict.fromkeys(("create_agent", "create_react_agent"), "Agent"),
    "init_chat_model": "model",
    **dict.fromkeys(("WebSearchTool", "CodeExecutionTool"), "ProviderTool of holdfast.models"),
    **dict.fromkeys(("SQLiteSession", "Session", "InMemorySaver"), "open, for durable chats"),
}
"""Names that other libraries have: what to use."""


def import_name(module: str, stub: str, name: str) -> object:
    """Import a name of a module's stub, and keep it as an attribute of the module."""
    if name.startswith("_") and name != "__all__":
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    homes = homes_of_names(stub)
    if name == "__all__":  # not `open`: `from holdfast import *` keeps Python's own
        return sorted(homes.keys() - {"open"})
    if name not in homes:
        raise _missing(module, name)
    home, attribute = homes[name]
    value = import_module(home)
    found = value if attribute is None else getattr(value, attribute)
    setattr(import_module(module), name, found)
    return found


def _missing(module: str, name: str) -> Exception:
    remedy = _remedy(name)
    missing = f"module {module!r} has no attribute {name!r}{remedy and ': '}{remedy}"
    if remedy and sys._getframe(3).f_code.co_name == "_handle_fromlist":
        # Of an AttributeError, `from holdfast import …` would not show the message.
        return ImportError(missing, name=module)
    return AttributeError(missing, name=name)


def _remedy(name: str) -> str:
    """A sentence for a name of another library or namespace; empty for any other name."""
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
