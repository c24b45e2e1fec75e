"""Agents written in Python: how they are named, found, changed by settings, and what is refused."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from holdfast import Agent, Limits, handoff
from holdfast.cli.agent_builder import BaseDirectories
from holdfast.cli.agent_registry import (
    AgentRegistry,
    AgentSources,
    NamedInPython,
    complete_agents,
)
from holdfast.cli.config_mistakes import Mistakes
from holdfast.cli.python_agents import PythonAgents, agents_of_program, load_agents
from holdfast.cli.settings import AgentSettings, HoldfastSettings, settings_of
from holdfast.errors import ConfigError
from holdfast.kernel.prepare import model_of
from holdfast.models import Fallback
from holdfast.testing import ScriptedModel

NUMBERS = count()
SOURCE = '''
from typing import TypedDict
from holdfast import Agent, Limits, serve_sync, tool
from holdfast.options import Policy, Retry

@tool(effect="pure")
def weather(city: str) -> str:
    """Weather."""
    return "rain"

policy = Policy(retry=Retry(attempts=3, first_delay=2))
limits = Limits(steps=5, tokens=1_000)
agent = Agent(
    name="weather",
    model="demo",
    tools=[weather],
    limits=limits,
    policy=policy,
    instructions="Short.",
)
other = Agent(name="other", model="demo")
agents = [agent, other]
named = {"first": agent, "second": other}
number = 5
empty = []
mixed = [agent, 5]

def function():
    return agents

async def later():
    return named

def fails():
    raise LookupError("no such region")

class Box:
    inner = agent

class Invoice(TypedDict):
    total: int
'''


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The name of a module in the current directory, with agents in it."""
    name = f"agents_of_a_user_{next(NUMBERS)}"  # a module is imported once
    (tmp_path / f"{name}.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    yield name
    sys.modules.pop(name, None)


async def refused(spec: str) -> str:
    with pytest.raises(ConfigError) as raised:
        await load_agents(spec)
    return str(raised.value)


def settings_agents(text: str, directory: Path) -> dict[str, Agent]:
    import tomllib

    mistakes = Mistakes("the settings")
    settings = settings_of(tomllib.loads(text), mistakes)
    mistakes.end()
    place = BaseDirectories(str(directory), str(directory))
    return dict(asyncio.run(complete_agents(settings, place, {})))


# --- what a name may stand for -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("agent", ["weather"]),
        ("agents", ["weather", "other"]),
        ("named", ["first", "second"]),
        ("function", ["weather", "other"]),
        ("later", ["first", "second"]),
        ("Box.inner", ["weather"]),
    ],
)
async def test_a_name_stands_for_an_agent_several_or_a_function(
    module: str, name: str, names: list[str]
) -> None:
    assert [agent.name for agent in await load_agents(f"{module}:{name}")] == names


async def test_a_program_may_pass_what_a_module_may_name() -> None:
    agent = Agent(model="demo", name="a")

    async def later() -> list[Agent]:
        return [agent]

    for given in (agent, [agent], {"a": agent}, lambda: agent, later):
        assert [one.name for one in await agents_of_program(given)] == ["a"]


async def test_a_missing_name_is_refused_with_the_agents_that_are_there(module: str) -> None:
    assert await refused(f"{module}:agnet") == (
        f"{module}:agnet: {module} has no 'agnet': did you mean agent? "
        "(agents in it: agent, other, agents, named)"
    )


@pytest.mark.parametrize("suffix", ["", ".py", ":"])
async def test_a_module_alone_is_refused_with_the_agents_in_it(module: str, suffix: str) -> None:
    assert await refused(f"{module}{suffix}") == (
        f"{module}{suffix}: write module:name, as in app:agent "
        f"(agents in {module}: agent, other, agents, named)"
    )


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("number", "is a value of type int: name an Agent, a list or mapping of agents"),
        ("weather", "is a value of type Tool: name an Agent"),
        ("Box", "is a value of type type: name an Agent"),
        ("empty", "has no agents: add at least one"),
        ("mixed", "contains a value of type int: use only agents"),
    ],
)
async def test_a_value_that_is_not_an_agent_is_refused_with_its_type(
    module: str, name: str, says: str
) -> None:
    assert f"{module}:{name} {says}" in await refused(f"{module}:{name}")


# --- errors in the user's module -----------------------------------------------------------------


async def test_an_error_in_a_module_is_shown_with_the_frames_of_the_user_alone(
    module: str, tmp_path: Path
) -> None:
    path = tmp_path / f"{module}.py"
    path.write_text("def f():\n    return 1 / 0\n\nx = f()\n")
    assert (await refused(f"{module}:agent")).splitlines()[:3] == [
        f"{module}:agent: {module} cannot be imported",
        "Traceback (most recent call last):",
        f'  File "{path}", line 4, in <module>',
    ]
    text = await refused(f"{module}:agent")
    assert text.endswith("ZeroDivisionError: division by zero")
    assert "importlib" not in text
    assert "user_modules" not in text


async def test_a_refused_agent_is_shown_with_the_line_that_makes_it(
    module: str, tmp_path: Path
) -> None:
    path = tmp_path / f"{module}.py"
    path.write_text('from holdfast import Agent\nagent = Agent(model="demo", eager="no")\n')
    lines = (await refused(f"{module}:agent")).splitlines()
    assert lines[1:3] == [
        f'  File "{path}", line 2, in <module>',
        '    agent = Agent(model="demo", eager="no")',
    ]
    assert lines[-1] == "eager is 'no': use 'pure' or 'all'"
    assert sum(line.startswith("  File ") for line in lines) == 1


async def test_a_syntax_error_is_shown_with_its_place(module: str, tmp_path: Path) -> None:
    (tmp_path / f"{module}.py").write_text("x = 1\ndef f(:\n")
    text = await refused(f"{module}:agent")
    assert f'File "{tmp_path / module}.py", line 2' in text
    assert text.endswith("SyntaxError: invalid syntax")


async def test_an_error_of_a_function_is_shown_with_its_line(module: str) -> None:
    text = await refused(f"{module}:fails")
    assert "the function raised an error" in text
    assert 'raise LookupError("no such region")' in text
    assert text.endswith("LookupError: no such region")


async def test_a_module_that_serves_while_it_is_imported_is_refused(
    module: str, tmp_path: Path
) -> None:
    with (tmp_path / f"{module}.py").open("a") as file:
        file.write("\nserve_sync(agent)\n")
    text = await refused(f"{module}:agent")
    assert 'put the call after if __name__ == "__main__":' in text


# --- in the settings -----------------------------------------------------------------------------


def test_settings_change_single_fields_of_an_agent_written_in_python(
    module: str, tmp_path: Path
) -> None:
    made = settings_agents(
        f"""
        [agents.mine]
        python = "{module}:agent"
        effort = "low"
        limits = {{steps = 9}}
        [agents.mine.settings]
        temperature = 0.5
        [agents.mine.policy.retry]
        attempts = 7
        """,
        tmp_path,
    )
    agent = made["mine"]
    assert (agent.name, agent.effort, agent.instructions) == ("mine", "low", "Short.")
    assert list(agent.toolset) == ["weather"]
    assert agent.settings.temperature == 0.5
    assert agent.limits == Limits(steps=9, tokens=1_000)
    assert agent.policy.retry.attempts == 7
    assert agent.policy.retry.first_delay == 2


def test_a_table_takes_the_agent_of_its_name_from_several(module: str, tmp_path: Path) -> None:
    made = settings_agents(f'[agents.other]\npython = "{module}:agents"', tmp_path)
    assert list(made["other"].toolset) == []
    with pytest.raises(ConfigError, match=r"agents\.x\.python: .* has several agents \(weather, "):
        settings_agents(f'[agents.x]\npython = "{module}:agents"', tmp_path)


def test_an_async_function_may_make_the_agent_of_a_table(module: str, tmp_path: Path) -> None:
    made = settings_agents(f'[agents.second]\npython = "{module}:later"', tmp_path)
    assert made["second"].name == "second"


def test_agents_keep_the_order_of_the_file(module: str, tmp_path: Path) -> None:
    text = f'[agents.a]\nmodel = "demo"\ntools = []\n[agents.b]\npython = "{module}:agent"'
    assert list(settings_agents(text, tmp_path)) == ["a", "b"]


def test_tools_and_subagents_of_the_settings_are_those_of_the_agent(
    module: str, tmp_path: Path
) -> None:
    made = settings_agents(
        f"""
        [agents.a]
        python = "{module}:agent"
        subagents = ["b"]
        handoffs = ["b"]
        [agents.b]
        python = "{module}:agent"
        tools = ["ask_user"]
        """,
        tmp_path,
    )
    assert list(made["a"].toolset)[:2] == ["weather", "spawn_agent"]
    assert list(made["a"].toolset["handoff"].agents) == ["b"]
    assert list(made["b"].toolset) == ["ask_user"]


def test_agents_that_an_agent_can_reach_are_served_with_it(tmp_path: Path) -> None:
    inner = Agent("demo", name="billing", description="Bills.")
    outer = Agent("demo", name="triage", tools=[handoff([inner]), inner.as_tool()])
    for given in ((outer,), (outer, inner), (inner, outer)):
        named = NamedInPython(given=given, settings=AgentSettings())
        place = BaseDirectories(str(tmp_path), str(tmp_path))
        mistakes = Mistakes("the settings")
        sources = AgentSources(HoldfastSettings(), place, {}, named, PythonAgents())
        agents = AgentRegistry(sources, mistakes).agents
        mistakes.end()
        assert sorted(agents) == ["billing", "triage"]
        assert next(iter(agents)) == given[0].name


def test_the_model_reads_the_descriptions_of_the_agents_that_the_settings_name(
    module: str, tmp_path: Path
) -> None:
    made = settings_agents(
        f"""
        [agents.a]
        python = "{module}:agent"
        subagents = ["b"]
        handoffs = ["b", "a"]
        [agents.b]
        python = "{module}:agent"
        description = "Reads logs."
        """,
        tmp_path,
    )
    spawn, handoff = made["a"].toolset["spawn_agent"], made["a"].toolset["handoff"]
    assert "\n- b: Reads logs." in str(spawn.spec.schema["properties"]["agent"]["description"])
    assert "\n- b: Reads logs.\n- a" in handoff.spec.description


def test_mistakes_about_agents_written_in_python_are_told_together(
    module: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError) as raised:
        settings_agents(
            f"""
            [agents.a]
            python = "{module}:agnet"
            [agents.b]
            python = "{module}:agent"
            dir = "."
            subagents = ["nobody"]
            handoffs = ["B"]
            [agents.b.policy.context]
            keep = 80
            """,
            tmp_path,
        )
    first, *lines = str(raised.value).splitlines()
    assert first == "the settings cannot be used (5 mistakes):"
    assert [line.strip().partition(": ")[0] for line in lines] == [
        "agents.a.python",
        "agents.b.policy.context",
        "agents.b.dir",
        "agents.b.subagents",
        "agents.b.handoffs",
    ]
    assert lines[-1].endswith("no agent is named 'B': did you mean b? (agents: a, b)")


def test_a_chat_may_choose_the_own_model_of_an_agent_and_no_local_one(
    tmp_path: Path, module: str
) -> None:
    made = settings_agents(f'[agents.a]\npython = "{module}:agent"', tmp_path)["a"]
    model = ScriptedModel([])
    own = made.replace(model=model)
    assert model_of(made.replace(model="demo:demo")) is model_of(made)
    assert model_of(own) is model
    with pytest.raises(ConfigError, match="ollama is not configured on this server"):
        made.replace(model="ollama:small")


def test_several_models_in_the_settings_are_used_one_after_the_other(tmp_path: Path) -> None:
    text = '[agents.a]\nmodel = ["ollama:small", "demo"]\ntools = []'
    model = model_of(settings_agents(text, tmp_path)["a"])
    assert isinstance(model, Fallback)
    assert model.name == "ollama:small"


def test_an_output_of_the_settings_is_a_type_or_a_schema(module: str, tmp_path: Path) -> None:
    text = f'[agents.a]\ntools = []\noutput = "{module}:Invoice"'
    assert settings_agents(text, tmp_path)["a"].output is sys.modules[module].Invoice
    text = '[agents.a]\ntools = []\n[agents.a.output]\ntype = "object"\nproperties = {}'
    assert settings_agents(text, tmp_path)["a"].output == {"type": "object", "properties": {}}
