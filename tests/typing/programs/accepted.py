"""Programs of users, in which no type checker finds anything. Checked, and never run."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, assert_type

import holdfast
from holdfast import (
    Agent,
    Chat,
    Limits,
    Run,
    RunResult,
    SyncRun,
    Tool,
    ToolContext,
    approve,
    handoff,
    tool,
)
from holdfast.errors import Rejected, RunFailed
from holdfast.events import OutputDelta, TextDelta
from holdfast.hooks import ChatInfo, Context, Deny, DepsProvider, Inject, Stopping
from holdfast.messages import Message, ToolCall
from holdfast.models import Settings
from holdfast.options import Policy, RelayOptions
from holdfast.testing import tool_context
from holdfast.web import AsgiApplication, AsgiRequest, AsgiUser, ServerLimits, StreamOptions


@dataclass
class Shop:
    """Deps: what the tools and hooks of a shop use."""

    name: str
    prices: dict[str, int]


class SaleShop(Shop):
    """Special deps, which fit where a `Shop` fits."""


@dataclass
class Invoice:
    total: int


@dataclass
class Refusal:
    reason: str


# --- Tools ---------------------------------------------------------------------------------------


@tool
def double(number: int, *, times: int = 1) -> int:
    """Double a number."""
    return number * 2 * times


@tool(effect="pure", timeout=5)
async def price(context: ToolContext[Shop], item: str) -> int:
    """The price of an item."""
    await context.progress(f"looking at {context.deps.name}")
    return context.deps.prices[item]


@tool(approval="ask")
async def refund(context: ToolContext[Shop], amount: int) -> str:
    """Refund an amount."""
    return f"{context.deps.name} refunds {amount}"


@tool
def history_length(context: ToolContext) -> int:
    """The number of messages, with deps of any type."""
    return len(context.history)


@tool
async def delegate(context: ToolContext[Shop], task: str) -> str:
    """Another agent, within the call."""
    result = await Agent("demo").run(task, within=context, limits=Limits(steps=3))
    return result.text


def plain(city: str) -> str:
    """A function that is not decorated."""
    return city


async def tools_keep_their_signature(context: ToolContext[Shop]) -> None:
    assert_type(double(2), int)
    assert_type(double(2, times=3), int)
    assert_type(await price(context, "tea"), int)
    assert_type(await refund(context, amount=5), str)
    assert_type(await price(tool_context(Shop("test", {})), "tea"), int)


TOOLS = [double, price, refund, history_length, delegate]
BY_SCHEMA: Tool = Tool(name="ask", schema={"type": "object"}, action="answer")

# --- Types of agents -----------------------------------------------------------------------------

assert_type(Agent(model="demo"), Agent[None, str])
assert_type(Agent("demo", output=Invoice), Agent[None, Invoice])
assert_type(Agent(model="demo", output=Invoice), Agent[None, Invoice])
assert_type(Agent(model="demo", output=list[Invoice]), Agent[None, list[Invoice]])
assert_type(Agent(model="demo", deps_type=Shop), Agent[Shop, str])
assert_type(Agent(model="demo", deps_type=Shop, output=Invoice), Agent[Shop, Invoice])
assert_type(Agent(model="demo", output={"type": "object"}), Agent[None, Any])
assert_type(Agent(model="demo", output=Invoice | Refusal), Agent[None, Any])
assert_type(Agent(model="demo", output=Invoice | Refusal, deps_type=Shop), Agent[Shop, Any])

either: Agent[None, Invoice | Refusal] = Agent(model="demo", output=Invoice | Refusal)
untyped: Agent = Agent(model="demo", tools=[double, plain, BY_SCHEMA])

# --- Hooks ---------------------------------------------------------------------------------------


def gate(context: Context[Shop], call: ToolCall, values: Any) -> Deny | None:
    return None if context.deps.prices else Deny("closed")


async def guard(context: Context[Shop], stopping: Stopping) -> Inject | None:
    return Inject("Name the shop.") if context.deps.name not in str(stopping.output) else None


def validate(context: Context[Shop], output: Invoice) -> None:
    if output.total > context.deps.prices["limit"]:
        raise Rejected("The total is too high.")


async def polite(context: Context, output: object) -> None:
    """A check that uses neither the deps nor the type fits every agent."""
    if "please" not in str(output):
        raise Rejected("Be polite.")


def active(context: Context) -> list[str]:
    """A hook that does not use the deps fits every agent."""
    return ["price"] if context.turn.steps else ["refund"]


async def instructions(context: Context[Shop]) -> str:
    return f"You work for {context.deps.name}."


def project(context: Context[Shop], messages: Sequence[Message]) -> Sequence[Message]:
    return messages[-20:]


assert_type(clerk_of_shop := Agent("demo", deps_type=Shop, output=Invoice), Agent[Shop, Invoice])
assert_type(clerk_of_shop.replace(validate=validate), Agent[Shop, Invoice])
clerk_of_shop.override(validate=None)
polite_either: Agent[None, Invoice | Refusal] = Agent(
    "demo", output=Invoice | Refusal, validate=polite
)
clerk = Agent(
    model="demo",
    name="clerk",
    deps_type=Shop,
    output=Invoice,
    instructions=["Be brief.", instructions],
    tools=[*TOOLS, plain],
    gate=gate,
    validate=validate,
    guard=guard,
    active=active,
    project=project,
    limits=Limits(steps=9),
    policy=Policy(buffer=9),
)
assert_type(clerk, Agent[Shop, Invoice])
assert_type(clerk.replace(name="b", settings=Settings(temperature=0)), Agent[Shop, Invoice])
assert_type(clerk.replace(output=Refusal), Agent[Shop, Refusal])
assert_type(clerk.replace(output=None), Agent[Shop, str])
assert_type(untyped.replace(deps_type=Shop, instructions=instructions), Agent[Shop, str])

# --- Runs ----------------------------------------------------------------------------------------


def total_of(result: RunResult[Invoice]) -> int:
    return result.output.total


async def runs(shop: Shop) -> None:
    assert_type(clerk.run("How much?", deps=shop), Run[Invoice])
    result = await clerk.run("How much?", deps=SaleShop("sale", {}))
    assert_type(result, RunResult[Invoice])
    assert_type(total_of(result), int)
    assert_type((await untyped.run("Hello", history=result.history)).output.upper(), str)
    assert_type((await either.run("Well?")).output, Invoice | Refusal)

    async with clerk.run("How much?", deps=shop) as run:
        async for event in run:
            match event:
                case TextDelta(text=text):
                    print(text)
                case OutputDelta():
                    assert_type(event.output_as(Invoice), Invoice | None)
                case _:
                    pass
    resolve = {action.call.id: approve(action) for action in result.actions}
    await clerk.run(deps=shop, history=result.history, resolve=resolve)


def runs_without_await(shop: Shop) -> None:
    assert_type(clerk.run_sync("How much?", deps=shop), RunResult[Invoice])
    with clerk.stream_sync("How much?", deps=shop) as run:
        assert_type(run, SyncRun[Invoice])
        for event in run:
            print(event)
        assert_type(run.result.output.total, int)
    try:
        untyped.run_sync("Hello")
    except RunFailed as error:
        print(error.result.text)


def tests_use_other_deps(shop: Shop) -> None:
    with clerk.override(model="demo", deps=SaleShop("test", {})) as substitute:
        assert_type(substitute.run_sync("How much?", deps=shop).output, Invoice)


# --- Agents together -----------------------------------------------------------------------------

triage = Agent(
    model="demo", name="triage", deps_type=Shop, tools=[handoff([clerk]), clerk.as_tool("ask")]
)


def describe(agent: Agent[Any, Any]) -> str:
    return f"{agent.name}: {agent.description}"


@asynccontextmanager
async def shop_of(info: ChatInfo) -> AsyncGenerator[Shop, None]:
    yield Shop(info.owner, {})


async def later_shop_of(info: ChatInfo) -> Shop:
    return Shop(info.labels["name"], {})


def plain_shop_of(info: ChatInfo) -> Shop:
    return Shop(info.parent or info.agent, {})


PROVIDERS: dict[str, DepsProvider[Shop]] = {
    "clerk": shop_of,
    "triage": later_shop_of,
    "other": plain_shop_of,
}


async def durable() -> None:
    describe(clerk)
    url = "sqlite:///chats.db"
    async with holdfast.open(url, agents=[untyped, clerk, triage], deps=PROVIDERS) as host:
        chat = await host.chat("id", owner="ann")
    async with holdfast.open("sqlite:///chats.db", agents=[clerk], deps=shop_of) as host:
        chat = await host.create("Hello", owner="ann")
        typed = await host.create("Hello", agent=clerk)
        assert_type(typed, Chat[Invoice])
        assert_type((await typed.rest()).output.total, int)
        assert_type((await host.chat("id", agent=clerk)), Chat[Invoice])
        assert_type((await chat.rest()).output, Any)
        assert_type((await chat.rest()).output_as(Invoice), Invoice | None)


def signed_in(request: AsgiRequest) -> str | None:
    return request.cookies.get("user")


async def later_signed_in(request: AsgiRequest) -> AsgiUser | None:
    name = signed_in(request)
    return None if name is None else AsgiUser(name, role="viewer")


async def in_an_application() -> AsgiApplication:
    async with holdfast.open("sqlite:///chats.db", [untyped], relay=RelayOptions()) as host:
        assert_type(holdfast.asgi(host, identify=signed_in), AsgiApplication)
        limits = ServerLimits(streams=StreamOptions(per_user=5))
        return holdfast.asgi(lambda: host, identify=later_signed_in, limits=limits)
