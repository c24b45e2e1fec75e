"""Overrides: substitutes for agents, and for their deps, while a block of a test runs.

They live in a context variable, so that tests that run at the same time do not see each other's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any, Final, TypeVar

from msgspec import Struct

T = TypeVar("T")


class Override(Struct, frozen=True):
    """Substitutes for an agent and for its deps."""

    agent: Any
    """The agent, kept so that no other object gets its id."""
    substitute: Any
    deps: Any
    """Deps of its runs and chats; None for those that they are given."""


_OVERRIDES: Final[ContextVar[Mapping[int, Override]]] = ContextVar(
    "holdfast overrides",
    default=MappingProxyType({}),
)
"""By id of the agent."""


def overridden(agent: T) -> T:
    """The substitute of an agent here, or the agent itself."""
    found = _OVERRIDES.get().get(id(agent))
    substitute: T = agent if found is None else found.substitute
    return substitute


def overridden_deps(agent: object, deps: Any = None) -> Any:
    """The deps that an agent has here instead of those given."""
    found = _OVERRIDES.get().get(id(agent))
    return deps if found is None or found.deps is None else found.deps


@contextmanager
def override(agent: T, substitute: T, deps: Any = None) -> Iterator[T]:
    """Within the block, `overridden(agent)` is `substitute`, and its deps are `deps` if given."""
    deps = overridden_deps(agent) if deps is None else deps
    added = {id(one): Override(one, substitute, deps) for one in (agent, substitute)}
    token = _OVERRIDES.set(MappingProxyType({**_OVERRIDES.get(), **added}))
    try:
        yield substitute
    finally:
        _OVERRIDES.reset(token)
