"""What goes wrong only when two things happen at once."""

from __future__ import annotations

import anyio

from holdfast.chat.rows import Status, fence_of
from holdfast.chat.transitions import claims, lifecycle, runner, user
from holdfast.store.database import Claimable, Tx
from tests.chat.chats import ME, Chats, answer, asks, row_of_call
from tests.chat.sessions import until_blocked


async def test_a_child_that_is_deleted_meanwhile_does_not_keep_its_parent_from_being_stopped(
    postgres: Chats,
) -> None:
    chats = postgres
    await chats.running("root")
    await chats.child("root", "k1")
    assert await chats.claim("child") == ["k1"]
    await chats.commit("k1", answer("let me ask", asks("a")))
    k1 = await chats.row("k1")
    await chats.do(runner.require_action, fence_of(k1), [row_of_call(k1, "a", "waiting")])
    deleted, go = anyio.Event(), anyio.Event()

    async def delete(tx: Tx) -> None:
        await lifecycle.delete(tx, "k1")
        deleted.set()
        await go.wait()

    async with anyio.create_task_group() as group:
        group.start_soon(chats.db.write, delete)
        await deleted.wait()
        group.start_soon(chats.do, user.interrupt, "root")
        await until_blocked(chats.db)
        go.set()
    assert (await chats.row("root")).status is Status.INTERRUPTING


async def test_stopping_a_chat_stops_what_a_child_at_rest_has_set_to_work(chats: Chats) -> None:
    await chats.running("root")
    await chats.child("root", "k1")
    assert await chats.claim("child") == ["k1"]
    await chats.child("k1", "g1")
    await chats.rest("k1")
    assert (await chats.row("g1")).status is Status.RUNNING
    await chats.do(user.interrupt, "root")
    assert (await chats.row("k1")).status is Status.IDLE
    assert (await chats.row("g1")).status is Status.INTERRUPTING


async def test_a_parent_that_parks_as_its_last_child_comes_to_rest_is_claimed_at_once(
    postgres: Chats,
) -> None:
    """Neither transaction sees the other: somebody has to look when both are over."""
    chats = postgres
    await chats.running("parent")
    await chats.child("parent", "k1")
    assert await chats.claim("child") == ["k1"]
    await chats.commit("k1", answer("done"))
    await chats.commit("parent", answer("I wait", asks("wait")))
    parent = await chats.row("parent")
    parked, go = anyio.Event(), anyio.Event()

    async def park(tx: Tx) -> None:
        row = row_of_call(parent, "wait", "waiting", action="child")
        await runner.require_action(tx, fence_of(parent), [row], {"wait": ["k1"]})
        parked.set()
        await go.wait()

    async with anyio.create_task_group() as group:
        group.start_soon(chats.db.write, park)
        await parked.wait()
        await chats.finish("k1")
        chats.take_notices()
        go.set()
    assert Claimable("parent") in chats.take_notices()
    assert await chats.claim("urgent") == ["parent"]


async def unreadable(tx: Tx, chat_id: str, labels: str = "no JSON") -> None:
    await tx.execute(
        "UPDATE chats SET labels = :labels WHERE id = :id", {"id": chat_id, "labels": labels}
    )


async def test_a_chat_that_nobody_can_read_keeps_no_other_from_being_claimed(
    chats: Chats,
) -> None:
    await chats.create("bad")
    chats.clock.advance(1)
    await chats.create("good")
    await chats.do(unreadable, "bad")
    assert await chats.claim("root", limit=1) == ["good"]
    assert await chats.claim("root", limit=1) == []
    await chats.do(unreadable, "bad", "{}")


async def test_a_chat_that_nobody_can_read_keeps_no_other_from_being_looked_after(
    chats: Chats,
) -> None:
    await chats.running("bad")
    await chats.running("good")
    await chats.do(unreadable, "bad")
    assert [chat.id for chat in await chats.ask(claims.owned, ME)] == ["good"]
    await chats.do(unreadable, "bad", "{}")


async def test_a_child_that_is_deleted_meanwhile_does_not_keep_its_family_from_being_archived(
    postgres: Chats,
) -> None:
    chats = postgres
    await chats.running("root")
    await chats.child("root", "k1")
    await chats.rest("k1")
    await chats.rest("root")
    deleted, go = anyio.Event(), anyio.Event()

    async def delete(tx: Tx) -> None:
        await lifecycle.delete(tx, "k1")
        deleted.set()
        await go.wait()

    async with anyio.create_task_group() as group:
        group.start_soon(chats.db.write, delete)
        await deleted.wait()
        group.start_soon(chats.do, lifecycle.archive, "root")
        await until_blocked(chats.db)
        go.set()
    assert (await chats.row("root")).archived
