"""Profile of a model: context window, prices and supported input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from holdfast.kernel.messages import Usage, Value
from holdfast.kernel.model import EFFORTS, Effort

Family = Literal["image", "pdf", "text", "audio", "video"]


class Price(Value, frozen=True):
    """US dollars for a million tokens. What is None costs as much as other input."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    cache_write_1h: float | None = None
    """Of what a cache keeps for an hour. None when it costs as much as other writes."""
    above: int = 0
    """Tokens that a prompt has to exceed for this price to be asked."""
    long: Price | None = None
    """What is asked instead, for all of a request, when its prompt is longer."""

    def of(self, usage: Usage, *, for_an_hour: int = 0) -> float:
        """`for_an_hour` is how much of what was written to the cache stays there so long."""
        prompt = usage.input + usage.cache_read + usage.cache_write
        if self.long is not None and prompt > self.long.above:
            return self.long.of(usage, for_an_hour=for_an_hour)
        read = self.input if self.cache_read is None else self.cache_read
        write = self.input if self.cache_write is None else self.cache_write
        keep = write if self.cache_write_1h is None else self.cache_write_1h
        return (
            usage.input * self.input
            + usage.output * self.output
            + usage.cache_read * read
            + usage.cache_write * write
            + for_an_hour * (keep - write)
        ) / 1_000_000


class Profile(Value, frozen=True, kw_only=True):
    """What is known about a model. What nobody knows is None, and then the provider decides."""

    window: int | None = None
    """Tokens that fit, the answer included."""
    max_output: int | None = None
    price: Price | None = None
    efforts: tuple[Effort, ...] | None = None
    """How hard it can be told to think, from the least to the most; empty when it cannot be."""
    files: tuple[Family, ...] | None = None
    """What it takes beside text."""
    sampling: bool | Literal["without effort"] = True
    """Whether temperature and the like may be set; by some only while they are not told to
    think."""
    structured: bool = True
    """Whether it can be held to a JSON schema."""
    options: Mapping[str, Any] = {}
    """What only its protocol understands."""

    def effort(self, requested: Effort | None) -> Effort | None:
        """The effort to ask for: the one wanted, or the nearest that the model has.

        The nearest below, so that nobody pays for more than was wanted; if there is none, its
        least. None where the model decides for itself.
        """
        if requested is None or self.efforts == ():
            return None
        if self.efforts is None or requested in self.efforts:
            return requested
        rank = EFFORTS.index(requested)
        below = [level for level in self.efforts if EFFORTS.index(level) <= rank]
        return below[-1] if below else self.efforts[0]

    def samples(self, effort: Effort | None) -> bool:
        """Whether temperature and the like may be set beside this effort."""
        if isinstance(self.sampling, bool):
            return self.sampling
        return effort in (None, "none")


UNKNOWN: Final = Profile()
"""A model that nobody has told us about."""
