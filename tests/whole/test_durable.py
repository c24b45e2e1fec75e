"""Processes that are killed, stopped and cut off, with a log of what was acknowledged outside."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from holdfast.chat.doctor import check
from holdfast.chat.queries import list_chats, read_history
from holdfast.chat.rows import ChatRow
from holdfast.kernel.messages import Message
from holdfast.kernel.ports import wall_clock
from holdfast.store.database import Database
from holdfast.store.url import open_database
from holdfast.testing.postgres import Server
from holdfast.testing.postgres import running as running_postgres

CHILD: Final = Path(__file__).with_name("durable_child.py")
ROOT: Final = Path(__file__).resolve().parent.parent.parent
PATIENCE: Final = 30.0


class Child:
    """A process that drives chats, and everything it said."""

    def __init__(self, url: str, effects: Path) -> None:
        self.heard: list[str] = []
        self._process = subprocess.Popen(
            [sys.executable, str(CHILD), url, str(effects)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONFAULTHANDLER": "1"},
        )
        self.until("ready")

    def tell(self, *words: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()

    def until(self, begins: str) -> str:
        """The next line that begins so."""
        assert self._process.stdout is not None
        while line := self._process.stdout.readline().strip():
            self.heard.append(line)
            if line.startswith(begins):
                return line
        code = self._process.wait(timeout=PATIENCE)
        raise AssertionError(f"it ended ({code}) before {begins!r}, after {self.heard[-5:]}")

    def lines(self, count: int) -> None:
        for _ in range(count):
            self.until("")

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """As when the power goes. What it had said by then was said."""
        self._process.kill()
        self._rest()

    def stop(self) -> None:
        self._process.terminate()
        self._rest()
        assert self._process.returncode == 0

    def _rest(self) -> None:
        output, _ = self._process.communicate(timeout=PATIENCE)
        self.heard += output.split("\n")


@pytest.fixture
def effects(tmp_path: Path) -> Path:
    """What was done to the world, a line for each time."""
    return tmp_path / "effects"


@pytest.fixture
def children(effects: Path) -> Iterator[Callable[[str], Child]]:
    with ExitStack() as stack:

        def start(url: str) -> Child:
            child = Child(url, effects)
            stack.callback(child._process.kill)
            stack.callback(child.signal, signal.SIGCONT)
            return child

        yield start


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'chats.db'}"
    return str(request.getfixturevalue("postgres_url"))


class Found:
    """What is in a database: its chats, with their histories."""

    def __init__(self, chats: dict[str, ChatRow], histories: dict[str, list[Message]]) -> None:
        self.chats = chats
        self.histories = histories

    def results(self, chat_id: str) -> list[str]:
        history = self.histories[chat_id]
        return [result.outcome for message in history for result in message.results]


def look(url: str) -> Found:
    """Read everything, and find it in order."""

    async def read(db: Database) -> Found:
        await check(db)
        chats = {chat.id: chat for chat in await db.read(lambda tx: list_chats(tx, limit=1_000))}
        histories = {}
        for chat_id in chats:
            stored = await db.read(lambda tx, chat_id=chat_id: read_history(tx, chat_id))  # type: ignore[misc]
            histories[chat_id] = [one.message for one in stored]
        return Found(chats, histories)

    async def main() -> Found:
        async with open_database(url, now=wall_clock) as db:
            return await read(db)

    return asyncio.run(main())


def at_rest(child: Child, url: str, count: int) -> Found:
    """Everything, once the child finds this many chats at rest, and has ended."""
    child.tell("rest", str(count))
    child.until("resting")
    child.stop()
    return look(url)


def done_to_the_world(effects: Path) -> Counter[str]:
    return Counter(effects.read_text().splitlines()) if effects.exists() else Counter()


def acknowledged(*children: Child) -> dict[str, str]:
    """Keys that were acknowledged, and the chats that they made or went to."""
    said = [line.split() for child in children for line in child.heard if line.startswith("ack ")]
    return {key: chat for _, key, chat in said}


def test_a_tool_that_was_cut_off_is_not_run_again(
    url: str, children: Callable[[str], Child], effects: Path
) -> None:
    first = children(url)
    first.tell("create", "a", "2 hold")
    first.until("done")
    line = first.until("begin").removeprefix("begin ")
    first.kill()
    second = children(url)
    second.tell("create", "b", "0")
    second.until("ack b")
    chat_id = acknowledged(first)["a"]
    found = at_rest(second, url, 2)
    assert found.results(chat_id) == ["ok", "lost"]
    assert found.chats[chat_id].error is None
    assert found.chats[chat_id].status == "idle"
    assert done_to_the_world(effects)[line] == 1


@pytest.mark.parametrize("lines", [2, 3, 7])
def test_whenever_it_is_killed_nothing_is_lost_and_nothing_is_done_twice(
    url: str, children: Callable[[str], Child], effects: Path, lines: int
) -> None:
    dead = []
    for life in range(2):  # a third death in a row would park what it was busy with
        child = children(url)
        for number in range(3):
            child.tell("create", f"{life}-{number}", "3")
        child.lines(lines)
        child.kill()
        dead.append(child)
    last = children(url)
    for key in [f"{life}-{number}" for life in range(2) for number in range(3)]:
        last.tell("create", key, "3")  # whoever was not answered asks again
    for _ in range(6):
        last.until("ack")
    found = at_rest(last, url, 6)
    assert len(found.chats) == 6
    before = acknowledged(*dead)
    assert before.items() <= acknowledged(last).items()
    for chat_id in found.chats:
        prompts = [m.text for m in found.histories[chat_id] if m.kind == "prompt"]
        assert prompts == ["3"]
        outcomes = found.results(chat_id)
        assert len(outcomes) == 3
        assert set(outcomes) <= {"ok", "lost"}
    made = done_to_the_world(effects)
    assert set(made.values()) == {1}
    reported = sum(found.results(chat_id).count("ok") for chat_id in found.chats)
    lost = sum(found.results(chat_id).count("lost") for chat_id in found.chats)
    assert reported <= len(made) <= reported + lost


def test_a_worker_that_stood_still_beyond_its_lease_writes_nothing_any_more(
    postgres_url: str, children: Callable[[str], Child], effects: Path
) -> None:
    first = children(postgres_url)
    first.tell("create", "a", "2 hold")
    first.until("done")
    first.until("begin")
    first.signal(signal.SIGSTOP)
    second = children(postgres_url)
    found = at_rest(second, postgres_url, 1)
    (chat,) = found.chats.values()
    assert found.results(chat.id) == ["ok", "lost"]
    first.signal(signal.SIGCONT)
    first.stop()
    after = look(postgres_url)
    assert after.histories == found.histories
    assert after.chats[chat.id].snapshot_version == chat.snapshot_version
    assert set(done_to_the_world(effects).values()) == {1}


def test_a_worker_that_is_told_to_go_hands_its_chats_over(
    postgres_url: str, children: Callable[[str], Child], effects: Path
) -> None:
    first, second = children(postgres_url), children(postgres_url)
    for number in range(10):
        first.tell("create", str(number), "10")
        first.until("ack")
    first.stop()
    found = at_rest(second, postgres_url, 10)
    for chat_id in found.chats:
        assert found.results(chat_id) == ["ok"] * 10
    assert set(done_to_the_world(effects).values()) == {1}


@pytest.fixture
def own_postgres() -> Iterator[Server]:
    with running_postgres(durable=True) as server:
        yield server


def test_a_database_that_crashes_under_load_costs_time_only(
    own_postgres: Server, children: Callable[[str], Child], effects: Path
) -> None:
    url = own_postgres.create("chats")
    first, second = children(url), children(url)
    for number in range(8):
        first.tell("create", str(number), "30")
        first.until("ack")
    first.until("done")
    own_postgres.crash()
    own_postgres.start()
    found = at_rest(second, url, 8)
    first.stop()
    for chat_id in found.chats:
        assert len(found.results(chat_id)) == 30
        assert set(found.results(chat_id)) <= {"ok", "lost"}
    assert set(done_to_the_world(effects).values()) == {1}


def test_being_told_to_go_again_and_again_is_no_crash(
    url: str, children: Callable[[str], Child], effects: Path
) -> None:
    first = children(url)
    first.tell("create", "a", "1 hold")
    first.until("begin")
    first.stop()
    for _ in range(3):
        child = children(url)
        child.tell("create", "b", "40")
        child.until("ack")
        child.stop()
    found = at_rest(children(url), url, 2)
    assert [chat.error for chat in found.chats.values()] == [None, None]
    assert set(done_to_the_world(effects).values()) == {1}
