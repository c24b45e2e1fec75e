"""Unified diffs: right, whatever the texts are, and never endless."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.tools.files import diff
from holdfast.tools.files.diff import blocks, invisible_changes, shortened, split, unified
from holdfast.tools.files.text_file import Document, decode
from tests.tools.file_tools import patched

TEXTS = st.lists(st.sampled_from(["a", "b", "c", "", "}", "long line", "\r"]), max_size=30).map(
    "\n".join
)


def made(old: str | None, new: str, path: str = "f.txt") -> str:
    return unified(path, old, new)


@given(TEXTS, TEXTS)
@example("a", "a\n")
@example("a\n", "a")
@example("a\nb", "a\nb\nc")
@example("", "\n")
@example("\n", "")
def test_a_diff_makes_the_new_text_of_the_old_one(old: str, new: str) -> None:
    text = made(old, new)
    assert (text == "") == (old == new)
    assert patched(old, text) == new


@given(TEXTS, TEXTS)
def test_a_diff_that_was_too_costly_to_find_is_still_right(old: str, new: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diff, "MAX_COMPARED_PAIRS", 0)
        text = made(old, new)
    assert patched(old, text) == new


def test_a_change_stands_between_three_lines_on_either_side() -> None:
    old = "".join(f"{n}\n" for n in range(1, 21))
    assert made(old, old.replace("10\n", "ten\n"), "src/f.py").split("\n") == [
        "--- a/src/f.py",
        "+++ b/src/f.py",
        "@@ -7,7 +7,7 @@",
        " 7",
        " 8",
        " 9",
        "-10",
        "+ten",
        " 11",
        " 12",
        " 13",
    ]


def test_changes_far_apart_have_hunks_of_their_own_and_near_ones_share_one() -> None:
    old = "".join(f"{n}\n" for n in range(1, 41))
    near = old.replace("\n10\n", "\nx\n").replace("\n17\n", "\ny\n")
    far = old.replace("\n10\n", "\nx\n").replace("\n18\n", "\ny\n")
    assert made(old, near).count("@@ -") == 1
    assert made(old, far).count("@@ -") == 2


def test_a_new_file_comes_from_nowhere() -> None:
    assert made(None, "a\nb\n").split("\n") == [
        "--- /dev/null",
        "+++ b/f.txt",
        "@@ -0,0 +1,2 @@",
        "+a",
        "+b",
    ]
    assert made(None, "") == "--- /dev/null\n+++ b/f.txt"


def test_an_emptied_file_loses_all_its_lines() -> None:
    assert made("a\nb\n", "").split("\n") == [
        "--- a/f.txt",
        "+++ b/f.txt",
        "@@ -1,2 +0,0 @@",
        "-a",
        "-b",
    ]


def test_a_missing_newline_at_the_end_is_told_of() -> None:
    assert made("a", "b\n").split("\n")[2:] == [
        "@@ -1 +1 @@",
        "-a",
        "\\ No newline at end of file",
        "+b",
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a\nb\nc\n", "a\nx\nc"),
        ("a\nb\nc", "a\nb\nc\nd\n"),
        ("one\n", ""),
        ("".join(f"{n}\n" for n in range(50)), "".join(f"{n * n}\n" for n in range(8))),
    ],
)
def test_git_applies_it_too(tmp_path: Path, old: str, new: str) -> None:
    if (git := shutil.which("git")) is None:
        pytest.skip("git is not installed")
    (tmp_path / "f.txt").write_text(old, "utf-8")
    (tmp_path / "f.diff").write_text(made(old, new) + "\n", "utf-8")
    subprocess.run([git, "apply", "f.diff"], cwd=tmp_path, check=True)
    assert (tmp_path / "f.txt").read_text("utf-8") == new


def test_a_name_cannot_pretend_to_be_a_line_of_the_diff() -> None:
    assert made(None, "a\n", "x\n+++ b/y").split("\n")[:2] == [
        "--- /dev/null",
        r"+++ b/'x\n+++ b/y'",
    ]


def test_only_what_lies_between_the_first_and_the_last_change_is_compared() -> None:
    same = ["}\n"] * 50_000
    old, new = [*same, "a\n", *same], [*same, "b\n", "c\n", *same]
    assert blocks(old, new) == [(50_000, 50_001, 50_000, 50_002)]


def test_texts_that_would_take_for_ever_to_compare_are_shown_as_replaced() -> None:
    old = ["first\n", *["}\n"] * 5_000, "last\n"]
    new = ["other first\n", *["}\n"] * 5_000, "other last\n"]
    assert blocks(old, new) == [(0, 5_002, 0, 5_002)]


def test_many_changes_of_a_large_text_are_found_one_by_one() -> None:
    old = [f"{n}\n" for n in range(50_000)]
    new = [line if n % 2 else "x\n" for n, line in enumerate(old)]
    assert blocks(old, new) == [(n, n + 1, n, n + 1) for n in range(0, 50_000, 2)]


def test_a_line_without_its_newline_is_another_line() -> None:
    assert split("a\n\nb") == ["a\n", "\n", "b"]
    assert split("a\n") == ["a\n"]
    assert split("") == []


# --- states of a file ---------------------------------------------------------------------------


def document(data: bytes) -> Document:
    made = decode(data)
    assert made is not None
    return made


def test_what_the_lines_do_not_show_is_told_of() -> None:
    lf, crlf, bom = b"a\nb\n", b"a\r\nb\r\n", b"\xef\xbb\xbf"
    told = invisible_changes(document(lf), document(bom + crlf))
    assert told == (
        "line endings: LF becomes CRLF; encoding: UTF-8 becomes UTF-8 with a byte order mark"
    )
    assert invisible_changes(document(b"a\nb\r\n"), document(b"a\r\nb\n")) == "line endings change"
    assert invisible_changes(document(crlf), document(b"c\r\n")) == ""
    assert invisible_changes(document(crlf), document(b"")) == ""


# --- shortened ----------------------------------------------------------------------------------


def test_a_short_diff_is_shown_whole() -> None:
    text = made("a\n", "b\n")
    assert shortened(text, 100) == text


def test_a_long_diff_is_cut_with_a_word_about_it() -> None:
    text = made(None, "".join(f"{n}\n" for n in range(100)))
    lines = shortened(text, 10).split("\n")
    assert lines == [*text.split("\n")[:10], "[… 93 more lines of this diff not shown …]"]


def test_a_long_line_is_cut_with_a_word_about_it() -> None:
    line = shortened(made(None, "x" * 1_500 + "\n"), 10).split("\n")[-1]
    assert line == "+" + "x" * 999 + "… [501 more characters]"


def test_a_diff_of_many_wide_lines_is_cut_too() -> None:
    text = shortened(made(None, ("x" * 900 + "\n") * 1_000), 2_000)
    assert len(text) < diff.MAX_DIFF_BYTES + 100
    assert text.endswith("more lines of this diff not shown …]")


def test_bytes_that_are_no_text_are_shown_as_such() -> None:
    old, new = document(b"caf\xe9 1\n"), document(b"caf\xe9 2\n")
    assert shortened(made(old.text, new.text), 10).split("\n")[-1] == "+caf\ufffd 2"


def test_no_diff_takes_for_ever() -> None:
    began = time.process_time()
    unified("a", "x\n" * 1_400, "y\nx\nz\n" * 450)
    assert time.process_time() - began < 4
