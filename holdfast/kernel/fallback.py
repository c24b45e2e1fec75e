"""Fallback: several models as one. The next is called if one fails before its first delta."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from holdfast.kernel.errors import ConfigError, classify
from holdfast.kernel.model import (
    Delta,
    Effort,
    Model,
    Notice,
    Opened,
    Ping,
    Request,
    check_model,
    close,
    known_efforts,
)


class Fallback:
    """A model that calls the first of several that works, and keeps to it for the rest of the turn.

    It moves to the next after failures that another model may not have (overload, rate limit, used
    up quota, network, silence …), never after our own (a wrong key, a bad request), and never once
    a delta was shown.
    """

    def __init__(self, models: Sequence[Model]) -> None:
        if isinstance(models, str) or not isinstance(models, Sequence) or not models:
            raise ConfigError("Fallback needs models in a list: Fallback([first, second])")
        for model in models:
            check_model(model)
        self._models = tuple(models)

    @property
    def name(self) -> str:
        return self._models[0].name

    @property
    def window(self) -> int | None:
        """The smallest window: each model must be able to read the history."""
        windows = [model.window for model in self._models if model.window is not None]
        return min(windows, default=None)

    @property
    def efforts(self) -> tuple[Effort, ...] | None:
        """Efforts of the first model, if those of all models are known."""
        known = [known_efforts(model) for model in self._models]
        return None if None in known else known[0]

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        order = self._order(request)
        for model in order:
            yield Opened(model.name)
            shown = False
            stream: AsyncIterator[Delta] | None = None
            try:
                stream = model.stream(request)
                async for delta in stream:
                    shown = shown or not isinstance(delta, (Ping, Opened, Notice))
                    yield delta
                return
            except Exception as error:
                failure = classify(error, model.name)
                if shown or not failure.failover or model is order[-1]:
                    raise
                yield Notice(f"{failure.message} Trying the next model.")
            finally:
                # Otherwise the stream and its connection would be closed later and elsewhere.
                if stream is not None:
                    await close(stream)

    def _order(self, request: Request) -> list[Model]:
        """The model of this turn's last answer first, then in order; failed ones last."""
        names = [model.name for model in self._models]
        stay = request.stay_with
        start = names.index(stay) if stay in names else 0
        rotated = [*self._models[start:], *self._models[:start]]
        return sorted(rotated, key=lambda model: model.name in request.avoid)
