"""Labels that tell models of one name apart: of two keys, two addresses, two sets of options."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from holdfast.kernel.errors import ConfigError
from holdfast.kernel.model import Delta, Model, Request


class LabelledModel:
    """A model with a label at the end of its name: `openai:gpt-5.1#cheap`."""

    def __init__(self, model: Model, label: str) -> None:
        if not isinstance(label, str) or not label.strip() or not label.isprintable():
            raise ConfigError(f"label is {label!r}: use a word, such as 'cheap'")
        self._model = model
        self.name = f"{model.name}#{label}"

    def __repr__(self) -> str:
        return f"LabelledModel({self.name!r})"

    def __getattr__(self, attribute: str) -> Any:
        """Optional attributes of the model itself, such as `efforts` and `profile`."""
        if attribute == "_model":  # a copy that is not complete yet
            raise AttributeError(attribute)
        return getattr(self._model, attribute)

    @property
    def window(self) -> int | None:
        return self._model.window

    def stream(self, request: Request) -> AsyncIterator[Delta]:
        return self._model.stream(request)


def by_label(models: Iterable[Model]) -> Mapping[str, Model]:
    """The models by name; of equal names, the second one ends in `#2`."""
    named: dict[str, Model] = {}
    for model in models:
        name, number = model.name, 1
        while name in named:
            number += 1
            name = f"{model.name}#{number}"
        named[name] = model
    return MappingProxyType(named)
