"""A chat at the far end of a wire: every door that a chat in this process has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import anyio
from msgspec import UNSET, Struct, UnsetType

from holdfast.agent import Resolution
from holdfast.chat import export
from holdfast.chat.errors import ChatArchived, ChatNotFound, InvalidInput, NotArchived, NothingWaits
from holdfast.chat.handle import check_limit, labels_of, title_of
from holdfast.chat.queries import Spent
from holdfast.chat.state import Deliver, Rule, Stored
from holdfast.chat.stream import Cursor
from holdfast.chat.view import ChatResult, Pending, Receipt, Revision, Snapshot
from holdfast.client.given import answers_of, parts_of, without_none
from holdfast.client.line import Line, at
from holdfast.client.queue import RemoteQueue
from holdfast.client.stream import Outcome, RemoteStream
from holdfast.kernel.messages import Message, Prompt, prepare_to_decode
from holdfast.kernel.model import Effort, check_effort

T = TypeVar("T")
PAGE: Final = 200
"""Rows that a server gives at once."""
POLL: Final = 5.0
"""Seconds after which a chat that was not heard of is asked about."""


class Messages(Struct, frozen=True):
    messages: tuple[Stored, ...]
    next: int | None


class Actions(Struct, frozen=True):
    actions: tuple[Pending, ...]


class RemoteChat:
    """A durable conversation on a server. Costs nothing to keep, and nothing to drop.

    What it refuses is a `ChatError` that says why; nothing was changed then.
    """

    def __init__(self, line: Line, snapshot: Snapshot) -> None:
        self.id = snapshot.id
        self.owner = snapshot.owner
        self.agent = snapshot.agent
        """The name of the agent that answers."""
        self.first = snapshot
        """As it was when this was made; with a key, as it was the first time."""
        self.queue = RemoteQueue(line, snapshot.id)
        """The messages that wait."""
        self._line = line
        self._path = at("chats", snapshot.id)

    def __repr__(self) -> str:
        return f"<RemoteChat {self.id}>"

    # --- reading ---

    async def read(self) -> Snapshot:
        """The chat as it is now."""
        return await self._line.get(self._path, Snapshot)

    async def messages(
        self,
        *,
        before: int | None = None,
        after: int | None = None,
        limit: int = 100,
        superseded: bool = False,
    ) -> tuple[Stored, ...]:
        """A page: the newest messages in front of number `before`, in order.

        With `after` the first ones behind that number.
        """
        check_limit(limit)
        found: list[Stored] = []
        upward = after is not None
        place = max(after, 0) if after is not None else before
        while len(found) < limit:
            name = "after" if upward else "before"
            asked = {name: place if place is None or upward else max(place, 1)}
            size = min(limit - len(found), PAGE)
            page = await self._line.get(
                self._path + "/messages", Messages, limit=size, superseded=superseded, **asked
            )
            found = [*found, *page.messages] if upward else [*page.messages, *found]
            place = page.next
            if place is None:
                break
        return tuple(one for one in found if before is None or one.number < before)

    async def history(self) -> tuple[Message, ...]:
        """All live messages: what `agent.run(history=…)` would go on with."""
        # Of one moment, which pages are not.
        whole = export.parse(await self.export(files=False))
        return tuple(one.message for one in whole.messages if one.superseded_at is None)

    async def actions(self) -> tuple[Pending, ...]:
        """What the chat waits for from outside."""
        return (await self._line.get(self._path + "/actions", Actions)).actions

    async def usage(self, *, tree: bool = False) -> Spent:
        """Tokens and cost; with `tree` also of all chats that it set to work."""
        return await self._line.get(self._path + "/usage", Spent, tree=tree)

    async def export(self, format: export.Format = "jsonl", *, files: bool = True) -> str:
        """The whole chat as text: `jsonl` loses nothing, `markdown` is for people.

        `files`: with the bytes of files that it refers to. Markdown only names them.
        """
        if format not in ("jsonl", "markdown"):
            raise InvalidInput(f"format is {format!r}: use 'jsonl' or 'markdown'")
        asked = {"format": format, "files": files}
        reply = await self._line.reply("GET", self._path + "/export", query=asked)
        if reply.status != 200:
            raise self._line.refused(reply)
        return reply.body.decode()

    def stream(self, after: Cursor | str | None = None, *, follow: bool = False) -> RemoteStream:
        """What the chat says, from a cursor on. It ends when the chat rests, or never."""
        cursor = Cursor.parse(after) if isinstance(after, str) else after
        return RemoteStream(self._line, self.id, cursor, follow=follow)

    async def rest(self) -> ChatResult:
        """Wait until the chat rests: idle, failed, or waiting for somebody outside.

        Raises `Stranded` when it cannot go on: no worker knows its agent.
        """
        found = await self._result()
        if found is not None:
            return found
        seen = await self.read()
        async with self.stream(Cursor(seen.snapshot_version), follow=True) as news:
            while found is None:
                with anyio.move_on_after(POLL):
                    await news.rests()
                found = await self._result()
        return found

    async def _result(self) -> ChatResult | None:
        return (await self._line.get(self._path + "/result", Outcome)).result

    # --- talking ---

    async def send(
        self,
        prompt: Prompt,
        deliver: Deliver = "queue",
        *,
        model: str | None = None,
        effort: Effort | None = None,
        key: str | None = None,
    ) -> Receipt:
        """Say something. While the chat is busy it waits in the queue, as `deliver` says:

        `queue`: until the turn is over. `steer`: until the next step. `interrupt`: the turn is
        stopped for it. `model` and `effort` hold from this message on. With a `key` it is said
        once, however often this is called.
        """
        check_effort(effort)
        body = without_none(prompt=parts_of(prompt), deliver=deliver, model=model, effort=effort)
        return await self._do("POST", "/messages", Receipt, body, key)

    async def interrupt(self, *, key: str | None = None) -> Snapshot:
        """Stop the turn and keep what it produced. Does nothing when nothing runs."""
        return await self._do("POST", "/interrupt", Snapshot, None, key)

    async def retry(self, *, key: str | None = None) -> Snapshot:
        """Try again after an error."""
        return await self._do("POST", "/retry", Snapshot, None, key)

    async def edit(
        self,
        number: int,
        prompt: Prompt,
        *,
        model: str | None = None,
        effort: Effort | None = None,
        key: str | None = None,
    ) -> Revision:
        """Say something else instead of message `number`: it and all behind it are superseded."""
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
    ) -> RemoteChat:
        """A new chat with the history up to message `number`.

        With a prompt: up to before it, and the prompt in its place.
        """
        body = without_none(
            number=number,
            prompt=None if prompt is None else parts_of(prompt),
            title=title_of(title),
            share_workspace=share_workspace,
        )
        return RemoteChat(self._line, await self._do("POST", "/fork", Snapshot, body, key))

    async def compact(self, *, key: str | None = None) -> Snapshot:
        """Have the conversation summarized now."""
        return await self._do("POST", "/compact", Snapshot, None, key)

    async def resolve(
        self,
        answers: Mapping[str, Resolution],
        *,
        allow_for_chat: Rule | None = None,
        key: str | None = None,
    ) -> Snapshot:
        """Answer actions by their call ids: all of them, or, when one is refused, none.

        An answer is what `agent.run(resolve=…)` takes: `approve(action)`, `Deny(reason)`, or the
        result. `allow_for_chat` lets calls like it run in this chat without being asked again.
        """
        if not answers:
            raise NothingWaits([], [action.call.id for action in await self.actions()])
        body = without_none(answers=answers_of(answers), allow_for_chat=allow_for_chat)
        return await self._do("POST", "/actions", Snapshot, body, key)

    # --- what it is called and made of ---

    async def rename(self, title: str | None, *, key: str | None = None) -> Snapshot:
        """Give it a title. None takes it away: the next turn brings a new one."""
        return await self._do("PATCH", "", Snapshot, {"title": title_of(title)}, key)

    async def update(
        self,
        *,
        labels: Mapping[str, str] | UnsetType = UNSET,
        model: str | UnsetType | None = UNSET,
        effort: Effort | UnsetType | None = UNSET,
        key: str | None = None,
    ) -> Snapshot:
        """Change what is given, together. None for a model or an effort: the agent's own."""
        given: dict[str, Any] = {"labels": labels, "model": model, "effort": effort}
        changes = {name: value for name, value in given.items() if value is not UNSET}
        if not changes:
            raise InvalidInput("there is nothing to change: give labels, model or effort")
        if "labels" in changes:
            changes["labels"] = labels_of(changes["labels"])
        check_effort(changes.get("effort"))
        return await self._do("PATCH", "", Snapshot, changes, key)

    async def archive(self, *, key: str | None = None) -> Snapshot:
        """Put it away, with all chats that it set to work."""
        if key is None and (await self.read()).archived:
            raise ChatArchived(self.id)
        return await self._do("PATCH", "", Snapshot, {"archived": True}, key)

    async def unarchive(self, *, key: str | None = None) -> Snapshot:
        if key is None and not (await self.read()).archived:
            raise NotArchived(self.id)
        return await self._do("PATCH", "", Snapshot, {"archived": False}, key)

    async def delete(self, *, key: str | None = None) -> None:
        """Remove it for good, with all chats that it set to work."""
        if key is None:
            await self.read()
        reply = await self._line.reply("DELETE", self._path, key=self._line.key(key))
        if reply.status == 204:
            return
        error = self._line.refused(reply)
        # It was there: it went with a request whose answer was lost, or the first with this key.
        if not isinstance(error, ChatNotFound):
            raise error

    async def _do(self, method: str, path: str, kind: type[T], body: object, key: str | None) -> T:
        return await self._line.change(method, self._path + path, kind, body, key=key)


prepare_to_decode(Messages, Actions, Spent, Snapshot, Revision, Receipt)
