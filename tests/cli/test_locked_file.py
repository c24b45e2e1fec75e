"""A file that is replaced as a whole, and that no two processes have at the same time."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from holdfast.cli import locked_file
from holdfast.cli.locked_file import LockedFile, NotSaved
from holdfast.errors import ConfigError

NOBODY: Final = 65534

HOLD: Final = """
import sys
from holdfast.cli.locked_file import LockedFile
held = LockedFile(sys.argv[1])
for line in sys.stdin:
    held.replace(line.encode())
    print("held", flush=True)
"""

COUNT: Final = """
import sys
from holdfast.cli.locked_file import LockedFile
from holdfast.kernel.errors import ConfigError
left = int(sys.argv[2])
while left:
    try:
        file = LockedFile(sys.argv[1])
    except ConfigError as error:
        assert "in use" in str(error)
        continue
    number = int(file.content or b"0")
    file.replace(b"half way")
    file.replace(b"%d" % (number + 1))
    file.close()
    left -= 1
"""


def started(program: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def content_of(path: Path) -> bytes:
    file = LockedFile(str(path))
    file.close()
    return file.content


@contextmanager
def at_most(size: int) -> Iterator[None]:
    """No file can grow beyond this, as if the disk were full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def without_rights(path: Path) -> Iterator[None]:
    """Nobody may read or write this, not even who runs the tests."""
    mode = stat.S_IMODE(path.stat().st_mode)
    path.chmod(0)
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        path.chmod(mode)


# --- Replacing ----------------------------------------------------------------------------------


def test_a_new_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    file = LockedFile(str(tmp_path / "new"))
    file.replace(b"secret")
    file.close()

    assert (tmp_path / "new").read_bytes() == b"secret"
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["new"]


def test_a_file_that_is_replaced_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "shared"
    path.write_bytes(b"before")
    path.chmod(0o640)

    file = LockedFile(str(path))
    file.replace(b"after")
    file.close()

    assert path.read_bytes() == b"after"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_a_file_that_is_replaced_keeps_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "theirs"
    path.write_bytes(b"before")
    os.chown(path, NOBODY, NOBODY)

    file = LockedFile(str(path))
    file.replace(b"after")
    file.close()

    assert (path.stat().st_uid, path.stat().st_gid) == (NOBODY, NOBODY)


@pytest.mark.parametrize("there", [True, False], ids=["a file", "nothing"])
def test_of_a_link_what_it_points_to_is_replaced(tmp_path: Path, there: bool) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to(target)
    if there:
        target.write_bytes(b"before")

    file = LockedFile(str(link))
    file.replace(b"after")
    file.close()

    assert link.is_symlink()
    assert target.read_bytes() == b"after"


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file"
    file = LockedFile(str(path))
    file.replace(b"a" * 100)
    with path.open("rb") as reader:
        file.replace(b"b" * 50)
        assert reader.read() == b"a" * 100
    assert path.read_bytes() == b"b" * 50
    file.close()


def test_what_somebody_who_was_killed_left_behind_is_cleared_away(tmp_path: Path) -> None:
    (tmp_path / ".file.unfinished").symlink_to(tmp_path / "precious")
    (tmp_path / "precious").write_bytes(b"precious")

    file = LockedFile(str(tmp_path / "file"))
    file.replace(b"new")
    file.close()

    assert (tmp_path / "precious").read_bytes() == b"precious"
    assert sorted(os.listdir(tmp_path)) == ["file", "precious"]


def test_on_a_full_disk_the_file_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "file"
    file = LockedFile(str(path))
    file.replace(b"before")

    with at_most(1_000), pytest.raises(NotSaved) as caught:
        file.replace(b"x" * 2_000)

    assert path.read_bytes() == b"before"
    assert os.listdir(tmp_path) == ["file"]
    assert "The previous content is intact. Free some space" in str(caught.value)
    file.replace(b"after")  # there is room again
    assert path.read_bytes() == b"after"
    file.close()


def test_a_directory_that_went_away_is_told(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    file = LockedFile(str(inner / "file"))
    (inner / "file").unlink()
    inner.rmdir()

    with pytest.raises(NotSaved, match=r"No such file or directory.*Fix that"):
        file.replace(b"new")
    file.close()


def test_a_file_that_was_never_written_to_is_gone_again(tmp_path: Path) -> None:
    LockedFile(str(tmp_path / "new")).close()
    assert os.listdir(tmp_path) == []


def test_an_empty_file_that_was_there_before_stays(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    LockedFile(str(tmp_path / "empty")).close()
    assert os.listdir(tmp_path) == ["empty"]


# --- What cannot be opened ----------------------------------------------------------------------


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a directory: name a file in it"):
        LockedFile(str(tmp_path))


@pytest.mark.parametrize("parent", ["missing", "file"])
def test_a_path_through_no_directory_is_refused(tmp_path: Path, parent: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(
        ConfigError, match=f"the directory .*/{parent} does not exist. Create it first"
    ):
        LockedFile(str(tmp_path / parent / "history"))


def test_what_is_no_regular_file_is_refused_without_waiting_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (str(tmp_path / "pipe"), os.devnull):
        with pytest.raises(ConfigError, match="is not a regular file"):
            LockedFile(path)


def test_a_file_without_permission_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")
    with without_rights(path), pytest.raises(ConfigError, match="is not readable and writable"):
        LockedFile(str(path))


def test_a_directory_that_nothing_can_be_saved_in_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may do anything anywhere
    with pytest.raises(ConfigError, match=f"{tmp_path} is not writable"):
        LockedFile(str(path))
    monkeypatch.undo()
    assert content_of(path) == b"before"  # and is not locked


# --- One process at a time ----------------------------------------------------------------------


def test_another_process_is_refused_for_as_long_as_a_file_is_held(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    with started(HOLD, path) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        for text in ("once\n", "again\n"):  # also behind a replacement, and behind the next
            other.stdin.write(text)
            other.stdin.flush()
            assert other.stdout.readline() == "held\n"
            with pytest.raises(ConfigError, match="in use by another run"):
                LockedFile(path)
        other.stdin.close()
        assert other.wait() == 0
    assert content_of(tmp_path / "file") == b"again\n"


def test_a_file_whose_holder_was_killed_is_free(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    with started(HOLD, path) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        other.stdin.write("kept\n")
        other.stdin.flush()
        assert other.stdout.readline() == "held\n"
        other.kill()
    assert content_of(tmp_path / "file") == b"kept\n"


def test_a_file_is_not_held_by_a_command_that_outlives_us(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    file = LockedFile(path)
    file.replace(b"kept")
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, close_fds=False):
        file.close()
        assert content_of(tmp_path / "file") == b"kept"


def test_no_change_is_lost_between_processes_that_want_the_same_file(tmp_path: Path) -> None:
    path, times = str(tmp_path / "file"), 40
    racers = [started(COUNT, path, str(times)) for _ in range(3)]
    for racer in racers:
        racer.communicate()
        assert racer.returncode == 0
    assert content_of(tmp_path / "file") == b"%d" % (len(racers) * times)
    assert os.listdir(tmp_path) == ["file"]


def test_a_file_that_is_replaced_between_opening_and_locking_is_opened_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")
    opened = locked_file._opened

    def slowly(name: str) -> tuple[int, bool]:
        descriptor = opened(name)
        monkeypatch.undo()
        (tmp_path / "next").write_bytes(b"new")
        os.replace(tmp_path / "next", path)
        return descriptor

    monkeypatch.setattr(locked_file, "_opened", slowly)
    assert content_of(path) == b"new"


def test_where_there_are_no_locks_a_file_is_saved_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    path = tmp_path / "file"
    file = LockedFile(str(path))
    file.replace(b"first")
    file.replace(b"second")
    assert content_of(path) == b"second"
    file.close()
