"""Habits from other libraries: names, attributes and positional arguments that we do not have."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import pytest

import holdfast
from holdfast import Agent, Tool, approve, tool
from holdfast.chat.handle import Chat
from holdfast.chat.snapshots import ChatResult
from holdfast.errors import ConfigError, TooManyArguments
from holdfast.kernel.attribute_hints import FOREIGN_ATTRIBUTES, ForeignAttribute
from holdfast.kernel.import_hints import FOREIGN_NAMES
from holdfast.kernel.result import RunResult
from holdfast.models import Fallback, Settings
from holdfast.options import Policy

CLASSES: Mapping[str, type] = {
    one.__name__: one for one in (Agent, Chat, ChatResult, RunResult, Tool)
}
AGENT: Any = Agent(model="demo")
RESULT: Any = AGENT.run_sync("hi")


@tool(effect="pure")
def double(number: int) -> int:
    """Double a number."""
    return 2 * number


@pytest.mark.parametrize(
    ("read", "advice"),
    [
        (lambda: AGENT.tool, "Agent has no attribute 'tool': use @tool on a function"),
        (lambda: AGENT.tool_plain, "Agent(tools=[…])"),
        (lambda: AGENT.system_prompt, "use Agent(instructions=…)"),
        (lambda: AGENT.invoke, "use await agent.run(…), or agent.run_sync(…)"),
        (lambda: AGENT.stream, "use `async for event in agent.run(…)`"),
        (lambda: AGENT.run_stream, "agent.stream_sync(…)"),
        (lambda: AGENT.clone, "use agent.replace(…)"),
        (lambda: RESULT.data, "RunResult has no attribute 'data': use result.output"),
        (lambda: RESULT.final_output, "or result.text"),
        (lambda: RESULT.content, "use result.text"),
        (lambda: RESULT.messages, "use result.history"),
        (lambda: RESULT.all_messages(), "use result.history"),
        (lambda: RESULT.new_messages(), "use result.new"),
        (lambda: RESULT.interruptions, "use result.actions"),
        (lambda: RESULT.timestamp(), "your own clock"),
        (lambda: AGENT.to_cli(), "use await agent.chat()"),
        (lambda: AGENT.to_cli_sync(), "use agent.chat_sync()"),
        (lambda: ANY(double).func, "use tool.function"),
    ],
    ids=map(str, count()),
)
def test_an_attribute_of_another_library_is_answered_with_ours(
    read: Callable[[], object], advice: str
) -> None:
    with pytest.raises(AttributeError) as raised:
        read()
    assert advice in str(raised.value)


async def test_a_run_says_how_its_events_are_read() -> None:
    run: Any = AGENT.run("hi")
    with pytest.raises(AttributeError, match=r"use `async for event in agent\.run"):
        run.stream_text()
    run.close()


@pytest.mark.parametrize("name", CLASSES)
def test_every_foreign_attribute_is_answered_and_hides_none_of_ours(name: str) -> None:
    own = CLASSES[name]
    for attribute in FOREIGN_ATTRIBUTES[name]:
        assert isinstance(vars(own)[attribute], ForeignAttribute), attribute
        assert not hasattr(own, attribute)


def test_foreign_attributes_are_not_completed() -> None:
    assert {"run", "model", "toolset"} <= set(dir(AGENT))
    assert not FOREIGN_ATTRIBUTES["Agent"].keys() & set(dir(AGENT))
    assert not FOREIGN_ATTRIBUTES["RunResult"].keys() & set(dir(RESULT))


def test_an_attribute_that_no_library_has_is_reported_by_python_itself() -> None:
    with pytest.raises(AttributeError, match="'Agent' object has no attribute 'xyzzy'"):
        _ = AGENT.xyzzy


@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        (
            lambda: ANY(Agent)("Assistant", "Be brief."),
            "Agent takes only model by position: write Agent('provider:model', instructions=…, ",
        ),
        (lambda: AGENT.run("hi", []), "write agent.run(prompt, deps=…, history=…, "),
        (lambda: AGENT.replace("hi"), "agent.replace takes its arguments by name"),
        (lambda: ANY(Settings)(0.5), "write Settings(temperature=…, top_p=…, "),
        (lambda: ANY(Policy)(3), "write Policy(recoveries=…, "),
        (lambda: ANY(Fallback)("demo", "demo"), "write Fallback([first, second])"),
        (lambda: ANY(holdfast.model)("demo", "key"), "write model(name, api_key=…, "),
        (lambda: ANY(Tool)("weather"), "write Tool(name=…, "),
        (lambda: ANY(tool)("weather", "Reports it."), "write @tool, or @tool(name=…, …)"),
        (lambda: ANY(approve)(1, 2, 3), "write approve(action, arguments)"),
    ],
    ids=map(str, count()),
)
def test_too_many_positional_arguments_are_answered_with_their_names(
    wrong: Callable[[], object], advice: str
) -> None:
    with pytest.raises(TooManyArguments) as raised:
        wrong()
    assert advice in str(raised.value)
    assert isinstance(raised.value, TypeError)


def ANY(value: Any) -> Any:
    """The value without its type, as in a program that is not type-checked."""
    return value


def test_the_model_is_the_only_positional_argument_of_an_agent() -> None:
    positional = Agent("demo", instructions="Be brief.")
    named = Agent(model="demo", instructions="Be brief.")
    assert type(positional.model) is type(named.model)
    assert positional.instructions == named.instructions


@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        (lambda: ANY(tool)("weather"), "'weather' is not a function: use @tool, or @tool(name=…)"),
        (lambda: Agent("demo", tools=[AGENT]), "agent is an agent: use agent.as_tool()"),
        (lambda: AGENT.run([{"role": "user", "content": "x"}]), "holdfast.messages.from_openai"),
    ],
    ids=map(str, count()),
)
def test_a_value_of_another_library_is_answered_with_ours(
    wrong: Callable[[], object], advice: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        wrong()
    assert advice in str(raised.value)


@pytest.mark.parametrize(
    ("names", "advice"),
    [
        ("Agent, Runner", "'holdfast' has no attribute 'Runner': use `await agent.run(…)`"),
        ("RunContext", "use ToolContext"),
        ("Policy", "write `from holdfast.options import Policy`"),
        ("ToolFailed", "write `from holdfast.errors import ToolFailed`"),
        ("ScriptedModel", "write `from holdfast.testing import ScriptedModel`"),
        ("UsageLimits", "use Limits"),
        ("testing import TestModel", "use ScriptedModel of holdfast.testing"),
    ],
)
def test_a_name_of_another_library_or_namespace_is_answered_at_its_import(
    names: str, advice: str
) -> None:
    module, _, imported = names.rpartition(" import ")
    program = f"from {'.'.join(filter(None, ('holdfast', module)))} import {imported}"
    done = subprocess.run(
        [sys.executable, "-c", program], text=True, capture_output=True, timeout=60
    )
    assert done.stderr.splitlines()[-1].startswith("ImportError: ")
    assert advice in done.stderr


def test_a_name_that_is_nowhere_is_missing_as_in_any_module() -> None:
    assert not hasattr(holdfast, "xyzzy")


def test_a_name_of_another_namespace_is_a_missing_attribute() -> None:
    assert not hasattr(holdfast, "Policy")
    with pytest.raises(AttributeError, match="write `from holdfast import Agent`"):
        _ = holdfast.models.Agent  # type: ignore[attr-defined]


def test_no_foreign_name_is_one_of_ours() -> None:
    assert not FOREIGN_NAMES.keys() & set(dir(holdfast))


PYDANTIC_AI = (
    "ApprovalRequired",
    "ModelMessage",
    "ModelMessagesTypeAdapter",
    "NativeOutput",
    "RunUsage",
    "TextOutput",
    "ToolOutput",
    "ToolReturn",
    "UnexpectedModelBehavior",
    "UsageLimitExceeded",
    "UsageLimits",
    "capture_run_messages",
    "format_as_xml",
)


@pytest.mark.parametrize("name", PYDANTIC_AI)
def test_a_name_of_pydantic_ai_is_answered(name: str) -> None:
    with pytest.raises(AttributeError, match=f"no attribute '{name}': use "):
        getattr(holdfast, name)


@pytest.mark.parametrize("name", ["xyzzy", "TestModel"])
def test_a_name_that_a_namespace_does_not_have_is_an_attribute_error(name: str) -> None:
    assert not hasattr(holdfast.testing, name)


def test_the_usage_is_an_attribute() -> None:
    with pytest.raises(TypeError, match=r"write result\.usage, without parentheses"):
        RESULT.usage()
