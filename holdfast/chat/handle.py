"""A chat as a program holds it: every door to it, with what is given checked at the door.

No signature names the database, and every value is frozen: a chat at the far end of a wire reads
the same.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, TypeVar

import anyio
from msgspec import UNSET, UnsetType

from holdfast.agent import Agent, Resolution
from holdfast.chat import export, queries
from holdfast.chat.errors import InvalidInput, NothingWaits
from holdfast.chat.family import NewChat
from holdfast.chat.feed import Feed
from holdfast.chat.files import StoredFile, find_data, read_files_of
from holdfast.chat.locked import read_chat
from holdfast.chat.machine import Key, Machine
from holdfast.chat.queries import Spent
from holdfast.chat.queue import read_queue
from holdfast.chat.state import Chat as Row
from holdfast.chat.state import Deliver, Queued, Rule, Stored, check_text
from holdfast.chat.stream import ChatStream, Cursor
from holdfast.chat.view import (
    ChatResult,
    Pending,
    Receipt,
    Revision,
    Snapshot,
    pending,
    read_result,
    read_snapshot,
    snapshot_of,
)
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.messages import Message, Prompt, encode, user_message
from holdfast.kernel.model import Effort, check_effort
from holdfast.kernel.policy import Wording
from holdfast.kernel.ports import Ports
from holdfast.store.database import Database, Tx

T = TypeVar("T")
MOST: Final = 1_000
"""Rows that are read at once."""


class Desk:
    """What all handles of one host work with."""

    def __init__(
        self, db: Database, agents: Mapping[str, Agent], feed: Feed, ports: Ports, runs_here: bool
    ) -> None:
        self.db = db
        self.agents = agents
        self.feed = feed
        self.ports = ports
        self.machine = Machine(db, ports)
        self._runs_here = runs_here

    async def ask(
        self, chat_id: str, question: Callable[..., Awaitable[T]], *args: Any, **more: Any
    ) -> T:
        """Read something of a chat that is there. Raises `ChatNotFound`."""

        async def read(tx: Tx) -> T:
            await read_chat(tx, chat_id)
            return await question(tx, chat_id, *args, **more)

        return await self.db.read(read)

    def agent(self, name: str | None) -> Agent:
        """The agent of this name; the first when none is named."""
        if name is None:
            return next(iter(self.agents.values()))
        found = self.agents.get(name)
        if found is None:
            known = ", ".join(self.agents)
            raise ConfigError(f"no agent is named {name!r}: use one of {known}")
        return found

    def check_choice(self, agent: str, model: str | None, effort: str | None) -> None:
        """Refuse now what the worker could only fail at later."""
        check_effort(effort)
        if model is None:
            return
        if not isinstance(model, str) or not model:
            raise ConfigError(f"model is {model!r}: use its name, as provider:model")
        known = self.agents.get(agent)
        if self._runs_here and known is not None:
            known.replace(model=model)


class Chat:
    """A durable conversation, as a program holds it. Costs nothing to keep, and nothing to drop.

    What it refuses is a `ChatError` that says why; nothing was changed then.
    """

    def __init__(self, desk: Desk, row: Row) -> None:
        self.id = row.id
        self.owner = row.owner
        self.agent = row.agent
        """The name of the agent that answers."""
        self.first = snapshot_of(row)
        """As it was when this was made; with a key, as it was the first time."""
        self.queue = Queue(desk, row.id, row.owner)
        """The messages that wait."""
        self._desk = desk
        self._db = desk.db
        self._machine = desk.machine
        self._feed = desk.feed

    def __repr__(self) -> str:
        return f"<Chat {self.id}>"

    # --- reading ---

    async def read(self) -> Snapshot:
        """The chat as it is now."""
        return await self._db.read(lambda tx: read_snapshot(tx, self.id, self._feed.watch))

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
        for name, number in (("before", before), ("after", after)):
            if number is not None:
                check_number(name, number)
        more: dict[str, Any] = {"before": before, "limit": limit, "superseded": superseded}
        if after is not None:
            more |= {"after": after, "oldest": True}
        return tuple(await self._ask(queries.read_messages, **more))

    async def history(self) -> tuple[Message, ...]:
        """All live messages: what `agent.run(history=…)` would go on with."""
        return tuple(stored.message for stored in await self._ask(queries.read_history))

    async def actions(self) -> tuple[Pending, ...]:
        """What the chat waits for from outside."""
        return tuple(map(pending, await self._ask(queries.read_actions)))

    async def usage(self, *, tree: bool = False) -> Spent:
        """Tokens and cost; with `tree` also of all chats that it set to work."""
        return await self._ask(queries.spent, tree=tree)

    async def _ask(self, question: Callable[..., Awaitable[T]], **more: Any) -> T:
        return await self._desk.ask(self.id, question, **more)

    async def export(self, format: export.Format = "jsonl", *, files: bool = True) -> str:
        """The whole chat as text: `jsonl` loses nothing, `markdown` is for people.

        `files`: with the bytes of files that it refers to. Markdown only names them.
        """
        if format == "jsonl":
            return "".join([f"{line}\n" async for line in self.export_lines(files=files)])
        chat, messages, _ = await self._db.read(self._read_whole)
        return export.export(chat, messages, format)

    async def export_live(self) -> str:
        """In Markdown, without what edits took out."""
        chat, messages, _ = await self._db.read(partial(self._read_whole, live=True))
        return export.export(chat, messages, "markdown")

    async def export_lines(
        self, *, files: bool = True, live: bool = False
    ) -> AsyncGenerator[str, None]:
        """The lines of an export in JSONL. Of the files, one at a time is in memory.

        `live`: without what edits took out, and numbered anew, as a fork is.
        """
        chat, messages, known = await self._db.read(partial(self._read_whole, live=live))
        if live:
            chat, messages = export.numbered(chat, messages)
        wanted = known if files else ()
        for line in export.jsonl(chat, messages, bool(wanted)):
            yield line
        for file in wanted:
            data = await self._db.read(partial(find_data, hash=file.hash))
            if data is not None:  # else it was deleted meanwhile
                made = export.Attached(file.id, file.media_type, file.name, data)
                yield export.jsonl_file(made)

    async def _read_whole(
        self, tx: Tx, live: bool = False
    ) -> tuple[Snapshot, Sequence[Stored], Sequence[StoredFile]]:
        chat = await read_snapshot(tx, self.id, self._feed.watch)
        messages = await queries.read_messages(
            tx, self.id, limit=chat.messages + 1, superseded=not live
        )
        said = (stored.message for stored in messages)
        return chat, messages, await read_files_of(tx, self.owner, said)

    def stream(self, after: Cursor | str | None = None, *, follow: bool = False) -> ChatStream:
        """What the chat says, from a cursor on. It ends when the chat rests, or never."""
        cursor = Cursor.parse(after) if isinstance(after, str) else after
        return ChatStream(self._feed, self.id, cursor, follow=follow)

    async def rest(self) -> ChatResult:
        """Wait until the chat rests: idle, failed, or waiting for somebody outside.

        Raises `Stranded` when it cannot go on: no worker knows its agent.
        """
        news = self._feed.news(self.id)
        while True:
            heard = news.count
            result = await self._db.read(lambda tx: read_result(tx, self.id, self._feed.watch))
            if result is not None:
                return result
            with anyio.move_on_after(self._feed.poll):
                await news.after(heard)

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
        self._desk.check_choice(self.agent, model, effort)
        message = user_message(prompt)
        sent = await self._machine.send(
            self.id,
            message,
            deliver,
            model=model,
            effort=effort,
            key=self._key(key, "send", (message, deliver, model, effort)),
        )
        return Receipt(sent.number, sent.queued)

    async def interrupt(self, *, key: str | None = None) -> Snapshot:
        """Stop the turn and keep what it produced. Does nothing when nothing runs."""
        known = self._desk.agents.get(self.agent)
        wording = known.policy.wording if known is not None else Wording()
        row = await self._machine.interrupt(
            self.id, wording.interrupted_tools, self._key(key, "interrupt", ())
        )
        return snapshot_of(row)

    async def retry(self, *, key: str | None = None) -> Snapshot:
        """Try again after an error."""
        return snapshot_of(await self._machine.retry(self.id, self._key(key, "retry", ())))

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
        check_number("number", number)
        self._desk.check_choice(self.agent, model, effort)
        message = user_message(prompt)
        edited = await self._machine.edit(
            self.id,
            number,
            message,
            model=model,
            effort=effort,
            key=self._key(key, "edit", (number, message, model, effort)),
        )
        return Revision(edited.number, edited.superseded, edited.dropped)

    async def fork(
        self,
        number: int,
        prompt: Prompt | None = None,
        *,
        title: str | None = None,
        share_workspace: bool = False,
        key: str | None = None,
    ) -> Chat:
        """A new chat with the history up to message `number`.

        With a prompt: up to before it, and the prompt in its place.
        """
        check_number("number", number)
        source = await self._machine.read(self.id)
        new = NewChat(
            id=self._desk.ports.new_id(),
            agent=source.agent,
            message=None if prompt is None else user_message(prompt),
            owner=source.owner,
            title=title_of(title) or (source.title if source.titled_by == "person" else None),
            labels=source.labels,
            model=source.model,
            effort=source.effort,
            workspace=source.workspace if share_workspace else None,
        )
        body = (number, new.message, title, share_workspace)
        row = await self._machine.fork(self.id, number, new, self._key(key, "fork", body))
        return Chat(self._desk, row)

    async def compact(self, *, key: str | None = None) -> Snapshot:
        """Have the conversation summarized now."""
        return snapshot_of(await self._machine.compact(self.id, self._key(key, "compact", ())))

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
        agent = self._desk.agent(self.agent)
        if allow_for_chat is not None and allow_for_chat.tool not in agent.toolset:
            raise ConfigError(f"{agent.name} has no tool {allow_for_chat.tool!r} to allow")
        waiting = {action.call.id: action for action in await self.actions()}
        named = self._key(key, "resolve", (dict(answers), allow_for_chat))
        # Asked behind the actions: what was answered in between is found in one of the two.
        if (first := await self._machine.remembered(named, Row)) is not None:
            return snapshot_of(first)
        unknown = [call_id for call_id in answers if call_id not in waiting]
        if unknown:
            raise NothingWaits(unknown, list(waiting))
        given = {id: agent.answer(waiting[id].call, value) for id, value in answers.items()}
        return snapshot_of(await self._machine.resolve(self.id, given, allow_for_chat, named))

    # --- what it is called and made of ---

    async def rename(self, title: str | None, *, key: str | None = None) -> Snapshot:
        """Give it a title. None takes it away: the next turn brings a new one."""
        named = self._key(key, "rename", (title,))
        return snapshot_of(await self._machine.update(self.id, {"title": title_of(title)}, named))

    async def update(
        self,
        *,
        labels: Mapping[str, str] | UnsetType = UNSET,
        model: str | UnsetType | None = UNSET,
        effort: Effort | UnsetType | None = UNSET,
        key: str | None = None,
    ) -> Snapshot:
        """Change what is given, together. None for a model or an effort: the agent's own."""
        changes: dict[str, Any] = {}
        if labels is not UNSET:
            changes["labels"] = labels_of(labels)
        if model is not UNSET:
            changes["model"] = model
        if effort is not UNSET:
            changes["effort"] = effort
        if not changes:
            raise InvalidInput("there is nothing to change: give labels, model or effort")
        self._desk.check_choice(self.agent, changes.get("model"), changes.get("effort"))
        named = self._key(key, "update", (changes,))
        return snapshot_of(await self._machine.update(self.id, changes, named))

    async def archive(self, *, key: str | None = None) -> Snapshot:
        """Put it away, with all chats that it set to work."""
        return snapshot_of(await self._machine.archive(self.id, self._key(key, "archive", ())))

    async def unarchive(self, *, key: str | None = None) -> Snapshot:
        named = self._key(key, "unarchive", ())
        return snapshot_of(await self._machine.unarchive(self.id, named))

    async def delete(self, *, key: str | None = None) -> None:
        """Remove it for good, with all chats that it set to work."""
        await self._machine.delete(self.id, self._key(key, "delete", ()))

    def _key(self, key: str | None, method: str, body: tuple[object, ...]) -> Key | None:
        return key_of(self.owner, key, f"{method} {self.id}", body)


class Queue:
    """The messages that wait, in the order in which they will be delivered."""

    def __init__(self, desk: Desk, chat_id: str, owner: str) -> None:
        self._desk = desk
        self._machine = desk.machine
        self._id = chat_id
        self._owner = owner

    async def list(self) -> tuple[Queued, ...]:
        return tuple(await self._desk.ask(self._id, read_queue))

    async def edit(
        self,
        id: str,
        prompt: Prompt,
        deliver: Literal["steer", "queue"] | None = None,
        *,
        key: str | None = None,
    ) -> tuple[Queued, ...]:
        """Change what a waiting message says, or how it is delivered."""
        message = user_message(prompt)
        named = self._key(key, "edit queued", (id, message, deliver))
        return tuple(await self._machine.edit_queued(self._id, id, message, deliver, named))

    async def reorder(self, ids: Sequence[str], *, key: str | None = None) -> tuple[Queued, ...]:
        """Put the messages into this order, within each kind. Names every one of them once."""
        named = self._key(key, "reorder", (list(ids),))
        return tuple(await self._machine.reorder(self._id, list(ids), named))

    async def remove(self, id: str, *, key: str | None = None) -> Queued:
        """Take a message back before it is delivered."""
        return await self._machine.remove_queued(self._id, id, self._key(key, "remove", (id,)))

    async def promote(self, id: str, *, key: str | None = None) -> Receipt:
        """Deliver a message now, as if it had been sent to interrupt."""
        sent = await self._machine.promote(self._id, id, self._key(key, "promote", (id,)))
        return Receipt(sent.number, sent.queued)

    def _key(self, key: str | None, method: str, body: tuple[object, ...]) -> Key | None:
        return key_of(self._owner, key, f"{method} {self._id}", body)


# --- what is given ------------------------------------------------------------------------------


def key_of(owner: str, key: str | None, method: str, body: tuple[object, ...]) -> Key | None:
    if key is None:
        return None
    if not isinstance(key, str) or not key:
        raise InvalidInput(f"key is {key!r}: use text that is not empty, or None")
    check_text("key", key)
    check_text("owner", owner)
    from hashlib import sha256  # brings OpenSSL

    return Key(owner, key, sha256(encode((method, body))).hexdigest())


def title_of(title: str | None) -> str | None:
    if title is None:
        return None
    line = " ".join(title.split()) if isinstance(title, str) else ""
    if not line:
        raise InvalidInput(f"title is {title!r}: use text, or None for no title")
    return line


def labels_of(labels: Mapping[str, str]) -> dict[str, str]:
    given = dict(labels) if isinstance(labels, Mapping) else {"": labels}
    if not all(isinstance(one, str) and one for pair in given.items() for one in pair):
        raise InvalidInput(f"labels are {labels!r}: use {{name: value}}, all of them text")
    return dict(sorted(given.items()))  # the same labels are the same request


def check_limit(limit: int) -> None:
    if not 1 <= limit <= MOST:
        raise InvalidInput(f"limit is {limit!r}: use 1 to {MOST}")


def check_number(name: str, number: int) -> None:
    """SQLite would take the text "1" for 1, and PostgreSQL neither that nor what is too large."""
    if type(number) is not int or abs(number) >= 2**63:
        raise InvalidInput(f"{name} is {number!r}: use the number of a message")
