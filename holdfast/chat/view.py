"""A chat as people are shown it: values that read the same here and at the far end of a wire."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar, overload

from msgspec import Struct, structs

from holdfast.chat.claims import due, living
from holdfast.chat.errors import Stranded
from holdfast.chat.locked import now_of, read_chat
from holdfast.chat.queries import read_actions
from holdfast.chat.state import (
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
from holdfast.kernel.errors import Failure, InvalidOutput
from holdfast.kernel.events import Action, EndReason
from holdfast.kernel.messages import AskedBy, Kind
from holdfast.kernel.output import Misfit, Output, spoken, value_in
from holdfast.kernel.turn import context_of
from holdfast.store.database import Tx

T = TypeVar("T")


class Snapshot(Struct, frozen=True, kw_only=True):
    """A chat as of one moment. Times are microseconds since 1970, UTC."""

    id: str
    owner: str
    agent: str
    title: str | None
    titled_by: Literal["person", "model"] | None
    labels: Mapping[str, str]
    model: str | None
    """None: the agent's own."""
    effort: str | None
    workspace: str | None
    rules: tuple[Rule, ...]
    """Calls that are allowed in this chat without asking."""
    parent_id: str | None
    root_id: str
    status: Status
    archived: bool
    error: Failure | None
    """Why it stopped, when its status is `error`."""
    retry: Retry | None
    """What failed, while the next attempt is waited for."""
    outcome: Rest | None
    """How the last turn ended."""
    deadline: int | None
    """The earliest of the pending actions."""
    compaction: AskedBy | None
    snapshot_version: int
    history_version: int
    queue_version: int
    epoch: int
    attempt: int
    messages: int
    """How many there are, superseded ones included: the number of the last."""
    created_at: int
    updated_at: int
    context: int | None = None
    """Tokens that the conversation fills, as its last answer or summary says. Not in lists."""
    stranded: bool = False
    """It has waited for a while, and no worker that lives knows its agent."""

    @property
    def busy(self) -> bool:
        return self.status in BUSY


SHOWN: Final = tuple(
    field.name
    for field in structs.fields(Snapshot)
    if field.name in {column.name for column in structs.fields(Chat)}
)


class Pending(Action, frozen=True):
    """An action that the chat waits for."""

    number: int = 0
    """Of the message that asks for it."""
    deadline: int | None = None


def pending(call: Call) -> Pending:
    """A call that waits, as people are shown it."""
    assert call.asked is not None  # a CHECK of the table
    return Pending(**structs.asdict(call.asked), number=call.number, deadline=call.deadline)


class ChatResult(Struct, frozen=True):
    """What a chat came to, once it rests."""

    reason: EndReason | None
    """None when it never had a turn."""
    text: str
    """Of the last answer of the last turn; empty when it gave none."""
    failure: Failure | None
    actions: tuple[Pending, ...]
    """What it waits for, when it `requires_action`."""
    chat: Snapshot
    pieces: tuple[str, ...] = ()
    """What the last answer says, where that is not `text`: several texts when it was cut by length,
    or the one behind what its provider ran."""

    @overload
    def output_as(self, wanted: type[T]) -> T | None: ...

    @overload
    def output_as(self, wanted: Any) -> Any: ...

    def output_as(self, wanted: Any) -> Any:
        """The answer as a value of the agent's output type, which the caller names: what stops a
        chat is text. None when the chat did not stop with an answer. Raises `InvalidOutput`."""
        if self.reason != "stop":
            return None
        read = value_in(Output(wanted), self.pieces or (self.text,))
        if isinstance(read, Misfit):
            raise InvalidOutput(read.problems, 0)
        return read.value


class Receipt(Struct, frozen=True):
    """What became of a message: it is in the history, or it waits in the queue."""

    number: int | None = None
    queued: str | None = None


class Revision(Struct, frozen=True):
    """What an edit did."""

    number: int
    """Of the message that stands in the place of the edited one."""
    superseded: tuple[int, ...]
    dropped: tuple[Queued, ...]
    """What waited in the queue, and is no longer meant."""


def at_rest(status: Status, actions: Collection[Action]) -> bool:
    """Whether nothing more happens until somebody outside does something.

    A chat that only waits for its children goes on by itself.
    """
    if status is Status.REQUIRES_ACTION:
        return any(action.kind != "child" for action in actions)
    return status not in BUSY


# --- reading ---


class Watch(Struct, frozen=True):
    """What tells a chat that is waiting from one that nobody will ever take. Microseconds."""

    lease: int
    """A worker that was not heard of for this long is dead."""
    stranded: int
    """How long a chat may wait for a worker that knows its agent."""


async def snapshots(tx: Tx, rows: Sequence[Chat], watch: Watch) -> list[Snapshot]:
    """Rows as they are shown."""
    lost = await _stranded(tx, [row for row in rows if row.busy], watch)
    return [snapshot_of(row, row.id in lost) for row in rows]


async def _stranded(tx: Tx, busy: Sequence[Chat], watch: Watch) -> set[str]:
    """Those that have wanted a worker for a while, and none that lives could be theirs."""
    if not busy:
        return set()
    now = await now_of(tx)
    waiting = [row for row in busy if _since(row) + watch.stranded < now]
    if not waiting:
        return set()
    known = (await living(tx, watch.lease)).agents  # those of a live owner among them
    lost = [row for row in waiting if row.agent not in known]
    parked = [row.id for row in lost if row.runnable_since is None]
    ready = await due(tx, parked, now) if parked else set()
    return {row.id for row in lost} - (set(parked) - ready)


def _since(row: Chat) -> int:
    """Since when it may want a worker. One that is parked says so only when it was parked."""
    return max(row.runnable_since or row.updated_at, row.retry_at or 0)


def snapshot_of(row: Chat, stranded: bool = False) -> Snapshot:
    values: dict[str, Any] = {name: getattr(row, name) for name in SHOWN}
    return Snapshot(**values, stranded=stranded)


async def read_snapshot(tx: Tx, chat_id: str, watch: Watch) -> Snapshot:
    (made,) = await snapshots(tx, [await read_chat(tx, chat_id)], watch)
    return structs.replace(made, context=await read_context(tx, chat_id))


async def read_context(tx: Tx, chat_id: str) -> int | None:
    """Tokens that the live history fills."""
    last = await _last(tx, chat_id, ("answer", "checkpoint"), "AND visibility <> 'user'")
    if last is None:
        return None
    message = last.message
    if message.checkpoint is not None:
        return message.checkpoint.after
    return None if message.usage is None else context_of(message)


async def read_result(tx: Tx, chat_id: str, watch: Watch) -> ChatResult | None:
    """What a chat came to; None when it does not rest. Raises `Stranded` when it never will."""
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
    """The text of the answer that a turn stopped with, which is behind every prompt and result; and
    what an output is read from, unless that is the text."""
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
    text = next((one.text for one in reversed(messages) if one.kind == "answer"), "")
    said = spoken(messages)
    return text, () if said == [text] else tuple(said)


async def _check_not_stranded(tx: Tx, chat: Snapshot, watch: Watch) -> None:
    """That somebody can go on with a chat, or with those that it waits for."""
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
    """The text of the last answer since the last prompt, also of one that was cut short."""
    answer = await _last(tx, chat_id, ("answer",))
    prompt = await _last(tx, chat_id, ("prompt",))
    if answer is None or (prompt is not None and prompt.number > answer.number):
        return ""
    return answer.message.text


async def read_first_prompt(tx: Tx, chat_id: str) -> str:
    """The text that the live history begins with."""
    row = await tx.one(
        f"""
        {SELECT_MESSAGE}
         WHERE chat_id = :id AND superseded_at IS NULL AND kind = 'prompt' ORDER BY number LIMIT 1
        """,
        {"id": chat_id},
    )
    return "" if row is None else stored_of(chat_id, row).message.text


async def _last(tx: Tx, chat_id: str, kinds: Sequence[Kind], also: str = "") -> Stored | None:
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
