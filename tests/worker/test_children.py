"""Chats that an agent sets to work: made once, awaited without holding a process."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest

from holdfast.chat import queries
from holdfast.chat.transitions import user
from holdfast.kernel.messages import ToolResult
from holdfast.kernel.model import Request
from holdfast.store.database import Database
from holdfast.testing import Clock, ScriptItem, call, call_raw, pause, say, usage
from holdfast.tools.subagents import subagents
from tests.worker.workers import Life, living, results_of


def child_in(request: Request) -> list[str]:
    """The ids that spawn_agent gave in this conversation."""
    made = [r for m in request.messages for r in m.results if r.tool == "spawn_agent"]
    return [json.loads(result.text)["agent"] for result in made]


def as_parent(*turns: Any, child: Any = "Done below.") -> Any:
    """A model for both: the parent plays its turns, a child says the same each time."""
    left = list(turns)

    def answer(request: Request) -> Any:
        if request.messages[0].text == "below":
            return child(request) if callable(child) else child
        turn = left.pop(0)
        return turn(request) if callable(turn) else turn

    return [answer] * 50


def wait_for_all(request: Request) -> ScriptItem:
    return call("wait_agents", agents=child_in(request))


async def children_of(life: Life, chat_id: str) -> list[str]:
    found = await life.db.read(lambda tx: queries.list_chats(tx, parent=chat_id))
    return [chat.id for chat in found]


async def test_a_parent_reads_what_came_of_its_children(db: Database, clock: Clock) -> None:
    script = as_parent(
        [call("spawn_agent", prompt="below"), call("spawn_agent", prompt="below", title="B")],
        wait_for_all,
        "Both are done.",
        child=[pause(30), say("Done below.")],
    )
    async with living(db, script, subagents(["agent"]), clock=clock) as life:
        chat_id = await life.begin("above")
        waiting = await life.until(chat_id, lambda chat: chat.status == "requires_action")
        assert waiting.worker_id is None
        assert len(await children_of(life, chat_id)) == 2
        before = clock.now()
        await life.rest(chat_id)
        assert clock.now() - before < 40_000_000
        told = json.loads(results_of(await life.history(chat_id))[-1].text)
        assert [one["answer"] for one in told] == ["Done below."] * 2
        assert (await life.lines(chat_id))[-1] == "answer: Both are done."


def by_agent(result: ToolResult) -> dict[str, Any]:
    """What a result says of each agent, by id: those of one transaction are in no order."""
    return {one.pop("agent"): one for one in json.loads(result.text)}


def one_of_each(request: Request) -> ScriptItem:
    """A child that is asked for a quick answer, and one that takes long."""
    return "Quick." if "quick" in request.messages[0].text else [pause(1_000), say("Slow.")]


def as_family(*turns: Any) -> Any:
    """A model for a parent that plays its turns, and for its quick and its slow child."""
    left = list(turns)

    def answer(request: Request) -> Any:
        if request.messages[0].text != "above":
            return one_of_each(request)
        turn = left.pop(0)
        return turn(request) if callable(turn) else turn

    return [answer] * 50


SPAWN_BOTH = [call("spawn_agent", prompt="quick"), call("spawn_agent", prompt="slow", title="S")]


async def test_a_wait_that_reaches_its_deadline_reports_finished_children_and_the_state_of_others(
    db: Database, clock: Clock
) -> None:
    script = as_family(SPAWN_BOTH, wait_for_all, wait_for_all, "I see.")
    tools = subagents(["agent"], timeout=60)
    async with living(db, script, tools, clock=clock) as life:
        before = clock.now()
        chat_id = await life.begin("above")
        await life.rest(chat_id)
        assert 120 <= (clock.now() - before) / 1_000_000 < 140
        *spawned, first, second = results_of(await life.history(chat_id))
        quick, slow = (json.loads(one.text)["agent"] for one in spawned)
        assert (first.outcome, second.outcome) == ("ok", "ok")
        assert by_agent(first) == {
            quick: {"status": "idle", "answer": "Quick."},
            slow: {"status": "running", "title": "S"},
        }
        assert second.text == first.text
        await life.do(user.interrupt, slow)


async def test_reports_stand_in_the_order_in_which_the_children_were_named(
    db: Database, clock: Clock
) -> None:
    def wait_backwards(request: Request) -> ScriptItem:
        spawned = sorted(json.loads(one.text)["agent"] for one in results_of(request.messages))
        return call("wait_agents", agents=[*spawned[::-1], "nobody", *spawned])

    script = as_family(SPAWN_BOTH, wait_backwards, "I see.")
    async with living(db, script, subagents(["agent"], timeout=60), clock=clock) as life:
        chat_id = await life.begin("above")
        await life.rest(chat_id)
        *_, made = results_of(await life.history(chat_id))
        listed = [one["agent"] for one in json.loads(made.text)]
        children = await children_of(life, chat_id)
        assert listed == [*sorted(children, reverse=True), "nobody"]
        for child in children:
            await life.do(user.interrupt, child)


async def test_what_an_unfinished_child_said_between_its_steps_is_not_its_report(
    db: Database, clock: Clock
) -> None:
    def below(request: Request) -> ScriptItem:
        if not any(message.results for message in request.messages):
            return [say("I look first."), call("list_agents")]
        return [pause(1_000), say("Late.")]

    script = as_parent(call("spawn_agent", prompt="below"), wait_for_all, "I see.", child=below)
    tools = subagents(["agent"], timeout=60)
    async with living(db, script, tools, clock=clock) as life:
        chat_id = await life.begin("above")
        await life.rest(chat_id)
        (child,) = await children_of(life, chat_id)
        made = results_of(await life.history(chat_id))[-1]
        assert json.loads(made.text) == [{"agent": child, "status": "running"}]
        await life.do(user.interrupt, child)


async def test_an_agent_lists_the_agents_that_it_spawned(db: Database, clock: Clock) -> None:
    script = as_family(SPAWN_BOTH, [pause(10), call("list_agents")], "I see.")
    async with living(db, script, subagents(["agent"]), clock=clock) as life:
        chat_id = await life.begin("above")
        await life.rest(chat_id)
        *spawned, listed = results_of(await life.history(chat_id))
        quick, slow = (json.loads(one.text)["agent"] for one in spawned)
        assert by_agent(listed) == {
            quick: {"name": "agent", "title": "quick", "status": "idle"},
            slow: {"name": "agent", "title": "S", "status": "running"},
        }
        await life.do(user.interrupt, slow)


async def test_an_agent_without_children_lists_none_and_not_those_of_others(
    db: Database, clock: Clock
) -> None:
    script = as_family(call("spawn_agent", prompt="quick"), wait_for_all, "Spawned.")
    async with living(db, script, subagents(["agent"]), clock=clock) as life:
        await life.rest(await life.begin("above"))
    async with living(
        db, [call("list_agents"), "None."], subagents(["agent"]), clock=clock, seed=1
    ) as life:
        chat_id = await life.begin("alone")
        await life.rest(chat_id)
        (listed,) = results_of(await life.history(chat_id))
        assert (listed.outcome, listed.text) == ("ok", "[]")


async def test_an_id_that_is_no_child_is_named_and_not_waited_for(
    db: Database, clock: Clock
) -> None:
    script = as_parent(call("wait_agents", agents=["nobody"]), "I see.")
    async with living(db, script, subagents(["agent"]), clock=clock) as life:
        chat_id = await life.begin("above")
        await life.rest(chat_id)
        (told,) = json.loads(results_of(await life.history(chat_id))[-1].text)
        assert told == {"agent": "nobody", "status": "unknown"}


async def test_children_are_waited_for_also_when_their_list_is_given_as_text(
    db: Database, clock: Clock
) -> None:
    """Models do that, and every other tool gets the list that it stands for."""

    def wait(request: Request) -> ScriptItem:
        return call("wait_agents", agents=json.dumps(child_in(request)))

    script = as_parent(
        call("spawn_agent", prompt="below"), wait, "I see.", child=[pause(30), say("Done below.")]
    )
    async with living(db, script, subagents(["agent"]), clock=clock) as life:
        chat_id = await life.begin("above")
        await life.rest(chat_id)
        (told,) = json.loads(results_of(await life.history(chat_id))[-1].text)
        assert told["answer"] == "Done below."


@pytest.mark.parametrize("id", [r"\u0000", r"\ud800"])
async def test_an_id_that_no_database_can_hold_is_no_child(
    db: Database, clock: Clock, id: str
) -> None:
    script = as_parent(
        call_raw("wait_agents", f'{{"agents": ["{id}"]}}'),
        call_raw("message_agent", f'{{"agent": "{id}", "message": "hello"}}'),
        call_raw("interrupt_agent", f'{{"agent": "{id}"}}'),
        "I see.",
    )
    async with living(db, script, subagents(["agent"]), clock=clock) as life:
        chat_id = await life.begin("above")
        chat = await life.rest(chat_id)
        assert chat.error is None
        made = [one.outcome for one in results_of(await life.history(chat_id))]
        assert made == ["ok", "failed", "failed"]


async def test_what_a_child_answered_is_told_as_it_was(db: Database, clock: Clock) -> None:
    odd = "\0 \ue000 \ue0000041 \ud800"
    script = as_parent(
        call("spawn_agent", prompt="below"), wait_for_all, "I see.", child=[say(odd)]
    )
    async with living(db, script, subagents(["agent"]), clock=clock) as life:
        chat_id = await life.begin("above")
        await life.rest(chat_id)
        (told,) = json.loads(results_of(await life.history(chat_id))[-1].text)
        assert told["answer"] == odd


async def test_interrupting_a_parent_stops_its_children(db: Database, clock: Clock) -> None:
    script = as_parent(
        call("spawn_agent", prompt="below"), wait_for_all, child=[pause(1_000), say("Late.")]
    )
    async with living(db, script, subagents(["agent"]), clock=clock) as life:
        chat_id = await life.begin("above")
        await life.until(chat_id, lambda chat: chat.status == "requires_action")
        (child,) = await children_of(life, chat_id)
        await life.until(child, lambda chat: chat.worker_id is not None)
        await anyio.sleep(1)
        await life.do(user.interrupt, chat_id)
        assert (await life.rest(child, 5)).status == "idle"
        assert (await life.chat(chat_id)).status == "idle"


async def test_a_child_can_be_told_something_and_stopped(db: Database, clock: Clock) -> None:
    def below(request: Request) -> ScriptItem:
        told = any(message.text == "more" for message in request.messages)
        return "More." if told else [say("Hm"), pause(1_000)]

    script = as_parent(
        call("spawn_agent", prompt="below"),
        [pause(10), call("wait_agents", agents=["nobody"])],
        lambda r: call("message_agent", agent=child_in(r)[0], message="more"),
        lambda r: call("interrupt_agent", agent=child_in(r)[0]),
        wait_for_all,
        "Stopped.",
        child=below,
    )
    async with living(db, script, subagents(["agent"]), clock=clock) as life:
        chat_id = await life.begin("above")
        await life.rest(chat_id, 60)
        (child,) = await children_of(life, chat_id)
        assert await life.lines(child) == [
            "prompt: below",
            "answer: Hm",
            "marker: [The user interrupted while you were answering.]",
            "prompt: more",
            "answer: More.",
        ]


async def test_a_parent_cannot_reach_a_chat_that_is_not_below_it(
    db: Database, clock: Clock
) -> None:
    async with living(db, ["Other."], clock=clock) as life:
        other = await life.begin("other")
        await life.rest(other)
    script = as_parent(call("message_agent", agent=other, message="hello"), "Too bad.")
    async with living(db, script, subagents(["agent"]), clock=clock, seed=1) as life:
        chat_id = await life.begin("above")
        await life.rest(chat_id)
        (refused,) = results_of(await life.history(chat_id))
        assert refused.outcome == "failed"
        assert "there is no chat" in refused.text
        assert await life.lines(other) == ["prompt: other", "answer: Other."]


async def test_depth_is_limited_and_the_model_is_told(db: Database, clock: Clock) -> None:
    def answer(request: Request) -> ScriptItem:
        done = any(message.results for message in request.messages)
        return "Enough." if done else call("spawn_agent", prompt="deeper")

    async with living(db, [answer] * 50, subagents(["agent"]), clock=clock) as life:
        chat_id = await life.begin("deeper")
        for _ in range(3):
            await life.rest(chat_id)
            (chat_id,) = await children_of(life, chat_id)
        await life.rest(chat_id)
        assert await children_of(life, chat_id) == []
        (refused,) = results_of(await life.history(chat_id))
        assert "at most 3 generations" in refused.text


async def test_usage_of_children_counts_for_the_tree(db: Database, clock: Clock) -> None:
    script = as_parent(
        [usage(input=1), call("spawn_agent", prompt="below")],
        wait_for_all,
        "Done.",
        child=[usage(input=10), say("Below.")],
    )
    async with living(db, script, subagents(["agent"]), clock=clock) as life:
        chat_id = await life.begin("above")
        await life.rest(chat_id)
        own = await db.read(lambda tx: queries.spent(tx, chat_id))
        tree = await db.read(lambda tx: queries.spent(tx, chat_id, tree=True))
        assert (own.usage.input, tree.usage.input) == (1, 11)
