"""Limits of the turns of durable chats: they hold after a crash, and a turn resumes after one."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from holdfast import Agent, Limits, approve, tool
from holdfast.chat.errors import NothingToResume
from holdfast.chat.rows import ChatRow
from holdfast.chat.transitions import user
from holdfast.events import LimitReached
from holdfast.store.database import Database
from holdfast.testing import Clock, ScriptedModel, call, fail, usage
from holdfast.tools.subagents import subagents
from tests.worker.workers import Life, living, results_of

COSTLY: Any = [call("add", a=1, b=1), usage(input=80, output=20, cost=0.25)]
"""An answer of 100 tokens, for a quarter of a dollar."""


@tool(effect="pure")
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(effect="pure")
async def work(seconds: float) -> str:
    """Work for a while."""
    await anyio.sleep(seconds)
    return "done"


def endless(script: Any = ()) -> ScriptedModel:
    return ScriptedModel(script, default=COSTLY)


async def limit_of(life: Life, chat_id: str) -> LimitReached:
    chat = await life.rest(chat_id)
    assert chat.outcome is not None
    assert (chat.status, chat.outcome.reason) == ("idle", "limit")
    assert chat.outcome.limit is not None
    return chat.outcome.limit


async def steps_of(life: Life, chat_id: str) -> int:
    return sum(message.kind == "answer" for message in await life.history(chat_id))


@pytest.mark.parametrize(
    ("limits", "steps", "reached"),
    [
        (Limits(steps=2), 2, LimitReached("steps", "turn", 2, 2)),
        (Limits(tokens=250), 3, LimitReached("tokens", "turn", 300, 250)),
        (Limits(cost=0.5), 2, LimitReached("cost", "turn", 0.5, 0.5)),
    ],
    ids=["steps", "tokens", "cost"],
)
async def test_a_turn_ends_at_its_limit_and_resumes_with_all_of_it_again(
    db: Database, clock: Clock, limits: Limits, steps: int, reached: LimitReached
) -> None:
    async with living(db, endless(), [add], clock=clock, limits=limits) as life:
        chat_id = await life.begin()
        assert await limit_of(life, chat_id) == reached
        assert await steps_of(life, chat_id) == steps
        assert (await life.history(chat_id))[-1].text == reached.sentence
        resumed = await life.do(user.resume, chat_id)
        assert (resumed.status, resumed.outcome) == ("running", None)
        assert await limit_of(life, chat_id) == reached
        assert await steps_of(life, chat_id) == 2 * steps
        prompts = [one for one in await life.history(chat_id) if one.kind == "prompt"]
        assert len(prompts) == 1


async def test_seconds_of_work_count_and_the_wait_for_a_person_does_not(
    db: Database, clock: Clock
) -> None:
    @tool(approval="ask")
    async def pay() -> str:
        """Pay."""
        await anyio.sleep(4)
        return "paid"

    script = [call("work", seconds=3), call("pay"), call("work", seconds=5)]
    async with living(db, script, [work, pay], clock=clock, limits=Limits(seconds=10)) as life:
        chat_id = await life.begin()
        waiting = await life.until(chat_id, lambda chat: chat.status == "requires_action")
        await anyio.sleep(3_600)
        await life.do(user.resolve, waiting.id, await answers(life, waiting))
        assert await limit_of(life, chat_id) == LimitReached("seconds", "turn", 12, 10)


async def answers(life: Life, chat: ChatRow) -> Any:
    asked = [row.asked for row in await life.actions(chat.id) if row.asked is not None]
    return {action.call.id: approve(action) for action in asked}


async def test_a_crash_does_not_reset_what_a_turn_has_used(db: Database, clock: Clock) -> None:
    limits = Limits(tokens=350)
    slow: Any = [call("work", seconds=100), usage(input=100)]
    model = endless([COSTLY, COSTLY, slow])
    async with living(db, model, [add, work], clock=clock, limits=limits) as life:
        chat_id = await life.begin()
        await life.until(chat_id, lambda chat: chat.messages == 6)
        await anyio.sleep(1)
        await life.die()
    async with living(db, endless(), [add, work], clock=clock, seed=1, limits=limits) as life:
        assert await limit_of(life, chat_id) == LimitReached("tokens", "turn", 400, 350)
        assert await steps_of(life, chat_id) == 4


async def test_a_crash_after_resuming_neither_loses_nor_repeats_the_new_allowance(
    db: Database, clock: Clock
) -> None:
    limits = Limits(steps=3)
    slow = call("work", seconds=100)
    script = [COSTLY, COSTLY, COSTLY, COSTLY, slow]
    async with living(db, endless(script), [add, work], clock=clock, limits=limits) as life:
        chat_id = await life.begin()
        await limit_of(life, chat_id)
        await life.do(user.resume, chat_id)
        await life.until(chat_id, lambda chat: chat.messages == 11)
        await anyio.sleep(1)
        await life.die()
    async with living(db, endless(), [add, work], clock=clock, seed=1, limits=limits) as life:
        assert await limit_of(life, chat_id) == LimitReached("steps", "turn", 3, 3)
        assert await steps_of(life, chat_id) == 6


async def test_a_message_after_a_limit_starts_a_turn_with_all_of_it_again(
    db: Database, clock: Clock
) -> None:
    async with living(db, endless(), [add], clock=clock, limits=Limits(steps=2)) as life:
        chat_id = await life.begin()
        await limit_of(life, chat_id)
        await life.send(chat_id, "Go on.")
        await limit_of(life, chat_id)
        assert await steps_of(life, chat_id) == 4


async def test_only_a_turn_that_ended_at_a_limit_can_be_resumed(db: Database, clock: Clock) -> None:
    async with living(db, ["Done."], clock=clock, limits=Limits(steps=1)) as life:
        chat_id = await life.begin()
        await life.rest(chat_id)
        with pytest.raises(NothingToResume, match="did not end at a limit"):
            await life.do(user.resume, chat_id)


async def test_after_a_limit_no_child_chat_is_spawned(db: Database, clock: Clock) -> None:
    inner = Agent(name="inner", model=ScriptedModel(["Yes."]))
    spawning: Any = [
        call("inner", prompt="?"),
        call("spawn_agent", prompt="?"),
        call("add", a=1, b=1),
        usage(input=100),
    ]
    tools = [inner.as_tool(), *subagents([inner]), add]
    async with living(db, [spawning], tools, clock=clock, limits=Limits(tokens=100)) as life:
        chat_id = await life.begin()
        await limit_of(life, chat_id)
        found = {one.tool: one for one in results_of(await life.history(chat_id))}
        assert {name: one.outcome for name, one in found.items()} == {
            "inner": "refused",
            "spawn_agent": "refused",
            "add": "ok",
        }
        assert "used 100 of 100 tokens" in found["inner"].text


async def test_a_parent_reads_that_a_child_ended_at_its_limit(db: Database, clock: Clock) -> None:
    inner = Agent(name="inner", model=endless(), tools=[add], limits=Limits(steps=2))
    spawning = [call("inner", prompt="?"), call("spawn_agent", prompt="?")]
    tools = [inner.as_tool(), *subagents([inner])]

    def waits(request: Any) -> Any:
        (spawned,) = [
            one for m in request.messages for one in m.results if one.tool == "spawn_agent"
        ]
        return call("wait_agents", agents=[json.loads(spawned.text)["agent"]])

    async with living(db, [spawning, waits, "Done."], tools, clock=clock) as life:
        chat_id = await life.begin()
        await life.rest(chat_id)
        found = {one.tool: one for one in results_of(await life.history(chat_id))}
        event = "Stopped: this turn used 2 of 2 steps."
        assert (found["inner"].outcome, event in found["inner"].text) == ("failed", True)
        assert event in found["wait_agents"].text


async def test_the_cost_of_an_answer_without_a_price_counts_as_none(
    db: Database, clock: Clock
) -> None:
    free: Any = [call("add", a=1, b=1), usage(input=1_000)]
    script = [free, fail(kind="overloaded"), COSTLY, "Done."]
    async with living(db, script, [add], clock=clock, limits=Limits(cost=0.3)) as life:
        chat_id = await life.begin()
        chat = await life.rest(chat_id)
        assert chat.outcome is not None
        assert chat.outcome.reason == "stop"
