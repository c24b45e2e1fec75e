"""A runner's copy of its chat: what is committed, kept up to date write by write.

Decisions are made on `chat`, `history`, `journal` and `queue` as they were at the last load or
write of our own, and every write names that moment: its fence. What others change meanwhile is
heard of by notices, read beside it, and changes nothing here until the runner looks again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, TypeVar

import anyio
from msgspec import structs

from holdfast.chat import files, queries, running
from holdfast.chat.commit import COMMIT_STEP, Committed, Step
from holdfast.chat.errors import ChatNotFound, Fenced
from holdfast.chat.journal import read_journal
from holdfast.chat.locked import fence_of, read_chat
from holdfast.chat.queue import read_queue, steering
from holdfast.chat.running import Advanced
from holdfast.chat.state import Call, Charge, Chat, Fence, Partial, Queued, Stored
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
"""Messages that are read in no time."""


class Moved(Exception):
    """A write found the chat other than it was: look again."""


class Gone(Exception):
    """The chat belongs to somebody else, or is no more. Nothing may be written."""


class Book:
    """One chat, as its runner knows it."""

    def __init__(self, db: Database, claimed: Chat, trim: Trim) -> None:
        self._db = db
        self._trim = trim
        self._epoch = claimed.epoch
        self.chat = claimed
        self.fence = fence_of(claimed)
        self.history = History((), trim)
        self._history_at: int | None = None
        """The version that it is of."""
        self.journal: dict[str, Call] = {}
        self.queue: tuple[Queued, ...] = ()
        self.partial: Partial | None = None
        self.retry_in: float | None = None
        """Seconds that the next attempt was to wait when the chat was loaded."""
        self.answer = 0
        """The number of the message that asks for the calls that are open, if any are."""
        self.partial_written = False
        """There may be a row that a commit has to remove."""
        self.seen = claimed
        """The newest row that anybody has seen here."""
        self._refs: set[str] = set()
        """Files that the history names, without having their bytes."""
        self._looked_for: set[str] = set()
        self._files: dict[str, bytes] = {}
        self._own = _OwnWrites(self._rouse)
        self._heard = 0
        self._news = anyio.Event()
        self.behind = False
        """Somebody else may have written to the journal: `catch_up`."""
        self._recorded = 0
        """How many results were recorded beside others: the journal here does not have them."""

    # --- reading ---

    async def load(self) -> None:
        """Start from what the database says. Raises `Gone`."""
        loaded, before = None, self.seen
        while loaded is None or self._overtaken(loaded.chat, before):
            before = self.seen
            loaded = await self._read_all()
        self._check_mine(loaded.chat)
        self._take_row(loaded.chat)
        self.seen = loaded.chat  # also one that is older: a database may come back without its last
        if not loaded.known:
            self._take_history(loaded.history, loaded.void)
        self.queue, self.journal = loaded.queue, loaded.journal
        self.partial = loaded.partial
        self.partial_written |= loaded.begun  # one that is on its way may come behind this look
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
        """Whether the history has files without their bytes."""
        return bool(self._refs)

    async def with_files(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Messages with the bytes of the files that they only name. They are read once."""
        wanted = self._refs - self._looked_for
        if wanted:
            owner = self.chat.owner
            self._files |= await self._patiently(
                lambda: self._db.read(lambda tx: files.read_refs(tx, owner, wanted))
            )
            self._looked_for |= wanted
        return files.filled(messages, self._files) if self._files else messages

    async def look(self) -> None:
        """Know the row of the chat, where the rest cannot be read. Raises `Gone`."""
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
        """Whether a look at the news, begun later, was quicker than this: it knows more."""
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
        return bool(self.queue) and bool(steering(self.queue))

    def facts(self) -> dict[str, CallState]:
        """What `decide` is told of the open calls."""
        if not self.journal:
            return {}
        known = {call.id: self.journal.get(call.id) for call in self.history.turn.open}
        facts = {id: call.fact for id, call in known.items() if call is not None}
        return {id: fact for id, fact in facts.items() if fact is not None}

    async def catch_up(self) -> None:
        """Being `behind`, read what others wrote beside the history: answers to actions."""
        self.behind = False
        chat_id = self.chat.id
        self.journal = await self._patiently(
            lambda: self._db.read(lambda tx: read_journal(tx, chat_id), short=True)
        )

    # --- news ---

    def hear(self, version: int | None) -> None:
        """A notice: there is this version, or anything may have happened."""
        if version is None:
            version = self.seen.snapshot_version + 1
        if version > self._heard:
            self._heard = version
        self._rouse()

    def _rouse(self) -> None:
        # Not while we write: the news is most likely our own.
        if not self._own.under_way and self._heard > self.seen.snapshot_version:
            self._news.set()

    async def news(self) -> Chat:
        """Wait for a version that is not our own doing, and give its row. Raises `Gone`."""
        while True:
            await self._news.wait()
            self._news = anyio.Event()
            made, heard = self._own.made, self._heard
            try:
                chat, queue = await self._patiently(lambda: self._db.read(self._look, short=True))
            except ChatNotFound:
                raise Gone from None
            if self._own.under_way or made != self._own.made:
                continue  # it may be our own doing: what is left of it is heard after the write
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

    async def commit(self, messages: tuple[Message, ...], runtime: int | None = None) -> None:
        """Commit a step that only appends: the usual one."""
        if self.partial_written:
            outcome = running.Outcome(messages=messages, runtime=runtime)
            await self.write(running.commit_step, outcome)
            return
        step = Step(self.fence, messages, runtime)
        with self._own:
            made = await self._patiently(self._db.write_together, COMMIT_STEP, step)
            if not isinstance(made, Committed):
                raise Moved
            row = self.seen
            if made.version > row.snapshot_version + 1:
                row = await self._meanwhile()
            self._take_commit(row, made)
            self._append(messages, made.messages - len(messages) + 1)

    def _take_commit(self, row: Chat, made: Committed) -> None:
        """The row as our commit left it, on top of what others wrote before that."""
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
        """Somebody else wrote before our commit: they may have sent something, chosen another
        model, allowed or answered a call. Raises `Gone`."""
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
        """Make one write of a runner, and know what came of it. Raises `Moved`."""
        with self._own:
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
            # Of a chat at rest it has nothing to say.
            journal = await read_journal(tx, fence.chat) if made.chat.busy else {}
            return made, queue, journal

        try:
            made, queue, journal = await self._patiently(lambda: self._db.write(change, short=True))
        except Fenced:
            raise Moved from None
        if made.chat.snapshot_version >= self.chat.snapshot_version:
            # Several calls may start at once, and hear of it in another order than they wrote.
            self._take_row(made.chat)
            self.queue, self.journal = queue, journal
            self.behind = recorded != self._recorded
        if made.appended:
            self._append([s.message for s in made.appended], made.appended[0].number)
        if made.chat.history_version != fence.history_version:
            self.partial_written, self.partial = False, None
        return made.chat

    async def fail(self, failure: Failure, charges: Sequence[Charge]) -> None:
        """Stop with an error, whatever state the rest of the chat is in. Raises `Moved`."""
        fence = self.fence
        with self._own:
            try:
                made = await self._patiently(
                    lambda: self._db.write(
                        lambda tx: running.fail(tx, fence, failure, None, charges), short=True
                    )
                )
            except Fenced:
                raise Moved from None
            self._take_row(made.chat)

    async def record(self, call: Call) -> bool:
        """Write down the result of one call beside others that still run."""
        chat_id = self.chat.id
        with self._own:
            try:
                return await self._patiently(
                    lambda: self._db.write(
                        lambda tx: running.finish_call(tx, chat_id, call), short=True
                    )
                )
            finally:
                self._recorded += 1
                self.behind = True

    async def charge(self, fence: Fence, last: int, charges: Sequence[Charge]) -> None:
        """Count what an attempt on a history up to message `last` cost, unless it is in there."""
        await self._patiently(
            lambda: self._db.write(
                lambda tx: running.charge_abandoned(tx, fence, last, charges), short=True
            )
        )

    async def keep_partial(self, fence: Fence, seq: int, message: Message) -> None:
        self.partial_written = True
        await self._db.write(lambda tx: running.write_partial(tx, fence, seq, message), short=True)

    def _append(self, messages: Sequence[Message], first: int) -> None:
        """Behind the row of the write that brought them."""
        self._refs |= files.refs_in(messages)
        for place, message in enumerate(messages):
            self.history.append(message)
            if _may_ask(message):
                self.answer = first + place
        self._history_at = self.chat.history_version

    async def _patiently(self, ask: Callable[..., Awaitable[T]], *about: Any) -> T:
        """Ask the database until it answers. Only the write is repeated, never the step.

        One whose acknowledgement was lost is simply made again: if it had been committed, its fence
        no longer holds, and the history that is then read has the step.
        """
        wait = FIRST_WAIT
        while True:
            try:
                return await ask(*about)
            except Closed:
                raise Gone from None
            except (Unavailable, OutcomeUnknown) as error:
                LOG.warning("chat %s waits for the database: %s", self.chat.id, error)
            await anyio.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)


def _may_ask(message: Message) -> bool:
    """Whether it may ask for calls: what people are shown of an answer that failed does not."""
    return message.kind == "answer" and message.visibility != "user"


class _OwnWrites:
    """What is heard in a block of it is most likely our own doing: it is looked at afterwards."""

    __slots__ = ("_look", "made", "under_way")

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look
        self.under_way = 0
        """Several at once, when calls begin or end side by side."""
        self.made = 0

    def __enter__(self) -> None:
        self.under_way += 1

    def __exit__(self, *_: object) -> None:
        self.under_way -= 1
        self.made += 1
        if not self.under_way:
            self._look()
