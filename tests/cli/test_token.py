"""Tokens and users on the command line: in a database, and at a server that runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.cli.token import state, table
from holdfast.server.identity.api_tokens import Token
from tests.cli.test_main import environ, holdfast
from tests.cli.test_serve import Process, serving

DAY = 24 * 3600 * 1_000_000


def say(home: Path, *argv: str, code: int = 0) -> tuple[str, str]:
    """What the program prints, and what it says beside it."""
    done = holdfast("token", *argv, env=environ(HOLDFAST_HOME=str(home)))
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Process, str]]:
    with serving(tmp_path_factory.mktemp("home"), "--listen", "0") as process:
        yield process, process.started()


# --- in a database -------------------------------------------------------------------------------


def test_the_first_administrator_is_made_before_there_is_a_server(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/team.db"
    secret, said = say(tmp_path, "--user", "ann", "--role", "admin", "--database", url)
    assert secret.startswith("hf_")
    assert secret.count("\n") == 1
    assert "created user ann (admin)" in said
    assert "for ann: admin, read, write until" in said
    toml = tmp_path / "team.toml"
    toml.write_text('[server]\nteam = true\nurls = ["http://127.0.0.1:1"]\n')
    with serving(tmp_path, "--listen", "0", "--database", url, "--config", str(toml)) as process:
        process.until("Holdfast is at")
        assert process.end() == 0


@pytest.mark.parametrize("argv", [("list",), ("revoke", "01jd7t0v")])
def test_where_there_is_no_server_yet_it_says_what_makes_one(
    argv: tuple[str, ...], tmp_path: Path
) -> None:
    _, said = say(tmp_path, *argv, code=2)
    assert f"there is no database in {tmp_path} yet: create it with `holdfast serve`" in said
    assert not (tmp_path / "chats.db").exists()


def test_a_user_who_is_there_gets_another_token(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/team.db"
    say(tmp_path, "--user", "ann", "--role", "member", "--database", url)
    say(tmp_path, "--user", "ann", "--name", "ci", "--scope", "read", "--database", url)
    listed, _ = say(tmp_path, "list", "--user", "ann", "--database", url)
    assert [line.split()[-1] for line in listed.splitlines()] == ["NAME", "ci", "line"]
    _, said = say(tmp_path, "--user", "ann", "--role", "admin", "--database", url, code=2)
    assert "'ann' already has the role member: remove --role" in said
    _, said = say(tmp_path, "--user", "bob", "--database", url, code=2)
    assert "unknown user 'bob': add --role member to create it" in said


def test_without_a_database_it_is_the_one_of_the_server_here(tmp_path: Path) -> None:
    home = tmp_path / "new"
    secret, _ = say(home, "--name", "ci")
    listed, _ = say(home, "list")
    assert "ci" in listed
    id = listed.splitlines()[1].split()[0]
    _, said = say(home, "revoke", id)
    assert said == f"revoked {id}\n"
    assert "revoked" in say(home, "list")[0]
    _, said = say(home, "revoke", "nobody", code=1)
    assert said == "holdfast: unknown token 'nobody': holdfast token list shows the ids\n"
    assert secret not in listed


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["revoke"], "missing token id: holdfast token revoke ID"),
        (["list", "x"], "'x' is an unexpected argument"),
        (["--role", "admin"], "add --user"),
        (["--days", "400"], "not a number from 1 to 366"),
        (["--url", "http://x", "--database", "sqlite:///x.db"], "use one of them"),
        (["--url", "http://example.com"], "needs a token: use --token, or set HOLDFAST_TOKEN"),
        (
            ["--url", "127.0.0.1:1"],
            "'127.0.0.1:1' is not an address: use the address of a server, like",
        ),
        (["--url", "http://127.0.0.1:1"], "start a server with `holdfast serve`"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(tmp_path: Path, argv: list[str], says: str) -> None:
    _, said = say(tmp_path, *argv, code=2)
    assert says in said
    assert said.count("\n") == 1


# --- at a server ---------------------------------------------------------------------------------


def test_a_file_that_a_server_has_open_is_left_to_the_server(
    server: tuple[Process, str],
) -> None:
    process, url = server
    database = f"sqlite:///{process.home}/chats.db"
    _, said = say(process.home, "--name", "ci", "--database", database, code=1)
    assert (
        f"is open in another process: if that is a server, go through it: use --url {url}" in said
    )
    assert "of the file" in say(process.home, "list")[0]

    secret, said = say(process.home, "--name", "ci")
    assert f"using the server at {url}\n" in said
    asks = {"Authorization": f"Bearer {secret.strip()}"}
    assert json.load(process.open(f"{url}/api/v1/me", **asks))["scopes"] == ["read", "write"]

    listed, _ = say(process.home, "list", "--url", url)
    id = next(line.split()[0] for line in listed.splitlines() if line.endswith(" ci"))
    say(process.home, "revoke", id, "--url", url)
    after, _ = say(process.home, "list", "--url", url)
    assert f"{id}  revoked" in after
    _, said = say(process.home, "revoke", "nobody", "--url", url, code=1)
    assert said == "holdfast: unknown token 'nobody': holdfast token list shows the ids\n"


def test_an_administrator_makes_users_at_a_server(server: tuple[Process, str]) -> None:
    process, url = server
    _, said = say(process.home, "--user", "bob", "--role", "viewer", "--url", url)
    assert "created user bob (viewer)" in said
    say(process.home, "--user", "bob", "--url", url)
    listed, _ = say(process.home, "list", "--user", "bob", "--url", url)
    assert len(listed.splitlines()) == 3


def test_a_token_that_is_no_good_is_told(server: tuple[Process, str]) -> None:
    process, url = server
    _, said = say(process.home, "list", "--url", url, "--token", "hf_" + "x" * 43, code=1)
    assert said.count("\n") == 1


# --- what is shown -------------------------------------------------------------------------------


def token(**more: int) -> Token:
    return Token("t1", "", "ci", ("read",), 0, **more)


def test_the_state_of_a_token_is_told() -> None:
    assert state(token(), DAY) == "good"
    assert state(token(expires_at=2 * DAY), DAY) == "valid until 1970-01-03"
    assert state(token(expires_at=2 * DAY), 3 * DAY) == "expired 1970-01-03"
    assert state(token(expires_at=2 * DAY, revoked_at=DAY), DAY) == "revoked 1970-01-02"
    assert list(table([token(used_at=DAY)], 0)) == [
        "ID  STATE  LAST USED   SCOPES  NAME",
        "t1  good   1970-01-02  read    ci",
    ]
