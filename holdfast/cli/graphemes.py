"""Graphemes: what users see as one letter, though it may be several code points."""

from __future__ import annotations

from typing import Final
from unicodedata import category

JOINER: Final = "\u200d"
JOINERS: Final = f"\u200c{JOINER}"
"""Invisible but significant: one joins emoji, the other separates Persian letters."""
TONES: Final = "\U0001f3fb-\U0001f3ff"
"""Skin tone modifiers, which follow their emoji. As a range of a regular expression."""
_FIRST_TONE, _, _LAST_TONE = TONES


def letters(text: str) -> list[str]:
    if text.isascii():
        return list(text)
    found: list[str] = []
    for character in text:
        if found and _goes_with(found[-1], character):
            found[-1] += character
        else:
            found.append(character)
    return found


def _goes_with(letter: str, character: str) -> bool:
    kind = category(character)
    if kind in ("Mn", "Mc", "Me") or character in JOINERS:
        return True
    if _FIRST_TONE <= character <= _LAST_TONE:
        return True
    if letter[-1] == JOINER:
        return kind in ("So", "Sm")  # a symbol; a letter starts a new grapheme
    return _is_half_a_flag(character) and len(letter) == 1 and _is_half_a_flag(letter)


def _is_half_a_flag(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"
