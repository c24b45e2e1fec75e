"""Authorisation: one table of what each route requires, and one pure function that reads it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from holdfast.chat.rows import ChatRow

Role: TypeAlias = Literal["admin", "member", "viewer"]
Scope: TypeAlias = Literal["read", "write", "admin"]
ALL_SCOPES: Final[frozenset[Scope]] = frozenset(("read", "write", "admin"))
LOCAL: Final = ""
"""Id of the only user of a local server, and owner of chats of programs without users."""


class ApiCaller(Struct, frozen=True):
    """An authenticated caller."""

    user: str
    """Id of the user; empty for the only one of a local server."""
    role: Role
    scopes: frozenset[Scope] = ALL_SCOPES
    """Scopes of the token."""
    token: str | None = None
    """Id of the token, session or link that authenticated the request."""
    link: str | None = None
    """The chat of a share link, for a caller with no other credential."""
    download_key: str | None = None
    """For a session: the key that its page adds to the URLs of files and exports."""
    name: str | None = None
    """Name of the user; None: it is in the database."""


class Need(StrEnum):
    """The access that a route requires of its caller."""

    NOTHING = "nothing"
    """No authentication is required."""
    READ = "read"
    """Any user; the route returns only data of the caller."""
    WRITE = "write"
    """Any user but a viewer; the route changes only data of the caller."""
    READ_CHAT = "read_chat"
    """The chat's owner, or a caller it is shared with."""
    MARK_CHAT = "mark_chat"
    """As `READ_CHAT`, but not by link: what is stored belongs to the user."""
    READ_OWN_CHAT = "read_own_chat"
    """The chat's owner: the response also tells about other chats of theirs."""
    WRITE_CHAT = "write_chat"
    """The chat's owner: tools act in their name."""
    ADMIN = "admin"
    """An administrator."""


class ChatRelation(Struct, frozen=True):
    """How a caller relates to a chat."""

    owns: bool = False
    shared: bool = False


class ChatAccess(Struct, frozen=True):
    """A chat that a caller may know of."""

    row: ChatRow
    """Its row as it was when access was last checked: id, owner and agent never change."""
    relation: ChatRelation


class AccessDecision(StrEnum):
    """Result of an authorisation check."""

    ALLOWED = "allowed"
    UNAUTHENTICATED = "unauthenticated"
    """Authentication is required."""
    FORBIDDEN = "forbidden"
    HIDDEN = "hidden"
    """The caller may not even know that the chat exists."""


OF_A_CHAT: Final = frozenset((Need.READ_CHAT, Need.MARK_CHAT, Need.READ_OWN_CHAT, Need.WRITE_CHAT))
"""What routes with a chat in their path require."""
_SCOPES: Final[Mapping[Need, Scope]] = {
    Need.READ: "read",
    Need.READ_CHAT: "read",
    Need.MARK_CHAT: "read",
    Need.READ_OWN_CHAT: "read",
    Need.WRITE: "write",
    Need.WRITE_CHAT: "write",
    Need.ADMIN: "admin",
}


def authorise(
    need: Need, caller: ApiCaller | None, chat: ChatRelation | None = None
) -> AccessDecision:
    """Whether a caller may. `chat`: how they relate to the chat in the path; None: no such chat."""
    if need is Need.NOTHING:
        return AccessDecision.ALLOWED
    if caller is None:
        return AccessDecision.UNAUTHENTICATED
    if need in OF_A_CHAT and (chat is None or not (chat.owns or chat.shared)):
        return AccessDecision.HIDDEN
    if caller.link is not None and need is not Need.READ_CHAT:
        return AccessDecision.FORBIDDEN
    if _SCOPES[need] not in caller.scopes:
        return AccessDecision.FORBIDDEN
    if need is Need.ADMIN:
        return AccessDecision.ALLOWED if caller.role == "admin" else AccessDecision.FORBIDDEN
    if need in (Need.WRITE, Need.WRITE_CHAT) and caller.role == "viewer":
        return AccessDecision.FORBIDDEN
    of_owner = need in (Need.READ_OWN_CHAT, Need.WRITE_CHAT)
    if of_owner and not (chat is not None and chat.owns):
        return AccessDecision.FORBIDDEN
    return AccessDecision.ALLOWED


POLICY: Final[Mapping[tuple[str, str], Need]] = {
    ("GET", "/healthz"): Need.NOTHING,
    ("GET", "/readyz"): Need.NOTHING,
    ("GET", "/openapi.json"): Need.NOTHING,
    ("GET", "/metrics"): Need.ADMIN,
    ("POST", "/chats"): Need.WRITE,
    ("GET", "/chats"): Need.READ,
    ("POST", "/chats/import"): Need.WRITE,
    ("GET", "/chats/{chat}"): Need.READ_CHAT,
    ("PATCH", "/chats/{chat}"): Need.WRITE_CHAT,
    ("DELETE", "/chats/{chat}"): Need.WRITE_CHAT,
    ("GET", "/chats/{chat}/messages"): Need.READ_CHAT,
    ("POST", "/chats/{chat}/messages"): Need.WRITE_CHAT,
    ("PATCH", "/chats/{chat}/messages/{number}"): Need.WRITE_CHAT,
    ("POST", "/chats/{chat}/fork"): Need.WRITE_CHAT,
    ("POST", "/chats/{chat}/interrupt"): Need.WRITE_CHAT,
    ("POST", "/chats/{chat}/retry"): Need.WRITE_CHAT,
    ("POST", "/chats/{chat}/resume"): Need.WRITE_CHAT,
    ("POST", "/chats/{chat}/compact"): Need.WRITE_CHAT,
    ("POST", "/chats/{chat}/title"): Need.WRITE_CHAT,
    ("PUT", "/chats/{chat}/read"): Need.MARK_CHAT,
    ("GET", "/chats/{chat}/queue"): Need.READ_CHAT,
    ("PUT", "/chats/{chat}/queue"): Need.WRITE_CHAT,
    ("GET", "/chats/{chat}/queue/{id}"): Need.READ_CHAT,
    ("PATCH", "/chats/{chat}/queue/{id}"): Need.WRITE_CHAT,
    ("DELETE", "/chats/{chat}/queue/{id}"): Need.WRITE_CHAT,
    ("POST", "/chats/{chat}/queue/{id}/promote"): Need.WRITE_CHAT,
    ("GET", "/chats/{chat}/actions"): Need.READ_CHAT,
    ("POST", "/chats/{chat}/actions"): Need.WRITE_CHAT,
    ("POST", "/chats/{chat}/actions/{id}"): Need.WRITE_CHAT,
    ("GET", "/actions"): Need.READ,
    ("GET", "/chats/{chat}/result"): Need.READ_CHAT,
    ("GET", "/chats/{chat}/usage"): Need.READ_CHAT,
    ("GET", "/chats/{chat}/files/{id}"): Need.READ_CHAT,
    ("GET", "/chats/{chat}/export"): Need.READ_CHAT,
    ("GET", "/chats/{chat}/stream"): Need.READ_CHAT,
    ("GET", "/stream"): Need.READ,
    ("GET", "/usage"): Need.READ,
    ("GET", "/budgets"): Need.READ,
    ("PUT", "/budgets"): Need.ADMIN,
    ("GET", "/users/{user}/budgets"): Need.ADMIN,
    ("PUT", "/users/{user}/budgets"): Need.ADMIN,
    ("GET", "/chats/{chat}/budget"): Need.READ_OWN_CHAT,
    ("PUT", "/chats/{chat}/budget"): Need.WRITE_CHAT,
    ("POST", "/files"): Need.WRITE,
    ("GET", "/files"): Need.READ,
    ("GET", "/files/{id}"): Need.READ,
    ("DELETE", "/files/{id}"): Need.WRITE,
    ("GET", "/models"): Need.READ,
    ("GET", "/agents"): Need.READ,
    ("GET", "/providers"): Need.READ,
    ("PUT", "/providers/{name}"): Need.ADMIN,
    ("DELETE", "/providers/{name}"): Need.ADMIN,
    ("GET", "/me"): Need.READ,
    ("POST", "/session"): Need.NOTHING,
    ("DELETE", "/session"): Need.READ,
    ("GET", "/users"): Need.ADMIN,
    ("POST", "/users"): Need.ADMIN,
    ("PATCH", "/users/{user}"): Need.ADMIN,
    ("GET", "/tokens"): Need.READ,
    ("POST", "/tokens"): Need.WRITE,
    ("DELETE", "/tokens/{id}"): Need.WRITE,
    ("GET", "/chats/{chat}/shares"): Need.WRITE_CHAT,
    ("POST", "/chats/{chat}/shares"): Need.WRITE_CHAT,
    ("DELETE", "/chats/{chat}/shares/{id}"): Need.WRITE_CHAT,
    ("GET", "/audit"): Need.ADMIN,
}
"""What each route requires, by method and path. A route that is missing here is not served."""
