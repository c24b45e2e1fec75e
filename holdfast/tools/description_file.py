"""Loads the description of a tool for the model: a Markdown file next to its code."""

from __future__ import annotations

from pathlib import Path


def description(code: str) -> str:
    """The text next to a module, given the module's `__file__`."""
    return Path(code).with_suffix(".md").read_text("utf-8").strip()
