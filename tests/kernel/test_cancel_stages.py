"""A call that is stopped on its way is cancelled there: nothing on the way keeps that to itself."""

from __future__ import annotations

import asyncio
from typing import Any, Final, Literal, get_args

import pytest

from holdfast import Tool
from holdfast.hooks import Context
from holdfast.kernel.call_admission import Proceed
from holdfast.kernel.events import RunEnded
from holdfast.kernel.tool import Values
from holdfast.messages import ToolCall
from holdfast.testing import ScriptedModel, call
from tests.kernel.runs import events_of, only
from tests.kernel.toolkit import agent_for, outcomes, progress

Point = Literal["validate", "gate", "preview", "middleware", "function"]
POINTS: Final = get_args(Point)
BEGUN: Final = ("middleware", "function")
"""Points at which a call has begun, so that a history needs to tell what became of it."""


class SlowCall:
    """A call that takes long at one point."""

    def __init__(self, at: Point) -> None:
        self.at = at
        self.cancelled = 0
        """How often the call was cancelled at that point."""
        self.called = 0
        """How often its function was."""

    @property
    def tool(self) -> Tool:
        async def work() -> str:
            self.called += 1
            await self._pass("function")
            return "worked"

        async def validate(values: Values) -> None:
            await self._pass("validate")

        async def preview(values: Values) -> str:
            await self._pass("preview")
            return "a preview"

        return Tool(
            name="work",
            function=work,
            schema={"type": "object", "properties": {}},
            validate=validate if self.at == "validate" else None,
            preview=preview if self.at == "preview" else None,
        )

    @property
    def hooks(self) -> dict[str, Any]:
        async def gate(_context: Context, call: ToolCall, values: Values) -> None:
            await self._pass("gate")

        async def middleware(
            _context: Context, call: ToolCall, values: Values, proceed: Proceed
        ) -> object:
            await self._pass("middleware")
            return await proceed()

        return {"gate": gate, "middleware": [middleware]}

    async def _pass(self, point: Point) -> None:
        if point == self.at:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                self.cancelled += 1
                raise

    def check(self) -> None:
        assert self.cancelled == 1
        assert self.called == (1 if self.at == "function" else 0)


@pytest.mark.parametrize("at", POINTS)
async def test_a_call_that_is_interrupted_anywhere_on_its_way_is_interrupted_and_no_more(
    at: Point,
) -> None:
    slow = SlowCall(at)
    agent = agent_for([call("work"), "Late."], slow.tool, **slow.hooks)
    run = agent.run("Go.")
    watching = asyncio.create_task(events_of(run))
    await asyncio.sleep(1)
    run.interrupt()
    result = await run
    assert (result.reason, outcomes(result.history)) == ("interrupted", ["interrupted"])
    assert progress(await watching) == []
    slow.check()


@pytest.mark.parametrize("at", POINTS)
async def test_a_run_that_is_cancelled_anywhere_on_the_way_of_a_call_ends_as_cancelled(
    at: Point,
) -> None:
    slow, model = SlowCall(at), ScriptedModel([call("work"), "Late."])
    run = agent_for((), slow.tool, **slow.hooks).replace(model=model).run("Go.")

    async def outcome() -> object:
        return await run

    watching, task = asyncio.create_task(events_of(run)), asyncio.create_task(outcome())
    await asyncio.sleep(1)
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    (ended,) = only(RunEnded, await watching)
    assert ended.failure is not None
    assert (ended.reason, ended.failure.kind) == ("error", "cancelled")
    assert len(model.requests) == 1
    assert outcomes(run.history) == (["interrupted"] if at in BEGUN else [])
    slow.check()
