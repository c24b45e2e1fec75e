"""A chat is read in pages as of one moment, whatever others do to it meanwhile."""

from __future__ import annotations

import pytest

from holdfast.chat import paged_history
from holdfast.chat.errors import ChatNotFound
from holdfast.chat.paged_history import PAGE_BYTES, read_transcript
from holdfast.chat.rows import Stored
from holdfast.chat.snapshots import StrandedLimits
from holdfast.chat.transitions import lifecycle, user
from holdfast.kernel.messages import encode
from tests.chat.chats import Chats, answer, prompt

WATCH = StrandedLimits(15_000_000, 60_000_000)


async def talk(chats: Chats, turns: int, text: str = "") -> None:
    """A running chat of so many prompts and answers."""
    await chats.running(text="p1")
    for turn in range(1, turns + 1):
        await chats.commit("c1", answer(f"a{turn} {text}"))
        if turn < turns:
            await chats.commit("c1", prompt(f"p{turn + 1}"))


async def test_a_page_has_no_more_than_its_size(chats: Chats) -> None:
    await talk(chats, 20, "x" * (PAGE_BYTES // 5))
    found = await chats.ask(read_transcript, "c1", WATCH)
    pages = [page async for page in found.pages(chats.db)]
    sizes = [sum(len(encode(one.message)) for one in page) for page in pages]
    assert len(sizes) >= 4
    assert max(sizes) <= PAGE_BYTES
    assert [one.number for page in pages for one in page] == list(range(1, 41))


@pytest.mark.parametrize("live", [True, False])
async def test_later_changes_are_not_in_it(
    chats: Chats, monkeypatch: pytest.MonkeyPatch, live: bool
) -> None:
    monkeypatch.setattr(paged_history, "PAGE_MESSAGES", 2)
    await talk(chats, 2)
    await chats.do(user.edit, "c1", 3, prompt("instead"))
    await chats.commit("c1", answer("well"))
    await chats.finish("c1")
    found = await chats.ask(read_transcript, "c1", WATCH, live=live)
    read: list[Stored] = []
    async for page in found.pages(chats.db):
        if not read:
            await chats.do(user.edit, "c1", 1, prompt("other"))
        read += page
    now = [(one.number, one.message.text, one.superseded_at is not None) for one in read]
    both = [(1, "p1", False), (2, "a1 ", False)]
    if live:
        assert now == [*both, (3, "instead", False), (4, "well", False)]
        assert found.chat.messages == 4
    else:
        gone = [(3, "p2", True), (4, "a2 ", True)]
        assert now == [*both, *gone, (5, "instead", False), (6, "well", False)]


async def test_a_chat_that_is_deleted_between_two_pages_does_not_look_whole(
    chats: Chats, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paged_history, "PAGE_MESSAGES", 2)
    await talk(chats, 2)
    await chats.finish("c1")
    found = await chats.ask(read_transcript, "c1", WATCH)
    pages = found.pages(chats.db)
    await anext(pages)
    await chats.do(lifecycle.delete, "c1")
    with pytest.raises(ChatNotFound):
        await anext(pages)
    await pages.aclose()
