"""Tokens of an answer of the Anthropic Messages API, also of one that was made in several goes.
Pure."""

from __future__ import annotations

from holdfast.kernel.messages import Usage
from holdfast.providers.anthropic.events import AnthropicUsage, CacheCreation
from holdfast.providers.profile import Price


class UsageCounter:
    """Counts what one answer takes."""

    def __init__(self, price: Price | None) -> None:
        self.earlier: list[Usage] = []
        """Of the goes before this one."""
        self._price = price
        self._spent = 0.0
        """On the goes before this one."""
        self._so_far = Usage()
        self._for_an_hour = 0
        """Of what this go has written to the cache."""

    def count(self, tokens: AnthropicUsage | None) -> None:
        """Counts only grow. Some gateways say the input with the end alone, or zero with it."""
        if tokens is None:
            return
        details = tokens.output_tokens_details or {}
        cache = tokens.cache_creation or CacheCreation()
        so_far = self._so_far
        self._so_far = Usage(
            max(so_far.input, tokens.input_tokens or 0),
            max(so_far.output, tokens.output_tokens or 0),
            max(so_far.reasoning, details.get("thinking_tokens") or 0),
            max(so_far.cache_read, tokens.cache_read_input_tokens or 0),
            max(so_far.cache_write, tokens.cache_creation_input_tokens or 0),
        )
        self._for_an_hour = max(self._for_an_hour, cache.ephemeral_1h_input_tokens or 0)

    def resume(self) -> None:
        """Another go begins."""
        self.earlier.append(self._so_far)
        self._spent += self._cost()
        self._so_far = Usage()
        self._for_an_hour = 0

    def total(self) -> Usage | None:
        """All that was written, and what the last go has read: each of them reads the same again,
        and one answer fills the window once. What it all costs is the sum."""
        streams = [one for one in (*self.earlier, self._so_far) if one != Usage()]
        if not streams:
            return None
        return Usage(
            streams[-1].input,
            sum(one.output for one in streams),
            sum(one.reasoning for one in streams),
            streams[-1].cache_read,
            streams[-1].cache_write,
            None if self._price is None else self._spent + self._cost(),
        )

    def _cost(self) -> float:
        """Of this go."""
        if self._price is None:
            return 0.0
        return self._price.of(self._so_far, for_an_hour=self._for_an_hour)
