"""Usage and cost: each model call once, wherever its answer is now."""

from __future__ import annotations

import anyio
import pytest
from msgspec import structs

from holdfast.chat import queries
from holdfast.chat.queries import Spent
from holdfast.chat.rows import Charge, fence_of
from holdfast.chat.transitions import lifecycle, runner, user
from holdfast.chat.transitions.commit_step import COMMIT_STEP, StepCommit
from holdfast.chat.transitions.lifecycle import NewChat, Spawn
from holdfast.chat.transitions.runner import Outcome
from holdfast.kernel.messages import Usage
from tests.chat.chats import FAILURE, Chats, answer, asks, leftover, made, prompt, restore

USED = Usage(100, 20, 5, 50, 7, 0.5)
UNPRICED = structs.replace(USED, cost=None)


def times(count: int, priced: int | None = None) -> Spent:
    """What so many calls like `USED` come to; `priced`: how many of them have a price."""
    known = count if priced is None else priced
    total = Usage(
        100 * count, 20 * count, 5 * count, 50 * count, 7 * count, 0.5 * known if known else None
    )
    return Spent(total, count, count - known)


async def spent(chats: Chats, id: str = "c1", *, tree: bool = False) -> Spent:
    return await chats.ask(queries.spent, id, tree=tree)


async def test_a_chat_that_called_no_model_has_spent_nothing(chats: Chats) -> None:
    await chats.create("c1")
    assert await spent(chats) == Spent(Usage(), 0, 0) == times(0)


async def test_answers_attempts_that_failed_and_titles_are_all_counted(chats: Chats) -> None:
    chat = await chats.running("c1")
    failed = await chats.do(
        runner.record_retry, fence_of(chat), FAILURE, 3, 0, [Charge("t1", "attempt", USED)]
    )
    await chats.do(COMMIT_STEP.alone, StepCommit(failed.fence, (answer("yes", usage=USED),)))
    outcome = Outcome(charges=(Charge("title", "title", USED), Charge("s", "summary", USED)))
    await chats.do(runner.finish_turn, fence_of(await chats.row()), None, outcome)
    assert await spent(chats) == times(4)


async def test_calls_without_a_known_price_are_counted_as_such(chats: Chats) -> None:
    await chats.running("c1")
    await chats.commit("c1", answer("one", usage=USED))
    await chats.commit("c1", answer("two", usage=UNPRICED))
    await chats.commit("c1", answer("three", usage=None))
    assert await spent(chats) == times(2, priced=1)
    await chats.running("c2")
    await chats.commit("c2", answer("two", usage=UNPRICED))
    assert await spent(chats, "c2") == times(1, priced=0)


async def test_a_charge_is_counted_once_however_often_it_is_made(chats: Chats) -> None:
    chat = await chats.running("c1")
    charge = Charge("attempt 1 of message 2", "attempt", USED)
    first = await chats.do(runner.record_retry, fence_of(chat), FAILURE, 3, 0, [charge])
    await chats.do(runner.record_retry, first.fence, FAILURE, 3, 0, [charge])
    assert await spent(chats) == times(1)


async def test_a_step_that_was_lost_is_not_counted(chats: Chats) -> None:
    chat = await chats.running("c1")
    stale = structs.replace(fence_of(chat), attempt=9)
    await chats.db.write_together(COMMIT_STEP, StepCommit(stale, (answer("lost", usage=USED),)))
    assert await spent(chats) == times(0)


async def test_what_is_committed_at_once_is_counted_to_the_last_digit(chats: Chats) -> None:
    used = {
        "c1": Usage(2**53, 0, 3, 4, 5, 1 / 3),
        'c2 "{,}" \\': Usage(1, 2, cost=1e-7),
        "c3": UNPRICED,
        "c4": None,
    }
    fences = {id: fence_of(await chats.running(id)) for id in used}

    async def commit(id: str) -> None:
        said = answer('"{,}\\"', usage=used[id], runtime=7)
        await chats.db.write_together(COMMIT_STEP, StepCommit(fences[id], (said,)))

    async with anyio.create_task_group() as group:
        for id in used:
            group.start_soon(commit, id)
    for id, usage in used.items():
        assert (await spent(chats, id)).usage == (usage or Usage())
        assert (await chats.history(id))[-1].message.text == '"{,}\\"'
    took = "SELECT runtime FROM messages WHERE kind = 'answer'"
    rows = await chats.db.read(lambda tx: tx.fetch(took))
    assert [tuple(row) for row in rows] == [(7,)] * len(used)


async def test_what_was_superseded_was_paid_for_all_the_same(chats: Chats) -> None:
    await chats.running("c1")
    await chats.commit("c1", answer("one", usage=USED))
    await chats.do(user.edit, "c1", 1, prompt("else"))
    await chats.commit("c1", answer("two", usage=USED))
    assert await spent(chats) == times(2)


async def test_a_fork_does_not_pay_for_what_it_copied(chats: Chats) -> None:
    await chats.running("c1")
    await chats.commit("c1", answer("one", usage=USED))
    await chats.do(lifecycle.fork, "c1", 2, NewChat(id="f", agent="agent", message=None))
    await chats.send("f", "go on")
    assert "f" in await chats.claim()
    assert (await spent(chats, "f"), await spent(chats, "c1")) == (times(0), times(1))
    assert (await chats.history("f"))[1].message.usage == USED  # what a model was sent stays known
    await chats.commit("f", answer("two", usage=USED))
    assert (await spent(chats, "f"), await spent(chats, "c1")) == (times(1), times(1))


async def test_a_chat_that_is_imported_does_not_pay_for_what_was_said_elsewhere(
    chats: Chats,
) -> None:
    await chats.running("c1")
    await chats.commit("c1", answer("one", usage=USED))
    said = await chats.history("c1")
    await chats.do(restore, NewChat(id="i", agent="agent", message=None), said)
    assert (await spent(chats, "i"), await spent(chats, "c1")) == (times(0), times(1))
    assert (await chats.history("i"))[1].message.usage == USED
    await chats.send("i", "go on")
    assert "i" in await chats.claim()
    await chats.commit("i", answer("two", usage=USED))
    assert await spent(chats, "i") == times(1)


@pytest.mark.parametrize("way", ["whole", "charged"])
async def test_an_interrupted_answer_is_counted_once(chats: Chats, way: str) -> None:
    chat = await chats.interrupting("c1")
    left = (
        leftover(answer=answer("whole", usage=USED))
        if way == "whole"
        else leftover(answer=answer("half"), charges=(Charge("t1", "attempt", USED),))
    )
    await chats.do(runner.settle, fence_of(chat), left)
    assert await spent(chats) == times(1)


async def test_an_attempt_that_ends_in_error_is_counted(chats: Chats) -> None:
    chat = await chats.running("c1")
    await chats.do(runner.fail, fence_of(chat), FAILURE, None, [Charge("t1", "attempt", USED)])
    assert await spent(chats) == times(1)


async def test_a_root_pays_for_its_whole_family_without_being_written_to(chats: Chats) -> None:
    await chats.running("root")
    await chats.commit("root", answer("help", asks("s"), usage=USED))
    writes = {"s": (Spawn(NewChat(id="k", agent="agent", message=prompt("do"))),)}
    outcome = Outcome(results=(made("s"),), writes=writes)
    await chats.do(runner.commit_step, fence_of(await chats.row("root")), outcome)
    root = await chats.row("root")
    assert await chats.claim("child") == ["k"]
    await chats.commit("k", answer("did", usage=USED))
    await chats.finish("k")
    await chats.running("stranger")
    await chats.commit("stranger", answer("else", usage=USED))
    assert await spent(chats, "root") == times(1)
    assert await spent(chats, "root", tree=True) == times(2)
    assert await chats.row("root") == root


async def test_the_tree_of_a_chat_in_the_middle_is_what_is_below_it(chats: Chats) -> None:
    await chats.running("c1")
    await chats.child("c1", "c2")
    await chats.claim("child")
    await chats.commit("c2", answer("I need help too", asks("spawn"), usage=USED))
    await chats.child("c2", "c3")
    await chats.claim("child")
    await chats.commit("c3", answer("done", usage=USED))
    assert await spent(chats, "c3", tree=True) == times(1)
    assert await spent(chats, "c2", tree=True) == times(2)
    assert await spent(chats, "c1", tree=True) == times(2)
