"""A runner's copy of its chat: what is committed, kept up to date with every write.

Decisions are made on `chat`, `history`, `journal` and `queue` as of the last load or own write, and
every write names that state: its fence. Changes by others are announced by notices and read
separately. They change nothing here until the runner loads the chat again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, TypeVar

import anyio
from msgspec import structs

from holdfast.chat import files, queries
from holdfast.chat.child_reports import list_children
from holdfast.chat.errors import ChatNotFound, Fenced
from holdfast.chat.journal import read_journal
from holdfast.chat.queue import read_queue, steering
from holdfast.chat.row_lock import fence_of, read_chat
from holdfast.chat.rows import Call, Charge, Chat, Fence, Partial, Queued, Stored
from holdfast.chat.transitions import runner
from holdfast.chat.transitions.commit_step import COMMIT_STEP, Committed, Step
from holdfast.chat.transitions.runner import Advanced
from holdfast.kernel.context import Trim
from holdfast.kernel.decide import CallState
from holdfast.kernel.errors import Failure
from holdfast.kernel.history import History
from holdfast.kernel.messages import Message
from holdfast.store.database import Closed, Database, OutcomeUnknown, Tx, Unavailable
from holdfast.worker.options import MICRO

T = TypeVar("T")

LOG: Final = logging.getLogger("holdfast.worker")
FIRST_WAIT: Final = 0.1
LONGEST_WAIT: Final = 10.0
FEW: Final = 8
"""Number of messages up to which a load counts as short."""


class Moved(Exception):
    """A write found that the chat has changed: load it again."""


class Gone(Exception):
    """The chat has another owner, or was deleted. Nothing may be written."""


class FencedChat:
    """One chat as its runner knows it, with its fenced writes."""

    def __init__(self, db: Database, claimed: Chat, trim: Trim) -> None:
        self._db = db
        self._trim = trim
        self._epoch = claimed.epoch
        self.chat = claimed
        self.fence = fence_of(claimed)
        self.history = History((), trim)
        self._history_at: int | None = None
        """The version of `history`."""
        self.journal: dict[str, Call] = {}
        self.queue: tuple[Queued, ...] = ()
        self.partial: Partial | None = None
        self.retry_in: float | None = None
        """Seconds until the next attempt, as of the load."""
        self.answer = 0
        """Number of the message that contains the open calls, if there are any."""
        self.partial_written = False
        """Whether there may be a partial answer that a commit has to delete."""
        self.seen = claimed
        """The newest row seen by this process."""
        self._refs: set[str] = set()
        """References to files in the history whose bytes are not in it."""
        self._looked_for: set[str] = set()
        self._files: dict[str, bytes] = {}
        self._writing = 0
        """Number of own writes under way: several when calls start or finish in parallel."""
        self._written = 0
        self._heard = 0
        self._news = anyio.Event()
        self.behind = False
        """Whether others may have written to the journal: call `catch_up`."""
        self._recorded = 0
        """Number of results recorded while other calls ran, which `journal` does not contain."""

    # --- reading ---

    async def load(self) -> None:
        """Load the chat from the database. Raises `Gone`."""
        loaded, before = None, self.seen
        while loaded is None or self._overtaken(loaded.chat, before):
            before = self.seen
            loaded = await self._read_all()
        self._check_mine(loaded.chat)
        self._take_row(loaded.chat)
        self.seen = loaded.chat  # also an older one: a fail-over may have lost the last commits
        if not loaded.known:
            self._take_history(loaded.history, loaded.void)
        self.queue, self.journal = loaded.queue, loaded.journal
        self.partial = loaded.partial
        self.partial_written |= loaded.begun  # a write under way may be committed after this query
        at = loaded.chat.retry_at
        self.retry_in = None if at is None else (at - loaded.now) / MICRO
        self.behind = False

    def _take_history(self, history: Sequence[Stored], void: AbstractSet[str]) -> None:
        self.history = History([stored.message for stored in history], self._trim)
        self.history.call_ids |= void
        self._refs = files.refs_in(stored.message for stored in history)
        answers = [s.number for s in history if _may_ask(s.message)]
        self.answer = answers[-1] if answers else 0
        self._history_at = self.chat.history_version

    @property
    def names_files(self) -> bool:
        """Whether the history refers to files without their bytes."""
        return bool(self._refs)

    async def with_files(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages with the bytes of their files, each read once."""
        wanted = self._refs - self._looked_for
        if wanted:
            owner = self.chat.owner
            self._files |= await self._patiently(
                lambda: self._db.read(lambda tx: files.read_refs(tx, owner, wanted))
            )
            self._looked_for |= wanted
        return files.filled(messages, self._files) if self._files else messages

    async def look(self) -> None:
        """Read only the row of the chat, when the rest cannot be decoded. Raises `Gone`."""
        chat_id = self.chat.id
        try:
            chat = await self._patiently(
                lambda: self._db.read(lambda tx: read_chat(tx, chat_id), short=True)
            )
        except ChatNotFound:
            raise Gone from None
        self._check_mine(chat)
        self._take_row(chat)

    def _check_mine(self, chat: Chat) -> None:
        if chat.epoch != self._epoch or chat.worker_id is None:
            raise Gone

    def _overtaken(self, chat: Chat, before: Chat) -> bool:
        """Return whether a query of `news`, begun later, returned earlier than this one with
        more."""
        seen = self.seen
        return seen is not before and seen.snapshot_version > chat.snapshot_version

    async def _read_all(self) -> queries.Loaded:
        try:
            return await self._patiently(
                lambda: self._db.read(self._load, short=self.chat.messages <= FEW)
            )
        except ChatNotFound:
            raise Gone from None

    async def _load(self, tx: Tx) -> queries.Loaded:
        return await queries.load(tx, self.chat.id, self._history_at)

    def _take_row(self, chat: Chat) -> None:
        self.chat = chat
        self.fence = fence_of(chat)
        if chat.snapshot_version >= self.seen.snapshot_version:
            self.seen = chat

    @property
    def steering(self) -> bool:
        """Whether a message waits for the next step boundary."""
        return bool(self.queue) and bool(steering(self.queue))

    def facts(self) -> dict[str, CallState]:
        """Return the states of the open calls for `decide`."""
        if not self.journal:
            return {}
        known = {call.id: self.journal.get(call.id) for call in self.history.turn.open}
        facts = {id: call.fact for id, call in known.items() if call is not None}
        return {id: fact for id, fact in facts.items() if fact is not None}

    async def catch_up(self) -> None:
        """Read the journal when it is `behind`: answers to actions."""
        self.behind = False
        chat_id = self.chat.id
        self.journal = await self._patiently(
            lambda: self._db.read(lambda tx: read_journal(tx, chat_id), short=True)
        )

    async def children(self) -> Sequence[Mapping[str, Any]]:
        """Return the chats that this chat has spawned, with their current state."""
        chat_id = self.chat.id
        return await self._patiently(
            lambda: self._db.read(lambda tx: list_children(tx, chat_id), short=True)
        )

    # --- news ---

    def hear(self, version: int | None) -> None:
        """Receive a notice of a version; None when notices may have been lost."""
        if version is None:
            version = self.seen.snapshot_version + 1
        if version > self._heard:
            self._heard = version
        self._rouse()

    def _rouse(self) -> None:
        # Not during a write: the notice is most likely our own.
        if not self._writing and self._heard > self.seen.snapshot_version:
            self._news.set()

    async def news(self) -> Chat:
        """Wait for a version that others wrote, and return its row. Raises `Gone`."""
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            written, heard = self._written, self._heard
            try:
                chat, queue = await self._patiently(lambda: self._db.read(self._look, short=True))
            except ChatNotFound:
                raise Gone from None
            if self._writing or written != self._written:
                continue  # may be our own write: any other change is found after the write
            self._heard = max(chat.snapshot_version, self._heard if self._heard > heard else 0)
            self._check_mine(chat)
            if chat.snapshot_version > self.seen.snapshot_version:
                self.seen = chat
                self.queue = queue
                self.behind = True
                return chat

    async def _look(self, tx: Tx) -> tuple[Chat, tuple[Queued, ...]]:
        chat = await read_chat(tx, self.chat.id)
        if chat.queue_version <= self.seen.queue_version:
            return chat, self.queue
        return chat, tuple(await read_queue(tx, chat.id))

    # --- writing ---

    async def commit(self, messages: tuple[Message, ...]) -> None:
        """Commit a step that only appends, the usual one."""
        if self.partial_written:
            await self.write(runner.commit_step, runner.Outcome(messages=messages))
            return
        step = Step(self.fence, messages)
        with _OwnWrite(self):
            made = await self._patiently(self._db.write_together, COMMIT_STEP, step)
            if not isinstance(made, Committed):
                raise Moved
            row = self.seen
            if made.version > row.snapshot_version + 1:
                row = await self._meanwhile()
            self._take_commit(row, made)
            self._append(messages, made.messages - len(messages) + 1)

    def _take_commit(self, row: Chat, made: Committed) -> None:
        """Update the row with our commit, on top of what others wrote before it."""
        self._take_row(
            structs.replace(
                row,
                status=self.chat.status,
                snapshot_version=made.version,
                history_version=made.version,
                queue_version=made.queue_version,
                messages=made.messages,
                attempt=1,
                retry=None,
                retry_at=None,
                crashes=0,
            )
        )

    async def _meanwhile(self) -> Chat:
        """Read what others changed before our commit: a message, another model, an approval or an
        answer. Raises `Gone`."""
        try:
            chat, self.queue = await self._patiently(lambda: self._db.read(self._look, short=True))
        except ChatNotFound:
            raise Gone from None
        self._check_mine(chat)
        self.behind = True
        self._heard = max(self._heard, chat.snapshot_version)
        return chat

    async def write(
        self, transition: Callable[..., Awaitable[Advanced]], *args: Any, **more: Any
    ) -> Chat:
        """Run one transition of a runner, and apply its result. Raises `Moved`."""
        with _OwnWrite(self):
            return await self._write(transition, args, more)

    async def _write(
        self,
        transition: Callable[..., Awaitable[Advanced]],
        args: Sequence[Any],
        more: Mapping[str, Any],
    ) -> Chat:
        fence, recorded, waiting = self.fence, self._recorded, self.queue
        known = self.seen.queue_version

        async def change(tx: Tx) -> tuple[Advanced, tuple[Queued, ...], dict[str, Call]]:
            made = await transition(tx, fence, *args, **more)
            changed = made.chat.queue_version != known
            queue = tuple(await read_queue(tx, fence.chat)) if changed else waiting
            # An idle chat has no journal.
            journal = await read_journal(tx, fence.chat) if made.chat.busy else {}
            return made, queue, journal

        try:
            made, queue, journal = await self._patiently(lambda: self._db.write(change, short=True))
        except Fenced:
            raise Moved from None
        if made.chat.snapshot_version >= self.chat.snapshot_version:
            # Several calls may start at once, and finish their writes in another order.
            self._take_row(made.chat)
            self.queue, self.journal = queue, journal
            self.behind = recorded != self._recorded
        if made.appended:
            self._append([s.message for s in made.appended], made.appended[0].number)
        if made.chat.history_version != fence.history_version:
            self.partial_written, self.partial = False, None
        return made.chat

    async def fail(self, failure: Failure, charges: Sequence[Charge]) -> None:
        """Stop with an error, even if other parts of the chat cannot be read. Raises `Moved`."""
        fence = self.fence
        with _OwnWrite(self):
            try:
                made = await self._patiently(
                    lambda: self._db.write(
                        lambda tx: runner.fail(tx, fence, failure, None, charges), short=True
                    )
                )
            except Fenced:
                raise Moved from None
            self._take_row(made.chat)

    async def record(self, call: Call) -> bool:
        """Record the result of one call while others still run."""
        chat_id = self.chat.id
        with _OwnWrite(self):
            try:
                return await self._patiently(
                    lambda: self._db.write(
                        lambda tx: runner.finish_call(tx, chat_id, call), short=True
                    )
                )
            finally:
                self._recorded += 1
                self.behind = True

    async def charge(self, fence: Fence, last: int, charges: Sequence[Charge]) -> None:
        """Charge an attempt on a history up to message `last`, unless its answer is in the
        history."""
        await self._patiently(
            lambda: self._db.write(
                lambda tx: runner.charge_abandoned(tx, fence, last, charges), short=True
            )
        )

    async def keep_partial(self, fence: Fence, seq: int, message: Message) -> None:
        """Save the part of an answer that has arrived."""
        self.partial_written = True
        await self._db.write(lambda tx: runner.write_partial(tx, fence, seq, message), short=True)

    def _append(self, messages: Sequence[Message], first: int) -> None:
        """Append messages to the history, after the row of their write was taken."""
        self._refs |= files.refs_in(messages)
        for place, message in enumerate(messages):
            self.history.append(message)
            if _may_ask(message):
                self.answer = first + place
        self._history_at = self.chat.history_version

    async def _patiently(self, ask: Callable[..., Awaitable[T]], *about: Any) -> T:
        """Retry a database operation until it succeeds. Only the write is repeated, never the step.

        A write whose acknowledgement was lost is simply repeated: if it had been committed, its
        fence no longer holds, and the history that is then loaded contains the step.
        """
        wait = FIRST_WAIT
        while True:
            try:
                return await ask(*about)
            except Closed:
                raise Gone from None
            except (Unavailable, OutcomeUnknown) as error:
                LOG.warning("chat %s: database unavailable, will retry: %s", self.chat.id, error)
            await anyio.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)


def _may_ask(message: Message) -> bool:
    """Return whether a message may contain open calls; a failed answer shown to people does not."""
    return message.kind == "answer" and message.visibility != "user"


class _OwnWrite:
    """Marks an own write: notices during the block are handled after it."""

    __slots__ = ("_book",)

    def __init__(self, book: FencedChat) -> None:
        self._book = book

    def __enter__(self) -> None:
        self._book._writing += 1

    def __exit__(self, *_: object) -> None:
        book = self._book
        book._writing -= 1
        book._written += 1
        book._rouse()
