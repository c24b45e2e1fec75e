"""The `Turn`: a fold over the history with what `decide` reads, at constant cost per message.

It holds no state of its own: folding the whole history gives the same `Turn` as updating it message
by message. "This turn" starts at the last message that a person wrote.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel.call_account import totals_of
from holdfast.kernel.limits import NOTHING_USED, Totals
from holdfast.kernel.messages import Message, ToolCall, ToolResult
from holdfast.kernel.model_context import estimate


class FailureStreak(Struct, frozen=True, gc=False):
    """Consecutive answers of this turn in which every result of one tool was a failure."""

    answers: int
    """Number of such answers."""
    step: int
    """Number of the last such answer in this turn, from 1."""


FAILED_OUTCOMES: Final = ("failed", "timed_out")
"""Outcomes that count for the circuit breaker. A refusal, for example, is not the tool's fault."""
NO_FAILURES: Final[Mapping[str, FailureStreak]] = MappingProxyType({})


class Turn(Struct, frozen=True, gc=False):
    """The turn so far, as `context.turn` in hooks: counters, open calls and sizes, derived from the
    history alone."""

    length: int = 0
    """Number of messages in the history."""
    last: Literal["prompt", "answer", "results"] | None = None
    """Kind of the last message that is not transparent. An injected message counts as a prompt."""
    calls: tuple[ToolCall, ...] = ()
    """Calls of the last answer that the provider does not execute."""
    open: tuple[ToolCall, ...] = ()
    """Calls of the last answer without a result."""
    cut: bool = False
    """Whether the last message is an answer cut by length, without a complete call."""
    model: str | None = None
    """Model that gave the last answer of this turn."""
    stopped: bool = False
    """Whether a stop-after tool succeeded, with nothing delivered, injected or answered since."""
    steps: int = 0
    """Number of answers in this turn."""
    recoveries: int = 0
    """Number of times in this turn that the model was asked to continue a cut answer."""
    repairs: int = 0
    """Number of times in this turn that the model was asked to repair the form of an answer."""
    failures: Mapping[str, FailureStreak] = NO_FAILURES
    """Failure streaks by tool. An answer that does not use a tool leaves its streak unchanged."""
    passed: tuple[str, ...] = ()
    """Tools with a success since the last answer. An expected failure counts as one."""
    size: int = 0
    """Tokens of the next request: last reported usage, plus an estimate of later messages."""
    measured: bool = False
    """Whether `size` includes the system prefix and the tools, because a provider counted them."""
    compactable: int = 0
    """Number of answers since the last summary."""
    summarized: bool = False
    """Whether this turn has a summary."""
    size_after: int | None = None
    """Tokens of the first request that was answered after this turn's last checkpoint, once the
    turn has a summary."""
    relieved: bool = False
    """Whether a checkpoint was written since the last answer."""
    began: int = 0
    """Number of messages up to the one that started this turn; 0 without one."""
    instructions: Message | None = None
    """The newest evaluation of the agent's instructions."""
    instructed: bool = False
    """Whether that was made in this turn."""
    used: Totals = NOTHING_USED
    """What counts for the limits of this turn. A turn that continues after a limit starts anew."""


def fold(turn: Turn, message: Message) -> Turn:
    """The turn after one more message."""
    match message.kind:
        case "answer" if message.visibility != "user":
            return _answer(turn, message)
        case "results" if message.visibility != "user":
            return _results(turn, message)
        case "prompt" | "injected" if message.visibility != "user":
            return _prompt(turn, message)
        case "checkpoint":
            return _checkpoint(turn, message)
        case "instructions":
            return _instructions(turn, message)
        case _:
            return _transparent(turn, message)


def fold_all(messages: Iterable[Message], turn: Turn | None = None) -> Turn:
    """The turn after several more messages."""
    turn = turn or Turn()
    for message in messages:
        turn = fold(turn, message)
    return turn


def _answer(turn: Turn, message: Message) -> Turn:
    calls: tuple[ToolCall, ...] = ()
    for part in message.parts:
        if type(part) is ToolCall and not part.provider_executed:
            calls += (part,)
    reported = context_of(message)
    size = reported or turn.size + estimate(message)
    first = turn.summarized and turn.size_after is None
    return replace(
        turn,
        length=turn.length + 1,
        last="answer",
        calls=calls,
        open=calls,
        cut=message.finish == "length" and not calls,
        model=message.model,
        stopped=False,
        steps=turn.steps + 1,
        passed=(),
        size=size,
        measured=turn.measured or reported > 0,
        compactable=turn.compactable + 1,
        size_after=_request_of(turn, message) if first else turn.size_after,
        relieved=False,
        used=_with_answer(turn.used, message),
    )


def _with_answer(used: Totals, answer: Message, steps: int = 1) -> Totals:
    usage = answer.usage
    return Totals(
        used.steps + steps,
        used.tokens if usage is None else used.tokens + usage.context,
        used.cost if usage is None else used.cost + (usage.cost or 0.0),
        used.seconds if answer.runtime is None else used.seconds + answer.runtime / 1_000,
    )


def working_time(ran: Iterable[tuple[int, int]]) -> int:
    """The time in which calls ran, each from its start to its end. A time in which several ran
    counts once."""
    total = last = 0
    for began, ended in sorted(ran):
        began = began if began > last else last  # max() is slower, on the path of every step
        if ended > began:
            total += ended - began
            last = ended
    return total


def context_of(message: Message) -> int:
    """Tokens that the request and its answer fill; 0 if the provider did not report them."""
    usage = message.usage
    if usage is None or not usage.context:  # a provider that reports zeros reports nothing
        return 0
    if message.finish == "interrupted":  # before all that it wrote was counted
        return usage.context - usage.output + max(usage.output, estimate(message))
    return usage.context


def _request_of(turn: Turn, answer: Message) -> int:
    """Tokens of the request for an answer. The answer is left out: no summary makes it shorter."""
    usage = answer.usage
    return usage.context - usage.output if usage and usage.context else turn.size


def _results(turn: Turn, message: Message) -> Turn:
    open, failures, stopped = turn.open, turn.failures, turn.stopped
    passed, steps = turn.passed, 0
    ran: tuple[tuple[int, int], ...] = ()
    for part in message.parts:
        if type(part) is ToolResult:
            open = _without(open, part.call_id)
            if part.started_at is not None and part.finished_at is not None:
                ran += ((part.started_at, part.finished_at),)
            steps += part.steps
            if part.outcome == "ok" or part.expected:
                passed, failures = _pass(part.tool, passed, failures)
            elif part.outcome in FAILED_OUTCOMES and part.tool not in passed:
                failures = _count(part.tool, turn.steps, failures)
            stopped = stopped or (part.stops and part.outcome == "ok")
    used = turn.used
    if ran:
        used = replace(used, seconds=used.seconds + working_time(ran) / 1_000_000)
    if steps or message.usage is not None:
        used += totals_of(message.usage, steps)
    return replace(
        turn,
        length=turn.length + 1,
        last="results",
        open=open,
        cut=False,
        stopped=stopped,
        failures=failures,
        passed=passed,
        size=turn.size + estimate(message),
        used=used,
    )


def _without(calls: tuple[ToolCall, ...], call_id: str) -> tuple[ToolCall, ...]:
    if len(calls) == 1:
        return () if calls[0].id == call_id else calls
    return tuple(call for call in calls if call.id != call_id)


def _pass(
    tool: str, passed: tuple[str, ...], failures: Mapping[str, FailureStreak]
) -> tuple[tuple[str, ...], Mapping[str, FailureStreak]]:
    """A success ends a tool's streak, and keeps the other results of its answer from counting."""
    if tool not in passed:
        passed = (*passed, tool)
    if tool in failures:
        failures = {name: streak for name, streak in failures.items() if name != tool}
    return passed, failures


def _count(
    tool: str, step: int, failures: Mapping[str, FailureStreak]
) -> Mapping[str, FailureStreak]:
    """A failure prolongs a tool's streak, once for each answer."""
    streak = failures.get(tool)
    if streak is None:
        return {**failures, tool: FailureStreak(1, step)}
    if streak.step == step:
        return failures
    return {**failures, tool: FailureStreak(streak.answers + 1, step)}


def refused_for(turn: Turn, tool: str, failures: int, cooldown: int) -> int | None:
    """Circuit breaker: for how many further answers a tool is refused; None if it may run.

    It opens after `failures` consecutive answers that failed and refuses for `cooldown` answers.
    Then the tool is tried again: one more answer of failures opens it again.
    """
    streak = turn.failures.get(tool)
    if streak is None or streak.answers < failures:
        return None
    answer = turn.steps if turn.open else turn.steps + 1  # without open calls it is being streamed
    since = answer - streak.step
    return cooldown - since if 0 < since <= cooldown else None


def _prompt(turn: Turn, message: Message) -> Turn:
    """A person's message starts a turn with new counters; an injected one does not."""
    common = replace(
        turn,
        length=turn.length + 1,
        last="prompt",
        calls=(),
        open=(),
        cut=False,
        stopped=False,
        size=turn.size + estimate(message),
    )
    if message.kind == "injected":
        if message.why == "repair":  # also after a cut answer: then it was cut once too often
            return replace(common, repairs=turn.repairs + 1)
        return replace(common, recoveries=turn.recoveries + turn.cut)
    return replace(
        common,
        model=None,
        steps=0,
        recoveries=0,
        repairs=0,
        failures=NO_FAILURES,
        passed=(),
        summarized=False,
        size_after=None,
        began=turn.length + 1,
        instructed=False,
        used=NOTHING_USED,
    )


def _checkpoint(turn: Turn, message: Message) -> Turn:
    checkpoint = message.checkpoint
    assert checkpoint is not None  # a checkpoint message without one cannot be loaded
    common = replace(
        turn,
        length=turn.length + 1,
        size=checkpoint.after,
        measured=True,
        relieved=True,
        size_after=None,
    )
    if not checkpoint.summarized:
        return common
    return replace(common, compactable=0, summarized=True)


def _instructions(turn: Turn, message: Message) -> Turn:
    """An evaluation replaces the one before it in the system prefix."""
    replaced = 0 if turn.instructions is None else estimate(turn.instructions)
    return replace(
        turn,
        length=turn.length + 1,
        size=max(0, turn.size + estimate(message) - replaced),
        instructions=message,
        instructed=True,
    )


def _transparent(turn: Turn, message: Message) -> Turn:
    added, used = 0 if message.visibility == "user" else estimate(message), turn.used
    if message.limit is not None:
        used = NOTHING_USED
    elif message.usage is not None or message.runtime is not None:  # of a failed answer
        used = _with_answer(used, message, steps=0)
    return replace(turn, length=turn.length + 1, size=turn.size + added, used=used)
