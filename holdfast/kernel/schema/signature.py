"""Signatures of functions: parameters and their types, for any kind of callable."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, get_type_hints

from holdfast.kernel.errors import ConfigError


def parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a callable. Raises `ConfigError` if its signature cannot be read."""
    try:
        return list(inspect.signature(function).parameters.values())
    except (ValueError, TypeError, NameError) as error:
        raise ConfigError(
            f"{name(function)} has no signature that can be read ({error}): "
            "wrap it in a function whose parameters are annotated"
        ) from None


def resolved(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    """The type of a parameter, even if its annotation is or contains a string."""

    def holder() -> None: ...

    holder.__annotations__ = {parameter.name: parameter.annotation}
    return get_type_hints(holder, *_scope(function), include_extras=True)[parameter.name]


def first_annotation(function: Callable[..., Any]) -> Any:
    """Annotation of the first parameter; as text if it cannot be resolved, None without one."""
    first = next(iter(parameters(function)), None)
    if first is None:
        return None
    annotation = first.annotation
    if isinstance(annotation, str):
        try:
            annotation = resolved(function, first)
        except Exception:  # it may be any expression; it is refused with the other arguments
            return annotation
    return getattr(annotation, "__value__", annotation)  # of a `type`


def _scope(function: Callable[..., Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Names that the annotations of a function may refer to: its globals and its closure."""
    inner: Any = inspect.unwrap(attribute_owner(function, "__globals__"))
    if not hasattr(inner, "__code__"):
        inner = getattr(type(inner), "__call__", inner)  # noqa: B004
    try:
        return inner.__globals__, dict(inspect.getclosurevars(inner).nonlocals)
    except (AttributeError, TypeError, ValueError):  # not written in Python; or a cell still empty
        return getattr(inner, "__globals__", {}), {}


def name(function: Callable[..., Any]) -> str:
    """Qualified name of a function, for error messages."""
    named = attribute_owner(function, "__qualname__")
    return str(getattr(named, "__qualname__", type(named).__qualname__))


def attribute_owner(function: Callable[..., Any], attribute: str) -> Callable[..., Any]:
    """The callable that has an attribute: a partial without its own has that of its function."""
    while isinstance(function, functools.partial) and attribute not in vars(function):
        function = function.func
    return function
