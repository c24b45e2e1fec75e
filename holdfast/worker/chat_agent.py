"""An agent as one chat uses it: with the chat's own model, effort and client tools."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent import Agent
from holdfast.chat.client_tools import ClientTool, agent_with
from holdfast.chat.rows import ChatRow
from holdfast.kernel.prepare import PreparedAgent


class ChatAgent(Struct, frozen=True):
    """The agent of one chat. Replaced when the chat's model, effort or client tools change."""

    configured: Agent
    """The agent without what the chat changes of it."""
    prepared: PreparedAgent
    model: str | None = None
    effort: str | None = None
    client_tools: tuple[ClientTool, ...] | None = None

    @property
    def agent(self) -> Agent:
        return self.prepared.agent

    def follow(self, chat: ChatRow) -> ChatAgent:
        """The agent after a change of the chat's model, effort or client tools."""
        if (
            chat.model == self.model
            and chat.effort == self.effort
            and chat.client_tools == self.client_tools
        ):
            return self
        changes: dict[str, Any] = {"model": chat.model, "effort": chat.effort}
        changes = {name: value for name, value in changes.items() if value is not None}
        agent = self.configured.replace(**changes) if changes else self.configured
        agent = agent_with(agent, chat.client_tools or ())
        prepared = PreparedAgent.of(agent, self.prepared.outer_middleware)
        return ChatAgent(self.configured, prepared, chat.model, chat.effort, chat.client_tools)

    def with_window(self, reported: int | None) -> ChatAgent:
        """The agent with a context window that a provider reported."""
        return replace(self, prepared=self.prepared.with_window(reported))
