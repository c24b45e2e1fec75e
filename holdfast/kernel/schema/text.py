"""JSON text: parsed without losing digits, written, and quoted for the model."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from holdfast.kernel.schema.arguments import BadArguments

MAX_QUOTE: Final = 80
"""Maximum characters of a quoted value, name or piece of JSON in a message to the model."""
MAX_SENTENCE: Final = 300
"""Maximum characters of a sentence from a library or from a user's validator."""
TOO_DEEP: Final = "nested too deeply"


class NotJson(Exception):
    """A text is not JSON. The message says what is wrong, and where."""


class JsonNumber(float):
    """A float that keeps its original text: as a string, 1.10 is not 1.1."""

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
    """Why a text is not JSON, in a few words; None if it is. Empty text counts as JSON."""
    try:
        msgspec.json.decode(text)
    except (ValueError, RecursionError):
        # Not final: msgspec refuses lone surrogates, which Python can hold. And it counts bytes.
        try:
            if text.strip():
                load(text)
        except NotJson as error:
            return str(error)
    return None


def load(text: str) -> Any:
    """Parse JSON. Floats become `JsonNumber`."""
    try:
        return json.loads(text, parse_float=JsonNumber, parse_constant=_refuse_constant)
    except RecursionError:
        raise NotJson(TOO_DEEP) from None
    except json.JSONDecodeError as error:
        raise NotJson(_explained(error)) from None
    except ValueError:  # Python's limit on the digits of a whole number
        raise NotJson("a whole number has too many digits") from None


def _refuse_constant(name: str) -> Any:
    raise NotJson(f"{name} is not a JSON value")


def _explained(error: json.JSONDecodeError) -> str:
    text, at = error.doc, error.pos
    ends_early = at >= len(text.rstrip()) or error.msg.startswith("Unterminated string")
    hint = ", the text ends too early" if ends_early else ""
    near = quoted(text[max(0, at - 30) : at + 30])
    position = f"character {min(at + 1, len(text))} of {len(text)}"
    return f"{error.msg.removesuffix(' at')} ({position}{hint}), near {near}"


def json_text(value: Mapping[str, Any], to_builtins: Callable[[Any], Any]) -> str:
    """JSON text of arguments that did not arrive as text."""
    try:
        return json.dumps(to_builtins(value))
    except (TypeError, ValueError, RecursionError) as error:
        message = cut(str(error), MAX_SENTENCE)
        raise BadArguments([f"arguments: cannot be written as JSON: {message}"]) from None


def quoted(value: Any) -> str:
    """A value as JSON, cut. A large value is encoded only as far as it is shown."""
    text = ""
    for piece in json.JSONEncoder(ensure_ascii=False, default=str).iterencode(value):
        text += piece[: MAX_QUOTE + 1]
        if len(text) > MAX_QUOTE:
            break
    return cut(text)


def cut(text: str, limit: int = MAX_QUOTE) -> str:
    """The first `limit` characters of a text, with lone surrogates escaped for requests."""
    text = text if len(text) <= limit else text[: limit - 1] + "…"
    return text.encode(errors="backslashreplace").decode()
