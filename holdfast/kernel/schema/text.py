"""JSON as text: read with every digit kept, written, quoted for the model."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from holdfast.kernel.schema.arguments import BadArguments

MAX_QUOTE: Final = 80
"""Characters of a wrong value, a name or a bad piece of JSON that are shown to the model."""
MAX_SENTENCE: Final = 300
"""Characters of a sentence that a library or a validator of the user's wrote."""
TOO_DEEP: Final = "nested too deeply"


class NotJson(Exception):
    """The message says what is wrong with a text, and where."""


class JsonNumber(float):
    """A number that remembers how it was written: as a string, 1.10 is not 1.1."""

    text: str

    def __new__(cls, text: str) -> JsonNumber:
        self = super().__new__(cls, text)
        if math.isinf(self):
            raise NotJson(f"the number {cut(text)} is too large")
        self.text = text
        return self

    def __str__(self) -> str:
        return self.text


def complaint(text: str) -> str | None:
    """Why a text is not JSON, in a few words; None when it is. No text at all counts as JSON."""
    try:
        msgspec.json.decode(text)
    except (ValueError, RecursionError):
        # Not the last word: it refuses lone surrogates, which Python can hold. And it counts bytes.
        try:
            if text.strip():
                load(text)
        except NotJson as error:
            return str(error)
    return None


def load(text: str) -> Any:
    """The value that JSON stands for. Its floats are Numbers."""
    try:
        return json.loads(text, parse_float=JsonNumber, parse_constant=_refuse_constant)
    except RecursionError:
        raise NotJson(TOO_DEEP) from None
    except json.JSONDecodeError as error:
        raise NotJson(_explained(error)) from None
    except ValueError:  # Python's limit on the digits of a whole number
        raise NotJson("a whole number has too many digits") from None


def _refuse_constant(name: str) -> Any:
    raise NotJson(f"{name} is no JSON value")


def _explained(error: json.JSONDecodeError) -> str:
    text, at = error.doc, error.pos
    ends_early = at >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
    hint = ", the text ends too early" if ends_early else ""
    near = quoted(text[max(0, at - 30) : at + 30])
    place = f"character {min(at + 1, len(text))} of {len(text)}"
    return f"{error.msg.removesuffix(' at')} ({place}{hint}), near {near}"


def written(value: Mapping[str, Any], to_builtins: Callable[[Any], Any]) -> str:
    """JSON of arguments that did not come as text."""
    try:
        return json.dumps(to_builtins(value))
    except (TypeError, ValueError, RecursionError) as error:
        message = cut(str(error), MAX_SENTENCE)
        raise BadArguments([f"arguments: cannot be written as JSON: {message}"]) from None


def quoted(value: Any) -> str:
    """A value as JSON, cut. Of a large one hardly more is written than is shown."""
    text = ""
    for piece in json.JSONEncoder(ensure_ascii=False, default=str).iterencode(value):
        text += piece[: MAX_QUOTE + 1]
        if len(text) > MAX_QUOTE:
            break
    return cut(text)


def cut(text: str, limit: int = MAX_QUOTE) -> str:
    """At most `limit` characters, all of which a request to a model can hold."""
    text = text if len(text) <= limit else text[: limit - 1] + "…"
    return text.encode(errors="backslashreplace").decode()
