"""Budgets: no model is called once one is used up, and nothing else is lost."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import anyio
import pytest

from holdfast.chat.budgets import BudgetCheck, Budgets, set_budget
from holdfast.chat.rows import ChatRow
from holdfast.chat.transitions import lifecycle, user
from holdfast.kernel.decide import Recorded
from holdfast.kernel.limits import Limits
from holdfast.kernel.messages import Text, ToolResult, Usage
from holdfast.kernel.model import Request
from holdfast.store.database import Database, Tx
from holdfast.testing import Clock, ScriptedModel, call, pause, say, usage
from holdfast.tools.subagents import subagents
from tests.databases import OpenDatabase
from tests.worker.test_takeover import BOTH_AT_ONCE
from tests.worker.workers import Life, asks, living, results_of

HUNDRED: Final = [say("Yes."), usage(input=100)]
"""An answer of a hundred tokens."""
DAY: Final = 24 * 3600


def budget(scope: str, tokens: int) -> Budgets:
    return Budgets(**{scope: Limits(tokens=tokens)})


def sentence(chat: ChatRow) -> str:
    assert chat.error is not None
    assert (chat.status, chat.error.kind, chat.error.retryable) == ("error", "budget", False)
    return chat.error.message


async def again(life: Life, chat_id: str, text: str = "and?") -> ChatRow:
    """Send another message, and wait for the end of its turn."""
    await life.send(chat_id, text)
    return await life.rest(chat_id)


@pytest.mark.parametrize("scope", ["chat", "user", "day"])
async def test_a_budget_that_is_used_up_stops_the_next_call(
    db: Database, clock: Clock, scope: str
) -> None:
    model = ScriptedModel([HUNDRED] * 9)
    async with living(db, model, clock=clock, budgets=budget(scope, 150)) as life:
        chat_id = await life.begin()
        assert (await life.rest(chat_id)).error is None
        assert (await again(life, chat_id)).error is None
        stopped = await again(life, chat_id)
        assert "used 200 of 150 tokens" in sentence(stopped)
        assert len(model.requests) == 2
        assert (await life.lines(chat_id))[-1] == "prompt: and?"


async def test_a_turn_stops_between_a_result_and_the_next_call(db: Database, clock: Clock) -> None:
    model = ScriptedModel([[call("asks"), usage(input=100)], HUNDRED])
    async with living(db, model, [asks], clock=clock, budgets=budget("chat", 100)) as life:
        chat_id = await life.begin()
        await life.until(chat_id, lambda chat: chat.status == "requires_action")
        (action,) = await life.actions(chat_id)
        answer = Recorded(ToolResult(action.call_id, "asks", (Text("42"),)))
        await life.do(user.resolve, chat_id, {action.call_id: answer})
        assert "used 100 of 100 tokens" in sentence(await life.rest(chat_id))
        await life.do(set_budget, "chat", chat_id, Limits(tokens=101))
        await life.do(user.retry, chat_id)
        assert (await life.rest(chat_id)).status == "idle"
        assert (await life.lines(chat_id))[-2:] == ["results: ok 42", "answer: Yes."]


async def test_the_queue_stays_until_the_budget_is_raised(db: Database, clock: Clock) -> None:
    model = ScriptedModel([[pause(5), *HUNDRED], HUNDRED, HUNDRED])
    async with living(db, model, clock=clock, budgets=budget("user", 100)) as life:
        chat_id = await life.begin("one")
        await anyio.sleep(1)
        for text in ("two", "three"):
            await life.send(chat_id, text)
        sentence(await life.rest(chat_id))
        assert [one.message.text for one in await life.queue(chat_id)] == ["three"]
        await life.do(set_budget, "user", "", Budgets(user=Limits(tokens=1_000)))
        await life.do(user.retry, chat_id)
        assert (await life.rest(chat_id)).status == "idle"
        assert await life.lines(chat_id) == [
            *("prompt: one", "answer: Yes."),
            *("prompt: two", "answer: Yes.", "prompt: three", "answer: Yes."),
        ]


async def test_each_attempt_is_checked_and_failed_ones_count(db: Database, clock: Clock) -> None:
    model = ScriptedModel([[usage(input=100)], HUNDRED])  # the first answer is empty
    async with living(db, model, clock=clock, budgets=budget("day", 100)) as life:
        chat_id = await life.begin()
        assert "used 100 of 100 tokens" in sentence(await life.rest(chat_id))
        assert len(model.requests) == 1


async def test_a_summary_is_not_written_without_budget(db: Database, clock: Clock) -> None:
    model = ScriptedModel([HUNDRED, HUNDRED])
    async with living(db, model, clock=clock, budgets=budget("chat", 100)) as life:
        chat_id = await life.begin()
        await life.rest(chat_id)
        await life.do(user.compact, chat_id)
        sentence(await life.rest(chat_id))
        assert len(model.requests) == 1


async def test_another_user_has_a_budget_of_their_own(db: Database, clock: Clock) -> None:
    model = ScriptedModel([HUNDRED] * 9)
    async with living(db, model, clock=clock, budgets=budget("day", 100)) as life:
        mine = await life.begin(owner="ann")
        await life.rest(mine)
        sentence(await again(life, mine))
        theirs = await life.begin(owner="bob")
        assert (await life.rest(theirs)).error is None
        sentence(await life.rest(await life.begin(owner="ann")))


async def test_a_budget_of_the_day_begins_anew_at_midnight_in_utc(
    db: Database, clock: Clock
) -> None:
    model = ScriptedModel([HUNDRED] * 9)
    async with living(db, model, clock=clock, budgets=budget("day", 100)) as life:
        chat_id = await life.begin()
        await life.rest(chat_id)
        sentence(await again(life, chat_id))
        clock.advance(DAY - clock.now() // 1_000_000 % DAY)
        await life.do(user.retry, chat_id)
        assert (await life.rest(chat_id)).status == "idle"
        sentence(await again(life, chat_id))


@pytest.mark.parametrize("seconds_of_day", [30, 3600])
async def test_a_budget_of_a_user_counts_all_days(
    db: Database, clock: Clock, seconds_of_day: int
) -> None:
    """Usage of earlier days is read once a day, but not right after midnight."""
    model = ScriptedModel([HUNDRED] * 9)
    async with living(db, model, clock=clock, budgets=budget("user", 450)) as life:
        chats = [await life.begin() for _ in range(2)]
        for chat_id in chats:
            await life.rest(chat_id)
        clock.advance(2 * DAY - clock.now() // 1_000_000 % DAY + seconds_of_day)
        for chat_id in (*chats, chats[0]):
            assert (await again(life, chat_id)).error is None
        assert "used 500 of 450" in sentence(await again(life, chats[1]))


async def test_a_deletion_gives_nothing_back(db: Database, clock: Clock) -> None:
    model = ScriptedModel([HUNDRED] * 9)
    budgets = Budgets(user=Limits(tokens=200), day=Limits(tokens=200))
    async with living(db, model, clock=clock, budgets=budgets) as life:
        for _ in range(2):
            chat_id = await life.begin()
            await life.rest(chat_id)
            await life.do(lifecycle.delete, chat_id)
        sentence(await life.rest(await life.begin()))


async def test_steps_cost_and_seconds_are_limits_too(db: Database, clock: Clock) -> None:
    limits = {
        "steps": (Limits(steps=1), "1 of 1 steps"),
        "cost": (Limits(cost=0.5), "$0.50 of $0.50"),
        "seconds": (Limits(seconds=7.5), "8 of 7.5 seconds"),
    }
    script = [[pause(8), say("Yes."), Usage(input=1, cost=0.5)]] * 9
    async with living(db, ScriptedModel(script), clock=clock) as life:
        for limit, words in limits.values():
            chat_id = await life.begin()
            await life.rest(chat_id)
            await life.do(set_budget, "chat", chat_id, limit)
            life.budgets.note(Budgets(chat=limit))
            assert words in sentence(await again(life, chat_id))


async def test_a_budget_that_was_set_elsewhere_is_found_with_the_next_poll(
    db: Database, clock: Clock
) -> None:
    model = ScriptedModel([HUNDRED] * 9)
    async with living(db, model, clock=clock) as life:
        chat_id = await life.begin()
        await life.rest(chat_id)
        await life.do(set_budget, "user", "", Budgets(day=Limits(tokens=100)))
        await anyio.sleep(6)
        sentence(await again(life, chat_id))
        await life.do(set_budget, "user", "", None)
        await life.do(user.retry, chat_id)
        assert (await life.rest(chat_id)).error is None


async def test_without_a_budget_nothing_is_read_before_a_call(db: Database, clock: Clock) -> None:
    async with living(db, ScriptedModel([HUNDRED]), clock=clock) as life:
        assert not life.budgets.applies
        await life.rest(await life.begin())


async def test_a_budget_of_one_user_may_lift_the_configured_one(db: Database, clock: Clock) -> None:
    model = ScriptedModel([HUNDRED] * 9)
    async with living(db, model, clock=clock, budgets=budget("day", 100)) as life:
        await life.do(set_budget, "user", "ann", Budgets(day=Limits()))
        chat_id = await life.begin(owner="ann")
        await life.rest(chat_id)
        assert (await again(life, chat_id)).error is None


# --- children ---


def family(request: Request) -> Any:
    """A parent that spawns a child and waits for it; each answer is of a hundred tokens."""
    if request.messages[0].text == "below":
        return [say("Done below."), usage(input=100)]
    if any(result.tool == "spawn_agent" for m in request.messages for result in m.results):
        return [say("Both are done."), usage(input=100)]
    return [call("spawn_agent", prompt="below"), usage(input=100)]


async def test_children_share_the_budget_of_their_parent(db: Database, clock: Clock) -> None:
    model = ScriptedModel([family] * 9)
    async with living(
        db, model, subagents(["agent"]), clock=clock, budgets=budget("chat", 300)
    ) as life:
        chat_id = await life.begin("above")
        assert (await life.rest(chat_id)).error is None
        await anyio.sleep(10)  # until the child has ended, too
        assert len(model.requests) == 3
        assert "used 300 of 300 tokens" in sentence(await again(life, chat_id))


async def test_no_child_is_spawned_without_budget(db: Database, clock: Clock) -> None:
    model = ScriptedModel([family] * 9)
    async with living(
        db, model, subagents(["agent"]), clock=clock, budgets=budget("chat", 100)
    ) as life:
        chat_id = await life.begin("above")
        sentence(await life.rest(chat_id))
        (refused,) = results_of(await life.history(chat_id))
        assert refused.outcome == "refused"
        assert "used 100 of 100 tokens" in refused.text
        assert len(model.requests) == 1


# --- several workers ---


@BOTH_AT_ONCE
async def test_chats_of_one_user_on_two_workers_exceed_a_budget_by_one_call_each(
    db: Database, open_db: OpenDatabase, clock: Clock
) -> None:
    chats, budgets = 6, budget("user", 1_000)
    models = [ScriptedModel([], default=[pause(1), *HUNDRED]) for _ in range(2)]
    async with (
        open_db() as other_db,
        living(db, models[0], clock=clock, budgets=budgets) as one,
        living(other_db, models[1], clock=clock, budgets=budgets, seed=1) as other,
    ):
        ids = [await one.begin() for _ in range(chats)]
        for _ in range(10):
            for chat_id in ids:
                await one.rest(chat_id)
                await one.send(chat_id, "and?")
        for chat_id in ids:
            sentence(await other.rest(chat_id))
        calls = sum(len(model.requests) for model in models)
        assert 10 <= calls <= 10 + chats


async def test_a_budget_that_is_set_while_budgets_are_read_applies_at_once(db: Database) -> None:
    check = BudgetCheck()

    async def read(tx: Tx) -> None:
        class SetMeanwhile:
            async def one(self, *query: Any) -> Any:
                row = await tx.one(*query)
                check.note(Budgets(day=Limits(cost=1.0)))
                return row

        await check.refresh(SetMeanwhile())  # type: ignore[arg-type]

    await db.read(read)
    assert (check.applies, check.limits_cost) == (True, "day")
    await db.read(check.refresh)
    assert not check.applies


@pytest.mark.parametrize("nothing", [None, Budgets()])
async def test_budgets_that_are_set_back_are_not_read_any_more(
    db: Database, nothing: Budgets | None
) -> None:
    check = BudgetCheck()
    for budgets, applies in ((budget("day", 5), True), (nothing, False)):
        await db.write(partial(set_budget, scope="user", id="ann", limits=budgets))
        await db.read(check.refresh)
        assert check.applies is applies
