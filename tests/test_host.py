"""Durable chats inside a program: everything that can be done with a host and with a chat."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec import UNSET

import holdfast
from holdfast import Agent, approve, tool
from holdfast.chat import errors
from holdfast.chat.errors import (
    ChatArchived,
    InvalidInput,
    KeyReused,
    NotAPrompt,
    NothingWaits,
    QueuedNotFound,
    TransitionNotAllowed,
    WrongAnswer,
)
from holdfast.chat.handle import Chat
from holdfast.chat.host import Host
from holdfast.chat.rows import read_chat
from holdfast.chat.stream import ChatChanged, LiveDelta
from holdfast.chat.transitions import claims
from holdfast.chats import Rule
from holdfast.errors import ChatError, ChatNotFound, ConfigError
from holdfast.hooks import Deny
from holdfast.host import serving
from holdfast.kernel.messages import ToolResult
from holdfast.kernel.model import TextDelta
from holdfast.kernel.summary_checkpoint import SUMMARY_SECTIONS
from holdfast.kernel.tool import Tool
from holdfast.messages import Text
from holdfast.providers.demo import Demo
from holdfast.store.database import Database
from holdfast.testing import Clock, ScriptedModel, call, fail, pause, ports, usage
from holdfast.worker.options import WorkerOptions
from tests.databases import OpenDatabase


@asynccontextmanager
async def hosting(
    db: Database,
    clock: Clock,
    script: Sequence[Any] = (),
    tools: Sequence[Tool] = (),
    worker: WorkerOptions | None = WorkerOptions(),  # noqa: B008 - frozen
    **agent: Any,
) -> AsyncIterator[Host]:
    world = ports(clock=clock)
    made = Agent(model=ScriptedModel(script), tools=tools, ports=world, **agent)
    async with serving(db, [made], ports=world, worker=worker, titles=False) as host:
        yield host


async def texts(chat: Chat) -> list[str]:
    return [message.text for message in await chat.history()]


@tool(approval="ask")
async def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


ask_user = Tool(name="ask_user", description="Ask.", schema={"type": "object"}, action="answer")
"""Whoever is outside answers it."""


# --- a turn -------------------------------------------------------------------------------------


async def test_a_chat_is_created_answers_and_rests(db: Database, clock: Clock) -> None:
    async with hosting(db, clock, [["Hello", usage(input=3, output=1)]]) as host:
        chat = await host.create("hi", title=" My  chat ", labels={"b": "2"}, owner="ann")
        result = await chat.rest()
        assert (result.reason, result.text, result.failure, result.actions) == (
            "stop",
            "Hello",
            None,
            (),
        )
        assert await texts(chat) == ["hi", "Hello"]
        now = await chat.read()
        assert (now.title, now.titled_by, now.owner) == ("My chat", "person", "ann")
        assert (now.labels, now.status, now.messages, now.context) == ({"b": "2"}, "idle", 2, 4)
        assert now == result.chat


async def test_what_was_begun_is_finished_by_the_next_process(
    open_db: OpenDatabase, clock: Clock
) -> None:
    async with open_db() as db, hosting(db, clock, worker=None) as host:
        chat = await host.create("hi")
        assert (await chat.read()).status == "running"
    async with open_db() as db, hosting(db, clock, ["Hello"]) as host:
        found = await host.chat(chat.id)
        assert (await found.rest()).text == "Hello"


async def test_a_turn_that_failed_says_why_and_can_be_tried_again(
    db: Database, clock: Clock
) -> None:
    async with hosting(db, clock, [["half", fail(status=401)], "whole"]) as host:
        chat = await host.create("hi")
        failed = await chat.rest()
        assert (failed.reason, failed.text) == ("error", "half")
        assert failed.failure is not None
        assert failed.failure.kind == "auth"
        assert (await chat.read()).error == failed.failure
        await chat.retry()
        assert (await chat.rest()).text == "whole"
        with pytest.raises(TransitionNotAllowed):
            await chat.retry()


async def test_an_interrupt_keeps_what_was_said(db: Database, clock: Clock) -> None:
    async with hosting(db, clock, [["one ", pause(60), "two"]]) as host:
        chat = await host.create("count")
        await anyio.sleep(1)
        await chat.interrupt()
        result = await chat.rest()
        assert (result.reason, result.text) == ("interrupted", "one ")
        await chat.interrupt()
        assert (await chat.read()).status == "idle"


async def test_messages_are_queued_steered_and_interrupt(db: Database, clock: Clock) -> None:
    script = [["slow", pause(10), call("look")], "two", [pause(60), "never"], "four"]

    @tool(effect="pure")
    async def look() -> str:
        """Look."""
        return "seen"

    async with hosting(db, clock, script, [look]) as host:
        chat = await host.create("one")
        await anyio.sleep(1)
        assert (await chat.send("later")).queued is not None
        assert (await chat.send("now", "steer")).queued is not None
        assert [one.message.text for one in await chat.queue.list()] == ["now", "later"]
        await anyio.sleep(12)
        assert await texts(chat) == ["one", "slow", "", "now", "two", "later"]
        receipt = await chat.send("stop", "interrupt")
        assert receipt.queued is not None
        assert (await chat.rest()).text == "four"
        assert (await chat.send("five")).number == 10


async def test_the_queue_can_be_changed_while_it_waits(db: Database, clock: Clock) -> None:
    async with hosting(db, clock, [[pause(60), "one"], "two", "three"]) as host:
        chat = await host.create("go")
        await anyio.sleep(1)
        ids = [(await chat.send(text)).queued or "" for text in ("a", "b", "c")]
        await chat.queue.edit(ids[0], "A")
        await chat.queue.reorder([ids[2], ids[0], ids[1]])
        removed = await chat.queue.remove(ids[1])
        assert removed.message.text == "b"
        assert [one.message.text for one in await chat.queue.list()] == ["c", "A"]
        with pytest.raises(QueuedNotFound):
            await chat.queue.remove(ids[1])
        await chat.queue.promote(ids[0])
        await chat.rest()
        assert [text for text in await texts(chat) if text in "abcA"] == ["A", "c"]


async def test_an_edit_goes_back_and_on(db: Database, clock: Clock) -> None:
    async with hosting(db, clock, ["one", "two", "three"]) as host:
        chat = await host.create("first")
        await chat.rest()
        await chat.send("second")
        await chat.rest()
        edited = await chat.edit(3, "another")
        assert (edited.number, edited.superseded, edited.dropped) == (5, (3, 4), ())
        assert (await chat.rest()).text == "three"
        assert await texts(chat) == ["first", "one", "another", "three"]
        assert [stored.number for stored in await chat.messages(superseded=True)] == [*range(1, 7)]
        assert [stored.number for stored in await chat.messages(before=5, limit=1)] == [2]
        with pytest.raises(NotAPrompt):
            await chat.edit(2, "an answer")


async def test_a_fork_is_a_chat_of_its_own(db: Database, clock: Clock) -> None:
    async with hosting(db, clock, ["one", "two"]) as host:
        chat = await host.create("first", title="The chat", owner="ann", labels={"a": "b"})
        await chat.rest()
        copy = await chat.fork(2)
        assert await texts(copy) == ["first", "one"]
        assert (await copy.rest()).reason is None
        other = await chat.fork(1, "instead", title="Another")
        assert (await other.rest()).text == "two"
        assert await texts(other) == ["instead", "two"]
        assert [(await one.read()).title for one in (copy, other)] == ["The chat", "Another"]
        assert [(one.owner, (await one.read()).labels) for one in (copy, other)] == [
            ("ann", {"a": "b"})
        ] * 2


async def test_compacting_is_asked_for_when_there_is_something(db: Database, clock: Clock) -> None:
    sections = "\n".join(f"## {name}\n-" for name in SUMMARY_SECTIONS)
    async with hosting(db, clock, ["word " * 500, sections]) as host:
        chat = await host.create(None)
        with pytest.raises(ChatError, match="nothing to compact"):
            await chat.compact()
        await chat.send("first")
        await chat.rest()
        await chat.compact()
        result = await chat.rest()
        assert result.reason == "stop"
        assert "checkpoint" in {message.kind for message in await chat.history()}


async def test_a_model_that_a_chat_names_is_made_as_its_agent_says(
    db: Database, clock: Clock
) -> None:
    def made(name: str) -> ScriptedModel:
        if name != "ours:small":
            raise ConfigError(f"{name} is not ours")
        return ScriptedModel(["From the small one."], name=name)

    async with hosting(db, clock, models=made) as host:
        chat = await host.create("Hello?", model="ours:small")
        assert (await chat.rest()).text == "From the small one."
        with pytest.raises(ConfigError, match="openai:gpt-6-sol is not ours"):
            await chat.send("And now?", model="openai:gpt-6-sol")


async def test_model_and_effort_hold_from_a_message_on(db: Database, clock: Clock) -> None:
    async with hosting(db, clock, ["one", "two"]) as host:
        chat = await host.create("first")
        await chat.rest()
        await chat.send("say two", model="demo", effort="low")
        assert (await chat.rest()).text == "two"
        now = await chat.read()
        assert (now.model, now.effort) == ("demo", "low")
        await chat.update(model=None, effort=None, labels={"x": "y"})
        now = await chat.read()
        assert (now.model, now.effort, now.labels) == (None, None, {"x": "y"})
        await chat.send("second")
        assert (await chat.rest()).text == "two"


async def test_usage_is_the_sum_of_all_calls(db: Database, clock: Clock) -> None:
    script = [["a", usage(input=1, output=2)], ["b", usage(input=10, output=20)]]
    async with hosting(db, clock, script) as host:
        chat = await host.create("first")
        await chat.rest()
        await chat.send("second")
        await chat.rest()
        spent = await chat.usage(tree=True)
        assert (spent.usage.input, spent.usage.output, spent.calls) == (11, 22, 2)


async def test_what_the_demo_says_is_known_to_cost_nothing(db: Database, clock: Clock) -> None:
    async with hosting(db, clock) as host:
        chat = await host.create("say it", model="demo")
        await chat.rest()
        spent = await chat.usage()
        assert (spent.usage.cost, spent.calls, spent.unpriced) == (0, 1, 0)


# --- actions ------------------------------------------------------------------------------------


async def test_an_approval_lets_exactly_what_was_shown_run(db: Database, clock: Clock) -> None:
    async with hosting(db, clock, [call("pay", amount=3), "done"], [pay]) as host:
        chat = await host.create("pay")
        waits = await chat.rest()
        assert waits.reason == "requires_action"
        (action,) = waits.actions
        assert await chat.actions() == waits.actions
        assert (action.kind, action.number, action.deadline) == ("approval", 2, None)
        await chat.resolve({action.call.id: approve(action)})
        assert (await chat.rest()).text == "done"
        assert (await chat.history())[2].results[0].text == "paid 3"


async def test_a_call_is_approved_with_other_arguments_or_denied(
    db: Database, clock: Clock
) -> None:
    script = [[call("pay", amount=3), call("pay", amount=4)], "done"]
    async with hosting(db, clock, script, [pay]) as host:
        chat = await host.create("pay")
        first, second = (await chat.rest()).actions
        await chat.resolve(
            {
                first.call.id: approve(first, {"amount": 1}),
                second.call.id: Deny("too much"),
            }
        )
        await chat.rest()
        results = [one for message in await chat.history() for one in message.results]
        said = {one.call_id: (one.outcome, one.text) for one in results}
        assert said[first.call.id][0] == "ok"
        assert said[first.call.id][1].endswith("paid 1")
        assert said[second.call.id] == ("refused", "Denied by a person: too much")


@pytest.mark.parametrize(
    ("rule", "asked"),
    [(Rule("pay"), 1), (Rule("pay", '{"amount":3}'), 2)],
    ids=["any arguments", "the same arguments"],
)
async def test_calls_that_are_allowed_for_the_chat_are_not_asked_about_again(
    db: Database, clock: Clock, rule: Rule, asked: int
) -> None:
    script = [*[call("pay", amount=amount) for amount in (3, 3, 4)], "done"]
    async with hosting(db, clock, script, [pay]) as host:
        chat = await host.create("pay")
        count = 0
        while (waits := await chat.rest()).actions:
            (action,) = waits.actions
            await chat.resolve({action.call.id: approve(action)}, allow_for_chat=rule)
            count += 1
        assert (waits.text, count) == ("done", asked)


@pytest.mark.parametrize(
    "value", ["blue", {"colour": "blue"}, [Text("blue")], ToolResult("?", "?", (Text("blue"),))]
)
async def test_a_question_is_answered_with_anything_that_a_tool_may_return(
    db: Database, clock: Clock, value: Any
) -> None:
    async with hosting(db, clock, [call("ask_user"), "thanks"], [ask_user]) as host:
        chat = await host.create("ask me")
        (action,) = (await chat.rest()).actions
        await chat.resolve({action.call.id: value})
        assert (await chat.rest()).text == "thanks"
        assert "blue" in (await chat.history())[2].results[0].text


async def test_a_wrong_answer_is_refused_and_changes_nothing(db: Database, clock: Clock) -> None:
    script = [[call("pay", amount=3), call("ask_user")], "done"]
    async with hosting(db, clock, script, [pay, ask_user]) as host:
        chat = await host.create("pay")
        waiting = {action.kind: action for action in (await chat.rest()).actions}
        bill, question = waiting["approval"], waiting["answer"]
        before = await chat.read()
        wrong: list[tuple[type[Exception], dict[str, Any], Rule | None]] = [
            (NothingWaits, {"nobody": "x"}, None),
            (NothingWaits, {}, None),
            (ConfigError, {bill.call.id: "yes"}, None),
            (ConfigError, {question.call.id: approve(question)}, None),
            (ConfigError, {question.call.id: object()}, None),
            (WrongAnswer, {bill.call.id: holdfast.hooks.Approved("of something else")}, None),
            (ConfigError, {bill.call.id: approve(bill)}, Rule("steal")),
        ]
        for kind, answers, rule in wrong:
            with pytest.raises(kind):
                await chat.resolve(answers, allow_for_chat=rule)
        assert await chat.read() == before


async def test_a_call_of_a_tool_that_was_removed_can_be_denied_and_not_approved(
    db: Database, clock: Clock
) -> None:
    async with hosting(db, clock, [call("pay", amount=3)], [pay]) as host:
        chat = await host.create("pay")
        (action,) = (await chat.rest()).actions
    async with hosting(db, clock, ["done"]) as host:
        again = await host.chat(chat.id)
        with pytest.raises(ConfigError, match="has no tool 'pay' any more"):
            await again.resolve({action.call.id: approve(action)})
        await again.resolve({action.call.id: Deny("It is gone.")})
        assert (await again.rest()).text == "done"


async def test_a_fork_at_an_answer_with_a_prompt_says_what_to_do(
    db: Database, clock: Clock
) -> None:
    async with hosting(db, clock, ["one"]) as host:
        chat = await host.create("hi")
        await chat.rest()
        with pytest.raises(
            NotAPrompt, match=r"not a prompt but an answer: .*fork without a prompt"
        ):
            await chat.fork(2, "again")


async def test_interrupting_a_chat_that_waits_tells_the_model(db: Database, clock: Clock) -> None:
    async with hosting(db, clock, [call("pay", amount=3)], [pay]) as host:
        chat = await host.create("pay")
        await chat.rest()
        await chat.interrupt()
        assert (await chat.rest()).reason == "interrupted"
        assert (await chat.history())[-1].kind == "marker"


# --- many chats ---------------------------------------------------------------------------------


async def test_chats_are_listed_newest_first(db: Database, clock: Clock) -> None:
    async with hosting(db, clock, worker=None) as host:
        made = [await host.create(None, owner=owner) for owner in ("ann", "bob", "ann")]
        ids = sorted((chat.id for chat in made), reverse=True)
        assert [chat.id for chat in await host.list()] == ids
        assert [chat.id for chat in await host.list(owner="bob")] == [made[1].id]
        (first,) = await host.list(limit=1)
        assert [chat.id for chat in await host.list(before=first.id)] == ids[1:]
        await made[0].archive()
        assert [chat.id for chat in await host.list(archived=True)] == [made[0].id]
        assert len(await host.list()) == 2


async def test_an_archived_chat_is_only_read_until_it_is_taken_out(
    db: Database, clock: Clock
) -> None:
    async with hosting(db, clock, ["one"]) as host:
        chat = await host.create("hi")
        await chat.rest()
        await chat.archive()
        with pytest.raises(ChatArchived):
            await chat.send("more")
        assert (await chat.read()).archived
        assert (await chat.rest()).text == "one"
        await chat.unarchive()
        await chat.rename("Mine")
        assert (await chat.read()).title == "Mine"


async def test_a_deleted_chat_is_not_found_any_more(db: Database, clock: Clock) -> None:
    async with hosting(db, clock, worker=None) as host:
        chat = await host.create(None)
        await chat.delete()
        asked: list[Callable[[], Any]] = [
            chat.read,
            chat.rest,
            chat.messages,
            chat.history,
            chat.actions,
            chat.queue.list,
            chat.usage,
            chat.export,
            chat.delete,
            chat.stream().__anext__,
            lambda: chat.send("hi"),
            lambda: host.chat(chat.id),
        ]
        for ask in asked:
            with pytest.raises(ChatNotFound):
                await ask()


async def test_the_chat_of_another_owner_does_not_exist_for_this_one(
    db: Database, clock: Clock
) -> None:
    async with serving(
        db, [Agent(model=ScriptedModel([]))], ports=ports(clock=clock), worker=None
    ) as host:
        chat = await host.create(None, owner="ann")
        assert (await host.chat(chat.id, owner="ann")).id == chat.id
        assert (await host.chat(chat.id)).owner == "ann"
        for owner in ("bob", ""):
            with pytest.raises(ChatNotFound) as foreign:
                await host.chat(chat.id, owner=owner)
            assert str(foreign.value) == str(ChatNotFound(chat.id))
        with pytest.raises(ChatError, match="owner is 5: use text, or leave it out"):
            await host.chat(chat.id, owner=5)  # type: ignore[arg-type]


async def test_several_agents_answer_by_their_names(db: Database, clock: Clock) -> None:
    world = ports(clock=clock)
    agents = [
        Agent(name=name, model=ScriptedModel([f"I am {name}"]), ports=world)
        for name in ("one", "two")
    ]
    async with serving(db, agents, ports=world, titles=False) as host:
        assert list(host.agents) == ["one", "two"]
        first, second = await host.create("hi"), await host.create("hi", agent="two")
        assert [(await chat.rest()).text for chat in (first, second)] == ["I am one", "I am two"]
        assert (first.agent, second.agent) == ("one", "two")
        with pytest.raises(ConfigError, match="one, two"):
            await host.create("hi", agent="three")


async def test_a_chat_that_nobody_can_run_says_so_after_a_minute(
    db: Database, clock: Clock
) -> None:
    async with hosting(db, clock, worker=None) as host:
        chat = await host.create("hi")
        await anyio.sleep(59)
        assert not (await chat.read()).stranded
        await anyio.sleep(2)
        assert (await chat.read()).stranded
        (listed,) = await host.list()
        assert listed.stranded
        me = claims.WorkerRow(id="w", agents=("agent",), lease=15_000_000)
        await db.write(lambda tx: claims.write_heartbeat(tx, me))
        assert not (await chat.read()).stranded


# --- keys ---------------------------------------------------------------------------------------


async def test_a_key_makes_a_chat_and_a_message_once(db: Database, clock: Clock) -> None:
    async with hosting(db, clock, ["one", "two"]) as host:
        made = [await host.create("hi", key="k", labels={"a": "1", "b": "2"}) for _ in range(2)]
        again = await host.create("hi", key="k", labels={"b": "2", "a": "1"})
        assert {chat.id for chat in made} == {again.id}
        await again.rest()
        receipts = [await again.send("more", key="m") for _ in range(3)]
        assert len({receipt.number for receipt in receipts}) == 1
        await again.rest()
        assert await texts(again) == ["hi", "one", "more", "two"]
        forks = [await again.fork(2, key="f") for _ in range(2)]
        assert forks[0].id == forks[1].id
        with pytest.raises(KeyReused):
            await host.create("something else", key="k")
        with pytest.raises(KeyReused):
            await again.send("something else", key="m")
        other = await host.create("hi", key="k", owner="bob", labels={"a": "1", "b": "2"})
        assert other.id != again.id


# --- what is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agents", "why"),
    [
        ([], "at least one"),
        (Agent(model="demo"), "a list"),
        ("demo", "a list"),
        ([Agent], "is not an agent"),
        ([Agent(model="demo"), Agent(model="demo")], "two agents are named 'agent'"),
        ([Agent(model="demo", name="")], "named ''"),
        ([Agent(model="demo", name="fast", eager="all")], "agent 'fast' has eager='all'"),
    ],
)
async def test_a_host_refuses_agents_that_it_cannot_have(
    tmp_path: Path, agents: Any, why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        async with holdfast.open(f"sqlite:///{tmp_path}/chats.db", agents):
            pass
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("more", "why"), [({"worker": True}, "worker is True"), ({"titles": 5}, "no stream|no name")]
)
async def test_a_host_refuses_options_of_the_wrong_kind(
    tmp_path: Path, more: dict[str, Any], why: str
) -> None:
    with pytest.raises(ConfigError, match=why):
        async with holdfast.open("sqlite://", [Agent(model="demo")], **more):
            pass


async def test_bad_input_is_refused_by_name(db: Database, clock: Clock) -> None:
    async with hosting(db, clock, []) as host:
        chat = await host.create(None)
        wrong: list[tuple[Callable[[], Any], type[Exception], str]] = [
            (lambda: host.create(""), ConfigError, "prompt is empty"),
            (lambda: host.create("x", title=" "), InvalidInput, "title"),
            (lambda: host.create("x", labels={"a": 1}), InvalidInput, "labels"),  # type: ignore[dict-item]
            (lambda: host.create("x", model="nobody:x"), ConfigError, "nobody"),
            (lambda: host.create("x", model=""), ConfigError, "model"),
            (lambda: host.create("x", effort="huge"), ConfigError, "effort"),  # type: ignore[arg-type]
            (lambda: host.create("x", key=""), InvalidInput, "key"),
            (lambda: host.list(limit=0), InvalidInput, "limit"),
            (lambda: host.chat("nobody"), ChatNotFound, "nobody"),
            (lambda: chat.messages(limit=1_001), InvalidInput, "limit"),
            (lambda: chat.send(""), ConfigError, "prompt is empty"),
            (lambda: chat.send("x", "soon"), InvalidInput, "deliver"),  # type: ignore[arg-type]
            (lambda: chat.edit(7, "x"), ChatError, "no message 7"),
            (lambda: chat.fork(7), ChatError, "no message 7"),
            (lambda: chat.rename(""), InvalidInput, "title"),
            (chat.update, InvalidInput, "nothing to change"),
            (lambda: chat.update(labels=UNSET), InvalidInput, "nothing to change"),
            (lambda: chat.export("pdf"), InvalidInput, "format"),  # type: ignore[arg-type]
        ]
        for ask, kind, why in wrong:
            with pytest.raises(kind, match=why):
                await ask()
        with pytest.raises(InvalidInput, match="cursor"):
            chat.stream("yesterday")
        assert len(await host.list()) == 1


async def test_without_a_worker_any_model_can_be_named(db: Database, clock: Clock) -> None:
    """Whoever runs the chat may have what is missing here."""
    async with hosting(db, clock, worker=None) as host:
        chat = await host.create("x", model="nobody:x")
        assert (await chat.read()).model == "nobody:x"


# --- the block ----------------------------------------------------------------------------------


async def test_what_is_raised_in_the_block_comes_out_as_it_is(db: Database, clock: Clock) -> None:
    with pytest.raises(KeyError, match="mine"):
        async with hosting(db, clock, [[pause(60), "late"]]) as host:
            await host.create("hi")
            raise KeyError("mine")


async def test_a_host_that_ends_gives_its_chats_away(open_db: OpenDatabase, clock: Clock) -> None:
    hurry = WorkerOptions(grace=0)
    async with open_db() as db:
        async with hosting(db, clock, [["half ", pause(600), "late"]], worker=hurry) as host:
            chat = await host.create("hi")
            await anyio.sleep(5)
        row = await db.read(lambda tx: read_chat(tx, chat.id))
        assert (row.status, row.worker_id) == ("running", None)


async def test_a_tool_with_effect_commit_is_allowed_in_a_durable_host(
    db: Database, clock: Clock
) -> None:
    @tool(effect="commit")
    async def note() -> str:
        """Note."""
        return "noted"

    async with hosting(db, clock, [call("note"), "done"], [note]) as host:
        chat = await host.create("note it")
        assert (await chat.rest()).text == "done"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        found: str = request.getfixturevalue("postgres_url")
        return found
    return f"sqlite:///{tmp_path}/chats.db"


def test_a_program_opens_a_database_and_has_its_chats_driven_and_titled(url: str) -> None:
    """With the real clock and real threads; only the model does not wait."""

    async def main() -> None:
        async with holdfast.open(url, [Agent(model=Demo(pace=0))]) as host:
            chat = await host.create("say hello")
            seen: list[str] = []
            async with chat.stream(follow=True) as stream:
                async for event in stream:
                    if isinstance(event, LiveDelta) and isinstance(event.fragment, TextDelta):
                        seen.append(event.fragment.text)
                    if isinstance(event, ChatChanged) and event.chat.title is not None:
                        break
            assert (await chat.rest()).text == "hello"
            assert "".join(seen) in ("", "hello")  # it can be over before anybody looks
            now = await chat.read()
            assert (now.title, now.titled_by) == ("Say hello", "model")
            raise KeyError("the end")

    with pytest.raises(KeyError, match="the end"):
        asyncio.run(main())


def test_importing_holdfast_brings_no_database_and_no_worker() -> None:
    program = (
        "import sys, holdfast; holdfast.Agent; "
        "print(*[m for m in sys.modules if m.split('.')[0] in ('apsw', 'asyncpg') "
        "or m.startswith(('holdfast.worker', 'holdfast.chat', 'holdfast.store'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == ""
    assert "open" in dir(holdfast)


def test_whatever_a_chat_refuses_can_be_caught_by_its_name() -> None:
    kinds = [
        each
        for each in vars(errors).values()
        if isinstance(each, type) and issubclass(each, holdfast.errors.ChatError)
    ]
    assert holdfast.errors.KeyReused in kinds
    public = vars(holdfast.errors)
    assert [each for each in kinds if public.get(each.__name__) is not each] == []
