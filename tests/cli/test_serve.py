"""`holdfast serve` as a process: it starts, answers, and ends without losing anything."""

from __future__ import annotations

import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.serve import limits_of
from holdfast.cli.settings import HoldfastSettings, LimitSettings, ServerSettings, base_urls_of
from holdfast.kernel.errors import ConfigError
from holdfast.server.listening import parse_address
from holdfast.testing.postgres import running

HIDDEN = ("_API_KEY", "_BASE_URL", "_HOST", "_TOKEN", "HOLDFAST_")


class Process:
    """A server of its own, with its own directory."""

    def __init__(self, child: subprocess.Popen[str], home: Path) -> None:
        self.child = child
        self.home = home
        self.said: list[str] = []

    def until(self, words: str) -> str:
        """Its first line that has these words in it."""
        assert self.child.stderr is not None
        for line in self.child.stderr:
            self.said.append(line.rstrip())
            if words in line:
                return line.rstrip()
        raise AssertionError(f"it ended without saying {words!r}: {self.said}")

    def started(self) -> str:
        """The address that it serves at."""
        url = self.until("Holdfast is at").split()[-1]
        self.token = url.partition("#token=")[2]
        return url.partition("/#")[0]

    def ask(self, url: str, body: object = None, **headers: str) -> Any:
        with self.open(url, body, **headers) as response:
            return json.load(response)

    def open(self, url: str, body: object = None, **headers: str) -> HTTPResponse:
        data = None if body is None else json.dumps(body).encode()
        given = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(url, data, {**given, **headers})
        response: HTTPResponse = urllib.request.urlopen(request, timeout=30)
        return response

    def put(self, url: str, body: object) -> None:
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(url, json.dumps(body).encode(), headers, method="PUT")
        with urllib.request.urlopen(request, timeout=30) as response:
            assert response.status == 204

    def end(self, how: int = signal.SIGTERM) -> int:
        self.child.send_signal(how)
        return self.child.wait(30)


@contextmanager
def serving(home: Path, *arguments: str, verb: str = "serve", **environ: str) -> Iterator[Process]:
    work = home / "work"
    work.mkdir(parents=True, exist_ok=True)
    clean = {k: v for k, v in os.environ.items() if not any(part in k for part in HIDDEN)}
    child = subprocess.Popen(
        [sys.executable, "-m", "holdfast", verb, *arguments],
        cwd=work,
        env={**clean, "HOLDFAST_HOME": str(home), **environ},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield Process(child, home)
    finally:
        child.kill()
        child.communicate()


def events(response: HTTPResponse) -> Iterator[tuple[str, Any]]:
    """Names and data of a stream of events."""
    name = ""
    for raw in response:
        line = raw.decode().rstrip("\n")
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def text_of(messages: list[Mapping[str, Any]]) -> str:
    return "".join(
        part["text"]
        for one in messages
        for part in one["message"]["parts"]
        if one["message"]["role"] == "assistant" and part["type"] == "text"
    )


def test_it_prints_one_url_that_works_and_answers_without_a_key(tmp_path: Path) -> None:
    with serving(tmp_path, "--listen", "0") as server:
        url = server.started()
        made = server.ask(f"{url}/api/v1/chats", {"prompt": "say hello"})
        seen = []
        with server.open(f"{url}/api/v1/chats/{made['id']}/stream") as stream:
            for name, data in events(stream):
                seen.append(name)
                if name == "chat" and data["status"] == "idle" and data["messages"] > 1:
                    break
        page = server.ask(f"{url}/api/v1/chats/{made['id']}/messages")
        assert text_of(page["messages"]) == "hello"
        assert seen[0] == "chat"
        assert server.end() == 0


def test_what_was_accepted_is_there_after_a_kill(tmp_path: Path) -> None:
    with serving(tmp_path, "--listen", "0") as server:
        url = server.started()
        made = server.ask(f"{url}/api/v1/chats", {"prompt": "say hello"})
        server.end(signal.SIGKILL)
    with serving(tmp_path, "--listen", "0") as again:
        url = again.started()
        with again.open(f"{url}/api/v1/chats/{made['id']}/stream") as stream:
            for name, data in events(stream):
                if name == "chat" and data["status"] == "idle" and data["messages"] > 1:
                    break
        page = again.ask(f"{url}/api/v1/chats/{made['id']}/messages")
        assert text_of(page["messages"]) == "hello"


def test_a_stream_is_told_to_come_back_when_the_process_ends(tmp_path: Path) -> None:
    with serving(tmp_path, "--listen", "0") as server:
        url = server.started()
        made = server.ask(f"{url}/api/v1/chats", {})
        with server.open(f"{url}/api/v1/chats/{made['id']}/stream") as stream:
            told = events(stream)
            assert next(told)[0] == "chat"
            server.child.send_signal(signal.SIGTERM)
            name, data = list(told)[-1]
        assert (name, data["reconnect"]) == ("end", True)
        assert server.child.wait(30) == 0


def test_nobody_is_let_in_without_the_token(tmp_path: Path) -> None:
    with serving(tmp_path, "--listen", "0") as server:
        url = server.started()
        for headers in ({}, {"Authorization": "Bearer hf_wrong"}):
            request = urllib.request.Request(f"{url}/api/v1/chats", headers=headers)
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, timeout=30)
            with refused.value:
                assert refused.value.code == 401
        assert (tmp_path / "token").stat().st_mode & 0o777 == 0o600
        assert server.end(signal.SIGINT) == 0


def test_an_agent_may_have_a_model_whose_key_is_stored_and_nowhere_else(tmp_path: Path) -> None:
    with serving(tmp_path, "--listen", "0") as server:
        server.put(f"{server.started()}/api/v1/providers/openai", {"key": "sk-stored"})
    settings = tmp_path / "work" / "holdfast.toml"
    settings.write_text('[agents.a]\nmodel = "openai:gpt-6-sol"\n[agents.b]\nmodel = "demo"\n')
    with serving(tmp_path, "--listen", "0", "--config", "holdfast.toml") as server:
        server.started()
        server.until("a answers with openai:gpt-6-sol")
    settings.write_text('[agents.a]\nmodel = "groq:any"\n')
    with serving(tmp_path, "--listen", "0", "--config", "holdfast.toml") as server:
        server.until("holdfast.toml cannot be used:")
        server.until("agents.a.model: groq needs a key: set GROQ_API_KEY")
        assert server.child.wait(30) == 2


def test_a_key_that_was_stored_decides_who_answers_also_after_a_restart(tmp_path: Path) -> None:
    with serving(tmp_path, "--listen", "0") as server:
        url = server.started()
        server.put(f"{url}/api/v1/providers/openai", {"key": "sk-stored"})
        assert server.end() == 0
    assert (tmp_path / "secret.key").stat().st_mode & 0o777 == 0o600
    with serving(tmp_path, "--listen", "0") as again:
        again.started()
        assert "assistant answers with openai:" in again.until("answers")
    assert "sk-stored" not in "".join(again.said)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--listen", "nowhere"], 2, "is not an address to listen on"),
        (["--listen", "0.0.0.0:0"], 2, "can be reached from the network"),
        (["--config", "none.toml"], 2, "none.toml cannot be read"),
        (["--database", "mysql://x"], 2, "unknown kind of database mysql"),
        (["--database", "sqlite:////nowhere/chats.db"], 1, "there is no directory"),
    ],
)
def test_what_cannot_be_served_says_why(
    tmp_path: Path, arguments: list[str], code: int, says: str
) -> None:
    with serving(tmp_path, *arguments) as server:
        assert says in server.until("holdfast:")
        assert server.child.wait(30) == code


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with serving(tmp_path, "--listen", str(port)) as server:
            assert f"127.0.0.1:{port} is already in use: use --listen" in server.until("holdfast:")
            assert server.child.wait(30) == 2


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -15)])
def test_a_signal_ends_a_wait_for_a_database_that_says_nothing(
    tmp_path: Path, number: int, code: int
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://x@127.0.0.1:{silent.getsockname()[1]}/x"
        with serving(tmp_path, "--listen", "0", "--database", url) as server:
            silent.settimeout(30)
            connection, _ = silent.accept()
            with connection:
                assert server.end(number) == code
                assert server.child.stderr is not None
                said = server.child.stderr.read()
    assert said == ("holdfast: interrupted\n" if number == signal.SIGINT else "")


def test_a_worker_drives_chats_without_an_api(tmp_path: Path, postgres_url: str) -> None:
    with serving(tmp_path, "--database", postgres_url, verb="worker") as worker:
        worker.until("worker started")
        assert worker.end() == 0
        assert worker.child.stderr is not None
        assert "stopping: finishing steps" in worker.child.stderr.read()


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("8080", ("127.0.0.1", 8080)),
        ("0.0.0.0:80", ("0.0.0.0", 80)),
        ("[::1]:8080", ("::1", 8080)),
        ("localhost:0", ("localhost", 0)),
    ],
)
def test_an_address_may_be_a_port_alone(text: str, means: tuple[str, int]) -> None:
    assert parse_address(text) == means


@pytest.mark.parametrize("text", ["", "x", ":80", "1.2.3.4:", "1.2.3.4:99999", "a:b"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="write 127"):
        parse_address(text)


def test_the_server_knows_which_base_urls_the_settings_name() -> None:
    named: dict[str, dict[str, Any]] = {
        "openai": {"base_url": "https://gateway.example/v1"},
        "groq": {"headers": {}},
    }
    assert base_urls_of(HoldfastSettings(providers=named)) == {
        "openai": "https://gateway.example/v1"
    }


def test_the_limits_of_the_settings_are_those_of_the_server() -> None:
    chosen = LimitSettings(files=3, streams=4, audit=5)
    limits = limits_of(HoldfastSettings(limits=chosen, server=ServerSettings(tick=0.5)))
    assert (limits.quota, limits.audit) == (3 * 1024 * 1024, 5)
    assert (limits.streams.per_user, limits.streams.tick) == (4, 0.5)


def status_of(server: Process, url: str, body: object = None) -> int:
    try:
        with server.open(url, body) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code


def test_a_full_disk_makes_a_server_unready_and_it_writes_again_when_there_is_room(
    tmp_path: Path,
) -> None:
    with serving(tmp_path, "--listen", "0") as server:
        url = server.started()
        assert status_of(server, f"{url}/readyz") == 200
        largest = max(file.stat().st_size for file in tmp_path.glob("chats.db*"))
        resource.prlimit(server.child.pid, resource.RLIMIT_FSIZE, (largest + 65_536, -1))
        assert status_of(server, f"{url}/api/v1/chats", {"prompt": "x" * 900_000}) == 503
        assert status_of(server, f"{url}/readyz") == 503
        resource.prlimit(server.child.pid, resource.RLIMIT_FSIZE, (-1, -1))
        assert status_of(server, f"{url}/api/v1/chats", {"prompt": "x" * 900_000}) == 201
        assert server.end() == 0


def wait_until_idle(server: Process, chat: str) -> None:
    end = time.monotonic() + 30
    while server.ask(f"{chat}/result")["result"] is None:
        assert time.monotonic() < end, "the turn did not end in time"


def test_a_server_whose_database_was_deleted_saves_what_it_acknowledged(tmp_path: Path) -> None:
    with serving(tmp_path, "--listen", "0") as server:
        url = server.started()
        made = server.ask(f"{url}/api/v1/chats", {"prompt": "say hello"})
        wait_until_idle(server, f"{url}/api/v1/chats/{made['id']}")  # a turn gets its grace
        for file in tmp_path.glob("chats.db*"):
            file.unlink()
        assert status_of(server, f"{url}/readyz") == 503
        assert status_of(server, f"{url}/api/v1/chats", {"prompt": "lost"}) == 503
        assert "put the right file there" in server.until("was deleted or replaced")
        saved = Path(server.until("is saved in").split("is saved in ")[1].partition(";")[0])
        with serving(tmp_path, "--listen", "0") as second:
            assert second.ask(f"{second.started()}/api/v1/chats")["chats"] == []
            assert server.end() == 0
            assert second.end() == 0
    saved.rename(tmp_path / "chats.db")
    with serving(tmp_path, "--listen", "0") as again:
        chats = again.ask(f"{again.started()}/api/v1/chats")["chats"]
        assert [chat["id"] for chat in chats] == [made["id"]]


def test_a_replica_that_starts_while_postgresql_restarts_waits_for_it(tmp_path: Path) -> None:
    with running() as postgres:
        database = postgres.url()
        postgres.stop()
        with serving(tmp_path, "--listen", "0", "--database", database) as server:
            server.until("waiting up to 30 s for the database")
            postgres.start()
            url = server.started()
            assert status_of(server, f"{url}/readyz") == 200
            assert server.end() == 0


def test_how_long_a_replica_waits_for_its_database_is_a_setting(tmp_path: Path) -> None:
    (tmp_path / "server.toml").write_text("database_wait = 0")
    arguments = (
        "--config",
        str(tmp_path / "server.toml"),
        "--database",
        "postgresql://x@127.0.0.1:1/x",
    )
    with serving(tmp_path, *arguments) as server:
        assert server.child.wait(30) == 1
        assert "cannot be reached" in server.until("PostgreSQL at")
