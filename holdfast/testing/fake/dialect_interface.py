"""Interface of a protocol for a fake provider; one module per protocol implements it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from holdfast.kernel.errors import ProviderError
from holdfast.kernel.messages import Usage
from holdfast.kernel.model import Delta


class ReceivedRequest(Struct, frozen=True):
    """A received request."""

    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    """Headers by case-insensitive name."""
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


class ResponseHead(Struct, frozen=True):
    """The head of a response."""

    status: int
    headers: Mapping[str, str]


class ConnectionLost(Exception):
    """The fake breaks its connection on purpose."""


class Problem(Struct, frozen=True):
    """Why a request is refused or a stream fails, in the real provider's words."""

    message: str
    status: int = 400
    code: str | None = None
    """Error code of the protocol; None: the one of the status."""


class InvalidRequest(Exception):
    """The first error found in a request."""

    def __init__(self, message: str, status: int = 400, code: str | None = None) -> None:
        super().__init__(message)
        self.problem = Problem(message, status, code)


class AnswerEncoder(Protocol):
    """Encodes one answer in one protocol, as whole server-sent events."""

    def opening(self) -> Iterable[bytes]:
        """The events before any content."""
        ...

    def encode_delta(self, delta: Delta) -> Iterable[bytes]:
        """Encode one delta. `Finished` includes everything that ends the stream."""
        ...

    def failure(self, problem: Problem) -> Iterable[bytes]:
        """Encode an error inside the stream."""
        ...


class FakeDialect(Struct, frozen=True):
    """A protocol as a fake provider implements it."""

    problem: Callable[[ReceivedRequest], Problem | None]
    """Checks a request as the real provider does; None if it is valid."""
    refusal: Callable[[Problem], bytes]
    """Encodes the body of a refusal."""
    encoder: Callable[[ReceivedRequest, Usage | None], AnswerEncoder]
    """Creates the encoder of one answer, with the usage it will report."""


def problem_of(error: ProviderError) -> Problem:
    """The problem that a scripted error stands for."""
    return Problem(error.message, error.status or 500, error.code)


def event(data: object, name: str | None = None) -> bytes:
    """One server-sent event with JSON in it."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + msgspec.json.encode(data) + b"\n\n"
