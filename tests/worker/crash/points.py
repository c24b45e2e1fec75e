"""Where to let things go wrong: every place there is, or, to be quick, some of each kind.

HOLDFAST_CRASH=all                      every point: add --timeout=0
HOLDFAST_CRASH=once:sqlite:site-63      this one again
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal

import anyio
from msgspec import Struct

from holdfast.store.database import (
    Changed,
    ChangeNotice,
    Claimable,
    NoticesLost,
    OutcomeUnknown,
    Unavailable,
)
from tests.worker.crash.play import Life, Played, Scenario
from tests.worker.crash.sites import Site, Trouble

Kind = Literal[
    "site",
    "step",
    "twice",
    "stop",
    "drain",
    "unheard",
    "unsaved",
    "outage",
    "frost",
    "deaf",
    "echoes",
]
WISH: Final = os.environ.get("HOLDFAST_CRASH", "")


class Point(Struct, frozen=True):
    """What goes wrong, and when."""

    kind: Kind
    number: int

    def __str__(self) -> str:
        return f"{self.kind}-{self.number}"


# --- What goes wrong ------------------------------------------------------------------------------


class Struck(Trouble):
    """Something happens at one site."""

    def __init__(self, number: int) -> None:
        self._number = number

    def site(self, site: Site) -> None:
        if site.number == self._number:
            self.struck = True
            self.strike()

    def strike(self) -> None:
        raise NotImplementedError


class Death(Struck):
    """The process dies there."""

    def strike(self) -> None:
        self.die()


class DeathAtFirst(Trouble):
    """The process dies at the first site of this name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def site(self, site: Site) -> None:
        if site.name == self._name:
            self.die()


class LostAnswer(Struck):
    """Nobody hears what became of a transaction: of one that is committed, or of one that is not,
    as the site has it."""

    def strike(self) -> None:
        raise OutcomeUnknown("the connection was lost")


class Outage(Trouble):
    """The database is away: for a few calls, or for longer than any lease."""

    def __init__(self, first: int) -> None:
        self._first = first
        self._calls = 3 if first % 2 else None
        self._until: float | None = None

    async def call(self, number: int) -> None:
        if number < self._first:
            return
        now = asyncio.get_running_loop().time()
        if self._until is None:
            self._until = now + 40
        over = now >= self._until if self._calls is None else number >= self._first + self._calls
        if not over:
            self.struck = True
            raise Unavailable("the database is away")


class Frost(Trouble):
    """The process freezes before a call, and goes on when somebody else has done its work."""

    def __init__(self, first: int) -> None:
        self._first = first
        self._thawed = anyio.Event()

    async def call(self, number: int) -> None:
        if number == self._first:
            self.freeze()
        if number >= self._first:
            await self._thawed.wait()

    def thaw(self) -> None:
        self._thawed.set()


class Deaf(Trouble):
    """No notice ever comes."""

    def hear(self, notice: ChangeNotice, hear: Callable[[ChangeNotice], None]) -> None:
        pass


class Echoes(Trouble):
    """Every notice comes three times: late, later, and as something else."""

    def __init__(self, seed: int) -> None:
        self._heard = seed

    def hear(self, notice: ChangeNotice, hear: Callable[[ChangeNotice], None]) -> None:
        self._heard += 1
        loop = asyncio.get_running_loop()
        for delay, said in zip((0.0, 0.3, 1.1), _variations(notice), strict=True):
            loop.call_later(delay * (1 + self._heard % 3), hear, said)


def _variations(notice: ChangeNotice) -> tuple[ChangeNotice, ChangeNotice, ChangeNotice]:
    match notice:
        case Changed(chat, version):
            return notice, Changed(chat, max(1, version - 1)), Claimable(chat)
        case _:
            return notice, NoticesLost(), notice


# --- Lives ----------------------------------------------------------------------------------------


def lives_of(point: Point) -> Sequence[Life]:
    """How the first processes fare when this goes wrong; the others fare well."""
    number = point.number
    match point.kind:
        case "site":
            return (Life(trouble=Death(number)),)
        case "step":
            return (Life(die_at=number),)
        case "twice":  # the next one dies too, somewhere in what it does about it
            return Life(trouble=Death(number)), Life(die_at=10 + 7 * number % 60)
        case "stop":
            return (Life(leave_at=number),)
        case "drain":
            return (Life(leave_at=number, grace=30),)
        case "unheard" | "unsaved":
            return (Life(trouble=LostAnswer(number)),)
        case "outage":
            return (Life(trouble=Outage(number)),)
        case "frost":
            return (Life(trouble=Frost(number)),)
        case "deaf":
            return (Life(trouble=Deaf()),)
        case "echoes":
            return (Life(trouble=Echoes(number)),)


# --- Which of them --------------------------------------------------------------------------------


def points(kind: Kind, played: Played) -> list[Point]:
    """Every point of a kind, in the first life of a run in which nothing went wrong."""
    sites = played.sites[0]
    # A process that does not get its first word in does not begin at all.
    later = [site for site in sites if site.what != "claims.write_heartbeat"]
    match kind:
        case "site" | "twice":
            chosen: Iterable[int] = (site.number for site in sites)
        case "unheard":
            chosen = (site.number for site in later if site.phase == "committed")
        case "unsaved":
            chosen = (site.number for site in later if site.phase == "commit")
        case "step" | "stop" | "drain":
            chosen = range(1, played.steps[0] + 1)
        case "outage" | "frost":
            chosen = range(played.startup_calls + 1, played.calls[0] + 1)
        case "deaf":
            chosen = (1,)
        case "echoes":
            chosen = (1, 2, 3)
    return [Point(kind, number) for number in chosen]


def some(
    every: Sequence[tuple[Scenario, Point]], stride: int, first: int, database: str
) -> Sequence[tuple[Scenario, Point]]:
    """One in so many, or what the person at the keyboard wishes."""
    if WISH == "all":
        return every
    if WISH:
        return [
            (scenario, point)
            for scenario, point in every
            if f"{scenario.name}:{database}:{point}" == WISH
        ]
    return every[first % stride :: stride]
