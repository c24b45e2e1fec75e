"""Errors of chats. Each kind carries the facts on which the request was refused.

HoldfastError
└── ChatError                   the request was refused, and nothing was changed
    ├── ChatNotFound
    ├── TransitionNotAllowed    not in this status: see `state_machine.py`
    ├── ChatArchived, NotArchived
    ├── QueueFull, QueuedNotFound, WrongOrder           the queue
    ├── MessageNotFound, NotAPrompt                     edit and fork
    ├── NothingWaits, WrongAnswer                       resolve
    ├── NothingToCompact, NothingToResume, TitleFailed  compact, resume, retitle
    ├── FamilyBusy, NotARoot, TooDeep                   parents and children
    ├── FileNotFound, FileInUse, QuotaExceeded          defined in `files.py`
    ├── KeyReused               an idempotency key with another request
    ├── Stranded                no live worker has the agent
    ├── InvalidInput            an argument is invalid
    └── Corrupt                 a row cannot be decoded

Fenced                          internal: the write of a runner came too late
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from holdfast.kernel.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.chat.rows import Status
    from holdfast.chat.state_machine import Transition


class ChatError(HoldfastError):
    """Base class of all refusals. The refused request changed nothing."""

    kind: ClassVar[str]
    """Stable label for logs and clients; it does not change with the wording."""


class ChatNotFound(ChatError):
    """No chat has this id, or the caller may not know that it exists."""

    kind = "chat_not_found"

    def __init__(self, chat: str) -> None:
        super().__init__(f"there is no chat {chat!r}")
        self.chat = chat


class TransitionNotAllowed(ChatError):
    """The state machine does not allow this transition in the current status."""

    kind = "transition_not_allowed"

    def __init__(self, transition: Transition, status: Status) -> None:
        super().__init__(f"cannot {transition.words} while the chat is {status.replace('_', ' ')}")
        self.transition = transition
        self.status = status


class ChatArchived(ChatError):
    """The chat is archived, so it cannot be changed."""

    kind = "chat_archived"

    def __init__(self, chat: str) -> None:
        super().__init__("the chat is archived: unarchive or fork it first")
        self.chat = chat


class NotArchived(ChatError):
    """Unarchive was requested for a chat that is not archived."""

    kind = "not_archived"

    def __init__(self, chat: str) -> None:
        super().__init__("the chat is not archived")
        self.chat = chat


class QueueFull(ChatError):
    """The queue has reached its maximum length."""

    kind = "queue_full"

    def __init__(self, limit: int) -> None:
        super().__init__(f"the queue is full ({limit} messages): remove one, or wait")
        self.limit = limit


class QueuedNotFound(ChatError):
    """No queued message has this id."""

    kind = "queued_not_found"

    def __init__(self, id: str) -> None:
        super().__init__(f"the queue has no message {id!r}: it may have been delivered")
        self.id = id


class WrongOrder(ChatError):
    """A requested queue order does not name every queued message exactly once."""

    kind = "wrong_order"

    def __init__(self, given: Sequence[str], waiting: Sequence[str]) -> None:
        super().__init__(
            "the order must name every queued message once; queued: "
            + (", ".join(waiting) or "none")
        )
        self.given = tuple(given)
        self.waiting = tuple(waiting)


class MessageNotFound(ChatError):
    """No live message has this number."""

    kind = "message_not_found"

    def __init__(self, number: int) -> None:
        super().__init__(f"the chat has no message {number}, or it was superseded by an edit")
        self.number = number


class NotAPrompt(ChatError):
    """Only a prompt can be edited, and this message is of another kind."""

    kind = "not_a_prompt"

    def __init__(self, number: int, kind: str, *, fork: bool = False) -> None:
        what = {"answer": "an answer", "results": "the results of tools"}.get(kind, f"a {kind}")
        how = "only prompts can be edited"
        if fork:
            how = (
                "a fork with a new prompt replaces a prompt, so name that one; to keep this "
                "message, fork without a prompt and send the prompt to the fork"
            )
        super().__init__(f"message {number} is not a prompt but {what}: {how}")
        self.number = number
        self.message_kind = kind


class NothingWaits(ChatError):
    """A resolution names calls that are not waiting, or names none."""

    kind = "nothing_waits"

    def __init__(self, asked: Sequence[str], waiting: Sequence[str]) -> None:
        wrong = f"no action waits for {', '.join(asked)}" if asked else "no answer is given"
        super().__init__(f"{wrong}; waiting: {', '.join(waiting) or 'none'}")
        self.asked = tuple(asked)
        self.waiting = tuple(waiting)


class WrongAnswer(ChatError):
    """An answer is not valid for its action."""

    kind = "wrong_answer"

    def __init__(self, call_id: str, why: str) -> None:
        super().__init__(f"{call_id}: {why}")
        self.call_id = call_id


class NothingToCompact(ChatError):
    """The chat has no answer since its last summary."""

    kind = "nothing_to_compact"

    def __init__(self) -> None:
        super().__init__(
            "there is nothing to compact: the chat has no answer since its last summary"
        )


class NothingToResume(ChatError):
    """The last turn of the chat did not end at a limit."""

    kind = "nothing_to_resume"

    def __init__(self) -> None:
        super().__init__(
            "there is nothing to resume: the last turn did not end at a limit; send a message"
        )


class TitleFailed(ChatError):
    """The model did not write a usable title."""

    kind = "title_failed"

    def __init__(self, why: str) -> None:
        super().__init__(f"no title was written ({why}): try again, or rename the chat")
        self.why = why


class FamilyBusy(ChatError):
    """A chat of the family is busy, so the family cannot be archived or deleted."""

    kind = "family_busy"

    def __init__(self, chat: str, status: Status) -> None:
        super().__init__(f"chat {chat} is {status.replace('_', ' ')}: interrupt it first")
        self.chat = chat
        self.status = status


class NotARoot(ChatError):
    """The requested operation is only possible on the root of a chat's family."""

    kind = "not_a_root"

    def __init__(self, chat: str, root: str) -> None:
        super().__init__(f"its root chat {root} is archived: unarchive that one")
        self.chat = chat
        self.root = root


class TooDeep(ChatError):
    """A limit on the depth or the number of child chats is reached."""

    kind = "too_deep"

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(f"a chat may have at most {limit} {what}")
        self.limit = limit


class KeyReused(ChatError):
    """An idempotency key was reused for a different request."""

    kind = "key_reused"

    def __init__(self, key: str) -> None:
        super().__init__(f"the key {key!r} was used for another request: use a new one")
        self.key = key


class Stranded(ChatError):
    """No live worker has the agent of this chat, so the chat cannot continue."""

    kind = "stranded"

    def __init__(self, chat: str, agent: str) -> None:
        super().__init__(
            f"chat {chat} has the agent {agent!r}, which no live worker has: open a host "
            "with an agent of that name to continue the chat"
        )
        self.chat = chat
        self.agent = agent


class InvalidInput(ChatError):
    """A value that the caller passed is invalid."""

    kind = "invalid_input"


class Corrupt(ChatError):
    """A row of the chat cannot be decoded."""

    kind = "corrupt"

    def __init__(self, chat: str, where: str, why: str) -> None:
        super().__init__(
            f"chat {chat} has a damaged row, {where}: {why}: run `holdfast doctor`, and restore "
            "the chat from a backup or an export"
        )
        self.chat = chat
        self.where = where


class Fenced(Exception):
    """The chat changed since the runner read it, so the write was rejected.

    The runner loads the chat again and decides anew. Not a `ChatError`: no caller sees it.
    """
