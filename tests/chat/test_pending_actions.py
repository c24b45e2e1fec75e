"""What waits for one person."""

from __future__ import annotations

from holdfast.chat.pending_actions import ListedAction, read_actions_of_owner
from holdfast.chat.transitions import user
from tests.chat.chats import Chats, answer, asks


async def list_actions(chats: Chats, owner: str, **page: object) -> list[ListedAction]:
    return await chats.ask(read_actions_of_owner, owner, **page)


async def test_what_a_chat_below_waits_for_is_found_with_the_chat_at_the_top(chats: Chats) -> None:
    await chats.running("c1", owner="ann", title="Top")
    await chats.child("c1", "k1")
    await chats.claim("child")
    await chats.commit("k1", answer("let me ask", asks("a")))
    await chats.bring_calls("k1", {"a": "waiting"})
    (one,) = await list_actions(chats, "ann")
    assert (one.chat_id, one.root_id, one.action.call.id) == ("k1", "c1", "a")
    assert (one.title, one.root_title) == (None, "Top")


async def test_a_chat_that_waits_for_its_child_waits_for_nobody(chats: Chats) -> None:
    await chats.requires_action("c1", calls={"a": None}, action="child")
    assert await list_actions(chats, "") == []


async def test_what_was_stopped_waits_no_longer(chats: Chats) -> None:
    await chats.requires_action("c1", calls={"a": None})
    assert [one.action.call.id for one in await list_actions(chats, "")] == ["a"]
    await chats.do(user.interrupt, "c1")
    assert await list_actions(chats, "") == []
