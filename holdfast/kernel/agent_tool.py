"""An agent as a tool of another agent, and the agents that an agent can reach by its tools.

In memory, a call runs the inner agent inside the run of the outer one. A durable host replaces such
a tool with one that spawns a child chat (`as_child`): then a crash repeats nothing, and approvals
of the inner agent are asked in its own chat.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from holdfast.kernel.agent_deps import deps_for
from holdfast.kernel.errors import ConfigError, ToolFailed
from holdfast.kernel.events import Action, ToolStarted
from holdfast.kernel.messages import Message
from holdfast.kernel.result import LimitExceeded, RunFailed, RunResult
from holdfast.kernel.tool import Deny, Tool, ToolContext

if TYPE_CHECKING:
    from holdfast.agent import Agent

OnAction: TypeAlias = Callable[[Action], Awaitable[Any]]
"""Hook that answers an action of an inner agent, as `resolve` does."""

MAX_NESTING: Final = 3
"""Maximum number of agents inside each other; child chats of a durable host have the same limit."""
PROMPT_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "prompt": {
            "type": "string",
            "minLength": 1,
            "description": "Everything the agent needs to know",
        }
    },
    "required": ["prompt"],
    "additionalProperties": False,
}
_nesting: ContextVar[int] = ContextVar("holdfast agent nesting", default=0)


def agent_tool(
    agent: Agent[Any, Any],
    *,
    name: str | None = None,
    description: str | None = None,
    timeout: float | None = None,
    on_action: OnAction | None = None,
) -> Tool:
    """A tool that runs an agent on a prompt and returns its answer."""

    async def ask(context: ToolContext[Any], prompt: str) -> Any:
        return await _answer_of(agent, context, prompt, on_action)

    name = name or agent.name
    description = description or agent.description or f"Give a task to the agent {name}."
    tool = Tool(
        name=name,
        description=description,
        function=ask,
        schema=PROMPT_SCHEMA,
        parallel=True,
        timeout=timeout,
    )
    tool.agents = MappingProxyType({agent.name: agent})
    tool.runs = agent.name
    return tool


async def _answer_of(
    agent: Agent[Any, Any], context: ToolContext, prompt: str, on_action: OnAction | None
) -> Any:
    depth = _nesting.get()
    if depth >= MAX_NESTING:
        raise ToolFailed(f"{MAX_NESTING} agents are already inside each other: do it yourself")
    _nesting.set(depth + 1)  # of this call only: each call is a task of its own
    result = await _run_inside(agent, context, prompt)
    while result.reason == "requires_action":
        answers = {one.call.id: await _answer_to(one, on_action) for one in result.actions}
        result = await _run_inside(agent, context, None, result.history, answers)
    if result.reason not in ("stop", "stop_after_tool"):
        steps = result.summary.steps
        raise ToolFailed(f"{agent.name} ended after {steps} steps without a final answer")
    return result.text if agent.form is None else result.output


async def _answer_to(action: Action, on_action: OnAction | None) -> Any:
    if on_action is not None:
        return await on_action(action)
    return Deny("no person can be asked here: continue without it, and say so in the answer")


async def _run_inside(
    agent: Agent[Any, Any],
    context: ToolContext[Any],
    prompt: str | None,
    history: Sequence[Message] = (),
    resolve: Mapping[str, Any] | None = None,
) -> RunResult[Any]:
    """One run. It counts for the outer run, and ends at the limits of that, too."""
    deps = deps_for(agent, context.deps)
    run = agent.run(prompt, deps=deps, history=history, resolve=resolve or {}, within=context)
    try:
        async with run:
            async for event in run:
                if isinstance(event, ToolStarted):
                    await context.progress(event.label)
            return await run
    except RunFailed as error:
        raise ToolFailed(f"{agent.name} failed: {error.failure.message}") from error
    except LimitExceeded as error:
        raise ToolFailed(f"no final answer. {error.limit.event}") from error


def as_child(tool: Tool) -> Tool:
    """The tool in a durable chat: a call spawns a child chat and waits for its answer."""
    child = Tool(
        name=tool.name,
        description=tool.description,
        schema=PROMPT_SCHEMA,
        effect="pure",
        action="child",
        timeout=tool.timeout,
    )
    child.agents, child.runs = tool.agents, tool.runs
    return child


def team_of(agent: Agent[Any, Any]) -> Mapping[str, Agent[Any, Any]]:
    """The agent and all that it can reach by its tools, by name. Raises `ConfigError`."""
    team: dict[str, Agent[Any, Any]] = {}
    left = [agent]
    while left:
        one = left.pop(0)
        known = team.setdefault(one.name, one)
        if known is not one:
            if known != one:
                raise ConfigError(f"two agents are named {one.name!r}: set another name=…")
            continue
        for tool in one.toolset.values():
            left += [inner for inner in tool.agents.values() if inner is not None]
    return MappingProxyType(team)
