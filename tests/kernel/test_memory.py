"""What a run held is free when it ends, without waiting for the garbage collector."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextvars import ContextVar, copy_context
from typing import Any
from weakref import WeakSet, ref

import anyio.lowlevel
import pytest

from holdfast.agent import Agent
from holdfast.kernel.history import History
from holdfast.kernel.tool import tool
from holdfast.testing import ScriptedModel, call, fail, ports

HELD: ContextVar[object] = ContextVar("held")


class Held:
    """Something large that the caller's context refers to."""


@tool(effect="pure")
async def look() -> str:
    return "found"


@pytest.fixture(autouse=True)
def no_collection() -> Iterator[None]:
    """Only reference counts free anything during the test."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


async def ask(agent: Agent, held: Held) -> None:
    HELD.set(held)
    async with agent.run("?") as run:
        await run


async def test_a_finished_run_holds_nothing_of_its_callers_context() -> None:
    agent = Agent(model=ScriptedModel([call("look"), "done"]), tools=[look], ports=ports())
    held = Held()
    freed = ref(held)
    # The loop drops cancelled timers that are due next: in a program there is one before them.
    next_due = asyncio.get_running_loop().call_later(1, print)
    asking = asyncio.create_task(ask(agent, held), context=copy_context())
    del held
    await asking
    del asking
    await anyio.lowlevel.checkpoint()
    assert freed() is None
    next_due.cancel()


SCRIPTS: dict[str, list[Any]] = {
    "an answer": ["done"],
    "a call": [call("look"), "done"],
    "a retry": [fail(status=429), "done"],
    "an error": [fail(status=400)],
}


@pytest.mark.parametrize("script", SCRIPTS)
async def test_the_history_of_a_run_is_free_when_its_result_is(
    monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    live: WeakSet[History] = WeakSet()
    init = History.__init__

    def counted(history: History, *args: Any) -> None:
        live.add(history)
        init(history, *args)

    monkeypatch.setattr(History, "__init__", counted)
    agent = Agent(model=ScriptedModel(SCRIPTS[script]), tools=[look], ports=ports())
    asking = asyncio.create_task(ask(agent, Held()))
    await asyncio.wait([asking])
    assert (asking.exception() is not None) == (script == "an error")
    del asking
    await anyio.lowlevel.checkpoint()
    assert len(live) == 0
