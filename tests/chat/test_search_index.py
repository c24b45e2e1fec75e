"""The index of the search is in step with what is committed, whoever else is at work."""

from __future__ import annotations

from functools import partial
from typing import Any

import anyio
import pytest

from holdfast.chat import search
from holdfast.chat.search import catch_up
from holdfast.chat.transitions import user
from holdfast.store.database import Tx
from tests.chat.chats import Chats, answer, prompt


async def passages(tx: Tx) -> list[tuple[str, int]]:
    rows = await tx.fetch("SELECT chat_id, number FROM passages ORDER BY chat_id, number")
    return [(chat, number) for chat, number in rows]


async def live(tx: Tx) -> list[tuple[str, int]]:
    rows = await tx.fetch(
        """
        SELECT chat_id, number FROM messages
         WHERE superseded_at IS NULL AND kind IN ('prompt', 'answer') ORDER BY chat_id, number
        """
    )
    return [(chat, number) for chat, number in rows]


async def test_nothing_is_missed_that_is_committed_while_the_index_is_written(
    postgres: Chats,
) -> None:
    for id in ("c1", "c2"):
        await postgres.idle(id)

    async def change(id: str) -> None:
        for n in range(12):
            await edit_last(postgres, id, n)

    async def look() -> None:
        for _ in range(10):
            await catch_up(postgres.db)

    async with anyio.create_task_group() as group:
        for id in ("c1", "c2"):
            group.start_soon(change, id)
        for _ in range(2):
            group.start_soon(look)
    assert await catch_up(postgres.db)
    assert await postgres.ask(passages) == await postgres.ask(live)


async def edit_last(chats: Chats, id: str, n: int) -> None:
    """Say something else instead of the last prompt: one is superseded, one is new."""
    last = [s.number for s in await chats.history(id) if s.message.kind == "prompt"][-1]
    await chats.do(user.edit, id, last, prompt(f"word{n}"))


async def test_a_title_alone_does_not_have_the_messages_read_again(chats: Chats) -> None:
    await chats.idle("c1")
    await catch_up(chats.db)

    async def ids(tx: Tx) -> Any:
        rows = await tx.fetch("SELECT number, id FROM passages ORDER BY number")
        return [tuple(row) for row in rows]

    before = await chats.ask(ids)
    await chats.do(user.update, "c1", {"title": "Titled"})
    await catch_up(chats.db)
    after = await chats.ask(ids)
    assert [number for number, _ in after] == [0, 1, 2]
    assert after[1:] == before


async def test_long_messages_are_indexed_a_few_at_a_time(chats: Chats) -> None:
    """Whoever commits to the chat waits for the transaction, and so may the event loop."""
    await chats.running(text="word")
    text = "x" * (search.INDEX_BATCH_BYTES // 3)
    for n in range(8):
        await chats.commit("c1", answer(f"a{n} {text}"))
    sizes, before = [], 0
    while await chats.db.write(partial(search._index_next, "c1")):
        indexed = len(await chats.ask(passages))
        sizes.append(indexed - before)
        before = indexed
    assert max(sizes) <= 3
    assert await chats.ask(passages) == await chats.ask(live)


def test_a_passage_is_not_searched_behind_what_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = search.parse_query("ipsum")
    assert looked is not None
    asked: list[str] = []
    words_of = search.words_of

    def counted(text: str) -> list[str]:
        asked.append(text)
        return words_of(text)

    monkeypatch.setattr(search, "words_of", counted)
    text = "lorem dolor " * 1_000 + "ipsum " + "".join(f"w{n} " for n in range(10_000))
    pieces = list(search.snippet(text, looked))
    assert [piece.text for piece in pieces if piece.found] == ["ipsum"]
    assert len(asked) < 100
