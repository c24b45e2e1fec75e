"""Escapes: nothing in a text of others hides, gives orders or forges a line."""

from __future__ import annotations

import pytest

from holdfast.kernel.escape import escape, escape_controls, escape_line


@pytest.mark.parametrize("function", [escape, escape_line, escape_controls])
def test_plain_text_stays_as_it_is(function: object) -> None:
    assert callable(function)
    assert function("a\tb — ünïcode \U0001f468\u200d\U0001f469") == (
        "a\tb — ünïcode \U0001f468\u200d\U0001f469"
    )


def test_what_a_terminal_obeys_is_spelled() -> None:
    assert escape_controls("\x1b[2J\x07\x9b1m\r\x7f\ud800") == (
        "\\x1b[2J\\x07\\x9b1m\\x0d\\x7f\\ud800"
    )


def test_line_ends_of_windows_are_line_ends() -> None:
    assert escape("a\r\nb\x1b") == escape_controls("a\r\nb\x1b") == "a\nb\\x1b"


def test_marks_of_direction_are_spelled_but_for_prose() -> None:
    assert escape("a\u202eb\u2066c") == "a\\u202eb\\u2066c"
    assert escape_controls("a\u200fb") == "a\u200fb"


def test_a_line_stays_one() -> None:
    assert escape_line("a\nb\r\nc\u2028d") == "a\\nb\\nc\\u2028d"
