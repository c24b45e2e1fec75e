"""A database file is opened by one process, and whatever is in the way is said clearly."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import apsw
import pytest

from holdfast.store.database import CannotOpen
from holdfast.store.sqlite.file import MEMORY, check_version, open_file

SOUND: Final = "3.51.3"


def refused(path: Path | str) -> str:
    with pytest.raises(CannotOpen) as refusal:
        open_file(path, SOUND)
    return str(refusal.value)


@pytest.mark.parametrize(
    "version",
    ["3.7.0", "3.40.1", "3.44.5", "3.45.0", "3.45.9", "3.50.6", "3.51.0", "3.51.2", "3.6.23"],
)
def test_a_sqlite_that_can_lose_data_is_refused(version: str, tmp_path: Path) -> None:
    with pytest.raises(CannotOpen, match=rf"SQLite {re.escape(version)} can damage.*install an"):
        open_file(tmp_path / "chats.db", version)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    "version", ["3.44.6", "3.44.7", "3.50.7", "3.51.3", "3.52.0", "3.54.1", "4.0.0"]
)
def test_a_sound_sqlite_is_not(version: str) -> None:
    check_version(version)


def test_the_one_that_is_installed_is_sound() -> None:
    check_version(apsw.sqlite_lib_version())


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    message = refused(tmp_path / "missing" / "chats.db")
    assert f"there is no directory {tmp_path / 'missing'}: make it" in message


def test_a_directory_is_no_database(tmp_path: Path) -> None:
    assert f"{tmp_path} is a directory: name a file in it" in refused(tmp_path)


def test_a_name_is_needed() -> None:
    assert "has no name" in refused("")


def test_a_pipe_is_no_database(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "is not a regular file" in refused(tmp_path / "pipe")


def test_a_file_with_something_else_in_it_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear Sir or Madam, " * 100)
    assert "not a SQLite database, or it is damaged: name another file" in refused(path)
    assert path.read_text() == "Dear Sir or Madam, " * 100


def test_a_damaged_database_is_said_to_be_one(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute("CREATE TABLE t (a)")
    content = bytearray(path.read_bytes())
    content[100:200] = b"\xff" * 100
    path.write_bytes(content)
    assert "damaged" in refused(path)


@pytest.fixture
def public() -> Iterator[Path]:
    """A directory that somebody else may reach, too."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


@contextmanager
def bound() -> Iterator[None]:
    """As somebody whom permissions bind, which they do not for root."""
    if os.geteuid() != 0:
        yield
        return
    os.setegid(65534)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def test_a_file_that_may_not_be_written_is_refused(public: Path) -> None:
    path = public / "chats.db"
    path.touch(0o444)
    public.chmod(0o777)
    with bound():
        assert "may not be written: change its permissions" in refused(path)
    assert os.listdir(public) == ["chats.db"]


def test_a_directory_that_may_not_be_written_is_refused(public: Path) -> None:
    path = public / "chats.db"
    path.touch()
    path.chmod(0o666)
    public.chmod(0o555)
    with bound():
        message = refused(path)
    assert f"needs files beside it, and {public} may not be written: change its perm" in message


def test_a_copy_where_nothing_may_be_made_beside_it_can_be_read(public: Path) -> None:
    path = public / "a copy?of 100%.db"
    with closing(open_file(path, SOUND)) as file:
        file.writer.execute("CREATE TABLE kept (x); INSERT INTO kept VALUES (1)")
    (public / f"{path.name}.lock").unlink()
    path.chmod(0o444)
    public.chmod(0o555)
    with bound(), closing(open_file(path, SOUND, writes=False)) as file:
        assert file.readers[0].execute("SELECT x FROM kept").fetchall() == [(1,)]
    assert os.listdir(public) == [path.name]


def test_a_lock_that_belongs_to_somebody_else_is_refused(public: Path) -> None:
    (public / "chats.db.lock").touch(0o600)
    public.chmod(0o777)
    if os.geteuid() != 0:
        (public / "chats.db.lock").chmod(0)
    with bound():
        assert "chats.db.lock cannot be opened (Permission denied)" in refused(public / "chats.db")


def test_a_link_at_the_lock_file_is_refused_and_its_target_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    (tmp_path / "chats.db.lock").symlink_to(tmp_path / "thesis.txt")
    assert f"{tmp_path}/chats.db.lock is a link, which Holdfast did not make: remove it" in refused(
        tmp_path / "chats.db"
    )
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_a_hard_link_at_the_lock_file_is_refused_and_its_target_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    os.link(tmp_path / "thesis.txt", tmp_path / "chats.db.lock")
    assert "chats.db.lock is a hard link to another file" in refused(tmp_path / "chats.db")
    assert (tmp_path / "thesis.txt").read_text() == "years of work"


def test_a_pipe_at_the_lock_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "chats.db.lock")
    assert "chats.db.lock is not a regular file" in refused(tmp_path / "chats.db")


def test_a_refused_lock_file_is_not_kept_open(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "chats.db.lock")
    before = len(os.listdir("/proc/self/fd"))
    refused(tmp_path / "chats.db")
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("mode", [0o666, 0o602, 0o662])
def test_a_file_that_every_user_can_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "chats.db"
    open_file(path, SOUND).close()
    path.chmod(mode)
    message = refused(path)
    assert f"can be changed by every user of this machine (mode {mode:03o})" in message
    assert f"chmod 600 {path}" in message
    path.chmod(0o600)
    open_file(path, SOUND).close()


@pytest.mark.parametrize("mode", [0o644, 0o660])
def test_a_file_that_is_open_to_other_users_is_warned_about(
    tmp_path: Path, mode: int, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "chats.db"
    open_file(path, SOUND).close()
    assert not caplog.messages
    path.chmod(mode)
    open_file(path, SOUND).close()
    assert [f"{path} is open to other users (mode {mode:03o})"] == [
        message.partition(":")[0] for message in caplog.messages
    ]


def test_a_file_that_is_open_in_this_process_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    with closing(open_file(path, SOUND)):
        assert "is open in this process already: use the open database" in refused(path)
    open_file(path, SOUND).close()


def test_a_link_to_an_open_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "chats.db")
    with closing(open_file(tmp_path / "chats.db", SOUND)):
        assert f"{tmp_path / 'chats.db'} is open in this process" in refused(tmp_path / "link.db")


HOLDER: Final = """
import sys
from holdfast.store.sqlite.file import open_file
file = open_file(sys.argv[1], "3.51.3")
print("open", flush=True)
sys.stdin.read()
"""


def test_a_file_that_another_process_has_open_is_refused_until_that_one_dies(
    tmp_path: Path,
) -> None:
    path = tmp_path / "chats.db"
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        message = refused(path)
        assert f"is open in another process ({holder.pid})" in message
        assert "stop that process, or use PostgreSQL" in message
        holder.kill()
        holder.wait(10)
        open_file(path, SOUND).close()


def test_a_file_that_another_program_has_locked_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    with closing(apsw.Connection(str(path))) as other:
        other.execute("CREATE TABLE t (a); BEGIN EXCLUSIVE")
        assert "another program has it locked: close that program" in refused(path)
    open_file(path, SOUND).close()


def test_what_is_refused_is_not_kept_open(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear Sir or Madam, " * 100)
    before = len(os.listdir("/proc/self/fd"))
    refused(path)
    refused(path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_power_cut_loses_nothing_and_keys_are_checked(tmp_path: Path) -> None:
    with closing(open_file(tmp_path / "chats.db", SOUND)) as file:
        pragma = file.writer.pragma
        assert pragma("journal_mode") == "wal"
        assert pragma("synchronous") == 2
        assert pragma("foreign_keys") == 1
        assert [reader.pragma("mmap_size") for reader in file.readers] == [0, 0, 0]
        assert pragma("mmap_size") == 0


def test_a_new_database_is_its_owners_alone(tmp_path: Path) -> None:
    with closing(open_file(tmp_path / "chats.db", SOUND)) as file:
        file.writer.execute("CREATE TABLE t (a)")
        modes = {each.name: each.stat().st_mode & 0o777 for each in tmp_path.iterdir()}
    assert modes == dict.fromkeys(
        ("chats.db", "chats.db-wal", "chats.db-shm", "chats.db.lock"), 0o600
    )


def test_whoever_may_read_a_database_that_is_there_still_may(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    path.touch()
    path.chmod(0o640)
    with closing(open_file(path, SOUND)):
        assert path.stat().st_mode & 0o777 == 0o640


def test_a_closed_file_leaves_no_log_behind(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    file = open_file(path, SOUND)
    file.writer.execute("CREATE TABLE t (a)")
    assert (tmp_path / "chats.db-wal").exists()
    file.close()
    assert sorted(os.listdir(tmp_path)) == ["chats.db", "chats.db.lock"]


def test_memory_is_not_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with closing(open_file(MEMORY, SOUND)), closing(open_file(MEMORY, SOUND)) as second:
        assert second.readers == []
        assert not os.listdir(tmp_path)


def test_a_name_that_looks_like_an_address_is_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    open_file("file:chats.db?mode=memory", SOUND).close()
    assert "file:chats.db?mode=memory" in os.listdir(tmp_path)
