"""Where the chats are that a verb is about."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from holdfast.cli.command_line import parse
from holdfast.cli.target import (
    ServerAddress,
    ask_instead,
    database_of,
    name_of,
    running_server,
    server_of,
)
from holdfast.config import ChatTarget, chat_options, export_options, token_options
from holdfast.kernel.errors import ConfigError
from holdfast.server.identity.local_socket import bound_socket


def test_the_token_of_the_file_is_shown_to_this_machine_alone(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hf_secret\n")
    (tmp_path / "token").chmod(0o600)
    for url in ("http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1"):
        own = tmp_path / "sockets" / "1"
        assert server_of(ChatTarget(url=url, data=str(tmp_path))) == ServerAddress(
            url, "hf_secret", own
        )
    for url in ("http://example.com", "http://127.0.0.1.example.com", "http://10.0.0.1"):
        with pytest.raises(ConfigError, match="needs a token"):
            server_of(ChatTarget(url=url, data=str(tmp_path)))
        assert server_of(ChatTarget(url=url, token="hf_x", data=str(tmp_path))) == ServerAddress(
            url, "hf_x"
        )


@contextmanager
def servers(data: Path, *ports: int) -> Iterator[None]:
    """Sockets of servers that listen, as each server has one."""
    data.chmod(0o700)
    with ExitStack() as stack:
        for port in ports:
            stack.enter_context(bound_socket(data, port)).listen()
        yield


def found(data: Path, **more: str) -> str | None:
    server = running_server(ChatTarget(token="hf_x", data=str(data), **more))
    return None if server is None else server.url


def test_the_server_that_runs_is_found_at_any_port(tmp_path: Path) -> None:
    assert found(tmp_path) is None
    with servers(tmp_path, 9123):
        assert found(tmp_path) == "http://127.0.0.1:9123"
        assert server_of(ChatTarget(token="hf_x", data=str(tmp_path))) == ServerAddress(
            "http://127.0.0.1:9123", "hf_x", tmp_path / "sockets" / "9123"
        )
    assert found(tmp_path) is None


def test_a_server_that_was_killed_is_not_found(tmp_path: Path) -> None:
    with servers(tmp_path):
        with bound_socket(tmp_path, 9123):  # as it is left: nothing listens
            assert found(tmp_path) is None
            with servers(tmp_path, 9124):
                assert found(tmp_path) == "http://127.0.0.1:9124"
        (tmp_path / "sockets" / "9125").touch()
        (tmp_path / "sockets" / "notes").touch()
        assert found(tmp_path) is None


def test_a_server_that_accepts_nothing_at_the_moment_is_found(tmp_path: Path) -> None:
    with servers(tmp_path), bound_socket(tmp_path, 9123) as busy, ExitStack() as stack:
        busy.listen(0)
        for _ in range(3):
            assert found(tmp_path) == "http://127.0.0.1:9123"
            client = stack.enter_context(socket.socket(socket.AF_UNIX))
            client.setblocking(False)
            with suppress(BlockingIOError):
                client.connect(str(tmp_path / "sockets" / "9123"))


def test_of_several_servers_it_is_that_of_the_settings_or_of_the_environment(
    tmp_path: Path,
) -> None:
    settings = tmp_path / "holdfast.toml"
    settings.write_text('[server]\nlisten = "127.0.0.1:9001"\n')
    with servers(tmp_path, 9000, 9001, 9002):
        assert found(tmp_path, settings=str(settings)) == "http://127.0.0.1:9001"
        assert found(tmp_path, listen="9002") == "http://127.0.0.1:9002"
        assert found(tmp_path, listen="9003") is None
        with pytest.raises(ConfigError, match="several servers of yours are running"):
            found(tmp_path, listen="127.0.0.1:0")


def test_a_database_is_used_while_a_server_runs_if_it_is_named(tmp_path: Path) -> None:
    with servers(tmp_path, 9000):
        assert server_of(ChatTarget(database="sqlite:///x.db", data=str(tmp_path))) is None


def test_the_database_of_the_environment_is_used_if_no_server_runs(tmp_path: Path) -> None:
    environ = {"HOLDFAST_DATABASE": "sqlite:///x.db", "HOLDFAST_HOME": str(tmp_path)}
    where = chat_options(parse(["chat"])[1], environ).where
    assert server_of(where) is None
    assert database_of(where, makes=False) == "sqlite:///x.db"
    where = chat_options(parse(["chat"])[1], {"HOLDFAST_HOME": str(tmp_path)}).where
    assert database_of(where, makes=False) == f"sqlite:///{tmp_path}/chats.db"


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("sqlite:///chats.db", "chats.db"),
        ("sqlite:////var/my%20chats.db", "/var/my chats.db"),
        ("postgresql://ann:secret@db.internal/chats", "the database at db.internal"),
    ],
)
def test_a_database_is_named_without_its_password(url: str, name: str) -> None:
    assert name_of(url) == name


def test_a_token_in_the_address_will_do(tmp_path: Path) -> None:
    url = "http://example.com/#token=hf_x"
    assert server_of(ChatTarget(url=url, data=str(tmp_path))) == ServerAddress(url, None)


def test_what_is_said_wins_over_the_environment() -> None:
    environ = {"HOLDFAST_URL": "http://env", "HOLDFAST_TOKEN": "hf_env", "HOLDFAST_HOME": "/data"}
    _, said = parse(["export", "c1"])
    where = export_options(said, environ).where
    assert (where.url, where.token, where.data) == ("http://env", "hf_env", "/data")
    _, said = parse(["export", "c1", "--url", "http://said", "--token", "hf_said"])
    where = export_options(said, environ).where
    assert (where.url, where.token) == ("http://said", "hf_said")
    _, said = parse(["export", "c1", "--database", "sqlite:///x.db"])
    where = export_options(said, environ).where
    assert (where.url, where.database) == (None, "sqlite:///x.db")


def test_tokens_are_made_in_the_database_of_the_environment_unless_a_server_is_named() -> None:
    environ = {"HOLDFAST_DATABASE": "sqlite:///x.db"}
    _, said = parse(["token"])
    assert token_options(said, environ).where.database == "sqlite:///x.db"
    _, said = parse(["token", "--url", "http://said"])
    assert token_options(said, environ).where.database is None
    _, said = parse(["export", "c1"])
    assert export_options(said, environ).where.database is None


def test_a_chat_is_new_unless_one_is_named() -> None:
    named = [
        chat_options(parse(["chat", *argv])[1], {}).chat for argv in ([], ["--last"], ["-c", "c1"])
    ]
    assert named == [None, "last", "c1"]


def test_an_administrator_gets_a_token_for_everything() -> None:
    def scopes(*argv: str) -> tuple[str, ...]:
        return token_options(parse(["token", *argv])[1], {}).scopes

    assert scopes() == ("read", "write")
    assert scopes("--user", "ann", "--role", "admin") == ("read", "write", "admin")
    assert scopes("--user", "ann", "--role", "admin", "--scope", "read") == ("read",)


def test_a_server_that_has_the_database_open_is_named_as_it_is_here(tmp_path: Path) -> None:
    where = ChatTarget(token="hf_x", data=str(tmp_path))
    assert "go through it: use --url with its address. Otherwise wait" in ask_instead(where)
    with servers(tmp_path, 8870):
        assert "go through it: use --url http://127.0.0.1:8870" in ask_instead(where)
