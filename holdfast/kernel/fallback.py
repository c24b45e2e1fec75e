"""Fallback: several models as one. The next is called if one fails before its first delta."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from holdfast.kernel.entry_point import entry_point
from holdfast.kernel.errors import ConfigError, classify
from holdfast.kernel.labelled_model import by_label
from holdfast.kernel.model import (
    Delta,
    Effort,
    Model,
    Notice,
    Opened,
    Ping,
    Request,
    check_model,
    check_usable,
    close,
    is_priced,
    known_efforts,
)
from holdfast.kernel.named_model import named_model


class Fallback:
    """A model that calls the first of several that works, and keeps to it for the rest of the turn.

    It moves to the next after failures that another model may not have (overload, rate limit, used
    up quota, network, silence …), never after our own (a wrong key, a bad request), and never once
    a delta was shown.

    A name stands for `holdfast.model(name)`. In the history, the second of two models with one name
    is called `name#2`; `holdfast.model(name, label="…")` gives it a label of your own.
    """

    @entry_point("Fallback")
    def __init__(self, models: Sequence[Model | str]) -> None:
        if isinstance(models, str) or not isinstance(models, Sequence) or not models:
            raise ConfigError("Fallback needs models in a list: Fallback([first, second])")
        resolved = [named_model(one) if isinstance(one, str) else one for one in models]
        for model in resolved:
            check_model(model)
        self._models = tuple(resolved)
        self._by_label = by_label(resolved)

    @property
    def name(self) -> str:
        return self._models[0].name

    def check_usable(self) -> None:
        """Raise `ConfigError` if one of the models has no key."""
        for model in self._models:
            check_usable(model)

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

    @property
    def priced(self) -> bool:
        """Whether the price of each model is known."""
        return all(is_priced(model) for model in self._models)

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        order = self._order(request)
        for label in order:
            model = self._by_label[label]
            yield Opened(label)
            shown = False
            stream: AsyncIterator[Delta] | None = None
            try:
                stream = model.stream(request)
                async for delta in stream:
                    shown = shown or not isinstance(delta, (Ping, Opened, Notice))
                    yield delta
                return
            except Exception as error:
                failure = classify(error, label)
                if shown or not failure.failover or label == order[-1]:
                    raise
                yield Notice(f"{failure.message} Trying the next model.")
            finally:
                # Otherwise the stream and its connection would be closed later and elsewhere.
                if stream is not None:
                    await close(stream)

    def _order(self, request: Request) -> list[str]:
        """The model of this turn's last answer first, then in order; failed ones last."""
        labels = list(self._by_label)
        stay = request.stay_with
        start = labels.index(stay) if stay in labels else 0
        rotated = [*labels[start:], *labels[:start]]
        return sorted(rotated, key=lambda label: label in request.avoid)
