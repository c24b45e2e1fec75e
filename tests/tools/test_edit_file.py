"""Editing files: the diff first, then the change, and not one byte beside it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast import Agent, RunResult, approve
from holdfast.kernel.errors import HoldfastError
from holdfast.kernel.events import ToolStarted
from holdfast.kernel.messages import dump, load
from holdfast.kernel.tool import Tool
from holdfast.testing import ScriptedModel, ScriptedTurn, call
from holdfast.tools.edit_file import edit_file
from holdfast.tools.files.planned_change import ChangeRefused
from holdfast.tools.files.read_versions import seen
from holdfast.tools.files.text_file import ERRORS, Encoding, shown
from holdfast.tools.read_file import read_file
from holdfast.tools.workspace.directory_workspace import DirectoryWorkspace
from holdfast.tools.write_file import write_file
from tests.kernel.runs import only
from tests.kernel.toolkit import assert_valid, outcomes, result_of, results_in, watched
from tests.tools.file_tools import committed, patched, preview, run, text_of


class Place:
    """A directory with one file, and the tools that work in it."""

    def __init__(self, path: Path) -> None:
        self.file = path / "a.txt"
        directory = DirectoryWorkspace(path)
        self.read = read_file(directory)
        self.write = write_file(directory, approval="never")
        self.edit = edit_file(directory, approval="never")
        self.edit_if_agreed = edit_file(directory)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def edit(old: str, new: str, **more: Any) -> dict[str, Any]:
    return {"old_text": old, "new_text": new, **more}


async def refused(tool: Tool, history: Any = (), /, **values: Any) -> str:
    """Why a call is refused: before anybody is asked, and again when it is to run."""
    with pytest.raises(HoldfastError) as first:
        await preview(tool, history, **values)
    with pytest.raises(HoldfastError) as second:
        await run(tool, history, **values)
    assert str(first.value) == str(second.value)
    return str(second.value)


# --- edits --------------------------------------------------------------------------------------


async def test_the_diff_is_shown_first_and_then_made(place: Place) -> None:
    place.file.write_bytes(b"one\r\ntwo\r\n")
    values = {"path": "a.txt", "edits": [edit("one\ntwo", "1\n2"), edit("2", "II")]}
    shown = await preview(place.edit, **values)
    assert place.file.read_bytes() == b"one\r\ntwo\r\n"
    made = await run(place.edit, **values)
    assert place.file.read_bytes() == b"1\r\nII\r\n"
    assert text_of(made) == shown
    assert shown.startswith("--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-one\n")
    assert patched("one\ntwo\n", shown) == "1\nII\n"


async def test_bytes_that_are_no_text_survive(place: Place) -> None:
    place.file.write_bytes(b"caf\xe9 one\n\xff\n")
    await run(place.edit, path="a.txt", edits=[edit("one", "two")])
    assert place.file.read_bytes() == b"caf\xe9 two\n\xff\n"


async def test_a_file_that_is_not_there_is_to_be_written(place: Place) -> None:
    words = await refused(place.edit, path="b.txt", edits=[edit("a", "b")])
    assert words.startswith("b.txt does not exist")
    assert words.endswith("To create a new file, use write_file. Nothing was changed.")


async def test_what_is_no_text_is_not_edited(place: Place) -> None:
    place.file.write_bytes(b"\x1f\x8b\0\0")
    words = await refused(place.edit, path="a.txt", edits=[edit("a", "b")])
    assert words == ("a.txt is compressed with gzip: only text can be edited. Nothing was changed.")


async def test_edits_that_come_to_nothing_are_refused(place: Place) -> None:
    place.file.write_bytes(b"a\n")
    words = await refused(place.edit, path="a.txt", edits=[edit("a", "b"), edit("b", "a")])
    assert words == "these edits do not change a.txt. Nothing was changed."


async def test_one_edit_that_cannot_be_made_keeps_all_from_being_made(place: Place) -> None:
    place.file.write_bytes(b"a\nb\n")
    edits = [edit("a", "x"), edit("nowhere", "y")]
    words = await refused(place.edit, path="a.txt", edits=edits)
    assert words.startswith("edit 2 of 2: old_text was not found")
    assert place.file.read_bytes() == b"a\nb\n"


@pytest.mark.parametrize(
    "edits",
    ["[]", '{"old_text": "a", "new_text": "b"}', '[{"old_text": "a"}]', '[["a", "b"]]'],
)
async def test_edits_of_another_form_are_refused(place: Place, edits: str) -> None:
    place.file.write_bytes(b"a\n")
    made = await result_of(place.edit, f'{{"path": "a.txt", "edits": {edits}}}')
    assert made.outcome == "failed"
    assert "edits" in made.text
    assert place.file.read_bytes() == b"a\n"


# --- what was seen ------------------------------------------------------------------------------


async def test_a_file_that_was_never_read_may_be_edited(place: Place) -> None:
    place.file.write_bytes(b"a\n")
    await run(place.edit, path="a.txt", edits=[edit("a", "b")])
    assert place.file.read_bytes() == b"b\n"


async def test_a_file_that_has_changed_since_it_was_read_is_not_edited(place: Place) -> None:
    place.file.write_bytes(b"a\nb\n")
    history = committed(await run(place.read, path="a.txt"))
    place.file.write_bytes(b"a\nc\n")
    words = await refused(place.edit, history, path="a.txt", edits=[edit("a", "x")])
    assert words == "a.txt has changed since it was read: read it again. Nothing was changed."
    assert place.file.read_bytes() == b"a\nc\n"


async def test_what_was_changed_here_need_not_be_read_again(place: Place) -> None:
    place.file.write_bytes(b"a\n")
    results = [await run(place.read, path="a.txt")]
    for old, new in (("a", "b"), ("b", "c")):
        edits = [edit(old, new)]
        results.append(await run(place.edit, committed(*results), path="a.txt", edits=edits))
    results.append(await run(place.write, committed(*results), path="a.txt", content="d\n"))
    await run(place.edit, committed(*results), path="a.txt", edits=[edit("d", "e")])
    assert place.file.read_bytes() == b"e\n"


async def test_who_has_edited_a_file_has_not_seen_all_of_it(place: Place) -> None:
    place.file.write_bytes(b"a\nb\n")
    history = committed(await run(place.edit, path="a.txt", edits=[edit("a", "x")]))
    known = seen(history, "a.txt")
    assert known is not None
    assert known.next == 1
    with pytest.raises(ChangeRefused, match="only part of"):
        await run(place.write, history, path="a.txt", content="new\n")


# --- in a run -----------------------------------------------------------------------------------


def agent(place: Place, *script: ScriptedTurn) -> Agent:
    return Agent(model=ScriptedModel(script), tools=[place.read, place.edit_if_agreed])


def edit_call(*edits: tuple[str, str]) -> Any:
    return call("edit_file", path="a.txt", edits=[edit(*each) for each in edits])


async def agreed(place: Place, before: RunResult) -> RunResult:
    """All that was asked is agreed to, after a restart."""
    after = await agent(place, "Done.").run(
        history=load(dump(before.history)),
        resolve={action.call.id: approve(action) for action in before.actions},
    )
    assert_valid(after.history)
    return after


async def test_people_are_shown_the_diff_and_nothing_is_changed_before_they_agree(
    place: Place,
) -> None:
    place.file.write_bytes(b"one\n")
    result = await agent(place, edit_call(("one", "two"))).run("Go.")
    (action,) = result.actions
    assert action.preview == "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two"
    assert place.file.read_bytes() == b"one\n"

    after = await agreed(place, result)
    assert place.file.read_bytes() == b"two\n"
    (made,) = results_in(after.history)
    assert (made.outcome, made.text) == ("ok", action.preview)


async def test_nobody_is_asked_about_an_edit_that_cannot_be_made(place: Place) -> None:
    place.file.write_bytes(b"one\n")
    result = await agent(place, edit_call(("two", "three")), "Oh.").run("Go.")
    assert result.reason == "stop"
    (made,) = results_in(result.history)
    assert made.outcome == "failed"
    assert "edit 1 of 1: old_text was not found" in made.text


async def test_a_change_while_people_think_is_not_edited(place: Place) -> None:
    place.file.write_bytes(b"one\ntwo\n")
    asks = agent(place, call("read_file", path="a.txt"), edit_call(("one", "1")))
    result = await asks.run("Go.")
    place.file.write_bytes(b"one\nother\n")
    after = await agreed(place, result)
    assert outcomes(after.history) == ["ok", "failed"]
    assert place.file.read_bytes() == b"one\nother\n"


async def test_several_edits_of_one_file_in_one_message_are_all_made(place: Place) -> None:
    place.file.write_bytes(b"one\ntwo\nthree\nfour\n")
    edits = [edit_call((old, old.upper())) for old in ("one", "two", "three", "four")]
    result = await agent(place, call("read_file", path="a.txt"), edits).run("Go.")
    assert len(result.actions) == 4
    after = await agreed(place, result)
    assert outcomes(after.history) == ["ok"] * 5
    assert place.file.read_bytes() == b"ONE\nTWO\nTHREE\nFOUR\n"

    known = seen(after.history, "a.txt")
    assert known is not None
    more = await agent(place, edit_call(("ONE", "1"))).run("More.", history=after.history)
    assert more.reason == "requires_action"  # the file is as it was last seen


async def test_what_was_seen_outlives_the_process(place: Place) -> None:
    place.file.write_bytes(b"one\n")
    first = await agent(place, call("read_file", path="a.txt"), "Read.").run("Read it.")
    place.file.write_bytes(b"one, but changed\n")
    again = agent(Place(place.file.parent), edit_call(("one", "two")), "Oh.")
    second = await again.run("Edit it.", history=load(dump(first.history)))
    assert outcomes(second.history) == ["ok", "failed"]
    assert "has changed since it was read" in results_in(second.history)[-1].text


async def test_people_see_how_many_changes_are_made(place: Place) -> None:
    place.file.write_bytes(b"one\ntwo\n")
    model = ScriptedModel([edit_call(("one", "1"), ("two", "2")), edit_call(("1", "I")), "Done."])
    events, _ = await watched(Agent(model=model, tools=[place.edit]).run("Go."))
    labels = [started.label for started in only(ToolStarted, events)]
    assert labels == ["Edit a.txt (2 changes)", "Edit a.txt"]


# --- any file, any edits ------------------------------------------------------------------------

ENDINGS = {"LF": ["\n"], "CRLF": ["\r\n"], "CR": ["\r"], "mixed": ["\n", "\r\n"]}
FILES: list[tuple[bytes, Encoding]] = [
    (b"", "utf-8"),
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
]
LETTERS = "ab \t\u201c\u00e9\U0001f600\x85\u2028"


ENDS = ("\r\n", "\n", "\r")
NEW = "a line end that was put in"


class Model:
    """The plainest idea of a file: a list of characters, of which a line end is one."""

    def __init__(self, characters: Sequence[str]) -> None:
        self.characters = list(characters)
        self.endings = {each for each in characters if each in ENDS} or {"\n"}

    @property
    def text(self) -> str:
        return "".join("\n" if each in (*ENDS, NEW) else each for each in self.characters)

    @property
    def is_of_another_encoding(self) -> bool:
        """Some of it is no UTF-8, and nothing but ASCII is."""
        odd = {each for each in self.text if not each.isascii()}
        return bool(odd) and all("\ud800" <= each <= "\udfff" for each in odd)

    def edit(self, old_text: str, new_text: str, replace_all: bool) -> bool:
        """False if the edit has to be refused; the model is of no use then."""
        text = self.text
        places = [at for at in range(len(text)) if text.startswith(old_text, at)]
        if not places or old_text == new_text or (len(places) > 1 and not replace_all):
            return False
        if not new_text.isascii() and self.is_of_another_encoding:
            return False
        end = 0
        apart = [at for at in places if at >= end and (end := at + len(old_text))]
        for at in reversed(apart):
            put = [NEW if each == "\n" else each for each in new_text]
            self.characters[at : at + len(old_text)] = put
        if "\n" not in self.text:
            self.endings.add("\n")  # none is left to go by
        return True

    def settle(self, raw: str) -> None:
        """Take over which line ends were put in. All else has to be there as it is here."""
        at = 0
        for number, each in enumerate(self.characters):
            there = (
                next((end for end in ENDS if raw.startswith(end, at)), "") if each == NEW else each
            )
            assert raw.startswith(there, at)
            assert each != NEW or there in self.endings
            self.characters[number] = there
            at += len(there)
        assert at == len(raw)


class File(NamedTuple):
    characters: tuple[str, ...]
    bom: bytes
    encoding: Encoding

    @property
    def data(self) -> bytes:
        return self.bom + "".join(self.characters).encode(self.encoding, ERRORS[self.encoding])


Calls: TypeAlias = list[list[dict[str, Any]]]


@st.composite
def files(draw: st.DrawFn) -> File:
    bom, encoding = draw(st.sampled_from(FILES))
    letters = LETTERS + ("\udce9\udcff" if encoding == "utf-8" else "")
    endings = ENDINGS[draw(st.sampled_from(sorted(ENDINGS)))]
    characters = draw(st.lists(st.sampled_from([*letters, *endings, *endings]), max_size=25))
    return File(tuple(characters), bom, encoding)


@st.composite
def edits_of(draw: st.DrawFn, model: Model) -> dict[str, Any]:
    """Of something that is there, once or more often."""
    start = draw(st.integers(0, max(0, len(model.characters) - 1)))
    old = model.text[start : start + draw(st.integers(1, 6))]
    new = draw(st.text("abx\n\u00e9", max_size=5))
    return edit(old or "x", new, replace_all=draw(st.booleans()))


@st.composite
def files_and_calls(draw: st.DrawFn) -> tuple[File, Calls]:
    """A file and some calls, the edits of which end with the first that is to be refused."""
    file = draw(files())
    calls: Calls = []
    model = Model(file.characters)
    for _ in range(draw(st.integers(1, 4))):
        after, edits = Model(model.characters), [draw(edits_of(model))]
        while (allowed := after.edit(**edits[-1])) and len(edits) < 3 and draw(st.booleans()):
            edits.append(draw(edits_of(after)))
        calls.append(edits)
        model = after if allowed else model
    return file, calls


@given(files_and_calls())
@example((File(("\udce9",), b"", "utf-8"), [[edit("\udce9", "é", replace_all=False)]]))
async def test_any_edits_do_to_a_file_what_they_do_to_a_list_of_characters(
    drawn: tuple[File, Calls],
) -> None:
    file, calls = drawn
    model = Model(file.characters)
    with tempfile.TemporaryDirectory() as path:
        place = Place(Path(path))
        place.file.write_bytes(file.data)
        for edits in calls:
            before, after = place.file.read_bytes(), Model(model.characters)
            allowed = all(after.edit(**each) for each in edits)
            if not allowed or after.text == model.text:
                with pytest.raises(HoldfastError, match=r"Nothing was changed\.$"):
                    await run(place.edit, path="a.txt", edits=edits)
                assert place.file.read_bytes() == before
                continue
            made = await run(place.edit, path="a.txt", edits=edits)
            now = place.file.read_bytes()
            assert now.startswith(file.bom)
            after.settle(now[len(file.bom) :].decode(file.encoding, ERRORS[file.encoding]))
            assert patched(shown(model.text), text_of(made)) == shown(after.text)
            model = Model(after.characters)


@st.composite
def files_and_wrong_edits(draw: st.DrawFn) -> tuple[File, list[dict[str, Any]]]:
    """A file, and edits among which is one that cannot be made."""
    file = draw(files())
    model = Model(file.characters)
    edits = []
    for _ in range(draw(st.integers(0, 3))):
        wanted = draw(edits_of(model))
        if model.edit(**wanted):
            edits.append(wanted)
    wrong = draw(st.sampled_from(["\N{SNOWMAN}", "a\n\N{SNOWMAN}\nb", ""]))
    edits.append(edit(wrong, "x", replace_all=draw(st.booleans())))
    return file, edits + draw(st.lists(edits_of(model), max_size=1))


@given(files_and_wrong_edits())
async def test_edits_that_fail_leave_every_byte_of_a_file_as_it_was(
    drawn: tuple[File, list[dict[str, Any]]],
) -> None:
    file, edits = drawn
    with tempfile.TemporaryDirectory() as path:
        place = Place(Path(path))
        place.file.write_bytes(file.data)
        before = place.file.stat()

        with pytest.raises(ChangeRefused, match=r"^edit \d of \d: (?s:.*) Nothing was changed\.$"):
            await run(place.edit, path="a.txt", edits=edits)

        after = place.file.stat()
        assert place.file.read_bytes() == file.data
        assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
        assert os.listdir(path) == ["a.txt"]


@pytest.mark.parametrize("name", ["sub/../a.txt", "link"])
async def test_a_changed_file_is_not_edited_by_another_of_its_names(
    place: Place, name: str
) -> None:
    place.file.write_text("old\nrest\n")
    (place.file.parent / "sub").mkdir()
    (place.file.parent / "link").symlink_to("a.txt")
    history = committed(await run(place.read, path="a.txt"))
    place.file.write_text("old\nother rest\n")
    with pytest.raises(ChangeRefused, match="has changed since it was read"):
        await run(place.edit, history, path=name, edits=[edit("old", "new")])


async def test_marks_for_bytes_that_are_no_text_are_said_to_be_marks(place: Place) -> None:
    place.file.write_bytes(b"caf\xe9 au lait\n")
    with pytest.raises(ChangeRefused, match="bytes that are not UTF-8"):
        await run(place.edit, path="a.txt", edits=[edit("caf\ufffd au lait", "tea")])


def test_a_name_cannot_play_tricks_where_people_read_it(place: Place) -> None:
    assert place.edit.describe is not None
    assert place.edit.describe({"path": "a\nb\u202e", "edits": []}).isprintable()
