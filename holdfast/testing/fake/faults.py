"""Connection faults as items of a script.

    FakeProvider("anthropic", [[say("Half an ans"), lost()], respond(529), say("The answer.")])

Items before `opens()`, or before the first content, happen before the headers are sent: a first
item `pause(5)` delays the response, `[opens(), pause(5), …]` delays the first token. There,
`fail(…)` is a refusal; later it is an error inside the stream. `cut()` ends the stream without an
error and without its terminal event.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.kernel.model import Delta
from holdfast.testing.script import Fault


class OpenResponse(Fault, frozen=True):
    """Send the headers, and the first events of the protocol."""


class FixedResponse(Fault, frozen=True):
    """Send this response, whatever the protocol is."""

    status: int
    body: bytes
    headers: Mapping[str, str]


class BrokenConnection(Fault, frozen=True):
    """Break the connection, without an end of the response."""


class RawBytes(Fault, frozen=True):
    """Send these bytes inside the stream."""

    data: bytes


class Garbled(Fault, frozen=True):
    """Send the next event with truncated JSON, as a complete event."""


class Swapped(Fault, frozen=True):
    """Send the next two events in the wrong order."""


class Dripping(Fault, frozen=True):
    """Send the rest in pieces of `size` bytes, with pauses."""

    size: int
    seconds: float


class Endless(Fault, frozen=True):
    """Repeat a delta forever, with pauses."""

    delta: Delta
    seconds: float


def opens() -> Fault:
    """Send the headers now."""
    return OpenResponse()


def respond(status: int, body: Any = b"", headers: Mapping[str, str] | None = None) -> Fault:
    """Send exactly this response, whatever the protocol is.

    A body that is not bytes or text becomes JSON.
    """
    if isinstance(body, str):
        body = body.encode()
    if not isinstance(body, bytes):
        body = msgspec.json.encode(body)
        headers = {"Content-Type": "application/json", **(headers or {})}
    return FixedResponse(status, body, headers or {})


def lost() -> Fault:
    """Break the connection. Data that was sent before arrives, without an end."""
    return BrokenConnection()


def raw(data: bytes | str) -> Fault:
    """Send these bytes inside the stream."""
    return RawBytes(data.encode() if isinstance(data, str) else data)


def garbled() -> Fault:
    """Send the next event with half of its JSON."""
    return Garbled()


def swapped() -> Fault:
    """Send the next two events in the wrong order."""
    return Swapped()


def dripping(size: int = 1, seconds: float = 0.0) -> Fault:
    """Send the rest in pieces of `size` bytes, with a pause before each."""
    if size < 1:
        raise ValueError(f"size is {size}: use at least 1")
    return Dripping(size, seconds)


def endless(delta: Delta, seconds: float = 0.0) -> Fault:
    """Repeat this delta forever."""
    return Endless(delta, seconds)
