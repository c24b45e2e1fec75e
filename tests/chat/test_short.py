"""What runs on the event loop of a process with SQLite costs the same however long a chat is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

import apsw
import pytest

from holdfast.chat.rows import Queued, Stored, fence_of
from holdfast.chat.transitions import runner, user
from holdfast.chat.transitions.lifecycle import NewChat
from holdfast.store.database import Tx
from holdfast.store.sqlite.database import open_sqlite
from holdfast.testing import Clock
from tests.chat.chats import FAILURE, Chats, answer, prompt, restore

LONG = 2_000


async def given_long(chats: Chats, id: str, messages: int) -> None:
    """An idle chat of so many questions and answers."""
    said = [answer("yes") if number % 2 else prompt("?") for number in range(messages)]
    stored = [Stored(number, 1, message, None, 1) for number, message in enumerate(said, 1)]
    new = NewChat(id=id, agent="agent", message=None)
    await chats.do(restore, new, stored)


async def send(chats: Chats, id: str) -> None:
    message = Queued(f"{id} q", "queue", prompt("more"), 0)
    await chats.do(user.send, id, message)


async def running_now(chats: Chats, id: str) -> None:
    await send(chats, id)
    assert id in await chats.claim()


async def failed(chats: Chats, id: str) -> None:
    await running_now(chats, id)
    await chats.do(runner.fail, fence_of(await chats.row(id)), FAILURE)


async def nothing(chats: Chats, id: str) -> None:
    """It is at rest."""


SHORT: dict[str, tuple[Callable[[Chats, str], Awaitable[None]], Callable[[Tx, str], object]]] = {
    "compact": (nothing, user.compact),
    "rename": (nothing, lambda tx, id: user.update(tx, id, {"title": "new"})),
    "send": (nothing, lambda tx, id: user.send(tx, id, Queued("q", "queue", prompt("!"), 0))),
    "send after an error": (
        failed,
        lambda tx, id: user.send(tx, id, Queued("q", "steer", prompt("!"), 0)),
    ),
    "interrupt": (running_now, user.interrupt),
    "retry": (failed, user.retry),
}


@pytest.mark.parametrize("what", SHORT)
async def test_what_people_do_to_a_long_chat_is_as_short_as_to_any(
    what: str, tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections: list[apsw.Connection] = []
    monkeypatch.setattr(apsw, "connection_hooks", [connections.append])
    before, act = SHORT[what]
    steps: list[int] = []

    def count() -> bool:
        steps[-1] += 1
        return False

    async with open_sqlite(tmp_path / "chats.db", now=clock.now, thread=False) as db:
        chats = Chats(db, clock)
        for id, messages in (("short", 20), ("long", LONG)):
            await given_long(chats, id, messages)
            await before(chats, id)
            steps.append(0)
            connections[0].set_progress_handler(count, 10)
            await chats.do(act, id)  # type: ignore[arg-type]
            connections[0].set_progress_handler(None)
    short, long = steps
    assert long < 1.5 * short + 10
