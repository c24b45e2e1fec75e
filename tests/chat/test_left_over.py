"""What is left beside a chat when it comes to rest: nothing that nobody will look at."""

from __future__ import annotations

import anyio
import pytest

from holdfast.chat import doctor
from holdfast.chat.errors import NotARoot
from holdfast.chat.rows import fence_of
from holdfast.chat.transitions import lifecycle, runner, user
from holdfast.store.database import Tx
from tests.chat.chats import Chats, answer, asks, leftover, prompt, row_of_call
from tests.chat.sessions import until_blocked


async def with_a_partial_answer(chats: Chats) -> None:
    await chats.running("c1")
    await chats.do(runner.write_partial, fence_of(await chats.row("c1")), 1, answer("so far"))


async def test_a_chat_that_waits_has_no_partial_answer(chats: Chats) -> None:
    await with_a_partial_answer(chats)
    await chats.commit("c1", answer("let me ask", asks("a")))
    chat = await chats.row("c1")
    await chats.do(runner.require_action, fence_of(chat), [row_of_call(chat, "a", "waiting")])
    await doctor.check(chats.db)


async def test_a_partial_answer_that_is_being_written_down_does_not_outlive_the_settlement(
    postgres: Chats,
) -> None:
    chats = postgres
    await chats.running("c1")
    fence = fence_of(await chats.row("c1"))
    await chats.do(user.interrupt, "c1")
    written, go = anyio.Event(), anyio.Event()

    async def write_slowly(tx: Tx) -> None:
        await runner.write_partial(tx, fence, 1, answer("so far"))
        written.set()
        await go.wait()

    async def settle() -> None:
        left = leftover(answer=answer("so far"))
        await chats.do(runner.settle, fence_of(await chats.row("c1")), left)

    async with anyio.create_task_group() as group:
        group.start_soon(chats.db.write, write_slowly)
        await written.wait()
        group.start_soon(settle)
        await until_blocked(chats.db)
        go.set()
    await doctor.check(chats.db)


async def test_a_chat_that_is_parked_shows_people_what_had_arrived(chats: Chats) -> None:
    await with_a_partial_answer(chats)
    for number in range(3):
        chats.clock.advance(100)
        await chats.claim("root", worker=f"dead {number}")
    await doctor.check(chats.db)
    last = (await chats.history("c1"))[-1].message
    assert (last.text, last.visibility, last.finish) == ("so far", "user", "error")


async def test_what_had_arrived_before_an_edit_is_gone_when_the_chat_is_parked(
    chats: Chats,
) -> None:
    await with_a_partial_answer(chats)
    await chats.do(user.edit, "c1", 1, prompt("I meant this"))
    for number in range(3):
        chats.clock.advance(100)
        await chats.claim("root", worker=f"dead {number}")
    await doctor.check(chats.db)
    assert [stored.message.text for stored in await chats.history("c1")] == ["I meant this"]


async def test_an_approval_does_not_outlive_the_archive(chats: Chats) -> None:
    await chats.error("c1", calls={"a": "approved"})
    await chats.do(lifecycle.archive, "c1")
    await doctor.check(chats.db)


async def test_a_child_is_not_brought_back_before_its_parent(chats: Chats) -> None:
    await chats.running("c1")
    await chats.child("c1", "child")
    await chats.rest("child")
    await chats.rest("c1")
    await chats.do(lifecycle.archive, "c1")
    with pytest.raises(NotARoot, match="c1 is archived"):
        await chats.do(lifecycle.unarchive, "child")
    await doctor.check(chats.db)
