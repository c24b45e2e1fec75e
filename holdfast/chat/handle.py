"""The handle of a chat: every operation on it, with arguments checked before they are used.

It implements `interface.py`, as the client of a remote server does.
"""

from __future__ import annotations

import builtins
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args

import anyio
from msgspec import UNSET, UnsetType

from holdfast.agent import Agent, Resolution
from holdfast.chat import export, queries
from holdfast.chat.budgets import (
    BudgetCheck,
    BudgetReport,
    Budgets,
    check_priced,
    set_budget_of_chat,
)
from holdfast.chat.change_feed import Feed
from holdfast.chat.client_tools import ClientTool, check_client_tools
from holdfast.chat.errors import ChatArchived, InvalidInput, NothingWaits
from holdfast.chat.export import Format
from holdfast.chat.files import find_data
from holdfast.chat.idempotency import Key, once, stored_response
from holdfast.chat.interface import ChatHandle, ChatQueue
from holdfast.chat.paged_history import Transcript, read_transcript
from holdfast.chat.queries import Spent
from holdfast.chat.queue import read_queue
from holdfast.chat.rows import ChatRow, Deliver, Queued, Rule, Stored, check_text, read_chat
from holdfast.chat.snapshots import (
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
from holdfast.chat.stream import ChatStream, Cursor
from holdfast.chat.transitions import lifecycle, user
from holdfast.chat.transitions.lifecycle import NewChat
from holdfast.chat.transitions.user import Edited, Sent
from holdfast.kernel.attribute_hints import answer_foreign_attributes
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.limits import Limits
from holdfast.kernel.messages import Message, Prompt, encode, user_message
from holdfast.kernel.model import Effort, Model, check_effort, check_usable
from holdfast.kernel.ports import Ports
from holdfast.kernel.prepare import model_of, summary_model
from holdfast.kernel.suggest import no_agent
from holdfast.kernel.type_parameters import ChatOutputT
from holdfast.store.database import Database, Tx

T = TypeVar("T")
MAX_LIMIT: Final = 1_000
"""Maximum number of rows read at once."""


RewriteTitle: TypeAlias = Callable[[ChatRow, Key | None], Awaitable[ChatRow]]
"""Function that has a model write another title for a chat."""


class HostContext:
    """Resources that all handles of one host share: database, agents, ports, change feed."""

    def __init__(
        self,
        db: Database,
        agents: Mapping[str, Agent],
        feed: Feed,
        ports: Ports,
        runs_here: bool,
        rewrite: RewriteTitle | None = None,
        budgets: BudgetCheck | None = None,
        title_model: Model | None = None,
    ) -> None:
        self.db = db
        self.budgets = BudgetCheck() if budgets is None else budgets
        self.agents = agents
        self.feed = feed
        self.ports = ports
        self._runs_here = runs_here
        self._rewrite = rewrite
        self._title_model = title_model

    def agent(self, name: str | None) -> Agent:
        """Return the agent of this name; the first agent when no name is given."""
        if name is None:
            return next(iter(self.agents.values())).durable
        agent = self.agents.get(name)
        if agent is None:
            raise ConfigError(no_agent(name, self.agents))
        return agent.durable

    async def rewrite_title(self, chat: ChatRow, key: Key | None) -> ChatRow:
        """Have a model write another title for a chat."""
        if self._rewrite is None:
            raise ConfigError("this host writes no titles: open it with titles=True, or a model")
        self.agent(chat.agent)
        if chat.archived:
            raise ChatArchived(chat.id)
        return await self._rewrite(chat, key)

    def check_choice(self, agent: str, model: str | None, effort: str | None) -> None:
        """Reject a model or an effort with which the worker would fail later."""
        check_effort(effort)
        if model is None:
            return
        if not isinstance(model, str) or not model:
            raise ConfigError(f"model is {model!r}: use its name, as provider:model")
        known_agent = self.agents.get(agent)
        if self._runs_here and known_agent is not None:
            chosen = known_agent.replace(model=model)
            check_usable(chosen.model)
            if self.budgets.limits_cost is not None:
                check_priced(self.budgets.limits_cost, model_of(chosen))

    def check_budgets(self, budgets: Budgets) -> None:
        """Reject limits of cost if the price of a model is unknown. Raises `ConfigError`."""
        scope = budgets.limits_cost
        if scope is None:
            return
        for agent in self.agents.values():
            check_priced(scope, model_of(agent))
            check_priced(scope, summary_model(agent))
        if self._title_model is not None:
            check_priced(scope, self._title_model)


@answer_foreign_attributes
class Chat(ChatHandle[ChatOutputT]):
    """Handle of a durable conversation. It holds no resources and needs no closing.

    A refused operation changes nothing and raises a `ChatError` with the reason.
    """

    def __init__(
        self,
        context: HostContext,
        row: ChatRow,
        answers: Agent[Any, ChatOutputT] | None = None,
    ) -> None:
        self.id = row.id
        self.owner = row.owner
        self.agent = row.agent
        self.first = snapshot_of(row)
        self._answers = answers
        self.queue: Queue = Queue(context, row.id, row.owner)
        self._context = context
        self._db = context.db
        self._feed = context.feed

    def __repr__(self) -> str:
        return f"<Chat {self.id}>"

    # --- reading ---

    async def read(self) -> Snapshot:
        return await self._db.read(
            lambda tx: read_snapshot(tx, self.id, self._feed.stranded_limits)
        )

    async def messages(
        self,
        *,
        before: int | None = None,
        after: int | None = None,
        limit: int = 100,
        superseded: bool = False,
    ) -> tuple[Stored, ...]:
        check_limit(limit)
        for name, number in (("before", before), ("after", after)):
            if number is not None:
                check_number(name, number)
        options: dict[str, Any] = {"before": before, "limit": limit, "superseded": superseded}
        if after is not None:
            options |= {"after": after, "oldest": True}
        return tuple(await self._ask(queries.read_messages, **options))

    async def history(self) -> tuple[Message, ...]:
        return tuple(stored.message for stored in await self._ask(queries.read_history))

    async def actions(self) -> tuple[Pending, ...]:
        return tuple(map(pending, await self._ask(queries.read_actions)))

    async def usage(self, *, tree: bool = False) -> Spent:
        return await self._ask(queries.spent, tree=tree)

    async def budget(self) -> BudgetReport:
        return await self._ask(self._context.budgets.report_of_chat)

    async def set_budget(self, limits: Limits | None, *, key: str | None = None) -> BudgetReport:
        if not isinstance(limits, Limits | None):
            raise InvalidInput(f"the budget is {limits!r:.80}: use Limits(…), or None")
        self._context.check_budgets(Budgets(chat=limits))
        check = self._context.budgets

        async def change(tx: Tx) -> BudgetReport:
            await set_budget_of_chat(tx, self.id, limits)
            return await check.report(tx, self.owner, self.id)

        request = key_of(self.owner, key, "set budget", (self.id, limits))
        report = await once(self._db, request, BudgetReport, change)
        check.note(Budgets(chat=limits))
        return report

    async def _ask(self, query: Callable[..., Awaitable[T]], **options: Any) -> T:
        return await ask(self._db, self.id, query, **options)

    async def export(self, format: Format = "jsonl", *, files: bool = True) -> str:
        return "".join([piece async for piece in self.export_pieces(format, files=files)])

    async def export_pieces(
        self, format: Format = "jsonl", *, files: bool = True, live: bool = False
    ) -> AsyncGenerator[str, None]:
        """Yield an export in pieces. One page of messages, or one file, is in memory at a time.

        `live` leaves superseded messages out and renumbers the others, as a fork does.
        """
        if format not in get_args(Format):
            raise InvalidInput(f"format is {format!r}: use 'jsonl' or 'markdown'")
        transcript = await self._db.read(
            lambda tx: read_transcript(tx, self.id, self._feed.stranded_limits, live=live)
        )
        pieces = (
            self._markdown(transcript) if format == "markdown" else self._jsonl(transcript, files)
        )
        async with aclosing(pieces):
            async for piece in pieces:
                yield piece

    async def _markdown(self, transcript: Transcript) -> AsyncGenerator[str, None]:
        yield export.markdown_title(transcript.chat)
        async with aclosing(transcript.pages(self._db)) as pages:
            async for page in pages:
                yield "".join(f"\n\n{text}" for text in export.markdown_messages(page))
        yield "\n"

    async def _jsonl(self, transcript: Transcript, files: bool) -> AsyncGenerator[str, None]:
        stored_files = transcript.files if files else ()
        yield f"{export.jsonl_header(transcript.chat)}\n"
        async with aclosing(transcript.pages(self._db)) as pages:
            async for page in pages:
                yield "".join(f"{line}\n" for line in export.jsonl_messages(page))
        for file in stored_files:
            data = await self._db.read(partial(find_data, hash=file.hash))
            if data is not None:  # None: the chat was deleted meanwhile
                line = export.FileLine(file.id, file.media_type, file.name, data)
                yield f"{export.jsonl_file(line)}\n"

    def stream(self, after: Cursor | str | None = None, *, follow: bool = False) -> ChatStream:
        cursor = Cursor.parse(after) if isinstance(after, str) else after
        return ChatStream(self._feed, self.id, cursor, follow=follow)

    async def rest(self) -> ChatResult[ChatOutputT]:
        announcements = self._feed.announcements(self.id)
        while True:
            count = announcements.count
            result = await self._db.read(
                lambda tx: read_result(tx, self.id, self._feed.stranded_limits)
            )
            if result is not None:
                agent = self._context.agents.get(result.chat.agent, self._answers)
                return result.of_agent(agent)
            with anyio.move_on_after(self._feed.poll):
                await announcements.wait_after(count)

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
        check_deliver(deliver)
        self._context.check_choice(self.agent, model, effort)
        message = user_message(prompt)
        queued = Queued(self._context.ports.new_id(), deliver, message, 0, model, effort)
        request_key = self._key(key, "send", (message, deliver, model, effort))
        sent = await once(
            self._db, request_key, Sent, lambda tx: user.send(tx, self.id, queued), short=True
        )
        return Receipt(sent.number, sent.queued)

    async def interrupt(self, *, key: str | None = None) -> Snapshot:
        return await self._change(self._key(key, "interrupt", ()), user.interrupt)

    async def retry(self, *, key: str | None = None) -> Snapshot:
        return await self._change(self._key(key, "retry", ()), user.retry)

    async def resume(self, *, key: str | None = None) -> Snapshot:
        return await self._change(self._key(key, "resume", ()), user.resume)

    async def edit(
        self,
        number: int,
        prompt: Prompt,
        *,
        model: str | None = None,
        effort: Effort | None = None,
        key: str | None = None,
    ) -> Revision:
        check_number("number", number)
        self._context.check_choice(self.agent, model, effort)
        message = user_message(prompt)
        request_key = self._key(key, "edit", (number, message, model, effort))
        edit = partial(user.edit, number=number, message=message, model=model, effort=effort)
        edited = await once(self._db, request_key, Edited, lambda tx: edit(tx, self.id))
        return Revision(edited.number, edited.superseded, edited.dropped)

    async def fork(
        self,
        number: int,
        prompt: Prompt | None = None,
        *,
        title: str | None = None,
        share_workspace: bool = False,
        key: str | None = None,
    ) -> Chat[ChatOutputT]:
        check_number("number", number)
        id = self._context.ports.new_id()
        message = None if prompt is None else user_message(prompt)

        async def copy(tx: Tx) -> ChatRow:
            source = await read_chat(tx, self.id)
            new_chat = NewChat(
                id=id,
                agent=source.agent,
                message=message,
                owner=source.owner,
                title=title_of(title) or (source.title if source.titled_by == "person" else None),
                labels=source.labels,
                model=source.model,
                effort=source.effort,
                workspace=source.workspace if share_workspace else None,
                client_tools=source.client_tools or (),
            )
            return await lifecycle.fork(tx, self.id, number, new_chat)

        request_key = self._key(key, "fork", (number, message, title, share_workspace))
        row = await once(self._db, request_key, ChatRow, copy, creates=id)
        return Chat(self._context, row, self._answers)

    async def compact(self, *, key: str | None = None) -> Snapshot:
        return await self._change(self._key(key, "compact", ()), user.compact)

    async def resolve(
        self,
        answers: Mapping[str, Resolution],
        *,
        allow_for_chat: Rule | None = None,
        key: str | None = None,
    ) -> Snapshot:
        agent = self._context.agent(self.agent)
        if allow_for_chat is not None and allow_for_chat.tool not in agent.toolset:
            raise ConfigError(f"{agent.name} has no tool {allow_for_chat.tool!r} to allow")
        waiting = {action.call.id: action for action in await self.actions()}
        request_key = self._key(key, "resolve", (dict(answers), allow_for_chat))
        # Read after the actions, so that an action that is resolved in between is not missed.
        first_response = await stored_response(self._db, request_key, ChatRow)
        if first_response is not None:
            return snapshot_of(first_response)
        unknown = [call_id for call_id in answers if call_id not in waiting]
        if unknown:
            raise NothingWaits(unknown, list(waiting))
        resolved = {id: agent.answer(waiting[id].call, value) for id, value in answers.items()}
        return await self._change(request_key, user.resolve, resolved, allow_for_chat)

    # --- title and settings ---

    async def rename(self, title: str | None, *, key: str | None = None) -> Snapshot:
        request_key = self._key(key, "rename", (title,))
        return await self._change(request_key, user.update, {"title": title_of(title)})

    async def retitle(self, *, key: str | None = None) -> Snapshot:
        request_key = self._key(key, "retitle", ())
        first_response = await stored_response(self._db, request_key, ChatRow)
        if first_response is not None:
            return snapshot_of(first_response)
        row = await self._db.read(lambda tx: read_chat(tx, self.id))
        return snapshot_of(await self._context.rewrite_title(row, request_key))

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
        changes: dict[str, Any] = {}
        name = self.agent
        if agent is not UNSET:
            name = changes["agent"] = self._context.agent(agent).name
        if labels is not UNSET:
            changes["labels"] = labels_of(labels)
        if model is not UNSET:
            changes["model"] = model
        if effort is not UNSET:
            changes["effort"] = effort
        if client_tools is not UNSET:
            changes["client_tools"] = check_client_tools(self._context.agent(name), client_tools)
        if not changes:
            raise InvalidInput(
                "there is nothing to change: give agent, labels, model, effort or client_tools"
            )
        self._context.check_choice(name, changes.get("model"), changes.get("effort"))
        updated = await self._change(self._key(key, "update", (changes,)), user.update, changes)
        self.agent = updated.agent
        return updated

    async def archive(self, *, key: str | None = None) -> Snapshot:
        request_key = self._key(key, "archive", ())
        return await self._change(request_key, lifecycle.archive, short=False)

    async def unarchive(self, *, key: str | None = None) -> Snapshot:
        request_key = self._key(key, "unarchive", ())
        return await self._change(request_key, lifecycle.unarchive, short=False)

    async def delete(self, *, key: str | None = None) -> None:
        request_key = self._key(key, "delete", ())
        await once(self._db, request_key, tuple[str, ...], lambda tx: lifecycle.delete(tx, self.id))

    async def _change(
        self,
        key: Key | None,
        transition: Callable[..., Awaitable[ChatRow]],
        *args: object,
        short: bool = True,
    ) -> Snapshot:
        """Carry out a transition that returns the row of this chat. `short` as in `once`."""
        row = await once(
            self._db, key, ChatRow, lambda tx: transition(tx, self.id, *args), short=short
        )
        return snapshot_of(row)

    def _key(self, key: str | None, method: str, body: tuple[object, ...]) -> Key | None:
        return key_of(self.owner, key, f"{method} {self.id}", body)


class Queue(ChatQueue):
    """The queued messages of a chat, in delivery order."""

    def __init__(self, context: HostContext, chat_id: str, owner: str) -> None:
        self._db = context.db
        self._id = chat_id
        self._owner = owner

    async def list(self) -> tuple[Queued, ...]:
        return tuple(await ask(self._db, self._id, read_queue))

    async def edit(
        self,
        id: str,
        prompt: Prompt,
        deliver: Literal["steer", "queue"] | None = None,
        *,
        key: str | None = None,
    ) -> tuple[Queued, ...]:
        message = user_message(prompt)
        request_key = self._key(key, "edit queued", (id, message, deliver))
        return await self._change(request_key, user.edit_queued, id, message, deliver)

    async def reorder(self, ids: Sequence[str], *, key: str | None = None) -> tuple[Queued, ...]:
        request_key = self._key(key, "reorder", (list(ids),))
        return await self._change(request_key, user.reorder, list(ids))

    async def remove(self, id: str, *, key: str | None = None) -> Queued:
        return await once(
            self._db,
            self._key(key, "remove", (id,)),
            Queued,
            lambda tx: user.remove_queued(tx, self._id, id),
            short=True,
        )

    async def promote(self, id: str, *, key: str | None = None) -> Receipt:
        sent = await once(
            self._db,
            self._key(key, "promote", (id,)),
            Sent,
            lambda tx: user.promote(tx, self._id, id),
            short=True,
        )
        return Receipt(sent.number, sent.queued)

    async def _change(
        self,
        key: Key | None,
        transition: Callable[..., Awaitable[builtins.list[Queued]]],
        *args: object,
    ) -> tuple[Queued, ...]:
        """Carry out a transition that returns the queue."""
        return tuple(
            await once(
                self._db,
                key,
                builtins.list[Queued],
                lambda tx: transition(tx, self._id, *args),
                short=True,
            )
        )

    def _key(self, key: str | None, method: str, body: tuple[object, ...]) -> Key | None:
        return key_of(self._owner, key, f"{method} {self._id}", body)


async def ask(db: Database, chat_id: str, query: Callable[..., Awaitable[T]], **options: Any) -> T:
    """Run a query on a chat that must exist. Raises `ChatNotFound`."""

    async def read(tx: Tx) -> T:
        await read_chat(tx, chat_id)
        return await query(tx, chat_id, **options)

    return await db.read(read)


# --- arguments ----------------------------------------------------------------------------------


def name_of_agent(agent: str | Agent[Any, Any] | None) -> str | None:
    """Return the name of an agent that is given by its name, or as itself."""
    return agent.name if isinstance(agent, Agent) else agent


def key_of(owner: str, key: str | None, method: str, body: tuple[object, ...]) -> Key | None:
    """Return the idempotency key of a request, with the fingerprint of its arguments."""
    if key is None:
        return None
    if not isinstance(key, str) or not key:
        raise InvalidInput(f"key is {key!r}: use text that is not empty, or None")
    check_text("key", key)
    check_text("owner", owner)
    from hashlib import sha256  # imports OpenSSL

    return Key(owner, key, sha256(encode((method, body))).hexdigest())


def check_deliver(deliver: str) -> None:
    """Reject an unknown way to deliver a message."""
    if deliver not in get_args(Deliver):
        ways = ", ".join(user.SENDS)
        raise InvalidInput(f"deliver is {deliver!r}: use one of {ways}")


def title_of(title: str | None) -> str | None:
    """Validate a title: text or None."""
    if title is None:
        return None
    line = " ".join(title.split()) if isinstance(title, str) else ""
    if not line:
        raise InvalidInput(f"title is {title!r}: use text, or None for no title")
    return line


def labels_of(labels: Mapping[str, str]) -> dict[str, str]:
    """Validate labels: a mapping of text to text, sorted by name."""
    pairs = dict(labels) if isinstance(labels, Mapping) else {"": labels}
    if not all(isinstance(text, str) and text for pair in pairs.items() for text in pair):
        raise InvalidInput(f"labels are {labels!r}: use {{name: value}}, all of them text")
    return dict(sorted(pairs.items()))  # sorted, so that equal labels are an equal request


def check_limit(limit: int) -> None:
    """Reject a page size that is out of range."""
    if not 1 <= limit <= MAX_LIMIT:
        raise InvalidInput(f"limit is {limit!r}: use 1 to {MAX_LIMIT}")


def check_number(name: str, number: int) -> None:
    """Reject a value that is not the number of a message.

    SQLite would accept the text "1" as 1; PostgreSQL refuses text, and numbers out of range.
    """
    if type(number) is not int or abs(number) >= 2**63:
        raise InvalidInput(f"{name} is {number!r}: use the number of a message")
