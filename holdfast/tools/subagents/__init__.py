"""Tools with which an agent spawns other agents, each in a child chat of its own.

Only a durable host can run them. Their effects are written in the transaction that records their
results, so a crash neither duplicates nor loses a child.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any, Final, Literal

from holdfast.agent import Agent
from holdfast.chat.rows import Queued
from holdfast.chat.transitions.lifecycle import Interrupt, NewChat, SendTo, Spawn
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.messages import user_message
from holdfast.kernel.ports import new_id as fresh_id
from holdfast.kernel.tool import Commit, Effect, Tool, ToolContext

TEXT: Final = {"type": "string", "minLength": 1}
ID: Final = {**TEXT, "description": "The id returned by spawn_agent"}


def subagents(
    agents: Sequence[str | Agent[Any, Any]] | Mapping[str, str] = (),
    *,
    timeout: float | None = None,
    new_id: Callable[[], str] = fresh_id,
) -> list[Tool]:
    """Tools to spawn, list, message, interrupt and await children.

    `agents`: the agents that may be spawned, or their names, or a mapping of names to descriptions;
    the first is the default. A description tells the model what an agent is for. `timeout`: maximum
    seconds to wait for children; then the model gets the reports of those that finished, and the
    status of the others.
    """
    if isinstance(agents, str) or not agents:
        raise ConfigError("subagents needs at least one agent: list those that may be spawned")
    return [
        _spawn_agent(agents, new_id),
        _list_agents(),
        _message_agent(new_id),
        _interrupt_agent(),
        _wait_agents(timeout),
    ]


def _spawn_agent(
    given: Sequence[str | Agent[Any, Any]] | Mapping[str, str], new_id: Callable[[], str]
) -> Tool:
    agents = {one if isinstance(one, str) else one.name: one for one in given}
    descriptions = {
        name: "" if isinstance(one, str) else one.description for name, one in agents.items()
    }
    if isinstance(given, Mapping):
        descriptions |= given
    default = next(iter(agents))

    async def spawn_agent(prompt: str, agent: str = default, title: str | None = None) -> Commit:
        child = new_id()
        new = NewChat(id=child, agent=agent, message=user_message(prompt), title=title)
        return Commit({"agent": child}, (Spawn(new),))

    properties = {
        "prompt": {**TEXT, "description": "Everything the agent needs to know"},
        "agent": {"enum": list(agents), "description": _choice(descriptions, default)},
        "title": {**TEXT, "description": "Title of the task, in a few words"},
    }
    tool = _tool("spawn_agent", spawn_agent, properties, ["prompt"])
    tool.agents = {name: None if isinstance(one, str) else one for name, one in agents.items()}
    return tool


def _choice(descriptions: Mapping[str, str], default: str) -> str:
    described = [f"\n- {name}: {text}" for name, text in descriptions.items() if text]
    return "".join([f"Which agent. Default: {default}", *described])


def _list_agents() -> Tool:
    async def list_agents(context: ToolContext) -> list[Mapping[str, Any]]:
        return list(await context.children())

    return _tool("list_agents", list_agents, {}, [], effect="pure")


def _message_agent(new_id: Callable[[], str]) -> Tool:
    async def message_agent(
        agent: str, message: str, deliver: Literal["queue", "steer", "interrupt"] = "queue"
    ) -> Commit:
        queued = Queued(new_id(), deliver, user_message(message), 0)
        return Commit("sent", (SendTo(agent, queued),))

    properties = {
        "agent": ID,
        "message": TEXT,
        "deliver": {"enum": ["queue", "steer", "interrupt"]},
    }
    return _tool("message_agent", message_agent, properties, ["agent", "message"])


def _interrupt_agent() -> Tool:
    async def interrupt_agent(agent: str) -> Commit:
        return Commit("stopped", (Interrupt(agent),))

    return _tool("interrupt_agent", interrupt_agent, {"agent": ID}, ["agent"])


def _wait_agents(timeout: float | None) -> Tool:
    agents = {"type": "array", "minItems": 1, "maxItems": 32, "items": ID}
    return Tool(
        name="wait_agents",
        description=_description("wait_agents"),
        schema=_schema({"agents": agents}, ["agents"]),
        effect="pure",
        action="child",
        timeout=timeout,
    )


def _tool(
    name: str,
    function: Callable[..., Any],
    properties: Mapping[str, Any],
    required: Sequence[str],
    effect: Effect = "commit",
) -> Tool:
    return Tool(
        name=name,
        description=_description(name),
        function=function,
        schema=_schema(properties, required),
        effect=effect,
        parallel=True,
    )


def _schema(properties: Mapping[str, Any], required: Sequence[str]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(required),
        "additionalProperties": False,
    }


def _description(name: str) -> str:
    return files(__name__).joinpath(f"{name}.md").read_text("utf-8").strip()
