"""End of a turn: the check of the final answer, the stop guard, and the interruption marker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import anyio

from holdfast.kernel import answer, stop_guard
from holdfast.kernel.decide import EndOfTurn
from holdfast.kernel.errors import ContentFiltered, Escalated, InvalidOutput, classify
from holdfast.kernel.history import History
from holdfast.kernel.hook_context import Context
from holdfast.kernel.inbox import Interruption
from holdfast.kernel.limits import LimitReached
from holdfast.kernel.messages import MarkerKind, Message, note
from holdfast.kernel.output import Fits, Misfit, Repair, judge, spoken, value_in
from holdfast.kernel.output_check import rejection
from holdfast.kernel.prepare import model_of
from holdfast.kernel.result import Failed
from holdfast.kernel.turn import Turn

if TYPE_CHECKING:
    from holdfast.agent import Agent

NO_OUTPUT: Final = Fits(None)


async def check_output(
    agent: Agent, context: Context, history: History, reason: str, interruption: Interruption
) -> Fits | Repair:
    """Check the final answer against the output type and by `validate`, if the turn ends with one.

    Raises `PrepareError` if `validate` fails, and `Interrupted`.
    """
    form, turn = agent.form, history.turn
    if reason != "stop":
        return NO_OUTPUT
    if form is None and agent.validate is None:
        return Fits(answer.text(history.messages))
    last = history.last_answer()
    if last is not None and last.finish == "content_filter":
        # A repair would be filtered again.
        raise ContentFiltered("the answer was filtered and does not have the required form")
    verdict: Fits | Misfit
    if form is None:
        verdict = Fits(answer.text(history.messages))
    else:
        verdict = value_in(form, spoken(history.messages))
    if agent.validate is not None and isinstance(verdict, Fits):
        seconds = agent.policy.validate_timeout
        why = await rejection(agent.validate, context, verdict.value, interruption, seconds)
        verdict = verdict if why is None else Misfit((why,), rejected=True)
    try:
        return judge(verdict, turn.repairs, agent.policy)
    except InvalidOutput as error:
        raise Failed(classify(error, turn.model or model_of(agent).name)) from error


async def objection(
    agent: Agent,
    context: Context,
    history: History,
    reason: EndOfTurn,
    output: Any,
    interruption: Interruption,
) -> str | None:
    """The text that the stop guard sends to the model instead of stopping, if any."""
    guard = agent.guard
    if guard is None or reason == "limit":
        return None
    about = stop_guard.Stopping(history.turn.steps, history.last_answer(), reason, output)
    timeout = agent.policy.guard_timeout
    verdict: stop_guard.GuardVerdict
    verdict = stop_guard.Escalate(f"the stop guard took longer than {timeout:g} s")
    with anyio.move_on_after(timeout) as scope, interruption.stops(scope.cancel):
        verdict = await stop_guard.ask(guard, context, about)
    if interruption.requested:
        return None
    if isinstance(verdict, stop_guard.Escalate):
        raise Escalated(verdict.reason)
    return (verdict.text or None) if isinstance(verdict, stop_guard.Inject) else None


def limit_note(limit: LimitReached) -> Message:
    """The entry for people that a turn ended at a limit. A turn that continues starts to count
    after it."""
    return note(limit.sentence, limit)


def interruption_marker(turn: Turn, answer: Message | None, *, asking: bool) -> MarkerKind | None:
    """The marker that tells the model of an interrupt; None if it hit only a complete answer.

    `turn` and `answer` are those at the end of the history; `asking`: the model was being called.
    """
    if asking or turn.last == "prompt":
        return "interrupted_answer"
    if answer is None or answer.finish == "interrupted":
        return "interrupted_answer"
    return "interrupted_tools" if turn.last == "results" or turn.open else None
