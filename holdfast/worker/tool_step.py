"""The tool step: runs calls. One with an effect is recorded in the journal before it starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from holdfast.chat.transitions.lifecycle import Write
from holdfast.chat.transitions.runner import Leftover
from holdfast.kernel.events import Action
from holdfast.kernel.messages import ToolCall, ToolResult
from holdfast.kernel.tool_execution import Batch
from holdfast.worker.step_scope import StepScope
from holdfast.worker.tool_calls import CallJournal


class ToolStepOutcome(Struct, frozen=True, gc=False, kw_only=True):
    """Outcome of a tool step: results to be committed, and actions to wait for."""

    results: tuple[ToolResult, ...] = ()
    waiting: tuple[Action, ...] = ()
    writes: Mapping[str, tuple[Write, ...]] = {}
    """Writes of calls with effect `commit`, by call id, to be committed with their results."""


async def tool_step(
    scope: StepScope, journal: CallJournal, batch: Batch, calls: Sequence[ToolCall]
) -> ToolStepOutcome:
    """Run calls of the last answer until each has a result or waits for an action."""
    scope.screen.open(scope.fenced.fence)
    interruption = scope.interruption
    interruption.stop = batch.interrupt  # `stops` is slower, on the path of every step
    try:
        outcome = await batch.run(calls)
    finally:
        interruption.stop = None
    await journal.drain()
    return ToolStepOutcome(
        results=tuple(outcome.results), waiting=tuple(outcome.waiting), writes=batch.writes
    )


async def discard(batch: Batch, leftover: Leftover, open_calls: Sequence[ToolCall]) -> Leftover:
    """Cancel the calls of a batch, and add the results of those that ran to `leftover`.

    Time is bounded: a tool that does not stop is abandoned after its grace period.
    """
    await batch.discard()
    calls = open_calls if leftover.answer is None else leftover.answer.calls
    have = {result.call_id for result in leftover.results}
    ran = tuple(result for result in batch.ran(calls) if result.call_id not in have)
    return replace(leftover, results=(*leftover.results, *without(batch.writes, ran)))


def without(writes: Mapping[str, object], results: Sequence[ToolResult]) -> tuple[ToolResult, ...]:
    """The results of calls without writes: the others are valid only with their writes."""
    if not writes:
        return tuple(results)
    return tuple(result for result in results if result.call_id not in writes)
