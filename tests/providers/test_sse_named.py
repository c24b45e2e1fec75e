"""Events with their names and ids, wherever the stream is cut."""

from __future__ import annotations

import pytest

from holdfast.kernel.errors import ProviderError
from holdfast.providers.sse import NamedEvent, NamedEventParser

STREAM = (
    b"id: 1.0\nevent: chat\ndata: {}\n\n"
    b":\n\n"
    b"event: end\r\ndata: one\r\ndata:two\r\n\r\n"
    b"id: lost\n\n"
    b"data: bare\n: said in between\nretry: 5\n\n"
    b"id: 9\nevent: message\ndata: cut off"
)
EVENTS = [
    NamedEvent("1.0", "chat", b"{}"),
    NamedEvent(None, "end", b"one\ntwo"),
    NamedEvent(None, "message", b"bare"),
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1_000])
def test_events_are_whole_however_they_arrive(size: int) -> None:
    splitter = NamedEventParser()
    pieces = [STREAM[at : at + size] for at in range(0, len(STREAM), size)]
    assert [event for piece in pieces for event in splitter.feed(piece)] == EVENTS


def test_an_event_without_an_end_is_given_up() -> None:
    splitter = NamedEventParser(limit=100)
    with pytest.raises(ProviderError, match="longer than 100 bytes"):
        for _ in range(20):
            splitter.feed(b"data: 12345\n")
