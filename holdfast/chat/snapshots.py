"""Snapshots and results of chats: the values that programs and remote clients read."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Generic, Literal, TypeVar, cast, overload

from msgspec import Struct, structs

from holdfast.agent import Agent
from holdfast.chat.database_clock import now_of
from holdfast.chat.errors import Stranded
from holdfast.chat.queries import read_actions, read_partial
from holdfast.chat.rows import (
    BUSY,
    SELECT_CHAT,
    SELECT_MESSAGE,
    ChatRow,
    JournalCall,
    PendingRetry,
    Queued,
    Rule,
    Status,
    Stored,
    TurnOutcome,
    chat_of,
    read_chat,
    stored_of,
)
from holdfast.chat.transitions.claims import live_workers, with_due_actions
from holdfast.kernel import answer
from holdfast.kernel.attribute_hints import answer_foreign_attributes
from holdfast.kernel.errors import ConfigError, Failure, InvalidOutput
from holdfast.kernel.events import Action, EndReason
from holdfast.kernel.limits import LimitReached
from holdfast.kernel.messages import AskedBy, CutBy, Message, MessageKind
from holdfast.kernel.output import Misfit, Output, spoken, value_in
from holdfast.kernel.turn import context_of
from holdfast.kernel.type_parameters import ChatOutputT
from holdfast.store.database import Tx

T = TypeVar("T")


class Snapshot(Struct, frozen=True, kw_only=True):
    """A chat at one version. Times are microseconds since 1970, UTC."""

    id: str
    owner: str
    agent: str
    next_agent: str | None = None
    """Agent that continues once the calls of the current one have ended; None if it stays."""
    title: str | None
    titled_by: Literal["person", "model"] | None
    """None: there is no title, or a provisional one from the opening words of the prompt."""
    labels: Mapping[str, str]
    model: str | None
    """Name of the model; None for the agent's own."""
    effort: str | None
    workspace: str | None
    client_tools: tuple[str, ...] = ()
    """Names of the tools that the client of the chat declared."""
    rules: tuple[Rule, ...]
    """Calls that are allowed in this chat without asking."""
    parent_id: str | None
    root_id: str
    status: Status
    archived: bool
    error: Failure | None
    """Why the chat stopped, when its status is `error`."""
    retry: PendingRetry | None
    """The last failure, while the chat waits for its next attempt."""
    outcome: TurnOutcome | None
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


ROW_FIELDS: Final = tuple(
    field.name
    for field in structs.fields(Snapshot)
    if field.name in {column.name for column in structs.fields(ChatRow)}
)


class Pending(Action, frozen=True):
    """An action that the chat waits for."""

    number: int = 0
    """Number of the message that contains the call."""
    deadline: int | None = None


def pending(call: JournalCall) -> Pending:
    """Convert a waiting call to an action as people see it."""
    assert call.asked is not None  # guaranteed by a CHECK of the table
    return Pending(**structs.asdict(call.asked), number=call.number, deadline=call.deadline)


@answer_foreign_attributes
class ChatResult(Struct, Generic[ChatOutputT], frozen=True, dict=True):
    """The result of a chat that is idle, in error, or waiting for an action."""

    reason: EndReason | None
    """Why the last turn ended; None when there was no turn."""
    text: str
    """Text of the last turn's last answer, with all its pieces; empty when there was none."""
    failure: Failure | None
    actions: tuple[Pending, ...]
    """The pending actions, when the chat `requires_action`."""
    chat: Snapshot
    pieces: tuple[str, ...] = ()
    """Texts of the last answer, if they differ from `text`.

    There are several if the answer was cut by length, and one if it follows a call that the
    provider ran."""

    @property
    def cut_by(self) -> CutBy | None:
        """Why the last answer was cut short: by the provider's content filter, or by its length."""
        return None if self.chat.outcome is None else self.chat.outcome.cut_by

    @property
    def limit(self) -> LimitReached | None:
        """Limit that ended the last turn, if that was the reason. `chat.resume()` continues it."""
        return None if self.chat.outcome is None else self.chat.outcome.limit

    @property
    def output(self) -> ChatOutputT:
        """The final answer: a value of the agent's output type, or text if it has none. None if the
        chat did not stop with an answer.

        Raises `InvalidOutput`, and `ConfigError` if this program does not have the agent.
        """
        answered: Any = None
        if self.reason == "stop":
            answered = self.text
            form = self._form()
            if form is not None:
                answered = _value(form, self.pieces or (self.text,))
        return cast(ChatOutputT, answered)

    def of_agent(self, agent: Agent[Any, Any] | None) -> ChatResult[Any]:
        """The same result, which knows the agent that answered."""
        if agent is not None and agent.name == self.chat.agent:
            self.__dict__["agent"] = agent
        return self

    def _form(self) -> Output | None:
        agent: Agent[Any, Any] | None = self.__dict__.get("agent")
        if agent is None:
            raise ConfigError(
                f"the output type of {self.chat.agent} is not known here: use "
                "result.output_as(type), or pass the agent itself to host.create(…, agent=agent) "
                "or host.chat(id, agent=agent)"
            )
        return agent.form

    @overload
    def output_as(self, output_type: type[T]) -> T | None: ...

    @overload
    def output_as(self, output_type: Any) -> Any: ...

    def output_as(self, output_type: Any) -> Any:
        """Parse the answer as a value of the agent's output type.

        The caller passes the type, because a chat stores only text. None when the chat did not stop
        with an answer. Raises `InvalidOutput`.
        """
        if self.reason != "stop":
            return None
        return _value(Output(output_type), self.pieces or (self.text,))


def _value(form: Output, pieces: Sequence[str]) -> Any:
    """The value of an answer. Raises `InvalidOutput`."""
    parsed = value_in(form, pieces)
    if isinstance(parsed, Misfit):
        raise InvalidOutput(parsed.problems, 0)
    return parsed.value


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
    """Return whether the chat makes no progress until a person or a client acts.

    A chat that only waits for its children continues by itself.
    """
    if status is Status.REQUIRES_ACTION:
        return any(action.kind != "child" for action in actions)
    return status not in BUSY


# --- reading ---


class StrandedLimits(Struct, frozen=True):
    """Limits after which a waiting chat counts as stranded, in microseconds."""

    lease: int
    """Time without a heartbeat after which a worker counts as dead."""
    stranded: int
    """Time that a chat may wait for a worker that has its agent."""


async def snapshots(tx: Tx, rows: Sequence[ChatRow], limits: StrandedLimits) -> list[Snapshot]:
    """Convert rows to snapshots."""
    stranded = await _stranded(tx, [row for row in rows if row.busy], limits)
    return [snapshot_of(row, row.id in stranded) for row in rows]


async def _stranded(tx: Tx, busy: Sequence[ChatRow], limits: StrandedLimits) -> set[str]:
    """Return the ids of chats that have waited too long and whose agent no live worker has."""
    if not busy:
        return set()
    now = await now_of(tx)
    waiting = [row for row in busy if _since(row) + limits.stranded < now]
    if not waiting:
        return set()
    live_agents = (await live_workers(tx, limits.lease)).agents  # includes those with a live owner
    without_agent = [row for row in waiting if row.agent not in live_agents]
    parked = [row.id for row in without_agent if row.runnable_since is None]
    ready = await with_due_actions(tx, parked, now) if parked else set()
    return {row.id for row in without_agent} - (set(parked) - ready)


def _since(row: ChatRow) -> int:
    """Return since when a chat needs a worker; while it waits for an action, its last change."""
    return max(row.runnable_since or row.updated_at, row.retry_at or 0)


def snapshot_of(row: ChatRow, stranded: bool = False) -> Snapshot:
    """Convert a row to a snapshot."""
    values: dict[str, Any] = {name: getattr(row, name) for name in ROW_FIELDS}
    values["client_tools"] = tuple(tool.name for tool in row.client_tools or ())
    return Snapshot(**values, stranded=stranded)


async def read_snapshot(tx: Tx, chat_id: str, limits: StrandedLimits) -> Snapshot:
    """Read the snapshot of a chat, with fields that lists omit."""
    row = await read_chat(tx, chat_id)
    (snapshot,) = await snapshots(tx, [row], limits)
    return structs.replace(
        snapshot,
        context=await read_context(tx, chat_id),
        partial=await read_interrupted(tx, row, limits),
    )


async def read_interrupted(tx: Tx, row: ChatRow, limits: StrandedLimits) -> Message | None:
    """Read the partial answer of an attempt whose worker died, until the next attempt begins."""
    if row.status not in (Status.RUNNING, Status.INTERRUPTING):
        return None
    partial = await read_partial(tx, row.id)
    if partial is None:
        return None
    is_own = partial.epoch == row.epoch and row.worker_id is not None
    if is_own and row.worker_id in (await live_workers(tx, limits.lease)).ids:
        return None  # its worker is still alive
    return partial.message


async def read_context(tx: Tx, chat_id: str) -> int | None:
    """Read the number of tokens of the live history, as last reported."""
    last = await _last(tx, chat_id, ("answer", "checkpoint"), "AND visibility <> 'user'")
    if last is None:
        return None
    message = last.message
    if message.checkpoint is not None:
        return message.checkpoint.after
    return None if message.usage is None else context_of(message)


async def read_result(tx: Tx, chat_id: str, limits: StrandedLimits) -> ChatResult | None:
    """Read the result of a chat; None while it is still in progress.

    Raises `Stranded` if it cannot continue.
    """
    chat = await read_snapshot(tx, chat_id, limits)
    actions = tuple(map(pending, await read_actions(tx, chat_id)))
    if not at_rest(chat.status, actions):
        await _check_not_stranded(tx, chat, limits)
        return None
    reason: EndReason | None = None if chat.outcome is None else chat.outcome.reason
    if chat.status is Status.REQUIRES_ACTION:
        reason = "requires_action"
    if reason != "stop":
        return ChatResult(reason, await read_answer(tx, chat_id), chat.error, actions, chat)
    text, pieces = await _stopped_with(tx, chat_id)
    return ChatResult(reason, text, chat.error, actions, chat, pieces)


async def _stopped_with(tx: Tx, chat_id: str) -> tuple[str, tuple[str, ...]]:
    """Read the text of the answer that ended the turn, and its pieces if they differ."""
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
    text, pieces = answer.text(messages), spoken(messages)
    return text, () if pieces == [text] else tuple(pieces)


async def _check_not_stranded(tx: Tx, chat: Snapshot, limits: StrandedLimits) -> None:
    """Raise `Stranded` if no live worker can drive the chat, or a chat that it waits for."""
    chats = [chat]
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
        chats += await snapshots(tx, [chat_of(row) for row in rows], limits)
    for snapshot in chats:
        if snapshot.stranded:
            raise Stranded(snapshot.id, snapshot.agent)


async def read_answer(tx: Tx, chat_id: str) -> str:
    """Read the text of the last answer since the last prompt, complete or not."""
    limit = 2
    while True:
        messages = await _spoken_last(tx, chat_id, limit)
        prompts = [at for at, message in enumerate(messages) if message.kind == "prompt"]
        since = messages[prompts[-1] + 1 :] if prompts else messages
        complete = prompts or len(messages) < limit
        # An answer cut by length continues an earlier one: collect it back to the first.
        if complete or (
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
