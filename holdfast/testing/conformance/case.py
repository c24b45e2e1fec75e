"""A conformance case: one requirement for a model, and the code that checks it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from msgspec import Struct

from holdfast.testing.conformance.bench import Bench, Feature, ModelFactory
from holdfast.testing.leaks import no_leaked_tasks

Check: TypeAlias = Callable[[Bench], Awaitable[None]]


class Case(Struct, frozen=True):
    """One requirement. `str(case)` is its name, as pytest wants it for `ids=str`."""

    name: str
    demand: str
    """The requirement, as a sentence."""
    needs: frozenset[Feature]
    run: Check
    without: frozenset[Feature] = frozenset()
    """Features that the model under test does not have."""

    async def check(self, make: ModelFactory) -> None:
        """Raise `AssertionError` unless the model that `make` returns meets the requirement."""
        try:
            async with no_leaked_tasks():
                await self.run(Bench(make, self.without))
        except AssertionError as error:
            raise AssertionError(f"{self.demand}\n{error}") from error

    def __str__(self) -> str:
        return self.name


def case(*needs: Feature) -> Callable[[Check], Case]:
    """Decorator that creates a case from a function: its name, and its docstring as requirement."""

    def made(check: Check) -> Case:
        demand = " ".join((check.__doc__ or "").split())
        return Case(check.__name__, demand, frozenset(needs), check)

    return made
