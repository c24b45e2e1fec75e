"""Output is readable whatever a command writes, and never more than can be kept."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.tools.commands import output as module
from holdfast.tools.commands.output import (
    HEAD_BYTES,
    MAX_HELD_LINE,
    MAX_LOG_FILES,
    MAX_UNSEEN,
    TAIL_BYTES,
    CommandOutput,
    HeadAndTail,
    OutputDecoder,
    OutputLog,
    UnseenOutput,
    readable,
    uncoloured,
)
from holdfast.tools.workspace.directory_workspace import DirectoryWorkspace

# --- readable text ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[1;31mred\x1b[0m\x1b[K\n", "\x1b[1;31mred\x1b[0m\n"),
        ("\x1b[1;31mno\b\byes\x1b[0m\n", "yes\n"),
        ("\x1b]0;a title\x07text \x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n", "text link\n"),
        ("\x1b(Bset\x1b7 \x1b=kept\n", "set kept\n"),
        ("10%\r50%\r100%\n", "100%\n"),
        ("10%\r100%\r", "100%"),
        ("windows\r\nlines\r\r\n", "windows\nlines\n"),
        ("\r\n", "\n"),
        ("10%\r\x1b[Kdone\nnext\n", "done\nnext\n"),
        ("N\bNA\bAM\bM _\bx\n", "NAM x\n"),
        ("\b\bwork |\b/\b-\b\n", "work \n"),
        ("nul \0 bell \a\n", "nul \ufffd bell \ufffd\n"),
        ("\x7f\x9b31m\x85", "\ufffd\ufffd"),
    ],
)
def test_a_line_is_shown_as_a_terminal_would_in_the_end(written: str, shown: str) -> None:
    assert readable(written) == shown


def test_bytes_that_are_no_text_are_replaced() -> None:
    lines = OutputDecoder()

    assert lines.feed(b"\xff\xc3\n") + lines.end() == "\ufffd\ufffd\n"


def test_a_character_that_comes_in_two_pieces_is_one_character() -> None:
    lines = OutputDecoder()

    assert lines.feed("ä".encode()[:1]) == ""
    assert lines.feed("ä".encode()[1:] + b"\n") == "ä\n"


def test_a_line_is_given_on_when_it_is_whole() -> None:
    lines = OutputDecoder()

    assert lines.feed(b"one\ntw") == "one\n"
    assert lines.feed(b"o\nthree") == "two\n"
    assert lines.end() == "three"
    assert lines.end() == ""


NASTY = st.text(st.sampled_from("ab\r\n\b\x1b[]0;m\x07ä€\0K"), max_size=60)


@given(NASTY, st.lists(st.integers(0, 200), max_size=8))
def test_how_the_bytes_are_cut_into_pieces_makes_no_difference(text: str, cuts: list[int]) -> None:
    data = text.encode()
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    lines = OutputDecoder()

    pieces = [lines.feed(data[a:b]) for a, b in pairwise(places)]

    assert "".join([*pieces, lines.end()]) == readable(text)


@given(st.text())
def test_no_control_character_but_tab_newline_and_colours_is_left(text: str) -> None:
    left = {c for c in uncoloured(readable(text)) if c < " " or "\x7f" <= c <= "\x9f"}

    assert left <= {"\t", "\n"}


def test_a_line_without_an_end_is_given_on_in_pieces() -> None:
    lines = OutputDecoder()

    given_on = "".join(lines.feed(b"x" * 1000) for _ in range(100))

    assert 100_000 - MAX_HELD_LINE <= len(given_on) < 100_000
    assert given_on + lines.end() == "x" * 100_000


def test_an_escape_at_the_end_of_a_piece_is_not_torn() -> None:
    lines = OutputDecoder()

    assert lines.feed(b"x" * MAX_HELD_LINE + b"\x1b[3") == "x" * MAX_HELD_LINE
    assert lines.feed(b"1mred\n") == "\x1b[31mred\n"


def test_a_progress_bar_without_an_end_takes_no_room() -> None:
    lines = OutputDecoder()

    given_on = [lines.feed(b"%d%%\r" % (i % 100)) for i in range(10_000)]

    assert not any(given_on)
    assert lines.end() == "99%"


# --- the two ends -------------------------------------------------------------------------------


def test_what_is_not_long_is_whole() -> None:
    ends = HeadAndTail(4, 4)
    ends.add(b"123")
    ends.add(b"45678")

    assert not ends.long
    assert ends.whole() == b"12345678"


def test_of_long_output_whole_lines_of_both_ends_are_kept() -> None:
    ends = HeadAndTail(10, 10)
    for number in range(100):
        ends.add(b"%03d\n" % number)

    assert ends.cut() == ("000\n001\n", 400 - 8 - 8, "098\n099\n")


@given(st.lists(st.text(), min_size=1), st.integers(1, 40), st.integers(1, 40))
def test_head_gap_and_tail_make_up_the_whole(texts: list[str], head: int, tail: int) -> None:
    ends = HeadAndTail(head, tail)
    for text in texts:
        ends.add(text.encode(errors="replace"))
    whole = "".join(texts).encode(errors="replace")

    assert ends.long == (len(whole) > head + tail)
    if not ends.long:
        assert ends.whole() == whole
        return
    first, missing, last = ends.cut()
    assert whole.startswith(first.encode())
    assert whole.endswith(last.encode())
    assert len(first.encode()) + missing + len(last.encode()) == len(whole)
    assert head - 3 <= len(first.encode()) or first.endswith("\n")
    assert len(last.encode()) <= tail


def test_the_two_ends_take_no_more_room_than_they_show() -> None:
    ends = HeadAndTail(100, 100)
    for _ in range(10_000):
        ends.add(b"0123456789")

    assert ends.total == 100_000
    assert len(ends.whole()) <= 300


# --- news ---------------------------------------------------------------------------------------


def test_news_are_given_once() -> None:
    news = UnseenOutput()
    assert not news
    news.add("one\n")
    news.add("two\n")

    assert news
    assert news.take() == "one\ntwo\n"
    assert not news


def test_more_news_than_anybody_reads_are_the_last_lines_and_a_word_about_the_others() -> None:
    news = UnseenOutput()
    for number in range(100_000):
        news.add(f"{number}\n")

    note, *lines = news.take().splitlines()

    assert lines[-1] == "99999"
    assert lines == [str(100_000 - len(lines) + i) for i in range(len(lines))]
    assert sum(map(len, lines)) + len(lines) <= MAX_UNSEEN
    skipped = sum(len(f"{n}\n") for n in range(100_000 - len(lines)))
    assert note == f"[… {skipped} characters not shown …]"
    assert news.take() == ""


# --- the file -----------------------------------------------------------------------------------


@pytest.fixture
def directory(tmp_path: Path) -> DirectoryWorkspace:
    return DirectoryWorkspace(tmp_path)


async def fed(directory: DirectoryWorkspace, *pieces: bytes) -> CommandOutput:
    output = CommandOutput(directory)
    for piece in pieces:
        output.feed(piece)
        await output.save()
    await output.close()
    return output


def logs(top: Path) -> list[Path]:
    return sorted((top / ".holdfast" / "output").glob("*.log"))


LINES = b"".join(b"line %d\n" % number for number in range(20_000))


async def test_short_output_is_shown_whole_and_makes_no_file(
    directory: DirectoryWorkspace, tmp_path: Path
) -> None:
    text = "x" * (HEAD_BYTES + TAIL_BYTES)

    assert (await fed(directory, text.encode())).text() == text
    assert os.listdir(tmp_path) == []


async def test_long_output_is_whole_in_a_file_that_the_model_is_told_of(
    directory: DirectoryWorkspace, tmp_path: Path
) -> None:
    pieces = [LINES[start : start + 5_000] for start in range(0, len(LINES), 5_000)]

    text = (await fed(directory, *pieces)).text()

    (log,) = logs(tmp_path)
    assert log.read_bytes() == LINES
    *shown, told = text.splitlines(keepends=True)
    gap = next(number for number, line in enumerate(shown) if line.startswith("[… "))
    assert LINES.startswith("".join(shown[:gap]).encode())
    assert LINES.endswith("".join(shown[gap + 1 :]).encode())
    name = log.relative_to(tmp_path)
    assert told == f"[all of the output is in {name}, which read_file and search_files can read]\n"
    assert len(text) <= HEAD_BYTES + TAIL_BYTES + 250


async def test_the_file_is_not_for_version_control(
    directory: DirectoryWorkspace, tmp_path: Path
) -> None:
    await fed(directory, LINES)
    (ignore := tmp_path / ".holdfast" / ".gitignore").write_text("mine\n")
    await fed(directory, LINES)

    assert ignore.read_text() == "mine\n"
    ignore.unlink()
    await fed(directory, LINES)
    assert ignore.read_text() == "*\n"
    assert len(logs(tmp_path)) == 3


async def test_the_file_is_for_its_owner_alone(
    directory: DirectoryWorkspace, tmp_path: Path
) -> None:
    await fed(directory, LINES)

    (log,) = logs(tmp_path)
    assert log.stat().st_mode & 0o077 == 0


async def test_a_file_takes_so_much_and_then_says_so(
    directory: DirectoryWorkspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_LOG", 2**16)
    line = b"x" * 1023 + b"\n"

    text = (await fed(directory, *[line] * 1024)).text()

    (log,) = logs(tmp_path)
    assert log.stat().st_size == 2**16
    assert f"[the beginning of the output is in {log.relative_to(tmp_path)}" in text
    assert "the file is limited to" in text


async def test_where_no_file_can_be_made_the_result_says_so(
    directory: DirectoryWorkspace, tmp_path: Path
) -> None:
    (tmp_path / ".holdfast").write_text("in the way")

    text = (await fed(directory, LINES)).text()

    assert "could not be saved to a file:" in text
    assert text.startswith("line 0\n")
    assert "line 19999\n[" in text


@contextmanager
def full_disk(at: int) -> Iterator[None]:
    """No file can grow beyond this size."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (at, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


async def test_where_the_disk_is_full_the_result_says_so(
    directory: DirectoryWorkspace, tmp_path: Path
) -> None:
    with full_disk(50_000):
        pieces = [LINES[i : i + 5000] for i in range(0, len(LINES), 5000)]
        text = (await fed(directory, *pieces)).text()

    (log,) = logs(tmp_path)
    assert LINES.startswith(log.read_bytes())
    assert f"[the beginning of the output is in {log.relative_to(tmp_path)}" in text
    assert "File too large" in text
    assert "line 19999\n[" in text


async def test_a_log_lets_go_of_its_file(directory: DirectoryWorkspace) -> None:
    before = len(os.listdir("/proc/self/fd"))
    log = OutputLog(directory)
    log.write(b"words")
    await log.save()
    assert len(os.listdir("/proc/self/fd")) == before + 1

    await log.close()
    await log.close()

    assert len(os.listdir("/proc/self/fd")) == before


async def test_only_the_newest_logs_are_kept_and_nothing_else_is_touched(
    directory: DirectoryWorkspace, tmp_path: Path
) -> None:
    home = tmp_path / ".holdfast" / "output"
    home.mkdir(parents=True)
    early = [home / f"20010101-{number:06}-0123abcd.log" for number in range(MAX_LOG_FILES + 3)]
    late = home / "29990101-000000-0123abcd.log"  # the clock was set since
    mine = home / "notes.txt"
    for file in (*early, late, mine):
        file.write_text("kept")

    log = OutputLog(directory)
    log.write(b"words")
    await log.save()
    await log.close()

    left = sorted(home.iterdir())
    assert len(left) == MAX_LOG_FILES + 1
    assert {tmp_path / log.path, late, mine, *early[5:]} == set(left)


async def test_a_log_that_is_the_oldest_by_its_name_is_kept_too(
    directory: DirectoryWorkspace, tmp_path: Path
) -> None:
    home = tmp_path / ".holdfast" / "output"
    home.mkdir(parents=True)
    for number in range(MAX_LOG_FILES):
        (home / f"29990101-{number:06}-0123abcd.log").write_text("kept")

    log = OutputLog(directory)
    log.write(b"words")
    await log.save()
    await log.close()

    assert (tmp_path / log.path).read_bytes() == b"words"
    assert len(list(home.iterdir())) == MAX_LOG_FILES
