"""Preparation of a run: rules, toolbox and requests that a driver derives from an agent."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, Union, cast

from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel.call_admission import Middleware, Toolbox
from holdfast.kernel.decide import Rules, size
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.history import History
from holdfast.kernel.hook_call import call_hook
from holdfast.kernel.hook_context import Context
from holdfast.kernel.inbox import Interruption
from holdfast.kernel.instructions import system_prefix
from holdfast.kernel.messages import AskedBy, Message
from holdfast.kernel.model import Model, Request, Settings, ToolSpec, settings_for
from holdfast.kernel.model_context import (
    NOTHING_REMOVED,
    RemovedParts,
    Trim,
    estimate,
    repaired,
    worded,
)
from holdfast.kernel.policy import max_result
from holdfast.kernel.summary_checkpoint import CompactionInput
from holdfast.kernel.type_parameters import HookDepsT

if TYPE_CHECKING:
    from holdfast.agent import Agent

LOG: Final = logging.getLogger("holdfast")

Active: TypeAlias = Callable[[Context[HookDepsT]], Union[Iterable[str], Awaitable[Iterable[str]]]]
"""Hook that returns the names of the tools available now."""
Project: TypeAlias = Callable[
    [Context[HookDepsT], Sequence[Message]], Union[Sequence[Message], Awaitable[Sequence[Message]]]
]
"""Hook that changes the messages sent to the model."""


def model_of(agent: Agent[Any, Any]) -> Model:
    """The agent's model; a name is resolved when the agent is built."""
    return cast(Model, agent.model)


def summary_model(agent: Agent) -> Model:
    """The model that writes summaries."""
    return agent.policy.context.model or model_of(agent)


def window_of(agent: Agent, reported: int | None) -> int | None:
    """Context window in tokens; None if unknown. The summary's model may have a smaller one."""
    own = reported or model_of(agent).window or agent.policy.context.window
    other = agent.policy.context.model
    windows = [own, other.window if other is not None else None]
    return min((window for window in windows if window is not None), default=None)


def trim_of(agent: Agent[Any, Any]) -> Trim:
    """Limits by which bulky tool results are shortened."""
    return Trim(agent.policy.context.trim_over, agent.policy.context.trim_to)


def rules_of(agent: Agent, window: int | None) -> Rules:
    """The rules for `decide`, given the context window."""
    policy, tools = agent.policy, agent.toolset.values()
    threshold = policy.context.threshold
    return Rules(
        limits=agent.limits,
        recoveries=policy.recoveries,
        limit=None if window is None or threshold == 100 else window * threshold // 100,
        overhead=agent.overhead,
        window=window,
        exclusive=frozenset(tool.name for tool in tools if tool.exclusive),
        waits=frozenset(tool.name for tool in tools if tool.action is not None),
        spawns=frozenset(tool.name for tool in tools if tool.agents and not tool.hands_off),
    )


def toolbox_of(agent: Agent, window: int | None) -> Toolbox:
    """Tools, hooks and limits of a run, given the context window."""
    return Toolbox(
        tools=agent.toolset,
        gate=agent.gate,
        middleware=tuple(agent.middleware),
        limits=agent.policy.calls,
        max_result=agent.policy.calls.max_result or max_result(window),
        eager=agent.eager,
        ports=agent.ports,
    )


class PreparedAgent(Struct, frozen=True, kw_only=True):
    """An agent with the values that a driver derives from it and from the context window."""

    agent: Agent
    model: Model
    reported_window: int | None
    """Context window that a provider has reported; None if none has."""
    window: int | None
    """Context window in tokens; None if unknown."""
    rules: Rules
    toolbox: Toolbox
    outer_middleware: tuple[Middleware, ...]
    """Middleware that runs around the agent's own."""

    @classmethod
    def of(
        cls,
        agent: Agent,
        outer_middleware: tuple[Middleware, ...] = (),
        reported_window: int | None = None,
    ) -> PreparedAgent:
        window = window_of(agent, reported_window)
        toolbox = toolbox_of(agent, window)
        if outer_middleware:
            toolbox = replace(toolbox, middleware=(*outer_middleware, *toolbox.middleware))
        return cls(
            agent=agent,
            model=model_of(agent),
            reported_window=reported_window,
            window=window,
            rules=rules_of(agent, window),
            toolbox=toolbox,
            outer_middleware=outer_middleware,
        )

    def with_window(self, reported: int | None) -> PreparedAgent:
        """The agent with a context window that a provider reported."""
        if reported in (None, self.reported_window):
            return self
        return PreparedAgent.of(self.agent, self.outer_middleware, reported)

    def size(self, history: History) -> int:
        """Estimated tokens of the next request."""
        return size(history.turn, self.rules)

    def compaction_input(self, history: History, asked_by: AskedBy | None) -> CompactionInput:
        """The values on which a compaction is decided."""
        newest = history.turn.instructions
        return CompactionInput(
            history.messages,
            self.size(history),
            self.rules.overhead + (0 if newest is None else estimate(newest)),
            self.rules.limit,
            self.window,
            asked_by,
            self.agent.policy.context,
            self.agent.policy.wording,
        )


async def active_tools(
    agent: Agent, context: Context, interruption: Interruption
) -> frozenset[str] | None:
    """Names of the tools that may be used in the next answer; None for all. Raises `Interrupted`,
    and `PrepareError` if the hook fails."""
    if agent.active is None:
        return None
    names = await call_hook("active", interruption, agent.active, context)
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise ConfigError(f"active returned {names!r}: return a list of tool names")
    return frozenset(names)


def _log_removed(source: str, removed: RemovedParts) -> None:
    if removed != NOTHING_REMOVED:
        LOG.info(
            "sequence repair removed %d tool calls and %d tool results of %s from the request",
            removed.calls,
            removed.results,
            source,
        )


def _settings(agent: Agent, history: History, specs: Sequence[ToolSpec]) -> Settings:
    """The settings of the next request."""
    if not agent.settings.forces_call:
        return agent.settings
    names = {spec.name for spec in specs} | {tool.name for tool in agent.provider_tools}
    return settings_for(agent.settings, history.turn.steps, names)


async def build_request(
    agent: Agent,
    context: Context,
    history: History,
    active: frozenset[str] | None,
    avoid: frozenset[str],
    interruption: Interruption,
) -> Request:
    """The next request to the model; `active` names the tools it may call, None for all."""
    messages, specs = worded(history.to_send(), agent.policy.wording), agent.specs
    removed = history.take_removed()
    if removed is not NOTHING_REMOVED:
        _log_removed("the history", removed)
    if active is not None:
        specs = tuple(spec for spec in specs if spec.name in active)
    if agent.project is not None:
        projected = await call_hook("project", interruption, agent.project, context, messages)
        if not isinstance(projected, Sequence) or not all(
            isinstance(message, Message) for message in projected
        ):
            raise ConfigError(f"project returned {projected!r:.80}: return a list of messages")
        projection = repaired(projected, trim_of(agent))
        messages = projection.messages()
        if projection.removed is not NOTHING_REMOVED:
            _log_removed("what project returned", projection.removed)
    form = agent.form
    return Request(
        system=system_prefix(agent, history),
        messages=messages,
        tools=specs,
        provider_tools=tuple(agent.provider_tools),
        output=None if form is None else form.shape,
        settings=_settings(agent, history, specs),
        effort=agent.effort,
        cache_key=agent.cache_key,
        stay_with=history.turn.model,
        avoid=avoid,
    )
