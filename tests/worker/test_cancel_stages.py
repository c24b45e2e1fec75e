"""A call that is stopped on its way is cancelled there, and the chat knows no more than that."""

from __future__ import annotations

import anyio
import pytest

from holdfast.store.database import Database
from holdfast.testing import Clock, ScriptedModel, call
from holdfast.worker.options import WorkerOptions
from tests.kernel.test_cancel_stages import POINTS, Point, SlowCall
from tests.worker.workers import living, results_of


@pytest.mark.parametrize("at", POINTS)
async def test_a_call_that_is_interrupted_anywhere_on_its_way_is_interrupted_and_no_more(
    db: Database, clock: Clock, at: Point
) -> None:
    slow, model = SlowCall(at), ScriptedModel([call("work"), "Late."])
    async with living(db, model, [slow.tool], clock=clock, **slow.hooks) as life:
        chat_id = await life.begin()
        await anyio.sleep(1)
        await life.interrupted(chat_id)
        assert [one.outcome for one in results_of(await life.history(chat_id))] == ["interrupted"]
        assert len(model.requests) == 1
    slow.check()


@pytest.mark.parametrize("at", POINTS)
async def test_a_worker_that_stops_anywhere_on_the_way_of_a_call_ends_it_without_a_result(
    db: Database, clock: Clock, at: Point
) -> None:
    slow, model = SlowCall(at), ScriptedModel([call("work"), "Late."])
    options = WorkerOptions(grace=2)
    async with living(db, model, [slow.tool], clock=clock, options=options, **slow.hooks) as life:
        chat_id = await life.begin()
        await anyio.sleep(1)
        await life.stop()
        assert results_of(await life.history(chat_id)) == []
        assert len(model.requests) == 1
        assert (await life.chat(chat_id)).worker_id is None
    slow.check()
