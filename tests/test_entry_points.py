"""Mistakes of a caller: the message says what to write, and the traceback ends at the caller."""

from __future__ import annotations

import subprocess
import sys
import traceback
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import Agent, Limits, Tool, approve, connect, model, tool
from holdfast.errors import ConfigError, UnknownKeyword
from holdfast.models import Anthropic, Fallback, Settings
from holdfast.options import Policy, Retry
from holdfast.testing import ScriptedModel

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = str(ROOT / "holdfast")
AGENT: Any = Agent
RUN: Any = Agent(model="demo").run
SYNC: Any = Agent(model="demo").run_sync
SETTINGS: Any = Settings
POLICY: Any = Policy
LIMITS: Any = Limits
RETRY: Any = Retry
TOOL: Any = tool
OPEN: Any = holdfast.open
CONNECT: Any = connect
MODEL: Any = model
REPLACE: Any = Agent(model="demo").replace


@pytest.mark.parametrize(
    ("wrong", "advice"),
    [
        (lambda: AGENT(model="demo", system_prompt="x"), "use instructions=…"),
        (lambda: AGENT(model="demo", output_type=int), "use output=…"),
        (lambda: AGENT(model="demo", response_format=int), "use output=…"),
        (
            lambda: AGENT(model="demo", retries=2),
            "use policy=Policy(repairs=…) for answers",
        ),
        (lambda: AGENT(model="demo", retries=2), "Policy(retry=Retry(attempts=…)) for failed mode"),
        (lambda: AGENT(model="demo", tool_retries=2), "the model reads why a call failed"),
        (lambda: AGENT(model="demo", output_retries=2), "use policy=Policy(repairs=…)"),
        (lambda: AGENT(model="demo", end_strategy="early"), "use stop_after=True of a tool"),
        (lambda: AGENT(model="demo", instrument=True), "use holdfast.instrument(…)"),
        (lambda: AGENT(model="demo", capabilities=[]), "use tools=[…], provider_tools=[…]"),
        (lambda: AGENT(model="demo", event_stream_handler=1), "use `async for event in agent.ru"),
        (lambda: RUN("x", usage=1), "use within=context in a tool"),
        (lambda: RUN("x", event_stream_handler=1), "use `async for event in agent.run(…)`"),
        (lambda: AGENT(model="demo", max_turns=2), "use limits=Limits(steps=…)"),
        (lambda: AGENT(model="demo", functions=[]), "use tools=[…]"),
        (lambda: AGENT(model="demo", model_settings={}), "use settings=Settings(…)"),
        (lambda: AGENT(model="demo", temperature=0), "use settings=Settings(temperature=…)"),
        (lambda: AGENT(model="demo", instruction="x"), "did you mean instructions?"),
        (lambda: AGENT(model="demo", xyzzy=1), "it takes model, models, "),
        (lambda: REPLACE(efort="low"), "did you mean effort?"),
        (lambda: RUN(input="x"), "use prompt=…"),
        (lambda: RUN("x", message_history=[]), "use history=result.history"),
        (lambda: SYNC("x", max_turns=2), "use limits=Limits(steps=…)"),
        (lambda: SETTINGS(max_tokens=9), "use max_output_tokens=…"),
        (lambda: SETTINGS(temprature=0), "did you mean temperature?"),
        (lambda: POLICY(retries=2), "use retry=Retry(attempts=…)"),
        (lambda: POLICY(bufer=2), "did you mean buffer?"),
        (lambda: POLICY(max_steps=2), "use Agent(limits=Limits(steps=…))"),
        (lambda: RUN("x", usage_limits=2), "use limits=Limits(…)"),
        (lambda: LIMITS(request_limit=2), "use steps=…"),
        (lambda: LIMITS(token=2), "did you mean tokens?"),
        (lambda: RETRY(max_attempts=2), "use attempts=…"),
        (lambda: TOOL(name_override="x"), "use name=…"),
        (lambda: TOOL(requires_approval=True), "use approval='ask'"),
        (lambda: TOOL(timout=3), "did you mean timeout?"),
        (lambda: OPEN(path="chats.db", agents=[]), "use url='sqlite:///chats.db'"),
        (lambda: OPEN("sqlite:///x.db", agent=1), "use agents=[…]"),
        (lambda: CONNECT("http://localhost", api_key="x"), "use token=…"),
        (lambda: MODEL("demo", key="x"), "use api_key=…"),
        (lambda: MODEL("openai:gpt-5", temperature=1), "use Agent(settings=Settings(temper"),
    ],
    ids=map(str, count()),
)
def test_an_argument_that_does_not_exist_is_answered_with_the_one_to_write(
    wrong: Callable[[], object], advice: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        wrong()
    assert advice in str(raised.value)


def test_an_unknown_argument_is_a_type_error_as_for_any_function() -> None:
    with pytest.raises(TypeError, match="Agent has no argument 'system_prompt': use instructions"):
        AGENT(model="demo", system_prompt="x")


def test_all_arguments_that_do_not_exist_are_answered_in_one_error() -> None:
    with pytest.raises(UnknownKeyword) as raised:
        AGENT(model="demo", output_type=int, system_prompt="x", output_retries=2)
    assert str(raised.value).splitlines() == [
        "Agent does not have these arguments:",
        "  output_type: use output=…",
        "  system_prompt: use instructions=…",
        "  output_retries: use policy=Policy(repairs=…) for answers of a wrong type",
    ]
    with pytest.raises(UnknownKeyword) as raised:
        RETRY(tries=1, xyzzy=2)
    lines = str(raised.value).splitlines()
    assert lines[1:3] == ["  tries: use attempts=…", "  xyzzy"]
    assert lines[3].startswith("it takes attempts, ")


async def test_a_new_chat_says_where_its_deps_come_from() -> None:
    async with holdfast.open("sqlite:///:memory:", [Agent(model="demo")], titles=False) as host:
        create: Any = host.create
        with pytest.raises(UnknownKeyword, match=r"use holdfast.open\(…, deps=provider\)"):
            await create("Hello?", deps=1)


def frames_of(error: BaseException) -> list[str]:
    return [frame.filename for frame in traceback.extract_tb(error.__traceback__)]


async def open_nothing() -> None:
    async with holdfast.open("sqlite:///:memory:", []):
        pass


async def connect_nowhere() -> None:
    async with connect("nowhere"):
        pass


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: AGENT(model="demo", eager=3),
        lambda: AGENT(model="demo", tools=[lambda untyped: untyped]),
        lambda: AGENT(model="demo", system_prompt=3),
        lambda: Agent(model="nobody:x"),
        lambda: AGENT(model="demo").replace(eager="never"),
        lambda: Agent(model="demo").run(),
        lambda: Agent(model="demo").run_sync(),
        lambda: SETTINGS(temperature="hot"),
        lambda: Policy(buffer=0),
        lambda: Fallback([]),
        lambda: Tool(name="a b", schema={}),
        lambda: tool(name="a b")(lambda: None),
        lambda: model("nobody:x"),
        lambda: Anthropic("", api_key="x"),
        lambda: approve(RUN),
    ],
    ids=map(str, count()),
)
def test_the_traceback_of_a_mistake_has_the_callers_frames_only(
    wrong: Callable[[], object],
) -> None:
    with pytest.raises(ConfigError) as raised:
        wrong()
    assert frames_of(raised.value) == [__file__, __file__]


@pytest.mark.parametrize("wrong", [open_nothing, connect_nowhere])
async def test_the_traceback_of_a_mistake_at_a_block_has_the_callers_frames_only(
    wrong: Callable[[], Any],
) -> None:
    with pytest.raises(ConfigError) as raised:
        await wrong()
    assert frames_of(raised.value) == [__file__, __file__]


def test_the_frames_of_the_callers_own_functions_inside_are_kept() -> None:
    def choose(name: str) -> ScriptedModel:
        raise ConfigError(f"{name} is not allowed: use another")

    with pytest.raises(ConfigError) as raised:
        Agent(model="any", models=choose)
    assert frames_of(raised.value) == [__file__, __file__]
    assert traceback.extract_tb(raised.value.__traceback__)[-1].name == "choose"


def test_all_frames_are_shown_for_debugging(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DEBUG", "1")
    with pytest.raises(ConfigError) as raised:
        Policy(buffer=0)
    assert any(name.startswith(PACKAGE) for name in frames_of(raised.value))


def test_a_program_with_a_mistake_prints_its_own_line_last() -> None:
    program = "from holdfast import Agent\nAgent(model='demo', system_prompt='Be brief.')\n"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, text=True, capture_output=True, timeout=60
    )
    assert done.stderr.splitlines() == [
        "Traceback (most recent call last):",
        '  File "<string>", line 2, in <module>',
        "holdfast.kernel.errors.UnknownKeyword: "
        "Agent has no argument 'system_prompt': use instructions=…",
    ]
