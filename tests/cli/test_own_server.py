"""The command line shows the token of this user's own server to that server and to no other."""

from __future__ import annotations

import asyncio
import http.client
import os
import signal
import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import holdfast
from holdfast.cli.main import main
from holdfast.cli.target import ServerAddress, server_of
from holdfast.config import ChatTarget
from holdfast.kernel.errors import ConfigError
from holdfast.server.identity.local_socket import bound_socket, is_own_socket, short_name
from holdfast.server.identity.local_token import token_of
from tests.cli.test_serve import Process, serving

NOT_YOURS = "is answered by a program that is not your server"


class Listener:
    """A program of another user at a port: it keeps what it is sent, and answers with nothing."""

    def __init__(self, port: int = 0) -> None:
        self._listening = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listening.getsockname()[1]
        self.received = b""
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while True:
            connection, _ = self._listening.accept()
            with connection:
                connection.settimeout(1.0)
                with_end = False
                while not with_end:
                    try:
                        data = connection.recv(65_536)
                    except TimeoutError:
                        break
                    if data == b"END":
                        return
                    self.received += data
                    with_end = not data or b"\r\n\r\n" in data

    def __enter__(self) -> Listener:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with socket.create_connection(("127.0.0.1", self.port)) as last:
            last.sendall(b"END")
        self._thread.join(30)
        self._listening.close()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("HOLDFAST_")]:
        monkeypatch.delenv(name)
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST_HOME", str(home))
    return home


VERBS = [["chat", "hello"], ["export", "some"], ["token", "list"], ["token"]]


@pytest.mark.parametrize("argv", VERBS, ids=" ".join)
def test_a_program_at_the_port_of_the_server_is_not_shown_the_token(
    home: Path, argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    token = token_of(home / "token")
    with Listener() as listener:
        assert main([*argv, "--url", f"http://127.0.0.1:{listener.port}"]) == 1
    assert NOT_YOURS in capsys.readouterr().err
    assert token.encode() not in listener.received
    assert listener.received == b""


def test_nor_is_it_shown_a_token_of_the_environment_at_an_address_that_was_not_named(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with Listener() as listener:
        monkeypatch.setenv("HOLDFAST_LISTEN", f"127.0.0.1:{listener.port}")
        monkeypatch.setenv("HOLDFAST_TOKEN", "hf_of_another_server")
        assert main(["export", "some"]) == 2
    assert f"there is no database in {home} yet" in capsys.readouterr().err
    assert listener.received == b""


def test_a_program_that_takes_the_port_of_a_killed_server_is_not_shown_the_token(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(home, "--listen", "0") as server:
        url = server.started()
        assert main(["token", "list", "--url", url]) == 0
        server.end(signal.SIGKILL)
    assert [path.name for path in (home / "sockets").iterdir()] == [url.rpartition(":")[2]]
    with Listener(int(url.rpartition(":")[2])) as listener:
        assert main(["token", "list", "--url", url]) == 1
    assert NOT_YOURS in capsys.readouterr().err
    assert listener.received == b""


def test_where_nothing_listens_that_is_said(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    token_of(home / "token")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert main(["chat", "hello", "--url", f"http://127.0.0.1:{port}"]) == 1
    assert "cannot be reached, nothing listens there" in capsys.readouterr().err


# --- the socket ----------------------------------------------------------------------------------


def socket_of(server: Process) -> Path:
    (found,) = (server.home / "sockets").iterdir()
    return found


def test_the_socket_is_for_its_owner_and_goes_with_the_server(home: Path) -> None:
    with serving(home, "--listen", "0") as server:
        url = server.started()
        own = socket_of(server)
        assert own.name == url.rpartition(":")[2]
        assert stat.S_IMODE(own.parent.stat().st_mode) == 0o700
        assert stat.S_IMODE(own.stat().st_mode) == 0o600
        assert server.end() == 0
    assert not own.exists()


def test_a_server_that_was_killed_leaves_nothing_in_the_way(home: Path) -> None:
    with serving(home, "--listen", "0") as server:
        url = server.started()
        server.end(signal.SIGKILL)
    port = url.rpartition(":")[2]
    with serving(home, "--listen", port) as again:
        again.started()
        assert main(["token", "list", "--url", url]) == 0


def test_a_data_directory_with_a_long_name_is_no_obstacle(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("long" * 30)
    deep.mkdir(mode=0o700)
    monkeypatch.setenv("HOLDFAST_HOME", str(deep))
    with serving(deep, "--listen", "0") as server:
        assert main(["token", "list", "--url", server.started()]) == 0


def test_a_server_that_cannot_have_a_socket_says_so_and_serves(home: Path) -> None:
    (home / "sockets").touch()
    with serving(home, "--listen", "0") as server:
        server.until("the command line needs --url and --token to reach this server")
        url = server.started()
        assert main(["token", "list", "--url", url, "--token", server.token]) == 0


class Connection(http.client.HTTPConnection):
    """Over a Unix socket."""

    def __init__(self, path: Path) -> None:
        super().__init__("ignored")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self._path))


def test_requests_over_the_socket_are_checked_as_over_the_port(home: Path) -> None:
    with serving(home, "--listen", "0") as server:
        url, own = server.started(), socket_of(server)
        host = url.removeprefix("http://")

        def status(host: str, **headers: str) -> int:
            connection = Connection(own)
            connection.request("GET", "/api/v1/me", headers={"Host": host, **headers})
            with connection.getresponse() as response:
                connection.close()
                return response.status

        bearer = f"Bearer {server.token}"
        assert status(host, Authorization=bearer) == 200
        assert status(host) == 401
        assert status("evil.example", Authorization=bearer) == 421
        assert status(host, Authorization=bearer, Origin="https://evil.example") == 403


def test_a_program_can_use_the_socket_too(home: Path) -> None:
    async def said(url: str, token: str, socket: Path) -> str | None:
        async with holdfast.connect(url, token, socket=socket) as host:
            return (await (await host.create("say hello")).rest()).text

    with serving(home, "--listen", "0") as server:
        url = server.started()
        assert asyncio.run(said(url, server.token, socket_of(server))) == "hello"


# --- which address -------------------------------------------------------------------------------


def test_an_address_and_a_token_that_were_both_named_are_used_as_they_are(home: Path) -> None:
    where = ChatTarget(url="http://127.0.0.1:8765", token="hf_named", data=str(home))
    assert server_of(where) == ServerAddress("http://127.0.0.1:8765", "hf_named")


def test_over_https_a_certificate_proves_who_answers(home: Path) -> None:
    token = token_of(home / "token")
    where = ChatTarget(url="https://localhost:8443", data=str(home))
    assert server_of(where) == ServerAddress("https://localhost:8443", token)


def test_the_url_of_a_team_is_used_as_its_members_do(home: Path) -> None:
    settings = home / "team.toml"
    settings.write_text('[server]\nteam = true\nurls = ["http://127.0.0.1:9000"]\n')
    where = ChatTarget(settings=str(settings), token="hf_named", data=str(home))
    assert server_of(where) == ServerAddress("http://127.0.0.1:9000", "hf_named")


def test_a_socket_in_a_directory_that_others_can_write_to_is_refused(home: Path) -> None:
    token_of(home / "token")
    home.chmod(0o777)
    with pytest.raises(ConfigError, match="can be written to by other users"):
        server_of(ChatTarget(url="http://127.0.0.1:8765", data=str(home)))


@contextmanager
def planted(path: Path, what: str) -> Iterator[None]:
    path.parent.mkdir(parents=True)
    if what == "file":
        path.touch()
    elif what == "link":
        path.symlink_to("/elsewhere")
    elif what == "folder":
        path.parent.rmdir()
        path.parent.symlink_to(path.parent.parent / "elsewhere")
        (path.parent.parent / "elsewhere").mkdir()
        path.touch()
    yield


@pytest.mark.parametrize("what", ["file", "link", "folder"])
def test_what_is_not_a_socket_of_this_user_is_refused(home: Path, what: str) -> None:
    token_of(home / "token")
    with planted(home / "sockets" / "8765", what):
        with pytest.raises(ConfigError, match="is not a socket of your server: remove it"):
            server_of(ChatTarget(url="http://127.0.0.1:8765", data=str(home)))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a socket of another user")
def test_a_socket_of_another_user_is_not_ours(home: Path) -> None:
    with bound_socket(home, 8765):
        path = home / "sockets" / "8765"
        assert is_own_socket(path)
        os.chown(path, 65534, 65534)
        assert not is_own_socket(path)


def test_a_short_name_is_removed_after_use(tmp_path: Path) -> None:
    path = tmp_path / ("long" * 30) / "sockets" / "1"
    with short_name(path) as name:
        assert len(name) < 100
        assert os.readlink(os.path.dirname(name)) == str(path.parent)
    assert not os.path.lexists(os.path.dirname(name))
