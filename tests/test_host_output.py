"""The answer of a durable chat as a value, here and at the far end of a wire."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, assert_type

import anyio
import pytest

from holdfast import Agent, Chat, approve
from holdfast.chats import ChatResult
from holdfast.errors import ConfigError, InvalidOutput
from holdfast.host import serving
from holdfast.store.database import Database
from holdfast.testing import Clock, ScriptedModel, call, fail, finish, pause, ports, say
from tests.client.served import connected
from tests.server.api import agent
from tests.test_host import hosting, pay


@dataclass
class City:
    name: str
    people: int


@dataclass
class Unknown:
    """Nothing is known."""


OSLO = City("Oslo", 717710)
OSLO_TEXT = '{"name": "Oslo", "people": 717710}'


@pytest.mark.parametrize(
    "script",
    [
        [OSLO_TEXT],
        ["Well.", OSLO_TEXT],
        [[say('{"name": "Oslo", '), finish("length")], '"people": 717710}'],
        [[say('{"na'), finish("length")], OSLO_TEXT],
        [[call("pay", amount=3), say("I pay first: {}")], OSLO_TEXT],
    ],
    ids=["as it is", "repaired", "in two pieces", "begun anew", "behind a tool"],
)
async def test_the_answer_of_a_chat_is_a_value_for_whoever_says_of_what_type(
    db: Database, clock: Clock, script: Sequence[Any]
) -> None:
    async with hosting(db, clock, script, [pay], output=City) as host:
        chat = await host.create("How many people live in Oslo?")
        result = await chat.rest()
        if result.reason == "requires_action":
            assert result.output_as(City) is None
            await chat.resolve({action.call.id: approve(action) for action in result.actions})
            result = await chat.rest()
        assert result.output_as(City) == result.output == OSLO


async def test_the_value_of_a_union_is_of_the_member_that_the_answer_names(
    db: Database, clock: Clock
) -> None:
    script = ['{"value": {"City": {"name": "Oslo"}}}', '{"value": {"Unknown": {}}}']
    async with hosting(db, clock, script, output=City | Unknown) as host:
        result = await (await host.create("How many people live in Oslo?")).rest()
        assert result.output_as(City | Unknown) == Unknown()


async def test_an_answer_that_is_no_such_value_says_what_is_wrong_with_it(
    db: Database, clock: Clock
) -> None:
    async with hosting(db, clock, ["Half a million."]) as host:
        result = await (await host.create("How many?")).rest()
        with pytest.raises(InvalidOutput, match="the answer does not fit: "):
            result.output_as(City)


async def test_a_chat_that_did_not_stop_with_an_answer_has_no_value(
    db: Database, clock: Clock
) -> None:
    async with hosting(db, clock, [[OSLO_TEXT, pause(60)], fail(kind="auth")], output=City) as host:
        chat = await host.create("How many?")
        await anyio.sleep(1)
        await chat.interrupt()
        result = await chat.rest()
        assert result.output_as(City) is result.output is None
        await chat.send("And now?")
        result = await chat.rest()
        assert result.output_as(City) is result.output is None


async def test_it_is_the_same_value_over_the_wire(db: Database, clock: Clock) -> None:
    script = [[say('{"name": "Oslo", '), finish("length")], '"people": 717710}']
    async with connected(db, [agent(script, clock, output=City)], clock) as (_, host):
        result = await (await host.create("How many people live in Oslo?")).rest()
        assert result.text == OSLO_TEXT
        assert result.output_as(City) == OSLO


async def test_a_type_checker_knows_the_value_by_the_type_that_was_named(
    db: Database, clock: Clock
) -> None:
    async with hosting(db, clock, [OSLO_TEXT, '{"value": [1, 2]}', "yes"]) as host:
        chat = await host.create("How many people live in Oslo?")
        assert_type((await chat.rest()).output_as(City), City | None)
        await chat.send("In which years?")
        assert_type((await chat.rest()).output_as(list[int]), list[int] | None)
        await chat.send("Are you sure?")
        # Not every form is a class to a type checker: what it cannot know it leaves open.
        assert_type((await chat.rest()).output_as(Literal["yes", "no"]), Any)


async def test_a_chat_of_an_agent_that_is_passed_itself_has_answers_of_its_type(
    db: Database, clock: Clock
) -> None:
    typed = Agent(
        ScriptedModel([OSLO_TEXT, OSLO_TEXT, OSLO_TEXT]),
        name="cities",
        output=City,
        ports=ports(clock=clock),
    )
    plain = Agent(ScriptedModel(["Hello."]), name="plain", ports=ports(clock=clock))
    agents: list[Agent[Any, Any]] = [plain, typed]
    async with serving(db, agents, ports=ports(clock=clock), titles=False) as host:
        chat = await host.create("How many?", agent=typed)
        assert_type(chat, Chat[City])
        result = await chat.rest()
        assert_type(result, ChatResult[City])
        assert result.output.people == 717710
        again = await host.chat(chat.id, agent=typed)
        assert_type((await again.rest()).output, City)
        fork = await chat.fork(1, "And then?")
        assert (await fork.rest()).output == OSLO

        by_name = await host.create("How many?", agent="cities")
        assert_type((await by_name.rest()).output, Any)
        assert (await by_name.rest()).output == OSLO
        assert (await (await host.create("Hi.")).rest()).output == "Hello."


async def test_over_the_wire_the_agent_tells_the_type_of_the_answer(
    db: Database, clock: Clock
) -> None:
    served = agent([OSLO_TEXT, OSLO_TEXT], clock, output=City)
    async with connected(db, [served], clock) as (_, host):
        known = await host.create("How many?", agent=Agent("demo", output=City))
        assert_type((await known.rest()).output, City)
        assert (await known.rest()).output == OSLO
        unknown = await (await host.create("How many?")).rest()
        with pytest.raises(ConfigError, match="the output type of agent is not known here: use "):
            _ = unknown.output
        assert unknown.output_as(City) == OSLO
        found = await host.chat(known.id, agent=Agent("demo", name="other", output=City))
        with pytest.raises(ConfigError, match="the output type of agent is not known here: use "):
            _ = (await found.rest()).output
