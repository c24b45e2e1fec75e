"""Problems: the one shape of an error response, with a stable `kind`.

`application/problem+json` (RFC 9457): `kind` is for programs, `detail` is for people and says what
to do, `facts` are the values that the refusal is based on.

    HoldfastError
    └── RequestRefused          400 bad_request
        ├── BadRequest          400 bad_request
        ├── BadBody             422 invalid_body
        ├── Unauthenticated     401 unauthenticated
        ├── Forbidden           403 forbidden
        ├── NotFound            404 not_found
        ├── Conflict            409 conflict
        ├── TooLarge            413 too_large
        └── TooMany             429 too_many

Modules derive their own with a more precise `kind`. Errors of chats and of the database are
translated by `problem_of`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

import msgspec
from msgspec import Struct

from holdfast.chat.errors import (
    ChatArchived,
    ChatError,
    ChatNotFound,
    Corrupt,
    InvalidInput,
    KeyReused,
    MessageNotFound,
    NothingWaits,
    QueuedNotFound,
    QueueFull,
    TooDeep,
    WrongAnswer,
    WrongOrder,
)
from holdfast.chat.files import FileNotFound, QuotaExceeded
from holdfast.kernel.errors import ConfigError, HoldfastError
from holdfast.store.database import Damaged, NotWritable, OutcomeUnknown, StoreError, Unavailable

PROBLEM_MEDIA_TYPE: Final = "application/problem+json"


class ProblemDetails(Struct, frozen=True, omit_defaults=True):
    """Body of an error response: why a request failed."""

    kind: str
    """A stable label for programs."""
    status: int
    title: str
    """Meaning of the status."""
    detail: str
    """What is wrong, and what to do."""
    facts: Mapping[str, Any] = {}


class RequestRefused(HoldfastError):
    """A request that the server refuses, with a status and a kind."""

    kind: ClassVar[str] = "bad_request"
    status: ClassVar[int] = 400
    headers: Mapping[str, str] = {}

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.facts = facts


class BadRequest(RequestRefused):
    """The request is malformed."""


class BadBody(RequestRefused):
    """The body is JSON, but not what the operation accepts."""

    kind = "invalid_body"
    status = 422


class Unauthenticated(RequestRefused):
    """The request has no credential, or an invalid one."""

    kind = "unauthenticated"
    status = 401
    headers: Mapping[str, str] = {"WWW-Authenticate": "Bearer"}


class Forbidden(RequestRefused):
    """The caller is not allowed to do this."""

    kind = "forbidden"
    status = 403


class NotFound(RequestRefused):
    """There is no such thing, or the caller may not know of it."""

    kind = "not_found"
    status = 404


class Conflict(RequestRefused):
    """The request conflicts with the current state."""

    kind = "conflict"
    status = 409


class TooLarge(RequestRefused):
    """The request is larger than the server accepts."""

    kind = "too_large"
    status = 413


class TooMany(RequestRefused):
    """A limit on a number of things is reached."""

    kind = "too_many"
    status = 429


STATUS_TITLES: Final[Mapping[int, str]] = {
    400: "Bad request",
    401: "Not authenticated",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    408: "Timed out",
    409: "Conflict",
    413: "Too large",
    415: "Unsupported media type",
    421: "Misdirected request",
    422: "Invalid",
    429: "Too many",
    431: "Headers too large",
    500: "Internal error",
    503: "Unavailable",
}

_STATUS: Final[Mapping[type[ChatError], int]] = {
    ChatNotFound: 404,
    FileNotFound: 404,
    MessageNotFound: 404,
    QueuedNotFound: 404,
    InvalidInput: 422,
    WrongAnswer: 422,
    WrongOrder: 409,
    NothingWaits: 409,
    ChatArchived: 409,
    KeyReused: 409,
    QueueFull: 429,
    QuotaExceeded: 413,
    TooDeep: 422,
    Corrupt: 500,
}
"""Status of the errors of a chat; 409 for all others, which conflict with the chat's state."""


def problem_of(error: BaseException) -> ProblemDetails | None:
    """The problem to answer an error with; None for an internal error."""
    match error:
        case RequestRefused():
            return _problem(error.kind, error.status, str(error), error.facts)
        case ChatError():
            status = _STATUS.get(type(error), 409)
            return _problem(error.kind, status, str(error), vars(error))
        case ConfigError():
            return _problem("invalid_input", 422, str(error))
        case OutcomeUnknown():
            return OUTCOME_UNKNOWN
        case NotWritable():
            return DATABASE_READ_ONLY
        case Unavailable():
            return DATABASE_UNAVAILABLE
        case Damaged():
            return DATA_DAMAGED
        case StoreError():
            return _problem("database_refused", 500, "database error: see the server's log")
        case _:
            return None


def _problem(
    kind: str, status: int, detail: str, facts: Mapping[str, Any] | None = None
) -> ProblemDetails:
    return ProblemDetails(kind, status, STATUS_TITLES[status], detail, _plain(facts or {}))


def _plain(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: msgspec.to_builtins(value, enc_hook=str) for name, value in facts.items()}


# The error itself may name the path or the host of the database, which is for the log alone.
DATABASE_UNAVAILABLE: Final = _problem(
    "database_unavailable",
    503,
    "the database does not respond: try again; the server's log says why",
)
DATABASE_READ_ONLY: Final = _problem(
    "database_unavailable",
    503,
    "the database cannot be written to, nothing was changed: try again; the server's log says why",
)
OUTCOME_UNKNOWN: Final = _problem(
    "outcome_unknown",
    503,
    "the connection to the database was lost, so it is unknown whether this was done: send the "
    "request again with the same Idempotency-Key, and it takes effect once",
)
DATA_DAMAGED: Final = _problem(
    "corrupt",
    500,
    "stored data cannot be read: run `holdfast doctor`, which names the damaged rows",
)
INTERNAL_ERROR: Final = _problem(
    "internal", 500, "internal error: see the server's log for details"
)
