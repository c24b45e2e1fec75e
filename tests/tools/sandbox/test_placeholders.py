"""A placeholder exists as long as a command relies on it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.tools.sandbox.placeholders import held


@pytest.fixture
def top(tmp_path: Path) -> Iterator[int]:
    number = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield number
    os.close(number)


def test_a_placeholder_is_there_until_the_last_command_has_ended(tmp_path: Path, top: int) -> None:
    first, second = held(top, [".env"]), held(top, [".env"])
    with second:
        with first:
            assert (tmp_path / ".env").exists()
        assert (tmp_path / ".env").exists()
    assert not (tmp_path / ".env").exists()


def test_a_file_that_was_there_or_was_written_is_kept(tmp_path: Path, top: int) -> None:
    (tmp_path / "mine").touch()
    with held(top, ["mine", "late"]):
        (tmp_path / "late").write_text("secret")
    assert sorted(os.listdir(tmp_path)) == ["late", "mine"]
    assert (tmp_path / "late").read_text() == "secret"


def test_nothing_is_created_without_a_directory_or_through_a_link(tmp_path: Path, top: int) -> None:
    outside = tmp_path.parent / "outside"
    (tmp_path / "link").symlink_to(outside)
    with held(top, ["missing/.env", "link"]):
        assert os.listdir(tmp_path) == ["link"]
        assert not outside.exists()
