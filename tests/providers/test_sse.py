"""Server-sent events, wherever their bytes are cut."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.kernel.errors import ProviderError
from holdfast.providers.sse import MAX_UNFRAMED_BYTES, EventParser

TEXTS = st.text(st.characters(blacklist_characters="\r\n", codec="utf-8"), min_size=1).filter(
    lambda text: not text.startswith(" ")
)


def split(*pieces: bytes) -> list[bytes]:
    events = EventParser()
    found = [event for piece in pieces for event in events.feed(piece)]
    return found + events.end()


@pytest.mark.parametrize(
    ("stream", "found"),
    [
        (b"data: one\n\ndata: two\n\n", [b"one", b"two"]),
        (b"data:one\n\n", [b"one"]),
        (b"data: one\r\n\r\ndata: two\r\n\r\n", [b"one", b"two"]),
        (b"event: x\nid: 7\nretry: 5\ndata: one\n\n", [b"one"]),
        (b": a comment\n\ndata: one\n\n: another\n\n", [b"one"]),
        (b"data: one\ndata: two\n\n", [b"one\ntwo"]),
        (b"data: one\n\n\n\ndata: two\n\n", [b"one", b"two"]),
        (b"data: one\n\ndata: two\n", [b"one", b"two"]),
        (b"data: one\n\ndata: two", [b"one", b"two"]),
        (b"database: no\n\n", []),
        (b"data:\n\ndata: \r\n\r\ndata: one\n\n", [b"one"]),
        (b"data\n\n", []),
        (b"\xef\xbb\xbfdata: one\n\n", [b"one"]),
        (b"", []),
    ],
)
def test_the_data_of_each_event_is_found(stream: bytes, found: list[bytes]) -> None:
    assert split(stream) == found


@given(st.lists(TEXTS, max_size=6), st.lists(st.integers(0, 400), max_size=12), st.booleans())
def test_it_does_not_matter_where_the_bytes_are_cut(
    texts: list[str], cuts: list[int], windows: bool
) -> None:
    end = "\r\n" if windows else "\n"
    stream = "".join(f"event: x{end}data: {text}{end}{end}" for text in texts).encode()
    places = sorted({0, *(cut for cut in cuts if cut < len(stream)), len(stream)})
    pieces = [stream[a:b] for a, b in itertools.pairwise(places)]
    assert split(*pieces) == [text.encode() for text in texts] == split(stream)


@pytest.mark.parametrize("piece", [b"x" * 10, b"data: x\n", b"data:\n"])
def test_an_event_without_an_end_is_given_up_at_the_limit(piece: bytes) -> None:
    events = EventParser(limit=100)
    with pytest.raises(ProviderError, match="longer than 100 bytes") as caught:
        for _ in range(200):
            events.feed(piece)
    assert caught.value.kind == "stream_too_long"


def test_many_short_events_are_not_one_long_one() -> None:
    events = EventParser(limit=100)
    assert sum(len(events.feed(b"data: abc\n\n")) for _ in range(1_000)) == 1_000


def test_a_stream_that_is_kept_alive_for_ever_holds_nothing() -> None:
    events = EventParser(limit=100)
    assert not any(events.feed(b": still here\n\n") for _ in range(1_000))


def test_many_lines_of_one_event_cost_no_more_than_their_length() -> None:
    events = EventParser()
    began = time.process_time()
    for _ in range(200_000):
        events.feed(b"data: x\n")
    assert len(events.feed(b"\n")[0]) == 399_999
    assert time.process_time() - began < 5


def test_a_long_line_in_small_pieces_costs_no_more_than_its_length() -> None:
    """Joining what is there at each piece would cost its square: minutes, for this one."""
    events = EventParser()
    began = time.process_time()
    events.feed(b"data: ")
    for _ in range(200_000):
        events.feed(b"x" * 50)
    assert len(events.feed(b"\n\n")[0]) == 10_000_000
    assert time.process_time() - began < 5


def test_what_is_no_event_is_kept_from_where_it_looks_like_json_up_to_a_limit() -> None:
    events = EventParser()
    assert events.feed(b'event: x\nnoise\n{\n  "a": 1\n') == []
    assert events.feed(b"}\n\ndata: one\n\n") == [b"one"]
    assert events.unframed == b'{  "a": 1}'
    events.feed(b"x" * 2 * MAX_UNFRAMED_BYTES + b"\n" + b"y\n" * MAX_UNFRAMED_BYTES)
    assert len(events.unframed) == MAX_UNFRAMED_BYTES
