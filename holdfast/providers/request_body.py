"""JSON body of a request: user options merged into ours, encoded so that every provider accepts it.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec

JsonObject: TypeAlias = dict[str, Any]
"""A JSON object, as it goes over the wire."""


def merged(body: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The body with the options merged in: objects are merged, other values replaced."""
    result = dict(body)
    for key, value in options.items():
        existing = result.get(key)
        if isinstance(existing, Mapping) and isinstance(value, Mapping):
            value = merged(existing, value)
        result[key] = value
    return result


def encoded(body: object) -> bytes:
    """The body as JSON in valid UTF-8."""
    try:
        return _ENCODER.encode(body)
    except UnicodeEncodeError:  # a single surrogate, which UTF-8 cannot encode
        return _ENCODER.encode(_whole(body))


def _plain(value: Any) -> Any:
    """Encode what msgspec does not know: a schema may be any mapping."""
    if isinstance(value, Mapping):
        return dict(value)
    raise NotImplementedError(f"{value!r} is not JSON")


_ENCODER: Final = msgspec.json.Encoder(enc_hook=_plain)


def _whole(value: Any) -> Any:
    """The value with its surrogates joined or replaced in every string."""
    if isinstance(value, str):
        return joined_surrogates(value)
    if isinstance(value, Mapping):
        return {_whole(key): _whole(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_whole(item) for item in value]
    return value


def joined_surrogates(text: str) -> str:
    """Text that UTF-8 can encode: surrogate pairs are joined, single surrogates replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
