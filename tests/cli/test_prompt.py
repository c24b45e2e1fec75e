"""What the user asks, from the command line, from a pipe and from files."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import BinaryIO

import pytest

from holdfast.cli import prompt_sources
from holdfast.cli.prompt_sources import prompt_of, read_stdin
from holdfast.errors import ConfigError
from holdfast.messages import File, Text


def test_words_and_what_is_piped_in_are_one_prompt() -> None:
    assert prompt_of("Review this.", "- a\n+ b\n", []) == "Review this.\n\n- a\n+ b"


def test_either_will_do() -> None:
    assert prompt_of("Hi", "", []) == "Hi"
    assert prompt_of("", "Hi\n", []) == "Hi"
    assert prompt_of("", " \n", []) is None


def test_a_file_goes_with_the_words(tmp_path: Path) -> None:
    picture = tmp_path / "a.png"
    picture.write_bytes(b"\x89PNG")
    assert prompt_of("What is it?", "", [str(picture)]) == [
        Text("What is it?"),
        File("image/png", name="a.png", data=b"\x89PNG"),
    ]


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[BinaryIO]:
    """The end of a pipe to write to; the other is standard input."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "r") as stdin, os.fdopen(writing, "wb", buffering=0) as end:
        monkeypatch.setattr("sys.stdin", stdin)
        yield end


def test_a_pipe_is_read_to_its_end(pipe: BinaryIO) -> None:
    pipe.write("ä".encode() + b"\xff")
    pipe.close()
    assert read_stdin("words", pytest.fail) == "ä\ufffd"


def test_a_pipe_that_somebody_has_made_not_to_wait_is_waited_for(
    pipe: BinaryIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompt_sources, "PIPE_WAIT", 0.0)
    os.set_blocking(sys.stdin.fileno(), False)

    def note(text: str) -> None:
        Thread(target=lambda: (pipe.write(b"late"), pipe.close())).start()

    assert read_stdin("words", note) == "late"
    assert not os.get_blocking(sys.stdin.fileno())


def test_whoever_leaves_a_pipe_open_is_told_what_is_waited_for(
    pipe: BinaryIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompt_sources, "PIPE_WAIT", 0.0)
    notes: list[str] = []

    def note(text: str) -> None:
        notes.append(text)
        pipe.close()

    assert read_stdin("words", note) == ""
    assert "< /dev/null" in notes[0]


def test_too_much_is_refused(pipe: BinaryIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_sources, "MAX_STDIN", 3)
    pipe.write(b"four")
    pipe.close()
    with pytest.raises(ConfigError, match="--dir"):
        read_stdin("", pytest.fail)


def test_nothing_is_read_from_the_null_device_or_from_a_closed_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with open(os.devnull) as null:
        monkeypatch.setattr("sys.stdin", null)
        assert read_stdin("words", pytest.fail) == ""
    monkeypatch.setattr("sys.stdin", None)
    assert read_stdin("words", pytest.fail) == ""
    monkeypatch.setattr("sys.stdin", io.StringIO("has no descriptor"))
    assert read_stdin("words", pytest.fail) == ""
