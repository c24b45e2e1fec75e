"""What a run does next: a pure function of what is committed.

`turn` is the running fold over the history, `facts` is what is committed beside it, `rules` is the
agent's policy as plain numbers and names. The numbers in the comments are the rows of the table in
ARCHITECTURE.md; the first that matches wins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias, Union

from msgspec import Struct

from holdfast.kernel.errors import PromptTooLong, StillOverLimit
from holdfast.kernel.events import Action
from holdfast.kernel.messages import AskedBy, ToolCall, ToolResult
from holdfast.kernel.turn import Turn

# --- What is committed beside the history -------------------------------------------------------


class Waiting(Struct, frozen=True):
    """The call waits for somebody outside."""

    action: Action


class Approved(Struct, frozen=True):
    """A person agreed to exactly what has this digest, or to it with other arguments."""

    digest: str
    arguments: Mapping[str, object] | None = None


class Started(Struct, frozen=True):
    """The call's function was called, and nobody knows yet what came of it."""


class Doubtful(Struct, frozen=True):
    """The call began and may have taken effect: it runs again only when a person says so."""


class Recorded(Struct, frozen=True):
    """The call has a result that is not in the history yet."""

    result: ToolResult


CallState: TypeAlias = Union[Waiting, Approved, Started, Doubtful, Recorded]
"""How far an open call is. A call without a state has not started."""


class Facts(Struct, frozen=True):
    steering: bool = False
    compaction: AskedBy | None = None
    calls: Mapping[str, CallState] = {}
    context_due: bool = False
    at_rest: bool = False
    """The turn had ended, in whatever way, when the compaction was asked for."""


class Rules(Struct, frozen=True):
    max_steps: int
    recoveries: int
    max_compactions: int
    limit: int | None
    """Tokens at which the history is compacted, or None when it never is."""
    overhead: int
    """Estimated tokens of the system prefix and the tools."""
    window: int | None = None
    """Tokens that fit, as far as anybody says."""
    exclusive: frozenset[str] = frozenset()
    waits: frozenset[str] = frozenset()
    """Tools that are never run by us: their calls wait for a client, an answer, a child."""


# --- The steps ----------------------------------------------------------------------------------


class CallModel(Struct, frozen=True):
    pass


class RunCalls(Struct, frozen=True, gc=False):
    calls: tuple[ToolCall, ...]


class SkipCalls(Struct, frozen=True):
    """Answer these calls: skipped because of a new message."""

    calls: tuple[ToolCall, ...]


class RefuseCalls(Struct, frozen=True):
    """Answer these calls: an exclusive tool must be the only call of its message."""

    calls: tuple[ToolCall, ...]
    exclusive: str


class RequireAction(Struct, frozen=True):
    """Wait: every open call needs somebody outside."""

    calls: tuple[ToolCall, ...]


class Compact(Struct, frozen=True):
    asked_by: AskedBy | None
    finish: bool
    """The chat was at rest when a person asked: the same commit ends the turn."""


class DeliverSteering(Struct, frozen=True):
    pass


class Recover(Struct, frozen=True):
    """Ask for the rest of an answer that was cut by length."""


class LoadContext(Struct, frozen=True):
    pass


class Finish(Struct, frozen=True):
    reason: Literal["stop", "stop_after_tool", "max_steps"]


class Fail(Struct, frozen=True):
    kind: Literal["still_over_limit"]


Step: TypeAlias = Union[
    CallModel,
    RunCalls,
    SkipCalls,
    RefuseCalls,
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
    """What the run does next, from what is committed and nothing else."""
    if turn.open:
        return _open_calls(turn, facts, rules)  # 1, 2, 3
    if facts.compaction == "overflow" and not _may_compact(turn, rules):  # 4
        return Fail("still_over_limit")
    ending = _ending(turn, rules)
    if facts.compaction is not None and turn.compactable:  # 5
        at_rest = facts.at_rest or isinstance(ending, Finish)
        return Compact(facts.compaction, finish=facts.compaction == "person" and at_rest)
    if facts.steering:  # 6
        return DeliverSteering()
    if ending is not None:  # 7, 9, 10; 8 stands among them
        return ending
    if facts.context_due:  # 11
        return LoadContext()
    if rules.limit is not None and size(turn, rules) >= rules.limit:
        if _compaction_did_not_help(turn, rules, rules.limit):  # 12
            return Fail("still_over_limit")
        if turn.compactable and not turn.relieved:  # 13
            return Compact(None, finish=False)
    return CALL_MODEL  # 14


def size(turn: Turn, rules: Rules) -> int:
    """Tokens of the next request."""
    return turn.size if turn.measured else turn.size + rules.overhead


def over_limit(turn: Turn, rules: Rules) -> StillOverLimit:
    """What `Fail` ends the turn with."""
    if turn.compactable or turn.measured:  # by an answer or a summary
        return StillOverLimit(size(turn, rules), rules.limit)
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
    if not states and not rules.waits:  # the usual case
        return RunCalls(turn.open)
    ready = tuple(call for call in turn.open if _may_run(call, states.get(call.id), rules))
    return RunCalls(ready) if ready else RequireAction(turn.open)  # 2, 3


def _may_run(call: ToolCall, state: CallState | None, rules: Rules) -> bool:
    if state is None:
        return call.tool not in rules.waits
    return not isinstance(state, Waiting)


def _ending(turn: Turn, rules: Rules) -> Finish | Recover | None:
    if turn.stopped:  # 7
        return Finish("stop_after_tool")
    if turn.cut and turn.recoveries < rules.recoveries:  # 8
        return Recover()
    if turn.last == "answer":  # 9
        return Finish("stop")
    if turn.steps >= rules.max_steps:  # 10
        return Finish("max_steps")
    return None


def _may_compact(turn: Turn, rules: Rules) -> bool:
    return turn.compactable > 0 and turn.compactions < rules.max_compactions


def _compaction_did_not_help(turn: Turn, rules: Rules, limit: int) -> bool:
    """There was an answer since this turn's last summary, and still the request is too large."""
    if turn.size_after is None:
        return False
    return turn.size_after >= limit or turn.compactions >= rules.max_compactions
