"""Trying points, and saying of one that fails how to try it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import pytest

from holdfast.testing import Clock
from tests.worker.crash.checks import is_one_of
from tests.worker.crash.databases import Arena
from tests.worker.crash.play import Life, Played, Scenario, play
from tests.worker.crash.points import Kind, lives_of, points, some
from tests.worker.crash.scenarios import SCENARIOS

STRIDE: Final[Mapping[str, Mapping[Kind, int]]] = {
    "sqlite": {
        "site": 9,
        "step": 7,
        "twice": 61,
        "stop": 31,
        "drain": 31,
        "unheard": 7,
        "unsaved": 7,
        "outage": 11,
        "deaf": 1,
        "echoes": 3,
    },
    "postgres": {
        "site": 211,
        "step": 151,
        "twice": 401,
        "stop": 211,
        "drain": 211,
        "unheard": 61,
        "unsaved": 61,
        "outage": 101,
        "frost": 61,
        "deaf": 1,
        "echoes": 3,
    },
}
"""One point in so many is tried, so that all of it takes about a minute."""

cast = pytest.mark.parametrize(
    ("open_arena", "scenarios"),
    [
        *(pytest.param("sqlite", [one], id=f"sqlite-{one.name}") for one in SCENARIOS),
        pytest.param("postgres", SCENARIOS, id="postgres"),
    ],
    indirect=["open_arena"],
)
"""Each scenario on SQLite; all of them on one database of PostgreSQL, which takes long to open."""

_played: Final[dict[tuple[str, str], Played]] = {}


class Wrong(AssertionError):
    """A scenario did not end as it must."""


async def baseline(scenario: Scenario, arena: Arena, clock: Clock) -> Played:
    """How the scenario goes when nothing goes wrong. Played once for each kind of database."""
    key = (arena.name, scenario.name)
    if key not in _played:
        played = await play(scenario, arena, clock)
        if not is_one_of(played.proof.transcript, scenario.ends[:1]):
            raise Wrong(f"{scenario.name} on {arena.name}\n{_shown(played)}")
        _played[key] = played
    return _played[key]


async def try_some(
    kind: Kind,
    scenarios: Sequence[Scenario],
    arena: Arena,
    clock: Clock,
    *,
    every: bool = False,
) -> None:
    """Try points of a kind, in each scenario others."""
    found = [
        (scenario, point)
        for scenario in scenarios
        for point in points(kind, await baseline(scenario, arena, clock))
    ]
    stride = 1 if every else STRIDE[arena.name][kind]
    chosen = some(found, stride, SCENARIOS.index(scenarios[0]), arena.name)
    for scenario, point in chosen:
        lives = lives_of(point)
        played = await try_one(scenario, arena, clock, str(point), *lives)
        if kind in ALWAYS and arena.name == "sqlite":
            struck = lives[0].trouble.struck or len(played.sites) > len(lives)
            assert struck, f"{scenario.name} never comes by {point}"
    print(f"{arena.name}: {len(chosen)} of {len(found)} points of kind {kind}")


ALWAYS: Final[Sequence[Kind]] = ("site", "step", "unheard", "unsaved", "outage")
"""Where everything goes the same way each time, something does go wrong at each of these."""


async def try_one(
    scenario: Scenario, arena: Arena, clock: Clock, point: str, *lives: Life
) -> Played:
    again = f"HOLDFAST_CRASH={scenario.name}:{arena.name}:{point}"
    try:
        played = await play(scenario, arena, clock, *lives)
    except Exception as error:
        why = "\n".join(f"{type(one).__name__}: {one}" for one in _leaves(error))
        raise Wrong(f"{again}\n{why}") from error
    if not is_one_of(played.proof.transcript, scenario.ends):
        raise Wrong(f"{again}\nno right end:\n{_shown(played)}")
    return played


def _leaves(error: BaseException) -> list[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for one in error.exceptions for leaf in _leaves(one)]


def _shown(played: Played) -> str:
    return "\n".join(f"    {line}" for line in played.proof.transcript)
