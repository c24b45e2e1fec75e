"""The model of a name, as `provider:model`, for an agent or a `Fallback` that is given one.

The only import upwards, inside a function: with a model object, no provider is imported.
"""

from __future__ import annotations

from holdfast.kernel.model import Model


def named_model(name: str) -> Model:
    from holdfast.providers.model_factory import model

    return model(name)
