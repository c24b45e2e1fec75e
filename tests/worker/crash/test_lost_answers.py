"""The database is away, or does what it was asked and nobody hears of it; notices go astray."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.testing import Clock
from tests.worker.crash.databases import Arena
from tests.worker.crash.play import Scenario
from tests.worker.crash.report import cast, try_some


@cast
async def test_a_commit_that_nobody_heard_of_is_applied_once(
    scenarios: Sequence[Scenario], arena: Arena, clock: Clock
) -> None:
    await try_some("unheard", scenarios, arena, clock)


@cast
async def test_a_commit_that_failed_without_a_word_is_made_again(
    scenarios: Sequence[Scenario], arena: Arena, clock: Clock
) -> None:
    await try_some("unsaved", scenarios, arena, clock)


@cast
async def test_a_database_may_be_away_for_a_while(
    scenarios: Sequence[Scenario], arena: Arena, clock: Clock
) -> None:
    await try_some("outage", scenarios, arena, clock)


@cast
async def test_every_notice_may_be_lost(
    scenarios: Sequence[Scenario], arena: Arena, clock: Clock
) -> None:
    await try_some("deaf", scenarios, arena, clock)


@cast
async def test_notices_may_come_late_and_again_and_in_any_order(
    scenarios: Sequence[Scenario], arena: Arena, clock: Clock
) -> None:
    await try_some("echoes", scenarios, arena, clock)
