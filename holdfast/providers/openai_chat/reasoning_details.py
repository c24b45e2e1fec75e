"""Joins the pieces of OpenRouter's `reasoning_details`, to send them back whole. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

ReasoningDetail = dict[str, Any]

_TEXT_FIELDS: Final = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""Types that arrive in pieces, and the field that is in pieces."""


def detail_text(detail: Any) -> str:
    """Readable text of a detail."""
    if not isinstance(detail, Mapping):
        return ""
    text = detail.get("text") or detail.get("summary")
    return text if isinstance(text, str) else ""


def add_detail(details: list[ReasoningDetail], new: Any) -> None:
    """Add a detail, or a piece of an earlier one."""
    if not isinstance(new, Mapping):
        return
    # More text belongs to the last detail. A signature alone may arrive after other details.
    candidates = details[-1:] if detail_text(new) else details[::-1]
    old = next((detail for detail in candidates if _continues(detail, new)), None)
    if old is None:
        details.append(dict(new))
        return
    whole = detail_text(old) + detail_text(new)
    old |= {key: value for key, value in new.items() if value is not None}
    old[_TEXT_FIELDS[str(new["type"])]] = whole


def _continues(detail: ReasoningDetail, new: Mapping[str, Any]) -> bool:
    """Whether `new` continues a detail.

    Nothing continues a signed detail: the signature covers all of it.
    """
    if str(new.get("type")) not in _TEXT_FIELDS or detail.get("signature"):
        return False
    if any(detail.get(key) != new.get(key) for key in ("type", "index")):
        return False
    old_id, new_id = detail.get("id"), new.get("id")
    return old_id == new_id or old_id is None or new_id is None  # not every piece has the id
