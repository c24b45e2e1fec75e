"""One conversation on the command line: runs and the answers between them, until it is idle."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import anyio

from holdfast.agent import Agent, Resolution
from holdfast.cli.ask import Asker
from holdfast.cli.signals import stopping
from holdfast.kernel.events import Action, Event
from holdfast.kernel.messages import Message, Prompt
from holdfast.kernel.result import LimitExceeded, RunFailed, RunResult
from holdfast.kernel.run import Run


class RunView(Protocol):
    """Receives events: a view for people, or lines for programs."""

    def show(self, event: Event) -> None: ...
    def note(self, text: str) -> None: ...
    def tick(self) -> None:
        """Called every second."""

    def stopping(self) -> None:
        """Called when the run was told to stop."""

    def end(self) -> None: ...


class Conversation:
    """Drives an agent for a user at a terminal, or for a script."""

    def __init__(self, agent: Agent, view: RunView, asker: Asker, deps: Any = None) -> None:
        self._agent = agent
        self._deps = deps
        self._view = view
        self._asker = asker
        self._run: Run[Any] | None = None
        self._asking: anyio.CancelScope | None = None
        self.failure: Exception | None = None
        """The error that kept us from showing the rest, if any. It stops the run."""
        self.stopped: signal.Signals | None = None
        """The signal that stopped us, if any."""

    async def go(self, prompt: Prompt | None) -> RunResult[Any]:
        """Run until it finishes, fails, is stopped, or waits for an action that is not answered."""
        resolve: Mapping[str, Resolution] = {}
        history: Sequence[Message] = ()
        with stopping(self._stop, self._view.end):
            while True:
                run = self._agent.run(prompt, deps=self._deps, history=history, resolve=resolve)
                result = await self._follow(run)
                if result.reason != "requires_action" or self._leaving:
                    return result
                resolve = await self._answers(result.actions)
                if not resolve or self._leaving:  # an answer may come with the signal
                    return result
                prompt, history = None, result.history

    async def _follow(self, run: Run[Any]) -> RunResult[Any]:
        """Show a run until it ends."""
        self._run = run
        try:
            async with run, anyio.create_task_group() as group:
                group.start_soon(self._tick)
                async for event in run:
                    self._show(self._view.show, event)
                group.cancel_scope.cancel()
            return await _outcome(run)
        finally:
            self._run = None

    @property
    def _leaving(self) -> bool:
        return self.failure is not None or self.stopped is not None

    async def _tick(self) -> None:
        while True:
            await anyio.sleep(1)
            self._show(self._view.tick)

    def _show(self, view: Callable[..., None], *event: Event) -> None:
        if self.failure is None:
            try:
                view(*event)
            except Exception as error:
                self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        if self.failure is None:
            self.failure = error
        if self._run is not None:
            self._run.interrupt()

    async def _answers(self, actions: Sequence[Action]) -> Mapping[str, Resolution]:
        """The user's answers to the actions; empty without any, or after a signal to stop."""
        with anyio.CancelScope() as self._asking:
            return await self._asker.resolve(actions)
        return {}

    def _stop(self, number: signal.Signals) -> None:
        """Handle Ctrl-C and similar signals."""
        self.stopped = number
        if self._run is not None:
            self._run.interrupt()
            self._show(self._view.stopping)
        if self._asking is not None:
            self._asking.cancel()


async def _outcome(run: Run[Any]) -> RunResult[Any]:
    try:
        return await run
    except (LimitExceeded, RunFailed) as ended:
        return ended.result
