"""Separates reasoning in `<think>…</think>` from the text after it. Pure."""

from __future__ import annotations

from typing import Final, Literal

from holdfast.kernel.model import ReasoningDelta, TextDelta

OPEN_TAG: Final = "<think>"
CLOSE_TAG: Final = "</think>"


class ThinkTags:
    """Splits text into reasoning and answer; the pieces may be cut anywhere, also inside a tag.

    The tag counts only at the very beginning: later it may be what the answer is about.
    """

    def __init__(self) -> None:
        self._state: Literal["before", "thinking", "after", "text"] = "before"
        self._held = ""
        """Text that may be a part of a tag, or be followed by one."""

    def feed(self, text: str) -> list[TextDelta | ReasoningDelta]:
        """The deltas of the next piece of text."""
        if self._state == "text":
            return [TextDelta(text)]
        self._held += text
        deltas: list[TextDelta | ReasoningDelta] = []
        if self._state == "before":
            self._detect_opening_tag()
        if self._state == "thinking":
            self._think(deltas)
        if self._state == "after":  # drop blank lines between the reasoning and the text
            self._held = self._held.lstrip()
            if self._held:
                self._state = "text"
        if self._state == "text" and self._held:
            deltas.append(TextDelta(self._held))
            self._held = ""
        return deltas

    def end(self) -> list[TextDelta | ReasoningDelta]:
        """Deltas of the text that was held back, at the end of the stream."""
        held, self._held = self._held, ""
        if not held:
            return []
        return [ReasoningDelta(held) if self._state == "thinking" else TextDelta(held)]

    def _detect_opening_tag(self) -> None:
        start = self._held.lstrip()
        if start.startswith(OPEN_TAG):
            self._state = "thinking"
            self._held = start.removeprefix(OPEN_TAG)
        elif not OPEN_TAG.startswith(start):
            self._state = "text"

    def _think(self, deltas: list[TextDelta | ReasoningDelta]) -> None:
        thoughts, tag, rest = self._held.partition(CLOSE_TAG)
        if tag:
            self._state = "after"
            self._held = rest
        else:
            held_length = _half_tag(thoughts)
            self._held = thoughts[len(thoughts) - held_length :]
            thoughts = thoughts[: len(thoughts) - held_length]
        if thoughts:
            deltas.append(ReasoningDelta(thoughts))


def _half_tag(text: str) -> int:
    """Number of characters at the end that may begin the closing tag."""
    for size in range(min(len(text), len(CLOSE_TAG) - 1), 0, -1):
        if CLOSE_TAG.startswith(text[-size:]):
            return size
    return 0
