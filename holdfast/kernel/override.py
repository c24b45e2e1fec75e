"""Overrides: substitutes for agents while a block of a test runs.

They live in a context variable, so that tests that run at the same time do not see each other's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Final, TypeVar

T = TypeVar("T")

_OVERRIDES: Final[ContextVar[Mapping[int, tuple[Any, Any]]]] = ContextVar(
    "holdfast overrides",
    default=MappingProxyType({}),
)
"""By id of the agent: the agent, kept so that no other object gets its id, and its substitute."""


def overridden(agent: T) -> T:
    """The substitute of an agent here, or the agent itself."""
    overrides = _OVERRIDES.get()
    if not overrides:
        return agent
    substitute: T = overrides.get(id(agent), (agent, agent))[1]
    return substitute


@contextmanager
def override(agent: T, substitute: T) -> Iterator[T]:
    """Within the block, `overridden(agent)` is `substitute`."""
    token = _OVERRIDES.set(MappingProxyType({**_OVERRIDES.get(), id(agent): (agent, substitute)}))
    try:
        yield substitute
    finally:
        _OVERRIDES.reset(token)
