"""Escapes text of others for people: nothing in it is hidden or moves what is around it. Pure."""

from __future__ import annotations


def visible(text: str) -> str:
    """The text with a name for each character that would not be visible as itself."""
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape", "replace").decode()
        for c in text
    )


def clipped(text: str, most: int) -> str:
    """The beginning of a text, and how many characters were cut off."""
    left = len(text) - most
    return text if left <= 0 else f"{text[:most]}… [{left} more characters]"


def on_one_line(text: str, most: int | None = None) -> str:
    """The text on one line, quoted if something in it had to be escaped."""
    if most is not None and len(text) > most:
        text = text[: most - 1] + "…"
    return text if text and text.isprintable() else repr(text)
