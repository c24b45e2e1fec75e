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
from holdfast.chats import BudgetState, BudgetUsage
from holdfast.errors import ConfigError
from holdfast.kernel.limits import LimitReached
from holdfast.options import ContextLimits, Policy
from holdfast.testing import ScriptedModel, call, say, usage
from holdfast.tools.subagents import subagents

NONE = BudgetUsage(0, 0, 0.0, 0.0)


@asynccontextmanager
async def hosting(path: Path, budgets: Any = None, **more: Any) -> AsyncIterator[Host]:
    model = ScriptedModel([], default=[say("Yes."), usage(input=100)])
    agent = Agent(**{"model": model, **more})
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
        assert (await host.budgets("bob")).day.used == NONE
        assert (await host.budgets("ann")).chat == BudgetState(Limits(tokens=1_000), None)


async def test_a_chat_continues_once_its_budget_was_raised(tmp_path: Path) -> None:
    async with hosting(tmp_path, Budgets(chat=Limits(tokens=100))) as host:
        chat = await host.create("hello")
        await chat.rest()
        await chat.send("again")
        result = await chat.rest()
        assert result.chat.error is not None
        assert result.chat.error.kind == "budget"
        assert result.limit == LimitReached("tokens", "chat", 100, 100)
        report = await chat.set_budget(Limits(tokens=200))
        assert report.chat == BudgetState(Limits(tokens=200), report.chat.used, is_set=True)
        await chat.retry()
        assert (await chat.rest()).text == "Yes."
        report = await chat.set_budget(None)
        assert report.chat.limits == Limits(tokens=100)


async def test_resume_continues_after_a_budget_as_after_other_limits(tmp_path: Path) -> None:
    async with hosting(tmp_path, Budgets(chat=Limits(tokens=100))) as host:
        chat = await host.create("hello")
        await chat.rest()
        await chat.send("again")
        await chat.rest()
        await chat.resume()
        assert (await chat.rest()).limit is not None
        await chat.set_budget(Limits())
        await chat.resume()
        assert (await chat.rest()).text == "Yes."


async def test_budgets_of_one_user_replace_those_that_are_given(tmp_path: Path) -> None:
    configured = Budgets(chat=Limits(steps=9), day=Limits(tokens=100))
    async with hosting(tmp_path, configured) as host:
        report = await host.set_budgets(Budgets(day=Limits(tokens=300)), owner="ann")
        assert report.day == BudgetState(Limits(tokens=300), NONE, is_set=True)
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


# --- cost ---

UNPRICED = ScriptedModel([], default="Yes.", name="ollama:tiny", priced=False)


async def test_a_budget_of_cost_needs_a_price_when_the_host_is_opened(tmp_path: Path) -> None:
    budgets = Budgets(day=Limits(cost=1))
    with pytest.raises(ConfigError, match=r"budgets\.day\.cost .* price of ollama:tiny is unknown"):
        async with hosting(tmp_path, budgets, model=UNPRICED):
            pass


async def test_a_budget_of_cost_needs_a_price_when_it_is_set(tmp_path: Path) -> None:
    async with hosting(tmp_path, model=UNPRICED) as host:
        with pytest.raises(ConfigError, match="price of ollama:tiny is unknown"):
            await host.set_budgets(Budgets(user=Limits(cost=1)))
        chat = await host.create(None)
        with pytest.raises(ConfigError, match="price of ollama:tiny is unknown"):
            await chat.set_budget(Limits(cost=1))
        assert (await chat.set_budget(Limits(tokens=1))).chat.limits == Limits(tokens=1)


@pytest.mark.parametrize("writes", ["titles", "summaries"])
async def test_models_of_titles_and_summaries_need_a_price_too(tmp_path: Path, writes: str) -> None:
    policy = Policy(context=ContextLimits(model=UNPRICED)) if writes == "summaries" else Policy()
    agent = Agent(model=ScriptedModel([]), policy=policy)
    titles: Any = UNPRICED if writes == "titles" else False
    url, budgets = f"sqlite:///{tmp_path}/chats.db", Budgets(chat=Limits(cost=1))
    with pytest.raises(ConfigError, match="price of ollama:tiny is unknown"):
        async with holdfast.open(url, [agent], titles=titles, budgets=budgets):
            pass


@pytest.mark.parametrize("is_set", ["before", "after"])
async def test_a_chat_cannot_choose_a_model_without_a_price(tmp_path: Path, is_set: str) -> None:
    async with hosting(tmp_path) as host:
        chat = await host.create(None)
        if is_set == "before":
            await host.set_budgets(Budgets(chat=Limits(cost=1)))
            with pytest.raises(ConfigError, match="price of ollama:none is unknown"):
                await chat.update(model="ollama:none")
        else:
            await chat.update(model="ollama:none")
            await host.set_budgets(Budgets(chat=Limits(cost=1)))
            await chat.send("hello")
            failure = (await chat.rest()).chat.error
            assert failure is not None
            assert failure.kind == "config"
            assert "price of ollama:none is unknown" in f"{failure.message} {failure.detail}"
