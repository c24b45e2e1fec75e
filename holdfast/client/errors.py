"""Errors of a remote server, as the exceptions that a chat in this process would raise.

HoldfastError
├── ChatError, StoreError…      as for a chat in this process, rebuilt from the problem
│   └── InvalidArgument         also a ConfigError
└── RemoteError                 any other problem of the server
    ├── Unreachable             no response
    └── NotHoldfast             a response of another server
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from holdfast.chat import errors
from holdfast.chat.errors import ChatError, InvalidInput
from holdfast.chat.files import FileInUse, FileNotFound, QuotaExceeded
from holdfast.chat.rows import Status
from holdfast.chat.state_machine import Transition
from holdfast.kernel.errors import ConfigError, HoldfastError
from holdfast.server.problem import ProblemDetails
from holdfast.store.database import OutcomeUnknown, StoreError, Unavailable


class RemoteError(HoldfastError):
    """The server refused a request for a reason that a chat in this process would not have."""

    def __init__(
        self,
        kind: str,
        detail: str,
        *,
        status: int | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.kind = kind
        """Stable label of the error, for programs."""
        self.status = status
        """HTTP status; None if there was no response."""
        self.detail = detail
        self.facts: Mapping[str, Any] = facts or {}


class Unreachable(RemoteError):
    """The server did not respond while it was retried. A change may or may not have been made."""

    def __init__(self, url: str, why: str, do: str) -> None:
        super().__init__("unreachable", f"{url} cannot be reached, {why}: {do}")
        self.url = url


class NotHoldfast(RemoteError):
    """The response did not come from a Holdfast server."""

    def __init__(self, url: str, status: int, media: str) -> None:
        super().__init__(
            "not_holdfast",
            f"{url} responded {status} with {media}, which is not a response of Holdfast: "
            "is this the address of the server, and is there a proxy in front of it?",
            status=status,
        )
        self.url = url


class InvalidArgument(InvalidInput, ConfigError):
    """An invalid argument. Over the wire, InvalidInput and ConfigError cannot be told apart."""


_CLASSES: Final[Mapping[str, type[HoldfastError]]] = {
    **{
        each.kind: each
        for each in vars(errors).values()
        if isinstance(each, type) and issubclass(each, ChatError) and each is not ChatError
    },
    FileNotFound.kind: FileNotFound,
    FileInUse.kind: FileInUse,
    QuotaExceeded.kind: QuotaExceeded,
    "invalid_input": InvalidArgument,
    "invalid_body": InvalidArgument,
    "bad_request": InvalidArgument,
    "outcome_unknown": OutcomeUnknown,
    "database_unavailable": Unavailable,
    "database_refused": StoreError,
}
"""The exception to raise, by kind of problem."""

_TYPES: Final[Mapping[str, Any]] = {
    "status": Status,
    "transition": Transition,
    "given": tuple[str, ...],
    "waiting": tuple[str, ...],
    "asked": tuple[str, ...],
}
"""Types of the facts that JSON represents as another type."""


def error_of(problem: ProblemDetails) -> HoldfastError:
    """The exception for a problem of the server."""
    error_class = _CLASSES.get(problem.kind)
    if error_class is None:
        return RemoteError(problem.kind, problem.detail, status=problem.status, facts=problem.facts)
    error = error_class.__new__(
        error_class, problem.detail
    )  # not __init__, which would build the message anew
    for name, value in problem.facts.items():
        setattr(error, name, _fact(name, value))
    return error


def _fact(name: str, value: Any) -> Any:
    try:
        return msgspec.convert(value, _TYPES.get(name, Any))
    except msgspec.ValidationError:  # of a newer server
        return value
