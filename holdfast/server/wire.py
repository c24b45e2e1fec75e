"""What both ends of the wire hold to: where the API is, and JSON that is plain for any text."""

from __future__ import annotations

import json
from typing import Any, Final, TypeVar

import msgspec

T = TypeVar("T")
PREFIX: Final = "/api/v1"
"""In front of every path of the API."""
KEY: Final = "Idempotency-Key"
"""The header that makes a change happen once, however often it is asked for."""


def to_json(value: object) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # half of a pair of surrogates: JSON can say it, UTF-8 cannot
        return json.dumps(msgspec.to_builtins(value), separators=(",", ":")).encode()


def from_json(data: bytes, type: type[T] | Any) -> T:
    """Raises `msgspec.DecodeError`, and its `ValidationError` for the wrong type of JSON."""
    try:
        made: T = _decoded(data, type)
    except RecursionError:
        raise msgspec.DecodeError("there is too much inside of one another") from None
    return made


def _decoded(data: bytes, type: Any) -> Any:
    try:
        return msgspec.json.decode(data, type=type)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return _with_surrogates(data, type, error)


def _with_surrogates(data: bytes, type: Any, error: Exception) -> Any:
    try:
        plain = json.loads(data)
    except ValueError:
        raise msgspec.DecodeError(str(error)) from None
    return msgspec.convert(plain, type)
