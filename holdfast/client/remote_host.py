"""The remote host: create, find, list and watch durable chats on a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct, to_builtins

from holdfast.agent import Agent
from holdfast.chat.budgets import BudgetReport, Budgets
from holdfast.chat.client_tools import ClientTool
from holdfast.chat.errors import ChatNotFound, InvalidInput
from holdfast.chat.export import parse
from holdfast.chat.handle import check_limit, labels_of, name_of_agent, title_of
from holdfast.chat.interface import ChatHost
from holdfast.chat.snapshots import Snapshot
from holdfast.client.remote_chat import MAX_PAGE, RemoteChat
from holdfast.client.request_bodies import check_owner, parts_of, without_none
from holdfast.client.stream import RemoteWatch
from holdfast.client.transport import Transport, at
from holdfast.kernel.messages import Prompt, prepare_to_decode
from holdfast.kernel.model import Effort, check_effort
from holdfast.kernel.type_parameters import NewChatOutputT
from holdfast.server.chat_list_stream import ListCursor

EXPORT_MEDIA_TYPE: Final = "application/x-ndjson"
INVALID_PATH_NAMES: Final = ("", ".", "..")
"""Strings that cannot be a name in a path."""


class _ChatPage(Struct, frozen=True):
    """A page of chats."""

    chats: tuple[Snapshot, ...]
    next: str | None


class RemoteHost(ChatHost):
    """Durable chats of one user on a server. Made by `holdfast.connect`."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def create(
        self,
        prompt: Prompt | None,
        *,
        agent: str | Agent[Any, NewChatOutputT] | None = None,
        title: str | None = None,
        labels: Mapping[str, str] | None = None,
        owner: str = "",
        model: str | None = None,
        effort: Effort | None = None,
        client_tools: Sequence[ClientTool] = (),
        key: str | None = None,
    ) -> RemoteChat[NewChatOutputT]:
        check_owner(owner)
        check_effort(effort)
        body = without_none(
            prompt=None if prompt is None else parts_of(prompt),
            agent=name_of_agent(agent),
            title=title_of(title),
            labels=labels_of(labels or {}),
            model=model,
            effort=effort,
            client_tools=list(client_tools) or None,
        )
        snapshot = await self._transport.change("POST", "/chats", Snapshot, body, key=key)
        answers = agent if isinstance(agent, Agent) else None
        return RemoteChat(self._transport, snapshot, answers)

    async def restore(
        self, text: str, *, agent: str | None = None, owner: str = "", key: str | None = None
    ) -> RemoteChat:
        check_owner(owner)
        parse(text)
        reply = await self._transport.reply(
            "POST",
            "/chats/import",
            text.encode(errors="replace"),
            query={"agent": agent},
            key=self._transport.key(key),
            media=EXPORT_MEDIA_TYPE,
        )
        return RemoteChat(self._transport, self._transport.decoded(reply, Snapshot))

    async def chat(
        self,
        id: str,
        *,
        owner: str | None = None,
        agent: Agent[Any, NewChatOutputT] | None = None,
    ) -> RemoteChat[NewChatOutputT]:
        check_owner(owner)
        if id in INVALID_PATH_NAMES:
            raise ChatNotFound(id)
        snapshot = await self._transport.get(at("chats", id), Snapshot)
        return RemoteChat(self._transport, snapshot, agent)

    async def list(
        self,
        *,
        owner: str | None = None,
        parent: str | None = None,
        archived: bool = False,
        before: str | None = None,
        limit: int = 100,
    ) -> tuple[Snapshot, ...]:
        check_owner(owner)
        check_limit(limit)
        chats: list[Snapshot] = []
        # A list includes chats shared by others, unless it is one of child chats.
        more: Any = {"before": before} | ({"shared": False} if parent is None else {})
        while len(chats) < limit:
            size = min(limit - len(chats), MAX_PAGE)
            page = await self._transport.get(
                "/chats", _ChatPage, parent=parent, archived=archived, limit=size, **more
            )
            chats += page.chats
            more = {**more, "before": None, "cursor": page.next}
            if page.next is None:
                break
        return tuple(chats)

    async def budgets(self, owner: str = "") -> BudgetReport:
        return await self._transport.get(_budgets_of(owner), BudgetReport)

    async def set_budgets(
        self, budgets: Budgets | None, *, owner: str = "", key: str | None = None
    ) -> BudgetReport:
        if not isinstance(budgets, Budgets | None):
            raise InvalidInput(f"budgets is {budgets!r:.80}: use Budgets(…), or None")
        body = {} if budgets is None else to_builtins(budgets)
        path = _budgets_of(owner)
        return await self._transport.change("PUT", path, BudgetReport, body, key=key)

    def watch(self, after: ListCursor | str | None = None) -> RemoteWatch:
        """The chats of the token's owner, as they change, after a cursor. It never ends.

        It does not start with the existing chats: call `list` once it has begun.
        """
        cursor = ListCursor.parse(after) if isinstance(after, str) else after
        return RemoteWatch(self._transport, cursor)


def _budgets_of(owner: str) -> str:
    """The path of a user's budgets; without an owner, of those of the caller."""
    return at("users", owner) + "/budgets" if owner else "/budgets"


prepare_to_decode(_ChatPage)
