"""The deps of durable chats: made by a provider when a runner takes a chat, closed when it lets go.

The context manager of a provider is entered and left in one task, which no cancellation of the
runner reaches: so it may await while it closes, and an interrupt need not wait for it to open.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, NoReturn

import anyio
from anyio.abc import TaskGroup

from holdfast.agent import Agent
from holdfast.kernel.agent_deps import DepsProvider, provided_deps
from holdfast.kernel.awaiting import StrayCancellation, is_cancelled
from holdfast.kernel.cancel_once import CancelOnce
from holdfast.kernel.errors import ConfigError, PrepareError
from holdfast.kernel.hook_call import hook_error
from holdfast.kernel.hook_context import ChatInfo
from holdfast.kernel.inbox import Interrupted, Interruption

LOG: Final = logging.getLogger("holdfast.worker")
CLOSE_TIMEOUT: Final = 5.0
"""Seconds that a provider has to close the deps of a chat."""
PROVIDER: Final = "the provider of the deps"


class ChatDeps:
    """The deps of one chat, for as long as a runner has it."""

    def __init__(self, agent: Agent[Any, Any], provider: DepsProvider[Any] | None) -> None:
        self._agent = agent
        self._provider = provider
        self._attempt: _Attempt | None = None

    @property
    def are_open(self) -> bool:
        """Whether there are deps. They end early if their provider fails while they are used."""
        return self._attempt is not None and self._attempt.is_open

    async def open(self, group: TaskGroup, info: ChatInfo, interruption: Interruption) -> Any:
        """The deps, made in a task of the group. Raises `Interrupted`, and an exception if the
        provider fails or takes too long."""
        if self._attempt is None or self._attempt.has_ended:
            self._attempt = _Attempt()
            manager = provided_deps(self._agent, self._provider, info)
            group.start_soon(self._attempt.hold, manager)
        attempt, seconds = self._attempt, self._agent.policy.deps_timeout
        with anyio.move_on_after(seconds) as scope, interruption.stops(scope.cancel):
            if interruption.requested:
                scope.cancel()
            await attempt.opened.wait()
        if not attempt.opened.is_set():
            self.close()
            if interruption.requested:
                raise Interrupted
            raise PrepareError(f"{PROVIDER} took longer than {seconds:g} s", agent=self._agent.name)
        error, attempt.error = attempt.error, None  # its traceback refers to the attempt
        if error is not None:
            self._attempt = None
            try:
                self._raise(error)
            finally:
                del error  # its traceback refers to this frame
        return attempt.deps

    def _raise(self, error: Exception) -> NoReturn:
        try:
            if isinstance(error, ConfigError) or self._provider is None:
                raise error
            raise hook_error(PROVIDER, self._agent.name, self._provider, error) from error
        finally:
            del error  # its traceback refers to this frame

    def close(self) -> None:
        """Close the deps, or stop opening them. The task group waits for that."""
        attempt, self._attempt = self._attempt, None
        if attempt is not None:
            attempt.close()


class _Attempt:
    """One call of a provider, and the task that holds what it returned."""

    def __init__(self) -> None:
        self.opened = anyio.Event()
        """Set when there are deps, or an error."""
        self.deps: Any = None
        self.is_open = False
        self.error: Exception | None = None
        self._closing = anyio.Event()
        self._opening = CancelOnce(asyncio.get_running_loop(), CLOSE_TIMEOUT)
        self._scope = anyio.CancelScope(shield=True)

    @property
    def has_ended(self) -> bool:
        """Whether there are no deps any more, and no error that is not raised yet."""
        return self.opened.is_set() and not self.is_open and self.error is None

    async def hold(self, manager: AbstractAsyncContextManager[Any]) -> None:
        """Hold the deps until they are closed."""
        with self._scope, self._opening:
            try:
                async with manager as self.deps:
                    self.is_open = True
                    self.opened.set()
                    await self._closing.wait()
            except Exception as error:
                if self._closing.is_set():
                    LOG.warning("the deps of a chat could not be closed", exc_info=True)
                else:
                    self.error = error
            except asyncio.CancelledError as error:
                if self._closing.is_set() or is_cancelled():
                    raise
                self.error = StrayCancellation().with_traceback(error.__traceback__)
            finally:
                self.deps, self.is_open = None, False
            self.opened.set()
        if self._scope.cancelled_caught:
            LOG.warning("the deps of a chat were not closed within %g s", CLOSE_TIMEOUT)

    def close(self) -> None:
        """Close the deps, or cancel their provider. It may clean up for a while."""
        self._closing.set()
        error, self.error = self.error, None  # its traceback refers to the attempt
        if error is not None:
            LOG.warning("the deps of a chat failed while they were used", exc_info=error)
            del error
        if not self.opened.is_set():
            self._opening.cancel()
        self._scope.deadline = anyio.current_time() + CLOSE_TIMEOUT
