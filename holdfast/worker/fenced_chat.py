"""A runner's copy of its chat: the committed state, updated with each of the runner's writes.

Decisions are based on `chat`, `history`, `journal` and `queue` as of the last load or own write,
and every write names that state: its fence. Changes by others are announced by notices and read
separately. They do not change this copy until the runner loads the chat again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, TypeVar

import anyio
from msgspec import structs

from holdfast.chat import files, queries
from holdfast.chat.budgets import BudgetCheck
from holdfast.chat.causes import traces_of
from holdfast.chat.child_reports import list_children
from holdfast.chat.errors import ChatNotFound, Fenced
from holdfast.chat.journal import read_journal
from holdfast.chat.queue import read_queue, steering
from holdfast.chat.rows import (
    Charge,
    ChatRow,
    Fence,
    JournalCall,
    Partial,
    Queued,
    Stored,
    fence_of,
    read_chat,
)
from holdfast.chat.transitions import runner
from holdfast.chat.transitions.commit_step import COMMIT_STEP, Committed, StepCommit
from holdfast.chat.transitions.runner import Advanced, Leftover
from holdfast.kernel.decide import CallState
from holdfast.kernel.errors import Failure
from holdfast.kernel.history import History
from holdfast.kernel.hook_context import ChatInfo, Context
from holdfast.kernel.limits import LimitReached
from holdfast.kernel.messages import Message
from holdfast.kernel.model import Model
from holdfast.kernel.model_context import Trim
from holdfast.kernel.observer import Stretch
from holdfast.store.database import Closed, Database, OutcomeUnknown, Tx, Unavailable
from holdfast.worker.options import MICRO
from holdfast.worker.resettable_event import ResettableEvent

T = TypeVar("T")

LOG: Final = logging.getLogger("holdfast.worker")
FIRST_RETRY_DELAY: Final = 0.1
LONGEST_RETRY_DELAY: Final = 10.0
SHORT_HISTORY: Final = 8
"""Maximum number of messages with which a load counts as a short transaction."""


class ChatMoved(Exception):
    """The chat has changed since it was loaded, so a write was refused: load it again."""


class OwnershipLost(Exception):
    """The chat has another owner, or was deleted: this runner may write nothing more."""


def stretch_of(
    chat: ChatRow,
    model: str,
    attempt: Callable[[], int],
    causes: Callable[[], Sequence[str]] = tuple,
) -> Stretch:
    """An ownership of a chat, for an observer; `model` is the name of its model."""
    return Stretch(
        id=chat.id,
        agent=chat.agent,
        model=model,
        attempt=attempt,
        conversation=chat.id,
        parent=chat.parent_id,
        worker=chat.worker_id,
        epoch=chat.epoch,
        causes=causes,
    )


class FencedChat:
    """A runner's copy of one chat, with its fenced writes."""

    def __init__(self, db: Database, chat: ChatRow, trim: Trim) -> None:
        self._db = db
        self._trim = trim
        self._epoch = chat.epoch
        self.chat = chat
        self.fence = fence_of(chat)
        """The state that a write must still find."""
        self.history = History((), trim)
        self._history_at: int | None = None
        """`history_version` of the chat as of `history`."""
        self.journal: dict[str, JournalCall] = {}
        self.queue: tuple[Queued, ...] = ()
        self.partial: Partial | None = None
        self.answer = 0
        """Number of the message that contains the open calls, if there are any."""
        self.partial_written = False
        """Whether there may be a partial answer that a commit has to delete."""
        self.newest = chat
        """The newest row that this process has read or written."""
        self._refs: set[str] = set()
        """References to files in the history whose bytes are not in it."""
        self._files: dict[str, bytes | None] = {}
        """Bytes by reference, each read once; None for a file that does not exist."""
        self._writes_under_way = 0
        """Number of own writes under way: several when calls start or finish in parallel."""
        self._own_writes = 0
        """Number of own writes that have ended."""
        self._announced = 0
        """Highest version that a notice announced."""
        self._notice = ResettableEvent()
        self.journal_stale = False
        """Whether other transactions may have changed the journal: call `catch_up`."""
        self.deps: Any = None
        """Deps of the chat, for its tools and hooks."""
        self._results_recorded = 0
        """Number of results recorded while other calls ran; `journal` does not contain them."""

    # --- reading ---

    def stretch(self, model: str) -> Stretch:
        """This ownership of the chat, for an observer; `model` is the name of its model."""
        return stretch_of(
            self.chat, model, lambda: self.chat.attempt, lambda: traces_of(self.chat.causes)
        )

    def context(self, history: Callable[[], Sequence[Message]] | None = None) -> Context:
        """Context of a hook that is called now; `history` replaces the chat's own."""
        return Context(self.info, self.history.turn, history or self._messages, self.deps)

    @property
    def info(self) -> ChatInfo:
        """The chat, for hooks and for the provider of its deps."""
        chat = self.chat
        return ChatInfo(
            agent=chat.agent,
            chat=chat.id,
            owner=chat.owner,
            labels=chat.labels,
            parent=chat.parent_id,
        )

    def _messages(self) -> Sequence[Message]:
        return self.history.messages

    def leftover(self, **produced: Any) -> Leftover:
        """Uncommitted output of a step that started from the current state."""
        return Leftover(fence=self.fence, last_number=self.chat.messages, **produced)

    async def load(self) -> float | None:
        """Load the chat from the database. Returns the seconds until the next attempt, if that has
        to wait. Raises `OwnershipLost`."""
        loaded, newest_before = None, self.newest
        while loaded is None or self._is_outdated(loaded.chat, newest_before):
            newest_before = self.newest
            loaded = await self._read_all()
        self._check_owner(loaded.chat)
        self._take_row(loaded.chat)
        self.newest = loaded.chat  # also an older one: a fail-over may have lost the last commits
        if not loaded.known:
            self._take_history(loaded.history, loaded.void)
        self.queue, self.journal = loaded.queue, loaded.journal
        self.partial = loaded.partial
        self.partial_written |= loaded.has_partial  # a write may be committed after this query
        self.journal_stale = False
        retry_at = loaded.chat.retry_at
        return None if retry_at is None else (retry_at - loaded.now) / MICRO

    def _take_history(self, history: Sequence[Stored], void: AbstractSet[str]) -> None:
        self.history = History([stored.message for stored in history], self._trim)
        self.history.call_ids.update(void)
        self._refs.clear()
        self._refs.update(files.refs_in(stored.message for stored in history))
        answers = [s.number for s in history if _may_have_calls(s.message)]
        self.answer = answers[-1] if answers else 0
        self._history_at = self.chat.history_version

    @property
    def names_files(self) -> bool:
        """Whether the history refers to files without their bytes."""
        return bool(self._refs)

    async def with_files(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages with the bytes of their files, each read once."""
        missing_refs = self._refs - self._files.keys()
        if missing_refs:
            owner = self.chat.owner
            contents = await self._until_available(
                lambda: self._db.read(lambda tx: files.read_refs(tx, owner, missing_refs))
            )
            self._files.update({ref: contents.get(ref) for ref in missing_refs})
        contents = {ref: data for ref, data in self._files.items() if data is not None}
        return files.with_bytes(messages, contents) if contents else messages

    async def read_row(self) -> None:
        """Read only the row of the chat, as the rest may not be decodable. Raises
        `OwnershipLost`."""
        chat_id = self.chat.id
        try:
            chat = await self._until_available(
                lambda: self._db.read(lambda tx: read_chat(tx, chat_id), short=True)
            )
        except ChatNotFound:
            raise OwnershipLost from None
        self._check_owner(chat)
        self._take_row(chat)

    def _check_owner(self, chat: ChatRow) -> None:
        if chat.epoch != self._epoch or chat.worker_id is None:
            raise OwnershipLost

    def _is_outdated(self, chat: ChatRow, newest_before: ChatRow) -> bool:
        """Return whether `next_change` read a newer row while this row was being read."""
        newest = self.newest
        return newest is not newest_before and newest.snapshot_version > chat.snapshot_version

    async def _read_all(self) -> queries.Loaded:
        try:
            return await self._until_available(
                lambda: self._db.read(self._load, short=self.chat.messages <= SHORT_HISTORY)
            )
        except ChatNotFound:
            raise OwnershipLost from None

    async def _load(self, tx: Tx) -> queries.Loaded:
        return await queries.load(tx, self.chat.id, self._history_at)

    def _take_row(self, chat: ChatRow) -> None:
        self.chat, self.fence = chat, fence_of(chat)
        if chat.snapshot_version >= self.newest.snapshot_version:
            self.newest = chat

    @property
    def steering(self) -> bool:
        """Whether a queued message is to be delivered at the next step boundary."""
        return bool(self.queue) and bool(steering(self.queue))

    def facts(self) -> dict[str, CallState]:
        """Return the states of the open calls for `decide`."""
        if not self.journal:
            return {}
        rows = {call.id: self.journal.get(call.id) for call in self.history.turn.open}
        facts = {id: call.fact for id, call in rows.items() if call is not None}
        return {id: fact for id, fact in facts.items() if fact is not None}

    async def catch_up(self) -> None:
        """Read the journal again after `journal_stale`: an action may have been resolved."""
        self.journal_stale = False
        chat_id = self.chat.id
        self.journal = await self._until_available(
            lambda: self._db.read(lambda tx: read_journal(tx, chat_id), short=True)
        )

    async def children(self) -> Sequence[Mapping[str, Any]]:
        """Return the chats that this chat has spawned, with their current state."""
        chat_id = self.chat.id
        return await self._until_available(
            lambda: self._db.read(lambda tx: list_children(tx, chat_id), short=True)
        )

    async def budget_reached(self, budgets: BudgetCheck, model: Model) -> LimitReached | None:
        """Return the budget that keeps the chat from calling a model; None if it may."""
        chat = self.chat
        return await self._until_available(
            lambda: self._db.read(
                lambda tx: budgets.reached(tx, chat, model), short=budgets.is_short
            )
        )

    # --- changes by others ---

    def receive_notice(self, version: int | None) -> None:
        """Receive a notice of a version; None when notices may have been lost."""
        if version is None:
            version = self.newest.snapshot_version + 1
        if version > self._announced:
            self._announced = version
        self._wake_reader()

    def _wake_reader(self) -> None:
        # Not during a write: the notice is most likely our own.
        if not self._writes_under_way and self._announced > self.newest.snapshot_version:
            self._notice.set()

    async def next_change(self) -> ChatRow:
        """Wait for a version that another transaction wrote. Returns its row, or raises
        `OwnershipLost`."""
        while True:
            await self._notice.wait()
            self._notice.reset()
            own_writes, announced = self._own_writes, self._announced
            try:
                chat, queue = await self._until_available(
                    lambda: self._db.read(self._read_row_and_queue, short=True)
                )
            except ChatNotFound:
                raise OwnershipLost from None
            if self._writes_under_way or own_writes != self._own_writes:
                continue  # may be our own write: any other change is found after the write
            self._announced = max(
                chat.snapshot_version, self._announced if self._announced > announced else 0
            )
            self._check_owner(chat)
            if chat.snapshot_version > self.newest.snapshot_version:
                self.newest = chat
                self.queue = queue
                self.journal_stale = True
                return chat

    async def _read_row_and_queue(self, tx: Tx) -> tuple[ChatRow, tuple[Queued, ...]]:
        chat = await read_chat(tx, self.chat.id)
        if chat.queue_version <= self.newest.queue_version:
            return chat, self.queue
        return chat, tuple(await read_queue(tx, chat.id))

    # --- writing ---

    def _begin_write(self) -> None:
        """Note an own write: notices that arrive until `_end_write` are handled after it."""
        self._writes_under_way += 1

    def _end_write(self) -> None:
        self._writes_under_way -= 1
        self._own_writes += 1
        self._wake_reader()

    async def commit(self, messages: tuple[Message, ...]) -> None:
        """Commit a step that only appends messages, the usual case."""
        if self.partial_written:
            await self.write(runner.commit_step, runner.Outcome(messages=messages))
            return
        step = StepCommit(self.fence, messages)
        self._begin_write()
        try:
            committed = await self._until_available(self._db.write_together, COMMIT_STEP, step)
            if not isinstance(committed, Committed):
                raise ChatMoved
            row = self.newest
            if committed.version > row.snapshot_version + 1:
                row = await self._read_other_changes()
            self._take_commit(row, committed)
            self._append(messages, committed.messages - len(messages) + 1)
        finally:
            self._end_write()

    def _take_commit(self, row: ChatRow, committed: Committed) -> None:
        """Apply our commit to `row`, which contains all changes by others before it."""
        self._take_row(
            structs.replace(
                row,
                status=self.chat.status,
                snapshot_version=committed.version,
                history_version=committed.version,
                queue_version=committed.queue_version,
                messages=committed.messages,
                attempt=1,
                retry=None,
                retry_at=None,
                crashes=0,
            )
        )

    async def _read_other_changes(self) -> ChatRow:
        """Read the changes by others before our commit, such as a message or an approval.

        Raises `OwnershipLost`.
        """
        try:
            chat, self.queue = await self._until_available(
                lambda: self._db.read(self._read_row_and_queue, short=True)
            )
        except ChatNotFound:
            raise OwnershipLost from None
        self._check_owner(chat)
        self.journal_stale = True
        self._announced = max(self._announced, chat.snapshot_version)
        return chat

    async def write(
        self, transition: Callable[..., Awaitable[Advanced]], *args: Any, **kwargs: Any
    ) -> ChatRow:
        """Run one transition of a runner, and apply its result. Raises `ChatMoved`."""
        self._begin_write()
        try:
            return await self._write(transition, args, kwargs)
        finally:
            self._end_write()

    async def _write(
        self,
        transition: Callable[..., Awaitable[Advanced]],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> ChatRow:
        fence, results_recorded, queue_before = self.fence, self._results_recorded, self.queue
        queue_version = self.newest.queue_version

        async def change(tx: Tx) -> tuple[Advanced, tuple[Queued, ...], dict[str, JournalCall]]:
            advanced = await transition(tx, fence, *args, **kwargs)
            queue_changed = advanced.chat.queue_version != queue_version
            queue = tuple(await read_queue(tx, fence.chat)) if queue_changed else queue_before
            # An idle chat has no journal.
            journal = await read_journal(tx, fence.chat) if advanced.chat.busy else {}
            return advanced, queue, journal

        try:
            advanced, queue, journal = await self._until_available(
                lambda: self._db.write(change, short=True)
            )
        except Fenced:
            raise ChatMoved from None
        if advanced.chat.snapshot_version >= self.chat.snapshot_version:
            # Several calls may start at once, and finish their writes in another order.
            self._take_row(advanced.chat)
            self.queue, self.journal = queue, journal
            self.journal_stale = results_recorded != self._results_recorded
        if advanced.appended:
            self._append([s.message for s in advanced.appended], advanced.appended[0].number)
        if advanced.chat.history_version != fence.history_version:
            self.partial_written, self.partial = False, None
        return advanced.chat

    async def fail(self, failure: Failure, charges: Sequence[Charge]) -> None:
        """Set the chat to an error, even if its history cannot be read. Raises `ChatMoved`."""
        fence = self.fence
        self._begin_write()
        try:
            try:
                advanced = await self._until_available(
                    lambda: self._db.write(
                        lambda tx: runner.fail(tx, fence, failure, None, charges), short=True
                    )
                )
            except Fenced:
                raise ChatMoved from None
            self._take_row(advanced.chat)
        finally:
            self._end_write()

    async def record(self, call: JournalCall) -> bool:
        """Record the result of one call while other calls still run."""
        chat_id = self.chat.id
        self._begin_write()
        try:
            try:
                return await self._until_available(
                    lambda: self._db.write(
                        lambda tx: runner.finish_call(tx, chat_id, call), short=True
                    )
                )
            finally:
                self._results_recorded += 1
                self.journal_stale = True
        finally:
            self._end_write()

    async def charge(self, fence: Fence, last_number: int, charges: Sequence[Charge]) -> None:
        """Charge an attempt, unless its answer is in the history.

        The attempt was made on the messages up to `last_number`.
        """
        await self._until_available(
            lambda: self._db.write(
                lambda tx: runner.charge_abandoned(tx, fence, last_number, charges), short=True
            )
        )

    async def keep_partial(self, fence: Fence, seq: int, message: Message) -> None:
        """Save a partial answer: what has arrived of it so far."""
        self.partial_written = True
        await self._db.write(lambda tx: runner.write_partial(tx, fence, seq, message), short=True)

    def _append(self, messages: Sequence[Message], first_number: int) -> None:
        """Append messages to the history, after the row of their write was taken."""
        self._refs.update(files.refs_in(messages))
        for offset, message in enumerate(messages):
            self.history.append(message)
            if _may_have_calls(message):
                self.answer = first_number + offset
        self._history_at = self.chat.history_version

    async def _until_available(self, operation: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Retry a database operation until it succeeds. Only the write is repeated, never the step.

        A write whose acknowledgement was lost is repeated, too: if it had been committed, its fence
        no longer matches, and the history that is then loaded contains the step.
        """
        delay = FIRST_RETRY_DELAY
        while True:
            try:
                return await operation(*args)
            except Closed:
                raise OwnershipLost from None
            except (Unavailable, OutcomeUnknown) as error:
                LOG.warning("chat %s: database unavailable, will retry: %s", self.chat.id, error)
            await anyio.sleep(delay)
            delay = min(2 * delay, LONGEST_RETRY_DELAY)


def _may_have_calls(message: Message) -> bool:
    """Return whether a message may contain open calls. An answer shown only to people may not."""
    return message.kind == "answer" and message.visibility != "user"
