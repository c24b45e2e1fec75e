"""A chat on a remote server, with the same interface as a chat in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

import anyio
from msgspec import UNSET, Struct, UnsetType, to_builtins

from holdfast.agent import Agent, Resolution
from holdfast.chat.budgets import BudgetReport
from holdfast.chat.client_tools import ClientTool
from holdfast.chat.errors import ChatArchived, ChatNotFound, InvalidInput, NotArchived, NothingWaits
from holdfast.chat.export import Format, parse
from holdfast.chat.handle import check_limit, labels_of, title_of
from holdfast.chat.interface import ChatHandle
from holdfast.chat.queries import Spent
from holdfast.chat.rows import Deliver, Rule, Stored
from holdfast.chat.snapshots import ChatResult, Pending, Receipt, Revision, Snapshot
from holdfast.chat.stream import Cursor
from holdfast.client.remote_queue import RemoteQueue
from holdfast.client.request_bodies import answers_of, parts_of, without_none
from holdfast.client.stream import RemoteResult, RemoteStream
from holdfast.client.transport import Transport, at
from holdfast.kernel.limits import Limits
from holdfast.kernel.messages import Message, Prompt, prepare_to_decode
from holdfast.kernel.model import Effort, check_effort
from holdfast.kernel.type_parameters import ChatOutputT

T = TypeVar("T")
MAX_PAGE: Final = 200
"""Most entries that a server returns on one page."""
POLL_INTERVAL: Final = 5.0
"""Seconds without an event after which the chat is queried."""


class _MessagePage(Struct, frozen=True):
    """A page of messages."""

    messages: tuple[Stored, ...]
    next: int | None


class _ActionList(Struct, frozen=True):
    """Pending actions of a chat."""

    actions: tuple[Pending, ...]


class RemoteChat(ChatHandle[ChatOutputT]):
    """A durable conversation on a server. A handle: it holds no resources.

    A refused operation raises a `ChatError` that says why; nothing was changed then.
    """

    def __init__(
        self,
        transport: Transport,
        snapshot: Snapshot,
        answers: Agent[Any, ChatOutputT] | None = None,
    ) -> None:
        self.id = snapshot.id
        self.owner = snapshot.owner
        self.agent = snapshot.agent
        self.first = snapshot
        self._answers = answers
        self.queue: RemoteQueue = RemoteQueue(transport, snapshot.id)
        self._transport = transport
        self._path = at("chats", snapshot.id)

    def __repr__(self) -> str:
        return f"<RemoteChat {self.id}>"

    # --- reading ---

    async def read(self) -> Snapshot:
        return await self._transport.get(self._path, Snapshot)

    async def messages(
        self,
        *,
        before: int | None = None,
        after: int | None = None,
        limit: int = 100,
        superseded: bool = False,
    ) -> tuple[Stored, ...]:
        check_limit(limit)
        rows: list[Stored] = []
        upward = after is not None
        position = max(after, 0) if after is not None else before
        while len(rows) < limit:
            name = "after" if upward else "before"
            query = {name: position if position is None or upward else max(position, 1)}
            size = min(limit - len(rows), MAX_PAGE)
            page = await self._transport.get(
                self._path + "/messages", _MessagePage, limit=size, superseded=superseded, **query
            )
            rows = [*rows, *page.messages] if upward else [*page.messages, *rows]
            position = page.next
            if position is None:
                break
        return tuple(one for one in rows if before is None or one.number < before)

    async def history(self) -> tuple[Message, ...]:
        # By export, which is one snapshot; pages are not.
        whole = parse(await self.export(files=False))
        return tuple(one.message for one in whole.messages if one.superseded_at is None)

    async def actions(self) -> tuple[Pending, ...]:
        return (await self._transport.get(self._path + "/actions", _ActionList)).actions

    async def usage(self, *, tree: bool = False) -> Spent:
        return await self._transport.get(self._path + "/usage", Spent, tree=tree)

    async def budget(self) -> BudgetReport:
        return await self._transport.get(self._path + "/budget", BudgetReport)

    async def set_budget(self, limits: Limits | None, *, key: str | None = None) -> BudgetReport:
        if not isinstance(limits, Limits | None):
            raise InvalidInput(f"the budget is {limits!r:.80}: use Limits(…), or None")
        body = {"limits": None if limits is None else to_builtins(limits)}
        path = self._path + "/budget"
        return await self._transport.change("PUT", path, BudgetReport, body, key=key)

    async def export(self, format: Format = "jsonl", *, files: bool = True) -> str:
        if format not in ("jsonl", "markdown"):
            raise InvalidInput(f"format is {format!r}: use 'jsonl' or 'markdown'")
        query = {"format": format, "files": files}
        reply = await self._transport.reply("GET", self._path + "/export", query=query)
        if reply.status != 200:
            raise self._transport.refused(reply)
        return reply.body.decode()

    def stream(self, after: Cursor | str | None = None, *, follow: bool = False) -> RemoteStream:
        cursor = Cursor.parse(after) if isinstance(after, str) else after
        return RemoteStream(self._transport, self.id, cursor, follow=follow)

    async def rest(self) -> ChatResult[ChatOutputT]:
        result = await self._result()
        if result is not None:
            return result
        seen = await self.read()
        async with self.stream(Cursor(seen.snapshot_version), follow=True) as news:
            while result is None:
                with anyio.move_on_after(POLL_INTERVAL):
                    await news.rests()
                result = await self._result()
        return result

    async def _result(self) -> ChatResult[ChatOutputT] | None:
        result = (await self._transport.get(self._path + "/result", RemoteResult)).result
        return None if result is None else result.of_agent(self._answers)

    # --- messages and turns ---

    async def send(
        self,
        prompt: Prompt,
        deliver: Deliver = "queue",
        *,
        model: str | None = None,
        effort: Effort | None = None,
        key: str | None = None,
    ) -> Receipt:
        check_effort(effort)
        body = without_none(prompt=parts_of(prompt), deliver=deliver, model=model, effort=effort)
        return await self._do("POST", "/messages", Receipt, body, key)

    async def interrupt(self, *, key: str | None = None) -> Snapshot:
        return await self._do("POST", "/interrupt", Snapshot, None, key)

    async def retry(self, *, key: str | None = None) -> Snapshot:
        return await self._do("POST", "/retry", Snapshot, None, key)

    async def resume(self, *, key: str | None = None) -> Snapshot:
        return await self._do("POST", "/resume", Snapshot, None, key)

    async def edit(
        self,
        number: int,
        prompt: Prompt,
        *,
        model: str | None = None,
        effort: Effort | None = None,
        key: str | None = None,
    ) -> Revision:
        check_effort(effort)
        body = without_none(prompt=parts_of(prompt), model=model, effort=effort)
        return await self._do("PATCH", "/messages" + at(number), Revision, body, key)

    async def fork(
        self,
        number: int,
        prompt: Prompt | None = None,
        *,
        title: str | None = None,
        share_workspace: bool = False,
        key: str | None = None,
    ) -> RemoteChat[ChatOutputT]:
        body = without_none(
            number=number,
            prompt=None if prompt is None else parts_of(prompt),
            title=title_of(title),
            share_workspace=share_workspace,
        )
        snapshot = await self._do("POST", "/fork", Snapshot, body, key)
        return RemoteChat(self._transport, snapshot, self._answers)

    async def compact(self, *, key: str | None = None) -> Snapshot:
        return await self._do("POST", "/compact", Snapshot, None, key)

    async def resolve(
        self,
        answers: Mapping[str, Resolution],
        *,
        allow_for_chat: Rule | None = None,
        key: str | None = None,
    ) -> Snapshot:
        if not answers:
            raise NothingWaits([], [action.call.id for action in await self.actions()])
        body = without_none(answers=answers_of(answers), allow_for_chat=allow_for_chat)
        return await self._do("POST", "/actions", Snapshot, body, key)

    # --- properties and lifecycle ---

    async def rename(self, title: str | None, *, key: str | None = None) -> Snapshot:
        return await self._do("PATCH", "", Snapshot, {"title": title_of(title)}, key)

    async def retitle(self, *, key: str | None = None) -> Snapshot:
        return await self._do("POST", "/title", Snapshot, None, key)

    async def update(
        self,
        *,
        agent: str | UnsetType = UNSET,
        labels: Mapping[str, str] | UnsetType = UNSET,
        model: str | UnsetType | None = UNSET,
        effort: Effort | UnsetType | None = UNSET,
        client_tools: Sequence[ClientTool] | UnsetType = UNSET,
        key: str | None = None,
    ) -> Snapshot:
        values: dict[str, Any] = {"labels": labels, "model": model, "effort": effort}
        values |= {"agent": agent, "client_tools": client_tools}
        changes = {name: value for name, value in values.items() if value is not UNSET}
        if not changes:
            raise InvalidInput(
                "there is nothing to change: give agent, labels, model, effort or client_tools"
            )
        if "labels" in changes:
            changes["labels"] = labels_of(changes["labels"])
        check_effort(changes.get("effort"))
        return await self._do("PATCH", "", Snapshot, changes, key)

    async def archive(self, *, key: str | None = None) -> Snapshot:
        if key is None and (await self.read()).archived:
            raise ChatArchived(self.id)
        return await self._do("PATCH", "", Snapshot, {"archived": True}, key)

    async def unarchive(self, *, key: str | None = None) -> Snapshot:
        if key is None and not (await self.read()).archived:
            raise NotArchived(self.id)
        return await self._do("PATCH", "", Snapshot, {"archived": False}, key)

    async def delete(self, *, key: str | None = None) -> None:
        if key is None:
            await self.read()
        reply = await self._transport.reply("DELETE", self._path, key=self._transport.key(key))
        if reply.status == 204:
            return
        error = self._transport.refused(reply)
        # It existed: a request whose response was lost deleted it, or the first one with this key.
        if not isinstance(error, ChatNotFound):
            raise error

    async def _do(self, method: str, path: str, kind: type[T], body: object, key: str | None) -> T:
        return await self._transport.change(method, self._path + path, kind, body, key=key)


prepare_to_decode(_MessagePage, _ActionList, Spent, Snapshot, Revision, Receipt)
