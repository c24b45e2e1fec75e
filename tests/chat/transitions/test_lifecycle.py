"""Parents and children: spawned in a commit, stopped and put away together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from holdfast.chat import deleted_or_unshared, doctor, queries
from holdfast.chat.errors import (
    ChatArchived,
    ChatError,
    ChatNotFound,
    FamilyBusy,
    TooDeep,
    TransitionNotAllowed,
)
from holdfast.chat.journal import read_journal
from holdfast.chat.locked_chat import lock
from holdfast.chat.rows import ChatRow, Queued, Status, TurnOutcome, fence_of
from holdfast.chat.transitions import lifecycle, runner, user
from holdfast.chat.transitions.lifecycle import (
    MAX_CHILDREN,
    MAX_DEPTH,
    Interrupt,
    NewChat,
    SendTo,
    Spawn,
)
from holdfast.chat.transitions.runner import Outcome
from holdfast.store.database import Changed, Tx
from tests.chat.chats import ME, Chats, answer, asks, made, prompt, row_of_call
from tests.chat.sessions import until_blocked


async def write(chats: Chats, id: str, *writes: lifecycle.Write) -> runner.Advanced:
    """A running chat calls a tool, and commits its result with what it wants done."""
    chat = await chats.row(id)
    call = f"call{chat.messages}"
    await chats.commit(id, answer("do it", asks(call)))
    outcome = Outcome(results=(made(call),), writes={call: writes})
    return await chats.do(runner.commit_step, fence_of(await chats.row(id)), outcome)


def new(id: str) -> NewChat:
    return NewChat(id=id, agent="agent", message=prompt(f"hello {id}"))


async def a_family(chats: Chats) -> None:
    """root, its children k1 and k2, and k1's child g; all of them run."""
    await chats.running("root")
    await write(chats, "root", Spawn(new("k1")), Spawn(new("k2")))
    assert sorted(await chats.claim("child")) == ["k1", "k2"]
    await write(chats, "k1", Spawn(new("g")))
    assert await chats.claim("child") == ["g"]


async def at_rest(chats: Chats) -> None:
    await a_family(chats)
    for id in ("g", "k2", "k1", "root"):
        await chats.rest(id)
    chats.take_notices()


FAMILY = ("root", "k1", "k2", "g")


# --- spawning ---


async def test_a_child_begins_in_the_commit_of_the_call_that_wants_it(chats: Chats) -> None:
    chat = await chats.running("root", calls={"spawn": "open"}, owner="ann")
    chats.take_notices()
    outcome = Outcome(results=(made("spawn"),), writes={"spawn": (Spawn(new("k1")),)})
    await chats.do(runner.commit_step, fence_of(chat), outcome)
    child = await chats.row("k1")
    assert (child.parent_id, child.root_id, child.depth, child.spawned_by) == (
        "root",
        "root",
        1,
        "spawn",
    )
    assert (child.status, child.owner, await chats.texts("k1")) == (
        Status.RUNNING,
        "ann",
        ["hello k1"],
    )
    told = [(type(n).__name__, getattr(n, "chat", "")) for n in chats.take_notices()]
    assert sorted(told) == [("Changed", "k1"), ("Changed", "root"), ("Claimable", "k1")]


async def test_a_call_that_is_committed_again_makes_no_second_child(chats: Chats) -> None:
    from holdfast.chat.errors import Fenced

    chat = await chats.running("root", calls={"spawn": "open"})
    outcome = Outcome(results=(made("spawn"),), writes={"spawn": (Spawn(new("k1")),)})
    await chats.do(runner.commit_step, fence_of(chat), outcome)
    other = Outcome(results=(made("spawn"),), writes={"spawn": (Spawn(new("k2")),)})
    with pytest.raises(Fenced):
        await chats.do(runner.commit_step, fence_of(chat), other)
    assert [chat.id for chat in await chats.ask(queries.list_chats, parent="root")] == ["k1"]


async def test_children_go_only_so_deep(chats: Chats) -> None:
    await chats.running("d0")
    for depth in range(1, MAX_DEPTH + 1):
        await write(chats, f"d{depth - 1}", Spawn(new(f"d{depth}")))
        assert await chats.claim("child") == [f"d{depth}"]
    assert (await chats.row(f"d{MAX_DEPTH}")).depth == MAX_DEPTH == 3
    with pytest.raises(TooDeep) as refusal:
        await write(chats, f"d{MAX_DEPTH}", Spawn(new("too deep")))
    assert refusal.value.limit == MAX_DEPTH
    with pytest.raises(ChatNotFound):
        await chats.row("too deep")
    assert (await chats.texts(f"d{MAX_DEPTH}"))[-1].startswith("do it")


async def test_a_family_has_only_so_many_children(chats: Chats) -> None:
    await chats.running("root")
    await write(chats, "root", *[Spawn(new(f"k{n:02}")) for n in range(MAX_CHILDREN - 1)])
    await chats.claim("child")
    await write(chats, "k00", Spawn(new("last")))
    before = await chats.row("root")
    with pytest.raises(TooDeep) as refusal:
        await write(chats, "root", Spawn(new("one too many")))
    assert refusal.value.limit == MAX_CHILDREN == 32
    assert (await chats.row("root")).messages == before.messages + 1  # the answer alone


# --- telling and stopping them ---


async def test_a_parent_tells_a_child_something_and_stops_it(chats: Chats) -> None:
    await a_family(chats)
    message = Queued("m1", "queue", prompt("and this"), 0)
    await write(chats, "root", SendTo("k1", message))
    assert await chats.queued("k1") == ["and this"]
    await write(chats, "root", Interrupt("k1"), Interrupt("k1"))
    assert (await chats.row("k1")).status is Status.INTERRUPTING
    assert (await chats.row("g")).status is Status.INTERRUPTING
    assert (await chats.row("k2")).status is Status.RUNNING


@pytest.mark.parametrize("target", ["stranger", "root", "k1", "nowhere"])
async def test_a_chat_reaches_only_those_below_it(chats: Chats, target: str) -> None:
    await a_family(chats)
    await chats.create("stranger")
    message = Queued("m1", "queue", prompt("psst"), 0)
    for attempt in (SendTo(target, message), Interrupt(target)):
        await chats.commit("k1", answer("try", asks(f"{type(attempt)}")))
        before = await chats.everything()
        outcome = Outcome(
            results=(made(f"{type(attempt)}"),), writes={f"{type(attempt)}": (attempt,)}
        )
        with pytest.raises(ChatNotFound):
            await chats.do(runner.commit_step, fence_of(await chats.row("k1")), outcome)
        assert await chats.everything() == before
        await chats.results("k1", made(f"{type(attempt)}"))


async def test_interrupting_a_parent_interrupts_all_below_it(chats: Chats) -> None:
    await a_family(chats)
    await chats.rest("k2")
    await chats.do(user.interrupt, "root")
    assert {id: (await chats.row(id)).status for id in FAMILY} == {
        "root": Status.INTERRUPTING,
        "k1": Status.INTERRUPTING,
        "g": Status.INTERRUPTING,
        "k2": Status.IDLE,
    }


@pytest.mark.parametrize("way", ["interrupt", "send", "promote"])
async def test_stopping_a_parent_that_waits_stops_its_children(chats: Chats, way: str) -> None:
    await a_family(chats)
    await chats.commit("root", answer("now wait", asks("wait")))
    chat = await chats.row("root")
    row = row_of_call(chat, "wait", "waiting", action="child")
    await chats.do(runner.require_action, fence_of(chat), [row], {"wait": ["k1", "k2"]})
    if way == "interrupt":
        await chats.do(user.interrupt, "root")
    elif way == "send":
        await chats.send("root", "stop it", "interrupt")
    else:
        await chats.do(user.send, "root", Queued("q", "queue", prompt("stop it"), 0))
        await chats.do(user.promote, "root", "q")
    stopped = Status.IDLE if way == "interrupt" else Status.RUNNING
    assert (await chats.row("root")).status is stopped
    assert [(await chats.row(id)).status for id in ("k1", "k2", "g")] == [Status.INTERRUPTING] * 3
    assert (await chats.everything())["awaited"] == []


async def test_a_steering_message_to_a_parent_that_waits_leaves_its_children_alone(
    chats: Chats,
) -> None:
    await a_family(chats)
    await chats.commit("root", answer("now wait", asks("wait")))
    chat = await chats.row("root")
    row = row_of_call(chat, "wait", "waiting", action="child")
    await chats.do(runner.require_action, fence_of(chat), [row], {"wait": ["k1"]})
    await chats.send("root", "how far are they?", "steer")
    assert (await chats.texts("root"))[-2:] == ["wait=skipped", "how far are they?"]
    assert (await chats.row("k1")).status is Status.RUNNING


async def test_an_edit_interrupts_the_children_of_what_it_supersedes_and_no_others(
    chats: Chats,
) -> None:
    await chats.running("root")
    await write(chats, "root", Spawn(new("early")))
    await chats.commit("root", answer("so far"))
    await chats.finish("root")
    await chats.send("root", "more")
    second = (await chats.row("root")).messages
    assert "root" in await chats.claim()
    await write(chats, "root", Spawn(new("late")))
    await chats.do(user.edit, "root", second, prompt("rather this"))
    assert (await chats.row("early")).status is Status.RUNNING
    assert (await chats.row("late")).status is Status.INTERRUPTING


async def test_a_childs_end_does_not_write_to_its_parent(chats: Chats) -> None:
    await a_family(chats)
    before = await chats.row("k1")
    chats.take_notices()
    await chats.rest("g")
    assert await chats.row("k1") == before
    assert ("Claimable", "k1") in [
        (type(n).__name__, getattr(n, "chat", "")) for n in chats.take_notices()
    ]


# --- together or not at all ---


async def test_a_family_is_archived_and_brought_back_as_one(chats: Chats) -> None:
    await at_rest(chats)
    await chats.do(lifecycle.archive, "g")
    chats.take_notices()
    root = await chats.do(lifecycle.archive, "root")
    assert (root.id, root.archived) == ("root", True)
    assert {(await chats.row(id)).archived for id in FAMILY} == {True}
    told = [notice for notice in chats.take_notices() if isinstance(notice, Changed)]
    assert sorted(notice.chat for notice in told) == ["k1", "k2", "root"]
    with pytest.raises(ChatArchived):
        await chats.send("g", "hello?")
    await chats.do(lifecycle.unarchive, "root")
    assert {(await chats.row(id)).archived for id in FAMILY} == {False}


async def test_an_approval_is_void_once_its_chat_was_archived(chats: Chats) -> None:
    await chats.error("c1", calls={"a": "approved", "b": "started", "c": "recorded"})
    await chats.do(lifecycle.archive, "c1")
    await chats.do(lifecycle.unarchive, "c1")
    await chats.do(user.retry, "c1")
    assert sorted((await chats.load()).journal) == ["b", "c"]


async def test_a_call_in_doubt_waits_for_its_answer_again_once_its_chat_was_archived(
    chats: Chats,
) -> None:
    """Without its row it would pass for one that has never begun."""
    await chats.error("c1", calls={"a": "approved"})
    await chats.db.write(lambda tx: tx.execute("UPDATE tool_calls SET started_at = 1"))
    await chats.do(lifecycle.archive, "c1")
    await doctor.check(chats.db)
    row = (await chats.db.read(lambda tx: read_journal(tx, "c1")))["a"]
    assert (row.state, row.approved, row.started_at) == ("waiting", None, 1)


@pytest.mark.parametrize("away", [lifecycle.archive, lifecycle.delete])
@pytest.mark.parametrize("busy", ["k1", "g"])
@pytest.mark.parametrize("status", [Status.RUNNING, Status.INTERRUPTING])
async def test_one_busy_member_keeps_the_whole_family(
    chats: Chats, away: Callable[..., Awaitable[Any]], busy: str, status: Status
) -> None:
    await at_rest(chats)
    await chats.send(busy, "again")
    if status is Status.INTERRUPTING:
        await chats.do(user.interrupt, busy)
    before = await chats.everything()
    chats.take_notices()
    with pytest.raises(FamilyBusy) as refusal:
        await chats.do(away, "root")
    assert (refusal.value.chat, refusal.value.status) == (busy, status)
    assert (await chats.everything(), chats.take_notices()) == (before, [])


async def test_a_busy_root_is_neither_archived_nor_deleted(chats: Chats) -> None:
    await chats.running("c1")
    with pytest.raises(TransitionNotAllowed):
        await chats.do(lifecycle.archive, "c1")
    with pytest.raises(FamilyBusy):
        await chats.do(lifecycle.delete, "c1")
    with pytest.raises(ChatNotFound):
        await chats.do(lifecycle.delete, "nowhere")
    with pytest.raises(ChatNotFound):
        await chats.do(lifecycle.archive, "nowhere")


async def test_a_deleted_family_leaves_nothing_behind(chats: Chats) -> None:
    await at_rest(chats)
    bystander = await chats.requires_action("other")
    await chats.send("root", "once more")
    assert await chats.claim() == ["root"]
    await chats.commit("root", answer("wait", asks("wait"), asks("me")))
    chat = await chats.row("root")
    rows = [
        row_of_call(chat, "wait", "waiting", action="child"),
        row_of_call(chat, "me", "waiting"),
    ]
    await chats.do(runner.require_action, fence_of(chat), rows, {"wait": ["k1"]})
    await chats.send("root", "later")
    chats.take_notices()
    assert await chats.do(lifecycle.delete, "root") == ("root", "k1", "k2", "g")
    assert {notice.chat for notice in chats.take_notices() if isinstance(notice, Changed)} == set(
        FAMILY
    )
    everything = dict(await chats.everything())
    # But that they were there, for those who have them in a list.
    assert {row[:2] for row in everything.pop("gone")} == {(id, "") for id in FAMILY}
    # And what they have spent.
    assert {row[:3] for row in everything.pop("deleted_spending")} == {
        (id, "", "root") for id in FAMILY
    }
    assert {row[0] for table in everything for row in everything[table]} == {"other", ME}
    assert await chats.row("other") == bystander
    with pytest.raises(ChatNotFound):
        await chats.row("root")


async def test_that_a_chat_was_there_is_forgotten_after_a_week(chats: Chats) -> None:
    await chats.idle("old")
    await chats.do(lifecycle.delete, "old")
    chats.clock.advance(deleted_or_unshared.TOMBSTONE_LIFETIME / 1_000_000 - 1)
    await chats.idle("new")
    await chats.do(lifecycle.delete, "new")
    await chats.do(deleted_or_unshared.forget_tombstones)
    assert set(await chats.ask(deleted_or_unshared.lost_since, "", 0, 10)) == {"old", "new"}
    chats.clock.advance(2)
    await chats.do(deleted_or_unshared.forget_tombstones)
    assert set(await chats.ask(deleted_or_unshared.lost_since, "", 0, 10)) == {"new"}


async def test_children_are_listed_under_their_parent_only(chats: Chats) -> None:
    await a_family(chats)
    listed = await chats.ask(queries.list_chats)
    assert [chat.id for chat in listed] == ["root"]
    below = await chats.ask(queries.list_chats, parent="root")
    assert sorted(chat.id for chat in below) == ["k1", "k2"]


@pytest.mark.parametrize("away", [lifecycle.archive, lifecycle.delete])
async def test_a_child_that_is_spawned_at_the_last_moment_is_not_overlooked(
    postgres: Chats, away: Callable[..., Awaitable[Any]]
) -> None:
    """Whoever puts a family away waits for its root, and must then look who belongs to it."""
    chats = postgres
    await chats.running("root", calls={"spawn": "open"})
    spawned, go = anyio.Event(), anyio.Event()
    refusals: list[ChatError] = []

    async def spawn_and_rest(tx: Tx) -> None:
        chat: ChatRow = await user.update(tx, "root", {"title": "busy"})
        outcome = Outcome(results=(made("spawn"),), writes={"spawn": (Spawn(new("k1")),)})
        advanced = await runner.commit_step(tx, fence_of(chat), outcome)
        await runner.finish_turn(tx, advanced.fence, TurnOutcome("stop"))
        spawned.set()
        await go.wait()

    async def put_away() -> None:
        try:
            await chats.do(away, "root")
        except ChatError as error:
            refusals.append(error)

    async with anyio.create_task_group() as group:
        group.start_soon(chats.db.write, spawn_and_rest)
        await spawned.wait()
        group.start_soon(put_away)
        await until_blocked(chats.db)
        go.set()
    assert [type(refusal) for refusal in refusals] == [FamilyBusy]
    assert ((await chats.row("root")).archived, (await chats.row("k1")).status) == (
        False,
        Status.RUNNING,
    )


async def test_a_chat_that_writes_to_a_grandchild_and_whoever_stops_the_child_do_not_deadlock(
    postgres: Chats,
) -> None:
    """Locks go down one generation at a time: skipping one would meet whoever comes through it."""
    chats = postgres
    await a_family(chats)
    told, go = anyio.Event(), anyio.Event()
    tried: list[str] = []

    async def tell_and_stop(tx: Tx) -> None:
        tried.append("root")
        root = await lock(tx, "root")
        say = SendTo("g", Queued("hint", "steer", prompt("hurry"), 0))
        await lifecycle.carry_out(root, "call", [say])
        told.set()
        await go.wait()
        await lifecycle.carry_out(root, "call", [Interrupt("k1")])

    async def stop_child(tx: Tx) -> None:
        tried.append("k1")
        await user.interrupt(tx, "k1")

    async with anyio.create_task_group() as group:
        group.start_soon(chats.db.write, tell_and_stop)
        await told.wait()
        group.start_soon(chats.db.write, stop_child)
        await until_blocked(chats.db)
        go.set()
    assert tried == ["root", "k1"]  # a transaction that a deadlock ends is begun again
    assert [(await chats.row(id)).status for id in ("root", "k1", "g")] == [
        Status.RUNNING,
        Status.INTERRUPTING,
        Status.INTERRUPTING,
    ]
