"""`--reload`: a save restarts the server, a broken one does not, and no chat notices."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from holdfast.cli.reload import WatchedFiles, name_of_file
from holdfast.cli.reloadable_server import files_of_error, loaded_files
from tests.cli.test_serve import Process, serving, wait_until_idle

APP = """
import asyncio
from pathlib import Path
from holdfast import Agent, tool

@tool(effect="pure")
async def slow() -> str:
    "Slow."
    Path("began").touch()
    if {waits}:
        await asyncio.Event().wait()
    return "{result}"

agent = Agent(name="dev", model="demo", description="{result}", tools=[slow])
"""


def description(server: Process, url: str) -> str:
    (agent,) = server.ask(f"{url}/api/v1/agents")["agents"]
    return str(agent["description"])


def test_a_save_restarts_the_server_and_a_broken_one_leaves_it_as_it_is(tmp_path: Path) -> None:
    app = tmp_path / "work" / "app.py"
    app.parent.mkdir()
    app.write_text(APP.format(result="first", waits=True))
    arguments = ("app:agent", "--reload", "--listen", "0", "--no-open")
    with serving(tmp_path, *arguments) as server:
        url = server.started()
        chat = f"{url}/api/v1/chats/" + str(
            server.ask(f"{url}/api/v1/chats", {"prompt": "call slow"})["id"]
        )
        wait_for(app.parent / "began")  # a turn runs while the file is saved
        app.write_text("agent = (\n")
        server.until("SyntaxError")
        server.until("the previous version keeps running, waiting for the next save")
        assert description(server, url) == "first"
        app.write_text(APP.format(result="second", waits=False))
        server.until("app.py changed: restarting")
        server.until("restarted: dev answers")
        assert description(server, url) == "second"
        wait_until_idle(server, chat)
        messages = server.ask(f"{chat}/messages")["messages"]
        assert "second" in str(messages)  # the next process ran the pure call again
        assert server.end() == 0


def wait_for(path: Path) -> None:
    end = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < end, f"{path} did not appear"
        time.sleep(0.01)


def test_a_file_that_changed_while_it_was_imported_counts_as_changed(tmp_path: Path) -> None:
    early, late = tmp_path / "early.py", tmp_path / "late.py"
    for path in (early, late):
        path.write_text("x = 1")
    os.utime(early, ns=(0, 5_000))
    os.utime(late, ns=(0, 7_000))
    files = WatchedFiles()
    files.add([str(early), str(late), str(tmp_path / "none.py")], since=6_000)
    assert files.changed() == [str(late)]
    assert files.changed() == []
    (tmp_path / "none.py").write_text("")
    early.unlink()
    assert sorted(files.changed()) == [str(early), str(tmp_path / "none.py")]


def test_the_files_of_an_error_are_those_that_the_user_can_fix(tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("import json\njson.loads('{')\n")
    with pytest.raises(ValueError, match="property name") as raised:
        exec(compile(path.read_text(), str(path), "exec"), {})
    files = list(files_of_error(raised.value))
    assert str(path) in files
    assert not any("json" in file for file in files)
    assert not any(f"{os.sep}holdfast{os.sep}kernel" in file for file in loaded_files())


def test_a_file_is_named_as_the_user_sees_it(tmp_path: Path) -> None:
    assert name_of_file(os.path.join(os.getcwd(), "a", "b.py")) == os.path.join("a", "b.py")
    assert name_of_file("/elsewhere/b.py") == "/elsewhere/b.py"
    assert name_of_file(str(tmp_path)) == "a directory of your modules"
