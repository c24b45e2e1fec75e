"""Lines that end between words, for text that is styled and still arriving."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.cli.run_texts import cut
from holdfast.cli.wrap import Wrap, cells, folded


def wrapped(text: str, width: int = 20) -> str:
    wrap = Wrap(width)
    return wrap.feed(text) + wrap.end()


def test_a_line_ends_between_words() -> None:
    assert wrapped("one two three four five six") == "one two three four\nfive six"


def test_a_word_that_fits_to_the_last_column_stays() -> None:
    assert wrapped("a" * 9 + " " + "b" * 10) == "a" * 9 + " " + "b" * 10
    assert wrapped("a" * 10 + " " + "b" * 10) == "a" * 10 + "\n" + "b" * 10


def test_a_word_longer_than_a_line_is_left_whole() -> None:
    assert wrapped("see " + "x" * 30 + " now") == "see\n" + "x" * 30 + "\nnow"


def test_styles_take_no_room() -> None:
    bold = "\x1b[1mone\x1b[0m \x1b[1mtwo\x1b[0m three four"
    assert wrapped(bold) == bold
    assert wrapped(bold + " five") == bold + "\nfive"


def test_more_lines_of_an_item_begin_behind_its_mark() -> None:
    assert wrapped("• one two three four five") == "• one two three four\n  five"
    assert wrapped("  12. one two three four") == "  12. one two three\n      four"
    assert wrapped("\x1b[2m│ \x1b[0mone two three four five") == (
        "\x1b[2m│ \x1b[0mone two three four\n  five"
    )


def test_an_indented_line_goes_on_where_it_began() -> None:
    assert wrapped("    one two three four") == "    one two three\n    four"


@pytest.mark.parametrize("row", ["| " + "cell | " * 9, "\x1b[2m|\x1b[0m " + "cell " * 9])
def test_a_row_of_a_table_keeps_its_line(row: str) -> None:
    assert wrapped(row + "\nafter") == row + "\nafter"


def test_code_keeps_its_lines_and_what_is_behind_it_is_wrapped() -> None:
    code = "```python\n" + "code " * 9 + "\n\n    " + "more " * 9 + "\n```\n"
    assert wrapped(code + "one two three four five") == code + "one two three four\nfive"


def test_wide_and_combining_characters_count_as_they_are_seen() -> None:
    assert cells("日本") == 4
    assert cells("e\u0301") == 1
    assert wrapped("日本語の文は空白なしで書きます") == "日本語の文は空白なし\nで書きます"


FAMILY, THUMB, NURSE = "👨\u200d👩\u200d👧", "👍🏽", "🧑\u200d⚕\ufe0f"


@pytest.mark.parametrize(
    "emoji", [FAMILY, THUMB, NURSE, "🇳🇴", "❤\ufe0f", "❤\ufe0f\u200d🔥", "1\ufe0f\u20e3"]
)
@pytest.mark.parametrize("before", range(12, 21))
def test_no_line_ends_within_an_emoji(emoji: str, before: int) -> None:
    text = f"{'a' * 8} {'b' * (before - 9)}{emoji}{emoji} c"
    assert wrapped(text).replace("\n", "").replace(" ", "") == text.replace(" ", "")
    assert sum(line.count(emoji) for line in wrapped(text).split("\n")) == 2


def test_of_an_emoji_the_most_that_a_terminal_takes_is_counted() -> None:
    assert (cells(THUMB), cells(FAMILY), cells("🇳🇴")) == (4, 6, 2)
    assert (cells("❤"), cells("❤\ufe0f"), cells("1\ufe0f\u20e3"), cells("👍\ufe0f")) == (1, 2, 2, 2)


def test_a_line_is_not_cut_within_an_emoji() -> None:
    assert cut(f"ab{FAMILY}cd", 7) == "ab…"
    assert cut(f"ab{FAMILY}cd", 10) == f"ab{FAMILY}cd"
    assert cut(f"ab{FAMILY}cde", 10) == f"ab{FAMILY}c…"


def test_a_script_without_blanks_does_not_wait_for_one() -> None:
    assert Wrap(20).feed("日本語") == "日本語"


def test_what_others_write_behind_half_a_word_is_behind_it() -> None:
    wrap = Wrap(20)
    assert wrap.feed("one tw") == "one"
    assert wrap.end() == " tw"


def test_text_that_others_wrote_into_goes_on_at_the_start_of_a_line() -> None:
    wrap = Wrap(20)
    assert wrap.feed("```\none two three fo") + wrap.pause() == "```\none two three fo"
    code = "ur five six seven eight"
    assert wrap.feed(code) == code
    assert wrap.feed("\n```\none two three fo") + wrap.pause() == "\n```\none two three fo"
    assert wrap.feed("ur five six seven") + wrap.end() == "ur five six seven"


def test_a_new_text_begins_anew() -> None:
    wrap = Wrap(20)
    wrap.feed("```\ncode  ")
    wrap.end()
    assert wrap.feed("one two three four five") + wrap.end() == "one two three four\nfive"


PIECES = st.lists(
    st.sampled_from(["word", " ", "  ", "\n", "• ", "```", "| x |", "\x1b[1m", "\x1b[0m", "日本"])
    | st.sampled_from([FAMILY, "\u200d"])
    | st.text(st.characters(exclude_characters="\x1b"), max_size=6),
    max_size=30,
)


@given(PIECES)
def test_only_blanks_become_line_ends(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert re.sub(r"[ \n]+", "", wrapped(text)) == re.sub(r"[ \n]+", "", text)


@given(PIECES)
def test_it_does_not_matter_in_which_pieces_text_comes(pieces: list[str]) -> None:
    wrap = Wrap(20)
    assert "".join(map(wrap.feed, pieces)) + wrap.end() == wrapped("".join(pieces))


@given(PIECES, st.integers(20, 60))
def test_no_line_with_several_words_is_too_wide(pieces: list[str], width: int) -> None:
    text = "".join(pieces).replace("`", "").replace("|", "")
    text = text.replace("\u200d", "")  # what it joins is often narrower than it is counted
    for line in wrapped(text, width).split("\n"):
        plain = re.sub(r"\x1b\[[0-9;]*m", "", line).strip(" ")
        if " " in plain and not re.match(r"[•│]|\d+[.)]", plain):
            assert cells(line.rstrip(" ")) <= width


def test_a_line_that_goes_on_after_others_have_written_begins_with_its_word() -> None:
    wrap = Wrap(20)
    assert wrap.feed("one two") + wrap.pause() == "one two"
    assert wrap.feed(" three") + wrap.end() == "three"


def test_what_a_line_is_set_in_stays_when_others_wrote_before_it() -> None:
    wrap = Wrap(20)
    assert wrap.feed("one\n") + wrap.pause() == "one\n"
    assert wrap.feed("  two") + wrap.end() == "  two"


def test_more_lines_of_a_folded_line_are_set_in() -> None:
    assert folded("· waits for its turn: say thanks", 20) == [
        "· waits for its",
        "  turn: say thanks",
    ]
    assert folded("  12 three four five six", 20) == ["  12 three four five", "    six"]
    assert folded("", 20) == [""]
