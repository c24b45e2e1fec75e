"""Whether a turn may end: the form of its last answer, the guard, and what an interrupt leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import anyio

from holdfast.kernel import guard
from holdfast.kernel.errors import ContentFiltered, Escalated, InvalidOutput, classify
from holdfast.kernel.history import History
from holdfast.kernel.inbox import Interruption
from holdfast.kernel.messages import Message
from holdfast.kernel.outcome import Failed
from holdfast.kernel.output import Fits, Repair, judge
from holdfast.kernel.policy import Wording
from holdfast.kernel.prepare import model_of
from holdfast.kernel.turn import Turn

if TYPE_CHECKING:
    from holdfast.agent import Agent

NO_OUTPUT: Final = Fits(None)


def check_output(agent: Agent, history: History, reason: str) -> Fits | Repair:
    """Whether the last answer is what was asked for. Only an answer in words can be."""
    form, turn = agent.form, history.turn
    if form is None or reason != "stop":
        return NO_OUTPUT
    answer = history.last_answer()
    if answer is not None and answer.finish == "content_filter":
        # Asked again, it would refuse again.
        raise ContentFiltered("the answer was filtered, and has not the form asked for")
    try:
        return judge(form, history.messages, turn.repairs, agent.policy)
    except InvalidOutput as error:
        raise Failed(classify(error, turn.model or model_of(agent).name)) from error


async def objection(
    agent: Agent,
    history: History,
    reason: Literal["stop", "stop_after_tool"],
    output: Any,
    interruption: Interruption,
) -> str | None:
    """What the stop guard wants the model to be told instead of stopping, if anything."""
    asked = agent.guard
    if asked is None:
        return None
    about = guard.Stopping(history.turn.steps, history.last_answer(), reason, output)
    timeout = agent.policy.guard_timeout
    verdict: guard.GuardVerdict
    verdict = guard.Escalate(f"the stop guard took longer than {timeout:g} s")
    with anyio.move_on_after(timeout) as scope, interruption.stops(scope.cancel):
        verdict = await guard.ask(asked, about)
    if interruption.requested:
        return None
    if isinstance(verdict, guard.Escalate):
        raise Escalated(verdict.reason)
    return (verdict.text or None) if isinstance(verdict, guard.Inject) else None


def interruption_marker(
    wording: Wording, turn: Turn, answer: Message | None, *, asking: bool
) -> str:
    """What the model is told, or nothing when a complete answer was all there was to stop.

    `turn` and `answer` are as the history ends; `asking` says that the model was being asked.
    """
    if asking or turn.last == "prompt":
        return wording.interrupted_answer
    if answer is None or answer.finish == "interrupted":
        return wording.interrupted_answer
    return wording.interrupted_tools if turn.last == "results" or turn.open else ""
