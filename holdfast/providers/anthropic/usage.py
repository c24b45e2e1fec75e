"""Counts the tokens of an answer of the Anthropic Messages API, over all its streams. Pure."""

from __future__ import annotations

from holdfast.kernel.messages import Usage
from holdfast.providers.anthropic.event_types import AnthropicUsage, CacheCreation
from holdfast.providers.profile import Price


class UsageCounter:
    """Counts the tokens and the cost of one answer."""

    def __init__(self, price: Price | None) -> None:
        self.earlier: list[Usage] = []
        """Usage of each earlier stream of this answer."""
        self._price = price
        self._spent = 0.0
        """Cost of the earlier streams, in US dollars."""
        self._so_far = Usage()
        self._for_an_hour = 0
        """Tokens that this stream wrote to the cache for an hour."""

    def count(self, tokens: AnthropicUsage | None) -> None:
        """Add counts.

        They only grow: some gateways report the input at the end only, or as zero then.
        """
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
        """Begin the next stream of the answer."""
        self.earlier.append(self._so_far)
        self._spent += self._cost()
        self._so_far = Usage()
        self._for_an_hour = 0

    def total(self) -> Usage | None:
        """Usage of the answer over all its streams.

        Output and cost are those of all streams, input is that of the last: each stream reads the
        same input again, and one answer fills the window once.
        """
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
        """Cost of the current stream, in US dollars."""
        if self._price is None:
            return 0.0
        return self._price.of(self._so_far, for_an_hour=self._for_an_hour)
