"""Reading files: lines with numbers, pages, pictures, and clear words for everything else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Agent
from holdfast.kernel.events import ToolStarted
from holdfast.kernel.policy import Calls, Policy
from holdfast.kernel.tool import Tool
from holdfast.kernel.workspace import PathRefused
from holdfast.messages import File, Text, ToolResult
from holdfast.testing import ScriptedModel, call
from holdfast.tools.files.read_versions import KnownVersion, seen
from holdfast.tools.read_file import MAX_BYTES, describe, read_file, turn_to
from holdfast.tools.workspace.directory_workspace import DirectoryWorkspace
from tests.kernel.runs import only
from tests.kernel.toolkit import result_of, watched
from tests.tools.file_tools import committed, run, text_of

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01"


@pytest.fixture
def tool(tmp_path: Path) -> Tool:
    return read_file(DirectoryWorkspace(tmp_path))


async def refusal(tool: Tool, **values: object) -> str:
    with pytest.raises(PathRefused) as caught:
        await run(tool, **values)
    return str(caught.value)


def told(result: ToolResult) -> KnownVersion | None:
    return seen(committed(result), "a.txt")


def test_a_file_that_is_not_read_to_its_end_says_where_to_continue() -> None:
    page = turn_to(["a", "b"], 2, 1, 10, complete=False)
    assert page.text.endswith("[Lines 1–2 of more than 2. To continue, set offset to 3.]")
    assert page.last == 2


def test_a_line_that_was_not_reached_in_time_is_refused_with_advice() -> None:
    with pytest.raises(PathRefused, match=r"line 9 was not reached in 4 s: use a command"):
        turn_to([], 3, 9, 10, complete=False)


# --- lines --------------------------------------------------------------------------------------


async def test_lines_come_behind_their_numbers(tmp_path: Path, tool: Tool) -> None:
    (tmp_path / "a.txt").write_bytes(b"one\r\n\r\n  three\r\n")
    made = await run(tool, path="a.txt")
    assert text_of(made) == "    1\tone\n    2\t\n    3\t  three"
    assert made.outcome == "ok"


async def test_a_page_says_where_to_go_on(tmp_path: Path, tool: Tool) -> None:
    (tmp_path / "a.txt").write_text("a\nb\nc\nd\n", "utf-8")
    first = await run(tool, path="a.txt", limit=2)
    assert text_of(first) == "    1\ta\n    2\tb\n[Lines 1–2 of 4. To continue, set offset to 3.]"
    assert text_of(await run(tool, path="a.txt", offset=3)) == "    3\tc\n    4\td"
    assert told(first) is not None
    assert told(first) != told(await run(tool, path="a.txt"))


async def test_pages_that_were_gone_on_with_are_the_whole_file(tmp_path: Path, tool: Tool) -> None:
    lines = [f"line {number} " + "x" * (number % 90) for number in range(1, 5_001)]
    (tmp_path / "a.txt").write_text("\n".join(lines), "utf-8")
    shown: list[str] = []
    results: list[ToolResult] = []
    offset = 1
    while offset:
        results.append(await run(tool, path="a.txt", offset=offset))
        text = text_of(results[-1])
        assert len(text) < MAX_BYTES + 200
        shown += re.findall(r"^ *\d+\t(.*)$", text, re.MULTILINE)
        further = re.search(r"set offset to (\d+)\.\]$", text)
        offset = int(further[1]) if further else 0
    assert shown == lines
    known = seen(committed(*results), "a.txt")
    assert known is not None
    assert known.next is None


@given(st.lists(st.text("ab\u20ac", max_size=3), min_size=1, max_size=12), st.data())
def test_any_page_has_the_lines_that_were_asked_for(lines: list[str], data: st.DataObject) -> None:
    lines[-1] += "."  # so that it is a line
    offset = data.draw(st.integers(1, len(lines)))
    limit = data.draw(st.integers(1, 14))
    page = turn_to(lines[offset - 1 :], len(lines), offset, limit)
    last = min(len(lines), offset + limit - 1)
    numbered = [f"{number:>5}\t{lines[number - 1]}" for number in range(offset, last + 1)]
    assert page.text.split("\n")[: len(numbered)] == numbered
    assert page.last == (None if last == len(lines) else last)


async def test_no_more_than_two_thousand_lines_are_shown(tmp_path: Path, tool: Tool) -> None:
    (tmp_path / "a.txt").write_text("x\n" * 3_000, "utf-8")
    text = text_of(await run(tool, path="a.txt", limit=9_999))
    assert text.count("\tx\n") == 2_000
    assert text.endswith("[Lines 1–2000 of 3000. To continue, set offset to 2001.]")


async def test_a_long_line_is_shown_in_part(tmp_path: Path, tool: Tool) -> None:
    (tmp_path / "a.txt").write_text("é" * 2_005 + "\nb\n", "utf-8")
    first, second = text_of(await run(tool, path="a.txt")).split("\n")
    assert first == "    1\t" + "é" * 2_000 + "… [5 more characters]"
    assert second == "    2\tb"


async def test_an_empty_file_is_said_to_be_empty(tmp_path: Path, tool: Tool) -> None:
    (tmp_path / "a.txt").write_bytes(b"")
    made = await run(tool, path="a.txt")
    assert text_of(made) == "[The file is empty.]"
    known = told(made)
    assert known is not None
    assert known.next is None


async def test_bytes_that_are_not_utf8_are_shown_as_such(tmp_path: Path, tool: Tool) -> None:
    (tmp_path / "a.txt").write_bytes(b"caf\xe9\n")
    assert text_of(await run(tool, path="a.txt")) == "    1\tcaf\ufffd"


async def test_utf16_and_byte_order_marks_are_read(tmp_path: Path, tool: Tool) -> None:
    (tmp_path / "a.txt").write_bytes("é\r\n".encode("utf-16"))
    assert text_of(await run(tool, path="a.txt")) == "    1\té"
    (tmp_path / "a.txt").write_bytes("é\n".encode("utf-8-sig"))
    assert text_of(await run(tool, path="a.txt")) == "    1\té"


# --- what is refused ----------------------------------------------------------------------------


async def test_a_line_behind_the_last_is_refused_with_how_many_there_are(
    tmp_path: Path, tool: Tool
) -> None:
    (tmp_path / "a.txt").write_text("a\n", "utf-8")
    assert await refusal(tool, path="a.txt", offset=2) == "there is no line 2: the file has 1 line."
    (tmp_path / "a.txt").write_text("", "utf-8")
    assert "has 0 lines" in await refusal(tool, path="a.txt", offset=2)


@pytest.mark.parametrize("wrong", [{"offset": 0}, {"offset": -3}, {"limit": 0}])
async def test_lines_are_counted_from_one(
    tmp_path: Path, tool: Tool, wrong: dict[str, int]
) -> None:
    (tmp_path / "a.txt").write_text("a\n", "utf-8")
    made = await result_of(tool, {"path": "a.txt", **wrong})
    assert made.outcome == "failed"
    (name,) = wrong
    assert name in made.text
    assert "1" in made.text


async def test_a_directory_is_to_be_listed(tmp_path: Path, tool: Tool) -> None:
    (tmp_path / "src").mkdir()
    assert await refusal(tool, path="src") == (
        "src is a directory: use list_files to see what is in it."
    )


async def test_a_file_that_is_not_there_is_named(tool: Tool) -> None:
    assert "none.txt does not exist" in await refusal(tool, path="none.txt")


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"SQLite format 3\0" + bytes(100), "an SQLite database"),
        (b"%PDF-1.7\n\0\1\2", "a PDF document"),
        (bytes(50), "binary data"),
    ],
)
async def test_what_is_neither_text_nor_a_picture_is_refused_by_its_kind(
    tmp_path: Path, tool: Tool, data: bytes, kind: str
) -> None:
    (tmp_path / "a.bin").write_bytes(data)
    words = await refusal(tool, path="a.bin")
    assert words == f"a.bin is {kind} of {len(data)} B: only text and pictures can be read."


async def test_of_a_file_that_is_too_large_to_be_held_a_part_is_read(
    tmp_path: Path, tool: Tool
) -> None:
    lines = [f"{number} {'x' * 80}" for number in range(1, 150_001)]
    (tmp_path / "a.log").write_text("\r\n".join(lines), "utf-8", newline="")
    shown = await run(tool, path="a.log", offset=149_999, limit=1)
    go_on = "[Lines 149999–149999 of 150000. To continue, set offset to 150000.]"
    assert text_of(shown) == f"149999\t{lines[149_998]}\n{go_on}"
    assert shown.metadata is None  # it was seen in part, and cannot be changed
    assert "the file has 150000 lines" in await refusal(tool, path="a.log", offset=150_001)


async def test_a_large_file_that_is_no_text_is_refused(tmp_path: Path, tool: Tool) -> None:
    with (tmp_path / "a.bin").open("wb") as file:
        file.truncate(10 * 1024 * 1024 + 1)
    assert "a.bin is binary data of 10 MB" in await refusal(tool, path="a.bin")


# --- pictures -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0\0\x10JFIF\0", "image/jpeg"),
        (b"GIF89a\x01\0\x01\0", "image/gif"),
        (b"RIFF\x1a\0\0\0WEBPVP8L", "image/webp"),
    ],
)
async def test_a_picture_is_shown_as_one(
    tmp_path: Path, tool: Tool, data: bytes, media_type: str
) -> None:
    (tmp_path / "img").mkdir()
    (tmp_path / "img/a").write_bytes(data)
    made = await result_of(tool, {"path": "img/a"})  # through the whole loop
    text = Text(f"img/a is a picture ({media_type}) of {len(data)} B.")
    assert made.content == (text, File(media_type, "a", data))


async def test_a_picture_that_is_too_large_is_refused(tmp_path: Path, tool: Tool) -> None:
    (tmp_path / "a.png").write_bytes(PNG + bytes(5 * 1024 * 1024))
    assert "at most 5.0 MB" in await refusal(tool, path="a.png")


async def test_text_that_begins_like_a_picture_is_text(tmp_path: Path, tool: Tool) -> None:
    (tmp_path / "a.txt").write_text("GIF89a is a format\n", "utf-8")
    assert text_of(await run(tool, path="a.txt")) == "    1\tGIF89a is a format"


# --- in a run -----------------------------------------------------------------------------------


async def test_people_see_what_is_read(tmp_path: Path, tool: Tool) -> None:
    (tmp_path / "a.txt").write_text("a\nb\n", "utf-8")
    agent = Agent(model=ScriptedModel([call("read_file", path="a.txt"), "Done."]), tools=[tool])
    events, result = await watched(agent.run("Go."))
    assert result.text == "Done."
    (started,) = only(ToolStarted, events)
    assert started.label == "Read a.txt"


def test_the_lines_that_are_read_are_told_to_people() -> None:
    assert describe({"path": "a.py", "offset": 5, "limit": 10}) == "Read a.py, lines 5–14"
    assert describe({"path": "a.py", "offset": 5}) == "Read a.py, from line 5"
    assert describe({"path": "a.py", "limit": 40}) == "Read a.py, lines 1–40"


def test_reading_asks_nobody_and_may_be_done_any_number_of_times(tool: Tool) -> None:
    assert (tool.effect, tool.approval, tool.parallel) == ("pure", "never", True)


async def test_a_whole_number_may_be_written_with_a_point(tmp_path: Path, tool: Tool) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    made = await run(tool, path="a.txt", offset=2.0, limit=1.0)
    assert text_of(made) == "    2\ttwo\n[Lines 2–2 of 3. To continue, set offset to 3.]"
    with pytest.raises(PathRefused, match=r"there is no line 4: the file has 3 lines\."):
        await run(tool, path="a.txt", offset=4.0)


async def test_a_line_of_which_only_the_beginning_is_shown_was_not_seen(
    tmp_path: Path, tool: Tool
) -> None:
    (tmp_path / "a.txt").write_text("one\n" + "x" * 2001 + "\nthree\n")
    known = told(await run(tool, path="a.txt"))
    assert known is not None
    assert known.next == 2


async def test_a_result_that_was_cut_on_its_way_shows_nothing_for_sure(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a line of twenty or so\n" * 1_500)
    small = Policy(calls=Calls(max_result=16_000))
    made = await result_of(read_file(DirectoryWorkspace(tmp_path)), {"path": "a.txt"}, policy=small)
    assert "bytes cut" in made.text
    known = told(made)
    assert known is not None
    assert known.next == 1
