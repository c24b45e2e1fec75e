"""Bytes of a file, the text in them, and the bytes again."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.tools.files.text_file import (
    Document,
    TextChange,
    as_lines_of,
    change,
    decode,
    encode,
    is_binary,
    lone_surrogate,
    rewritten,
    shown,
)

BOM = b"\xef\xbb\xbf"


def document(data: bytes) -> Document:
    made = decode(data)
    assert made is not None
    return made


# --- there and back -----------------------------------------------------------------------------


@given(st.binary() | st.text().map(str.encode) | st.text().map(lambda t: t.encode("utf-16")))
@example(b"a\r\n\r\r\nb\rc\n")
@example(b"caf\xe9\r\n")
@example(b"\xff\xfe\x00\xd8a\x00")  # half a pair
def test_what_was_not_changed_is_written_as_it_was_read(data: bytes) -> None:
    made = decode(data)
    if made is not None:
        assert encode(made) == data
        assert len(made.endings) == made.text.count("\n")


@pytest.mark.parametrize(
    ("data", "text", "style"),
    [
        (b"", "", None),
        (b"a", "a", None),
        (b"a\nb\n", "a\nb\n", "LF"),
        (b"a\r\nb\r\n", "a\nb\n", "CRLF"),
        (b"a\rb", "a\nb", "CR"),
        (b"a\r\nb\n", "a\nb\n", "mixed"),
        (BOM + b"a\n", "a\n", "LF"),
        ("\ufeffé\r\n".encode("utf-16-le"), "é\n", "CRLF"),
        ("\ufeffé\n".encode("utf-16-be"), "é\n", "LF"),
        ("a\x0bb\x0c\u2028c\x85\n".encode(), "a\x0bb\x0c\u2028c\x85\n", "LF"),
    ],
)
def test_lines_end_in_one_way_in_the_text(data: bytes, text: str, style: str | None) -> None:
    made = document(data)
    assert (made.text, made.style) == (text, style)


def test_a_cr_beside_lf_is_a_character_so_that_lines_are_counted_as_others_count_them() -> None:
    assert document(b"10%\r20%\rdone\nnext\n").text == "10%\r20%\rdone\nnext\n"


@pytest.mark.parametrize(
    "data",
    [
        b"a\0b",
        b"\x7fELF\x02\x01\x01\0",
        bytes(range(1, 32)) * 4,
        b"\xff\xfea",  # half a character of UTF-16
        b"\xff\xfe\0\0a\0\0\0",  # UTF-32
    ],
)
def test_what_is_no_text_is_not_taken_for_one(data: bytes) -> None:
    assert decode(data) is None


def test_text_may_have_a_few_control_characters_and_any_bytes_beyond_ascii() -> None:
    assert not is_binary(b"\x1b[1mbold\x1b[0m\x07\n" * 2)
    assert not is_binary("Всё хорошо, прекрасная маркиза.\n".encode("koi8-r") * 20)


# --- changes ------------------------------------------------------------------------------------


def changed(data: bytes, *changes: tuple[str, str]) -> bytes:
    """The bytes after putting some texts in the place of others, given in their order."""
    made = document(data)
    at = 0
    spans = []
    for old, new in changes:
        at = made.text.index(old, at)
        spans.append(TextChange(at, at + len(old), new))
        at += len(old)
    return encode(change(made, spans))


@pytest.mark.parametrize(
    ("data", "old", "new", "expected"),
    [
        (b"a\r\nb\r\nc\r\n", "b\n", "x\ny\n", b"a\r\nx\r\ny\r\nc\r\n"),
        (b"a\nb\r\nc\n", "b", "b\nx", b"a\nb\r\nx\r\nc\n"),
        (b"a\nb\r\nc\n", "a", "a\nx", b"a\nx\nb\r\nc\n"),
        (b"a\r\nb", "b", "b\nx", b"a\r\nb\r\nx"),  # as the line before
        (b"a\rb\r", "b", "b\nx", b"a\rb\rx\r"),
        (b"a", "a", "a\nx", b"a\nx"),
        (BOM + b"a\n", "a", "b", BOM + b"b\n"),
        (b"\xe9 a \xe9\n", "a", "\N{SNOWMAN}", b"\xe9 \xe2\x98\x83 \xe9\n"),
    ],
)
def test_new_lines_end_as_those_around_them(
    data: bytes, old: str, new: str, expected: bytes
) -> None:
    assert changed(data, (old, new)) == expected


def test_lines_that_old_and_new_have_in_common_keep_their_endings() -> None:
    data = b"a\r\nb\nc\r\nd\n"
    assert changed(data, ("a\nb\nc\nd\n", "a\nx\nc\nd\n")) == b"a\r\nx\nc\r\nd\n"


def test_several_changes_are_made_at_once() -> None:
    data = b"a\r\nb\nc\r\nd\n"
    assert changed(data, ("a\n", ""), ("c", "x\ny")) == b"b\nx\r\ny\r\nd\n"


LINES = st.lists(st.tuples(st.text("ab ", max_size=3), st.sampled_from(["\n", "\r\n"])), max_size=6)


@given(LINES, st.text("ab", max_size=2), st.data())
def test_every_byte_outside_of_a_change_stays_as_it_was(
    lines: list[tuple[str, str]], last: str, data: st.DataObject
) -> None:
    raw = "".join(line + ending for line, ending in lines) + last
    pieces = [*(piece for line, ending in lines for piece in (*line, ending)), *last]
    start = data.draw(st.integers(0, len(pieces)))
    end = data.draw(st.integers(start, len(pieces)))
    new = data.draw(st.text("abx\n", max_size=4))

    made = encode(change(document(raw.encode()), [TextChange(start, end, new)])).decode()

    before, after = "".join(pieces[:start]), "".join(pieces[end:])
    assert made.startswith(before)
    assert made.endswith(after)
    middle = made[len(before) : len(made) - len(after)]
    assert middle.replace("\r\n", "\n") == new


# --- all of the text ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "content", "expected"),
    [
        (None, "a\nb\r\n", b"a\nb\r\n"),
        (None, "\ufeffa", BOM + b"a"),
        (b"", "a\n", b"a\n"),
        (b"x\n", "a\n", b"a\n"),
        (b"x\r\ny\r\n", "a\nb", b"a\r\nb"),
        (b"x\r\n", "a\r\nb\n", b"a\r\nb\n"),  # brings its own
        (b"x\ry\r", "a\nb\n", b"a\rb\r"),
        (b"x\r\ny\n", "a\nb\n", b"a\nb\n"),  # of two minds: as given
        (BOM + b"x\n", "a\n", BOM + b"a\n"),
        (BOM + b"x\n", "\ufeffa\n", BOM + b"a\n"),
        ("\ufeffx\r\n".encode("utf-16-le"), "é\n", "\ufeffé\r\n".encode("utf-16-le")),
        (b"caf\xe9\n", "café\n", "café\n".encode()),
        (b"\0binary", "a\n", b"a\n"),
    ],
)
def test_a_rewritten_file_keeps_what_its_writer_was_not_shown(
    old: bytes | None, content: str, expected: bytes
) -> None:
    assert encode(rewritten(None if old is None else decode(old), content)) == expected


def test_what_was_given_with_crlf_is_found_in_any_file() -> None:
    assert as_lines_of(document(b"a\r\nb\n"), "a\r\nb") == "a\nb"
    assert as_lines_of(document(b"a\rb\r"), "a\rb") == "a\nb"
    assert as_lines_of(document(b"1%\r2%\n"), "1%\r2%") == "1%\r2%"


def test_halves_of_characters_are_named_and_not_shown() -> None:
    assert lone_surrogate("a\ud800b") == "U+D800"
    assert lone_surrogate("a\N{SNOWMAN}\N{GRINNING FACE}") is None
    assert shown(document(b"caf\xe9 \xe2\x98\x83\n").text) == "caf\ufffd \N{SNOWMAN}\n"
