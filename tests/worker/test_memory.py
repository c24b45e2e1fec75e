"""What a runner held is free when it ends, without waiting for the garbage collector."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any
from weakref import WeakSet

import anyio
import pytest

from holdfast.kernel.assemble import Assembly
from holdfast.kernel.history import History
from holdfast.observe.metrics import MetricRegistry
from holdfast.observe.metrics_observer import MetricsObserver
from holdfast.store.database import Database
from holdfast.testing import Clock, call, fail, hang, say
from holdfast.worker.runner import Runner
from tests.worker.test_deps import ONE_RETRY, Provider, Shop, shop_name
from tests.worker.test_long_chats import act, both, look
from tests.worker.workers import Life, living

TURNS = 5


class Living:
    """The instances of a class that were made since and are still there."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kinds: tuple[type, ...]) -> None:
        self._live: WeakSet[Any] = WeakSet()
        for kind in kinds:
            init: Callable[..., None] = getattr(kind, "__init__")  # noqa: B009
            monkeypatch.setattr(kind, "__init__", self._counting(init))

    def _counting(self, init: Callable[..., None]) -> Callable[..., None]:
        def counted(made: Any, *args: Any, **more: Any) -> None:
            self._live.add(made)
            init(made, *args, **more)

        return counted

    @property
    def kinds(self) -> list[str]:
        return sorted(type(one).__name__ for one in self._live)


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch) -> Iterator[Living]:
    """Runners, histories and answers that are there. Only reference counts free anything."""
    gc.collect()
    gc.disable()
    yield Living(monkeypatch, (Runner, History, Assembly))
    gc.enable()


async def turns(life: Life) -> None:
    for _ in range(TURNS):
        chat_id = await life.begin()
        await life.rest(chat_id)
    await anyio.sleep(0.1)


SCRIPTS: dict[str, list[Any]] = {
    "an answer": ["done"],
    "calls": [
        call("look"),
        call("act"),
        [call("both", seconds=1), call("both", seconds=2)],
        "done",
    ],
    "a retry": [fail(status=429), "done"],
    "an error": [fail(status=400)],
}


@pytest.mark.parametrize("script", SCRIPTS)
async def test_nothing_of_a_finished_turn_stays_in_memory(
    db: Database, clock: Clock, live: Living, script: str
) -> None:
    observer = MetricsObserver(MetricRegistry())
    tools = [look, act, both]
    async with living(db, SCRIPTS[script] * TURNS, tools, clock=clock, observer=observer) as life:
        await turns(life)
        assert live.kinds == []


@pytest.mark.parametrize("failing", [0, 1, 2])
async def test_nothing_of_a_turn_with_deps_stays_in_memory(
    db: Database, clock: Clock, live: Living, failing: int
) -> None:
    provider = Provider()
    script = [call("shop_name"), "Tea."] * TURNS
    async with living(
        db, script, [shop_name], clock=clock, deps_type=Shop, deps=provider, policy=ONE_RETRY
    ) as life:
        for _ in range(TURNS):
            provider.failing = failing
            await life.rest(await life.begin())
        await anyio.sleep(0.1)
        assert live.kinds == []
    assert provider.events.count("opens") == TURNS * min(failing + 1, 2)


async def test_nothing_of_an_interrupted_turn_stays_in_memory(
    db: Database, clock: Clock, live: Living
) -> None:
    script = [[say("I was about"), hang()], [call("both", seconds=60)]] * TURNS
    async with living(db, script, [both], clock=clock) as life:
        for _ in range(2 * TURNS):
            chat_id = await life.begin()
            await anyio.sleep(0.5)
            await life.interrupted(chat_id)
        await anyio.sleep(0.1)
        assert live.kinds == []
