"""Conformance suite of workspaces: the contract of `Workspace`, as cases that any kind can run.

    @pytest.mark.parametrize("case", workspace_conformance.CASES, ids=str)
    async def test_my_workspace(case: workspace_conformance.WorkspaceCase) -> None:
        await case.check(make)

`make()` returns an empty workspace, or an async context manager that yields one.

- A case is one requirement; its docstring is the sentence that a failure shows.
- A kind declares the features that it lacks, and the cases that need them are left out:
  `cases(without={"commands"})`.

Read `case.py` first; the cases are in `files.py`, `links.py` and `commands.py`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, get_args

from holdfast.kernel.errors import ConfigError, describe
from holdfast.testing.workspace_conformance import commands, files, links
from holdfast.testing.workspace_conformance.case import (
    WorkspaceCase,
    WorkspaceFactory,
    WorkspaceFeature,
)

__all__ = ["CASES", "WorkspaceCase", "WorkspaceFactory", "WorkspaceFeature", "cases", "check_all"]

CASES: Final[tuple[WorkspaceCase, ...]] = (*files.CASES, *links.CASES, *commands.CASES)


def cases(*, without: Collection[WorkspaceFeature] = ()) -> tuple[WorkspaceCase, ...]:
    """The cases for a workspace without some features."""
    lacks = frozenset([without] if isinstance(without, str) else without)
    unknown = lacks - set(get_args(WorkspaceFeature))
    if unknown:
        features = ", ".join(get_args(WorkspaceFeature))
        raise ConfigError(f"no case needs {', '.join(sorted(unknown))}: use some of {features}")
    return tuple(case for case in CASES if not case.needs & lacks)


async def check_all(
    make: WorkspaceFactory, *, without: Collection[WorkspaceFeature] = ()
) -> tuple[str, ...]:
    """Run every case; returns the names of those passed, or raises one `AssertionError`."""
    selected = cases(without=without)
    problems: list[str] = []
    for case in selected:
        try:
            await case.check(make)
        except AssertionError as error:
            problems.append(f"{case}: {error}")
        except Exception as error:  # an error in the factory
            problems.append(f"{case}: {describe(error)}")
    if problems:
        raise AssertionError(
            f"{len(problems)} of {len(selected)} cases\n\n" + "\n\n".join(problems)
        )
    return tuple(case.name for case in selected)
