"""A server for one person: its token, the file it is in, and that nobody else gets in."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from holdfast.kernel.errors import ConfigError
from holdfast.server.identity.auth_config import AuthConfig
from holdfast.server.identity.expiring_cache import CACHE_SECONDS
from holdfast.server.identity.local_token import let_in, refuse_network, token_of, url_to_open
from holdfast.server.identity.private_file import make_private, read_private
from holdfast.store.database import Database
from holdfast.testing import Clock
from tests.server.identity.team_server import cookie_of, house

LOCAL = AuthConfig(local=True)


def test_the_token_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    file = tmp_path / "data" / "token"
    token = token_of(file)
    assert token.startswith("hf_")
    assert token_of(file) == token
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert os.listdir(file.parent) == ["token"]  # no draft is left


def test_an_open_umask_opens_nothing(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        token_of(tmp_path / "token")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "token").stat().st_mode) == 0o600


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_a_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "token"
    token_of(file)
    file.chmod(mode)
    with pytest.raises(ConfigError, match=r"accessible to others.*remove it"):
        token_of(file)


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    make_private(file, "letmein")
    with pytest.raises(ConfigError, match="does not hold a token"):
        token_of(file)


def test_a_link_to_another_file_is_not_followed(tmp_path: Path) -> None:
    make_private(tmp_path / "other", "hf_" + "x" * 43)
    (tmp_path / "token").symlink_to(tmp_path / "other")
    with pytest.raises(ConfigError, match="cannot read"):
        token_of(tmp_path / "token")


def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "token", 0o600)
    program = (
        "import sys; from pathlib import Path;"
        "from holdfast.server.identity.private_file import read_private;"
        "read_private(Path(sys.argv[1]))"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, tmp_path / "token"], stderr=subprocess.PIPE, text=True
    ) as reader:
        assert _ends(reader), "it waits for a writer"
        assert reader.stderr is not None
        assert f"{tmp_path}/token is not a regular file: remove it" in reader.stderr.read()


def _ends(process: subprocess.Popen[str]) -> bool:
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        return False
    return True


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        read_private(tmp_path)


def test_many_that_start_at_once_have_the_same_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    program = (
        "import sys; from pathlib import Path; sys.stdin.readline();"
        "from holdfast.server.identity.local_token import token_of;"
        "print(token_of(Path(sys.argv[1])))"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(file)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    for each in started:
        assert each.stdin is not None
        each.stdin.write("go\n")
        each.stdin.flush()
    made = {each.communicate(timeout=50)[0].strip() for each in started}
    assert made == {file.read_text().strip()}


def test_the_url_has_the_token_where_no_server_and_no_log_sees_it() -> None:
    assert url_to_open(8700, "hf_x") == "http://127.0.0.1:8700/#token=hf_x"
    assert url_to_open(8700, "hf_x", "::1") == "http://[::1]:8700/#token=hf_x"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "::1", "localhost"])
def test_loopback_is_not_the_network(host: str) -> None:
    refuse_network(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.com", "", "localhost.evil"])
def test_a_server_without_users_is_not_opened_to_the_network(host: str) -> None:
    with pytest.raises(ConfigError, match="use 127\\.0\\.0\\.1"):
        refuse_network(host)


async def test_the_token_of_the_file_lets_in_the_one_user_there_is(
    db: Database, clock: Clock, tmp_path: Path
) -> None:
    token = token_of(tmp_path / "token")
    async with house(db, clock, access=LOCAL) as here:
        for _ in range(2):  # at every start
            await here.db.write(lambda tx: let_in(tx, token))
        me = (await here.ask("GET", "/me", token=token)).body
        assert (me["user"], me["role"], me["mode"]) == ("", "admin", "local")
        assert (await here.ask("GET", "/me")).status == 401
        assert (await here.ask("GET", "/audit", token=token)).status == 200
        chat = await here.chat("")
        assert (await here.ask("GET", f"/chats/{chat}/shares", token=token)).status == 200
        begun = await here.ask("POST", "/session", {"token": token})
        shown = {"cookie": cookie_of(begun), "key": begun.body["key"]}
        assert (await here.ask("GET", "/me", **shown)).body["user"] == ""


async def test_a_new_file_ends_the_token_before_and_its_sessions(
    db: Database, clock: Clock, tmp_path: Path
) -> None:
    async with house(db, clock, access=LOCAL) as here:
        first, second = token_of(tmp_path / "a"), token_of(tmp_path / "b")
        await here.db.write(lambda tx: let_in(tx, first))
        begun = await here.ask("POST", "/session", {"token": first})
        shown = {"cookie": cookie_of(begun), "key": begun.body["key"]}
        assert (await here.ask("GET", "/me", **shown)).status == 200
        await here.db.write(lambda tx: let_in(tx, second))
        await anyio.sleep(CACHE_SECONDS)
        assert (await here.ask("GET", "/me", token=first)).status == 401
        assert (await here.ask("GET", "/me", **shown)).status == 401
        assert (await here.ask("GET", "/me", token=second)).status == 200


async def test_the_token_of_the_file_is_revoked_by_removing_the_file(
    db: Database, clock: Clock, tmp_path: Path
) -> None:
    async with house(db, clock, access=LOCAL) as here:
        token = token_of(tmp_path / "token")
        await here.db.write(lambda tx: let_in(tx, token))
        answer = await here.ask("DELETE", "/tokens/local", token=token)
        assert answer.status == 409
        assert "remove the file" in answer.body["detail"]


async def test_a_token_for_a_program_can_be_made_on_a_local_server(
    db: Database, clock: Clock, tmp_path: Path
) -> None:
    async with house(db, clock, access=LOCAL) as here:
        token = token_of(tmp_path / "token")
        await here.db.write(lambda tx: let_in(tx, token))
        made = await here.ask("POST", "/tokens", {"name": "script"}, token=token)
        assert (await here.ask("GET", "/me", token=made.body["token"])).body["user"] == ""


async def test_the_token_of_the_file_is_no_good_on_a_server_with_users(
    db: Database, clock: Clock, tmp_path: Path
) -> None:
    token = token_of(tmp_path / "token")
    async with house(db, clock) as here:
        await here.db.write(lambda tx: let_in(tx, token))
        assert (await here.ask("GET", "/me", token=token)).status == 401
        assert (await here.ask("POST", "/session", {"token": token})).status == 401
