"""The terminal in which `agent.chat()` runs. It is above the kernel, and imported when needed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from typing import Any, TypeAlias, cast

from holdfast.kernel.messages import Message

TerminalChat: TypeAlias = Callable[[Any, Sequence[Message], Any], Awaitable[tuple[Message, ...]]]
"""Chats with an agent, from a history on, with deps; returns the history at the end."""


def terminal_chat() -> TerminalChat:
    """The function that chats with an agent in the terminal."""
    return cast(TerminalChat, import_module("holdfast.cli.agent_chat").chat_with)
