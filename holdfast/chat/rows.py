"""The rows of a chat as frozen values, with their decoding and validation."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, Literal, TypeAlias, TypeVar, Union

from msgspec import Struct, structs

from holdfast.chat.client_tools import ClientTool
from holdfast.chat.errors import ChatNotFound, Corrupt, InvalidInput
from holdfast.kernel.decide import Approved, AwaitingAction, CallState, Recorded, Started
from holdfast.kernel.errors import Failure, FormatError
from holdfast.kernel.events import Action, ActionKind, EndReason
from holdfast.kernel.limits import LimitReached
from holdfast.kernel.messages import (
    AskedBy,
    CutBy,
    Message,
    ToolOutcome,
    ToolResult,
    Usage,
    decode,
    prepare_to_decode,
)
from holdfast.kernel.tool import Effect
from holdfast.store.database import Row, Tx

T = TypeVar("T")


class Status(StrEnum):
    """Status of a chat: whether it runs, and what continues it."""

    IDLE = "idle"
    """It waits for a message."""
    RUNNING = "running"
    """A worker drives it, or should."""
    INTERRUPTING = "interrupting"
    """A worker should stop the turn and keep what it produced."""
    REQUIRES_ACTION = "requires_action"
    """Every open call waits for an answer from outside."""
    ERROR = "error"
    """Stopped by a failure; a message or a retry continues it."""


BUSY: Final = frozenset({Status.RUNNING, Status.INTERRUPTING, Status.REQUIRES_ACTION})
IS_BUSY: Final = "status IN ('running', 'interrupting', 'requires_action')"
"""`BUSY` in SQL. Must match the condition of the index of busy chats literally: otherwise SQLite
does not use the index, and scans every chat."""
Deliver = Literal["interrupt", "steer", "queue"]
"""When a message is delivered to a busy chat: by an interrupt, at the next step, or after the
turn."""


class PendingRetry(Struct, frozen=True, omit_defaults=True):
    """The retry that a chat waits for, after a failed attempt."""

    attempt: int
    """Number of the failed attempt, from 1."""
    of: int
    """Maximum number of attempts."""
    failure: Failure
    at: int | None = None
    """Start time of the next attempt; None when it may start immediately."""


class TurnOutcome(Struct, frozen=True, omit_defaults=True):
    """How the last turn ended."""

    reason: EndReason
    steps: int = 0
    cut_by: CutBy | None = None
    """Why the last answer was cut short: by the provider's content filter, or by its length."""
    limit: LimitReached | None = None
    """Limit that ended the turn, if that is the reason."""


class Rule(Struct, frozen=True, omit_defaults=True):
    """Calls that a person allows in this chat without further approval."""

    tool: str
    arguments: str | None = None
    """Canonical JSON that the arguments must equal; None for any arguments."""


class ChatRow(Struct, frozen=True, gc=False, kw_only=True):
    """The row of a chat. Fields are named after the columns."""

    id: str
    owner: str
    agent: str
    next_agent: str | None
    """Agent that continues once the calls of the current one have ended; None if it stays."""
    title: str | None
    titled_by: Literal["person", "model"] | None
    """None: there is no title, or a provisional one from the opening words of the prompt."""
    labels: Mapping[str, str]
    model: str | None
    effort: str | None
    workspace: str | None
    client_tools: tuple[ClientTool, ...] | None
    """Tools that the client of the chat declared; None if there are none."""
    rules: tuple[Rule, ...]
    parent_id: str | None
    root_id: str
    spawned_by: str | None
    depth: int
    status: Status
    archived: bool
    error: Failure | None
    retry: PendingRetry | None
    retry_at: int | None
    outcome: TurnOutcome | None
    deadline: int | None
    """Earliest deadline of a waiting action."""
    compaction: AskedBy | None
    runnable_since: int | None
    crashes: int
    snapshot_version: int
    history_version: int
    queue_version: int
    attempt: int
    messages: int
    """Number of messages, superseded ones included: the number of the last message."""
    worker_id: str | None
    epoch: int
    created_at: int
    updated_at: int
    causes: str | None = None
    """Trace contexts of the callers that made it work: see `causes.py`."""

    @property
    def busy(self) -> bool:
        """Whether a turn is unfinished: the chat is running, interrupting or requires action."""
        return self.status in BUSY


CHAT_FIELDS: Final = structs.fields(ChatRow)
CHAT_COLUMNS: Final = tuple(field.name for field in CHAT_FIELDS)
SELECT_CHAT: Final = f"SELECT {', '.join(CHAT_COLUMNS)} FROM chats"
JSON_COLUMNS: Final[Mapping[str, Any]] = {
    "labels": dict[str, str],
    "rules": tuple[Rule, ...],
    "client_tools": tuple[ClientTool, ...],
    "error": Failure,
    "retry": PendingRetry,
    "outcome": TurnOutcome,
}
"""Columns that hold JSON, with their types."""


def chat_of(row: Row) -> ChatRow:
    """Decode a row of `SELECT_CHAT`."""
    values = dict(zip(CHAT_COLUMNS, row, strict=True))
    for name, kind in JSON_COLUMNS.items():
        if values[name] is not None:
            values[name] = document(values["id"], name, values[name], kind)
    values["status"] = Status(values["status"])
    values["archived"] = bool(values["archived"])
    return ChatRow(**values)


def document(chat: str, column: str, text: str, kind: type[T]) -> T:
    """Decode JSON of a row. Raises `Corrupt`, which names the row."""
    try:
        return decode(text, kind)
    except FormatError as error:
        raise Corrupt(chat, column, str(error)) from None


def can_hold(text: str) -> bool:
    """Return whether a text column of every database can hold this text."""
    try:
        return b"\x00" not in text.encode()
    except UnicodeEncodeError:
        return False


def check_text(name: str, text: str | None) -> None:
    """Reject text that a text column of some database cannot hold. Raises `InvalidInput`."""
    if text is not None and not isinstance(text, str):
        raise InvalidInput(f"the {name} is {text!r}: use text")
    if text is not None and not can_hold(text):
        raise InvalidInput(
            f"the {name} has a character that cannot be stored (NUL, or half of a surrogate pair): "
            "remove it"
        )


class Stored(Struct, frozen=True, gc=False):
    """A message with the other columns of its row."""

    number: int
    revision: int
    message: Message
    author: str | None
    created_at: int
    superseded_at: int | None = None


SELECT_MESSAGE: Final = (
    "SELECT number, revision, body, author, created_at, superseded_at, runtime FROM messages"
)


def stored_of(chat: str, row: Row) -> Stored:
    """Decode a row of `SELECT_MESSAGE`."""
    number, revision, body, author, created_at, superseded_at, runtime = row
    message = document(chat, f"message {number}", body, Message)
    if runtime is not None and message.runtime is None:  # stored before messages had an id
        message = structs.replace(message, runtime=runtime)
    return Stored(number, revision, message, author, created_at, superseded_at)


class Queued(Struct, frozen=True, gc=False):
    """A message that waits in the queue."""

    id: str
    deliver: Deliver
    message: Message
    position: int
    model: str | None = None
    effort: str | None = None
    author: str | None = None
    created_at: int = 0


class JournalCall(Struct, frozen=True, gc=False, kw_only=True):
    """A row of the journal: the durable state of one tool call."""

    call_id: str
    number: int
    """Number of the message that contains the call."""
    tool: str
    effect: Effect
    state: Literal["waiting", "approved", "started", "finished"]
    action: ActionKind | None = None
    asked: Action | None = None
    deadline: int | None = None
    approved: Approved | None = None
    epoch: int | None = None
    started_at: int | None = None
    finished_at: int | None = None
    result: ToolResult | None = None
    """Result of the call; None once it is in the history."""
    outcome: ToolOutcome | None = None

    @property
    def attempt(self) -> int:
        """Number of the attempt at this call, from 1, as counted by approvals of re-runs."""
        return 1 if self.asked is None else self.asked.attempt + 1

    @property
    def fact(self) -> CallState | None:
        """The state of the call as `decide` reads it."""
        match self.state:
            case "waiting":
                assert self.asked is not None  # guaranteed by a CHECK of the table
                return AwaitingAction(self.asked)
            case "approved":
                return self.approved
            case "started":
                return Started()
            case "finished":
                return None if self.result is None else Recorded(self.result)


class Partial(Struct, frozen=True, gc=False):
    """The received part of an answer, as last saved."""

    epoch: int
    history_version: int
    attempt: int
    seq: int
    message: Message


class Fence(Struct, frozen=True, gc=False):
    """The state of a chat from which a runner's write started.

    The write is rejected unless the chat is still in this state.
    """

    chat: str
    epoch: int
    status: Status
    history_version: int
    attempt: int


class Charge(Struct, frozen=True, gc=False):
    """Usage that no message carries, such as that of a failed attempt or of a title."""

    id: str
    purpose: Literal["attempt", "summary", "title"]
    usage: Usage
    model: str | None = None


ActionAnswer: TypeAlias = Union[Approved, Recorded]
"""An answer to a pending action: an approval, or a result."""


def runnable(chat: ChatRow, now: int, children_are_idle: bool = False) -> bool:
    """Return whether a worker has something to do for the chat now."""
    if chat.archived:
        return False
    match chat.status:
        case Status.RUNNING:
            return chat.retry_at is None or chat.retry_at <= now
        case Status.INTERRUPTING:
            return True
        case Status.REQUIRES_ACTION:
            return children_are_idle or (chat.deadline is not None and chat.deadline <= now)
        case _:
            return False


DECODED: Final = (Message, ToolResult, Action, Approved, *JSON_COLUMNS.values())
"""Types of JSON columns. They are decoded in threads."""
prepare_to_decode(*DECODED)


def fence_of(chat: ChatRow) -> Fence:
    """Return the fence of a chat: the values that must be unchanged when its runner writes."""
    return Fence(chat.id, chat.epoch, chat.status, chat.history_version, chat.attempt)


async def read_chat(tx: Tx, chat_id: str) -> ChatRow:
    """Read a chat without locking it. Raises `ChatNotFound`."""
    row = await tx.one(f"{SELECT_CHAT} WHERE id = :id", {"id": chat_id})
    if row is None:
        raise ChatNotFound(chat_id)
    return chat_of(row)
