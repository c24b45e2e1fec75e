"""What tool calls of durable chats use: it counts for the limits of the turn, and for budgets."""

from __future__ import annotations

from typing import Any

import anyio

from holdfast import Agent, Limits, ToolContext, tool
from holdfast.chat.budgets import Budgets
from holdfast.chat.queries import spent
from holdfast.chat.transitions import user
from holdfast.events import LimitReached
from holdfast.messages import Usage
from holdfast.store.database import Database
from holdfast.testing import Clock, ScriptedModel, call, usage
from tests.worker.test_budgets import again, sentence
from tests.worker.test_limits import limit_of
from tests.worker.workers import living, results_of

HUNDRED: Any = [call("look"), usage(input=100)]


@tool(effect="pure")
async def look() -> str:
    """Look."""
    return "nothing"


INNER = Agent(name="inner", model=ScriptedModel(default=HUNDRED), tools=[look])


@tool
async def delegate(context: ToolContext) -> str:
    """Ask another agent, which never answers."""
    return (await INNER.run("?", within=context)).text


@tool(parallel=True)
async def embed(context: ToolContext) -> str:
    """Charge a hundred tokens."""
    context.charge(Usage(input=100))
    return "done"


async def test_what_calls_used_counts_for_the_limits_of_the_turn(
    db: Database, clock: Clock
) -> None:
    model = ScriptedModel([call("delegate"), "Never."])
    async with living(db, model, [delegate], clock=clock, limits=Limits(steps=5)) as life:
        chat_id = await life.begin()
        assert await limit_of(life, chat_id) == LimitReached("steps", "turn", 5, 5)
        assert len(model.requests) == 1
        history = await life.history(chat_id)
        assert [message.kind for message in history] == ["prompt", "answer", "results", "note"]
        assert (history[2].usage, history[2].results[0].steps) == (Usage(input=400), 4)


async def test_what_calls_used_counts_for_budgets(db: Database, clock: Clock) -> None:
    model = ScriptedModel([[call("embed"), usage(input=10)], ["Done.", usage(input=10)]])
    budgets = Budgets(chat=Limits(tokens=120))
    async with living(db, model, [embed], clock=clock, budgets=budgets) as life:
        chat_id = await life.begin()
        assert (await life.rest(chat_id)).error is None
        assert "used 120 of 120 tokens" in sentence(await again(life, chat_id))
        total = await db.read(lambda tx: spent(tx, chat_id))
        assert (total.usage, total.calls) == (Usage(input=120), 3)


async def test_answers_of_runs_within_calls_count_for_budgets(db: Database, clock: Clock) -> None:
    model = ScriptedModel([call("delegate"), "Done."])
    budgets, limits = Budgets(user=Limits(steps=4)), Limits(steps=4)
    async with living(db, model, [delegate], clock=clock, budgets=budgets, limits=limits) as life:
        chat_id = await life.begin()
        assert await limit_of(life, chat_id) == LimitReached("steps", "turn", 4, 4)
        assert "used 4 of 4 steps" in sentence(await again(life, chat_id))


async def test_a_call_that_is_run_again_after_a_crash_is_counted_once(
    db: Database, clock: Clock
) -> None:
    slow = [True]

    @tool(effect="pure")
    async def embed_slowly(context: ToolContext) -> str:
        """Charge a hundred tokens, and take long the first time."""
        context.charge(Usage(input=100))
        if slow.pop():
            await anyio.sleep(1_000)
        return "done"

    model = ScriptedModel([call("embed_slowly"), "Done.", "Yes."])
    async with living(db, model, [embed_slowly], clock=clock) as life:
        chat_id = await life.begin()
        await life.until(chat_id, lambda chat: chat.messages == 2)
        await anyio.sleep(1)
        await life.die()
    slow.append(False)
    async with living(db, model, [embed_slowly], clock=clock, seed=1) as life:
        await life.rest(chat_id)
        assert (results_of(await life.history(chat_id)))[0].text == "done"
        assert (await db.read(lambda tx: spent(tx, chat_id))).usage == Usage(input=100)


async def test_what_a_finished_call_used_survives_a_crash(db: Database, clock: Clock) -> None:
    both = [call("embed"), call("work", seconds=1_000)]

    @tool(parallel=True)
    async def work(seconds: float) -> str:
        """Work for a while."""
        await anyio.sleep(seconds)
        return "done"

    async with living(db, ScriptedModel([both]), [embed, work], clock=clock) as life:
        chat_id = await life.begin()
        await life.until(chat_id, lambda chat: chat.messages == 2)
        await anyio.sleep(1)
        await life.die()
    async with living(db, ScriptedModel(["Done."]), [embed, work], clock=clock, seed=1) as life:
        await life.rest(chat_id)
        outcomes = [result.outcome for result in results_of(await life.history(chat_id))]
        assert outcomes == ["ok", "lost"]
        assert (await db.read(lambda tx: spent(tx, chat_id))).usage == Usage(input=100)


async def test_what_an_interrupted_call_used_counts(db: Database, clock: Clock) -> None:
    @tool
    async def hangs(context: ToolContext) -> None:
        """Charge a hundred tokens, and hang."""
        context.charge(Usage(input=100))
        await anyio.sleep_forever()

    async with living(db, ScriptedModel([call("hangs")]), [hangs], clock=clock) as life:
        chat_id = await life.begin()
        await life.until(chat_id, lambda chat: chat.messages == 2)
        await anyio.sleep(1)
        await life.do(user.interrupt, chat_id)
        await life.rest(chat_id)
        assert (await db.read(lambda tx: spent(tx, chat_id))).usage == Usage(input=100)
