"""Deps: an object of the application that tools and hooks use, such as a database connection."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from types import NoneType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Union, get_origin

from holdfast.kernel.errors import ConfigError
from holdfast.kernel.hook_context import ChatInfo

if TYPE_CHECKING:
    from holdfast.agent import Agent

D = TypeVar("D")

DepsProvider: TypeAlias = Callable[
    [ChatInfo], Union[D, Awaitable[D], AbstractAsyncContextManager[D]]
]
"""Function that returns the deps of a durable chat, or an async context manager of them."""
DepsProviders: TypeAlias = Union[DepsProvider[Any], Mapping[str, DepsProvider[Any]]]
"""One provider for all agents that have a `deps_type`, or one for each, by the agent's name."""


def check_deps_type(kind: object) -> None:
    """Refuse an object that is given instead of its type. Raises `ConfigError`."""
    if kind is None or isinstance(kind, type) or get_origin(kind) is not None or kind is Any:
        return
    raise ConfigError(
        f"deps_type is {kind!r:.80}: pass the type of the deps, and the deps themselves to "
        "agent.run(…, deps=…)"
    )


def check_deps(agent: Agent[Any, Any], team: Mapping[str, Agent[Any, Any]], deps: object) -> None:
    """Check the deps of a run against every agent that may take part. Raises `ConfigError`."""
    takers = [member for member in team.values() if member.deps_type is not None]
    if not takers and deps is not None:
        raise ConfigError(
            f"{agent.name} has no deps_type, and deps is a {type(deps).__name__}: "
            f"set Agent(deps_type={type(deps).__name__}), or leave deps out"
        )
    for member in takers:
        check_deps_of(member, deps)


def check_deps_of(agent: Agent[Any, Any], deps: object, remedy: str = "") -> None:
    """Check the deps of one agent; `remedy` is what to do without deps. Raises `ConfigError`."""
    if accepts(agent.deps_type, deps):
        return
    wanted = name_of(agent.deps_type)
    if deps is None:
        remedy = remedy or f"pass them, as in agent.run(…, deps={wanted}(…))"
        raise ConfigError(f"{agent.name} needs deps of type {wanted}: {remedy}")
    raise ConfigError(
        f"deps is a {type(deps).__name__}, and the deps_type of {agent.name} is {wanted}: "
        f"pass a {wanted}"
    )


def check_tools(agent: Agent[Any, Any]) -> None:
    """Check that the tools of an agent can use its deps. Raises `ConfigError`."""
    for tool in agent.toolset.values():
        wanted = tool.deps_type
        if not is_class(wanted) or wanted is NoneType:
            continue
        context = f"{tool.name} takes ToolContext[{name_of(wanted)}]"
        if agent.deps_type is None:
            raise ConfigError(
                f"{context}, and {agent.name} has no deps_type: "
                f"set Agent(deps_type={name_of(wanted)})"
            )
        if is_class(agent.deps_type) and not issubclass(agent.deps_type, wanted):
            raise ConfigError(
                f"{context}, and the deps_type of {agent.name} is {name_of(agent.deps_type)}: "
                "use one type for both"
            )


def is_class(kind: Any) -> bool:
    """Whether `issubclass` can tell what is a subtype of this."""
    return isinstance(kind, type) and kind is not Any and not getattr(kind, "_is_protocol", False)


def deps_for(agent: Agent[Any, Any], deps: Any) -> Any:
    """The deps to pass on to an agent: none if no agent of its team takes any."""
    takes = any(member.deps_type is not None for member in agent.team.values())
    return deps if takes else None


def accepts(wanted: Any, deps: object) -> bool:
    """Whether deps have a type. A type that cannot be checked here accepts all but None."""
    if wanted is None:
        return True
    try:
        return isinstance(deps, get_origin(wanted) or wanted)
    except TypeError:  # such as a Protocol or a TypedDict
        return deps is not None


def name_of(kind: Any) -> str:
    """Name of a type for people."""
    return kind.__name__ if isinstance(kind, type) else str(kind)
