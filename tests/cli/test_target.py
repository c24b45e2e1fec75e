"""Where the chats are that a verb is about."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.cli.arguments import parse
from holdfast.cli.target import ServerAddress, address_of, ask_instead
from holdfast.config import ChatTarget, chat_options, export_options, token_options
from holdfast.kernel.errors import ConfigError


def test_the_token_of_the_file_is_shown_to_this_machine_alone(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("hf_secret\n")
    (tmp_path / "token").chmod(0o600)
    for url in ("http://127.0.0.1:1", "http://localhost:1", "http://[::1]:1"):
        own = tmp_path / "sockets" / "1"
        assert address_of(ChatTarget(url=url, data=str(tmp_path))) == ServerAddress(
            url, "hf_secret", own
        )
    for url in ("http://example.com", "http://127.0.0.1.example.com", "http://10.0.0.1"):
        with pytest.raises(ConfigError, match="needs a token"):
            address_of(ChatTarget(url=url, data=str(tmp_path)))
        assert address_of(ChatTarget(url=url, token="hf_x", data=str(tmp_path))) == ServerAddress(
            url, "hf_x"
        )


def test_the_server_here_is_where_one_would_listen_that_is_started_here(tmp_path: Path) -> None:
    settings = tmp_path / "holdfast.toml"
    settings.write_text('[server]\nlisten = "127.0.0.1:9000"\n')
    where = ChatTarget(settings=str(settings), token="hf_x", data=str(tmp_path))
    assert address_of(where).url == "http://127.0.0.1:9000"
    where = ChatTarget(settings=str(settings), listen="9001", token="hf_x", data=str(tmp_path))
    assert address_of(where).url == "http://127.0.0.1:9001"


def test_a_token_in_the_address_will_do(tmp_path: Path) -> None:
    url = "http://example.com/#token=hf_x"
    assert address_of(ChatTarget(url=url, data=str(tmp_path))) == ServerAddress(url, None)


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
    where = ChatTarget(listen="8870", data=str(tmp_path))
    assert "go through it: use --url http://127.0.0.1:8870, or wherever it is" in ask_instead(where)
