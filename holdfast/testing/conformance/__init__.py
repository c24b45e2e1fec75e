"""Conformance suite: what the loop requires of a model, as cases that any model can run.

    @pytest.mark.parametrize("case", conformance.CASES, ids=str)
    async def test_my_model(case: conformance.Case) -> None:
        await case.check(make)

`make(script)` returns a model that talks to something which plays that script, one turn per
request: a `FakeProvider`, a server, or nothing at all. It may also return an async context manager
that yields the model, and a `Subject`, which shows open connections and request bodies.

- A case is one requirement; its docstring is the sentence that a failure shows.
- An expected answer is what a `ScriptedModel` gives for the same script.
- A model declares what it cannot do, and the cases that need it are left out:
  `cases(without={"files"})`.

Nothing here is about one provider. Read `bench.py` first; the cases are in `answers.py`,
`requests.py`, `failures.py` and `cancellation.py`.
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
    """The cases for a model without some features."""
    lacks = frozenset([without] if isinstance(without, str) else without)
    unknown = lacks - set(get_args(Feature))
    if unknown:
        features = ", ".join(get_args(Feature))
        raise ConfigError(f"no case needs {', '.join(sorted(unknown))}: use some of {features}")
    return tuple(replace(case, without=lacks) for case in CASES if not case.needs & lacks)


class Report(Struct, frozen=True):
    """Names of the cases that a model passed, and of those that were left out."""

    passed: tuple[str, ...]
    left_out: tuple[str, ...]


async def check_all(make: ModelFactory, *, without: Collection[Feature] = ()) -> Report:
    """Run every case, and raise one `AssertionError` with all problems."""
    selected = cases(without=without)
    problems: list[str] = []
    for case in selected:
        try:
            await case.check(make)
        except AssertionError as error:
            problems.append(f"{case}: {error}")
        except Exception as error:  # an error in the factory, or in the subject's functions
            problems.append(f"{case}: {describe(error)}")
    if problems:
        raise AssertionError(
            f"{len(problems)} of {len(selected)} cases\n\n" + "\n\n".join(problems)
        )
    names = tuple(case.name for case in selected)
    return Report(names, tuple(case.name for case in CASES if case.name not in names))
