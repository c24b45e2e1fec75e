"""Deps of runs in memory: which tools, hooks and agents get them, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import Any, Protocol

import pytest

from holdfast import Agent, Tool, ToolContext, approve, handoff, tool
from holdfast.errors import ConfigError
from holdfast.hooks import Context
from holdfast.models import DynamicBlock
from holdfast.testing import ScriptedModel, call, tool_context
from tests.kernel.runs import act, requests_of, scripted
from tests.kernel.test_hook_context import HOOKS, Recorder


@dataclass
class Shop:
    name: str = "tea shop"


class SaleShop(Shop):
    pass


class Bank:
    pass


class Named(Protocol):
    name: str


TEA = Shop()


@tool(effect="pure")
async def shop_name(context: ToolContext[Shop]) -> str:
    """The name of the shop."""
    return context.deps.name


def results(history: Any) -> list[str]:
    return [result.text for message in history for result in message.results]


async def test_every_hook_and_tool_has_the_deps_of_the_run() -> None:
    recorder = Recorder()
    agent = scripted([call("work"), "Done."], recorder.tool(), deps_type=Shop, **recorder.hooks())
    await agent.run("Go.", deps=TEA)
    assert recorder.contexts.keys() == HOOKS
    assert {id(context.deps) for context in recorder.contexts.values()} == {id(TEA)}


async def test_functions_of_the_instructions_have_the_deps() -> None:
    agent = scripted(["Hi."], deps_type=Shop, instructions=lambda c: f"You are {c.deps.name}.")
    await agent.run("?", deps=TEA)
    (request,) = requests_of(agent)
    assert [block.text for block in request.system] == ["You are tea shop."]


async def test_a_run_that_continues_has_its_own_deps() -> None:
    @tool(approval="ask")
    async def refund(context: ToolContext[Shop]) -> str:
        """Refund."""
        return context.deps.name

    agent = scripted([call("refund"), "Done."], refund, deps_type=Shop)
    waiting = await agent.run("Go.", deps=TEA)
    (action,) = waiting.actions
    done = await agent.run(
        history=waiting.history,
        resolve={action.call.id: approve(action)},
        deps=Shop("other shop"),
    )
    assert results(done.history) == ["other shop"]


def test_runs_without_await_have_deps() -> None:
    agent = scripted([call("shop_name"), "Done."], shop_name, deps_type=Shop)
    assert results(agent.run_sync("?", deps=TEA).history) == ["tea shop"]
    agent = scripted([call("shop_name"), "Done."], shop_name, deps_type=Shop)
    with agent.stream_sync("?", deps=TEA) as run:
        assert results(run.result.history) == ["tea shop"]


async def test_an_agent_without_a_deps_type_has_none() -> None:
    contexts: list[Context] = []

    def note(context: Context) -> list[str]:
        contexts.append(context)
        return []

    await scripted(["Hi."], active=note).run("?")
    assert contexts[0].deps is None


# --- Agents together -----------------------------------------------------------------------------


async def test_an_agent_that_is_a_tool_has_the_deps_of_the_outer_run() -> None:
    inner = scripted([call("shop_name"), "Tea."], shop_name, name="inner", deps_type=Shop)
    plain = scripted(["Plain."], name="plain")
    outer = scripted(
        [[call("inner", prompt="?"), call("plain", prompt="?")], "Done."],
        inner.as_tool(),
        plain.as_tool(),
        deps_type=SaleShop,
    )
    result = await outer.run("?", deps=SaleShop())
    assert results(result.history) == ["Tea.", "Plain."]


async def test_deps_go_with_a_handoff_to_an_agent_that_takes_them() -> None:
    clerk = scripted([call("shop_name"), "Tea."], shop_name, name="clerk", deps_type=Shop)
    first = scripted([call("handoff", agent="clerk")], handoff([clerk]), deps_type=Shop)
    result = await first.run("?", deps=TEA)
    assert results(result.history)[-1] == "tea shop"


async def test_after_a_handoff_an_agent_without_a_deps_type_has_no_deps() -> None:
    contexts: list[Context] = []

    def note(context: Context) -> list[str]:
        contexts.append(context)
        return []

    porter = scripted(["Come in."], name="porter", active=note)
    first = scripted([call("handoff", agent="porter")], handoff([porter]), deps_type=Shop)
    await first.run("?", deps=TEA)
    assert contexts[0].deps is None


def test_deps_that_an_agent_of_the_team_does_not_take_are_refused() -> None:
    bank = scripted([], name="bank", deps_type=Bank)
    first = scripted([], handoff([bank]), deps_type=Shop)
    with pytest.raises(ConfigError, match="deps is a Shop, and the deps_type of bank is Bank"):
        first.run("?", deps=TEA)


# --- Mistakes ------------------------------------------------------------------------------------


def test_a_run_without_deps_is_refused() -> None:
    agent = scripted([], deps_type=Shop, name="clerk")
    for run in (agent.run, agent.run_sync, agent.stream_sync):
        with pytest.raises(ConfigError) as caught:
            run("?")
        assert str(caught.value) == (
            "clerk needs deps of type Shop: pass them, as in agent.run(…, deps=Shop(…))"
        )


def test_deps_of_another_type_are_refused() -> None:
    with pytest.raises(ConfigError, match="deps is a Bank, and the deps_type of agent is Shop: "):
        scripted([], deps_type=Shop).run("?", deps=Bank())


def test_deps_for_an_agent_without_a_deps_type_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"no deps_type, .* set Agent\(deps_type=Shop\)"):
        scripted([]).run("?", deps=TEA)


async def test_a_type_that_cannot_be_checked_accepts_any_deps_but_none() -> None:
    for kind in (Named, Any, dict[str, int]):
        agent = scripted(["Hi."], deps_type=kind)
        with pytest.raises(ConfigError, match="needs deps of type"):
            agent.run("?")
    assert (await scripted(["Hi."], deps_type=Named).run("?", deps=TEA)).text == "Hi."
    assert (await scripted(["Hi."], deps_type=dict[str, int]).run("?", deps={})).text == "Hi."
    with pytest.raises(ConfigError, match="deps is a list"):
        scripted([], deps_type=dict[str, int]).run("?", deps=[])


def test_deps_instead_of_their_type_are_refused() -> None:
    with pytest.raises(ConfigError, match="pass the type of the deps, and the deps themselves to"):
        scripted([], deps_type=TEA)


def test_a_tool_with_other_deps_is_refused_when_the_agent_is_built() -> None:
    with pytest.raises(ConfigError, match=r"shop_name takes ToolContext\[Shop\], and agent has no"):
        scripted([], shop_name)
    with pytest.raises(ConfigError, match="and the deps_type of agent is Bank: use one type"):
        scripted([], shop_name, deps_type=Bank)
    scripted([], shop_name, act, deps_type=SaleShop)


def of_shop(context: Context[Shop], *_: object) -> Any:
    return context.deps.name


def of_anything(context: Context, *_: object) -> Any:
    return None


class Guarded:
    def __call__(self, context: Context[Shop], stopping: object) -> None: ...


@pytest.mark.parametrize(
    ("hooks", "user"),
    [
        ({"instructions": of_shop}, "of_shop (the instructions) takes Context[Shop]"),
        ({"instructions": ["Be brief.", DynamicBlock(of_shop)]}, "of_shop (the instructions)"),
        ({"gate": of_shop}, "of_shop (gate)"),
        ({"guard": Guarded()}, "Guarded (guard)"),
        ({"middleware": [of_shop]}, "of_shop (middleware)"),
        ({"active": of_shop}, "of_shop (active)"),
        ({"project": of_shop}, "of_shop (project)"),
        ({"tools": [tool(validate=of_shop)(act.function)]}, "of_shop (a hook of act)"),
    ],
    ids=map(str, count()),
)
def test_a_hook_with_other_deps_is_refused_when_the_agent_is_built(
    hooks: dict[str, Any], user: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        Agent(ScriptedModel([]), **hooks)
    assert str(caught.value).startswith(user)
    assert "agent has no deps_type: set Agent(deps_type=Shop)" in str(caught.value)
    with pytest.raises(ConfigError, match="the deps_type of agent is Bank: use one type for both"):
        Agent(ScriptedModel([]), deps_type=Bank, **hooks)
    Agent(ScriptedModel([]), deps_type=SaleShop, **hooks)


def test_a_hook_without_a_type_of_deps_is_for_every_agent() -> None:
    unreadable: Any = dict.get
    Agent(ScriptedModel([]), instructions=[of_anything, lambda context: ""], gate=unreadable)
    scripted([], deps_type=Bank, active=of_anything)


async def test_a_union_accepts_deps_of_each_of_its_types() -> None:
    for kind, deps in ((int | None, 3), (int | None, None), (Shop | Bank, TEA)):
        assert (await scripted(["Hi."], deps_type=kind).run("?", deps=deps)).text == "Hi."
    with pytest.raises(ConfigError, match=r"is int \| None: pass int \| None"):
        scripted([], deps_type=int | None).run("?", deps="3")
    with pytest.raises(ConfigError, match=r"needs deps of type tests\.\S+Shop \| .*deps=…"):
        scripted([], deps_type=Shop | Bank).run("?")


# --- Overrides and calls of tools ----------------------------------------------------------------


async def test_an_override_replaces_the_deps_of_code_under_test() -> None:
    agent = scripted([call("shop_name"), "Done."] * 2, shop_name, deps_type=Shop)
    with agent.override(deps=Shop("test shop")):
        with agent.override(name="other"):
            assert results((await agent.run("?", deps=TEA)).history) == ["test shop"]
    assert results((await agent.run("?", deps=TEA)).history) == ["tea shop"]
    with pytest.raises(ConfigError, match="deps is a Bank"):
        agent.override(deps=Bank())


async def test_a_decorated_tool_can_be_called_as_its_function() -> None:
    @tool
    def double(number: int) -> int:
        """Double."""
        return number * 2

    assert double(2) == 4
    assert double(number=3) == 6
    assert await shop_name(tool_context(TEA)) == "tea shop"
    client_tool = Tool(name="ask", schema={"type": "object"})
    with pytest.raises(TypeError, match="ask has no function: the client runs it"):
        client_tool()
    with pytest.raises(ConfigError, match="double is a tool already: use it, or make another of "):
        tool(double)
