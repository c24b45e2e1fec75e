"""Deps: an object of the application that tools and hooks use, such as a database connection."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
)
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, Union, get_args, get_origin

from holdfast.kernel.errors import ConfigError
from holdfast.kernel.hook_context import ChatInfo, Context
from holdfast.kernel.override import overridden_deps

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
        example = f"{wanted}(…)" if isinstance(agent.deps_type, type) else "…"
        remedy = remedy or f"pass them, as in agent.run(…, deps={example})"
        raise ConfigError(f"{agent.name} needs deps of type {wanted}: {remedy}")
    raise ConfigError(
        f"deps is a {type(deps).__name__}, and the deps_type of {agent.name} is {wanted}: "
        f"pass {'a ' if isinstance(agent.deps_type, type) else ''}{wanted}"
    )


def check_uses(agent: Agent[Any, Any]) -> None:
    """Check that the tools and hooks of an agent can use its deps. Raises `ConfigError`."""
    for tool in agent.toolset.values():
        _check_use(agent, tool.name, "ToolContext", tool.deps_type)
        for hook in (tool.validate, tool.preview, tool.approval):
            if callable(hook):
                _check_hook(agent, f"a hook of {tool.name}", hook)
    for block in agent.dynamic:
        _check_hook(agent, "the instructions", block.function)
    for name in ("gate", "validate", "guard", "active", "project"):
        if getattr(agent, name) is not None:
            _check_hook(agent, name, getattr(agent, name))
    for middleware in agent.middleware:
        _check_hook(agent, "middleware", middleware)


def _check_hook(agent: Agent[Any, Any], what: str, hook: Callable[..., Any]) -> None:
    from holdfast.kernel.schema import signature

    try:
        annotation = signature.first_annotation(hook)
    except ConfigError:  # not written in Python: its parameters are unknown
        return
    kind = get_origin(annotation)
    if isinstance(kind, type) and issubclass(kind, Context):
        (wanted,) = get_args(annotation)
        _check_use(agent, f"{signature.name(hook)} ({what})", kind.__name__, wanted)


def _check_use(agent: Agent[Any, Any], user: str, kind: str, wanted: Any) -> None:
    if not is_class(wanted) or wanted in (NoneType, object):
        return
    context = f"{user} takes {kind}[{name_of(wanted)}]"
    if agent.deps_type is None:
        raise ConfigError(
            f"{context}, and {agent.name} has no deps_type: set Agent(deps_type={name_of(wanted)})"
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
    if get_origin(wanted) in (Union, UnionType):
        return any(accepts(one, deps) for one in get_args(wanted))
    try:
        return isinstance(deps, get_origin(wanted) or wanted)
    except TypeError:  # such as a Protocol or a TypedDict
        return deps is not None


def name_of(kind: Any) -> str:
    """Name of a type for people."""
    return kind.__name__ if isinstance(kind, type) else str(kind)


# --- Providers of durable chats -----------------------------------------------------------------

MAKE_ONE: Final = "pass a function of the chat's ChatInfo that returns them"


def providers_of(
    agents: Mapping[str, Agent[Any, Any]], deps: DepsProviders | None, *, needed: bool
) -> Mapping[str, DepsProvider[Any]]:
    """The provider of each agent, by name. Raises `ConfigError`.

    `needed`: an agent with a `deps_type` must have one.
    """
    takers = [name for name, agent in agents.items() if agent.deps_type is not None]
    providers: Mapping[str, DepsProvider[Any]]
    if deps is None:
        providers = {}
    elif isinstance(deps, Mapping):
        providers = dict(deps)
    else:
        providers = dict.fromkeys(takers, deps)
        if not takers:
            raise ConfigError("no agent has a deps_type: set Agent(deps_type=…), or leave deps out")
    replaced = {name: overridden_deps(agents[name]) for name in takers}
    fixed = {name: _always(value) for name, value in replaced.items() if value is not None}
    for name, provider in providers.items():
        if name not in takers:
            why = "no agent has this name" if name not in agents else "it has no deps_type"
            raise ConfigError(f"deps has a provider for {name!r}, and {why}: leave it out")
        if not callable(provider):
            raise ConfigError(f"deps is {provider!r:.80}: {MAKE_ONE}")
    providers = {**providers, **fixed}
    missing = [name for name in takers if name not in providers]
    if missing and needed:
        wanted = name_of(agents[missing[0]].deps_type)
        raise ConfigError(
            f"{', '.join(missing)} needs deps of type {wanted}, which a durable chat gets from a "
            f"provider: pass deps=, a function of the chat's ChatInfo that returns a {wanted}, or "
            "name it (--deps MODULE:NAME, deps in holdfast.toml)"
        )
    return providers


def _always(deps: object) -> DepsProvider[Any]:
    return lambda info: deps


@asynccontextmanager
async def provided_deps(
    agent: Agent[Any, Any], provider: DepsProvider[Any] | None, info: ChatInfo
) -> AsyncIterator[Any]:
    """The deps of a chat as a context manager, whatever its provider returns."""
    returned: Any = None if provider is None else provider(info)
    if inspect.isawaitable(returned):
        returned = await returned
    wanted = agent.deps_type
    is_manager = isinstance(returned, AbstractAsyncContextManager)
    if not is_manager or (isinstance(wanted, type) and accepts(wanted, returned)):
        yield _checked(agent, provider, returned)
        return
    async with returned as deps:
        yield _checked(agent, provider, deps)


def _checked(agent: Agent[Any, Any], provider: DepsProvider[Any] | None, deps: Any) -> Any:
    if accepts(agent.deps_type, deps):
        return deps
    wanted = name_of(agent.deps_type)
    if provider is None:
        raise ConfigError(
            f"{agent.name} needs deps of type {wanted}, and there is no provider of them: pass "
            "deps= where the chats are opened, or --deps MODULE:NAME"
        )
    generates = inspect.isasyncgen(deps) or inspect.isgenerator(deps)
    fix = "decorate it with @contextlib.asynccontextmanager" if generates else ""
    if isinstance(deps, AbstractContextManager):
        fix = "make it async, and decorate it with @contextlib.asynccontextmanager"
    raise ConfigError(
        f"the provider of the deps returned a {type(deps).__name__}, and the deps_type of "
        f"{agent.name} is {wanted}: {fix or f'return a {wanted}'}"
    )
