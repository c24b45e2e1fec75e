"""The agent as one chat uses it: the chat's own model and effort, and the reported context
window."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from holdfast.agent import Agent
from holdfast.chat.rows import Chat
from holdfast.kernel import prepare
from holdfast.kernel.admission import Middleware, Toolbox
from holdfast.kernel.compact import CompactionInput
from holdfast.kernel.decide import Rules, size
from holdfast.kernel.history import History
from holdfast.kernel.messages import AskedBy, Message
from holdfast.kernel.model import Model, Request


class Setup:
    """Values derived from the agent and the chat, recomputed only when those change."""

    agent: Agent
    model: Model
    rules: Rules
    toolbox: Toolbox

    def __init__(self, agent: Agent, around: tuple[Middleware, ...] = ()) -> None:
        """`around` wraps tool calls outside of the agent's own middleware."""
        self._base = agent
        self._around = around
        self._chosen: tuple[str | None, str | None] = (None, None)
        self._reported: int | None = None
        self.active: frozenset[str] | None = None
        """Names of the tools that the last answer could use; None for all."""
        self._use(agent)

    def follow(self, chat: Chat) -> None:
        """Follow a change of the chat's model or effort."""
        if (chat.model, chat.effort) == self._chosen:
            return
        changes: dict[str, Any] = {}
        if chat.model is not None:
            changes["model"] = chat.model
        if chat.effort is not None:
            changes["effort"] = chat.effort
        self._reported = None
        self._use(self._base.replace(**changes) if changes else self._base)
        self._chosen = (chat.model, chat.effort)

    def _use(self, agent: Agent) -> None:
        self.agent = agent
        self.model = prepare.model_of(agent)
        self._take_window(self._reported)

    def hear_window(self, reported: int | None) -> None:
        """Take a context window that a provider reported."""
        if reported not in (None, self._reported):
            self._take_window(reported)

    def _take_window(self, reported: int | None) -> None:
        self._reported = reported
        self._window = prepare.window_of(self.agent, reported)
        self.rules = prepare.rules_of(self.agent, self._window)
        self.toolbox = prepare.toolbox_of(self.agent, self._window)
        if self._around:
            middleware = (*self._around, *self.toolbox.middleware)
            self.toolbox = replace(self.toolbox, middleware=middleware)

    def request(self, history: History, avoid: frozenset[str]) -> Request:
        """Build the next request to the model."""
        self.active = prepare.active_after(self.agent, history.messages)
        return prepare.build_request(self.agent, history, self.active, avoid)

    def look_back(self, history: History) -> None:
        """Find the tools that the last answer could use, when another process requested it."""
        if self.active is None and self.agent.active is not None:
            self.active = prepare.active_after(self.agent, history.before_last_calls())

    def situation(self, history: History, asked_by: AskedBy | None) -> CompactionInput:
        """Return what a compaction is decided on."""
        messages: list[Message] = list(history.messages)
        return CompactionInput(
            messages,
            size(history.turn, self.rules),
            self.rules.overhead,
            self.rules.limit,
            self._window,
            asked_by,
            self.agent.policy.context,
        )
