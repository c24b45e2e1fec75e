"""What is read of chats: pages, lists, and one moment at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from holdfast.chat import queries
from holdfast.chat.errors import ChatNotFound
from holdfast.chat.queries import list_chats, read_actions, read_messages, read_page
from holdfast.chat.snapshots import ChatResult, StrandedLimits, read_result
from holdfast.chat.transitions import lifecycle, user
from holdfast.store.database import NO_PARAMS, Params, Row, Tx
from tests.chat.chats import LEASE, Chats, answer, prompt


async def test_a_page_is_the_newest_messages_in_front_of_a_number(chats: Chats) -> None:
    await chats.running("c1")
    for number in range(2, 8):
        await chats.commit("c1", answer(f"m{number}"))
    await chats.do(user.edit, "c1", 1, prompt("anew"))
    await chats.commit("c1", answer("m9"))
    await chats.commit("c1", answer("m10"))

    async def numbers(**page: int) -> list[int]:
        return [s.number for s in await chats.ask(read_messages, "c1", **page)]

    assert await numbers() == [8, 9, 10]
    assert await numbers(limit=2) == [9, 10]
    assert await numbers(before=9) == [8]
    assert await numbers(after=8) == [9, 10]
    assert await numbers(superseded=True, limit=100) == list(range(1, 11))
    assert await numbers(superseded=True, before=4, limit=2) == [2, 3]
    history = await chats.ask(queries.read_history, "c1", after=8)
    assert [stored.number for stored in history] == [9, 10]


async def test_a_page_has_no_more_than_its_size_and_one_message_at_least(chats: Chats) -> None:
    await chats.running("c1")
    await chats.commit("c1", answer("x" * 9_000))
    for _ in range(3):
        await chats.commit("c1", answer("x" * 1_000))

    async def numbers(limit: int = 9, **page: Any) -> tuple[list[int], bool]:
        found, more = await chats.ask(read_page, "c1", limit, 2_800, **page)
        return [stored.number for stored in found], more

    assert await numbers() == ([4, 5], True)
    assert await numbers(limit=1) == ([5], True)
    assert await numbers(before=4) == ([3], True)
    assert await numbers(before=3) == ([2], True)
    assert await numbers(before=2) == ([1], False)
    assert await numbers(after=0) == ([1], True)
    assert await numbers(after=1) == ([2], True)
    assert await numbers(after=2) == ([3, 4], True)
    assert await numbers(after=4) == ([5], False)
    assert await numbers(after=5) == ([], False)
    await chats.do(user.edit, "c1", 1, prompt("anew"))
    assert await numbers(after=2) == ([6], False)
    assert await numbers(after=2, superseded=True) == ([3, 4], True)


class Weighed:
    """A transaction that weighs what it reads."""

    def __init__(self, tx: Tx) -> None:
        self.dialect = tx.dialect
        self.characters = 0
        self._tx = tx

    async def fetch(self, *asked: Any) -> Sequence[Row]:
        rows = await self._tx.fetch(*asked)
        self.characters += sum(len(value) for row in rows for value in row if type(value) is str)
        return rows


@pytest.mark.parametrize("place", [{}, {"after": 0}])
async def test_what_does_not_fit_on_a_page_is_not_read(
    chats: Chats, place: Mapping[str, Any]
) -> None:
    await chats.running("c1")
    await chats.commit("c1", *(answer("x" * 10_000) for _ in range(50)))

    async def read(tx: Tx) -> tuple[int, int, bool]:
        weighed = Weighed(tx)
        found, more = await read_page(cast("Tx", weighed), "c1", 100, 25_000, **place)
        return len(found), weighed.characters, more

    count, characters, more = await chats.ask(read)
    assert (count, more) == (2 + ("after" in place), True)  # the prompt is small
    assert characters < 25_000


async def test_a_page_is_measured_in_bytes(chats: Chats) -> None:
    await chats.running("c1")
    await chats.commit("c1", *(answer("ü" * 1_000) for _ in range(3)))
    found, more = await chats.ask(read_page, "c1", 9, 2 * 1_500)
    assert (len(found), more) == (1, True)


async def test_chats_are_listed_newest_first_by_owner_and_place(chats: Chats) -> None:
    for id, owner in (("1", "ann"), ("2", "bob"), ("3", "ann"), ("4", "ann")):
        await chats.create(id, None, owner=owner)
    await chats.do(lifecycle.archive, "3")

    async def ids(**where: object) -> list[str]:
        return [chat.id for chat in await chats.ask(list_chats, **where)]

    assert await ids() == ["4", "2", "1"]
    assert await ids(owner="ann") == ["4", "1"]
    assert await ids(owner="ann", archived=True) == ["3"]
    assert await ids(limit=2) == ["4", "2"]
    assert await ids(before="2") == ["1"]
    assert await ids(owner="nobody") == []


class Counted:
    """A transaction that knows what it was asked."""

    def __init__(self, tx: Tx) -> None:
        self._tx = tx
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tx, name)

    async def fetch(self, sql: str, params: Params) -> Sequence[Row]:
        self.asked.append(sql)
        return await self._tx.fetch(sql, params)

    async def one(self, sql: str, params: Params = NO_PARAMS) -> Row | None:
        self.asked.append(sql)
        return await self._tx.one(sql, params)


async def test_what_a_chat_stopped_with_is_read_once(chats: Chats) -> None:
    await chats.idle("c1")

    async def read(tx: Tx) -> tuple[ChatResult | None, list[str]]:
        counted: Any = Counted(tx)
        return await read_result(counted, "c1", StrandedLimits(LEASE, LEASE)), counted.asked

    result, asked = await chats.ask(read)
    assert result is not None
    assert (result.reason, result.text, result.pieces) == ("stop", "here you are", ())
    bodies = [sql for sql in asked if "body" in sql and "FROM messages" in sql]
    assert len(bodies) == 2, "the answer, and how much of the window it fills"


async def test_actions_are_listed_in_the_order_of_their_messages(chats: Chats) -> None:
    await chats.requires_action("c1", calls={"b": None, "a": 10})
    actions = await chats.ask(read_actions, "c1")
    assert [(call.call_id, call.deadline) for call in actions] == [
        ("a", chats.after(10)),
        ("b", None),
    ]
    changes = await chats.ask(queries.changes, "c1", 0)
    assert changes is not None
    assert list(changes.actions) == actions


async def test_the_queue_is_among_the_changes_only_when_it_changed(chats: Chats) -> None:
    await chats.running("c1")
    version = (await chats.send("c1", "later")).chat.queue_version
    await chats.commit("c1", answer("meanwhile"))
    for since, told in ((version - 1, True), (version, False)):
        changes = await chats.ask(queries.changes, "c1", since)
        assert changes is not None
        assert (changes.queue is not None) is told
        assert [stored.number for stored in changes.messages] == [2]


async def test_a_runner_loads_everything_of_one_moment(chats: Chats) -> None:
    chat = await chats.running("c1", calls={"a": "started"}, queue=("steer",))
    loaded = await chats.load("c1")
    assert (loaded.chat, loaded.now) == (chat, chats.clock.now())
    assert [stored.number for stored in loaded.history] == [1, 2]
    assert ([queued.id for queued in loaded.queue], list(loaded.journal)) == (["q1"], ["a"])


async def test_a_history_that_a_runner_has_already_is_left_out(chats: Chats) -> None:
    chat = await chats.running("c1", calls={"a": "started"})
    known = await chats.ask(queries.load, "c1", chat.history_version)
    assert (known.known, known.history, list(known.journal)) == (True, (), ["a"])
    await chats.do(user.edit, "c1", 1, prompt("else"))
    changed = await chats.ask(queries.load, "c1", chat.history_version)
    assert (changed.known, [s.number for s in changed.history]) == (False, [3])
    assert changed.void == {"a"}


@pytest.mark.parametrize("read", [queries.load, queries.changes])
async def test_what_does_not_exist_cannot_be_read(chats: Chats, read: object) -> None:
    given = ("nowhere",) if read is queries.load else ("nowhere", 0)
    with pytest.raises(ChatNotFound):
        await chats.ask(read, *given)  # type: ignore[arg-type]
