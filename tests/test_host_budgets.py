"""Budgets of a host in this process: set, read, raised and refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import Agent, Budgets, Host, Limits
from holdfast.chat.errors import InvalidInput
from holdfast.chat.stream import ChatChanged
from holdfast.chats import BudgetState
from holdfast.errors import ConfigError
from holdfast.kernel.limits import Totals
from holdfast.testing import ScriptedModel, call, say, usage
from holdfast.tools.subagents import subagents


@asynccontextmanager
async def hosting(path: Path, budgets: Any = None, **more: Any) -> AsyncIterator[Host]:
    model = ScriptedModel([], default=[say("Yes."), usage(input=100)])
    agent = Agent(model=model, **more)
    options = {} if budgets is None else {"budgets": budgets}
    async with holdfast.open(
        f"sqlite:///{path}/chats.db", [agent], titles=False, **options
    ) as host:
        yield host


async def test_a_report_has_the_limits_and_what_was_used(tmp_path: Path) -> None:
    budgets = Budgets(chat=Limits(tokens=1_000), day=Limits(cost=5))
    async with hosting(tmp_path, budgets) as host:
        chat = await host.create("hello", owner="ann")
        await chat.rest()
        report = await chat.budget()
        assert report.chat.limits == Limits(tokens=1_000)
        assert report.chat.used is not None
        assert (report.chat.used.steps, report.chat.used.tokens) == (1, 100)
        assert report.user == BudgetState(None, report.chat.used)
        assert report.day == BudgetState(Limits(cost=5), report.chat.used)
        assert (await host.budgets("bob")).day.used == Totals()
        assert (await host.budgets("ann")).chat == BudgetState(Limits(tokens=1_000), None)


async def test_a_chat_continues_once_its_budget_was_raised(tmp_path: Path) -> None:
    async with hosting(tmp_path, Budgets(chat=Limits(tokens=100))) as host:
        chat = await host.create("hello")
        await chat.rest()
        await chat.send("again")
        failure = (await chat.rest()).chat.error
        assert failure is not None
        assert failure.kind == "budget"
        report = await chat.set_budget(Limits(tokens=200))
        assert report.chat == BudgetState(Limits(tokens=200), report.chat.used, is_set=True)
        await chat.retry()
        assert (await chat.rest()).text == "Yes."
        report = await chat.set_budget(None)
        assert report.chat.limits == Limits(tokens=100)


async def test_budgets_of_one_user_replace_those_that_are_given(tmp_path: Path) -> None:
    configured = Budgets(chat=Limits(steps=9), day=Limits(tokens=100))
    async with hosting(tmp_path, configured) as host:
        report = await host.set_budgets(Budgets(day=Limits(tokens=300)), owner="ann")
        assert report.day == BudgetState(Limits(tokens=300), Totals(), is_set=True)
        assert report.chat == BudgetState(Limits(steps=9), None)
        assert (await host.budgets("bob")).day.limits == Limits(tokens=100)
        assert (await host.set_budgets(None, owner="ann")).day.limits == Limits(tokens=100)


async def test_a_child_chat_has_no_budget_of_its_own(tmp_path: Path) -> None:
    parent = Agent(
        name="agent",
        model=ScriptedModel([[call("spawn_agent", prompt="below")]], default="Done."),
        tools=subagents(["agent"]),
    )
    async with holdfast.open(f"sqlite:///{tmp_path}/chats.db", [parent], titles=False) as host:
        chat = await host.create("above")
        await chat.rest()
        (child,) = await host.list(parent=chat.id)
        with pytest.raises(InvalidInput, match=f"shares the budget of chat {chat.id}"):
            await (await host.chat(child.id)).set_budget(Limits(steps=1))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (Limits(steps=1), "use Budgets"),
        ({"day": Limits(steps=1)}, "use Budgets"),
    ],
)
async def test_what_is_not_a_budget_is_refused(tmp_path: Path, wrong: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        async with hosting(tmp_path, wrong):
            pass
    async with hosting(tmp_path) as host:
        with pytest.raises(InvalidInput, match=words):
            await host.set_budgets(wrong)
        chat = await host.create(None)
        with pytest.raises(InvalidInput, match="use Limits"):
            await chat.set_budget(Budgets())  # type: ignore[arg-type]


def test_a_limit_without_its_unit_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"budgets\.day is 5"):
        Budgets(day=5)  # type: ignore[arg-type]


async def test_a_title_is_the_prompt_when_the_budget_is_used_up(tmp_path: Path) -> None:
    model = ScriptedModel([[say("Yes."), usage(input=100)]])
    budgets = Budgets(user=Limits(tokens=100))
    url = f"sqlite:///{tmp_path}/chats.db"
    async with holdfast.open(url, [Agent(model=model)], budgets=budgets) as host:
        chat = await host.create("Greetings to everyone")
        await chat.rest()
        async for event in chat.stream(follow=True):
            if isinstance(event, ChatChanged) and event.chat.title is not None:
                assert event.chat.title == "Greetings to everyone"
                assert event.chat.titled_by is None
                break
        assert len(model.requests) == 1
