"""`holdfast export` and `holdfast import`: a chat goes to a file, and another one comes of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.cli.import_ import read
from holdfast.kernel.errors import ConfigError
from tests.cli.test_main import environ, holdfast
from tests.cli.test_serve import Process, events, serving


def say(home: Path, *argv: str, code: int = 0, text: str | None = None) -> tuple[str, str]:
    more = {} if text is None else {"input": text}
    done = holdfast(*argv, env=environ(HOLDFAST_HOME=str(home)), **more)
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


class Served:
    """A server with a chat in which hello was said."""

    def __init__(self, process: Process) -> None:
        self.home = process.home
        self.url = process.started()
        api = f"{self.url}/api/v1/chats"
        self.chat = process.ask(api, {"prompt": "say hello", "title": "Hello"})["id"]
        with process.open(f"{api}/{self.chat}/stream") as stream:
            for name, data in events(stream):
                if name == "chat" and data["status"] == "idle" and data["messages"] > 1:
                    break

    @property
    def database(self) -> str:
        return f"sqlite:///{self.home}/chats.db"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("home"), "--listen", "0") as process:
        yield Served(process)


def messages(exported: str) -> list[object]:
    """What is in a file, without when it was said."""
    lines = [json.loads(line) for line in exported.splitlines()]
    return [line["message"]["message"] for line in lines[1:]]


def test_a_chat_goes_to_a_file_and_comes_back_as_another(served: Served, tmp_path: Path) -> None:
    file = tmp_path / "hello.jsonl"
    assert say(served.home, "export", served.chat, "--url", served.url, "-o", str(file)) == ("", "")
    id, said = say(served.home, "import", str(file), "--url", served.url)
    assert said == f"{file}: 2 messages, Hello\n"
    assert id.strip() != served.chat
    again, _ = say(served.home, "export", id.strip(), "--url", served.url)
    assert messages(again) == messages(file.read_text())


def test_a_chat_is_written_for_people(served: Served) -> None:
    text, _ = say(served.home, "export", served.chat, "--url", served.url, "--format", "markdown")
    assert text.startswith("# Hello\n")
    assert "say hello" in text


def test_a_database_is_read_while_a_server_has_it_and_written_when_none_has(
    served: Served, tmp_path: Path
) -> None:
    text, _ = say(served.home, "export", served.chat, "--database", served.database)
    _, said = say(served.home, "import", "-", "--database", served.database, text=text, code=1)
    assert "is open in another process: if that is a server, go through it" in said
    other = f"sqlite:///{tmp_path}/other.db"
    id, said = say(served.home, "import", "-", "--database", other, text=text)
    assert said == "-: 2 messages, Hello\n"
    again, _ = say(served.home, "export", id.strip(), "--database", other)
    assert messages(again) == messages(text)


def test_the_server_that_runs_is_used_and_otherwise_the_database(tmp_path: Path) -> None:
    with serving(tmp_path, "--listen", "0") as process:
        served = Served(process)
        text, said = say(tmp_path, "export", served.chat)
        assert said == f"using the server at {served.url}\n"
        id, said = say(tmp_path, "import", "-", text=text)
        assert said == f"using the server at {served.url}\n-: 2 messages, Hello\n"
    directly = f"using {tmp_path}/chats.db; no server is running\n"
    again, said = say(tmp_path, "export", id.strip())
    assert (messages(again), said) == (messages(text), directly)
    _, said = say(tmp_path, "import", "-", text=text)
    assert said == f"{directly}-: 2 messages, Hello\n"


def test_a_chat_of_a_database_belongs_to_who_is_named(served: Served, tmp_path: Path) -> None:
    text, _ = say(served.home, "export", served.chat, "--database", served.database)
    other = f"sqlite:///{tmp_path}/other.db"
    _, said = say(tmp_path, "import", "-", "--user", "ann", "--database", other, text=text, code=1)
    assert "there is no user 'ann'" in said
    say(tmp_path, "token", "--user", "ann", "--role", "member", "--database", other)
    id, _ = say(tmp_path, "import", "-", "--user", "ann", "--database", other, text=text)
    again, _ = say(tmp_path, "export", id.strip(), "--database", other)
    assert json.loads(again.splitlines()[0])["chat"]["owner"] != ""


def test_when_one_file_is_wrong_none_is_taken(served: Served, tmp_path: Path) -> None:
    good, bad, other = tmp_path / "good.jsonl", tmp_path / "bad.jsonl", f"sqlite:///{tmp_path}/x.db"
    say(served.home, "export", served.chat, "--url", served.url, "-o", str(good))
    bad.write_text("hello\n")
    _, said = say(served.home, "import", str(good), str(bad), "--database", other, code=2)
    assert f"{bad} is neither an exported chat nor a saved history, so nothing was" in said
    assert not (tmp_path / "x.db").exists()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it is empty"),
        (b" \n", "it is empty"),
        (b"\xff\xfe", "it is not UTF-8 text"),
        (b"hello", "this is not JSON written by holdfast: JSON is malformed"),
    ],
)
def test_it_is_said_what_is_wrong_with_a_file(data: bytes, why: str, tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_bytes(data)
    with pytest.raises(ConfigError) as told:
        read(str(bad))
    assert (
        f"{bad} is neither an exported chat nor a saved history, so nothing was imported: {why}"
        in str(told.value)
    )


@pytest.mark.parametrize(
    ("argv", "code", "says"),
    [
        (["export", "nobody"], 1, "nobody"),
        (["export", "nobody", "--database", "sqlite:///none.db"], 1, "none.db does not exist"),
        (["import", "none.jsonl"], 2, "none.jsonl cannot be read: No such file"),
        (["import", "x", "--user", "ann"], 2, "--user needs --database"),
        (["export"], 2, "CHAT"),
    ],
)
def test_what_cannot_be_is_told_in_one_line(
    served: Served, argv: list[str], code: int, says: str
) -> None:
    url = [] if "--database" in argv or len(argv) == 1 else ["--url", served.url]
    _, said = say(served.home, *argv, *url, code=code)
    assert says in said
    assert said.count("\n") == 1


def test_a_file_that_cannot_be_written_is_told(served: Served, tmp_path: Path) -> None:
    at = str(tmp_path / "none" / "x.jsonl")
    _, said = say(served.home, "export", served.chat, "--url", served.url, "-o", at, code=2)
    assert f"{at} cannot be written: No such file or directory" in said
