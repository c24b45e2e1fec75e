"""Several models as one: the next is asked when one fails before it has shown anything."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from holdfast.kernel.errors import ConfigError, classify
from holdfast.kernel.model import Delta, Model, Notice, Opened, Ping, Request, check_model, close


class Fallback:
    """Asks the first model that works, and stays with it for the rest of the turn.

    Moves on for failures that another model may not have (overload, rate limit, a used-up quota,
    network, silence …), never for those that are ours (a wrong key, a bad request), and never once
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
        """The smallest: whoever answers must be able to read the history."""
        windows = [model.window for model in self._models if model.window is not None]
        return min(windows, default=None)

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
                yield Notice(f"{failure.message} Asking the next model.")
            finally:
                # Left at a yield, it would be closed later and elsewhere, with its connection.
                if stream is not None:
                    await close(stream)

    def _order(self, request: Request) -> list[Model]:
        """The model of this turn's last answer first, then in turn; those that just failed last."""
        names = [model.name for model in self._models]
        stay = request.stay_with
        start = names.index(stay) if stay in names else 0
        rotated = [*self._models[start:], *self._models[:start]]
        return sorted(rotated, key=lambda model: model.name in request.avoid)
