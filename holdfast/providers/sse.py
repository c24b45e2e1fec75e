"""Server-sent events: bytes in, as they arrive, and the data of each event out. Pure."""

from __future__ import annotations

from typing import Final

from holdfast.kernel.errors import ProviderError

MAX_EVENT: Final = 32 * 1024 * 1024
"""Bytes of one event. Whoever sends more without an end sends none."""
BOM: Final = b"\xef\xbb\xbf"
"""Some put it before everything else."""


class Events:
    """Splits a stream into its events, wherever its pieces are cut.

    Names, ids and comments are left out: what providers send says its own type.
    """

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        """Of the line that has no end yet. Joined once, when its end is there."""
        self._data: list[bytes] = []
        """Lines of the event that has no end yet."""
        self._held = 0
        """Bytes that have arrived since the last whole event, at the most."""

    def feed(self, data: bytes) -> list[bytes]:
        """The data of each event that is complete with these bytes."""
        lines = data.split(b"\n")
        rest = lines.pop()
        if self._pieces and lines:
            self._pieces.append(lines[0])
            lines[0] = b"".join(self._pieces)
            self._pieces = []
        events: list[bytes] = []
        held = self._data
        for line in lines:
            if line[:6] == b"data: ":
                held.append(line[6:])
            elif not line or line == b"\r":
                if held:
                    events.append(_data(held))
                    held.clear()
            elif line[:5] == b"data:":
                held.append(line[5:])
            elif line[:9] == BOM + b"data: ":
                held.append(line[9:])
        if rest:
            self._pieces.append(rest)
        self._count(len(data), bool(events))
        return events

    def _count(self, arrived: int, complete: bool) -> None:
        if complete:
            self._held = 0
        if not (self._pieces or self._data):
            self._held = 0
            return
        self._held += arrived
        if self._held > self._limit:
            raise ProviderError(
                f"one event of the stream is longer than {self._limit} bytes",
                kind="stream_too_long",
            )

    def end(self) -> list[bytes]:
        """What is left when the stream has ended: an event that lacks only its blank line."""
        return self.feed(b"\n\n")


def _data(lines: list[bytes]) -> bytes:
    """The data of an event, without what belongs to the ends of its lines."""
    data = lines[0] if len(lines) == 1 else b"\n".join(lines)
    return data.rstrip(b"\r")
