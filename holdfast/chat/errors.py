"""What a chat refuses. Each kind carries the facts it was refused on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from holdfast.kernel.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.chat.state import Status
    from holdfast.chat.table import Transition


class ChatError(HoldfastError):
    """What a chat refuses. Nothing was changed."""

    kind: ClassVar[str]
    """A label that logs and clients may rely on; it does not change with the wording."""


class ChatNotFound(ChatError):
    kind = "chat_not_found"

    def __init__(self, chat: str) -> None:
        super().__init__(f"there is no chat {chat!r}")
        self.chat = chat


class TransitionNotAllowed(ChatError):
    kind = "transition_not_allowed"

    def __init__(self, transition: Transition, status: Status) -> None:
        super().__init__(f"cannot {transition.words} while the chat is {status.replace('_', ' ')}")
        self.transition = transition
        self.status = status


class ChatArchived(ChatError):
    kind = "chat_archived"

    def __init__(self, chat: str) -> None:
        super().__init__("the chat is archived: unarchive or fork it first")
        self.chat = chat


class NotArchived(ChatError):
    kind = "not_archived"

    def __init__(self, chat: str) -> None:
        super().__init__("the chat is not archived")
        self.chat = chat


class QueueFull(ChatError):
    kind = "queue_full"

    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit} messages wait already: remove one, or wait")
        self.limit = limit


class QueuedNotFound(ChatError):
    kind = "queued_not_found"

    def __init__(self, id: str) -> None:
        super().__init__(f"no message {id!r} waits in the queue: it may have been delivered")
        self.id = id


class WrongOrder(ChatError):
    kind = "wrong_order"

    def __init__(self, given: Sequence[str], waiting: Sequence[str]) -> None:
        super().__init__(
            "the order has to name every waiting message once; these wait: "
            + (", ".join(waiting) or "none")
        )
        self.given = tuple(given)
        self.waiting = tuple(waiting)


class MessageNotFound(ChatError):
    kind = "message_not_found"

    def __init__(self, number: int) -> None:
        super().__init__(f"the chat has no message {number}, or it was superseded by an edit")
        self.number = number


class NotAPrompt(ChatError):
    kind = "not_a_prompt"

    def __init__(self, number: int, kind: str) -> None:
        super().__init__(f"message {number} is no prompt but {kind}: only prompts can be edited")
        self.number = number
        self.message_kind = kind


class NothingWaits(ChatError):
    kind = "nothing_waits"

    def __init__(self, asked: Sequence[str], waiting: Sequence[str]) -> None:
        wrong = (
            f"nothing waits for {', '.join(asked)} (any more)" if asked else "no answer is given"
        )
        super().__init__(f"{wrong}; waiting: {', '.join(waiting) or 'none'}")
        self.asked = tuple(asked)
        self.waiting = tuple(waiting)


class WrongAnswer(ChatError):
    kind = "wrong_answer"

    def __init__(self, call_id: str, why: str) -> None:
        super().__init__(f"{call_id}: {why}")
        self.call_id = call_id


class NothingToCompact(ChatError):
    kind = "nothing_to_compact"

    def __init__(self) -> None:
        super().__init__("there is nothing to compact: no answer came since the last summary")


class FamilyBusy(ChatError):
    kind = "family_busy"

    def __init__(self, chat: str, status: Status) -> None:
        super().__init__(f"chat {chat} is {status.replace('_', ' ')}: stop it first")
        self.chat = chat
        self.status = status


class NotARoot(ChatError):
    kind = "not_a_root"

    def __init__(self, chat: str, root: str) -> None:
        super().__init__(f"the chat above it, {root}, is archived: unarchive that one")
        self.chat = chat
        self.root = root


class TooDeep(ChatError):
    kind = "too_deep"

    def __init__(self, what: str, limit: int) -> None:
        super().__init__(f"a chat may have at most {limit} {what}")
        self.limit = limit


class KeyReused(ChatError):
    kind = "key_reused"

    def __init__(self, key: str) -> None:
        super().__init__(f"the key {key!r} was used for another request: use a new one")
        self.key = key


class Stranded(ChatError):
    kind = "stranded"

    def __init__(self, chat: str, agent: str) -> None:
        super().__init__(
            f"chat {chat} has the agent {agent!r}, which no worker that lives knows: open a host "
            "with an agent of that name, and the chat goes on"
        )
        self.chat = chat
        self.agent = agent


class InvalidInput(ChatError):
    kind = "invalid_input"


class Corrupt(ChatError):
    kind = "corrupt"

    def __init__(self, chat: str, where: str, why: str) -> None:
        super().__init__(f"chat {chat}, {where}: {why}. Was the row edited? See holdfast doctor")
        self.chat = chat
        self.where = where


class Fenced(Exception):
    """A runner's write found the chat other than it was started on. It has to look again."""
