"""Mistakes of users. Type checkers report each line with the mark `refused`, and no other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import holdfast
from holdfast import Agent, RunResult, ToolContext, tool
from holdfast.hooks import Context
from holdfast.messages import ToolCall
from holdfast.testing import tool_context
from holdfast.web import AsgiRequest


@dataclass
class Shop:
    name: str


@dataclass
class Invoice:
    total: int


@tool
async def price(context: ToolContext[Shop], item: str) -> int:
    """The price of an item."""
    return len(context.deps.title)  # refused


@tool(effect="pure")
def double(number: int) -> int:
    """Double a number."""
    return number * 2


price(tool_context(Invoice(5)), "tea")  # refused
double("2")  # refused
double(number=2, times=3)  # refused
text: str = double(2)  # refused


def gate(context: Context[Shop], call: ToolCall, values: Any) -> None:
    return None


def untyped_gate(context: Context, call: ToolCall, values: Any) -> None:
    print(context.deps.name)  # refused


def validate(context: Context[Shop], output: Invoice) -> None:
    return None


shop = Agent(model="demo", deps_type=Shop, gate=gate)
clerk = Agent(model="demo", output=Invoice)

Agent(model="demo", gate=gate, deps_type=Invoice)  # refused
Agent(model="demo", validate=validate, deps_type=Invoice, output=Invoice)  # refused
Agent(model="demo", effort="enormous")  # refused
Agent(model="demo", system_prompt="Be brief.")  # refused
Agent(model="demo", instructions=5)  # refused
Agent("demo", "Be brief.")  # refused
shop.replace(colour="blue")  # refused
clerk.run("?", within=Invoice(5))  # refused
shop.replace(validate=validate)  # refused
clerk.replace(validate=validate)  # refused
shop.replace(effort="enormous")  # refused
tool(effect="pur")  # refused


async def runs() -> None:
    await shop.run("Hello")  # refused
    await shop.run("Hello", deps=Invoice(5))  # refused
    await clerk.run("Hello", deps=Shop("ours"))  # refused
    shop.run_sync("Hello")  # refused
    shop.stream_sync("Hello", deps=5)  # refused
    result = await clerk.run("Hello")
    print(result.output.sum)  # refused
    print(result.output.upper())  # refused
    print(result.data)  # refused
    print(result.all_messages())  # refused
    clerk.run_stream("Hello")  # refused
    replaced: RunResult[str] = await clerk.replace(output=Shop).run("Hello")  # refused
    print(replaced, clerk.run("Hello").output)  # refused
    clerk.run("Hello", histroy=result.history)  # refused
    with shop.override(deps=5):  # refused
        pass
    with shop.override(efort="low"):  # refused
        pass


async def durable() -> None:
    async with holdfast.open("sqlite://", agents=[shop], deps=Shop) as host:  # refused
        chat = await host.create("Hello", agent=clerk)
        print((await chat.rest()).output.sum)  # refused
        await host.create("Hello", agent=Shop)  # refused


def wants_text(agent: Agent) -> str:
    return agent.run_sync("Hello").output


wants_text(clerk)  # refused
wants_text(shop)  # refused


def number_of(request: AsgiRequest) -> int:
    return request.user  # refused


async def in_an_application() -> None:
    async with holdfast.open("sqlite:///chats.db", [clerk], relay=True) as host:  # refused
        holdfast.asgi(host, identify=number_of)  # refused
        holdfast.asgi(host)  # refused
