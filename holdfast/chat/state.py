"""A chat as its rows say it: frozen values, and what follows from them without a database."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, Literal, TypeAlias, TypeVar, Union

from msgspec import Struct, structs

from holdfast.chat.errors import Corrupt, InvalidInput
from holdfast.kernel.decide import Approved, CallState, Recorded, Started, Waiting
from holdfast.kernel.errors import Failure, FormatError
from holdfast.kernel.events import Action, ActionKind, EndReason
from holdfast.kernel.messages import (
    AskedBy,
    Message,
    Outcome,
    ToolResult,
    Usage,
    decode,
    prepare_to_decode,
)
from holdfast.kernel.tool import Effect
from holdfast.store.database import Row

T = TypeVar("T")


class Status(StrEnum):
    IDLE = "idle"  # nothing to do until somebody says something
    RUNNING = "running"  # a worker should be driving it
    INTERRUPTING = "interrupting"  # a worker should stop it and keep what it has
    REQUIRES_ACTION = "requires_action"  # every open call waits for somebody outside
    ERROR = "error"  # stopped by a failure; a message or a retry goes on


BUSY: Final = frozenset({Status.RUNNING, Status.INTERRUPTING, Status.REQUIRES_ACTION})
IS_BUSY: Final = "status IN ('running', 'interrupting', 'requires_action')"
"""The same in SQL, word for word as the index of busy chats says it: otherwise SQLite does not see
that it may use that index, and looks through every chat."""
Deliver = Literal["interrupt", "steer", "queue"]


class Retry(Struct, frozen=True, omit_defaults=True):
    """What is shown while the next attempt is waited for."""

    attempt: int
    """The one that failed, from 1."""
    of: int
    failure: Failure
    at: int | None = None
    """When the next begins; None when it may at once."""


class Rest(Struct, frozen=True, omit_defaults=True):
    """How the last turn ended."""

    reason: EndReason
    steps: int = 0


class Rule(Struct, frozen=True, omit_defaults=True):
    """Calls that a person allows in this chat without being asked again."""

    tool: str
    arguments: str | None = None
    """Canonical JSON that the arguments have to be; None for any."""


class Chat(Struct, frozen=True, kw_only=True):
    """The row of a chat. Names are the columns'."""

    id: str
    owner: str
    agent: str
    title: str | None
    titled_by: Literal["person", "model"] | None
    labels: Mapping[str, str]
    model: str | None
    effort: str | None
    workspace: str | None
    rules: tuple[Rule, ...]
    parent_id: str | None
    root_id: str
    spawned_by: str | None
    depth: int
    status: Status
    archived: bool
    error: Failure | None
    retry: Retry | None
    retry_at: int | None
    outcome: Rest | None
    deadline: int | None
    """The earliest deadline of a waiting action."""
    compaction: AskedBy | None
    runnable_since: int | None
    crashes: int
    snapshot_version: int
    history_version: int
    queue_version: int
    attempt: int
    messages: int
    """How many there are, superseded ones included: the number of the last."""
    worker_id: str | None
    epoch: int
    created_at: int
    updated_at: int

    @property
    def busy(self) -> bool:
        return self.status in BUSY


COLUMNS: Final = structs.fields(Chat)
NAMES: Final = tuple(field.name for field in COLUMNS)
SELECT_CHAT: Final = f"SELECT {', '.join(NAMES)} FROM chats"
DOCUMENTS: Final[Mapping[str, Any]] = {
    "labels": dict[str, str],
    "rules": tuple[Rule, ...],
    "error": Failure,
    "retry": Retry,
    "outcome": Rest,
}
"""Columns that hold JSON, and what it is."""


def chat_of(row: Row) -> Chat:
    """The chat that a row of `SELECT_CHAT` holds."""
    values = dict(zip(NAMES, row, strict=True))
    for name, kind in DOCUMENTS.items():
        if values[name] is not None:
            values[name] = document(values["id"], name, values[name], kind)
    values["status"] = Status(values["status"])
    values["archived"] = bool(values["archived"])
    return Chat(**values)


def document(chat: str, column: str, text: str, kind: type[T]) -> T:
    """JSON of a row; what cannot be read is named, and touched by nobody."""
    try:
        return decode(text, kind)
    except FormatError as error:
        raise Corrupt(chat, column, str(error)) from None


def can_hold(text: str) -> bool:
    """Whether a column of plain text can hold it in every database."""
    try:
        return b"\x00" not in text.encode()
    except UnicodeEncodeError:
        return False


def check_text(name: str, text: str | None) -> None:
    """Refuse what a column of plain text cannot hold in every database."""
    if text is not None and not isinstance(text, str):
        raise InvalidInput(f"the {name} is {text!r}: use text")
    if text is not None and not can_hold(text):
        raise InvalidInput(
            f"the {name} has a character that cannot be stored (NUL, or half of a surrogate pair): "
            "remove it"
        )


class Stored(Struct, frozen=True):
    """A message with what its row says beside it."""

    number: int
    revision: int
    message: Message
    author: str | None
    created_at: int
    superseded_at: int | None = None


SELECT_MESSAGE: Final = (
    "SELECT number, revision, body, author, created_at, superseded_at FROM messages"
)


def stored_of(chat: str, row: Row) -> Stored:
    number, revision, body, author, created_at, superseded_at = row
    message = document(chat, f"message {number}", body, Message)
    return Stored(number, revision, message, author, created_at, superseded_at)


class Queued(Struct, frozen=True):
    """A message that waits in the queue."""

    id: str
    deliver: Deliver
    message: Message
    position: int
    model: str | None = None
    effort: str | None = None
    author: str | None = None
    created_at: int = 0


class Call(Struct, frozen=True, kw_only=True):
    """A row of the journal."""

    call_id: str
    number: int
    """Of the message that asks for it."""
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
    """None once it is in the history."""
    outcome: Outcome | None = None

    @property
    def fact(self) -> CallState | None:
        """What `decide` is told of it."""
        match self.state:
            case "waiting":
                assert self.asked is not None  # a CHECK of the table
                return Waiting(self.asked)
            case "approved":
                return self.approved
            case "started":
                return Started()
            case "finished":
                return None if self.result is None else Recorded(self.result)


class Partial(Struct, frozen=True):
    """What had arrived of an answer when it was last written down."""

    epoch: int
    history_version: int
    attempt: int
    seq: int
    message: Message


class Fence(Struct, frozen=True):
    """What a runner was started on. Its writes hold only as long as this is still so."""

    chat: str
    epoch: int
    status: Status
    history_version: int
    attempt: int


class Charge(Struct, frozen=True):
    """Usage that no message carries: of an attempt that failed, of a title."""

    id: str
    purpose: Literal["attempt", "summary", "title"]
    usage: Usage
    model: str | None = None


Answer: TypeAlias = Union[Approved, Recorded]
"""What somebody outside says to an action."""


def runnable(chat: Chat, now: int, children_rest: bool = False) -> bool:
    """Whether a worker has something to do for it."""
    if chat.archived:
        return False
    match chat.status:
        case Status.RUNNING:
            return chat.retry_at is None or chat.retry_at <= now
        case Status.INTERRUPTING:
            return True
        case Status.REQUIRES_ACTION:
            return children_rest or (chat.deadline is not None and chat.deadline <= now)
        case _:
            return False


DECODED: Final = (Message, ToolResult, Action, Approved, *DOCUMENTS.values())
"""What rows hold. They are read in threads."""
prepare_to_decode(*DECODED)
