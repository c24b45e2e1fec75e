"""An agent as one chat uses it: with the chat's own model and effort."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent import Agent
from holdfast.chat.rows import ChatRow
from holdfast.kernel.prepare import PreparedAgent


class ChatAgent(Struct, frozen=True):
    """The agent of one chat. Replaced when the chat selects another model or effort."""

    configured: Agent
    """The agent without the chat's own model and effort."""
    prepared: PreparedAgent
    model: str | None = None
    effort: str | None = None

    @property
    def agent(self) -> Agent:
        return self.prepared.agent

    def follow(self, chat: ChatRow) -> ChatAgent:
        """The agent after a change of the chat's model or effort."""
        if (chat.model, chat.effort) == (self.model, self.effort):
            return self
        changes: dict[str, Any] = {"model": chat.model, "effort": chat.effort}
        changes = {name: value for name, value in changes.items() if value is not None}
        agent = self.configured.replace(**changes) if changes else self.configured
        prepared = PreparedAgent.of(agent, self.prepared.outer_middleware)
        return ChatAgent(self.configured, prepared, chat.model, chat.effort)

    def with_window(self, reported: int | None) -> ChatAgent:
        """The agent with a context window that a provider reported."""
        return replace(self, prepared=self.prepared.with_window(reported))
