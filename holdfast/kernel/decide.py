"""Decide the next step of a run: a pure function of what is committed.

`turn` is the running fold over the history, `facts` is what is committed next to it, `rules` is the
agent's policy as plain numbers and names. The numbers in the comments are the rows of the table in
ARCHITECTURE.md; the first that matches applies.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, Union

from msgspec import Struct

from holdfast.kernel.errors import PromptTooLong, StillOverLimit
from holdfast.kernel.events import Action
from holdfast.kernel.limits import LimitReached, Limits, reached
from holdfast.kernel.messages import AskedBy, ToolCall, ToolResult
from holdfast.kernel.turn import Turn

# --- State committed next to the history --------------------------------------------------------


class AwaitingAction(Struct, frozen=True, gc=False):
    """The call waits for input from outside."""

    action: Action


class Approved(Struct, frozen=True, gc=False):
    """A person approved the call with this digest, perhaps with other arguments."""

    digest: str
    arguments: Mapping[str, object] | None = None


class Started(Struct, frozen=True):
    """The call's function was called; its outcome is not known yet."""


class Doubtful(Struct, frozen=True, gc=False):
    """The call started and may have taken effect: it runs again only with a person's approval."""

    attempt: int
    """Number of times the call has started, as counted by the action that asks to run it again."""
    approved: Approved | None = None
    """Approval to run this attempt, once given."""


class Recorded(Struct, frozen=True, gc=False):
    """The call has a result that is not yet in the history."""

    result: ToolResult


CallState: TypeAlias = Union[AwaitingAction, Approved, Started, Doubtful, Recorded]
"""State of an open call. A call without a state has not started."""


class Facts(Struct, frozen=True, gc=False):
    """State that is committed next to the history."""

    steering: bool = False
    """Whether a steering message waits."""
    compaction: AskedBy | None = None
    """Why a compaction was requested, if one was."""
    calls: Mapping[str, CallState] = {}
    """States of the open calls, by call id."""
    context_due: bool = False
    """Whether context is to be loaded: the instructions of this turn are not evaluated yet."""
    at_rest: bool = False
    """Whether the chat was idle when the compaction was requested."""
    limit: LimitReached | None = None
    """Limit that is reached outside of this turn: of the run, or a budget of the chat."""
    resumed: bool = False
    """Whether the driver has made no step on this history yet: a person may have asked to retry."""


class Rules(Struct, frozen=True):
    """The agent's policy as plain numbers and names."""

    limits: Limits
    """Limits of one turn."""
    recoveries: int
    limit: int | None
    """Tokens at which the history is compacted; None for never."""
    overhead: int
    """Estimated tokens of the system prefix and the tools."""
    window: int | None = None
    """Context window in tokens; None if unknown."""
    exclusive: frozenset[str] = frozenset()
    """Names of tools that must be the only call of their message."""
    waits: frozenset[str] = frozenset()
    """Names of tools that are not run here: their calls wait for a client, an answer, a child."""
    spawns: frozenset[str] = frozenset()
    """Names of tools that run or spawn other agents."""


EndOfTurn = Literal["stop", "stop_after_tool", "limit"]
"""Why a turn ends that neither failed nor waits."""


# --- The steps ----------------------------------------------------------------------------------


class CallModel(Struct, frozen=True):
    """Ask the model for an answer."""


class RunCalls(Struct, frozen=True, gc=False):
    """Run these calls."""

    calls: tuple[ToolCall, ...]


class SkipCalls(Struct, frozen=True, gc=False):
    """Give these calls the result `skipped`, because of a new message."""

    calls: tuple[ToolCall, ...]


class RefuseCalls(Struct, frozen=True):
    """Give these calls the result `refused`: an exclusive tool was not called alone."""

    calls: tuple[ToolCall, ...]
    exclusive: str


class RefuseSpawns(Struct, frozen=True):
    """Give these calls the result `refused`: they would spawn agents, and a limit is reached."""

    calls: tuple[ToolCall, ...]
    limit: LimitReached


class RequireAction(Struct, frozen=True):
    """Wait: every open call needs input from outside."""

    calls: tuple[ToolCall, ...]
    unchecked: tuple[ToolCall, ...] = ()
    """Calls whose arguments were not validated yet, and whose actions were not made."""


class Compact(Struct, frozen=True):
    """Compact the history."""

    asked_by: AskedBy | None
    finish: bool
    """Whether the chat was idle when a person asked: then the same commit ends the turn."""


class DeliverSteering(Struct, frozen=True):
    """Append the steering messages that wait."""


class Recover(Struct, frozen=True):
    """Ask for the rest of an answer that was cut by length."""


class LoadContext(Struct, frozen=True):
    """Append context: the evaluated instructions of this turn."""


class Finish(Struct, frozen=True):
    """End the turn."""

    reason: EndOfTurn
    limit: LimitReached | None = None
    """Limit that was reached, if that is the reason."""


class Fail(Struct, frozen=True):
    """End the turn with a failure."""

    kind: Literal["still_over_limit"]


Step: TypeAlias = Union[
    CallModel,
    RunCalls,
    SkipCalls,
    RefuseCalls,
    RefuseSpawns,
    RequireAction,
    Compact,
    DeliverSteering,
    Recover,
    LoadContext,
    Finish,
    Fail,
]

CALL_MODEL: Final = CallModel()


def decide(turn: Turn, facts: Facts, rules: Rules) -> Step:
    """The next step, decided from what is committed and nothing else."""
    if turn.open:
        return _open_calls(turn, facts, rules)  # 1, 2, 3
    if facts.compaction == "overflow" and not turn.compactable:  # 4
        return Fail("still_over_limit")
    ending = _ending(turn, facts, rules)
    if facts.compaction is not None and turn.compactable:  # 5
        at_rest = facts.at_rest or isinstance(ending, Finish)
        return Compact(facts.compaction, finish=facts.compaction == "person" and at_rest)
    if facts.steering:  # 6
        return DeliverSteering()
    if ending is not None:  # 7 to 10
        return ending
    if facts.context_due:  # 11
        return LoadContext()
    if rules.limit is not None and size(turn, rules) >= rules.limit:
        if not facts.resumed and _compaction_did_not_help(turn, rules.limit):  # 12
            return Fail("still_over_limit")
        if turn.compactable and not turn.relieved:  # 13
            return Compact(None, finish=False)
    return CALL_MODEL  # 14


def size(turn: Turn, rules: Rules) -> int:
    """Estimated tokens of the next request."""
    return turn.size if turn.measured else turn.size + rules.overhead


def over_limit(turn: Turn, rules: Rules) -> StillOverLimit:
    """The error that `Fail` ends the turn with."""
    if turn.compactable or turn.measured:  # by an answer or a summary
        return StillOverLimit(size(turn, rules), rules.limit, again=turn.compactable > 0)
    return PromptTooLong(size(turn, rules), rules.window)


def _open_calls(turn: Turn, facts: Facts, rules: Rules) -> Step:
    states = facts.calls
    if facts.steering:  # 1
        idle = tuple(
            call for call in turn.open if not isinstance(states.get(call.id), (Started, Recorded))
        )
        if idle:
            return SkipCalls(idle)
    if len(turn.calls) > 1 and rules.exclusive:  # 2, the batch with an exclusive tool
        for call in turn.calls:
            if call.tool in rules.exclusive:
                return RefuseCalls(turn.open, call.tool)
    if rules.spawns:
        limit = _limit(turn, facts, rules)
        spawning = tuple(c for c in turn.open if c.tool in rules.spawns and c.id not in states)
        if limit is not None and spawning:
            return RefuseSpawns(spawning, limit)
    if not states and not rules.waits:  # the usual case
        return RunCalls(turn.open)
    ready = tuple(call for call in turn.open if _may_run(call, states.get(call.id), rules))
    if ready:
        return RunCalls(ready)  # 2
    return RequireAction(turn.open, tuple(c for c in turn.open if c.id not in states))  # 3


def _may_run(call: ToolCall, state: CallState | None, rules: Rules) -> bool:
    if state is None:
        return call.tool not in rules.waits
    return not isinstance(state, AwaitingAction)


def _ending(turn: Turn, facts: Facts, rules: Rules) -> Finish | Recover | None:
    if turn.stopped:  # 7
        return Finish("stop_after_tool")
    if turn.cut and turn.recoveries < rules.recoveries:  # 8
        return Recover()
    if turn.last == "answer":  # 9
        return Finish("stop")
    limit = _limit(turn, facts, rules)
    return None if limit is None else Finish("limit", limit)  # 10


def _limit(turn: Turn, facts: Facts, rules: Rules) -> LimitReached | None:
    """The limit after which no model is called and no agent is spawned, if one is reached."""
    return facts.limit or reached(rules.limits, turn.used)


def _compaction_did_not_help(turn: Turn, limit: int) -> bool:
    """Whether the first request answered after this turn's last compaction was too large."""
    return turn.size_after is not None and turn.size_after >= limit
