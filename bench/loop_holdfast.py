"""Measures our loop: a streamed answer, one tool call per step, every event read."""

from __future__ import annotations

from collections.abc import AsyncIterator

from bench.measure import Steps, measure_steps
from holdfast import Agent, tool
from holdfast.kernel.events import RunEnded
from holdfast.kernel.limits import Limits
from holdfast.kernel.model import (
    ArgumentsDelta,
    CallEnded,
    CallStarted,
    Delta,
    Finished,
    Request,
    TextDelta,
)

STEPS = Steps()


class Fake:
    name = "fake:model"
    window = None

    async def stream(self, request: Request) -> AsyncIterator[Delta]:
        if STEPS.asked < STEPS.wanted:
            STEPS.asked += 1
            call_id = f"c{STEPS.asked}"
            yield CallStarted(call_id, "tick")
            yield ArgumentsDelta(call_id, '{"x": 1}')
            yield CallEnded(call_id)
            yield Finished("tool_calls")
        else:
            yield TextDelta("done")
            yield Finished()


@tool
async def tick(x: int) -> str:
    """Tick."""
    STEPS.ran += 1
    return "ok"


AGENT = Agent(model=Fake(), tools=[tick], limits=Limits())


async def run(size: int) -> int:
    STEPS.begin(size)
    event: object = None
    running = AGENT.run("go")
    async for event in running:  # noqa: B007  (the last one is checked)
        pass
    assert isinstance(event, RunEnded)
    assert event.reason == "stop"
    assert len(running.history) == 2 * size + 2
    return STEPS.ran


if __name__ == "__main__":
    measure_steps("holdfast", run)
