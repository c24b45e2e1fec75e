"""An agent as one chat uses it: with the chat's own model, effort and reported context window."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from holdfast.agent import Agent
from holdfast.chat.rows import ChatRow
from holdfast.kernel import prepare
from holdfast.kernel.admission import Middleware, Toolbox
from holdfast.kernel.compact import CompactionInput
from holdfast.kernel.decide import Rules, size
from holdfast.kernel.history import History
from holdfast.kernel.messages import AskedBy, Message
from holdfast.kernel.model import Model, Request


class ChatAgent:
    """The agent of one chat and the values derived from it, recomputed only when it changes."""

    agent: Agent
    model: Model
    rules: Rules
    toolbox: Toolbox

    def __init__(self, agent: Agent, outer_middleware: tuple[Middleware, ...] = ()) -> None:
        """`outer_middleware` runs around the agent's own middleware."""
        self._configured = agent
        self._outer_middleware = outer_middleware
        self._overrides: tuple[str | None, str | None] = (None, None)
        self._reported_window: int | None = None
        self.active: frozenset[str] | None = None
        """Names of the tools that the last answer could call; None for all."""
        self._use(agent)

    def follow(self, chat: ChatRow) -> None:
        """Apply a change of the chat's model or effort."""
        if (chat.model, chat.effort) == self._overrides:
            return
        changes: dict[str, Any] = {}
        if chat.model is not None:
            changes["model"] = chat.model
        if chat.effort is not None:
            changes["effort"] = chat.effort
        self._reported_window = None
        self._use(self._configured.replace(**changes) if changes else self._configured)
        self._overrides = (chat.model, chat.effort)

    def _use(self, agent: Agent) -> None:
        self.agent = agent
        self.model = prepare.model_of(agent)
        self._apply_window(self._reported_window)

    def set_reported_window(self, window: int | None) -> None:
        """Use a context window that a provider reported."""
        if window not in (None, self._reported_window):
            self._apply_window(window)

    def _apply_window(self, reported: int | None) -> None:
        self._reported_window = reported
        self._window = prepare.window_of(self.agent, reported)
        self.rules = prepare.rules_of(self.agent, self._window)
        self.toolbox = prepare.toolbox_of(self.agent, self._window)
        if self._outer_middleware:
            middleware = (*self._outer_middleware, *self.toolbox.middleware)
            self.toolbox = replace(self.toolbox, middleware=middleware)

    def request(self, history: History, avoid: frozenset[str]) -> Request:
        """Build the next request to the model."""
        self.active = prepare.active_after(self.agent, history.messages)
        return prepare.build_request(self.agent, history, self.active, avoid)

    def restore_active(self, history: History) -> None:
        """Determine which tools the last answer could call, if another process requested it."""
        if self.active is None and self.agent.active is not None:
            self.active = prepare.active_after(self.agent, history.before_last_calls())

    def compaction_input(self, history: History, asked_by: AskedBy | None) -> CompactionInput:
        """Return the values on which a compaction is decided."""
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
