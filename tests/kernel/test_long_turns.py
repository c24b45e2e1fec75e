"""A turn is compacted as often as it needs."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from holdfast import Agent, Limits
from holdfast.testing import ports
from tests.kernel.long_turns import POLICY, TOOLS, WINDOW, LongTurn

STEPS = 3_000


async def test_a_turn_of_thousands_of_steps_comes_to_its_end() -> None:
    turn = LongTurn(STEPS)
    agent = Agent(model=turn.model(), tools=TOOLS, limits=Limits(), policy=POLICY, ports=ports())
    result = await agent.run("Go through all of it.")
    assert (result.reason, result.text) == ("stop", "Done.")
    assert result.summary.steps == STEPS + 1
    assert turn.summaries > 100
    assert max(turn.sizes) <= WINDOW
    assert max(turn.lengths[-500:]) <= max(turn.lengths[:500])


class Calls:
    """Functions of ours that were called between two requests for an answer."""

    def __init__(self) -> None:
        self.counts: list[int] = []
        self._count = 0

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        if event == "call" and "holdfast/kernel" in frame.f_code.co_filename:
            self._count += 1

    def mark(self) -> None:
        self.counts.append(self._count)
        self._count = 0


async def test_the_last_steps_of_a_long_turn_cost_no_more_than_the_first() -> None:
    calls, turn = Calls(), LongTurn(STEPS)
    model, mark = turn.model(), calls.mark
    stream = model.stream

    def marked(request: Any) -> Any:
        model.requests.clear()
        mark()
        return stream(request)

    model.stream = marked  # type: ignore[method-assign]
    agent = Agent(model=model, tools=TOOLS, limits=Limits(), policy=POLICY, ports=ports())
    sys.setprofile(calls)
    try:
        await agent.run("Go through all of it.")
    finally:
        sys.setprofile(None)
    first, last = calls.counts[50:550], calls.counts[-500:]
    assert sum(last) <= 1.05 * sum(first)
    assert max(last) <= 1.2 * max(first)  # also of the steps that compact
