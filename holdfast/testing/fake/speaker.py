"""What a fake needs to know of a protocol. One file for each protocol implements it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from holdfast.kernel.errors import ProviderError
from holdfast.kernel.messages import Usage
from holdfast.kernel.model import Delta


class Received(Struct, frozen=True):
    """A request, as it arrived."""

    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """By name, whose case does not matter."""
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class Head(Struct, frozen=True):
    """The beginning of an answer."""

    status: int
    headers: Mapping[str, str]


class ConnectionLost(Exception):
    """The fake breaks its connection on purpose."""


class Problem(Struct, frozen=True):
    """Why a request is refused, or a stream breaks off, as the real provider would say it."""

    message: str
    status: int = 400
    code: str | None = None
    """The protocol's word for it. None: the one that goes with the status."""


class Objection(Exception):
    """The first thing that is wrong with a request."""

    def __init__(self, message: str, status: int = 400, code: str | None = None) -> None:
        super().__init__(message)
        self.problem = Problem(message, status, code)


class Speaker(Protocol):
    """Says one answer in one protocol. Gives whole server-sent events, blank line included."""

    def opening(self) -> Iterable[bytes]:
        """What comes before anything is said."""
        ...

    def say(self, delta: Delta) -> Iterable[bytes]:
        """One delta. `Finished` is said with everything that ends the stream."""
        ...

    def failure(self, problem: Problem) -> Iterable[bytes]:
        """An error inside the stream."""
        ...


class Language(Struct, frozen=True):
    """A protocol as a fake speaks it."""

    problem: Callable[[Received], Problem | None]
    """What the real provider would object to in a request, or None."""
    refusal: Callable[[Problem], bytes]
    """The body of a refusal."""
    speaker: Callable[[Received, Usage | None], Speaker]
    """For one answer, with the usage that it will report."""


def problem_of(error: ProviderError) -> Problem:
    return Problem(error.message, error.status or 500, error.code)


def event(data: object, name: str | None = None) -> bytes:
    """One server-sent event with JSON in it."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + msgspec.json.encode(data) + b"\n\n"
