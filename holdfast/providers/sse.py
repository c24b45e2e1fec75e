"""Parser for server-sent events: bytes in as they arrive, the data of each event out. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from holdfast.kernel.errors import ProviderError

MAX_EVENT_BYTES: Final = 32 * 1024 * 1024
"""Bytes of one event. Whoever sends more without an end sends none."""
MAX_UNFRAMED_BYTES: Final = 64 * 1024
"""Bytes that are kept of what is no event."""
BOM: Final = b"\xef\xbb\xbf"
"""Some put it before everything else."""


class _Lines:
    """Splits a stream into its lines, wherever its pieces are cut."""

    def __init__(self, limit: int = MAX_EVENT_BYTES) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        """Of the line that has no end yet. Joined once, when its end is there."""
        self._data: list[bytes] = []
        """Lines of the event that has no end yet."""
        self._held = 0
        """Bytes that have arrived since the last whole event, at the most."""

    def _whole(self, data: bytes) -> list[bytes]:
        """The lines that are complete with these bytes; what is left is kept."""
        lines = data.split(b"\n")
        rest = lines.pop()
        if self._pieces and lines:
            self._pieces.append(lines[0])
            lines[0] = b"".join(self._pieces)
            self._pieces = []
        if rest:
            self._pieces.append(rest)
        return lines

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


class EventParser(_Lines):
    """Splits a stream into its events, wherever its pieces are cut.

    Names, ids and comments are left out: what providers send says its own type. So are events
    without a word, by which some gateways show that they are alive.
    """

    def __init__(self, limit: int = MAX_EVENT_BYTES) -> None:
        super().__init__(limit)
        self.unframed = bytearray()
        """What was written into the stream without being an event, from where it began like JSON:
        its lines, as far as anybody wants to know."""

    def feed(self, data: bytes) -> list[bytes]:
        """The data of each event that is complete with these bytes."""
        events: list[bytes] = []
        lines = self._data
        for line in self._whole(data):
            if line[:6] == b"data: ":
                lines.append(line[6:])
            elif not line or line == b"\r":
                if lines:
                    if event := _data(lines):
                        events.append(event)
                    lines.clear()
            elif line[:5] == b"data:":
                lines.append(line[5:])
            elif line[:9] == BOM + b"data: ":
                lines.append(line[9:])
            elif self.unframed or line[:1] in (b"{", b"["):
                self.unframed += line[: MAX_UNFRAMED_BYTES - len(self.unframed)]
        self._count(len(data), bool(events))
        return events

    def end(self) -> list[bytes]:
        """What is left when the stream has ended: an event that lacks only its blank line."""
        return self.feed(b"\n\n")


class NamedEvent(NamedTuple):
    """An event with all that it says."""

    id: str | None
    """None when it has none of its own."""
    event: str
    data: bytes


class NamedEventParser(_Lines):
    """The same with names and ids, for streams that need them to be understood."""

    def __init__(self, limit: int = MAX_EVENT_BYTES) -> None:
        super().__init__(limit)
        self._id: str | None = None
        self._event = ""

    def feed(self, data: bytes) -> list[NamedEvent]:
        """Each event that is complete with these bytes. One that was cut off is none."""
        events: list[NamedEvent] = []
        for line in self._whole(data):
            name, _, value = line.rstrip(b"\r").partition(b":")
            value = value.removeprefix(b" ")
            if not line.rstrip(b"\r"):
                events += self._ended()
            elif name == b"data":
                self._data.append(value)
            elif name == b"event":
                self._event = value.decode(errors="replace")
            elif name == b"id":
                self._id = value.decode(errors="replace")
        self._count(len(data), bool(events))
        return events

    def _ended(self) -> list[NamedEvent]:
        data, id, event = b"\n".join(self._data), self._id, self._event
        has_data = bool(self._data)
        self._data.clear()
        self._id, self._event = None, ""
        return [NamedEvent(id, event or "message", data)] if has_data else []


def _data(lines: list[bytes]) -> bytes:
    """The data of an event, without what belongs to the ends of its lines."""
    data = lines[0] if len(lines) == 1 else b"\n".join(lines)
    return data.rstrip(b"\r")
