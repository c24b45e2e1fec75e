"""`holdfast run` with a chat that is stored: at a server, and in the database without one."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.person import sitting_at
from tests.cli.test_chat import ENDLESS, Served
from tests.cli.test_serve import serving
from tests.whole.program import holdfast


@pytest.fixture(params=["directly", "server"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A data directory, for each of the two ways."""
    if request.param == "directly":
        yield tmp_path
        return
    with serving(tmp_path, "--listen", "0") as process:
        process.started()
        yield tmp_path


def run(home: Path, *argv: str, at: Path | None = None) -> subprocess.CompletedProcess[str]:
    return holdfast("run", *argv, at=at or home, environ={"HOLDFAST_HOME": str(home)})


def events(done: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.stdout.splitlines()]


def told(done: subprocess.CompletedProcess[str]) -> tuple[str, set[str], list[Any], str]:
    """What does not depend on time: the answers, the events, the messages, and how it ended."""
    found = events(done)
    texts = "".join(one["text"] for one in found if one["type"] == "text_delta")
    texts = re.sub(r"exit code 0, .* s", "exit code 0", texts)
    committed = [
        (one["number"], one["message"]["kind"])
        for one in found
        if one["type"] == "message_committed"
    ]
    return texts, {one["type"] for one in found}, committed, found[-1]["reason"]


# --- both ways -----------------------------------------------------------------------------------


def test_a_saved_chat_is_continued_in_its_directory(home: Path) -> None:
    (there := home / "there").mkdir()
    first = run(home, "--save", "say one")
    assert (first.returncode, first.stdout) == (0, "one\n")
    assert run(home, "-q", "--save", "say elsewhere", at=there).stderr == ""
    assert run(home, "-q", "--continue", "say two").stdout == "two\n"
    id = first.stderr.rpartition("--chat ")[2].split()[0]
    assert run(home, "-q", "--chat", id, "say three", at=there).stdout == "three\n"
    exported = holdfast("export", id, at=home, environ={"HOLDFAST_HOME": str(home)}).stdout
    assert json.loads(exported.splitlines()[0])["chat"]["messages"] == 6


def test_json_is_that_of_a_run_that_is_not_saved(home: Path) -> None:
    argv = ("--json", "--yes", "-m", "demo", "say one, then run echo hi")
    plain, saved = run(home, *argv), run(home, "--save", *argv)
    assert (saved.returncode, saved.stderr) == (plain.returncode, "") == (0, "")
    assert told(plain) == told(saved)


@pytest.mark.parametrize(
    ("argv", "code"),
    [(["fail with auth"], 1), (["write hi to a.txt"], 3), (["--deny", "write hi to a.txt"], 0)],
)
def test_the_exit_code_and_the_quiet_output_are_those_of_a_run_that_is_not_saved(
    home: Path, argv: list[str], code: int
) -> None:
    plain, saved = run(home, "-q", "-m", "demo", *argv), run(home, "-q", "--save", *argv)
    assert (plain.returncode, saved.returncode) == (code, code)
    assert plain.stdout == saved.stdout


def test_what_waits_is_answered_by_the_next_run(home: Path) -> None:
    done = run(home, "-q", "--save", "write hi to a.txt")
    assert "write_file waits for an answer: holdfast run --chat " in done.stderr
    assert run(home, "-q", "--yes", "--continue").returncode == 0
    done = run(home, "-q", "--continue")
    assert (done.returncode, "is idle: give a prompt" in done.stderr) == (2, True)


def test_ctrl_c_interrupts_the_turn_and_at_a_question_leaves_it_open(home: Path) -> None:
    with sitting_at(home, "run", "--save", ENDLESS) as person:
        person.sees("one two")
        person.types("\x03")
        assert person.ended() == 130
    assert "Interrupted." in person.seen
    with sitting_at(home, "run", "--continue", "write hi to a.txt") as person:
        person.sees("Allow?")
        person.types("\x03")
        assert person.ended() == 130
    with sitting_at(home, "run", "--continue") as person:
        person.sees("Allow?")
        assert person.seen.count("+hi") == 1
        person.says("n")
        assert person.ended() == 0


# --- one of the two ------------------------------------------------------------------------------


def test_a_chat_of_the_page_is_continued_in_the_terminal_and_the_page_has_its_chats(
    tmp_path: Path,
) -> None:
    run(tmp_path, "-q", "--save", "say one")
    with serving(tmp_path, "--listen", "0") as process:
        served = Served(process)
        listed = served.newest()
        assert (listed["messages"], listed["labels"]) == (2, {"directory": str(tmp_path)})
        id = process.ask(f"{served.url}/api/v1/chats", {"prompt": "say begun"})["id"]
        assert run(tmp_path, "-q", "--chat", id, "say ended").stdout.endswith("ended\n")


def test_without_a_server_the_options_make_the_agent_and_the_settings_the_rest(
    tmp_path: Path,
) -> None:
    (tmp_path / "mine.py").write_text(
        "from holdfast import tool\n"
        "@tool(effect='pure')\n"
        "async def weather(city: str) -> str:\n"
        "    'Weather.'\n"
        "    print('not an answer')\n"
        "    return f'Rain in {city}.'\n"
        "@tool(effect='pure')\n"
        "async def tide(city: str) -> str:\n"
        "    'Tide.'\n"
        "    return f'Low in {city}.'\n"
    )
    settings = tmp_path / "own.toml"
    settings.write_text('[agents.sea]\nmodel = "demo"\ntools = ["bundled", "mine:tide"]\n')
    own = ("--save", "--config", "own.toml", "-t", "mine:weather", "--no-tools")
    done = run(tmp_path, *own, "call weather city=Oslo, then call tide city=Bergen")
    assert "Rain in Oslo." in done.stdout
    assert "Low in Bergen." in done.stdout
    assert "not an answer" not in done.stdout
    assert "sea answers with demo:demo" in done.stderr
    assert "read_file" in run(tmp_path, *own, "--max-steps", "1", "read mine.py").stdout
    assert run(tmp_path, *own, "--max-steps", "1", "call tide city=Bergen").returncode == 4


def test_at_a_server_options_of_the_agent_are_refused(tmp_path: Path) -> None:
    with serving(tmp_path, "--listen", "0") as process:
        served = Served(process)
        done = run(tmp_path, "--save", "-t", "mine:weather", "--dir", ".", "--max-steps", "1", "hi")
        assert done.returncode == 2
        assert done.stderr.startswith(
            f"holdfast: --tools, --dir, --max-steps: the agent of the server at {served.url} "
        )
        for argv in (["--no-tools"], ["--pass-env", "X"], ["-i", "be brief"]):
            assert run(tmp_path, "--save", *argv, "hi").returncode == 2
        assert run(tmp_path, "-q", "--save", "-m", "demo", "-e", "low", "say hi").stdout == "hi\n"
        assert served.newest()["model"] == "demo"
