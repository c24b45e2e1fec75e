"""The deps of durable chats: made by a provider when a runner takes a chat, closed when it lets go.

The context manager of a provider is entered and left in one task, which no cancellation of the
runner reaches: so it may await while it closes, and an interrupt need not wait for it to open.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup

from holdfast.agent import Agent
from holdfast.kernel.cancel_once import CancelOnce
from holdfast.kernel.deps import DepsProvider, DepsProviders, accepts, name_of
from holdfast.kernel.errors import ConfigError, PrepareError, describe
from holdfast.kernel.hook_context import ChatInfo
from holdfast.kernel.inbox import Interrupted, Interruption
from holdfast.kernel.override import overridden_deps

LOG: Final = logging.getLogger("holdfast.worker")
CLOSE_TIMEOUT: Final = 5.0
"""Seconds that a provider has to close the deps of a chat."""

MAKE_ONE: Final = "pass a function of the chat's ChatInfo that returns them"


# --- The providers of a host --------------------------------------------------------------------


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
            f"provider: pass deps=, a function of the chat's ChatInfo that returns a {wanted}"
        )
    return providers


def _always(deps: object) -> DepsProvider[Any]:
    return lambda info: deps


# --- The deps of one chat -----------------------------------------------------------------------


class ChatDeps:
    """The deps of one chat, for as long as a runner has it."""

    def __init__(self, agent: Agent[Any, Any], provider: DepsProvider[Any] | None) -> None:
        self._agent = agent
        self._provider = provider
        self.are_open = False
        self._attempt: _Attempt | None = None

    async def open(self, group: TaskGroup, info: ChatInfo, interruption: Interruption) -> Any:
        """The deps, made in a task of the group. Raises `Interrupted`, and an exception if the
        provider fails or takes too long."""
        if self._attempt is None:
            self._attempt = _Attempt()
            group.start_soon(self._attempt.hold, self._manager(info))
        attempt, seconds = self._attempt, self._agent.policy.deps_timeout
        with anyio.move_on_after(seconds) as scope, interruption.stops(scope.cancel):
            if interruption.requested:
                scope.cancel()
            await attempt.opened.wait()
        if not attempt.opened.is_set():
            self.close()
            if interruption.requested:
                raise Interrupted
            raise PrepareError(f"the provider of the deps took longer than {seconds:g} s")
        if attempt.error is not None:
            self._attempt = None
            try:
                raise attempt.error
            finally:
                del attempt  # the traceback of its error refers to this frame
        self.are_open = True
        return attempt.deps

    def close(self) -> None:
        """Close the deps, or stop opening them. The task group waits for that."""
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.close()

    @asynccontextmanager
    async def _manager(self, info: ChatInfo) -> AsyncIterator[Any]:
        """The deps as a context manager, whatever the provider returns."""
        returned: Any = None
        wanted = self._agent.deps_type
        if self._provider is not None:
            returned = self._provider(info)
            if inspect.isawaitable(returned):
                returned = await returned
        is_manager = isinstance(returned, AbstractAsyncContextManager)
        if not is_manager or (isinstance(wanted, type) and accepts(wanted, returned)):
            yield self._checked(returned)
            return
        async with returned as deps:
            yield self._checked(deps)

    def _checked(self, deps: Any) -> Any:
        if accepts(self._agent.deps_type, deps):
            return deps
        kind, wanted = type(deps).__name__, name_of(self._agent.deps_type)
        if self._provider is None:
            raise ConfigError(
                f"{self._agent.name} needs deps of type {wanted}, and the host has no provider of "
                "them: pass deps= when it is opened"
            )
        fix = "decorate it with @contextlib.asynccontextmanager" if inspect.isasyncgen(deps) else ""
        raise ConfigError(
            f"the provider of the deps returned a {kind}, and the deps_type of {self._agent.name} "
            f"is {wanted}: {fix or f'return a {wanted}'}"
        )


class _Attempt:
    """One call of a provider, and the task that holds what it returned."""

    def __init__(self) -> None:
        self.opened = anyio.Event()
        """Set when there are deps, or an error."""
        self.deps: Any = None
        self.error: Exception | None = None
        self._closing = anyio.Event()
        self._opening = CancelOnce(asyncio.get_running_loop(), CLOSE_TIMEOUT)
        self._scope = anyio.CancelScope(shield=True)

    async def hold(self, manager: AbstractAsyncContextManager[Any]) -> None:
        """Hold the deps until they are closed."""
        with self._scope, self._opening:
            try:
                async with manager as self.deps:
                    self.opened.set()
                    await self._closing.wait()
            except Exception as error:
                if self.opened.is_set():
                    LOG.warning("the deps of a chat could not be closed", exc_info=True)
                else:
                    self.error = _as_prepare_error(error)
            self.deps = None
            self.opened.set()
        if self._scope.cancelled_caught:
            LOG.warning("the deps of a chat were not closed within %g s", CLOSE_TIMEOUT)

    def close(self) -> None:
        """Close the deps, or cancel their provider. It may clean up for a while."""
        self._closing.set()
        if not self.opened.is_set():
            self._opening.cancel()
        self._scope.deadline = anyio.current_time() + CLOSE_TIMEOUT


def _as_prepare_error(error: Exception) -> Exception:
    if isinstance(error, ConfigError):
        return error
    failed = PrepareError(f"the provider of the deps failed: {describe(error)}")
    failed.__cause__ = error
    return failed
