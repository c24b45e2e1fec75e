"""Invariants of the rows of a chat: takes all rows of one chat and yields complaints.

Rows are not trusted: a person may have changed them by hand. A complaint has the number of the
violated invariant. Tests cover the invariants that rows cannot show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct, ValidationError, convert, structs

from holdfast.chat.history_invariants import Complaint, Walk, checkpoints, edits
from holdfast.chat.journal import earliest
from holdfast.chat.queue import MAX_QUEUED
from holdfast.chat.rows import JSON_COLUMNS, ChatRow, Deliver, JournalCall, Status
from holdfast.chat.spending_counters import SpendingRow, wrong_counters
from holdfast.chat.transitions.claims import MAX_CRASHES
from holdfast.kernel.approval import digest
from holdfast.kernel.decide import Approved
from holdfast.kernel.errors import FormatError
from holdfast.kernel.events import Action
from holdfast.kernel.messages import (
    Message,
    MessageKind,
    MessageRole,
    ToolResult,
    Usage,
    Visibility,
    decode,
)

RawRow: TypeAlias = Mapping[str, Any]
"""A row as a mapping from column names."""

UNCHARGED: Final = (None,) * 6
"""The usage of a message that was not charged."""
DRIVEN_STATUSES: Final = (Status.RUNNING, Status.INTERRUPTING)
"""Statuses in which a worker has to drive the chat, now or after a wait."""


# --- Rows ---------------------------------------------------------------------------------------


class MessageRow(Struct, frozen=True, kw_only=True):
    """A row of `messages`."""

    number: int
    revision: int
    role: MessageRole
    kind: MessageKind
    visibility: Visibility
    body: Message
    epoch: int | None
    input: int | None
    output: int | None
    reasoning: int | None
    cache_read: int | None
    cache_write: int | None
    cost: float | None
    created_at: int
    superseded_at: int | None

    @property
    def used(self) -> tuple[float | None, ...]:
        """The usage columns, in the order of `Usage`."""
        counts = (self.input, self.output, self.reasoning, self.cache_read, self.cache_write)
        return (*counts, self.cost)


class QueueRow(Struct, frozen=True, kw_only=True):
    """A row of `queue`."""

    id: str
    deliver: Deliver
    body: Message


class AwaitedRow(Struct, frozen=True, kw_only=True):
    """A child that a call waits for, with the root of the child."""

    call_id: str
    child_id: str
    root_id: str | None


class PartialRow(Struct, frozen=True, kw_only=True):
    """A row of `partials`."""

    epoch: int
    history_version: int
    body: Message


class UsageRow(Struct, frozen=True, kw_only=True):
    """A row of `usage`."""

    id: str
    purpose: Literal["attempt", "summary", "title"]
    input: int
    output: int
    reasoning: int
    cache_read: int
    cache_write: int
    cost: float | None
    created_at: int

    @property
    def used(self) -> tuple[int, int, int, int, int, float | None]:
        """The usage columns, in the order of `Usage`."""
        counts = (self.input, self.output, self.reasoning, self.cache_read, self.cache_write)
        return (*counts, self.cost)


class ParentRow(Struct, frozen=True, kw_only=True):
    """The columns of a parent that a child has to agree with."""

    id: str
    root_id: str
    depth: int
    owner: str
    archived: int


class ChatRows(Struct, frozen=True, kw_only=True):
    """All rows of one chat on one snapshot, in the order of their keys."""

    chat: RawRow
    parent: Sequence[RawRow] = ()
    messages: Sequence[RawRow] = ()
    queue: Sequence[RawRow] = ()
    tool_calls: Sequence[RawRow] = ()
    awaited: Sequence[RawRow] = ()
    partials: Sequence[RawRow] = ()
    usage: Sequence[RawRow] = ()
    spending: Sequence[RawRow] = ()


class DecodedRows(Struct, frozen=True, kw_only=True):
    """All rows of one chat as values, without those that cannot be decoded."""

    rows: ChatRows
    chat: ChatRow
    parent: Sequence[ParentRow]
    messages: Sequence[MessageRow]
    queue: Sequence[QueueRow]
    tool_calls: Sequence[JournalCall]
    awaited: Sequence[AwaitedRow]
    partials: Sequence[PartialRow]
    usage: Sequence[UsageRow]
    spending: Sequence[SpendingRow]


class Table(Struct, frozen=True):
    """How the rows of a table are decoded."""

    kind: type[Any]
    key: str
    """The column that names a row; empty when there is only one."""
    noun: str
    """The noun for a row in complaints."""
    invariant: int
    """Number of the invariant that an undecodable row violates."""
    documents: Mapping[str, Any] = {}
    """Columns that hold JSON, with their types."""


CHAT: Final = Table(ChatRow, "", "row", 8, JSON_COLUMNS)
TABLES: Final[Mapping[str, Table]] = {
    "parent": Table(ParentRow, "id", "parent", 8),
    "messages": Table(MessageRow, "number", "message", 1, {"body": Message}),
    "queue": Table(QueueRow, "id", "queued message", 10, {"body": Message}),
    "tool_calls": Table(
        JournalCall,
        "call_id",
        "call",
        12,
        {"asked": Action, "approved": Approved, "result": ToolResult},
    ),
    "awaited": Table(AwaitedRow, "call_id", "call", 12),
    "partials": Table(PartialRow, "", "partial answer", 14, {"body": Message}),
    "usage": Table(UsageRow, "id", "usage", 19),
    "spending": Table(SpendingRow, "", "counters", 20),
}


def examine(rows: ChatRows) -> Iterator[Complaint]:
    """Yield everything that is wrong with a chat."""
    complaints: list[Complaint] = []
    decoded = _decode_rows(rows, complaints)
    if decoded is None:  # the other rows have nothing to be compared with
        yield from complaints
        return
    for check in CHECKS:
        complaints += check(decoded)
    if len(decoded.messages) == len(rows.messages):
        # An undecodable message may be the one that the others refer to.
        complaints += _history(decoded)
    yield from complaints or wrong_counters(
        decoded.spending[0],
        [(row.created_at, row.body) for row in decoded.messages if row.epoch is not None],
        [(row.created_at, Usage(*row.used)) for row in decoded.usage],
    )


def _decode_rows(rows: ChatRows, complaints: list[Complaint]) -> DecodedRows | None:
    archived = rows.chat["archived"]
    flag = bool(archived) if archived in (0, 1) else archived
    chat = _value(CHAT, {**rows.chat, "archived": flag}, complaints)
    if chat is None:
        return None
    values_of_tables: dict[str, list[Any]] = {}
    for name, table in TABLES.items():
        raws: Sequence[RawRow] = getattr(rows, name)
        values = [_value(table, raw, complaints) for raw in raws]
        values_of_tables[name] = [value for value in values if value is not None]
    return DecodedRows(rows=rows, chat=chat, **values_of_tables)


def _value(table: Table, raw: RawRow, complaints: list[Complaint]) -> Any:
    """Decode a row. Returns None and adds a complaint if it cannot be decoded."""
    where = f"{table.noun} {raw[table.key]}" if table.key else table.noun
    values = dict(raw)
    for column, column_type in table.documents.items():
        if values[column] is None:
            continue
        try:
            values[column] = decode(values[column], column_type)
        except FormatError as error:
            description = f"its {column} cannot be read: {error}"
            complaints.append((table.invariant, where, description))
            return None
    try:
        return convert(values, table.kind)
    except ValidationError as error:
        complaints.append((table.invariant, where, f"it has an invalid value: {error}"))
        return None


# --- The row of the chat ------------------------------------------------------------------------


def _state(decoded: DecodedRows) -> Iterator[Complaint]:
    """8: no transition of the table leaves a row like this."""
    chat = decoded.chat
    if (chat.status is Status.ERROR) != (chat.error is not None):
        yield 8, "error", f"it has {'an' if chat.error else 'no'} error, and is {chat.status}"
    if chat.archived and chat.busy:
        yield 8, "status", f"it is archived, and is {chat.status}"
    if chat.retry is not None and chat.status is not Status.RUNNING:
        yield 8, "retry", f"a retry is shown, and it is {chat.status}"
    if chat.retry_at is not None and chat.retry is None:
        yield 8, "retry_at", "it waits for an attempt, and no retry is shown"
    if chat.compaction is not None and chat.status not in (Status.RUNNING, Status.REQUIRES_ACTION):
        yield 8, "compaction", f"a compaction is asked for, and it is {chat.status}"


def _owner(decoded: DecodedRows) -> Iterator[Complaint]:
    """11, 17, 18: owner, start of the wait for a worker, and number of crashes."""
    chat = decoded.chat
    if chat.worker_id is not None and not chat.busy:
        yield 11, "worker_id", f"a worker has it, and it is {chat.status}"
    if chat.epoch < (chat.worker_id is not None):
        yield 11, "epoch", f"a worker has it, and its epoch is {chat.epoch}"
    if chat.status in DRIVEN_STATUSES and chat.runnable_since is None:
        yield 17, "runnable_since", f"it is {chat.status}, and does not wait for a worker"
    if not chat.busy and chat.runnable_since is not None:
        yield 17, "runnable_since", f"it waits for a worker, and is {chat.status}"
    if not 0 <= chat.crashes < MAX_CRASHES:
        yield 18, "crashes", f"there are {chat.crashes}, and at {MAX_CRASHES} a chat is parked"


def _family(decoded: DecodedRows) -> Iterator[Complaint]:
    """8, 20: parents, roots and depths agree, which also excludes cycles."""
    chat = decoded.chat
    if chat.parent_id is None:
        if chat.root_id != chat.id or chat.depth != 0 or chat.spawned_by is not None:
            yield 8, "parent_id", "it has no parent, and a root, a depth or a call as if it had"
        return
    if not decoded.rows.parent:
        yield 8, "parent_id", f"there is no chat {chat.parent_id}"
    if chat.spawned_by is None:
        yield 8, "spawned_by", "it has a parent, and no call that made it"
    for parent in decoded.parent:
        if chat.root_id != parent.root_id:
            yield 8, "root_id", f"it is {chat.root_id}, and its parent's is {parent.root_id}"
        if chat.depth != parent.depth + 1:
            yield 8, "depth", f"it is {chat.depth}, and its parent's is {parent.depth}"
        if parent.archived and not chat.archived:
            yield 8, "archived", "its parent is archived, and it is not"
        if chat.owner != parent.owner:
            yield 20, "owner", "its owner is not its parent's"


# --- Messages -----------------------------------------------------------------------------------


def _numbers(decoded: DecodedRows) -> Iterator[Complaint]:
    """1: messages are numbered from 1 without a gap."""
    number_before = 0
    for raw in decoded.rows.messages:
        number = raw["number"]
        if number != number_before + 1:
            yield 1, f"message {number}", f"the one before it has the number {number_before}"
        number_before = number
    if number_before != decoded.chat.messages:
        yield (
            1,
            "messages",
            f"{decoded.chat.messages} are counted, and the last has number {number_before}",
        )


def _agreement(decoded: DecodedRows) -> Iterator[Complaint]:
    """1, 19: the columns of a message agree with its body."""
    for row in decoded.messages:
        where, body = f"message {row.number}", row.body
        for name in ("role", "kind", "visibility"):
            column, in_body = getattr(row, name), getattr(body, name)
            if column != in_body:
                yield 1, where, f"its {name} is {column}, and that of its body is {in_body}"
        in_body = UNCHARGED if body.usage is None else structs.astuple(body.usage)
        # A fork copies messages, and they are not charged again.
        is_copy = row.epoch is None and row.used == UNCHARGED
        if row.used != in_body and not is_copy:
            yield 19, where, "its usage is not what its body says"


def _edits(decoded: DecodedRows) -> Iterator[Complaint]:
    """1: an edit supersedes, and does not rewrite."""
    return edits((row.number, row.kind, row.superseded_at is not None) for row in decoded.messages)


def _versions(decoded: DecodedRows) -> Iterator[Complaint]:
    """6: versions are those of the last changes, and do not decrease from message to message."""
    chat = decoded.chat
    if chat.snapshot_version < 1:
        yield 6, "snapshot_version", f"it is {chat.snapshot_version}, and begins at 1"
    if chat.queue_version > chat.snapshot_version:
        yield 6, "queue_version", f"it is {chat.queue_version} of {chat.snapshot_version}"
    newest = max((row.revision for row in decoded.messages), default=0)
    complete = len(decoded.messages) == len(decoded.rows.messages)
    if newest > chat.snapshot_version or (complete and newest != chat.history_version):
        yield (
            6,
            "history_version",
            f"it is {chat.history_version} of {chat.snapshot_version}, "
            f"and the last change of a message was {newest}",
        )
    revision_before = 0
    for row in decoded.messages:
        if row.superseded_at is None:
            if row.revision < revision_before:
                where = f"message {row.number}"
                yield (
                    6,
                    where,
                    f"its revision is {row.revision}, and one before it has {revision_before}",
                )
            revision_before = row.revision


def _epochs(decoded: DecodedRows) -> Iterator[Complaint]:
    """11: no row has an epoch after the chat's, and epochs do not decrease between messages."""
    current_epoch, epoch_before = decoded.chat.epoch, 0
    for row in decoded.messages:
        if row.epoch is not None:
            if not epoch_before <= row.epoch <= current_epoch:
                where = f"message {row.number}"
                yield (
                    11,
                    where,
                    f"its epoch is {row.epoch}, after {epoch_before} and with {current_epoch} now",
                )
            epoch_before = max(epoch_before, row.epoch)
    for call in decoded.tool_calls:
        if call.epoch is not None and call.epoch > current_epoch:
            yield (
                11,
                f"call {call.call_id}",
                f"its epoch is {call.epoch}, and the chat's is {current_epoch}",
            )
    for partial in decoded.partials:
        if partial.epoch > current_epoch:
            yield (
                11,
                "partial answer",
                f"its epoch is {partial.epoch}, and the chat's is {current_epoch}",
            )


# --- Queue, partial answer, usage ---------------------------------------------------------------


def _queue(decoded: DecodedRows) -> Iterator[Complaint]:
    """10: an idle chat has no queue, and no queue exceeds its limit."""
    count = len(decoded.rows.queue)
    if decoded.chat.status is Status.IDLE and count:
        yield 10, "queue", f"{count} messages wait, and it is idle"
    if count > MAX_QUEUED:
        yield 10, "queue", f"{count} messages wait, and {MAX_QUEUED} may"
    if count and decoded.chat.queue_version < 1:
        yield 6, "queue_version", f"{count} messages wait, and it never changed"
    for row in decoded.queue:
        if (row.body.role, row.body.kind) != ("user", "prompt"):
            yield 10, f"queued message {row.id}", f"it is not a prompt but {row.body.kind}"


def _partial(decoded: DecodedRows) -> Iterator[Complaint]:
    """14: a partial answer exists only until its answer is committed."""
    chat = decoded.chat
    if decoded.rows.partials and chat.status not in DRIVEN_STATUSES:
        yield 14, "partial answer", f"it is kept, and the chat is {chat.status}"
    for row in decoded.partials:
        if row.history_version > chat.history_version:
            yield (
                14,
                "partial answer",
                f"it answers version {row.history_version} of the history, "
                f"and that is at {chat.history_version}",
            )


def _usage(decoded: DecodedRows) -> Iterator[Complaint]:
    """19: usage is not negative."""
    counts_by_row: dict[str, Sequence[float | None]]
    counts_by_row = {f"usage {row.id}": row.used for row in decoded.usage}
    counts_by_row |= {f"message {row.number}": row.used for row in decoded.messages}
    for where, counts in counts_by_row.items():
        if any(count is not None and count < 0 for count in counts):
            yield 19, where, "its usage is negative"


CHECKS: Final[Sequence[Callable[[DecodedRows], Iterator[Complaint]]]] = (
    _state,
    _owner,
    _family,
    _numbers,
    _agreement,
    _edits,
    _versions,
    _epochs,
    _queue,
    _partial,
    _usage,
)


# --- Calls --------------------------------------------------------------------------------------


def _history(decoded: DecodedRows) -> Iterator[Complaint]:
    """2, 3, 4, 7, 12, 13: invariants of the history as a whole."""
    live = [(row.number, row.body) for row in decoded.messages if row.superseded_at is None]
    walk = Walk()
    for number, body in live:
        yield from walk.add(number, body)
    yield from checkpoints(live, walk)
    if decoded.chat.status is Status.IDLE:
        for id, number in walk.open.items():
            yield 2, f"message {number}", f"call {id} has no result, and the chat is idle"
    messages = {row.number: row for row in decoded.messages}
    for call in decoded.tool_calls:
        for invariant, description in (
            *_entry(call),
            *_call(call, messages.get(call.number), walk),
        ):
            yield invariant, f"call {call.call_id}", description
    yield from _actions(decoded, walk)
    yield from _awaited(decoded)


def _call(call: JournalCall, message: MessageRow | None, walk: Walk) -> Iterator[tuple[int, str]]:
    """Yield where a row of the journal and the history disagree."""
    is_finished = call.state == "finished" and call.result is None
    invariant = 13 if call.state in ("waiting", "approved") else 12
    state = call.state if call.result is None else f"{call.state} with a result"
    called_in, result = walk.called_in.get(call.call_id), walk.results.get(call.call_id)
    if message is None or call.call_id not in {one.id for one in message.body.calls}:
        yield 12, f"message {call.number} does not ask for it"
    elif message.superseded_at is not None:
        if not is_finished:
            yield invariant, f"it is {state}, and its message is superseded"
        if called_in is not None:
            yield 3, f"message {called_in} has a call of this id, and so has message {call.number}"
    elif called_in is None:
        yield 12, f"models do not see message {call.number}, which asks for it"
    elif walk.open.get(call.call_id) == call.number:
        if is_finished:
            yield 12, "it is over, and has no result, here or in the history"
    elif not is_finished:
        yield invariant, f"it is {state}, and the history has gone past it"
    elif result is not None and call.outcome != result.outcome:
        yield 12, f"its outcome is {call.outcome}, and in the history it is {result.outcome}"


def _entry(call: JournalCall) -> Iterator[tuple[int, str]]:
    """Yield what is wrong with a row of the journal by itself."""
    if call.state == "waiting" and (call.asked is None or call.action is None):
        yield 13, "it waits, and has no action"
    if call.state == "approved" and call.approved is None:
        yield 13, "it is approved, and the approval is missing"
    if call.state == "started" and (call.started_at is None or call.epoch is None):
        yield 12, "it is started, and its time or epoch is missing"
    if (call.state == "finished") != (call.outcome is not None):
        yield 12, f"it is {call.state}, and its outcome is {call.outcome}"
    result = call.result
    if result is not None:
        if call.state != "finished":
            yield 12, f"it is {call.state}, and has a result"
        elif (result.call_id, result.outcome) != (call.call_id, call.outcome):
            yield 12, f"it has the result of call {result.call_id}, which was {result.outcome}"
    action, approved = call.asked, call.approved
    if action is not None:
        if (action.call.id, action.kind) != (call.call_id, call.action):
            yield 13, f"it waits for {call.action}, and asks for {action.kind} of {action.call.id}"
        expected_digest = digest(
            action.call.id,
            action.call.tool,
            action.arguments,
            again=action.again,
            attempt=action.attempt,
        )
        if action.digest != expected_digest:
            yield 13, "the arguments that are shown are not those that it is bound to"
        if approved is not None and approved.digest != action.digest:
            yield 13, "it is approved for other arguments than were shown"


def _actions(decoded: DecodedRows, walk: Walk) -> Iterator[Complaint]:
    """13: in a chat that requires action every open call waits, until the earliest deadline."""
    chat, calls = decoded.chat, {call.call_id: call for call in decoded.tool_calls}
    deadline: int | None = None
    if chat.status is Status.REQUIRES_ACTION:
        if not walk.open:
            yield 13, "status", "it requires action, and no call is open"
        for id in walk.open:
            if id not in calls or calls[id].state != "waiting":
                yield 13, f"call {id}", "it is open and does not wait, and the chat does"
        deadline = earliest(calls)
    if chat.deadline != deadline:
        yield 13, "deadline", f"it is {chat.deadline}, and the first of its actions' is {deadline}"
    if chat.archived:
        for id, call in calls.items():
            if call.state == "approved":
                yield 13, f"call {id}", "it is approved, and the chat is archived"


def _awaited(decoded: DecodedRows) -> Iterator[Complaint]:
    """12: only an unfinished call waits for children, and only for those of its own family."""
    calls = {call.call_id: call for call in decoded.tool_calls}
    for row in decoded.awaited:
        where, call = f"call {row.call_id}", calls.get(row.call_id)
        if call is None or call.action != "child":
            yield (
                12,
                where,
                f"it is to wait for chat {row.child_id}, and is not a call that waits for children",
            )
        elif call.state == "finished" and call.result is None:
            yield 12, where, f"it waits for chat {row.child_id}, and is over"
        if row.root_id != decoded.chat.root_id:
            yield 12, where, f"it waits for chat {row.child_id}, which is of another family"
