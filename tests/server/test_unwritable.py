"""A server whose database cannot be written says so: to callers, to probes and in its log."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from holdfast.store.database import Tx
from holdfast.store.sqlite import replaced_file
from holdfast.store.sqlite.database import Sqlite, open_sqlite
from holdfast.store.write_health import RECOVERY_TIME
from holdfast.testing import Clock
from tests.server.api import Api, agent, serving_api

pytestmark = pytest.mark.usefixtures("each_server")


@asynccontextmanager
async def serving(path: Path) -> AsyncIterator[tuple[Api, Sqlite]]:
    clock = Clock()
    async with (
        open_sqlite(path, now=clock.now, thread=False) as db,
        serving_api(db, [agent((), clock)], clock=clock) as api,
    ):
        yield api, db


async def test_a_server_whose_database_file_is_deleted_accepts_nothing_and_is_not_ready(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "chats.db"
    async with serving(path) as (api, _):
        path.unlink()
        ready = await api.get("/readyz")
        assert (ready.status, ready.body["facts"]) == (503, {"part": "database"})
        status, problem, _ = await api.post("/chats", {"prompt": "hi"})
        assert (status, problem["kind"]) == (503, "database_unavailable")
        assert (await api.get("/chats")).status == 200
    assert f"{path} was deleted or replaced while this process had it open" in caplog.text


async def test_the_heartbeat_of_a_worker_finds_out_that_the_database_file_is_deleted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "chats.db"
    async with serving(path):
        path.unlink()
        await anyio.sleep(6)
        assert "stop this process, put the right file there and start again" in caplog.text


async def test_a_worker_that_cannot_write_says_so_once_and_when_it_can_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replaced_file, "COMPARE_INTERVAL", 0.0)
    path = tmp_path / "chats.db"
    async with serving(path):
        path.rename(tmp_path / "moved.db")
        await anyio.sleep(60)
        lines = [one.getMessage() for one in caplog.records if one.name == "holdfast.worker"]
        assert sorted(line.split()[3] for line in lines) == ["claim", "renew"], lines
        (tmp_path / "moved.db").rename(path)
        await anyio.sleep(60)
    lines = [one.getMessage() for one in caplog.records if one.name == "holdfast.worker"]
    assert sorted(line.split(maxsplit=2)[2] for line in lines[2:]) == [
        "can claim chats again",
        "can renew its lease again",
    ]


async def test_a_server_is_not_ready_while_its_disk_is_full_and_ready_afterwards(
    tmp_path: Path,
) -> None:
    async def limit(tx: Tx, pages: int) -> None:
        (used,) = (await tx.fetch("PRAGMA page_count"))[0]
        await tx.fetch(f"PRAGMA max_page_count = {used + pages}")

    async with serving(tmp_path / "chats.db") as (api, db):
        await db.write(lambda tx: limit(tx, 4))
        assert (await api.get("/readyz")).status == 200
        status, problem, _ = await api.post("/chats", {"prompt": "x" * 500_000})
        assert (status, problem["kind"]) == (503, "database_unavailable")
        await anyio.sleep(RECOVERY_TIME / 2)
        ready = await api.get("/readyz")
        assert (ready.status, ready.body["facts"]) == (503, {"part": "database"})
        await db.write(lambda tx: limit(tx, 10_000))
        await anyio.sleep(RECOVERY_TIME + 5)
        assert (await api.get("/readyz")).status == 200
        assert (await api.post("/chats", {"prompt": "x" * 500_000})).status == 201
