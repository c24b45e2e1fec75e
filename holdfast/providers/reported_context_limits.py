"""Context limits that providers reported, by address and model.

A provider names its limit when a request overflows it. The limit belongs to the model at that
address, not to one chat, so it is kept with the HTTP client: later requests of any chat are
compacted in time. It overrides the model's profile, because the provider enforces it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final
from weakref import WeakKeyDictionary

from holdfast.kernel.errors import ProviderError
from holdfast.providers.http import Http

MAX_MODELS: Final = 1_000
"""Maximum number of models per client whose limits are kept."""
MIN_LIMIT: Final = 1_000
"""Tokens. A smaller reported number is taken for something else than a context limit."""
RATE_LIMIT_CODES: Final = frozenset({"rate_limit_exceeded", "tokens"})
"""Error codes about the tokens that a key may use per minute."""
_REPORTED: Final[WeakKeyDictionary[Http, dict[tuple[str, str], int]]] = WeakKeyDictionary()


def report_limit(http: Http, url: str, model: str, error: ProviderError) -> None:
    """Keep the context limit that an error reports for a model at an address, if it reports one.

    A rate limit names the tokens of one key per minute, which is not the limit of the model.
    """
    window = error.window
    if (
        window is None
        or window < MIN_LIMIT
        or error.status == 429
        or error.code in RATE_LIMIT_CODES
    ):
        return
    with suppress(TypeError):  # a client that cannot be referred to weakly
        limits = _REPORTED.setdefault(http, {})
        if len(limits) < MAX_MODELS or (url, model) in limits:
            limits[url, model] = window


def reported_limit(http: Http, url: str, model: str) -> int | None:
    """Context limit that was reported for a model at an address, if any was."""
    with suppress(TypeError):
        return _REPORTED.get(http, {}).get((url, model))
    return None
