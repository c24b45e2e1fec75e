"""`holdfast migrate` brings a database to the schema of this version, and says so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.main import main
from holdfast.store.database import SQLITE
from holdfast.store.migrate import migrations
from tests.databases import Databases


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Of a database of each kind in turn, with nothing in it."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/chats.db"
        return
    databases: Databases = request.getfixturevalue("databases")
    name = databases.take()
    yield databases.url(name)
    databases.drop(name)


def test_each_migration_is_named_when_it_is_applied_and_only_then(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    known = migrations(SQLITE)
    assert main(["migrate", "--database", url]) == ExitCode.FINISHED
    assert capsys.readouterr().out.splitlines() == [f"applied {each}" for each in known]
    assert main(["migrate", "--database", url]) == ExitCode.FINISHED
    assert capsys.readouterr().out == f"up to date at {known[-1]}\n"


def test_the_environment_names_the_database_unless_the_command_line_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_DATABASE", f"sqlite:///{tmp_path}/usual.db")
    assert main(["migrate"]) == ExitCode.FINISHED
    assert main(["migrate", "--database", f"sqlite:///{tmp_path}/other.db"]) == ExitCode.FINISHED
    assert {each.name for each in tmp_path.glob("*.db")} == {"usual.db", "other.db"}


def test_without_a_name_it_is_the_database_that_a_server_would_take_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOLDFAST_DATABASE", " ")
    assert main(["doctor"]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert said.startswith(f"holdfast: there is no database in {tmp_path}/home yet: ")
    assert said.endswith("or use --database or --config\n")
    assert main(["migrate"]) == ExitCode.FINISHED
    assert (tmp_path / "home" / "chats.db").exists()
    (tmp_path / "team.toml").write_text(f'database = "sqlite:///{tmp_path}/team.db"')
    assert main(["migrate", "--config", "team.toml"]) == ExitCode.FINISHED
    assert (tmp_path / "team.db").exists()
    for more in ([], ["--config", "team.toml"]):
        capsys.readouterr()
        assert main(["doctor", *more]) == ExitCode.FINISHED
        assert capsys.readouterr().out == "0 chats: no problems found\n"


def test_a_database_of_a_newer_version_is_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/chats.db"
    main(["migrate", "--database", url])
    connection = apsw.Connection(str(tmp_path / "chats.db"))
    connection.execute("INSERT INTO migrations VALUES (9999, 'wonders', 1)")
    connection.close()
    for verb in ("migrate", "doctor"):
        assert main([verb, "--database", url]) == ExitCode.FAILED
        assert capsys.readouterr().err == (
            f"holdfast: {tmp_path}/chats.db: the database is of a newer version: this one does not "
            "have its migration 9999_wonders: upgrade holdfast\n"
        )


def test_what_is_no_database_is_refused_and_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notes = tmp_path / "notes.md"
    notes.write_text("# Notes\n\nCall Ann on Monday. " * 50)
    before = notes.read_bytes()
    for verb in ("migrate", "doctor"):
        assert main([verb, "--database", f"sqlite:///{notes}"]) == ExitCode.FAILED
        assert "this is not a SQLite database, or it is damaged" in capsys.readouterr().err
    assert notes.read_bytes() == before


def test_a_server_that_cannot_be_reached_is_named_without_the_password(
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = "postgresql://ann:s3cret@127.0.0.1:1/chats"
    for verb in ("migrate", "doctor"):
        assert main([verb, "--database", url]) == ExitCode.FAILED
        said = capsys.readouterr()
        assert said.err.startswith("holdfast: PostgreSQL at 127.0.0.1:1 cannot be reached: ")
        assert "s3cret" not in said.err + said.out
