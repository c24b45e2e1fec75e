"""Edits of a text: replacements applied in order, all of them or none. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from msgspec import Struct

from holdfast.tools.files import text_file as documents
from holdfast.tools.files.fuzzy_match import occurrences, old_lines, same_lines, same_lines_indented
from holdfast.tools.files.suggestions import nearest
from holdfast.tools.files.text_file import Document, TextChange

MAX_COUNTED: Final = 1_000
"""Occurrences counted before reporting "or more"."""
MAX_REPLACED: Final = 100_000
"""Maximum occurrences replaced together."""
MAX_RESULT: Final = 10 * 1024 * 1024
"""Maximum characters of the result: a larger file could not be read again."""
MAX_LISTED_LINES: Final = 10
"""Line numbers listed in a message."""


class Edit(Struct, frozen=True):
    """A replacement of the only occurrence of a text, or of all."""

    old_text: str
    new_text: str
    replace_all: bool = False


def apply(document: Document, edits: Sequence[Edit]) -> Document:
    """The document after the edits, each applied to the result of the previous ones."""
    for number, edit in enumerate(edits, 1):
        try:
            document = documents.change(document, spans(document, edit))
        except EditError as problem:
            raise EditError(f"edit {number} of {len(edits)}: {problem}") from None
    return document


class EditError(Exception):
    """An edit cannot be applied; the message says why."""


def spans(document: Document, edit: Edit) -> list[TextChange]:
    """The spans that an edit replaces: exact matches, or else fuzzy ones."""
    old = documents.as_lines_of(document, edit.old_text)
    new = documents.as_lines_of(document, edit.new_text)
    check(edit, old, new)
    if not new.isascii() and documents.in_another_encoding(document):
        raise EditError("the file is not UTF-8, so only ASCII can be inserted.")
    for matcher in (exact, same_lines, same_lines_indented):
        matches = matcher(document.text, old, new, edit.replace_all)
        found = list(islice(matches, MAX_REPLACED + 1 if edit.replace_all else MAX_COUNTED))
        if len(found) > 1 and not edit.replace_all:
            raise EditError(too_many(document.text, found))
        if found:
            check_size(document.text, found)
            return found
    raise EditError(not_found(document.text, old))


def check(edit: Edit, old: str, new: str) -> None:
    if not old:
        raise EditError(
            "old_text is empty: give the text to replace. "
            "To fill an empty or a new file, use write_file."
        )
    if old == new:
        why = "" if edit.old_text == edit.new_text else " except for line endings, which are kept"
        raise EditError(f"old_text and new_text are the same{why}: remove this edit.")
    if lone := documents.lone_surrogate(new):
        raise EditError(f"new_text contains a lone surrogate ({lone}), which cannot be written.")


def check_size(text: str, found: Sequence[TextChange]) -> None:
    if len(found) > MAX_REPLACED:
        raise EditError(
            f"old_text occurs more than {MAX_REPLACED:,} times: use a command such as sed."
        )
    size = len(text) + sum(len(one.new) - (one.end - one.start) for one in found)
    if size > MAX_RESULT:
        raise EditError(f"the file would have {size:,} characters; the maximum is {MAX_RESULT:,}.")


def exact(text: str, old: str, new: str, every: bool) -> Iterator[TextChange]:
    return (TextChange(at, at + len(old), new) for at in occurrences(text, old, every))


def too_many(text: str, found: Sequence[TextChange]) -> str:
    numbers = [str(text.count("\n", 0, change.start) + 1) for change in found[:MAX_LISTED_LINES]]
    times = f"{MAX_COUNTED} times or more" if len(found) >= MAX_COUNTED else f"{len(found)} times"
    where = ", ".join(dict.fromkeys(numbers)) + (", …" if len(found) > MAX_LISTED_LINES else "")
    return (
        f"old_text occurs {times} (line {where}). Include more surrounding lines to make it "
        "unique, or set replace_all."
    )


def not_found(text: str, old: str) -> str:
    if not text:
        return "old_text was not found: the file is empty. Use write_file to fill it."
    close = nearest(text.split("\n"), old_lines(old))
    if not close:
        return "old_text was not found, nor anything similar. Read the file to see its content."
    lines = "\n".join(f"{number:>5}\t{documents.shown(line)}" for number, line in close)
    advice = "Copy the text exactly."
    if "\ufffd" in old and documents.lone_surrogate(text):
        advice = (
            "A \ufffd stands for bytes that are not UTF-8 and cannot be matched: leave them out."
        )
    return f"old_text was not found. The most similar text is:\n{lines}\n{advice}"
