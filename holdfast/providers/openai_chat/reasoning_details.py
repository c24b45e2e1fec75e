"""OpenRouter's `reasoning_details`: joins their pieces, to send them back whole.
Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Detail = dict[str, Any]

_TEXTS: Final = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""Those that come in pieces, and the field that is in pieces."""


def text_of(detail: Any) -> str:
    """What people can read of a detail."""
    if not isinstance(detail, Mapping):
        return ""
    text = detail.get("text") or detail.get("summary")
    return text if isinstance(text, str) else ""


def add(details: list[Detail], new: Any) -> None:
    """Take in a detail, or a piece of one that is there."""
    if not isinstance(new, Mapping):
        return
    # More text belongs to the last detail. A signature alone may come when others have followed.
    candidates = details[-1:] if text_of(new) else details[::-1]
    old = next((detail for detail in candidates if _goes_on(detail, new)), None)
    if old is None:
        details.append(dict(new))
        return
    whole = text_of(old) + text_of(new)
    old |= {key: value for key, value in new.items() if value is not None}
    old[_TEXTS[str(new["type"])]] = whole


def _goes_on(detail: Detail, new: Mapping[str, Any]) -> bool:
    """Whether `new` is a piece of a detail. Nothing follows a signature: it is for the whole."""
    if str(new.get("type")) not in _TEXTS or detail.get("signature"):
        return False
    if any(detail.get(key) != new.get(key) for key in ("type", "index")):
        return False
    old, given = detail.get("id"), new.get("id")
    return old == given or old is None or given is None  # not every piece has to say it
