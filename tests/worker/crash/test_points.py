"""Die anywhere, and come back: nothing is lost, nothing is done twice, everything comes to rest.

Not every point there is each time, but `HOLDFAST_CRASH=all` is: see points.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import pytest
from msgspec.structs import replace

from holdfast.testing import Clock, run_virtual
from tests.worker.crash.databases import Arena, SqliteArena
from tests.worker.crash.play import Life, Scenario, play
from tests.worker.crash.points import DeathAtFirst, Kind, Point, lives_of
from tests.worker.crash.report import baseline, cast, try_one, try_some
from tests.worker.crash.scenarios import SCENARIOS
from tests.worker.crash.sites import KNOWN, Phase


@cast
async def test_a_process_may_die_at_any_statement(
    scenarios: Sequence[Scenario], arena: Arena, clock: Clock
) -> None:
    await try_some("site", scenarios, arena, clock)


@cast
async def test_a_process_may_die_at_any_await(
    scenarios: Sequence[Scenario], arena: Arena, clock: Clock
) -> None:
    await try_some("step", scenarios, arena, clock)


@cast
async def test_the_next_process_may_die_too(
    scenarios: Sequence[Scenario], arena: Arena, clock: Clock
) -> None:
    await try_some("twice", scenarios, arena, clock)


@cast
async def test_a_process_may_be_told_to_go_at_any_await(
    scenarios: Sequence[Scenario], arena: Arena, clock: Clock
) -> None:
    await try_some("stop", scenarios, arena, clock)
    await try_some("drain", scenarios, arena, clock)


@pytest.mark.parametrize("open_arena", ["postgres"], indirect=True)
async def test_a_process_that_was_taken_for_dead_writes_nothing_when_it_wakes_up(
    arena: Arena, clock: Clock
) -> None:
    await try_some("frost", SCENARIOS, arena, clock)


@pytest.mark.parametrize(
    ("open_arena", "kind", "name"),
    [
        ("sqlite", "drain", "pure"),  # a call that a stream had begun went on without its process
        ("sqlite", "stop", "plain"),  # what was being claimed belonged to one who had left
        ("sqlite", "step", "expired"),  # a timer that fired early was set again and again
    ],
    indirect=["open_arena"],
)
async def test_points_that_have_found_something_are_all_tried(
    kind: Kind, name: str, arena: Arena, clock: Clock
) -> None:
    await try_some(kind, [one for one in SCENARIOS if one.name == name], arena, clock, every=True)


@pytest.mark.parametrize("phase", get_args(Phase))
async def test_every_site_has_a_name_and_some_process_dies_there(
    phase: Phase, arena: Arena, clock: Clock
) -> None:
    left = {name for name in KNOWN if name.endswith(f" {phase}")}
    for scenario in SCENARIOS:
        for site in (await baseline(scenario, arena, clock)).sites[0]:
            assert site.name in KNOWN, f"{site} is new: name it"
            if site.name in left:
                left.discard(site.name)
                point = Point("site", site.number)
                await try_one(scenario, arena, clock, str(point), *lives_of(point))
    assert not left, "no scenario passes these"


async def test_a_chat_that_kills_whoever_claims_it_is_parked(arena: Arena, clock: Clock) -> None:
    scenario = next(one for one in SCENARIOS if one.name == "plain")
    # Each dies when the answer is about to be kept: nothing was committed since the claim.
    lives = [Life(trouble=DeathAtFirst("runner.write_partial statement")) for _ in range(3)]
    parked = replace(scenario, ends=[["= error error poison", "prompt Hi"]])
    await try_one(parked, arena, clock, "poison", *lives)


@pytest.mark.parametrize("name", ["overloaded", "empty", "edit_whole_answer", "compact"])
async def test_every_attempt_that_came_to_its_end_is_counted(
    name: str, arena: Arena, clock: Clock
) -> None:
    scenario = next(one for one in SCENARIOS if one.name == name)
    assert (await baseline(scenario, arena, clock)).proof.free == 0


def test_a_partial_answer_is_kept_whoever_runs_the_event_loop(tmp_path: Path) -> None:
    async def main() -> None:
        clock = Clock()
        played = await play(SCENARIOS[0], SqliteArena(tmp_path, clock), clock)
        assert "runner.write_partial committed" in {site.name for site in played.sites[0]}

    run_virtual(main())
