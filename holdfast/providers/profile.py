"""Profile of a model: context window, prices and supported input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from holdfast.kernel.messages import Usage, Value
from holdfast.kernel.model import EFFORTS, Effort

Family = Literal["image", "pdf", "text", "audio", "video"]


class Price(Value, frozen=True):
    """Price in US dollars per million tokens. A price that is None equals that of other input."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    cache_write_1h: float | None = None
    """Price of cache writes that last an hour. None: the same as other writes."""
    above: int = 0
    """This price applies to prompts of more tokens than this."""
    long: Price | None = None
    """Price for the whole request when its prompt is longer than `long.above`."""

    def of(self, usage: Usage, *, for_an_hour: int = 0) -> float:
        """Cost of a request in US dollars.

        `for_an_hour`: the cache writes that last an hour, in tokens.
        """
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
    """Known facts about a model. A fact that is None is unknown, and the provider decides."""

    window: int | None = None
    """Context window in tokens, including the answer."""
    max_output: int | None = None
    price: Price | None = None
    efforts: tuple[Effort, ...] | None = None
    """Supported efforts, in ascending order; empty if the model does not reason."""
    files: tuple[Family, ...] | None = None
    """Kinds of files that it accepts in addition to text."""
    sampling: bool | Literal["without effort"] = True
    """Whether sampling settings such as the temperature are accepted.

    Some models accept them only while no effort is set.
    """
    structured: bool = True
    """Whether answers can be constrained to a JSON schema."""
    options: Mapping[str, Any] = {}
    """Options that only its protocol understands."""

    def effort(self, requested: Effort | None) -> Effort | None:
        """The effort to send: the requested one, or the nearest that the model has.

        That is the nearest below, so that a request never costs more than intended; if there is
        none, the model's lowest. None: the model decides.
        """
        if requested is None or self.efforts == ():
            return None
        if self.efforts is None or requested in self.efforts:
            return requested
        rank = EFFORTS.index(requested)
        below = [level for level in self.efforts if EFFORTS.index(level) <= rank]
        return below[-1] if below else self.efforts[0]

    def samples(self, effort: Effort | None) -> bool:
        """Whether sampling settings are accepted together with this effort."""
        if isinstance(self.sampling, bool):
            return self.sampling
        return effort in (None, "none")


UNKNOWN: Final = Profile()
"""Profile of a model about which nothing is known."""
