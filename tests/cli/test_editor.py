"""What somebody types becomes a line."""

from __future__ import annotations

import pytest

from holdfast.cli.editor import Editor, InputEnded, InputEvent, InterruptPressed, LineEntered

LEFT, RIGHT, UP, DOWN = "\x1b[D", "\x1b[C", "\x1b[A", "\x1b[B"


def typed(*keys: str) -> Editor:
    editor = Editor()
    for key in keys:
        press(editor, key)
    return editor


def press(editor: Editor, keys: str) -> list[InputEvent]:
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
    assert press(editor, "one\rtwo\nthr") == [LineEntered("one"), LineEntered("two")]
    assert editor.text == "thr"


def test_the_end_of_the_input_is_only_that_of_an_empty_line() -> None:
    (ended,) = press(Editor(), "\x04")
    assert isinstance(ended, InputEnded)
    assert press(typed("ab", "\x01"), "\x04") == []


def test_ctrl_c_comes_in_its_place_among_the_keys() -> None:
    editor = Editor()
    for what in editor.feed(b"wrong\x03right\r"):
        if isinstance(what, InterruptPressed):
            editor.clear()
        else:
            assert what == LineEntered("right")


def test_characters_and_keys_may_arrive_in_pieces() -> None:
    editor = Editor()
    for byte in "ü\x1b[Dx\x1b[200~1\n2\x1b[201~".encode():
        assert list(editor.feed(bytes([byte]))) == []
    assert editor.text == "x1\n2ü"


def test_what_is_pasted_is_not_sent_line_by_line_and_gives_no_orders() -> None:
    editor = Editor()
    assert press(editor, "\x1b[200~one\r\ntwo\x07\tx\n\x1b[201~") == []
    assert editor.text == "one\ntwo    x"
    assert press(editor, "\r") == [LineEntered("one\ntwo    x")]


def test_what_was_said_can_be_had_again() -> None:
    editor = typed("one\r", "two\r", "two\r", " \r", "draft")
    seen = []
    for key in (UP, UP, UP, DOWN, DOWN, DOWN):
        press(editor, key)
        seen.append(editor.text)
    assert seen == ["two", "one", "one", "two", "draft", "draft"]


def test_of_a_long_line_the_part_around_the_cursor_is_shown() -> None:
    editor = typed("0123456789")
    assert editor.shown(20) == ("0123456789", "")
    assert editor.shown(5) == ("6789", "")
    press(editor, LEFT * 2)
    assert editor.shown(20) == ("01234567", "89")
    press(editor, "\x01")
    assert editor.shown(5) == ("", "01234")
    assert typed("你好\x1b\r", LEFT).shown(20) == ("你好", "⏎")
    assert typed("你好你好", LEFT).shown(4) == ("你", "好")
    assert typed("你好你好", LEFT).shown(3) == ("你", "")


FAMILY, THUMB, FLAG, HEART = "👨\u200d👩\u200d👧", "👍🏽", "🇳🇴", "❤\ufe0f"


@pytest.mark.parametrize(
    "letter", [FAMILY, THUMB, FLAG, HEART, "e\u0301", "🏳\ufe0f\u200d🌈", "1\ufe0f\u20e3"]
)
def test_what_is_seen_as_one_letter_is_one_to_the_keys(letter: str) -> None:
    assert typed(f"a{letter}b", LEFT, "\x7f").text == "ab"
    assert typed(f"a{letter}b", LEFT, LEFT, "\x1b[3~").text == "ab"
    assert typed(f"{letter}{letter}", LEFT, "x").text == f"{letter}x{letter}"
    assert typed(f"{letter}{letter}", "\x01", RIGHT, "x").text == f"{letter}x{letter}"
    assert typed(f"{letter}{letter}\r", UP, "\x7f").text == letter


def test_what_is_not_seen_and_joins_letters_is_kept() -> None:
    persian = "\u0645\u06cc\u200c\u062e\u0648"
    assert typed(persian + FAMILY).text == persian + FAMILY
    assert typed(f"\x1b[200~{persian}{FAMILY}\x1b[201~").text == persian + FAMILY
    assert typed("\x1b[200~a\u202eb\u200b\x1b[201~").text == "ab"


def test_of_a_joined_letter_all_is_shown_or_nothing() -> None:
    assert typed("ab" + FAMILY, LEFT).shown(6) == ("ab", "")
    assert typed("ab" + FAMILY).shown(6) == ("", "")
    assert typed("ab" + FAMILY).shown(7) == (FAMILY, "")


def test_a_line_can_be_taken_back() -> None:
    editor = typed("some")
    assert (editor.clear(), editor.text, editor.clear()) == (True, "", False)
