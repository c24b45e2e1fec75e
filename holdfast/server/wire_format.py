"""JSON and constants that server and client share; lossless for lone surrogates too."""

from __future__ import annotations

import json
from typing import Any, Final, TypeVar

import msgspec

T = TypeVar("T")
API_PREFIX: Final = "/api/v1"
"""Prefix of every path of the API."""
IDEMPOTENCY_HEADER: Final = "Idempotency-Key"
"""Header that makes a change happen once, however often the request is sent."""
MISPLACED_SURROGATE: Final = (
    "half of a surrogate pair in a field name, or where another type than text is expected: "
    "remove it"
)


def to_json(value: object) -> bytes:
    """Encode a value as JSON, with lone surrogates escaped."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # a lone surrogate: JSON can escape it, UTF-8 cannot encode it
        return json.dumps(msgspec.to_builtins(value), separators=(",", ":")).encode()


def from_json(data: bytes, type: type[T] | Any) -> T:
    """Decode JSON. Raises `msgspec.DecodeError`, or its `ValidationError` for the wrong type."""
    try:
        value: T = _decoded(data, type)
    except RecursionError:
        raise msgspec.DecodeError("the JSON is nested too deeply") from None
    return value


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
    try:
        return msgspec.convert(plain, type)
    except UnicodeEncodeError:  # where a field name, a number or a choice is expected
        raise msgspec.DecodeError(MISPLACED_SURROGATE) from None
