"""Parser for server-sent events: bytes in as they arrive, the data of each event out. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

from holdfast.kernel.errors import ProviderError

MAX_EVENT_BYTES: Final = 32 * 1024 * 1024
"""Maximum bytes of one event. A stream that exceeds it fails."""
MAX_UNFRAMED_BYTES: Final = 64 * 1024
"""Maximum bytes kept of what is not an event."""
BOM: Final = b"\xef\xbb\xbf"
"""Byte order mark, which some servers send first."""


class _Lines:
    """Splits a stream into lines, independent of where its chunks end."""

    def __init__(self, limit: int = MAX_EVENT_BYTES) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        """Pieces of the incomplete line. Joined once, when its end arrives."""
        self._data: list[bytes] = []
        """Data lines of the incomplete event."""
        self._held = 0
        """Upper bound of the bytes that arrived since the last complete event."""

    def _whole(self, data: bytes) -> list[bytes]:
        """The lines that these bytes complete; the rest is kept."""
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
    """Parses a stream into the data of its events, independent of where its chunks end.

    Names, ids and comments are dropped, because the JSON of providers names its own type. So are
    empty events, which some gateways send as keep-alives.
    """

    def __init__(self, limit: int = MAX_EVENT_BYTES) -> None:
        super().__init__(limit)
        self.unframed = bytearray()
        """What the stream contains outside its events, from the first line that looks like JSON;
        truncated."""

    def feed(self, data: bytes) -> list[bytes]:
        """The data of each event that these bytes complete."""
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
        """Data of a last event that lacks only its blank line.

        Call it when the stream has ended.
        """
        return self.feed(b"\n\n")


class NamedEvent(NamedTuple):
    """A server-sent event with its id and name."""

    id: str | None
    """Id of the event; None if it has none of its own."""
    event: str
    data: bytes


class NamedEventParser(_Lines):
    """Parses a stream into events with names and ids, for protocols that need them."""

    def __init__(self, limit: int = MAX_EVENT_BYTES) -> None:
        super().__init__(limit)
        self._id: str | None = None
        self._event = ""

    def feed(self, data: bytes) -> list[NamedEvent]:
        """Each event that these bytes complete. An event that was cut off is dropped."""
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
    """The data of an event, without line ends."""
    data = lines[0] if len(lines) == 1 else b"\n".join(lines)
    return data.rstrip(b"\r")
