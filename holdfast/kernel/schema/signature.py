"""The signature of a function: its parameters and their types, whatever sort of callable it is."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

from holdfast.kernel.errors import ConfigError


def parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError, NameError) as error:
        raise ConfigError(
            f"{name(function)} has no signature that can be read ({error}): "
            "wrap it in a function whose parameters are annotated"
        ) from None


def resolved(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    """The type of a parameter, also where the annotation is, or contains, a string."""

    def holder() -> None: ...

    holder.__annotations__ = {parameter.name: parameter.annotation}
    return get_type_hints(holder, *_scope(function), include_extras=True)[parameter.name]


def _scope(function: Callable[..., Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the annotations of a function may refer to: its globals, and what it closes over."""
    inner: Any = inspect.unwrap(behind(function, "__globals__"))
    if not hasattr(inner, "__code__"):
        inner = getattr(type(inner), "__call__", inner)  # noqa: B004
    try:
        return inner.__globals__, dict(inspect.getclosurevars(inner).nonlocals)
    except (AttributeError, TypeError, ValueError):  # not written in Python; or a cell still empty
        return getattr(inner, "__globals__", {}), {}


def name(function: Callable[..., Any]) -> str:
    """How people know the function."""
    named = behind(function, "__qualname__")
    return str(getattr(named, "__qualname__", type(named).__qualname__))


def behind(function: Callable[..., Any], attribute: str) -> Callable[..., Any]:
    """Whom to ask for an attribute: a partial that was given none has that of its function."""
    while isinstance(function, functools.partial) and attribute not in vars(function):
        function = function.func
    return function
