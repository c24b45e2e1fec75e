"""A context to call a tool or a hook with, without a run."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, TypeVar, overload

from holdfast.kernel.hook_context import NO_LABELS, ChatInfo, Context
from holdfast.kernel.messages import Message
from holdfast.kernel.tool import CompletedAwaitable, ToolContext
from holdfast.kernel.turn import fold_all

D = TypeVar("D")


@overload
def tool_context(
    *,
    chat: str | None = None,
    owner: str = "",
    labels: Mapping[str, str] = NO_LABELS,
    agent: str = "agent",
    history: Sequence[Message] = (),
    call_id: str = "call-1",
) -> ToolContext[None]: ...


@overload
def tool_context(
    deps: D,
    *,
    chat: str | None = None,
    owner: str = "",
    labels: Mapping[str, str] = NO_LABELS,
    agent: str = "agent",
    history: Sequence[Message] = (),
    call_id: str = "call-1",
) -> ToolContext[D]: ...


def tool_context(
    deps: object = None,
    *,
    chat: str | None = None,
    owner: str = "",
    labels: Mapping[str, str] = NO_LABELS,
    agent: str = "agent",
    history: Sequence[Message] = (),
    call_id: str = "call-1",
) -> ToolContext[Any]:
    """A context with these deps, to call a tool or a hook in a test. Progress is ignored."""
    info = ChatInfo(agent=agent, chat=chat, owner=owner, labels=labels)
    context: Context[Any] = Context(info, fold_all(history), lambda: history, deps)
    return ToolContext(call_id, _ignore, context)


def _ignore(text: str, data: object = None) -> Awaitable[None]:
    return CompletedAwaitable()
