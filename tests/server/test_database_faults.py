"""A fault of the database: a problem without addresses for the caller, one line for the log."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any, Final

import apsw
import pytest

from holdfast.store.database import (
    Database,
    NotWritable,
    OutcomeUnknown,
    StoreError,
    Tx,
    Unavailable,
)
from holdfast.store.sqlite.database import open_sqlite
from holdfast.testing import Clock
from tests.server.api import agent, serving_api
from tests.server.test_talking import begun

pytestmark = pytest.mark.usefixtures("each_server")

WHERE: Final = "PostgreSQL at db.internal:5432, /var/lib/holdfast/chats.db"


@pytest.mark.parametrize("user", ["ann", "ann:admin", ""])
@pytest.mark.parametrize("kind", [Unavailable, NotWritable, OutcomeUnknown])
async def test_a_caller_is_not_told_where_the_database_is_and_the_log_has_one_line(
    db: Database,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    user: str,
    kind: type[StoreError],
) -> None:
    async def refuse(*_: object, **more: object) -> None:
        raise kind(WHERE)

    async with serving_api(db, [agent((), clock)], clock=clock, worker=None) as api:
        monkeypatch.setattr(api.host, "create", refuse)
        monkeypatch.setattr(api.server.identity, "caller", refuse if not user else _caller(api))
        status, problem, _ = await api.of(user).post("/chats", {"prompt": "hi"})
    assert status == 503
    assert "db.internal" not in str(problem)
    assert "/var/lib" not in str(problem)
    (record,) = [each for each in caplog.records if each.name == "holdfast.server"]
    assert record.exc_info is None
    assert WHERE in record.getMessage()


def _caller(api: Any) -> Any:
    return api.server.identity.caller


async def test_a_damaged_row_is_a_problem_that_names_the_chat_and_the_doctor(
    db: Database, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    async def damage(tx: Tx) -> None:
        await tx.execute("UPDATE chats SET outcome = '{' WHERE id = :id", {"id": id})

    async with serving_api(db, [agent(["hello"], clock)], clock=clock) as api:
        id = await begun(api)
        await api.rest(id)
        await db.write(damage)
        caplog.clear()
        status, problem, _ = await api.get(f"/chats/{id}")
    assert (status, problem["kind"], problem["facts"]["chat"]) == (500, "corrupt", id)
    assert id in problem["detail"]
    assert "`holdfast doctor`" in problem["detail"]
    assert [each.exc_info for each in caplog.records] == [None]


def damage_texts(file: Path) -> None:
    with closing(apsw.Connection(str(file))) as other:
        other.execute("DROP TRIGGER messages_kept")
        other.execute("UPDATE chats SET title = CAST(x'ff' AS TEXT)")
        other.execute("UPDATE messages SET body = CAST(x'ff' AS TEXT)")


@pytest.mark.parametrize("path", ["", "/messages", "/export"])
async def test_a_text_that_is_not_utf_8_is_one_too(
    tmp_path: Path, clock: Clock, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "chats.db"
    async with (
        open_sqlite(file, now=clock.now, thread=False) as db,
        serving_api(db, [agent(["hello"], clock)], clock=clock) as api,
    ):
        id = await begun(api)
        await api.rest(id)
        damage_texts(file)
        caplog.clear()
        status, problem, _ = await api.get(f"/chats/{id}{path}")
    assert (status, problem["kind"], problem["facts"]) == (500, "corrupt", {"chat": id})
    assert f"chat {id}" in problem["detail"]
    assert "`holdfast doctor`" in problem["detail"]
    assert [each.exc_info for each in caplog.records] == [None]
