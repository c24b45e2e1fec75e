"""Snapshots and results of chats: the values that programs and remote clients read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar, overload

from msgspec import Struct, structs

from holdfast.chat.errors import Stranded
from holdfast.chat.queries import read_actions, read_partial
from holdfast.chat.row_lock import now_of, read_chat
from holdfast.chat.rows import (
    BUSY,
    SELECT_CHAT,
    SELECT_MESSAGE,
    Call,
    Chat,
    Queued,
    Rest,
    Retry,
    Rule,
    Status,
    Stored,
    chat_of,
    stored_of,
)
from holdfast.chat.transitions.claims import due, living
from holdfast.kernel import answer
from holdfast.kernel.errors import Failure, InvalidOutput
from holdfast.kernel.events import Action, EndReason
from holdfast.kernel.messages import AskedBy, CutBy, Message, MessageKind
from holdfast.kernel.output import Misfit, Output, spoken, value_in
from holdfast.kernel.turn import context_of
from holdfast.store.database import Tx

T = TypeVar("T")


class Snapshot(Struct, frozen=True, kw_only=True):
    """A chat at one version. Times are microseconds since 1970, UTC."""

    id: str
    owner: str
    agent: str
    title: str | None
    titled_by: Literal["person", "model"] | None
    """None: there is no title, or a provisional one from the opening words of the prompt."""
    labels: Mapping[str, str]
    model: str | None
    """Name of the model; None for the agent's own."""
    effort: str | None
    workspace: str | None
    rules: tuple[Rule, ...]
    """Calls that are allowed in this chat without asking."""
    parent_id: str | None
    root_id: str
    status: Status
    archived: bool
    error: Failure | None
    """Why the chat stopped, when its status is `error`."""
    retry: Retry | None
    """The last failure, while the chat waits for its next attempt."""
    outcome: Rest | None
    """How the last turn ended."""
    deadline: int | None
    """Earliest deadline of the pending actions."""
    compaction: AskedBy | None
    snapshot_version: int
    history_version: int
    queue_version: int
    epoch: int
    attempt: int
    messages: int
    """Number of messages, superseded ones included: the number of the last message."""
    created_at: int
    updated_at: int
    context: int | None = None
    """Tokens that the conversation fills, as reported by its last answer or summary. Not in
    lists."""
    stranded: bool = False
    """Whether the chat has waited for a while and no live worker has its agent."""
    partial: Message | None = None
    """The partial answer that a restart interrupted, until the next attempt begins. Not in
    lists."""

    @property
    def busy(self) -> bool:
        """Whether a turn is unfinished: the chat is running, interrupting or requires action."""
        return self.status in BUSY


SHOWN: Final = tuple(
    field.name
    for field in structs.fields(Snapshot)
    if field.name in {column.name for column in structs.fields(Chat)}
)


class Pending(Action, frozen=True):
    """An action that the chat waits for."""

    number: int = 0
    """Number of the message that contains the call."""
    deadline: int | None = None


def pending(call: Call) -> Pending:
    """Convert a waiting call to an action as people see it."""
    assert call.asked is not None  # guaranteed by a CHECK of the table
    return Pending(**structs.asdict(call.asked), number=call.number, deadline=call.deadline)


class ChatResult(Struct, frozen=True):
    """The result of a chat, once it rests."""

    reason: EndReason | None
    """Why the last turn ended; None when there was no turn."""
    text: str
    """Text of the last answer of the last turn, all pieces of it; empty when there was none."""
    failure: Failure | None
    actions: tuple[Pending, ...]
    """The actions that it waits for, when it `requires_action`."""
    chat: Snapshot
    pieces: tuple[str, ...] = ()
    """Texts of the last answer, where they differ from `text`: several when it was cut by length,
    or the one after a call that its provider ran."""

    @property
    def cut_by(self) -> CutBy | None:
        """What cut the last answer short: the provider's content filter, or its length."""
        return None if self.chat.outcome is None else self.chat.outcome.cut_by

    @overload
    def output_as(self, wanted: type[T]) -> T | None: ...

    @overload
    def output_as(self, wanted: Any) -> Any: ...

    def output_as(self, wanted: Any) -> Any:
        """Parse the answer as a value of the agent's output type, which the caller names, because a
        chat stores text.

        None when the chat did not stop with an answer. Raises `InvalidOutput`.
        """
        if self.reason != "stop":
            return None
        read = value_in(Output(wanted), self.pieces or (self.text,))
        if isinstance(read, Misfit):
            raise InvalidOutput(read.problems, 0)
        return read.value


class Receipt(Struct, frozen=True):
    """Where a sent message is: in the history, or in the queue."""

    number: int | None = None
    queued: str | None = None


class Revision(Struct, frozen=True):
    """The result of an edit."""

    number: int
    """Number of the message that replaces the edited one."""
    superseded: tuple[int, ...]
    dropped: tuple[Queued, ...]
    """Queued messages that the edit discarded."""


def at_rest(status: Status, actions: Collection[Action]) -> bool:
    """Return whether nothing more happens until something outside acts.

    A chat that only waits for its children continues by itself.
    """
    if status is Status.REQUIRES_ACTION:
        return any(action.kind != "child" for action in actions)
    return status not in BUSY


# --- reading ---


class Watch(Struct, frozen=True):
    """Limits that tell a waiting chat from a stranded one. Microseconds."""

    lease: int
    """A worker without a heartbeat for this long is dead."""
    stranded: int
    """How long a chat may wait for a worker that has its agent."""


async def snapshots(tx: Tx, rows: Sequence[Chat], watch: Watch) -> list[Snapshot]:
    """Convert rows to snapshots."""
    lost = await _stranded(tx, [row for row in rows if row.busy], watch)
    return [snapshot_of(row, row.id in lost) for row in rows]


async def _stranded(tx: Tx, busy: Sequence[Chat], watch: Watch) -> set[str]:
    """Return the chats that have waited for a while without a live worker that has their agent."""
    if not busy:
        return set()
    now = await now_of(tx)
    waiting = [row for row in busy if _since(row) + watch.stranded < now]
    if not waiting:
        return set()
    known = (await living(tx, watch.lease)).agents  # includes those with a live owner
    lost = [row for row in waiting if row.agent not in known]
    parked = [row.id for row in lost if row.runnable_since is None]
    ready = await due(tx, parked, now) if parked else set()
    return {row.id for row in lost} - (set(parked) - ready)


def _since(row: Chat) -> int:
    """Return since when a chat may want a worker. For a parked chat that is when it was parked."""
    return max(row.runnable_since or row.updated_at, row.retry_at or 0)


def snapshot_of(row: Chat, stranded: bool = False) -> Snapshot:
    """Convert a row to a snapshot."""
    values: dict[str, Any] = {name: getattr(row, name) for name in SHOWN}
    return Snapshot(**values, stranded=stranded)


async def read_snapshot(tx: Tx, chat_id: str, watch: Watch) -> Snapshot:
    """Read the snapshot of a chat, with fields that lists omit."""
    row = await read_chat(tx, chat_id)
    (made,) = await snapshots(tx, [row], watch)
    return structs.replace(
        made,
        context=await read_context(tx, chat_id),
        partial=await read_interrupted(tx, row, watch),
    )


async def read_interrupted(tx: Tx, row: Chat, watch: Watch) -> Message | None:
    """Read the partial answer of an attempt whose process ended, while the next has not begun."""
    if row.status not in (Status.RUNNING, Status.INTERRUPTING):
        return None
    partial = await read_partial(tx, row.id)
    if partial is None:
        return None
    is_own = partial.epoch == row.epoch and row.worker_id is not None
    if is_own and row.worker_id in (await living(tx, watch.lease)).ids:
        return None  # its worker is still alive
    return partial.message


async def read_context(tx: Tx, chat_id: str) -> int | None:
    """Read how many tokens the live history fills."""
    last = await _last(tx, chat_id, ("answer", "checkpoint"), "AND visibility <> 'user'")
    if last is None:
        return None
    message = last.message
    if message.checkpoint is not None:
        return message.checkpoint.after
    return None if message.usage is None else context_of(message)


async def read_result(tx: Tx, chat_id: str, watch: Watch) -> ChatResult | None:
    """Read the result of a chat; None while it is not at rest. Raises `Stranded` if it cannot get
    there."""
    chat = await read_snapshot(tx, chat_id, watch)
    actions = tuple(map(pending, await read_actions(tx, chat_id)))
    if not at_rest(chat.status, actions):
        await _check_not_stranded(tx, chat, watch)
        return None
    reason: EndReason | None = None if chat.outcome is None else chat.outcome.reason
    if chat.status is Status.REQUIRES_ACTION:
        reason = "requires_action"
    if reason != "stop":
        return ChatResult(reason, await read_answer(tx, chat_id), chat.error, actions, chat)
    text, pieces = await _stopped_with(tx, chat_id)
    return ChatResult(reason, text, chat.error, actions, chat, pieces)


async def _stopped_with(tx: Tx, chat_id: str) -> tuple[str, tuple[str, ...]]:
    """Read the text of the answer that a turn stopped with, and its pieces where they differ."""
    rows = await tx.fetch(
        f"""
        {SELECT_MESSAGE}
         WHERE chat_id = :id AND superseded_at IS NULL
           AND number > COALESCE((SELECT number FROM messages
                                   WHERE chat_id = :id AND superseded_at IS NULL
                                     AND (kind = 'prompt' OR kind = 'results')
                                   ORDER BY number DESC LIMIT 1), 0)
         ORDER BY number
        """,
        {"id": chat_id},
    )
    messages = [stored_of(chat_id, row).message for row in rows]
    text, said = answer.text(messages), spoken(messages)
    return text, () if said == [text] else tuple(said)


async def _check_not_stranded(tx: Tx, chat: Snapshot, watch: Watch) -> None:
    """Raise `Stranded` if no live worker can drive the chat, or the chats that it waits for."""
    shown = [chat]
    if chat.status is Status.REQUIRES_ACTION:
        rows = await tx.fetch(
            f"""
            WITH RECURSIVE waited (id) AS (
                SELECT child_id FROM awaited WHERE chat_id = :id
                UNION SELECT a.child_id FROM awaited a JOIN waited w ON a.chat_id = w.id
            )
            {SELECT_CHAT} WHERE id IN (SELECT id FROM waited)
            """,
            {"id": chat.id},
        )
        shown += await snapshots(tx, [chat_of(row) for row in rows], watch)
    for one in shown:
        if one.stranded:
            raise Stranded(one.id, one.agent)


async def read_answer(tx: Tx, chat_id: str) -> str:
    """Read the text of the last answer since the last prompt, also of one that was cut short."""
    limit = 2
    while True:
        found = await _spoken_last(tx, chat_id, limit)
        prompts = [at for at, message in enumerate(found) if message.kind == "prompt"]
        since = found[prompts[-1] + 1 :] if prompts else found
        whole = prompts or len(found) < limit
        # An answer cut by length continues an earlier one: collect it back to the first.
        if whole or (
            since[0].kind == "answer" and since[0] not in answer.pieces(since, shown=True)
        ):
            return answer.text(since)
        limit *= 4


async def _spoken_last(tx: Tx, chat_id: str, limit: int) -> list[Message]:
    """Read the last prompts, answers and injections, oldest first."""
    rows = await tx.fetch(
        f"""
        {SELECT_MESSAGE}
         WHERE chat_id = :id AND superseded_at IS NULL
           AND {tx.dialect.one_of("kind", "kinds")}
         ORDER BY number DESC LIMIT :limit
        """,
        {"id": chat_id, "kinds": ["answer", "injected", "prompt"], "limit": limit},
    )
    return [stored_of(chat_id, row).message for row in reversed(rows)]


async def read_first_prompt(tx: Tx, chat_id: str) -> str:
    """Read the text of the first live prompt."""
    row = await tx.one(
        f"""
        {SELECT_MESSAGE}
         WHERE chat_id = :id AND superseded_at IS NULL AND kind = 'prompt' ORDER BY number LIMIT 1
        """,
        {"id": chat_id},
    )
    return "" if row is None else stored_of(chat_id, row).message.text


async def _last(
    tx: Tx, chat_id: str, kinds: Sequence[MessageKind], also: str = ""
) -> Stored | None:
    row = await tx.one(
        f"""
        {SELECT_MESSAGE}
         WHERE chat_id = :id AND superseded_at IS NULL
           AND {tx.dialect.one_of("kind", "kinds")} {also}
         ORDER BY number DESC LIMIT 1
        """,
        {"id": chat_id, "kinds": list(kinds)},
    )
    return None if row is None else stored_of(chat_id, row)
