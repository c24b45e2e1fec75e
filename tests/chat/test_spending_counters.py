"""What a chat has spent is counted in its row. The doctor compares it with messages and charges."""

from __future__ import annotations

from typing import Any, Final

import anyio
from msgspec import structs

from holdfast.chat import doctor
from holdfast.chat.doctor import Finding
from holdfast.chat.rows import Charge, fence_of
from holdfast.chat.spending_counters import SPENDING_COLUMNS
from holdfast.chat.transitions import lifecycle, runner, user
from holdfast.chat.transitions.commit_step import COMMIT_STEP, StepCommit
from holdfast.chat.transitions.lifecycle import NewChat
from holdfast.chat.transitions.runner import Outcome
from holdfast.kernel.messages import Text, ToolResult, Usage, results_message
from holdfast.store.migrate import migrations
from tests.chat.chats import FAILURE, Chats, answer, asks, leftover, prompt

USED: Final = Usage(100, 20, 5, 50, 7, 0.5)
"""177 tokens for half a dollar."""
DAY: Final = 24 * 3600


async def counters(chats: Chats, table: str = "chats", id: str = "c1") -> dict[str, Any]:
    """The counters of a chat that are not zero."""
    key = "id" if table == "chats" else "chat_id"
    columns = ", ".join(SPENDING_COLUMNS)
    row = await chats.db.read(
        lambda tx: tx.one(f"SELECT {columns} FROM {table} WHERE {key} = :id", {"id": id})
    )
    assert row is not None
    values = dict(zip(SPENDING_COLUMNS, row, strict=True))
    return {name: value for name, value in values.items() if value and name != "spent_day"}


async def findings(chats: Chats) -> list[Finding]:
    return [finding async for finding in doctor.examine(chats.db)]


def twice(**amounts: float) -> dict[str, float]:
    """Amounts that are all of today."""
    return {f"{prefix}_{name}": n for prefix in ("spent", "day") for name, n in amounts.items()}


async def test_a_step_counts_its_answer(chats: Chats) -> None:
    await chats.running()
    await chats.commit("c1", answer("hm", asks("a"), usage=USED, runtime=250))
    assert await counters(chats) == twice(steps=1, tokens=177, cost=0.5, time=250_000)


async def test_a_step_with_results_counts_their_time_and_parallel_calls_once(chats: Chats) -> None:
    await chats.running()
    await chats.commit("c1", answer("hm", asks("a"), asks("b"), asks("c")))
    spans = {"a": (1_000, 5_000), "b": (2_000, 9_000), "c": (20_000, 21_000)}
    results = [ToolResult(id, "work", (Text("ok"),), started_at=s, finished_at=f)
               for id, (s, f) in spans.items()]  # fmt: skip
    await chats.commit("c1", results_message(results))
    assert await counters(chats) == twice(steps=1, time=9_000)


async def test_a_call_that_began_before_the_one_ahead_of_it_is_counted(chats: Chats) -> None:
    """As one that ran while the other waited for an approval."""
    await chats.running()
    await chats.commit("c1", answer("hm", asks("a"), asks("b")))
    spans = {"a": (20_000, 21_000), "b": (1_000, 5_000)}
    results = [ToolResult(id, "work", (Text("ok"),), started_at=s, finished_at=f)
               for id, (s, f) in spans.items()]  # fmt: skip
    await chats.commit("c1", results_message(results))
    assert await counters(chats) == twice(steps=1, time=5_000)


async def test_steps_that_share_a_commit_are_counted_each_for_its_chat(chats: Chats) -> None:
    ids = [f"c{number}" for number in range(1, 6)]
    fences = {id: fence_of(await chats.running(id)) for id in ids}

    async def commit(number: int, id: str) -> None:
        said = answer("yes", usage=Usage(input=number, cost=number / 4))
        await chats.db.write_together(COMMIT_STEP, StepCommit(fences[id], (said,)))

    async with anyio.create_task_group() as group:
        for number, id in enumerate(ids, start=1):
            group.start_soon(commit, number, id)
    for number, id in enumerate(ids, start=1):
        expected = twice(steps=1, tokens=number, cost=number / 4)
        assert await counters(chats, id=id) == expected


async def test_a_step_that_was_lost_counts_nothing(chats: Chats) -> None:
    chat = await chats.running()
    stale = structs.replace(fence_of(chat), attempt=9)
    await chats.db.write_together(COMMIT_STEP, StepCommit(stale, (answer("lost", usage=USED),)))
    assert await counters(chats) == {}


async def test_calls_without_a_price_are_counted(chats: Chats) -> None:
    await chats.running()
    await chats.commit("c1", answer("so", usage=structs.replace(USED, cost=None)))
    assert await counters(chats) == {**twice(steps=1, tokens=177), "spent_unpriced": 1}


async def test_a_charge_counts_once_and_is_not_a_step(chats: Chats) -> None:
    chat = await chats.running()
    charge = Charge("attempt 1 of message 2", "attempt", USED)
    first = await chats.do(runner.record_retry, fence_of(chat), FAILURE, 3, 0, [charge])
    await chats.do(runner.record_retry, first.fence, FAILURE, 3, 0, [charge])
    assert await counters(chats) == twice(tokens=177, cost=0.5)


async def test_charges_and_answers_of_one_transaction_are_all_counted(chats: Chats) -> None:
    chat = await chats.running()
    charges = (Charge("title", "title", USED), Charge("summary", "summary", USED))
    outcome = Outcome(messages=(answer("so", usage=USED, runtime=1),), charges=charges)
    await chats.do(runner.finish_turn, fence_of(chat), None, outcome)
    assert await counters(chats) == twice(steps=1, tokens=3 * 177, cost=1.5, time=1_000)


async def test_a_title_is_counted_though_the_turn_is_over(chats: Chats) -> None:
    await chats.idle()
    charge = Charge("title 1", "title", USED)
    await chats.do(user.set_generated_title, "c1", "Greetings", [charge])
    assert await counters(chats) == twice(steps=1, tokens=177, cost=0.5)


async def test_an_interrupted_answer_is_counted(chats: Chats) -> None:
    chat = await chats.interrupting()
    left = leftover(answer=answer("half", runtime=3), charges=(Charge("t1", "attempt", USED),))
    await chats.do(runner.settle, fence_of(chat), left)
    assert await counters(chats) == twice(steps=1, tokens=177, cost=0.5, time=3_000)


async def test_what_people_see_of_a_failed_answer_costs_but_is_not_a_step(chats: Chats) -> None:
    chat = await chats.running()
    shown = structs.replace(answer("fai", usage=USED), visibility="user")
    await chats.do(runner.fail, fence_of(chat), FAILURE, shown)
    assert await counters(chats) == twice(tokens=177, cost=0.5)


async def test_a_new_day_begins_at_midnight_in_utc(chats: Chats) -> None:
    await chats.running()
    await chats.commit("c1", answer("one", usage=USED))
    now = chats.clock.now() // 1_000_000
    chats.clock.advance(DAY - now % DAY - 1)
    await chats.commit("c1", answer("two", usage=USED))
    assert await counters(chats) == twice(steps=2, tokens=354, cost=1.0)
    chats.clock.advance(1)
    await chats.commit("c1", answer("three", usage=USED))
    assert await counters(chats) == {
        "spent_steps": 3,
        "spent_tokens": 531,
        "spent_cost": 1.5,
        "day_steps": 1,
        "day_tokens": 177,
        "day_cost": 0.5,
    }
    chats.clock.advance(DAY)
    charge = Charge("title 1", "title", USED)
    await chats.do(user.set_generated_title, "c1", None, [charge])
    assert await counters(chats) == {
        "spent_steps": 3,
        "spent_tokens": 708,
        "spent_cost": 2.0,
        "day_tokens": 177,
        "day_cost": 0.5,
    }


async def test_a_clock_that_is_set_back_begins_no_new_day(chats: Chats) -> None:
    await chats.running()
    await chats.commit("c1", answer("one", usage=USED))
    chats.clock.advance(-DAY)
    await chats.commit("c1", answer("two", usage=USED))
    assert await counters(chats) == twice(steps=2, tokens=354, cost=1.0)


async def test_an_edit_refunds_nothing(chats: Chats) -> None:
    await chats.running()
    await chats.commit("c1", answer("one", usage=USED))
    await chats.do(user.edit, "c1", 1, prompt("else"))
    assert await counters(chats) == twice(steps=1, tokens=177, cost=0.5)


async def test_a_fork_has_spent_nothing(chats: Chats) -> None:
    await chats.running()
    await chats.commit("c1", answer("one", usage=USED, runtime=5))
    await chats.do(lifecycle.fork, "c1", 2, NewChat(id="f", agent="agent", message=None))
    assert await counters(chats, id="f") == {}


async def test_a_deleted_chat_leaves_what_it_has_spent(chats: Chats) -> None:
    await chats.running()
    await chats.commit("c1", answer("one", usage=USED))
    spent = await counters(chats)
    await chats.finish()
    await chats.do(lifecycle.delete, "c1")
    assert (
        await counters(chats, "deleted_spending") == spent == twice(steps=1, tokens=177, cost=0.5)
    )


async def test_chats_of_an_earlier_version_are_counted_by_the_migration(chats: Chats) -> None:
    await chats.idle("other")
    await chats.running()
    await chats.commit("c1", answer("one", usage=USED, runtime=250))
    chats.clock.advance(DAY)
    await chats.commit("c1", answer("two", usage=structs.replace(USED, cost=None)))
    charge = Charge("title 1", "title", USED)
    await chats.do(user.set_generated_title, "c1", "Numbers", [charge])
    before = await counters(chats)
    unset = ", ".join(f"{name} = 0" for name in SPENDING_COLUMNS)
    await chats.db.write(lambda tx: tx.execute(f"UPDATE chats SET {unset}"))
    assert len(await findings(chats)) > 3

    sql = migrations(chats.db.dialect)[8].sql
    since_ever, of_day, _ = sql[sql.index("UPDATE chats") :].split(";")
    await chats.db.write(lambda tx: tx.execute(since_ever))
    await chats.db.write(lambda tx: tx.execute(of_day))
    assert await counters(chats) == before
    assert before["spent_unpriced"] == 1


async def test_the_doctor_finds_a_counter_that_is_wrong(chats: Chats) -> None:
    await chats.idle()
    await chats.db.write(lambda tx: tx.execute("UPDATE chats SET spent_tokens = 7, day_steps = 0"))
    assert [str(finding) for finding in await findings(chats)] == [
        "invariant 20: chat c1, spent_tokens: it is 7, and the sum is 0",
        "invariant 20: chat c1, day_steps: it is 0, and the sum is 1",
    ]
    await chats.db.write(lambda tx: tx.execute("UPDATE chats SET spent_tokens = 0, day_steps = 1"))
