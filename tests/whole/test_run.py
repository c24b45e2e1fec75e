"""`holdfast run` as a newcomer meets it: real processes, a real terminal, the demo model."""

from __future__ import annotations

import json
import os
import re
import signal
import socketserver
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from holdfast.messages import Message, load
from tests.whole.program import (
    PATIENCE,
    PROGRAM,
    at_terminal,
    environment,
    gone_within,
    holdfast,
    there_within,
)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """A directory to work in, with a file."""
    place = tmp_path / "project"
    place.mkdir()
    (place / "notes.md").write_text("# Notes\n\nCall Ann on Monday.\n")
    return place


def saved(done: subprocess.CompletedProcess[str] | str, at: Path) -> tuple[Message, ...]:
    """The messages of the chat that a run says it has saved."""
    text = done if isinstance(done, str) else done.stderr
    (id,) = re.findall(r"saved: holdfast run --chat (\S+) continues this chat", text)
    return load(holdfast("export", id, "--format", "json", at=at).stdout)


# --- In a script --------------------------------------------------------------------------------


def test_without_a_key_the_demo_answers_and_says_what_it_is(here: Path) -> None:
    done = holdfast("run", "say hello", at=here)
    assert done.returncode == 0
    assert done.stdout == "hello\n"
    said = "Demo, not a language model: no key in the environment (see holdfast models).\n"
    assert done.stderr == said


def test_the_answer_is_on_one_stream_and_what_was_done_on_the_other(here: Path) -> None:
    done = holdfast("run", "-m", "demo", "read notes.md", at=here)
    assert "Call Ann on Monday." in done.stdout
    assert "●" not in done.stdout
    assert "● Read notes.md" in done.stderr


def test_nothing_is_written_without_an_approval(here: Path) -> None:
    done = holdfast("run", "-m", "demo", "write hi to new.txt", at=here)
    assert done.returncode == 3
    assert "write_file waits for an approval" in done.stderr
    assert "--yes" in done.stderr
    assert not (here / "new.txt").exists()


def test_a_script_may_agree_to_everything_or_to_nothing(here: Path) -> None:
    assert holdfast("run", "-m", "demo", "--deny", "write hi to no.txt", at=here).returncode == 0
    assert not (here / "no.txt").exists()
    assert holdfast("run", "-m", "demo", "--yes", "write hi to yes.txt", at=here).returncode == 0
    assert (here / "yes.txt").read_text() == "hi"


def test_every_event_is_a_line_of_json(here: Path) -> None:
    done = holdfast("run", "-m", "demo", "--json", "list", at=here)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    kinds = [event["type"] for event in events]
    assert kinds[0] == "run_started"
    assert kinds[-1] == "run_ended"
    assert {"tool_called", "tool_started", "tool_finished", "text_delta"} <= set(kinds)
    assert done.stderr == ""


def test_what_is_piped_in_is_part_of_the_prompt(here: Path) -> None:
    done = holdfast("run", "-m", "demo", "say", at=here, stdin="something else\n")
    assert "something else" in done.stdout


def test_a_conversation_goes_on_where_it_was_saved(here: Path) -> None:
    first = holdfast("run", "--save", "say one", at=here)
    second = holdfast("run", "--continue", "say two", at=here)
    assert (first.returncode, second.returncode) == (0, 0)
    assert [m.text for m in saved(first, here) if m.role == "user"] == ["say one", "say two"]


def test_a_users_own_tools_are_called(here: Path) -> None:
    (here / "mine.py").write_text(
        "from holdfast import tool\n"
        "@tool(effect='pure')\n"
        "async def weather(city: str) -> str:\n"
        "    'Weather.'\n"
        "    return f'Rain in {city}.'\n"
    )
    done = holdfast("run", "-m", "demo", "-t", "mine:weather", "call weather city=Oslo", at=here)
    assert "Rain in Oslo." in done.stdout


@pytest.mark.parametrize("option", ["--json", "--quiet"])
def test_what_a_users_tool_prints_is_no_part_of_the_answer(here: Path, option: str) -> None:
    (here / "mine.py").write_text(
        "from holdfast import tool\n"
        "print('imported')\n"
        "@tool(effect='pure')\n"
        "async def weather() -> str:\n"
        "    'Weather.'\n"
        "    print('called')\n"
        "    return 'Rain.'\n"
    )
    done = holdfast("run", "-m", "demo", option, "-t", "mine:weather", "call weather", at=here)
    assert "Rain." in done.stdout
    assert "imported" not in done.stdout
    assert "called\n" not in done.stdout
    assert "imported\ncalled\n" in done.stderr


def test_a_home_directory_is_not_worked_in_by_accident(tmp_path: Path) -> None:
    home = {"HOME": str(tmp_path)}
    (tmp_path / "secret").write_text("s3cret")
    done = holdfast("run", "-m", "demo", "read secret", at=tmp_path, environ=home)
    assert "s3cret" not in done.stdout
    assert "name a directory with --dir" in done.stderr
    named = holdfast("run", "-m", "demo", "--dir", ".", "read secret", at=tmp_path, environ=home)
    assert "s3cret" in named.stdout


# --- What goes wrong ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-m", "anthropic:claude-opus-5-5", "hi"], "set ANTHROPIC_API_KEY"),
        (["-m", "claude-opus-5-5", "hi"], "did you mean 'anthropic:claude-opus-5-5'?"),
        (["-m", "antropic:claude", "hi"], "did you mean 'anthropic:claude'?"),
        (["-d", "missing", "hi"], "missing does not exist"),
        (["-d", "notes.md", "hi"], "notes.md is not a directory"),
        (["-t", "nothing:here", "hi"], "module 'nothing' was not found"),
        (["-f", "nothing.png", "hi"], "cannot read nothing.png: No such file"),
        (["--history", "talk.json", "hi"], "--history was removed: use --save, --continue or --ch"),
        (["--continue", "hi"], "there is no chat to continue of this directory: begin one with"),
        (["--save", "--chat", "x", "hi"], "not allowed with argument"),
        (["--url", "http://127.0.0.1:1", "hi"], "--url needs --save, --continue or --chat"),
        (["--save", "-t", "nothing:here", "hi"], "module 'nothing' was not found"),
        ([], 'holdfast run "your question"'),
    ],
)
def test_wrong_usage_says_what_to_do(here: Path, arguments: list[str], said: str) -> None:
    done = holdfast("run", *arguments, at=here)
    assert done.returncode == 2
    assert done.stderr.startswith("holdfast: ")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert (here / "notes.md").read_text().startswith("# Notes")


@contextmanager
def hanging_up() -> Iterator[str]:
    """A provider that ends every connection without an answer."""

    class HangUp(socketserver.BaseRequestHandler):
        pass

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), HangUp) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_a_provider_that_cannot_be_reached_is_tried_again_until_somebody_stops_it(
    here: Path,
) -> None:
    command = ("run", "-m", "anthropic:claude-opus-5-5", "hi")
    with ExitStack() as held:
        key = {
            "ANTHROPIC_API_KEY": "example",
            "ANTHROPIC_BASE_URL": held.enter_context(hanging_up()),
        }
        terminal = held.enter_context(at_terminal(*command, at=here, environ=key))
        terminal.wait_for("attempt 2 of 10")
        terminal.type("\x03")
        assert terminal.ended() == 130
    assert "cannot be reached" in terminal.seen


def test_a_full_disk_is_no_traceback_and_the_chat_is_kept(here: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*PROGRAM, "run", "--save", "say hello"],
            cwd=here,
            env=environment(here.parent),
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 1
    assert "holdfast: cannot write the output: No space left on device\n" in done.stderr
    assert "Traceback" not in done.stderr
    resumed = holdfast("run", "--continue", "say more", at=here)
    assert [m.text for m in saved(resumed, here)[:2]] == ["say hello", "hello"]


def test_a_full_disk_behind_standard_error_does_not_cost_the_answer(here: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("there is no /dev/full here")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*PROGRAM, "run", "-m", "demo", "read notes.md"],
            cwd=here,
            env=environment(here.parent),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=full,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0
    assert "Call Ann on Monday." in done.stdout


def test_a_reader_that_leaves_ends_the_run_without_noise(here: Path) -> None:
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [*PROGRAM, "run", "-m", "demo", "--json", "long answer"],
        cwd=here,
        env=environment(here.parent),
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(writing)
    assert os.read(reading, 10)
    os.close(reading)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 141
    assert errors == ""


def test_whoever_leaves_standard_error_ends_the_run_too(here: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [*PROGRAM, "run", "-m", "demo", "say hello"],
        cwd=here,
        env=environment(here.parent),
        stdin=subprocess.DEVNULL,
        stderr=writing,
        timeout=60,
        check=False,
    )
    os.close(writing)
    assert done.returncode == 141


# --- At a terminal ------------------------------------------------------------------------------


def test_somebody_is_asked_and_says_yes(here: Path) -> None:
    with at_terminal("run", "-m", "demo", "write hi to new.txt", at=here) as terminal:
        terminal.wait_for("Allow?")
        assert "+hi" in terminal.seen
        assert not (here / "new.txt").exists()
        terminal.type("y\n")
        assert terminal.ended() == 0
    assert (here / "new.txt").read_text() == "hi"


def test_somebody_is_asked_and_says_what_to_do_instead(here: Path) -> None:
    with at_terminal("run", "-m", "demo", "write hi to new.txt", at=here) as terminal:
        terminal.wait_for("Allow?")
        terminal.type("use another name\n")
        assert terminal.ended() == 0
    assert not (here / "new.txt").exists()
    assert "Denied by a person: use another name" in terminal.seen


def test_whoever_pipes_something_in_is_asked_at_the_terminal(here: Path) -> None:
    program = " ".join(PROGRAM)
    shell = f"echo 'to new.txt' | {program} run -m demo 'write hi' | cat"
    with at_terminal(at=here, shell=shell) as terminal:
        terminal.wait_for("Allow?")
        terminal.type("y\n")
        assert terminal.ended() == 0
    assert (here / "new.txt").exists()


def test_the_model_asks_and_somebody_answers(here: Path) -> None:
    prompt = "ask me Which colour: red, green or blue"
    with at_terminal("run", "-m", "demo", prompt, at=here) as terminal:
        terminal.wait_for("A number, or your own answer:")
        terminal.type("2\n")
        assert terminal.ended() == 0
    assert "green" in terminal.seen.rpartition("own words: 2")[2]


def test_reasoning_is_folded_and_can_be_shown(here: Path) -> None:
    with at_terminal("run", "-m", "demo", "think about trees", at=here) as terminal:
        assert terminal.ended() == 0
    folded = terminal.seen
    with at_terminal("run", "-m", "demo", "--reasoning", "think about trees", at=here) as terminal:
        assert terminal.ended() == 0
    assert "· thought for" in folded
    assert len(terminal.seen) > len(folded.replace("· thinking…", ""))


# --- Ctrl-C -------------------------------------------------------------------------------------


def test_ctrl_c_keeps_what_was_said(here: Path) -> None:
    said = "slowly say one two three four five six seven eight nine ten"
    command = ("run", "--save", said)
    with at_terminal(*command, at=here) as terminal:
        terminal.wait_for("one")
        terminal.type("\x03")
        assert terminal.ended() == 130
    assert "Interrupted." in terminal.seen
    answer = [m for m in saved(terminal.seen, here) if m.role == "assistant"][-1]
    assert answer.finish == "interrupted"
    assert "one" in answer.text
    assert "ten" not in answer.text


def test_the_ctrl_c_that_is_shown_is_not_on_the_line_of_something_else(here: Path) -> None:
    with at_terminal("run", "-m", "demo", "--yes", "run sleep 60", at=here) as terminal:
        terminal.wait_for("· running…")
        terminal.type("\x03")
        assert terminal.ended() == 130
    assert "^C\r" in terminal.seen  # and what stood there is erased
    assert terminal.seen.endswith("Interrupted.\n")


def test_ctrl_c_ends_everything_that_a_command_started(here: Path) -> None:
    marker = f"30{os.getpid()}.5"
    daemon = f"setsid sh -c 'trap \"\" TERM HUP INT; sleep {marker}' & nohup sleep {marker} & "
    (here / "busy.sh").write_text(f"{daemon} echo begun; sleep {marker}\n")
    with at_terminal("run", "-m", "demo", "--yes", "run sh busy.sh", at=here) as terminal:
        terminal.wait_for("begun", times=1)
        assert there_within(PATIENCE, marker)
        terminal.type("\x03")
        assert gone_within(2.0, marker)
        assert terminal.ended() == 130


def test_killing_the_program_ends_everything_that_a_command_started(here: Path) -> None:
    marker = f"31{os.getpid()}.5"
    (here / "busy.sh").write_text(f"setsid sleep {marker} & echo begun; sleep {marker}\n")
    with at_terminal("run", "-m", "demo", "--yes", "run sh busy.sh", at=here) as terminal:
        terminal.wait_for("begun")
        assert there_within(PATIENCE, marker)
        os.kill(terminal.process, signal.SIGKILL)
        assert gone_within(2.0, marker)


def test_a_second_ctrl_c_does_not_wait_for_a_tool_that_will_not_stop(here: Path) -> None:
    (here / "stubborn.py").write_text(
        "import asyncio\n"
        "from holdfast import tool\n"
        "@tool\n"
        "async def stay() -> str:\n"
        "    'Stay.'\n"
        "    while True:\n"
        "        try:\n"
        "            print('here', flush=True)\n"
        "            await asyncio.sleep(60)\n"
        "        except asyncio.CancelledError:\n"
        "            print('not going', flush=True)\n"
    )
    command = ("run", "-m", "demo", "-t", "stubborn:stay", "call stay")
    with at_terminal(*command, at=here) as terminal:
        terminal.wait_for("here")
        terminal.type("\x03")
        terminal.wait_for("not going")
        began = time.monotonic()
        terminal.type("\x03")
        assert terminal.ended() == 130
        assert time.monotonic() - began < 4.0  # a tool has a grace of five seconds


def test_ctrl_c_does_not_wait_for_a_thread_that_nobody_can_stop(here: Path) -> None:
    (here / "slow.py").write_text(
        "import time\n"
        "from holdfast import tool\n"
        "@tool\n"
        "def nap() -> str:\n"
        "    'Nap.'\n"
        "    print('napping', flush=True)\n"
        "    time.sleep(60)\n"
    )
    with at_terminal("run", "-m", "demo", "-t", "slow:nap", "call nap", at=here) as terminal:
        terminal.wait_for("napping")
        terminal.type("\x03")
        assert terminal.ended() == 130
    assert "left behind" in terminal.seen
    assert "Traceback" not in terminal.seen


def test_ctrl_c_at_a_question_leaves_it_open_and_it_is_asked_again(here: Path) -> None:
    with at_terminal("run", "--save", "write hi to new.txt", at=here) as terminal:
        terminal.wait_for("Allow?")
        terminal.type("\x03")
        assert terminal.ended() == 130
    assert not (here / "new.txt").exists()
    with at_terminal("run", "--continue", at=here) as terminal:
        terminal.wait_for("Allow?")
        terminal.type("y\n")
        assert terminal.ended() == 0
    assert (here / "new.txt").read_text() == "hi"


def test_a_command_that_was_cut_off_by_a_kill_is_not_run_again(here: Path) -> None:
    command = ("run", "--yes", "--save")
    # The command itself kills the program, in the middle of the call.
    kill = "run echo ran >> ran.txt; kill -9 $(cat program.pid); sleep 60"
    process = subprocess.Popen(
        ["bash", "-c", 'echo $$ > program.pid; exec "$@"', "-", *PROGRAM, *command, kill],
        cwd=here,
        env=environment(here.parent),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.wait(timeout=60) == -signal.SIGKILL
    assert (here / "ran.txt").read_text() == "ran\n"
    resumed = holdfast("run", "--yes", "--continue", at=here)
    assert resumed.returncode == 0
    assert (here / "ran.txt").read_text() == "ran\n"
    assert re.search("may or may not have taken effect", resumed.stdout + resumed.stderr)
