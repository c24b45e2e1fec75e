"""What the loop demands of a model, as cases that any model can be run through.

    @pytest.mark.parametrize("case", conformance.CASES, ids=str)
    async def test_my_model(case: conformance.Case) -> None:
        await case.check(make)

`make(script)` gives a model that talks to something which plays that script, one turn for each
request: a `FakeProvider` in memory, a server, or nothing at all. It may also give an async context
manager, for what has to be closed, and a `Subject`, for what can be looked at. A model that cannot
do something says so, and the cases that need it are left out by name: `cases(without={"files"})`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, get_args

from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel.errors import ConfigError, describe
from holdfast.testing.conformance import answers, cancellation, failures, requests
from holdfast.testing.conformance.bench import Bench, Feature, ModelFactory, ModelOrSubject, Subject
from holdfast.testing.conformance.case import Case

__all__ = [
    "CASES",
    "Bench",
    "Case",
    "Feature",
    "ModelFactory",
    "ModelOrSubject",
    "Report",
    "Subject",
    "cases",
    "check_all",
]

CASES: Final[tuple[Case, ...]] = (
    *answers.CASES,
    *failures.CASES,
    *cancellation.CASES,
    *requests.CASES,
)


def cases(*, without: Collection[Feature] = ()) -> tuple[Case, ...]:
    """The cases for a model that cannot do some things."""
    lacks = frozenset([without] if isinstance(without, str) else without)
    unknown = lacks - set(get_args(Feature))
    if unknown:
        features = ", ".join(get_args(Feature))
        raise ConfigError(f"no case needs {', '.join(sorted(unknown))}: use some of {features}")
    return tuple(replace(case, without=lacks) for case in CASES if not case.needs & lacks)


class Report(Struct, frozen=True):
    """Which cases a model passed, by name, and which nobody asked of it."""

    passed: tuple[str, ...]
    left_out: tuple[str, ...]


async def check_all(make: ModelFactory, *, without: Collection[Feature] = ()) -> Report:
    """Run every case, and raise one `AssertionError` with all that was found."""
    selected = cases(without=without)
    problems: list[str] = []
    for case in selected:
        try:
            await case.check(make)
        except AssertionError as error:
            problems.append(f"{case}: {error}")
        except Exception as error:  # a mistake in the maker, or where the model is looked at
            problems.append(f"{case}: {describe(error)}")
    if problems:
        raise AssertionError(
            f"{len(problems)} of {len(selected)} cases\n\n" + "\n\n".join(problems)
        )
    names = tuple(case.name for case in selected)
    return Report(names, tuple(case.name for case in CASES if case.name not in names))
