"""What a chat is to those who see it."""

from __future__ import annotations

from holdfast.chat.read_marks import Marks, mark, read_marks
from holdfast.chat.rows import fence_of
from holdfast.chat.transitions import runner, user
from tests.chat.chats import Chats, answer, approval, asks, prompt, row_of_call


async def marks(chats: Chats, *ids: str, reader: str = "ann") -> dict[str, Marks]:
    rows = [await chats.row(id) for id in ids]
    return dict(await chats.ask(read_marks, reader, rows))


async def test_a_chat_needs_somebody_while_one_below_it_waits(chats: Chats) -> None:
    await chats.running("top")
    await chats.child("top", "child")
    await chats.commit("top", answer("it is being done"))
    await chats.finish("top")
    await chats.idle("other")
    assert not (await marks(chats, "top", reader=""))["top"].needs_me
    assert "child" in await chats.claim("child")
    await chats.commit("child", answer("may I?", asks("a")))
    row = await chats.row("child")
    asked = row_of_call(row, "a", "waiting", action="approval")
    await chats.do(runner.require_action, fence_of(row), [asked])
    found = await marks(chats, "top", "child", "other", reader="")
    assert {id: each.needs_me for id, each in found.items()} == {
        "top": True,
        "child": True,
        "other": False,
    }
    assert not (await marks(chats, "top", reader="ann"))["top"].needs_me, "it is not hers"
    await chats.do(user.resolve, "child", {"a": approval("a")})
    assert not (await marks(chats, "top", reader=""))["top"].needs_me


async def test_what_was_superseded_is_not_unread(chats: Chats) -> None:
    await chats.idle("c1")
    assert (await marks(chats, "c1"))["c1"].unread
    await chats.do(user.edit, "c1", 1, prompt("else"))
    assert not (await marks(chats, "c1"))["c1"].unread


async def test_a_mark_tells_those_who_watch(chats: Chats) -> None:
    await chats.idle("c1")
    chats.take_notices()
    await chats.do(mark, "ann", await chats.row("c1"), pinned=True)
    await chats.do(mark, "ann", await chats.row("c1"), read=1)
    assert len(chats.take_notices()) == 2
    found = (await marks(chats, "c1"))["c1"]
    assert (found.pinned, found.read) == (True, 1)
    assert not (await marks(chats, "c1", reader="bob"))["c1"].pinned
