"""What the model has seen of a file, as its history tells."""

from __future__ import annotations

import pytest

from holdfast.kernel.messages import (
    Message,
    Metadata,
    Text,
    ToolCall,
    ToolResult,
    dump,
    load,
    results_message,
)
from holdfast.tools.files.read_versions import (
    FileRecord,
    KnownVersion,
    metadata,
    seen,
    written_before,
)


def result(given: Metadata | None) -> Message:
    return results_message([ToolResult("c", "t", (Text("…"),), metadata=given)])


def history(*records: FileRecord) -> tuple[Message, ...]:
    """As it comes out of a store."""
    return load(dump([result(metadata(record)) for record in records]))


def test_a_file_that_no_result_is_about_was_never_seen() -> None:
    assert seen((), "a.txt") is None
    assert seen(history(FileRecord("b.txt", "v1")), "a.txt") is None


def test_the_newest_version_is_the_one_that_counts() -> None:
    assert seen(
        history(FileRecord("a.txt", "v1"), FileRecord("a.txt", "v2")), "a.txt"
    ) == KnownVersion("v2")


@pytest.mark.parametrize(
    "other",
    [None, {}, {"anthropic": {"file": 1}}, {"holdfast": "x"}, {"holdfast": {"file": "a.txt"}}],
)
def test_what_other_tools_say_of_themselves_is_passed_over(other: Metadata | None) -> None:
    assert seen([*history(FileRecord("a.txt", "v1")), result(other)], "a.txt") == KnownVersion("v1")


def test_a_page_is_not_the_file() -> None:
    assert seen(history(FileRecord("a", "v1", 1, 10)), "a") == KnownVersion("v1", next=11)
    assert seen(history(FileRecord("a", "v1", 5, None)), "a") == KnownVersion("v1", next=1)


def test_pages_add_up() -> None:
    pages = (
        FileRecord("a", "v1", 1, 10),
        FileRecord("a", "v1", 11, 20),
        FileRecord("a", "v1", 15, None),
    )
    assert seen(history(*pages[:2]), "a") == KnownVersion("v1", next=21)
    assert seen(history(*pages), "a") == KnownVersion("v1")
    assert seen(history(*pages, pages[0]), "a") == KnownVersion("v1")


def test_pages_of_different_versions_do_not_add_up() -> None:
    pages = (FileRecord("a", "v1", 1, 10), FileRecord("a", "v2", 11, None))
    assert seen(history(*pages), "a") == KnownVersion("v2", next=1)


def test_an_edit_makes_a_new_version_of_which_as_much_is_known_as_of_the_old_one() -> None:
    edit = FileRecord("a", "v2", was="v1")
    assert seen(history(FileRecord("a", "v1"), edit), "a") == KnownVersion("v2")
    assert seen(history(FileRecord("a", "v1", 1, 10), edit), "a") == KnownVersion("v2", next=1)
    assert seen(history(FileRecord("a", "v0"), edit), "a") == KnownVersion("v2", next=1)
    assert seen(history(edit), "a") == KnownVersion("v2", next=1)


def test_earlier_calls_of_the_same_answer_are_told_by_what_they_write_to() -> None:
    calls = (
        ToolCall("1", "edit_file", '{"path": "a.txt", "edits": []}'),
        ToolCall("2", "read_file", '{"path": "b.txt"}'),
        ToolCall("3", "write_file", '{"path": '),
        ToolCall("4", "write_file", '{"path": "c.txt", "content": ""}'),
        ToolCall("5", "edit_file", '{"path": "d.txt", "edits": []}'),
    )
    answers = [Message("assistant", calls[:1], "answer"), Message("assistant", calls[1:], "answer")]
    assert list(written_before(answers, "1")) == []
    assert list(written_before(answers, "4")) == []
    assert list(written_before(answers, "5")) == ["c.txt"]
    assert list(written_before(answers, "6")) == []
