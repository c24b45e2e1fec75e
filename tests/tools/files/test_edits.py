"""Edits of a text: found as it stands, or nearly so; all of them or none."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.tools.files import fuzzy_match
from holdfast.tools.files.edits import Edit, EditError, apply
from holdfast.tools.files.text_file import Document, decode, encode


def edited(text: str, *edits: tuple[Any, ...]) -> str:
    document = decode(text.encode())
    assert document is not None
    return encode(apply(document, [Edit(*edit) for edit in edits])).decode()


def refusal(text: str, *edits: tuple[Any, ...]) -> str:
    with pytest.raises(EditError) as caught:
        edited(text, *edits)
    return str(caught.value)


# --- as it stands -------------------------------------------------------------------------------


def test_the_only_place_is_replaced() -> None:
    assert edited("one two three\n", ("two", "2")) == "one 2 three\n"


def test_edits_are_made_on_what_those_before_them_left() -> None:
    assert edited("a\n", ("a", "b"), ("b", "c")) == "c\n"


def test_all_places_are_replaced_when_that_is_wanted() -> None:
    assert edited("a a\naaa\n", ("a", "bb", True)) == "bb bb\nbbbbbb\n"
    assert edited("aaa\n", ("aa", "b", True)) == "ba\n"


def test_what_is_found_as_it_stands_is_not_looked_for_otherwise() -> None:
    assert edited("  x = 1\nx = 1 \n", ("x = 1 \n", "y\n")) == "  x = 1\ny\n"


def test_text_is_deleted() -> None:
    assert edited("a\nb\nc\n", ("b\n", "")) == "a\nc\n"


def test_crlf_in_an_edit_is_found_in_any_file() -> None:
    assert edited("a\nb\n", ("a\r\nb\r\n", "x\r\ny\r\n")) == "x\ny\n"
    assert edited("a\r\nb\r\n", ("a\nb", "x\ny")) == "x\r\ny\r\n"


# --- what is refused ----------------------------------------------------------------------------


def test_the_edit_that_cannot_be_made_is_named() -> None:
    words = refusal("a\nb\n", ("a", "x"), ("nowhere", "y"), ("b", "z"))
    assert words.startswith("edit 2 of 3: old_text was not found")


def test_several_places_are_refused_with_their_lines() -> None:
    words = refusal("x\na\nx x\n", ("x", "y"))
    assert "old_text occurs 3 times (line 1, 3). " in words
    assert "replace_all" in words


def test_places_that_overlap_are_several() -> None:
    assert "occurs 2 times" in refusal("aaa\n", ("aa", "b"))


def test_very_many_places_are_not_counted_to_the_end() -> None:
    words = refusal("x\n" * 5_000, ("x", "y"))
    assert "occurs 1000 times or more (line 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, …)" in words


def test_no_text_cannot_be_replaced() -> None:
    assert "use write_file" in refusal("a\n", ("", "x"))
    assert "the file is empty. Use write_file" in refusal("", ("a", "x"))


def test_an_edit_that_changes_nothing_is_refused() -> None:
    assert "are the same: remove this edit" in refusal("a\n", ("a", "a"))
    assert "except for line endings" in refusal("a\nb\n", ("a\nb", "a\r\nb"))


def test_half_a_character_is_refused() -> None:
    assert "U+D83D" in refusal("a\n", ("a", "\ud83d"))


# --- the nearest --------------------------------------------------------------------------------


def test_the_lines_are_told_where_most_of_the_wanted_ones_are() -> None:
    text = (
        "def first():\n    return total\n\ndef second(a, b):\n    total = a + b\n    return total\n"
    )
    words = refusal(text, ("def second(a, b):\n    total = a - b\n    return total\n", "x"))
    assert "    5\t    total = a + b\n" in words
    assert "def first" not in words


def test_a_line_is_told_that_is_like_a_wanted_one() -> None:
    words = refusal("alpha\nreturn compute(value, 10)\nomega\n", ("return compute(value, 12)", "x"))
    assert "The most similar text is:\n    2\treturn compute(value, 10)\nCopy the text" in words


def test_nothing_is_told_when_nothing_is_like_it() -> None:
    words = refusal("alpha\nbeta\n", ("something else altogether", "x"))
    assert "nor anything similar" in words


def test_a_long_line_is_told_in_part() -> None:
    long = "word " * 100
    words = refusal(f"start of it\n{long}\n", (f"start of it\n{long}and more", "x"))
    assert "word … [" in words
    assert len(words) < 500


# --- blanks at the ends of lines, and characters that look alike --------------------------------


def test_blanks_at_the_ends_of_lines_do_not_count() -> None:
    assert edited("a  \n\t\nb\n", ("a\n\nb\n", "a\n\nc\n")) == "a  \n\t\nc\n"
    assert edited("a\nb\n", ("a \nb  \n", "x\n")) == "x\n"


def test_characters_that_look_alike_are_taken_for_each_other() -> None:
    text = "say(\u201chello\u201d)\nrest\n"
    assert edited(text, ('say("hello")\nrest', 'say("bye")\nrest')) == 'say("bye")\nrest\n'
    assert edited("a\u00a0= 1 \u2013 2\n", ("a = 1 - 2", "a = 3")) == "a = 3\n"


def test_lines_that_are_only_context_stay_as_they_are() -> None:
    text = "it\u2019s \nkeep\nit\u2019s  \n"
    assert edited(text, ("it's\nkeep\nit's\n", "it's\nchange\nit's\n")) == (
        "it\u2019s \nchange\nit\u2019s  \n"
    )


def test_lines_are_put_between_and_behind_lines_that_stay() -> None:
    assert edited("a \nb \nc\n", ("a\nb\n", "a\nx\nb\n")) == "a \nx\nb \nc\n"
    assert edited("a \nb ", ("a\nb", "a\nb\nx")) == "a \nb \nx"
    assert edited("a \nb \n", ("a\nb\n", "a\nb\nx\n")) == "a \nb \nx\n"


def test_lines_are_deleted_with_their_ends() -> None:
    assert edited("a \nb \nc\n", ("a\nb\n", "b\n")) == "b \nc\n"
    assert edited("a \nb ", ("a\nb", "a")) == "a "
    assert edited("a \nb\n", ("a\nb\n", "")) == ""
    assert edited("x\na \nb", ("a\nb\n", "")) == "x"


def test_only_whole_lines_are_found_in_this_way() -> None:
    assert "not found" in refusal("prefix a  \nb\n", ("a\nb\n", "x\n"))
    assert "not found" in refusal("x\n\n\ny\n", ("  \n \t\n", "z\n"))


# --- indentation --------------------------------------------------------------------------------


def test_a_text_that_is_indented_otherwise_is_found_and_the_new_one_indented_as_it_is() -> None:
    text = "class A:\n    def f(self):\n        return 1\n"
    old = "def f(self):\n    return 1\n"
    new = "def f(self):\n    if self:\n        return 2\n\n    return 1\n"
    assert edited(text, (old, new)) == (
        "class A:\n    def f(self):\n        if self:\n            return 2\n\n        return 1\n"
    )


def test_indentation_is_taken_away_as_well() -> None:
    assert edited("if a:\n  b\n", ("    if a:\n      b", "    if a:\n      c")) == "if a:\n  c\n"


def test_what_would_lose_more_indentation_than_it_has_is_not_guessed() -> None:
    assert "not found" in refusal("a\nb\n", ("    a\n    b\n", "    a\n  c\n"))


@pytest.mark.parametrize("unit", ["    ", "  ", "        "])
def test_tabs_and_spaces_are_taken_for_each_other(unit: str) -> None:
    tabs, spaces = "\tif a:\n\t\tb\n", f"{unit}if a:\n{unit}{unit}b\n"
    assert edited(tabs, (spaces, f"{unit}if a:\n{unit}{unit}c\n{unit}d\n")) == (
        "\tif a:\n\t\tc\n\td\n"
    )
    assert edited(spaces, (tabs, "\tif a:\n\t\tc\n\td\n")) == (
        f"{unit}if a:\n{unit}{unit}c\n{unit}d\n"
    )


def test_a_tab_is_as_wide_as_makes_it_fit_without_more() -> None:
    eight = " " * 8
    old, new = f"{eight}a\n{eight}b\n", f"{eight}a\n{eight}{eight}c\n"
    assert edited("\ta\n\tb\n", (old, new)) == "\ta\n\t\tc\n"


def test_new_lines_do_not_mix_tabs_and_spaces_where_the_file_does_not() -> None:
    assert edited("x\n\ta()\n\tb()\n", ("a()\nb()\n", "if x:\n    a()\nb()\n")) == (
        "x\n\tif x:\n\t\ta()\n\tb()\n"
    )
    assert edited("x\n    a()\n    b()\n", ("a()\nb()\n", "if x:\n\ta()\nb()\n")) == (
        "x\n    if x:\n        a()\n    b()\n"
    )


def test_a_difference_that_is_not_the_same_all_along_is_not_accepted() -> None:
    assert "not found" in refusal("  a\n      b\n  c\n", ("a\n  b\nc\n", "x\n"))


def test_several_places_that_are_nearly_so_are_refused() -> None:
    text = "if x:\n    go()\nelse:\n    if y:\n        go()\n"
    words = refusal(text, ("\tgo()\n", "\tstop()\n"))
    assert "occurs 2 times (line 2, 5)" in words
    assert edited(text, ("\tgo()\n", "\tstop()\n", True)) == text.replace("go", "stop")


def test_places_that_overlap_are_replaced_from_the_first_on() -> None:
    text = "  a\n  a\n  a\n"
    assert edited(text, ("\ta\n\ta\n", "\tb\n", True)) == "  b\n  a\n"


def test_so_many_places_that_it_would_take_too_long_are_not_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "  a\n  b\n" * 3
    edit = ("\ta\n\tb\n", "\tc\n", True)
    monkeypatch.setattr(fuzzy_match, "MAX_COMPARED_LINES", 6)
    assert edited(text, edit) == "  c\n" * 3
    monkeypatch.setattr(fuzzy_match, "MAX_COMPARED_LINES", 5)
    assert "not found" in refusal(text, edit)


NAMES = st.permutations("abcdefgh").map(lambda names: names[:5])
DEPTHS = st.lists(st.integers(0, 3), min_size=5, max_size=5)


@given(NAMES, DEPTHS, st.integers(0, 2), st.data())
def test_a_block_is_found_however_far_it_was_indented(
    names: list[str], depths: list[int], outer: int, data: st.DataObject
) -> None:
    lines = ["  " * (depth + outer) + name for name, depth in zip(names, depths, strict=True)]
    first = data.draw(st.integers(0, len(lines) - 2))
    last = data.draw(st.integers(first + 2, len(lines)))
    off = data.draw(st.integers(0, outer))
    old = [line[2 * off :] for line in lines[first:last]]
    new = [*old, "  " * (outer - off) + "new"]

    made = edited("\n".join(lines) + "\n", ("\n".join(old) + "\n", "\n".join(new) + "\n"))

    assert made.split("\n") == [*lines[:last], "  " * outer + "new", *lines[last:], ""]


def test_what_is_not_found_is_missed_in_a_moment() -> None:
    rng = random.Random(1)
    lines = ["".join(rng.choices("abcdefgh ", k=300)) for _ in range(6_001)]
    wanted = lines.pop()
    began = time.process_time()
    with pytest.raises(EditError):
        apply(Document("\n".join(lines)), [Edit(wanted, "x")])
    assert time.process_time() - began < 4


def test_so_many_places_that_replacing_them_would_take_long_are_refused() -> None:
    words = refusal("a" * 300_000, ("a", "b", True))
    assert words.startswith("edit 1 of 1: old_text occurs more than 100,000 times: ")


def test_a_text_does_not_grow_without_bound() -> None:
    words = refusal("a" * 50_000, ("a", "b" * 100_000, True))
    assert "would have 5,000,000,000 characters" in words


def test_what_is_in_an_old_encoding_gets_no_other_one_mixed_in() -> None:
    latin = decode("café au lait".encode("latin-1"))
    assert latin is not None
    with pytest.raises(EditError, match="not UTF-8, so only ASCII can be inserted"):
        apply(latin, [Edit("lait", "crème")])
    assert encode(apply(latin, [Edit("lait", "soja")])) == "café au soja".encode("latin-1")
