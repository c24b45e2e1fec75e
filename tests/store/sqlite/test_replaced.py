"""A database whose files are deleted or replaced while it is open is not written to any more."""

from __future__ import annotations

import logging
import math
import os
import re
import shutil
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import anyio
import apsw
import pytest

from holdfast.store.database import Changed, InUse, NotWritable, Tx, Unavailable
from holdfast.store.migrate import Migration
from holdfast.store.sqlite import replaced_file
from holdfast.store.sqlite.database import Sqlite, open_sqlite
from holdfast.store.sqlite.replaced_file import FileWatch
from holdfast.store.write_health import RECOVERY_TIME, WriteHealth
from holdfast.testing import Clock

SCHEMA = [Migration(1, "things", "CREATE TABLE things (id text PRIMARY KEY)")]


def opened(path: Path, *, thread: bool = False) -> AbstractAsyncContextManager[Sqlite]:
    clock = Clock()
    return open_sqlite(path, now=clock.now, thread=thread, migrations=SCHEMA)


@pytest.fixture(autouse=True)
def _names_are_compared_at_every_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replaced_file, "COMPARE_INTERVAL", 0.0)


def insert(id: str) -> Callable[[Tx], Awaitable[None]]:
    async def transaction(tx: Tx) -> None:
        await tx.execute("INSERT INTO things VALUES (:id)", {"id": id})
        tx.notify(Changed(id, 1))

    return transaction


async def ids(tx: Tx) -> list[str]:
    return [id for (id,) in await tx.fetch("SELECT id FROM things ORDER BY id")]


def read(path: Path) -> list[str]:
    connection = apsw.Connection(str(path))
    try:
        return [str(id) for (id,) in connection.execute("SELECT id FROM things ORDER BY id")]
    finally:
        connection.close()


def log_size(path: Path) -> int:
    return path.with_name(f"{path.name}-wal").stat().st_size


def delete(file: Path) -> None:
    file.unlink()


def replace(file: Path) -> None:
    other = file.with_name("other")
    shutil.copy(file, other)
    os.replace(other, file)


@pytest.mark.parametrize("suffix", ["", ".lock", "-wal", "-shm"])
@pytest.mark.parametrize("how", [delete, replace])
@pytest.mark.parametrize("thread", [True, False])
async def test_a_write_after_a_file_was_deleted_or_replaced_is_refused(
    tmp_path: Path,
    suffix: str,
    how: Callable[[Path], None],
    thread: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = tmp_path / "chats.db"
    async with opened(path, thread=thread) as db:
        await db.write(insert("a"))
        db.check_writable()
        how(Path(f"{path}{suffix}"))
        with pytest.raises(NotWritable):
            db.check_writable()
        for id in ("b", "c"):
            with pytest.raises(NotWritable, match="was deleted or replaced"):
                await db.write(insert(id), short=True)
        assert await db.read(ids) == ["a"], "what is there can still be read"
    said = [record.message for record in caplog.records if "nothing is written" in record.message]
    assert len(said) == 1, "once, not for each write"
    assert f"{path}{suffix} was deleted or replaced" in said[0]
    assert "start again" in said[0] or "restart" in said[0]


@pytest.mark.parametrize("suffix", ["", "-wal"])
@pytest.mark.parametrize("how", [delete, replace])
async def test_a_file_without_a_name_is_noticed_at_once(
    tmp_path: Path, suffix: str, how: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replaced_file, "COMPARE_INTERVAL", math.inf)
    path = tmp_path / "chats.db"
    async with opened(path) as db:
        await db.write(insert("a"))
        how(Path(f"{path}{suffix}"))
        with pytest.raises(NotWritable, match="was deleted or replaced"):
            await db.write(insert("b"))


async def test_between_two_comparisons_a_write_looks_up_no_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replaced_file, "COMPARE_INTERVAL", math.inf)
    async with opened(tmp_path / "chats.db") as db:
        await db.write(insert("a"))
        monkeypatch.setattr(FileWatch, "replaced", None)  # calling it would raise
        await db.write(insert("b"))
        monkeypatch.undo()


@pytest.mark.parametrize("how", [delete, replace])
async def test_everything_committed_to_a_deleted_database_is_saved_beside_it(
    tmp_path: Path, how: Callable[[Path], None], caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "chats.db"
    saved = tmp_path / f"chats.db.saved-{os.getpid()}"
    async with opened(path) as db:
        await db.write(insert("a"))
        how(path)
        with pytest.raises(NotWritable):
            await db.write(insert("b"))
        assert f"is saved in {saved}" in caplog.text
        with pytest.raises(NotWritable, match=re.escape(f"move {saved} there")):
            await db.write(insert("b"))
        assert saved.stat().st_mode & 0o777 == 0o600
    assert read(saved) == ["a"]


async def test_a_database_is_saved_also_when_its_log_was_deleted_first(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    async with opened(path) as db:
        await db.write(insert("a"))
        for file in (Path(f"{path}-wal"), path):
            delete(file)
            with pytest.raises(NotWritable):
                await db.write(insert("b"))
    assert read(tmp_path / f"chats.db.saved-{os.getpid()}") == ["a"]


async def test_it_is_saved_at_the_end_when_nothing_was_written_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    async with opened(path) as db:
        await db.write(insert("a"))
        path.unlink()
    assert read(tmp_path / f"chats.db.saved-{os.getpid()}") == ["a"]


async def test_a_copy_that_cannot_be_made_is_reported_and_the_end_is_clean(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    async with opened(home / "chats.db") as db:
        await db.write(insert("a"))
        shutil.rmtree(home)
        with pytest.raises(NotWritable):
            await db.write(insert("b"))
        with pytest.raises(NotWritable):
            db.check_writable()
    assert "its content could not be saved" in caplog.text


async def test_a_database_that_is_moved_back_is_written_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "chats.db"
    caplog.set_level(logging.WARNING)
    async with opened(path) as db:
        await db.write(insert("a"))
        path.rename(tmp_path / "elsewhere")
        with pytest.raises(NotWritable):
            await db.write(insert("b"))
        (tmp_path / "elsewhere").rename(path)
        await db.write(insert("c"))
        assert "writes are accepted again" in caplog.text
    assert read(path) == ["a", "c"]
    assert not any(".saved-" in name for name in os.listdir(tmp_path)), "it was never lost"


async def test_a_backup_put_in_the_place_of_a_deleted_database_is_read_without_its_log(
    tmp_path: Path,
) -> None:
    path, backup = tmp_path / "chats.db", tmp_path / "backup.db"
    async with opened(backup) as db:
        for number in range(100):
            await db.write(insert(f"backup {number:03} {'x' * 200}"))
    before = read(backup)
    async with opened(path) as db:
        for number in range(50):
            await db.write(insert(f"lost {number:03} {'x' * 200}"))
        path.unlink()
        with pytest.raises(NotWritable):
            await db.write(insert("refused"))
        assert log_size(path) == 0, "also if the process is killed now"
    shutil.copy(backup, path)
    assert read(path) == before


async def test_a_database_that_was_moved_has_everything_that_was_committed(tmp_path: Path) -> None:
    path, moved = tmp_path / "chats.db", tmp_path / "moved.db"
    async with opened(path) as db:
        await db.write(insert("a"))
        path.rename(moved)
    assert log_size(path) == 0
    assert read(moved) == ["a"]


async def test_without_its_lock_file_it_still_keeps_a_second_writer_out(tmp_path: Path) -> None:
    path = tmp_path / "chats.db"
    async with opened(path) as db:
        await db.write(insert("a"))
        os.unlink(f"{path}.lock")
        with pytest.raises(InUse, match="stop that one"):
            async with opened(path):
                pass
    async with opened(path) as again:
        assert await again.read(ids) == ["a"]


async def test_a_new_database_at_the_same_path_is_left_alone_by_the_one_that_was_there(
    tmp_path: Path,
) -> None:
    path = tmp_path / "chats.db"
    async with opened(path) as second:
        async with opened(tmp_path / "first.db") as db:
            await db.write(insert("a"))
            for suffix in ("", ".lock", "-wal", "-shm"):
                os.unlink(f"{tmp_path / 'first.db'}{suffix}")
            async with opened(tmp_path / "first.db") as other:
                await other.write(insert("b"))
                with pytest.raises(NotWritable):
                    await db.write(insert("c"))
                await other.write(insert("d"))
        await second.write(insert("e"))
    assert read(tmp_path / "first.db") == ["b", "d"]
    assert read(tmp_path / f"first.db.saved-{os.getpid()}") == ["a"]


async def test_a_full_disk_makes_it_unwritable_until_writes_have_succeeded_for_a_while(
    tmp_path: Path,
) -> None:
    async def limit(tx: Tx, pages: int) -> None:
        (used,) = (await tx.fetch("PRAGMA page_count"))[0]
        await tx.fetch(f"PRAGMA max_page_count = {used + pages}")

    async with opened(tmp_path / "chats.db") as db:
        await db.write(lambda tx: limit(tx, 2))
        with pytest.raises(NotWritable, match="full"):
            await db.write(insert("x" * 100_000))
        await db.write(insert("small"))
        with pytest.raises(NotWritable, match="full"):
            db.check_writable()
        await db.write(lambda tx: limit(tx, 1_000))
        await anyio.sleep(RECOVERY_TIME)
        db.check_writable()


def test_other_errors_of_a_write_say_nothing_about_the_disk() -> None:
    now = 0.0
    health = WriteHealth(lambda: now)
    health.record(Unavailable("away"))
    health.check()
    health.record(NotWritable("full"))
    now = 10 * RECOVERY_TIME
    with pytest.raises(NotWritable):
        health.check()
    health.record(None)
    health.check()
