"""Writing whole files: new ones freely, others only as they were seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast import Agent, RunResult, approve
from holdfast.kernel.events import ToolProgressed, ToolStarted
from holdfast.kernel.messages import dump, load
from holdfast.kernel.tool import Tool
from holdfast.kernel.workspace import PathRefused
from holdfast.testing import ScriptedModel, ScriptedTurn, call
from holdfast.tools.files.planned_change import ChangeRefused, PlannedChange, carry_out, current
from holdfast.tools.files.text_file import Document
from holdfast.tools.read_file import read_file
from holdfast.tools.workspace.directory_workspace import DirectoryWorkspace
from holdfast.tools.write_file import write_file
from tests.kernel.runs import only
from tests.kernel.toolkit import assert_valid, outcomes, results_in, watched
from tests.tools.file_tools import committed, patched, preview, run, text_of


class Place:
    """A directory, with the tools that work in it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        directory = DirectoryWorkspace(path)
        self.read = read_file(directory)
        self.write = write_file(directory, approval="never")
        self.write_if_agreed = write_file(directory)

    def put(self, name: str, data: bytes) -> None:
        (self.path / name).write_bytes(data)

    def get(self, name: str) -> bytes:
        return (self.path / name).read_bytes()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


async def refused(tool: Tool, history: Any = (), /, **values: Any) -> str:
    """Why a call is refused: before anybody is asked, and again when it is to run."""
    with pytest.raises(ChangeRefused) as first:
        await preview(tool, history, **values)
    with pytest.raises(ChangeRefused) as second:
        await run(tool, history, **values)
    assert str(first.value) == str(second.value)
    assert str(second.value).endswith("Nothing was changed.")
    return str(second.value)


# --- new files ----------------------------------------------------------------------------------


async def test_a_new_file_is_written_with_the_directories_that_it_needs(place: Place) -> None:
    made = await run(place.write, path="doc/new/notes.md", content="one\ntwo\n")
    assert place.get("doc/new/notes.md") == b"one\ntwo\n"
    assert text_of(made) == "Wrote doc/new/notes.md (2 lines, 8 B): a new file."


async def test_a_new_file_is_shown_as_added(place: Place) -> None:
    shown = await preview(place.write, path="a.txt", content="one\ntwo")
    assert shown == (
        "--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n\\ No newline at end of file"
    )
    assert not (place.path / "a.txt").exists()


async def test_an_empty_file_is_written_and_filled_without_having_been_read(place: Place) -> None:
    made = await run(place.write, path="a.txt", content="")
    assert text_of(made) == "Wrote a.txt (0 lines, 0 B): a new file."
    await run(place.write, path="a.txt", content="x")
    assert place.get("a.txt") == b"x"


# --- files that exist ---------------------------------------------------------------------------


async def test_a_file_that_was_not_read_is_not_replaced(place: Place) -> None:
    place.put("a.txt", b"mine\n")
    words = await refused(place.write, path="a.txt", content="yours\n")
    assert words == "a.txt exists and was not read: read it first. Nothing was changed."
    assert place.get("a.txt") == b"mine\n"


async def test_a_file_is_replaced_as_it_was_read(place: Place) -> None:
    place.put("a.txt", b"one\ntwo\n")
    history = committed(await run(place.read, path="a.txt"))
    shown = await preview(place.write, history, path="a.txt", content="one\n2\n")
    made = await run(place.write, history, path="a.txt", content="one\n2\n")
    assert place.get("a.txt") == b"one\n2\n"
    first, _, diff = text_of(made).partition("\n")
    assert first == "Wrote a.txt (2 lines, 6 B), replacing its content:"
    assert diff == shown
    assert patched("one\ntwo\n", diff) == "one\n2\n"


async def test_a_file_that_has_changed_since_it_was_read_is_not_replaced(place: Place) -> None:
    place.put("a.txt", b"one\n")
    history = committed(await run(place.read, path="a.txt"))
    place.put("a.txt", b"two\n")
    words = await refused(place.write, history, path="a.txt", content="three\n")
    assert words == "a.txt has changed since it was read: read it again. Nothing was changed."
    assert place.get("a.txt") == b"two\n"


async def test_a_file_that_was_read_in_part_is_not_replaced(place: Place) -> None:
    place.put("a.txt", b"1\n2\n3\n")
    first = await run(place.read, path="a.txt", limit=2)
    words = await refused(place.write, committed(first), path="a.txt", content="new\n")
    assert "only part of a.txt was read: read the rest first, from line 3 on" in words

    rest = await run(place.read, path="a.txt", offset=3)
    await run(place.write, committed(first, rest), path="a.txt", content="new\n")
    assert place.get("a.txt") == b"new\n"


async def test_a_file_that_is_gone_since_it_was_read_is_written_anew(place: Place) -> None:
    place.put("a.txt", b"one\n")
    history = committed(await run(place.read, path="a.txt"))
    (place.path / "a.txt").unlink()
    await run(place.write, history, path="a.txt", content="two\n")
    assert place.get("a.txt") == b"two\n"


async def test_what_was_written_here_need_not_be_read(place: Place) -> None:
    made = await run(place.write, path="a.txt", content="one\n")
    await run(place.write, committed(made), path="./a.txt", content="two\n")
    assert place.get("a.txt") == b"two\n"


async def test_a_file_that_holds_just_this_is_left_alone(place: Place) -> None:
    place.put("a.txt", b"one\n")
    before = (place.path / "a.txt").stat()
    assert "already has exactly this content" in await preview(
        place.write, path="a.txt", content="one\n"
    )
    made = await run(place.write, path="a.txt", content="one\n")
    assert "nothing was changed" in text_of(made)
    assert (place.path / "a.txt").stat().st_ino == before.st_ino
    await run(place.write, committed(made), path="a.txt", content="two\n")


@pytest.mark.parametrize("old", [b"one\n", None])
async def test_a_change_between_the_last_look_and_the_write_is_not_overwritten(
    place: Place, old: bytes | None
) -> None:
    directory = DirectoryWorkspace(place.path)
    if old is not None:
        place.put("a.txt", old)
    made = PlannedChange(
        "a.txt", await current(directory, "a.txt"), None, Document("two\n", ("\n",))
    )
    place.put("a.txt", b"meanwhile\n")
    with pytest.raises(PathRefused, match=r"a\.txt"):
        await carry_out(directory, made)
    assert place.get("a.txt") == b"meanwhile\n"


@pytest.mark.parametrize(
    ("old", "expected"),
    [
        (b"a\r\nb\r\n", b"x\r\ny\r\n"),
        (b"\xef\xbb\xbfa\n", b"\xef\xbb\xbfx\ny\n"),
        ("\ufeffa\n".encode("utf-16-le"), "\ufeffx\ny\n".encode("utf-16-le")),
    ],
)
async def test_encoding_and_line_endings_stay(place: Place, old: bytes, expected: bytes) -> None:
    place.put("a.txt", old)
    history = committed(await run(place.read, path="a.txt"))
    await run(place.write, history, path="a.txt", content="x\ny\n")
    assert place.get("a.txt") == expected


async def test_line_endings_that_are_given_are_written_and_people_are_told(place: Place) -> None:
    place.put("a.txt", b"a\nb\n")
    history = committed(await run(place.read, path="a.txt"))
    shown = await preview(place.write, history, path="a.txt", content="a\r\nb\r\n")
    assert shown == "(line endings: LF becomes CRLF)"
    await run(place.write, history, path="a.txt", content="a\r\nb\r\n")
    assert place.get("a.txt") == b"a\r\nb\r\n"


async def test_a_picture_that_was_looked_at_may_be_replaced(place: Place) -> None:
    place.put("a.png", b"\x89PNG\r\n\x1a\n\0\0")
    history = committed(await run(place.read, path="a.png"))
    shown = await preview(place.write, history, path="a.png", content="x\n")
    assert shown.startswith("(a picture (image/png), 10 B, is replaced)\n---")


async def test_half_a_character_is_refused(place: Place) -> None:
    assert "U+D800" in await refused(place.write, path="a.txt", content="\ud800")
    assert not (place.path / "a.txt").exists()


# --- in a run -----------------------------------------------------------------------------------


def agent(place: Place, *script: ScriptedTurn) -> Agent:
    return Agent(model=ScriptedModel(script), tools=[place.read, place.write_if_agreed])


def stored(result: RunResult) -> Any:
    """The history, after a restart."""
    return load(dump(result.history))


async def test_people_are_shown_the_diff_and_nothing_is_written_before_they_agree(
    place: Place,
) -> None:
    place.put("a.txt", b"one\n")
    asking = agent(
        place, call("read_file", path="a.txt"), call("write_file", path="a.txt", content="two\n")
    )
    events, result = await watched(asking.run("Go."))

    assert result.reason == "requires_action"
    (action,) = result.actions
    assert action.preview == "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two"
    assert only(ToolProgressed, events)[-1].text == action.preview
    assert place.get("a.txt") == b"one\n"

    agreed = agent(place, "Done.").run(
        history=stored(result), resolve={action.call.id: approve(action)}
    )
    events, after = await watched(agreed)
    assert place.get("a.txt") == b"two\n"
    assert [started.label for started in only(ToolStarted, events)] == ["Write a.txt"]
    assert outcomes(after.history) == ["ok", "ok"]
    assert_valid(after.history)


async def test_a_change_while_people_think_is_not_overwritten(place: Place) -> None:
    place.put("a.txt", b"one\n")
    result = await agent(
        place, call("read_file", path="a.txt"), call("write_file", path="a.txt", content="two\n")
    ).run("Go.")
    (action,) = result.actions
    place.put("a.txt", b"changed meanwhile\n")

    after = await agent(place, "Oh.").run(
        history=stored(result), resolve={action.call.id: approve(action)}
    )

    assert place.get("a.txt") == b"changed meanwhile\n"
    assert outcomes(after.history) == ["ok", "failed"]
    assert "a.txt has changed since it was read" in results_in(after.history)[-1].text


async def test_nobody_is_asked_about_a_write_that_would_be_refused(place: Place) -> None:
    place.put("a.txt", b"one\n")
    result = await agent(place, call("write_file", path="a.txt", content="two\n"), "Oh.").run("Go.")
    assert result.reason == "stop"
    (made,) = results_in(result.history)
    assert made.outcome == "failed"
    assert "a.txt exists and was not read" in made.text


async def test_a_read_in_the_same_message_does_not_count(place: Place) -> None:
    place.put("a.txt", b"one\n")
    both = [call("read_file", path="a.txt"), call("write_file", path="a.txt", content="two\n")]
    result = await agent(place, both, "Oh.").run("Go.")
    assert outcomes(result.history) == ["ok", "failed"]
    assert "was not read" in results_in(result.history)[-1].text


async def test_what_was_seen_in_an_earlier_run_is_known_in_the_next(place: Place) -> None:
    place.put("a.txt", b"one\n")
    first = await agent(place, call("read_file", path="a.txt"), "Read.").run("Read it.")
    writes = Agent(
        model=ScriptedModel([call("write_file", path="a.txt", content="two\n"), "Written."]),
        tools=[Place(place.path).write],
    )
    second = await writes.run("Write it.", history=stored(first))
    assert outcomes(second.history) == ["ok", "ok"]
    assert place.get("a.txt") == b"two\n"

    place.put("a.txt", b"three\n")
    again = writes.replace(
        model=ScriptedModel([call("write_file", path="a.txt", content="four\n"), "Oh."])
    )
    third = await again.run("Once more.", history=stored(second))
    assert outcomes(third.history) == ["ok", "ok", "failed"]
    assert place.get("a.txt") == b"three\n"


def test_writing_is_done_once_and_asks_unless_told_not_to(place: Place) -> None:
    assert (place.write.effect, place.write.approval) == ("once", "never")
    assert place.write_if_agreed.approval == "ask"


# --- what is the same file, and what was really seen of it --------------------------------------


@pytest.mark.parametrize("name", ["./a.txt", "sub/../a.txt", "sub//../a.txt", "link", "sub/up"])
async def test_a_file_is_known_by_all_of_its_names(place: Place, name: str) -> None:
    place.put("a.txt", b"old\n")
    (place.path / "sub").mkdir()
    (place.path / "link").symlink_to("a.txt")
    (place.path / "sub" / "up").symlink_to("../link")
    history = committed(await run(place.read, path=name))
    await run(place.write, history, path="a.txt", content="new\n")
    history = committed(await run(place.read, path="a.txt"))
    await run(place.write, history, path=name, content="newer\n")
    assert place.get("a.txt") == b"newer\n"


async def test_a_link_that_was_turned_to_another_file_does_not_let_that_be_replaced(
    place: Place,
) -> None:
    place.put("a.txt", b"a\n")
    place.put("b.txt", b"b\n")
    (place.path / "link").symlink_to("a.txt")
    history = committed(await run(place.read, path="link"))
    (place.path / "link").unlink()
    (place.path / "link").symlink_to("b.txt")
    why = await refused(place.write, history, path="link", content="new")
    assert why == "link exists and was not read: read it first. Nothing was changed."


async def test_a_file_with_a_line_that_was_not_shown_whole_is_not_replaced(place: Place) -> None:
    place.put("a.txt", b"x" * 3_000 + b"\ny\n")
    history = committed(await run(place.read, path="a.txt"))
    why = await refused(place.write, history, path="a.txt", content="y\n")
    assert why == (
        "line 1 of a.txt is longer than read_file shows: change the file with edit_file. "
        "Nothing was changed."
    )


async def test_marks_for_bytes_that_are_no_text_are_not_written_in_their_place(
    place: Place,
) -> None:
    place.put("a.txt", b"caf\xe9\nbar\n")
    history = committed(await run(place.read, path="a.txt"))
    why = await refused(place.write, history, path="a.txt", content="caf\ufffd\nbaz\n")
    assert "bytes that are not UTF-8" in why
    assert "edit_file" in why
    await run(place.write, history, path="a.txt", content="cafe\nbaz\n")
    assert place.get("a.txt") == b"cafe\nbaz\n"


async def test_who_has_to_agree_sees_what_would_not_be_seen(place: Place) -> None:
    shown = await preview(place.write, path="a.txt", content="a\x1b[8mb\u202e\u200b\r\n\tc\n")
    assert shown.endswith("+a\\x1b[8mb\\u202e\\u200b\n+\tc")


@pytest.mark.parametrize("name", ["a\nb", "a\x1b[2K", "a\u202eb"])
def test_a_name_cannot_play_tricks_where_people_read_it(place: Place, name: str) -> None:
    for tool in (place.read, place.write):
        assert tool.describe is not None
        assert tool.describe({"path": name, "content": ""}).isprintable()


async def test_a_long_diff_is_bounded_in_bytes(place: Place) -> None:
    place.put("a.txt", "語\n".encode() * 10)
    history = committed(await run(place.read, path="a.txt"))
    made = await run(place.write, history, path="a.txt", content=("語" * 900 + "\n") * 300)
    assert len(text_of(made).encode()) < 60_000
