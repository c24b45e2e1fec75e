"""The host: creates, finds, lists and restores durable chats."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import Struct, structs

from holdfast.agent import Agent
from holdfast.chat import queries
from holdfast.chat.budgets import NO_BUDGETS, BudgetCheck, BudgetReport, Budgets, set_budget
from holdfast.chat.change_feed import Feed
from holdfast.chat.client_tools import ClientTool, check_client_tools
from holdfast.chat.errors import ChatNotFound, InvalidInput
from holdfast.chat.export import Exported, FileLine, parse
from holdfast.chat.files import REF_PREFIX, add_file, refs_in, with_refs
from holdfast.chat.handle import (
    Chat,
    HostContext,
    check_limit,
    key_of,
    labels_of,
    name_of_agent,
    title_of,
)
from holdfast.chat.idempotency import Key, once
from holdfast.chat.interface import ChatHost
from holdfast.chat.rows import ChatRow, Stored, can_hold, check_text, read_chat
from holdfast.chat.snapshots import Snapshot, snapshots
from holdfast.chat.transitions import lifecycle
from holdfast.chat.transitions.claims import LiveWorkers, live_workers
from holdfast.chat.transitions.lifecycle import NewChat
from holdfast.kernel.entry_point import entry_point
from holdfast.kernel.errors import ConfigError, FormatError
from holdfast.kernel.messages import Prompt, user_message
from holdfast.kernel.model import Effort
from holdfast.kernel.ports import Ports
from holdfast.kernel.type_parameters import NewChatOutputT
from holdfast.store.database import Tx


class Host(ChatHost):
    """Durable chats of a database: create, find, list, restore. Made by `holdfast.open`."""

    def __init__(self, context: HostContext) -> None:
        self._context = context
        self._on_close: list[Callable[[], Awaitable[None]]] = []

    def on_close(self, call: Callable[[], Awaitable[None]]) -> None:
        """Call this when the host closes, before its worker stops."""
        self._on_close.append(call)

    async def run_close_callbacks(self) -> None:
        """Make the calls that `on_close` was given. They raise nothing."""
        while self._on_close:
            await self._on_close.pop()()

    @property
    def agents(self) -> Mapping[str, Agent[Any, Any]]:
        """The agents by name."""
        return self._context.agents

    @property
    def feed(self) -> Feed:
        """The feed that distributes changes of chats in this process."""
        return self._context.feed

    @entry_point("host.create")
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
    ) -> Chat[NewChatOutputT]:
        answers = agent if isinstance(agent, Agent) else None
        name = self._context.agent(name_of_agent(agent)).name
        self._context.check_choice(name, model, effort)
        new_chat = NewChat(
            id=self._context.ports.new_id(),
            agent=name,
            message=None if prompt is None else user_message(prompt),
            owner=_owner(owner),
            title=title_of(title),
            labels=labels_of(labels or {}),
            model=model,
            effort=effort,
            client_tools=check_client_tools(self._context.agent(name), client_tools),
        )
        body: tuple[object, ...]
        body = (new_chat.agent, new_chat.message, new_chat.title, new_chat.labels, model, effort)
        if client_tools:
            body = (*body, new_chat.client_tools)
        row = await once(
            self._context.db,
            key_of(owner, key, "create", body),
            ChatRow,
            lambda tx: lifecycle.create(tx, new_chat),
            creates=new_chat.id,
            short=True,
        )
        return Chat(self._context, row, answers)

    async def restore(
        self, text: str, *, agent: str | None = None, owner: str = "", key: str | None = None
    ) -> Chat:
        in_thread = self._context.ports.in_thread
        compute_key = partial(key_of, owner, key, "restore", (agent, text))
        exported = await in_thread(partial(parse, text))
        return await self.adopt(exported, await in_thread(compute_key), agent=agent, owner=owner)

    async def adopt(
        self,
        exported: Exported,
        key: Key | None = None,
        *,
        agent: str | None = None,
        owner: str = "",
        quota: int | None = None,
    ) -> Chat:
        """Create a chat from a parsed export, with its own copies of the files.

        `quota` is the maximum total size in bytes of the owner's files.
        """
        name = self._context.agent(exported.chat.agent if agent is None else agent).name
        new_chat = NewChat(
            id=self._context.ports.new_id(),
            agent=name,
            message=None,
            owner=_owner(owner),
            title=exported.chat.title,
            labels=labels_of(exported.chat.labels),
            model=self._model_here(name, exported.chat.model),
            effort=exported.chat.effort,
        )
        self._context.check_choice(name, None, new_chat.effort)
        # In a thread: a large export takes a second.
        prepared = await self._context.ports.in_thread(
            partial(_prepare, new_chat.id, exported, self._context.ports)
        )

        async def restore(tx: Tx) -> ChatRow:
            for id, hash, file in prepared.files:
                await add_file(
                    tx, id, new_chat.owner, hash, file.data, file.media_type, file.name, quota
                )
            return await lifecycle.restore(tx, new_chat, prepared.rows)

        return Chat(
            self._context, await once(self._context.db, key, ChatRow, restore, creates=new_chat.id)
        )

    def _model_here(self, agent: str, model: str | None) -> str | None:
        try:
            self._context.check_choice(agent, model, None)
        except ConfigError:
            return None
        return model

    async def budgets(self, owner: str = "") -> BudgetReport:
        check_text("owner", owner)
        return await self._context.db.read(lambda tx: self._context.budgets.report(tx, owner))

    async def set_budgets(
        self, budgets: Budgets | None, *, owner: str = "", key: str | None = None
    ) -> BudgetReport:
        check_text("owner", owner)
        if not isinstance(budgets, Budgets | None):
            raise InvalidInput(f"budgets is {budgets!r:.80}: use Budgets(…), or None")
        self._context.check_budgets(budgets or NO_BUDGETS)
        check = self._context.budgets

        async def change(tx: Tx) -> BudgetReport:
            await set_budget(tx, "user", owner, budgets)
            return await check.report(tx, owner)

        request = key_of(owner, key, "set budgets", (budgets,))
        report = await once(self._context.db, request, BudgetReport, change)
        check.note(budgets or NO_BUDGETS)
        return report

    def check_budgets(self, budgets: Budgets) -> None:
        """Reject limits of cost if the price of a model is unknown. Raises `ConfigError`."""
        self._context.check_budgets(budgets)

    @property
    def budget_check(self) -> BudgetCheck:
        """The configured budgets, and their comparison with usage."""
        return self._context.budgets

    def agent(self, name: str | None = None) -> Agent[Any, Any]:
        """Return the agent of this name; the first agent when no name is given. Raises
        `ConfigError`."""
        return self._context.agent(name)

    def check_choice(self, agent: str, model: str | None, effort: str | None) -> None:
        """Reject a model or an effort with which the worker would fail. Raises `ConfigError`."""
        self._context.check_choice(agent, model, effort)

    async def workers(self) -> LiveWorkers:
        """Return the live workers and the agents that they have."""
        return await self._context.db.read(
            lambda tx: live_workers(tx, self._context.feed.stranded_limits.lease)
        )

    async def chat(
        self,
        id: str,
        *,
        owner: str | None = None,
        agent: Agent[Any, NewChatOutputT] | None = None,
    ) -> Chat[NewChatOutputT]:
        if not isinstance(id, str) or not can_hold(id):
            raise ChatNotFound(id)
        row = await self._context.db.read(lambda tx: read_chat(tx, id))
        if owner is not None and row.owner != _owner(owner):
            raise ChatNotFound(id)
        return Chat(self._context, row, agent)

    def handle(self, row: ChatRow) -> Chat:
        """Return the handle of a chat whose row was read."""
        return Chat(self._context, row)

    async def list(
        self,
        *,
        owner: str | None = None,
        parent: str | None = None,
        archived: bool = False,
        before: str | None = None,
        limit: int = 100,
    ) -> tuple[Snapshot, ...]:
        check_limit(limit)
        for name, text in (("owner", owner), ("parent", parent), ("before", before)):
            check_text(name, text)

        async def read(tx: Tx) -> tuple[Snapshot, ...]:
            rows = await queries.list_chats(
                tx, owner=owner, parent=parent, archived=archived, before=before, limit=limit
            )
            return tuple(await snapshots(tx, rows, self._context.feed.stranded_limits))

        return await self._context.db.read(read)


class _Prepared(Struct, frozen=True):
    """An export converted to rows, ready to be written."""

    rows: lifecycle.RestoredRows
    files: Sequence[tuple[str, str, FileLine]]
    """New id, hash and contents of each file."""


def _prepare(chat_id: str, exported: Exported, ports: Ports) -> _Prepared:
    from hashlib import sha256  # imports OpenSSL

    new_ids = _names(exported, ports)
    rows = lifecycle.rows_of(chat_id, _renamed(exported.messages, new_ids))
    files = [(new_ids[file.id], sha256(file.data).hexdigest(), file) for file in exported.files]
    return _Prepared(rows, files)


def _names(exported: Exported, ports: Ports) -> dict[str, str]:
    """Map the files of an export to new ids. Each must be referred to, and none may occur twice."""
    refs = refs_in(stored.message for stored in exported.messages)
    for ref in refs:
        check_text("id of a file", ref)
    new_ids: dict[str, str] = {}
    for file in exported.files:
        if file.id in new_ids:
            raise FormatError(f"the file {file.id!r:.80} is in the export twice")
        if REF_PREFIX + file.id not in refs:
            raise FormatError(f"no message refers to the file {file.id!r:.80}")
        new_ids[file.id] = ports.new_id()
    return new_ids


def _renamed(messages: Sequence[Stored], new_ids: Mapping[str, str]) -> Sequence[Stored]:
    if not new_ids:
        return messages
    refs = {REF_PREFIX + old: REF_PREFIX + new for old, new in new_ids.items()}
    renamed_messages = with_refs([stored.message for stored in messages], refs)
    return [
        structs.replace(stored, message=message)
        for stored, message in zip(messages, renamed_messages, strict=True)
    ]


def _owner(owner: object) -> str:
    if not isinstance(owner, str):
        raise InvalidInput(f"owner is {owner!r}: use text, or leave it out")
    return owner
