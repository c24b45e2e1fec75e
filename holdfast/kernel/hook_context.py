"""Where a hook or a tool is called: in which chat, for whom, and after which messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Generic

from msgspec import Struct

from holdfast.kernel.messages import Message
from holdfast.kernel.turn import Turn
from holdfast.kernel.type_parameters import ContextDepsT

NO_LABELS: Final[Mapping[str, str]] = MappingProxyType({})


class ChatInfo(Struct, frozen=True, gc=False, kw_only=True):
    """The chat that is driven, or the run in memory."""

    agent: str
    """Name of the agent."""
    chat: str | None = None
    """Id of the chat; None in a run in memory."""
    owner: str = ""
    """Owner of the chat; empty in a run in memory, and if the chat has none."""
    labels: Mapping[str, str] = NO_LABELS
    """Labels of the chat: its metadata."""
    parent: str | None = None
    """Id of the chat that spawned this one; None if no chat did."""


class Context(Generic[ContextDepsT]):
    """First argument of a hook: the chat, its owner, the deps, and the messages so far.

    `Context[Deps]` says of which type the deps are.
    """

    __slots__ = ("_deps", "_history", "_info", "turn")

    def __init__(
        self,
        info: ChatInfo,
        turn: Turn,
        history: Callable[[], Sequence[Message]] = tuple,
        deps: Any = None,
    ) -> None:
        self._info = info
        self.turn = turn
        """Counters of the turn so far, such as `turn.steps`."""
        self._history = history
        self._deps: ContextDepsT = deps

    @property
    def info(self) -> ChatInfo:
        """The chat that is driven, or the run in memory."""
        return self._info

    @property
    def deps(self) -> ContextDepsT:
        """The deps of the run or the chat; None if the agent has no `deps_type`."""
        return self._deps

    @property
    def chat(self) -> str | None:
        """Id of the chat; None in a run in memory."""
        return self._info.chat

    @property
    def owner(self) -> str:
        """Owner of the chat; empty in a run in memory, and if the chat has none."""
        return self._info.owner

    @property
    def labels(self) -> Mapping[str, str]:
        """Labels of the chat."""
        return self._info.labels

    @property
    def agent(self) -> str:
        """Name of the agent."""
        return self._info.agent

    @property
    def history(self) -> Sequence[Message]:
        """Committed messages; in a tool, up to the answer that contains its call."""
        return tuple(self._history())


NO_CONTEXT: Final[Context[None]] = Context(ChatInfo(agent="agent"), Turn())
"""Context of a tool that is called outside of a run, as in a test."""
