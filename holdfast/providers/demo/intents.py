"""Intents the demo model understands, as frozen values in a closed union."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias, Union

from holdfast.kernel.errors import FailureKind
from holdfast.kernel.messages import Value

FAILURES: Final[Mapping[FailureKind, int | None]] = {
    "rate_limit": 429,
    "overloaded": 529,
    "quota": 402,
    "auth": 401,
    "permission": 403,
    "not_found": 404,
    "invalid_request": 400,
    "context_overflow": 413,
    "content_filter": None,
    "timeout": 504,
    "network": None,
    "server": 500,
    "stream_cut": None,
    "stream_silent": None,
    "empty_response": None,
}
"""How it can fail, each with the status that a provider would answer with."""


class Words(Value, frozen=True):
    """This text."""

    text: str
    exact: bool = False
    """Whether this was asked for, and no word about who answers."""


class Use(Value, frozen=True):
    """One call to make. The arguments are the text as it is sent, which need not be JSON."""

    tool: str
    """`""` for any that is on offer."""
    arguments: str


class Calls(Value, frozen=True):
    """Calls in one message."""

    uses: tuple[Use, ...]
    anyway: bool = False
    """Whether to make them also when there are no such tools."""


class Think(Value, frozen=True):
    """Reasoning that can be seen, then an answer."""

    about: str = ""
    steps: int = 3


class Slow(Value, frozen=True):
    """Half a second for each word from here on."""


class Wait(Value, frozen=True):
    """Nothing for a while."""

    seconds: float


class Fail(Value, frozen=True):
    """Failed attempts before one goes through; None: none ever does."""

    kind: FailureKind
    times: int | None


class Help(Value, frozen=True):
    """What can be asked for."""


class Unknown(Value, frozen=True):
    """What was not understood, and what could have been meant."""

    text: str
    hint: str = ""


Wish: TypeAlias = Union[Words, Calls, Think, Slow, Wait, Fail, Help, Unknown]
