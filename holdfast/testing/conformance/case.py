"""A conformance case: one requirement for a model, and the code that checks it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from msgspec import Struct

from holdfast.testing.conformance.bench import Bench, Feature, ModelFactory
from holdfast.testing.leaks import no_leaked_tasks

Check: TypeAlias = Callable[[Bench], Awaitable[None]]


class Case(Struct, frozen=True):
    """One demand. `str(case)` is its name, as pytest wants it for `ids=str`."""

    name: str
    demand: str
    """What every model has to do, in a sentence."""
    needs: frozenset[Feature]
    run: Check
    without: frozenset[Feature] = frozenset()
    """What the model under test said it cannot do."""

    async def check(self, make: ModelFactory) -> None:
        """Raise `AssertionError` unless the model that `make` gives meets the demand."""
        try:
            async with no_leaked_tasks():
                await self.run(Bench(make, self.without))
        except AssertionError as error:
            raise AssertionError(f"{self.demand}\n{error}") from error

    def __str__(self) -> str:
        return self.name


def case(*needs: Feature) -> Callable[[Check], Case]:
    """Make a case of a function: its name is the name, its docstring the demand."""

    def made(check: Check) -> Case:
        demand = " ".join((check.__doc__ or "").split())
        return Case(check.__name__, demand, frozenset(needs), check)

    return made
