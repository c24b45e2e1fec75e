"""`holdfast chat`: at a terminal and without one, with a server of its own."""

from __future__ import annotations

import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.person import Person, sitting_at
from tests.cli.test_main import environ, holdfast
from tests.cli.test_serve import Process, serving

ENDLESS = "slowly say one two three four, then wait 10 minutes"
"""For turns that are stopped: none of them ends by itself before its test does."""

HELD = """
from pathlib import Path

import anyio

from holdfast import tool

@tool
async def hold() -> str:
    \"""Wait until it may end.\"""
    while not Path("may-end").exists():
        await anyio.sleep(0.02)
    Path("may-end").unlink()
    return "held"
"""
"""A tool for turns that go on until their test lets them end."""


class Served:
    def __init__(self, process: Process) -> None:
        self.process = process
        self.home = process.home
        self.url = process.started()

    def once(self, *argv: str, **more: Any) -> subprocess.CompletedProcess[str]:
        """Without a terminal."""
        env = environ(HOLDFAST_HOME=str(self.home), HOLDFAST_URL=self.url)
        more = {"stdin": subprocess.DEVNULL} | more if "input" not in more else more
        return holdfast("chat", *argv, env=env, start_new_session=True, **more)

    def let_end(self) -> None:
        """The `hold` that runs, or else the next one."""
        (self.home / "work" / "may-end").touch()

    def newest(self) -> dict[str, Any]:
        chats: list[dict[str, Any]] = self.process.ask(f"{self.url}/api/v1/chats")["chats"]
        return chats[0]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("home")
    work = home / "work"
    work.mkdir()
    (work / "held.py").write_text(HELD)
    (work / "holdfast.toml").write_text('[agents.assistant]\ntools = ["bundled", "held:hold"]\n')
    with serving(home, "--listen", "0", "--config", "holdfast.toml") as process:
        yield Served(process)


@pytest.fixture
def person(served: Served) -> Iterator[Person]:
    with sitting_at(served.home, "chat", "--url", served.url) as somebody:
        somebody.sees("/help lists all commands.\n>")
        yield somebody


# --- without a terminal --------------------------------------------------------------------------


def test_the_answer_alone_is_printed(served: Served) -> None:
    done = served.once("say", "hello")
    assert (done.returncode, done.stdout, done.stderr) == (0, "hello\n", "")


def test_what_is_piped_in_is_said(served: Served) -> None:
    done = served.once("say", input="to be or not\n")
    assert (done.returncode, done.stdout) == (0, "to be or not\n")


def test_a_chat_is_gone_on_with_and_only_what_is_new_is_printed(served: Served) -> None:
    served.once("say one")
    id = served.newest()["id"]
    assert served.once("--chat", id, "say two").stdout == "two\n"
    assert served.once("--last", "say three").stdout == "three\n"
    assert served.newest()["messages"] == 6


@pytest.mark.parametrize(
    ("argv", "code"), [(["fail with auth"], 1), (["write hi to a.txt"], 3), (["say hi"], 0)]
)
def test_the_exit_code_says_how_it_ended(served: Served, argv: list[str], code: int) -> None:
    assert served.once("-q", *argv).returncode == code


def test_what_it_waits_for_is_said_with_how_to_go_on(served: Served) -> None:
    done = served.once("-q", "write hi to b.txt")
    id = served.newest()["id"]
    assert done.stderr.splitlines()[-1] == (
        f"holdfast: write_file waits for an answer: holdfast chat --chat {id} at a terminal, "
        "or use --yes or --deny"
    )
    question = served.once("-q", "ask me Which colour: red or blue")
    assert question.stderr.splitlines()[-1].endswith("at a terminal"), "--yes is not an answer"
    done = served.once("-q", "--chat", id, "--yes")
    assert (done.returncode, "returned:" in done.stdout) == (0, True)
    assert (served.home / "work" / "b.txt").read_text() == "hi"


def test_a_call_may_be_denied_beforehand(served: Served) -> None:
    done = served.once("-q", "--deny", "write hi to c.txt")
    assert done.returncode == 0
    assert not (served.home / "work" / "c.txt").exists()


@pytest.mark.parametrize(
    ("argv", "code", "says"),
    [
        ([], 2, "no prompt: use holdfast chat"),
        (["--chat", "nobody", "hi"], 1, "nobody"),
        (["--agent", "nobody", "hi"], 2, "nobody"),
        (["--url", "http://127.0.0.1:1", "hi"], 1, "cannot be reached, nothing listens there"),
        (["--token", "hf_wrong", "hi"], 1, "rejected this token"),
        (["--url", "nowhere", "--token", "x", "hi"], 2, "is not an address"),
    ],
)
def test_what_cannot_be_is_told_in_one_line(
    served: Served, argv: list[str], code: int, says: str
) -> None:
    done = served.once(*argv)
    assert (done.returncode, done.stdout) == (code, "")
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_chat_that_waits_for_nothing_wants_a_prompt(served: Served) -> None:
    served.once("say hello")
    done = served.once("--last")
    assert (done.returncode, "is idle: give a prompt" in done.stderr) == (2, True)


def test_a_signal_stops_the_turn(served: Served) -> None:
    argv = ("chat", "--url", served.url, ENDLESS)
    with sitting_at(served.home, *argv, TERM="dumb") as person:
        person.sees("one two")
        person.types("\x03")
        assert person.ended() == 130
    assert served.newest()["outcome"]["reason"] == "interrupted"


def chat(home: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """Without a terminal, and without saying where."""
    env = environ(HOLDFAST_HOME=str(home))
    return holdfast("chat", *argv, env=env, stdin=subprocess.DEVNULL, start_new_session=True)


def test_without_a_server_the_chat_is_in_the_local_database_and_a_server_has_it_then(
    tmp_path: Path,
) -> None:
    done = chat(tmp_path, "-q", "say one")
    assert (done.returncode, done.stdout, done.stderr) == (0, "one\n", "")
    assert chat(tmp_path, "-q", "--last", "say two").stdout == "two\n"
    with serving(tmp_path, "--listen", "0") as process:
        first = Served(process)
        assert (first.newest()["messages"], first.newest()["owner"]) == (4, "")
        assert chat(tmp_path, "-q", "--last", "say three").stdout == "three\n"
        assert first.newest()["messages"] == 6
        process.end(signal.SIGKILL)
    assert chat(tmp_path, "-q", "--last", "say four").stdout == "four\n"


def test_a_turn_that_was_cut_off_by_a_crash_is_finished_by_the_next_process(
    tmp_path: Path,
) -> None:
    (tmp_path / "held.py").write_text(HELD.replace("@tool", '@tool(effect="pure")'))
    (tmp_path / "held.toml").write_text('[agents.a]\nmodel = "demo"\ntools = ["held:hold"]\n')
    named = ("chat", "--config", "held.toml")
    with sitting_at(tmp_path, *named, "call hold {}, then say done") as person:
        person.sees("hold")
        person.sees("● hold()")
        person.child.kill()
    (tmp_path / "may-end").touch()
    with sitting_at(tmp_path, *named, "--last") as person:
        person.sees("hold returned:\n\n```\nheld")


def test_who_uses_the_database_directly_says_so_and_keeps_others_out(tmp_path: Path) -> None:
    with sitting_at(tmp_path, "chat") as person:
        person.sees("assistant answers with demo:demo (not a language model: no key")
        person.sees("chats.db, without a server")
        person.sees("\n>")
        done = chat(tmp_path, "say hello")
        assert done.returncode == 1
        assert "is open in another process: wait until it ends" in done.stderr
        person.says(ENDLESS)
        person.sees("\n\none")
        person.says("/quit")
        assert person.ended() == 0
        assert "the answer continues when the chat is opened again; holdfast chat" in person.seen


# --- at a terminal -------------------------------------------------------------------------------


def test_somebody_talks_and_the_terminal_is_left_as_it_was(served: Served) -> None:
    with sitting_at(served.home, "chat", "--url", served.url, "say", "**hello**") as person:
        person.sees("> say **hello**\n\nhello\n>")
        assert not person.echoes
        person.says("say more")
        person.sees("> say more\n\nmore\n>")
        person.types("\x04")
        assert person.ended() == 0
        id = served.newest()["id"]
        assert person.seen.rstrip().endswith(f"holdfast chat --chat {id} resumes this chat")


def test_what_is_typed_stays_below_what_is_streamed(person: Person) -> None:
    person.says("slowly say one two three four five")
    person.sees("\n\none two")
    person.types("wait")
    person.sees("\n\none two three four five\n> wait")
    person.types("\x7f" * 4)
    person.says("say done")
    person.sees("> say done\n\ndone\n>")
    assert "wait" not in person.seen


def test_what_is_said_meanwhile_waits_and_can_be_changed(person: Person) -> None:
    person.says(ENDLESS)
    person.sees("\n\none")
    person.says("say second")
    person.says("say third")
    person.sees("queued until the turn ends: say third")
    person.says("/queue")
    person.sees("2  queue     say third")
    person.says("/edit 2 say another")
    person.sees("message 2 is now: say another")
    person.says("/remove 1")
    person.sees("removed: say second")
    person.says("/promote 1")
    person.sees("> say another\n\nanother")
    assert "> say second" not in person.seen.split("removed")[1]


def test_steering_is_heard_before_the_next_step(served: Served, person: Person) -> None:
    person.says("slowly say one two three, then call hold {}")
    person.sees("\n\none")
    person.says("/steer say changed")
    person.sees("queued until the next step: say changed")
    served.let_end()
    person.sees("> say changed\n\nchanged")


def test_ctrl_c_takes_back_the_line_then_stops_the_turn_then_leaves(
    served: Served, person: Person
) -> None:
    person.says(ENDLESS)
    person.sees("\n\none")
    person.types("typed")
    person.sees("> typed")
    person.types("\x03")
    person.says("/queue")
    person.sees("  (none)")
    person.types("\x03")
    person.sees("stopping; press Ctrl-C again to exit")
    person.sees("Interrupted.")
    assert served.newest()["outcome"]["reason"] == "interrupted"
    person.types("\x03")
    assert person.ended() == 130


def test_what_runs_goes_on_when_somebody_leaves(served: Served, person: Person) -> None:
    person.says("slowly say one two three, then call hold {}, then say four")
    person.sees("\n\none")
    person.says("/quit")
    assert person.ended() == 0
    assert "the answer continues on the server; holdfast chat --chat" in person.seen
    served.let_end()
    id = served.newest()["id"]
    with sitting_at(served.home, "chat", "--url", served.url, "-c", id) as again:
        again.sees("\n\none two three\n")
        again.sees("\n\nfour\n")


def test_a_call_is_approved_denied_and_allowed_for_the_chat(served: Served, person: Person) -> None:
    work = served.home / "work"
    person.says("write 1 to one.txt")
    person.sees("Allow? [y]es, [n]o, [a]lways for write_file in this chat")
    assert '● write_file(path="one.txt", content="1")\n  --- /dev/null\n' in person.seen
    person.says("not today")
    person.sees("not today", 2)
    person.sees("\n>", 2)
    assert not (work / "one.txt").exists()
    person.says("write 2 to two.txt")
    person.sees("Allow?", 2)
    person.says("a")
    person.sees("Wrote two.txt")
    assert served.newest()["rules"] == [{"tool": "write_file"}]
    person.says("write 3 to three.txt")
    person.sees("Wrote three.txt")
    assert person.seen.count("Allow?") == 2


def test_a_question_may_be_left_and_answered_later_or_elsewhere(
    served: Served, person: Person
) -> None:
    person.says("write 1 to later.txt")
    person.sees("Allow?")
    person.types("\x04")
    person.sees("still pending: /answer asks again")
    person.says("/answer")
    person.sees("Allow?", 2)
    assert "write_file wants to run" in person.seen  # also who scrolled away knows what it is
    assert served.once("-q", "--last", "--yes").returncode == 0
    person.sees("Wrote later.txt")
    person.says("say fine")
    person.sees("> say fine\n\nfine")


def test_of_several_calls_each_is_shown_where_it_is_asked_about(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "asking.py").write_text(ASKING)
    (work / "holdfast.toml").write_text('[agents.a]\nmodel = "demo"\ntools = ["asking:tools"]\n')
    with (
        serving(tmp_path, "--listen", "0", "--config", "holdfast.toml") as process,
        sitting_at(tmp_path, "chat", "--url", process.started(), "use many tools") as person,
    ):
        for number, tool in enumerate(("list_files", "read_file", "search_files"), 1):
            person.sees("Allow?", number)
            above = person.seen.rpartition("Allow?")[0]
            assert above.rstrip().endswith(f"| {tool} would be run"), above
            person.says("y")
        person.sees("done", 3)


ASKING = """
from holdfast import tool

def asking(name, argument):
    async def run(**given: str) -> str: return "done"
    schema = {"type": "object", "properties": {argument: {"type": "string"}}}
    preview = lambda given: f"{name} would be run"
    return tool(name=name, description=name, schema=schema, approval="ask", preview=preview)(run)

tools = [
    asking("list_files", "path"), asking("read_file", "path"), asking("search_files", "pattern")
]
"""
"""Tools that the demo calls in one message, each with an approval."""


def test_who_wants_it_quiet_sees_all_that_they_are_asked_about(served: Served) -> None:
    with sitting_at(served.home, "chat", "-q", "--url", served.url) as person:
        person.says("write 1 to quiet.txt")
        person.sees("Allow?")
        assert "| +1\n" in person.seen.partition("write_file wants to run: ")[2]


def test_without_colours_and_cursors_a_call_is_asked_about_too(served: Served) -> None:
    argv = ("chat", "--url", served.url, "write hi to dumb.txt")
    with sitting_at(served.home, *argv, TERM="dumb") as person:
        person.sees("[a]lways for write_file in this chat")
        person.says("a")
        assert person.ended() == 0
    assert (served.home / "work" / "dumb.txt").read_text() == "hi"
    assert served.newest()["rules"] == [{"tool": "write_file"}]


def test_a_long_line_is_typed_on_a_narrow_terminal(served: Served) -> None:
    with sitting_at(served.home, "chat", "--url", served.url, columns=40) as person:
        person.sees("\n>")
        person.types(f"say {'long ' * 20}end")
        person.sees(" long end")
        person.types("\x01")
        person.sees("> say long long long")
        person.types("\x05!\r")
        person.sees("end!", 2)
        answer = person.seen.split("end!")[-2].split()
        assert answer == ["long"] * 20


def test_messages_are_listed_on_a_line_each(served: Served) -> None:
    served.once(f"say {'long ' * 20}end")
    with sitting_at(served.home, "chat", "--url", served.url, "--last", columns=40) as person:
        person.sees("end", 2)
        person.says("/messages")
        first, second = "say long long long long…", "long long long long lon…"
        person.sees(f"   1  user      {first}\n   2  assistant {second}\n>")


def test_questions_of_the_model_are_asked(person: Person) -> None:
    person.says("ask me Which colour: red, green or blue")
    person.sees("3. blue")
    person.says("2")
    person.sees("green", 2)


def test_chats_are_listed_and_switched_named_and_forked(served: Served, person: Person) -> None:
    person.says("say first")
    person.sees("\n\nfirst\n>")
    first = served.newest()["id"]
    person.says("/title The second")
    person.sees("title: The second")
    person.says("/title")
    person.sees("title: Say first")
    person.says("/title The first")
    person.sees("title: The first")
    person.says("/new")
    person.sees("new chat: it starts with your next message")
    person.says("say other")
    person.sees("\n\nother\n>")
    person.says("/chats")
    person.sees("1  * ")
    person.sees("2    The first (idle)")
    person.says("/chats 2")
    person.sees("> say first\n\nfirst", 2)
    person.says("/messages")
    person.sees("2  assistant first")
    person.says("/fork 0")
    person.sees("! messages are numbered from 1: see /messages\n> /fork 0")
    person.says("\x15/fork 1 say forked")
    person.sees("> say forked\n\nforked")
    assert (served.newest()["id"], served.newest()["messages"]) != (first, 2)
    person.says("/chats 99")
    person.sees("no chat with this number: see /chats")


def test_after_an_error_it_is_tried_again(person: Person) -> None:
    person.says("fail with auth")
    person.sees("✗ ")
    person.says("/retry")
    person.sees("✗ ", 2)


def test_a_turn_that_reached_its_limit_is_resumed(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("many words\n")
    (tmp_path / "limited.toml").write_text('[agents.a]\nmodel = "demo"\nlimits = {steps = 1}\n')
    with sitting_at(tmp_path, "chat", "--config", "limited.toml", columns=120) as person:
        person.says("read mine.txt")
        person.sees("Stopped: this turn used 1 of 1 steps. /resume continues, and allows the same")
        person.says("/resume")
        person.sees("read_file (mine.txt) returned:")


def test_a_conversation_is_summarized_on_demand(served: Served, tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("many words\n" * 2_000)
    served.once("-f", str(tmp_path / "long.txt"), "say hi")
    served.once("--last", "say more")
    with sitting_at(served.home, "chat", "--url", served.url, "--last") as person:
        person.sees("> say more\n\nmore\n>")
        person.says("/compact")
        person.sees("· The earlier conversation was summarized as asked")


def test_what_is_refused_is_said_and_can_be_said_otherwise(person: Person) -> None:
    person.says("/queu")
    person.sees("! unknown command /queu: did you mean /queue?\n> /queu")
    person.says("\x15/queue")
    person.sees("! no chat yet: send a message, or see /chats\n> /queue")
    person.says("\x15/effort huge")
    person.sees("! unknown effort 'huge': use one of none,")
    person.sees("> /effort huge")
    person.says("\x15/model nobody:nothing")
    person.says("say hi")
    person.sees("! ", 3)
    person.sees("> say hi")
    person.types("\x15")
    person.says("/model -")
    person.says("say hi")
    person.sees("\n\nhi\n>")
    person.says("/model")
    person.sees("model: the agent's own")
    person.says("/model demo")
    person.sees("model: demo")
    person.says("/remove 1")
    person.sees("! the queue is empty\n> /remove 1")
    person.says("\x15/stop")
    person.sees("· nothing is running\n>")


def test_the_help_lists_every_command(person: Person) -> None:
    person.says("/help")
    person.sees("/quit")
    person.sees("// sends a leading /.")


def test_it_comes_back_when_the_server_does(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    with serving(tmp_path, "--listen", port) as first:
        url = first.started()
        with sitting_at(tmp_path, "chat", "--url", url, "say hello") as person:
            person.sees("\n\nhello\n>")
            assert first.end() == 0
            person.sees("connection lost: reconnecting…")
            person.says("say later")
            person.sees("will be sent when the connection is back")
            with serving(tmp_path, "--listen", port) as second:
                second.started()
                person.sees("· reconnected\n> say later\n\nlater\n>")
                person.says("say more")
                person.sees("> say more\n\nmore\n>")
                person.types("\x04")
                assert person.ended() == 0


def test_a_closed_terminal_ends_it(served: Served) -> None:
    with sitting_at(served.home, "chat", "--url", served.url) as person:
        person.sees("\n>")
        person.hangs_up()
        assert person.child.wait(30) in (0, 129)
