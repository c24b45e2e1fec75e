"""What the API answers when it does not do as asked: one shape, with a kind that stays the same.

`application/problem+json` (RFC 9457): `kind` is for programs, `detail` is for people and says what
to do, `facts` are what it was refused on.
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
from holdfast.store.database import OutcomeUnknown, StoreError, Unavailable

MEDIA: Final = "application/problem+json"


class Problem(Struct, frozen=True, omit_defaults=True):
    """Why a request was not carried out."""

    kind: str
    """A label that programs may rely on."""
    status: int
    title: str
    """What the status means."""
    detail: str
    """What is wrong, and what to do."""
    facts: Mapping[str, Any] = {}


class Refused(HoldfastError):
    """A request that the server does not carry out."""

    kind: ClassVar[str] = "bad_request"
    status: ClassVar[int] = 400
    headers: Mapping[str, str] = {}

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.facts = facts


class BadRequest(Refused):
    pass


class BadBody(Refused):
    kind = "invalid_body"
    status = 422


class Unauthenticated(Refused):
    kind = "unauthenticated"
    status = 401
    headers: Mapping[str, str] = {"WWW-Authenticate": "Bearer"}


class Forbidden(Refused):
    kind = "forbidden"
    status = 403


class NotFound(Refused):
    kind = "not_found"
    status = 404


class Conflict(Refused):
    kind = "conflict"
    status = 409


class TooLarge(Refused):
    kind = "too_large"
    status = 413


class TooMany(Refused):
    kind = "too_many"
    status = 429


TITLES: Final[Mapping[int, str]] = {
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
"""Of what a chat refuses. All else is a conflict with the state that it is in."""


def problem_of(error: BaseException) -> Problem | None:
    """What to answer for an error; None for one that is nobody's but ours."""
    match error:
        case Refused():
            return _problem(error.kind, error.status, str(error), error.facts)
        case ChatError():
            status = _STATUS.get(type(error), 409)
            return _problem(error.kind, status, str(error), vars(error))
        case ConfigError():
            return _problem("invalid_input", 422, str(error))
        case OutcomeUnknown():
            detail = f"{error}. Ask again with the same Idempotency-Key: it is done once"
            return _problem("outcome_unknown", 503, detail)
        case Unavailable():
            return _problem("database_unavailable", 503, str(error))
        case StoreError():
            return _problem("database_refused", 500, "the database refused; see the server's log")
        case _:
            return None


def _problem(
    kind: str, status: int, detail: str, facts: Mapping[str, Any] | None = None
) -> Problem:
    return Problem(kind, status, TITLES[status], detail, _plain(facts or {}))


def _plain(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    return {name: msgspec.to_builtins(value, enc_hook=str) for name, value in facts.items()}


AWAY: Final = _problem(
    "database_unavailable",
    503,
    "the database does not answer: try again; the server's log says why",
)
"""For somebody unknown, to whom it is not said which database that is."""
INTERNAL: Final = _problem(
    "internal", 500, "something went wrong here: the server's log has the details"
)
