"""Connection faults as items of a script.

    FakeProvider("anthropic", [[say("Half an ans"), lost()], respond(529), say("The answer.")])

What stands before `opens()`, or before the first thing that is said, happens before the headers
are sent: `pause(5)` first is a slow beginning, `[opens(), pause(5), …]` a slow first token.
`fail(…)` before that is a refusal, later an error inside the stream. `cut()` ends the stream
politely, without its terminal event.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.kernel.model import Delta
from holdfast.testing.script import Fault


class OpenResponse(Fault, frozen=True):
    """The headers, and what the protocol begins an answer with."""


class FixedResponse(Fault, frozen=True):
    status: int
    body: bytes
    headers: Mapping[str, str]


class LostConnection(Fault, frozen=True):
    """The connection breaks, without an end."""


class RawBytes(Fault, frozen=True):
    data: bytes


class Garbled(Fault, frozen=True):
    """The next event that has JSON is cut off in the middle of it, and is an event all the same."""


class Swapped(Fault, frozen=True):
    """The next two events come in the wrong order."""


class Dripping(Fault, frozen=True):
    size: int
    seconds: float


class Endless(Fault, frozen=True):
    delta: Delta
    seconds: float


def opens() -> Fault:
    """Send the headers now."""
    return OpenResponse()


def respond(status: int, body: Any = b"", headers: Mapping[str, str] | None = None) -> Fault:
    """Exactly this answer, whatever the protocol would say. A body that is no bytes is JSON."""
    if isinstance(body, str):
        body = body.encode()
    if not isinstance(body, bytes):
        body = msgspec.json.encode(body)
        headers = {"Content-Type": "application/json", **(headers or {})}
    return FixedResponse(status, body, headers or {})


def lost() -> Fault:
    """Break the connection: what has been sent arrives, and nothing ends it."""
    return LostConnection()


def raw(data: bytes | str) -> Fault:
    """These bytes, in the middle of the stream."""
    return RawBytes(data.encode() if isinstance(data, str) else data)


def garbled() -> Fault:
    """Send the next event with half of its JSON."""
    return Garbled()


def swapped() -> Fault:
    """Send the next two events in the wrong order."""
    return Swapped()


def dripping(size: int = 1, seconds: float = 0.0) -> Fault:
    """From here on, send this many bytes at a time, with a pause between."""
    if size < 1:
        raise ValueError(f"size is {size}: use at least 1")
    return Dripping(size, seconds)


def endless(delta: Delta, seconds: float = 0.0) -> Fault:
    """Say this again and again, and never stop."""
    return Endless(delta, seconds)
