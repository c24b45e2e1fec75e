"""JSON body of a request: user options merged over ours, safe for every provider. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import msgspec

JsonObject: TypeAlias = dict[str, Any]


def merged(body: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """The body with the options in it. Objects are merged, anything else is replaced."""
    result = dict(body)
    for key, value in options.items():
        existing = result.get(key)
        if isinstance(existing, Mapping) and isinstance(value, Mapping):
            value = merged(existing, value)
        result[key] = value
    return result


def encoded(body: object) -> bytes:
    try:
        return _ENCODER.encode(body)
    except UnicodeEncodeError:  # half of a surrogate pair, which Python can hold and UTF-8 cannot
        return _ENCODER.encode(_whole(body))


def _plain(value: Any) -> Any:
    """What msgspec does not know: a schema may be any mapping."""
    if isinstance(value, Mapping):
        return dict(value)
    raise NotImplementedError(f"{value!r} is no JSON")


_ENCODER: Final = msgspec.json.Encoder(enc_hook=_plain)


def _whole(value: Any) -> Any:
    """The same with whole characters only: two halves that belong together are one."""
    if isinstance(value, str):
        return joined_surrogates(value)
    if isinstance(value, Mapping):
        return {_whole(key): _whole(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_whole(item) for item in value]
    return value


def joined_surrogates(text: str) -> str:
    """Text that can be sent: half of a surrogate pair is replaced, two that belong together are one
    character."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
