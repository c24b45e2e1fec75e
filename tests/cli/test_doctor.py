"""`holdfast doctor` prints what is wrong in a database, and changes nothing."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from holdfast.cli.doctor import summary
from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.main import main
from holdfast.store.url import open_database
from holdfast.testing import Clock
from tests.chat.chats import Chats


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of a database of each kind in turn, with two chats in it."""
    found: str = (
        f"sqlite:///{tmp_path}/chats.db"
        if request.param == "sqlite"
        else request.getfixturevalue("postgres_url")
    )
    asyncio.run(_fill(found))
    return found


async def _fill(url: str) -> None:
    clock = Clock()
    async with open_database(url, now=clock.now) as db:
        chats = Chats(db, clock)
        await chats.idle("c1")
        await chats.running("c2")


def by_hand(url: str, sql: str) -> None:
    """Change a row in a way that no guard of the database minds."""

    async def run() -> None:
        async with open_database(url, now=Clock().now) as db:
            await db.write(lambda tx: tx.execute(sql))

    asyncio.run(run())


def test_a_clean_database_ends_well(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--database", url]) == ExitCode.FINISHED
    assert capsys.readouterr() == ("2 chats: no problems found\n", "")


def test_each_finding_is_a_line_that_names_the_row(
    url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    by_hand(url, "UPDATE chats SET runnable_since = NULL, crashes = 7 WHERE id = 'c2'")
    monkeypatch.setenv("HOLDFAST_DATABASE", url)
    assert main(["doctor"]) == ExitCode.FAILED
    assert capsys.readouterr().out.splitlines() == [
        "invariant 17: chat c2, runnable_since: it is running, and does not wait for a worker",
        "invariant 18: chat c2, crashes: there are 7, and at 3 a chat is parked",
        "2 chats: 2 findings",
    ]


def test_what_a_row_says_cannot_reach_the_terminal_as_more_than_text(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    by_hand(
        url, "UPDATE chats SET worker_id = NULL, parent_id = NULL, labels = 'x' WHERE id = 'c1'"
    )
    by_hand(url, "INSERT INTO workers VALUES ('\x1b[2J\n', NULL, '{', 0, 0)")
    assert main(["doctor", "--database", url]) == ExitCode.FAILED
    first, second, last = capsys.readouterr().out.splitlines()
    assert first.startswith("invariant 17: worker \\x1b[2J : its agents cannot be read: ")
    assert second.startswith("invariant 8: chat c1, row: its labels cannot be read: ")
    assert last == "2 chats: 2 findings"


@pytest.mark.parametrize(
    ("found", "chats", "says"),
    [
        (0, 0, "0 chats: no problems found"),
        (0, 1, "1 chat: no problems found"),
        (1, 1, "1 chat: 1 finding"),
        (1_200, 12_000, "12,000 chats: 1,200 findings"),
    ],
)
def test_the_last_line_counts(found: int, chats: int, says: str) -> None:
    assert summary(found, chats) == says


def test_a_file_that_is_not_there_is_not_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--database", f"sqlite:///{tmp_path}/none.db"]) == ExitCode.FAILED
    assert "none.db does not exist: name another file" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("verb", ["doctor", "token list", "token revoke 01jd7t0v"])
def test_what_only_looks_makes_no_directory_either(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("HOLDFAST_DATABASE", "HOLDFAST_CONFIG", "HOLDFAST_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "none"))
    assert main(verb.split()) == ExitCode.USAGE
    assert f"there is no database in {tmp_path}/none yet" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


# --- Nothing is changed -------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "chats.db"
    asyncio.run(_fill(f"sqlite:///{path}"))
    return path


def test_the_file_stays_as_it_is(path: Path) -> None:
    before = path.read_bytes()
    assert main(["doctor", "--database", f"sqlite:///{path}"]) == ExitCode.FINISHED
    assert path.read_bytes() == before


def test_what_a_process_that_was_killed_left_in_the_log_is_read_and_stays_there(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE chats SET crashes = 7 WHERE id = 'c1'")
    copy = tmp_path / "copy.db"
    for end in ("", "-wal"):  # as they are on the disk when nobody can close them
        shutil.copy(f"{path}{end}", f"{copy}{end}")
    connection.close()
    before = copy.read_bytes()
    assert main(["doctor", "--database", f"sqlite:///{copy}"]) == ExitCode.FAILED
    assert "chat c1, crashes: there are 7" in capsys.readouterr().out
    assert copy.read_bytes() == before
    assert (tmp_path / "copy.db-wal").stat().st_size > 0


def test_it_may_be_asked_while_another_process_writes(path: Path) -> None:
    url = f"sqlite:///{path}"

    async def write_and_ask() -> tuple[int, str]:
        clock = Clock()
        async with open_database(url, now=clock.now) as db:
            chats = Chats(db, clock)
            await chats.create("c3")
            done = await asyncio.to_thread(_ask, url)
            await chats.create("c4")
            return done

    assert asyncio.run(write_and_ask()) == (0, "3 chats: no problems found\n")
    assert _ask(url) == (0, "4 chats: no problems found\n")


def _ask(url: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "holdfast", "doctor", "--database", url],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent.parent.parent)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr
