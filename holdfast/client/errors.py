"""What a server refused, as the exception that the same chat would raise in this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from holdfast.chat import errors
from holdfast.chat.errors import ChatError, InvalidInput
from holdfast.chat.files import FileInUse, FileNotFound, QuotaExceeded
from holdfast.chat.state import Status
from holdfast.chat.table import Transition
from holdfast.kernel.errors import ConfigError, HoldfastError
from holdfast.server.problem import Problem
from holdfast.store.database import OutcomeUnknown, StoreError, Unavailable


class RemoteError(HoldfastError):
    """What a server refused for a reason that a chat in this process would not have."""

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
        """A label that programs may rely on."""
        self.status = status
        """Of HTTP; None when nobody answered."""
        self.detail = detail
        self.facts: Mapping[str, Any] = facts or {}


class Unreachable(RemoteError):
    """Nobody answered, for as long as was waited. A change may or may not have been made."""

    def __init__(self, url: str, why: str, do: str) -> None:
        super().__init__("unreachable", f"{url} cannot be reached, {why}: {do}")
        self.url = url


class NotHoldfast(RemoteError):
    """Somebody answered, and it was no server of ours."""

    def __init__(self, url: str, status: int, said: str) -> None:
        super().__init__(
            "not_holdfast",
            f"{url} answered {status} with {said}, which is no answer of holdfast: "
            "is this the address of the server, and does a proxy stand in front of it?",
            status=status,
        )
        self.url = url


class InvalidArgument(InvalidInput, ConfigError):
    """Something that was given cannot be right. Over the wire the two are not told apart."""


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
"""By kind: what is raised for it."""

_TYPES: Final[Mapping[str, Any]] = {
    "status": Status,
    "transition": Transition,
    "given": tuple[str, ...],
    "waiting": tuple[str, ...],
    "asked": tuple[str, ...],
}
"""Of the facts that JSON has another type for."""


def error_of(problem: Problem) -> HoldfastError:
    """The exception for what a server refused."""
    known = _CLASSES.get(problem.kind)
    if known is None:
        return RemoteError(problem.kind, problem.detail, status=problem.status, facts=problem.facts)
    error = known.__new__(known, problem.detail)  # past what would make the sentence again
    for name, value in problem.facts.items():
        setattr(error, name, _fact(name, value))
    return error


def _fact(name: str, value: Any) -> Any:
    try:
        return msgspec.convert(value, _TYPES.get(name, Any))
    except msgspec.ValidationError:  # of a newer server
        return value
