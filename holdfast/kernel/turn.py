"""A fold over the history that keeps what `decide` reads, at constant cost per message.

Nothing in here is state of its own: `fold` over the whole history gives the same `Turn` as keeping
it up to date message by message. "This turn" starts at the last message that a person wrote.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, Literal

from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel.context import estimate
from holdfast.kernel.messages import Message, ToolCall, ToolResult

NO_FAILURES: Final[Mapping[str, int]] = MappingProxyType({})


class Turn(Struct, frozen=True, gc=False):
    length: int = 0
    """Messages of the history so far."""
    last: Literal["prompt", "answer", "results"] | None = None
    """The last message that is not transparent. What we inject counts as a prompt."""
    calls: tuple[ToolCall, ...] = ()
    """Of the last answer, those that the provider does not execute."""
    open: tuple[ToolCall, ...] = ()
    """... and of these, those without a result."""
    cut: bool = False
    """The last message is an answer cut by length, without a complete call."""
    model: str | None = None
    """Who gave the last answer of this turn."""
    stopped: bool = False
    """A stop-after tool succeeded, and nothing was delivered, injected or answered since."""
    steps: int = 0
    """Answers in this turn."""
    recoveries: int = 0
    """Times in this turn that a cut answer was asked to go on."""
    repairs: int = 0
    """Times in this turn that an answer was asked for again because of its form."""
    failures: Mapping[str, int] = NO_FAILURES
    """Failures in a row of each tool, in this turn."""
    size: int = 0
    """Tokens of the next request: last reported usage, plus an estimate of what came since."""
    measured: bool = False
    """Whether `size` includes the system prefix and the tools, because a provider counted them."""
    compactable: int = 0
    """Answers since the last summary."""
    compactions: int = 0
    """Summaries in this turn."""
    size_after: int | None = None
    """Size at the first answer after this turn's last summary."""
    relieved: bool = False
    """A checkpoint was written since the last answer."""


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
        case _:
            return _transparent(turn, message)


def fold_all(messages: Iterable[Message], turn: Turn | None = None) -> Turn:
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
    first = turn.compactions > 0 and turn.size_after is None
    return Turn(
        length=turn.length + 1,
        last="answer",
        calls=calls,
        open=calls,
        cut=message.finish == "length" and not calls,
        model=message.model,
        steps=turn.steps + 1,
        recoveries=turn.recoveries,
        repairs=turn.repairs,
        failures=turn.failures,
        size=size,
        measured=turn.measured or reported > 0,
        compactable=turn.compactable + 1,
        compactions=turn.compactions,
        size_after=size if first else turn.size_after,
    )


def context_of(message: Message) -> int:
    """Tokens that the request and its answer fill; 0 where nobody has counted them."""
    usage = message.usage
    if usage is None or not usage.context:  # a provider that reports zeros reports nothing
        return 0
    if message.finish == "interrupted":  # before all that it wrote was counted
        return usage.context - usage.output + max(usage.output, estimate(message))
    return usage.context


def _results(turn: Turn, message: Message) -> Turn:
    open, failures, stopped = turn.open, turn.failures, turn.stopped
    for part in message.parts:
        if type(part) is ToolResult:
            open = _without(open, part.call_id)
            failures = count_failure(failures, part)
            stopped = stopped or (part.stops and part.outcome == "ok")
    return Turn(
        length=turn.length + 1,
        last="results",
        calls=turn.calls,
        open=open,
        model=turn.model,
        stopped=stopped,
        steps=turn.steps,
        recoveries=turn.recoveries,
        repairs=turn.repairs,
        failures=failures,
        size=turn.size + estimate(message),
        measured=turn.measured,
        compactable=turn.compactable,
        compactions=turn.compactions,
        size_after=turn.size_after,
        relieved=turn.relieved,
    )


def _without(calls: tuple[ToolCall, ...], call_id: str) -> tuple[ToolCall, ...]:
    if len(calls) == 1:
        return () if calls[0].id == call_id else calls
    return tuple(call for call in calls if call.id != call_id)


def count_failure(failures: Mapping[str, int], result: ToolResult) -> Mapping[str, int]:
    """Failures in a row of each tool, after one more result.

    Only `failed` counts and only `ok` resets: a refusal says nothing about the tool.
    """
    if result.outcome == "failed":
        return {**failures, result.tool: failures.get(result.tool, 0) + 1}
    if result.outcome == "ok" and result.tool in failures:
        return {tool: count for tool, count in failures.items() if tool != result.tool}
    return failures


def _prompt(turn: Turn, message: Message) -> Turn:
    """What a person wrote begins a turn with new counters; what we injected does not."""
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
        if message.why == "repair":  # also behind a cut answer: then it was cut once too often
            return replace(common, repairs=turn.repairs + 1)
        return replace(common, recoveries=turn.recoveries + turn.cut)
    return replace(
        common,
        model=None,
        steps=0,
        recoveries=0,
        repairs=0,
        failures=NO_FAILURES,
        compactions=0,
        size_after=None,
    )


def _checkpoint(turn: Turn, message: Message) -> Turn:
    checkpoint = message.checkpoint
    assert checkpoint is not None  # a checkpoint message without one cannot be loaded
    common = replace(
        turn, length=turn.length + 1, size=checkpoint.after, measured=True, relieved=True
    )
    if not checkpoint.summarized:
        return common
    return replace(common, compactable=0, compactions=turn.compactions + 1, size_after=None)


def _transparent(turn: Turn, message: Message) -> Turn:
    added = 0 if message.visibility == "user" else estimate(message)
    return replace(turn, length=turn.length + 1, size=turn.size + added)
