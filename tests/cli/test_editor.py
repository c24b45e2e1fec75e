"""What somebody types becomes a line."""

from __future__ import annotations

import pytest

from holdfast.cli.editor import Editor, Ended, Happening, Sent, Stopped

LEFT, RIGHT, UP, DOWN = "\x1b[D", "\x1b[C", "\x1b[A", "\x1b[B"


def typed(*keys: str) -> Editor:
    editor = Editor()
    for key in keys:
        press(editor, key)
    return editor


def press(editor: Editor, keys: str) -> list[Happening]:
    return list(editor.feed(keys.encode()))


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (["grüße 你"], "grüße 你"),
        (["abc", "\x7f"], "ab"),
        (["\x7f", "\x1b[3~", LEFT, RIGHT, "a"], "a"),
        (["ac", LEFT, "b"], "abc"),
        (["abc", "\x01", "\x1b[3~"], "bc"),
        (["bc", "\x1b[H", "a", "\x1b[F", "d"], "abcd"),
        (["one two", "\x17"], "one "),
        (["one two  ", "\x17"], "one "),
        ([" ", "\x17"], ""),
        (["one two", LEFT, LEFT, LEFT, "\x15"], "two"),
        (["one two", LEFT, LEFT, LEFT, "\x0b"], "one "),
        (["a", "\x1b\r", "b"], "a\nb"),
        (["a", "\x1bx", "\x1b[15~", "\x00", "b"], "ab"),
        (["a", "\x04"], "a"),
    ],
)
def test_keys_edit_the_line(keys: list[str], text: str) -> None:
    assert typed(*keys).text == text


def test_enter_sends_the_line_and_begins_another() -> None:
    editor = Editor()
    assert press(editor, "one\rtwo\nthr") == [Sent("one"), Sent("two")]
    assert editor.text == "thr"


def test_the_end_of_the_input_is_only_that_of_an_empty_line() -> None:
    (ended,) = press(Editor(), "\x04")
    assert isinstance(ended, Ended)
    assert press(typed("ab", "\x01"), "\x04") == []


def test_ctrl_c_comes_in_its_place_among_the_keys() -> None:
    editor = Editor()
    for what in editor.feed(b"wrong\x03right\r"):
        if isinstance(what, Stopped):
            editor.clear()
        else:
            assert what == Sent("right")


def test_characters_and_keys_may_arrive_in_pieces() -> None:
    editor = Editor()
    for byte in "ü\x1b[Dx\x1b[200~1\n2\x1b[201~".encode():
        assert list(editor.feed(bytes([byte]))) == []
    assert editor.text == "x1\n2ü"


def test_what_is_pasted_is_not_sent_line_by_line_and_gives_no_orders() -> None:
    editor = Editor()
    assert press(editor, "\x1b[200~one\r\ntwo\x07\tx\n\x1b[201~") == []
    assert editor.text == "one\ntwo    x"
    assert press(editor, "\r") == [Sent("one\ntwo    x")]


def test_what_was_said_can_be_had_again() -> None:
    editor = typed("one\r", "two\r", "two\r", " \r", "draft")
    seen = []
    for key in (UP, UP, UP, DOWN, DOWN, DOWN):
        press(editor, key)
        seen.append(editor.text)
    assert seen == ["two", "one", "one", "two", "draft", "draft"]


def test_of_a_long_line_the_part_around_the_cursor_is_shown() -> None:
    editor = typed("0123456789")
    assert editor.shown(20) == ("0123456789", 0)
    assert editor.shown(5) == ("6789", 0)
    press(editor, LEFT * 2)
    assert editor.shown(20) == ("0123456789", 2)
    press(editor, "\x01")
    assert editor.shown(5) == ("01234", 5)
    assert typed("你好\x1b\r", LEFT).shown(20) == ("你好⏎", 1)


def test_a_line_can_be_taken_back() -> None:
    editor = typed("some")
    assert (editor.clear(), editor.text, editor.clear()) == (True, "", False)
