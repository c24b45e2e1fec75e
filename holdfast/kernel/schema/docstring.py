"""Docstrings of functions: the description of the function, and of each parameter."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, Final

from holdfast.kernel.schema.signature import attribute_owner

ENTRY: Final = r"\*{0,2}(\w+)(?: \(.*?\))?:\s*(.*)"
"""Pattern of a parameter's entry, such as `limit (int): how many to show`."""


def of(function: Callable[..., Any]) -> str:
    """The docstring of a function; empty without one."""
    return inspect.getdoc(attribute_owner(function, "__doc__")) or ""


def split(function: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """The docstring without its Google-style `Args:` section, and the entries of that section."""
    doc = of(function)
    lines = doc.splitlines()
    if "Args:" not in lines:
        return doc, {}
    start = lines.index("Args:")
    end = start + 1
    while end < len(lines) and not lines[end][:1].strip():  # up to the next section
        end += 1
    entries = _entries("\n".join(lines[start + 1 : end]))
    if not entries:
        return doc, {}
    return "\n".join(lines[:start] + lines[end:]).strip(), entries


def _entries(section: str) -> dict[str, str]:
    entries: dict[str, str] = {}
    name = ""
    for line in inspect.cleandoc(f"\n{section}").splitlines():
        if entry := re.fullmatch(ENTRY, line):
            name = entry[1]
            entries[name] = entry[2].strip()
        elif name:
            entries[name] = f"{entries[name]} {line.strip()}".strip()
    return entries
