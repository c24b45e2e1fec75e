"""The agent: one immutable value, checked when it is built."""

from __future__ import annotations

import inspect
import os
import pydoc
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import pytest

import holdfast
from holdfast import Agent, Limits, Tool, approve, tool
from holdfast.errors import ConfigError, FormatError, RunFailed
from holdfast.events import Delta, Finished
from holdfast.hooks import Allow, Context, Stopping
from holdfast.kernel.prepare import model_of
from holdfast.messages import Message, Text, ToolCall, ToolResult, dump, load
from holdfast.models import Block, Fallback, ProviderTool, Request, Settings
from holdfast.options import ContextLimits, Policy
from holdfast.testing import ScriptedModel, call, fail, ports
from tests.namespace import FRONT, NAMESPACES, public_names


def add(a: int, b: int = 1) -> int:
    """The sum of two numbers."""
    return a + b


async def shout(text: str) -> str:
    """Make it loud."""
    return text.upper()


class Search:
    """A tool that is an object: it has what a Tool has."""

    name = "search"
    description = "Search the archive."
    schema: Mapping[str, Any] = {
        "type": "object",
        "properties": {"query": {"type": "string"}},
        "required": ["query"],
    }
    effect = "pure"
    timeout = 30.0

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def __call__(self, query: str) -> str:
        self.asked.append(query)
        return f"found {query}"


SEARCH = ProviderTool("search", {"max_uses": 3})


def agent(*turns: Any, **options: Any) -> Agent:
    return Agent(**{"model": ScriptedModel(list(turns)), "ports": ports(), **options})


def results(messages: Sequence[Message]) -> list[str]:
    return [result.text for message in messages for result in message.results]


# --- Immutable ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["model", "tools", "instructions", "policy", "anything"])
def test_nothing_of_an_agent_can_be_set(name: str) -> None:
    one = agent()
    with pytest.raises(AttributeError):
        setattr(one, name, None)


def test_an_agent_keeps_what_it_was_built_with() -> None:
    tools: list[Tool] = [tool(add)]
    blocks = [Block("Be brief.")]
    one = agent(tools=tools, instructions=blocks)
    tools.append(tool(shout))
    blocks.clear()
    assert list(one.toolset) == ["add"]
    assert one.system == (Block("Be brief."),)


def test_the_tools_of_an_agent_cannot_be_changed() -> None:
    one = agent(tools=[add])
    with pytest.raises(TypeError):
        one.toolset["shout"] = tool(shout)  # type: ignore[index]


def test_replace_gives_another_agent_and_leaves_the_first_as_it_is() -> None:
    one = agent(tools=[add], instructions="Be brief.")
    assert (list(one.toolset), one.system[0].text) == (["add"], "Be brief.")
    two = one.replace(tools=[shout], instructions="Be loud.", effort="high")
    assert (list(two.toolset), two.system[0].text, two.effort) == (["shout"], "Be loud.", "high")
    assert (list(one.toolset), one.system[0].text, one.effort) == (["add"], "Be brief.", None)
    assert two.model is one.model
    assert two.ports is one.ports


def test_replace_checks_like_building() -> None:
    with pytest.raises(ConfigError, match="eager"):
        agent().replace(eager="some")  # type: ignore[call-overload]
    with pytest.raises(ConfigError, match="two tools"):
        agent().replace(tools=[add, add])


def test_replace_refuses_what_an_agent_does_not_have() -> None:
    with pytest.raises(TypeError, match="colour"):
        agent().replace(colour="blue")  # type: ignore[call-overload]


def test_an_agent_has_no_option_that_is_not_named_but_its_model() -> None:
    assert Agent(ScriptedModel([]), name="first").name == "first"
    with pytest.raises(TypeError):
        Agent(ScriptedModel([]), "Be brief.")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="colour"):
        agent(colour="blue")


# --- Refused ------------------------------------------------------------------------------------


class NoName:
    window = None

    def stream(self, request: Request) -> None: ...


class NoWindow:
    name = "no:window"

    def stream(self, request: Request) -> None: ...


@pytest.mark.parametrize(
    ("options", "says"),
    [
        pytest.param({"model": None}, "stream", id="no_model"),
        pytest.param({"model": 42}, "stream", id="number_as_model"),
        pytest.param({"model": object()}, "stream", id="object_as_model"),
        pytest.param({"model": NoName()}, "NoName.*name", id="model_without_name"),
        pytest.param({"model": NoWindow()}, "NoWindow.*window", id="model_without_window"),
        pytest.param({"eager": "some"}, "'pure' or 'all'", id="eager"),
        pytest.param(
            {"effort": "extreme"}, "'extreme': use one of none, minimal, low, .*, max", id="effort"
        ),
        pytest.param({"instructions": None}, "instructions.*text", id="no_instructions"),
        pytest.param({"instructions": 5}, "instructions.*text", id="number_as_instructions"),
        pytest.param({"instructions": [5]}, "instructions.*Block", id="numbers_as_blocks"),
        pytest.param({"tools": [5]}, "5 is not a tool.*@tool", id="number_as_tool"),
        pytest.param({"tools": ["add"]}, "'add' is not a tool", id="text_as_tool"),
        pytest.param({"tools": add}, "tools.*list", id="one_tool"),
        pytest.param({"tools": tool(add)}, "tools.*list", id="one_tool_object"),
        pytest.param({"tools": "add"}, "tools.*list", id="text_as_tools"),
        pytest.param({"tools": [Search]}, "Search is a class.*instance", id="class_as_tool"),
        pytest.param({"tools": [add, tool(add)]}, "two tools are named 'add'", id="duplicate"),
        pytest.param({"tools": [lambda x: x]}, "<lambda>.*name", id="lambda"),
        pytest.param({"settings": {"temperature": 1}}, "settings.*Settings", id="settings"),
        pytest.param({"policy": {"max_steps": 1}}, "policy.*Policy", id="policy"),
        pytest.param({"ports": None}, "ports.*Ports", id="ports"),
        pytest.param({"gate": "closed"}, "gate.*function", id="gate"),
        pytest.param({"guard": True}, "guard.*function", id="guard"),
        pytest.param({"active": ["add"]}, "active.*function", id="active"),
        pytest.param({"project": 1}, "project.*function", id="project"),
        pytest.param({"middleware": (1,)}, "middleware.*function", id="middleware"),
        pytest.param({"middleware": add}, "middleware.*list", id="one_middleware"),
        pytest.param({"model": "gpt-5"}, "'openai:gpt-5'", id="model_without_provider"),
        pytest.param({"model": "acme:one"}, "no provider 'acme'", id="unknown_provider"),
        pytest.param({"model": ""}, "names no provider", id="empty_name"),
        pytest.param({"provider_tools": SEARCH}, "provider_tools.*list", id="one_provider_tool"),
        pytest.param({"provider_tools": ["web"]}, r"'web'.*ProviderTool\(", id="text_as_provider"),
        pytest.param({"provider_tools": [SEARCH, SEARCH]}, "two tools.*'search'", id="provided_2"),
        pytest.param(
            {"provider_tools": [SEARCH], "tools": [Search()]}, "two tools.*'search'", id="clash"
        ),
        pytest.param({"provider_tools": [ProviderTool("")]}, "named ''", id="nameless"),
        pytest.param(
            {"provider_tools": [ProviderTool("x", [1])]},  # type: ignore[arg-type]
            "options=",
            id="provider_options",
        ),
        pytest.param(
            {"provider_tools": [ProviderTool("x", {}, {"acme": 1})]},  # type: ignore[dict-item]
            "native=",
            id="provider_native",
        ),
        pytest.param({"output": "City"}, "output is 'City': use a type", id="text_as_output"),
        pytest.param({"output": add}, "use a type", id="function_as_output"),
        pytest.param({"output": 5}, "output is 5.*dataclass", id="number_as_output"),
        pytest.param({"output": {"type": "no"}}, "schema is not valid", id="bad_schema"),
    ],
)
def test_what_cannot_be_right_is_refused_with_what_to_do(
    options: dict[str, Any], says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        agent(**options)


def test_what_can_be_right_is_taken() -> None:
    def gate(_context: Context, call: ToolCall, values: Mapping[str, Any]) -> Allow:
        return Allow()

    def guard(_context: Context, stopping: Stopping) -> None: ...

    async def middleware(
        _context: Context, call: ToolCall, values: Mapping[str, Any], proceed: Any
    ) -> object:
        return await proceed()

    one = agent(
        tools=(add, tool(effect="pure")(shout), Search()),
        instructions=(Block("a", cache=True), Block("b")),
        effort="none",
        settings=Settings(temperature=0),
        limits=Limits(steps=5),
        gate=gate,
        guard=guard,
        middleware=[middleware],
        active=lambda context: ["add"],
        project=lambda context, messages: messages,
        eager="all",
        provider_tools=[ProviderTool("web_search"), ProviderTool("code", {}, {"acme": {"a": 1}})],
        output=list[int],
    )
    assert [provided.name for provided in one.provider_tools] == ["web_search", "code"]
    assert list(one.toolset) == ["add", "shout", "search"]
    assert one.middleware == (middleware,)


def test_instructions_are_one_cached_block_and_none_when_empty() -> None:
    assert agent(instructions="Be brief.").system == (Block("Be brief.", cache=True),)
    assert agent().system == ()


# --- A model by its name ------------------------------------------------------------------------


def test_a_model_may_be_given_by_its_name() -> None:
    one = Agent(model="ollama:qwen3")
    assert isinstance(one.model, holdfast.models.OpenAIChat)
    assert one.model.name == "ollama:qwen3"
    assert one.replace(effort="low").model is one.model


def test_an_agent_may_say_how_models_are_made_of_their_names() -> None:
    agent = Agent(model="ours:small", models=lambda name: ScriptedModel(name=name))
    assert model_of(agent).name == "ours:small"
    assert model_of(agent.replace(model="ours:large")).name == "ours:large"
    with pytest.raises(ConfigError, match="models is 5: use a function, or None"):
        Agent(model="demo", models=5)  # type: ignore[call-overload]
    with pytest.raises(ConfigError, match="model is a NoneType"):
        agent.replace(model="ours:none", models=lambda name: None)  # type: ignore[arg-type, return-value]


def test_limits_of_the_context_take_a_model_and_say_how_to_make_one() -> None:
    with pytest.raises(ConfigError, match=r"use holdfast\.model\('a:b'\)"):
        ContextLimits(model="a:b")  # type: ignore[arg-type]


# --- What requests begin with -------------------------------------------------------------------


def test_agents_that_begin_alike_have_the_same_cache_key() -> None:
    one = agent(tools=[add], instructions="Be brief.", provider_tools=[SEARCH])
    assert one.replace(effort="high", limits=Limits(steps=3)).cache_key == one.cache_key
    again = agent(tools=[tool(add)], instructions="Be brief.", provider_tools=[SEARCH])
    assert again.cache_key == one.cache_key
    others = [
        one.replace(instructions="Be long."),
        one.replace(tools=[add, shout]),
        one.replace(provider_tools=[]),
        one.replace(provider_tools=[ProviderTool("search", {"max_uses": 4})]),
        one.replace(tools=[tool(native={"acme": {"type": "add"}})(add)]),
    ]
    assert len({each.cache_key for each in [one, *others]}) == 6
    assert len(one.cache_key) == 32


def test_a_cache_key_is_the_same_in_every_process() -> None:
    program = """
import holdfast
def add(a: int, b: list[str] = []) -> int: ...
class Mute:
    name, window = "mute:1", None
    def stream(self, request): ...
agent = holdfast.Agent(model=Mute(), tools=[add], instructions="Be brief. \\ud800")
print(agent.cache_key)
"""
    keys = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(keys) == 1


# --- Tools --------------------------------------------------------------------------------------


async def test_a_plain_function_is_a_tool() -> None:
    one = agent(call("add", a=2), "3", tools=[add])
    assert isinstance(one.tools[0], Tool)
    spec = one.toolset["add"].spec
    assert (spec.name, spec.description) == ("add", "The sum of two numbers.")
    assert spec.schema["required"] == ["a"]
    assert results((await one.run("?")).history) == ["3"]


async def test_an_async_function_and_a_method_are_tools() -> None:
    class Memory:
        def __init__(self) -> None:
            self.kept: list[str] = []

        async def keep(self, text: str) -> str:
            """Keep a text."""
            self.kept.append(text)
            return "kept"

    memory = Memory()
    turn = [call("shout", text="hi"), call("keep", text="milk")]
    one = agent(turn, "Done.", tools=[shout, memory.keep])
    assert results((await one.run("?")).history) == ["HI", "kept"]
    assert memory.kept == ["milk"]


async def test_an_object_with_the_protocol_of_a_tool_is_one() -> None:
    search = Search()
    one = agent(call("search", query="x"), "Done.", tools=[search])
    made = one.toolset["search"]
    assert (made.description, made.effect, made.timeout) == ("Search the archive.", "pure", 30.0)
    assert made.spec.schema["required"] == ["query"]
    assert results((await one.run("?")).history) == ["found x"]
    assert search.asked == ["x"]


async def test_no_property_of_such_an_object_is_overlooked() -> None:
    class Careful(Search):
        effect = "once"
        approval = "ask"
        exclusive = True
        label = "Search with care"
        max_result = 1_000
        on_steer = "cancel"
        parallel = True
        native: Mapping[str, Any] = {"acme": {"type": "search_1"}}

        def stop_after(self, result: ToolResult) -> bool:
            return True

        def describe(self, values: Mapping[str, Any]) -> str:
            return "searching"

        def validate(self, values: Mapping[str, Any]) -> str | None:
            return None

        def preview(self, values: Mapping[str, Any]) -> str:
            return f"would search for {values['query']}"

    careful = Careful()
    one = agent(call("search", query="x"), tools=[careful])
    made = one.toolset["search"]
    assert (made.approval, made.exclusive, made.label) == ("ask", True, "Search with care")
    assert (made.max_result, made.on_steer, made.parallel) == (1_000, "cancel", True)
    assert (made.stop_after, made.describe) == (careful.stop_after, careful.describe)
    assert (made.validate, made.preview) == (careful.validate, careful.preview)
    assert made.spec.native == {"acme": {"type": "search_1"}}
    result = await one.run("?")
    assert result.reason == "requires_action"
    assert careful.asked == []


async def test_a_schema_with_a_callable_is_a_tool() -> None:
    async def echo(**values: Any) -> Any:
        return values

    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    one = agent(call("echo", n=1), "Done.", tools=[Tool(name="echo", schema=schema, function=echo)])
    assert results((await one.run("?")).history) == ['{"n":1}']


def test_a_partial_is_a_tool_once_it_has_a_name() -> None:
    assert list(agent(tools=[tool(name="plus_two")(partial(add, b=2))]).toolset) == ["plus_two"]


def test_tools_keep_the_order_in_which_they_were_given() -> None:
    named = [tool(name=f"t{n}")(add) for n in (3, 1, 2)]
    assert list(agent(tools=named).toolset) == ["t3", "t1", "t2"]


def test_two_agents_may_share_a_tool() -> None:
    shared = tool(add)
    assert agent(tools=[shared]).toolset["add"] is agent(tools=[shared]).toolset["add"]


# --- What is said early rather than late --------------------------------------------------------


@pytest.mark.parametrize("answer", [True, "yes", None, {"ok": True}])
async def test_a_plain_yes_is_not_taken_for_the_result_of_a_tool(answer: object) -> None:
    sent: list[str] = []

    @tool(approval="ask")
    async def send(to: str) -> str:
        """Send it."""
        sent.append(to)
        return "sent"

    agent = Agent(model=ScriptedModel([call("send", to="ann"), "Done."]), tools=[send])
    first = await agent.run("Send it.")
    with pytest.raises(ConfigError, match=r"use approve\(action\), or Deny\(reason\)"):
        agent.run(history=first.history, resolve={first.actions[0].call.id: answer})
    assert sent == []


async def test_a_clients_call_cannot_be_approved() -> None:
    ask = Tool(name="ask", schema={"type": "object", "properties": {}})
    agent = Agent(model=ScriptedModel([call("ask"), "Done."]), tools=[ask])
    first = await agent.run("Ask.")
    with pytest.raises(ConfigError, match="pass its result, not an approval"):
        agent.run(history=first.history, resolve={"call_1": approve(first.actions[0])})


def test_only_an_action_can_be_approved() -> None:
    with pytest.raises(ConfigError, match=r"use one of result\.actions"):
        approve("call_1")  # type: ignore[arg-type]


def test_a_tool_that_cannot_be_described_is_refused_with_its_agent() -> None:
    async def untyped(x):  # type: ignore[no-untyped-def]
        return x

    with pytest.raises(ConfigError, match="annotate it"):
        Agent(model=ScriptedModel(), tools=[untyped])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Policy(retry=3),  # type: ignore[arg-type]
        lambda: Policy(context={"keep": 5}),  # type: ignore[arg-type]
        lambda: ContextLimits(model="acme:one"),  # type: ignore[arg-type]
        lambda: Agent(model=ScriptedModel),  # type: ignore[call-overload]
        lambda: Settings(temperature="hot"),  # type: ignore[arg-type]
        lambda: tool(timeout="5")(sorted),  # type: ignore[call-overload]
        lambda: Agent(model=ScriptedModel()).run(""),
        lambda: Agent(model=ScriptedModel()).run([]),
    ],
    ids=["retry", "context", "summary", "class", "settings", "timeout", "no text", "no parts"],
)
def test_an_option_of_the_wrong_kind_is_refused_when_it_is_given(wrong: Callable[[], Any]) -> None:
    with pytest.raises(ConfigError, match=r": (use|make|pass|say)"):
        wrong()


def test_what_is_exported_can_be_looked_up_in_help() -> None:
    for namespace in (FRONT, *NAMESPACES):
        for name, home in public_names(namespace).items():
            pydoc.render_doc(getattr(import_module(home), name))
    assert "model" in inspect.signature(holdfast.Agent).parameters


async def test_the_exception_behind_a_failure_is_its_cause() -> None:
    broken = KeyError("choices")
    with pytest.raises(RunFailed) as failed:
        await Agent(model=ScriptedModel([fail(broken)])).run("Go.")
    assert failed.value.__cause__ is broken


@pytest.mark.parametrize("delta", ["hello", None, Finished("end_turn")])  # type: ignore[arg-type]
async def test_a_model_that_yields_what_is_no_delta_fails_at_once(delta: Any) -> None:
    class Wrong:
        name = "wrong:1"
        window = None

        async def stream(self, request: Request) -> AsyncIterator[Any]:
            yield delta

    with pytest.raises(RunFailed, match=r"not a Delta|use one of") as failed:
        await Agent(model=Wrong()).run("Go.")
    assert failed.value.failure.kind == "internal"


@pytest.mark.parametrize(
    "use",
    [lambda made: Agent(model=made), lambda made: Fallback([made])],
    ids=["alone", "among others"],
)
def test_a_model_whose_stream_would_be_awaited_is_refused_when_it_is_given(
    use: Callable[[Any], object],
) -> None:
    class Outer:
        name = "outer:1"
        window = None

        async def stream(self, request: Request) -> AsyncIterator[Delta]:
            return ScriptedModel(["Hi."]).stream(request)

    with pytest.raises(ConfigError, match="the stream of Outer has no yield: "):
        use(Outer())


def test_only_a_history_can_be_stored() -> None:
    for wrong in ("abc", [1], None, 5):
        with pytest.raises(FormatError, match=r"dump\(result\.history\)"):
            dump(wrong)  # type: ignore[arg-type]
    with pytest.raises(FormatError, match="not JSON"):
        dump([Message("user", (Text("x", {"acme": object()}),), "prompt")])
    with pytest.raises(FormatError, match="pass what dump"):
        load(None)  # type: ignore[arg-type]


def test_the_repr_of_an_agent_is_one_short_line() -> None:
    agent = Agent("demo", name="clerk", instructions="Be brief. " * 1_000)
    assert repr(agent) == "<Agent clerk model=demo:demo>"
    tools = [tool(name=f"t{number}", description="Act.")(lambda: "ok") for number in range(7)]
    assert repr(agent.replace(tools=tools)) == (
        "<Agent clerk model=demo:demo tools=t0, t1, t2, t3, t4 and 2 more>"
    )
