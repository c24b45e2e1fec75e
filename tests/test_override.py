"""`agent.override`: what a test puts in the place of an agent that other code holds."""

from __future__ import annotations

import asyncio

import pytest

import holdfast
from holdfast import Agent, tool
from holdfast.errors import ConfigError
from holdfast.kernel.override import overridden
from holdfast.testing import ScriptedModel, call, ports

support = Agent(model="anthropic:claude-opus-5-5", instructions="Be brief.", name="support")
"""As in the module of a program that a test imports: there is no key."""


@pytest.fixture(autouse=True)
def _no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)


async def answer_customer(question: str) -> str:
    """Code under test, which holds the agent."""
    return (await support.run(question)).text


async def test_a_run_of_code_that_holds_the_agent_uses_the_override() -> None:
    model = ScriptedModel(["Hello."])
    with support.override(model=model) as substitute:
        assert await answer_customer("Hi") == "Hello."
        assert substitute.instructions == "Be brief."
    assert len(model.requests) == 1
    with pytest.raises(ConfigError, match="anthropic needs a key: set ANTHROPIC_API_KEY"):
        await answer_customer("Hi")


async def test_tasks_and_threads_of_the_block_use_the_override() -> None:
    with support.override(model=ScriptedModel(["1", "2", "3"])):
        task = asyncio.create_task(answer_customer("Hi"))
        in_thread = await asyncio.to_thread(lambda: support.run_sync("Hi").text)
        assert {await task, in_thread, support.run_sync("Hi").text} == {"1", "2", "3"}


async def test_overrides_of_tasks_that_run_at_once_are_apart() -> None:
    async def one(number: int) -> str:
        with support.override(model=ScriptedModel([f"{number}"])):
            await asyncio.sleep(number)
            return await answer_customer("Hi")

    assert [*await asyncio.gather(one(1), one(2))] == ["1", "2"]


async def test_an_inner_override_adds_to_the_outer_one() -> None:
    @tool
    async def look() -> str:
        """Look."""
        return "seen"

    with support.override(model=ScriptedModel([call("look"), "Done."])):
        with support.override(tools=[look]):
            assert "seen" in str((await support.run("Hi")).history)
        assert overridden(support).tools == ()
    assert overridden(support) is support


async def test_another_agent_is_not_affected() -> None:
    other = support.replace(model=ScriptedModel(["Mine."]))
    with support.override(model=ScriptedModel(["Not mine."])):
        assert (await other.run("Hi")).text == "Mine."


async def test_a_host_that_is_opened_in_the_block_uses_the_override() -> None:
    with support.override(model=ScriptedModel(["Hello."]), ports=ports()):
        async with holdfast.open(
            "sqlite:///:memory:", [support], titles=False, ports=ports()
        ) as host:
            chat = await host.create("Hi")
            assert (await chat.rest()).text == "Hello."


def test_an_override_of_a_field_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean model"):
        support.override(modle="demo")  # type: ignore[call-overload]
