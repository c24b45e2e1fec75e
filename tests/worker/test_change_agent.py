"""Another agent continues a chat: chosen by a person, or by the model through a hand-off."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from holdfast import Agent, handoff, tool
from holdfast.chat.transitions import user
from holdfast.errors import ConfigError
from holdfast.host import serving
from holdfast.store.database import Database
from holdfast.testing import Clock, ScriptedModel, call, pause, say
from holdfast.tools.subagents import subagents
from tests.databases import OpenDatabase
from tests.worker.workers import asks, living

NOTE = "note: billing continues the conversation."


def billing(*script: Any, tools: Any = ()) -> Agent:
    model = ScriptedModel(list(script))
    return Agent(name="billing", instructions="You are billing.", model=model, tools=tools)


def asked(agent: Agent) -> int:
    assert isinstance(agent.model, ScriptedModel)
    return len(agent.model.requests)


async def test_a_handoff_changes_the_agent_with_the_result_of_its_call(
    db: Database, clock: Clock
) -> None:
    other = billing("Your invoice is right.", "Gladly.")
    script = [call("handoff", agent="billing")]
    async with living(db, script, [handoff([other])], clock=clock) as life:
        chat_id = await life.begin("My invoice?")
        chat = await life.rest(chat_id)
        assert (chat.agent, chat.next_agent) == ("billing", None)
        lines = await life.lines(chat_id)
        assert lines[2:] == [
            "results: ok billing continues the conversation.",
            NOTE,
            "answer: Your invoice is right.",
        ]
        # One transaction: no version of the chat has the result and the other agent.
        stored = await life.stored(chat_id)
        assert stored[2].revision == stored[3].revision
        await life.send(chat_id, "Thanks.")
        await life.rest(chat_id)
        assert (await life.lines(chat_id))[-1] == "answer: Gladly."


async def test_a_crash_after_a_handoff_keeps_it(
    db: Database, open_db: OpenDatabase, clock: Clock
) -> None:
    script = [call("handoff", agent="billing")]
    first_billing = billing([say("Half"), pause(100)])
    async with living(db, script, [handoff([first_billing])], clock=clock) as life:
        chat_id = await life.begin()
        await life.until(chat_id, lambda chat: chat.agent == "billing")
        await anyio.sleep(3)
        await life.die()
    async with open_db() if not db.exclusive else _same(db) as theirs:
        tools = [handoff([billing("Whole.")])]
        async with living(theirs, [], tools, clock=clock, seed=1) as life:
            await life.rest(chat_id)
            assert (await life.lines(chat_id))[-2:] == [NOTE, "answer: Whole."]


class _same:
    """The database of a test as the database of the next process."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def __aenter__(self) -> Database:
        return self._db

    async def __aexit__(self, *_: object) -> None:
        pass


async def test_hand_offs_of_one_turn_are_limited(db: Database, clock: Clock) -> None:
    back = handoff(["agent"], limit=2)
    other = billing(call("handoff", agent="agent"), "I answer.", tools=[back])
    there = [call("handoff", agent="billing"), call("handoff", agent="billing"), "I answer."]
    async with living(db, there, [handoff([other], limit=2)], clock=clock) as life:
        chat_id = await life.begin()
        chat = await life.rest(chat_id)
        assert chat.agent == "agent"
        lines = await life.lines(chat_id)
        assert [line for line in lines if "handed over 2 times" in line]
        assert lines[-1] == "answer: I answer."


async def test_an_idle_chat_has_its_new_agent_at_once(db: Database, clock: Clock) -> None:
    other = billing("Hello from billing.")
    async with living(db, ["Hello."], [handoff([other])], clock=clock) as life:
        chat_id = await life.begin()
        await life.rest(chat_id)
        chat = await life.do(user.update, chat_id, {"agent": "billing"})
        assert (chat.agent, chat.next_agent) == ("billing", None)
        await life.send(chat_id, "And you?")
        await life.rest(chat_id)
        lines = await life.lines(chat_id)
        assert lines[1:] == [
            "answer: Hello.",
            NOTE,
            "prompt: And you?",
            "answer: Hello from billing.",
        ]


async def test_a_running_chat_changes_its_agent_when_the_calls_of_its_step_have_ended(
    db: Database, clock: Clock
) -> None:
    @tool
    async def slow() -> str:
        """Take long."""
        await anyio.sleep(10)
        return "done"

    other = billing("The rest is mine.")
    script = [[pause(5), call("slow")]]
    async with living(db, script, [slow, handoff([other])], clock=clock) as life:
        chat_id = await life.begin()
        await anyio.sleep(2)
        chat = await life.do(user.update, chat_id, {"agent": "billing"})
        assert (chat.agent, chat.next_agent) == ("agent", "billing")
        chat = await life.rest(chat_id)
        assert (chat.agent, chat.next_agent) == ("billing", None)
        assert (await life.lines(chat_id))[1:] == [
            "answer: →slow",
            "results: ok done",
            NOTE,
            "answer: The rest is mine.",
        ]


async def test_a_change_during_the_last_answer_applies_when_the_chat_is_idle(
    db: Database, clock: Clock
) -> None:
    other = billing("Yes?")
    async with living(db, [[pause(5), say("Done.")]], [handoff([other])], clock=clock) as life:
        chat_id = await life.begin()
        await anyio.sleep(2)
        await life.do(user.update, chat_id, {"agent": "billing"})
        chat = await life.rest(chat_id)
        assert (chat.agent, chat.next_agent) == ("billing", None)
        assert (await life.lines(chat_id))[1:] == ["answer: Done.", NOTE]
        assert asked(other) == 0


async def test_a_pending_action_is_answered_for_the_agent_that_asked(
    db: Database, clock: Clock
) -> None:
    other = billing("Thanks.")
    async with living(db, [call("asks")], [asks, handoff([other])], clock=clock) as life:
        chat_id = await life.begin()
        await life.until(chat_id, lambda chat: chat.status == "requires_action")
        chat = await life.do(user.update, chat_id, {"agent": "billing"})
        assert (chat.agent, chat.next_agent) == ("agent", "billing")
        chat = await life.do(user.update, chat_id, {"agent": "agent"})
        assert chat.next_agent is None
        await life.do(user.update, chat_id, {"agent": "billing"})
        chat = await life.interrupted(chat_id)
        assert chat.agent == "billing"
        await life.send(chat_id, "Well?")
        await life.rest(chat_id)
        assert (await life.lines(chat_id))[-1] == "answer: Thanks."


async def test_an_interrupted_turn_keeps_its_partial_answer_and_changes_the_agent(
    db: Database, clock: Clock
) -> None:
    async with living(db, [[say("Half"), pause(100)]], [handoff([billing()])], clock=clock) as life:
        chat_id = await life.begin()
        await anyio.sleep(2)
        await life.do(user.update, chat_id, {"agent": "billing"})
        chat = await life.interrupted(chat_id)
        assert chat.agent == "billing"
        lines = await life.lines(chat_id)
        assert lines[1] == "answer: Half"
        assert NOTE in lines


async def test_a_host_has_the_agents_that_its_agents_name(db: Database) -> None:
    other = billing("Here.")
    reader = Agent(name="reader", description="Reads.", model=ScriptedModel(["Read."]))
    tools = [handoff([other]), *subagents([reader])]
    first = Agent(name="first", model=ScriptedModel(["Hello.", "There."]), tools=tools)
    async with serving(db, [first], titles=False) as host:
        assert list(host.agents) == ["first", "billing", "reader"]
        assert "- reader: Reads." in str(first.toolset["spawn_agent"].spec.schema)
        chat = await host.create("?")
        await chat.rest()
        with pytest.raises(ConfigError, match="no agent is named 'nobody': use one of first, bill"):
            await chat.update(agent="nobody")
        changed = await chat.update(agent="billing", labels={"a": "b"})
        assert (changed.agent, chat.agent, changed.labels) == ("billing", "billing", {"a": "b"})
        await chat.send("And now?")
        assert (await chat.rest()).text == "Here."
