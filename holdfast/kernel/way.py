"""The way of one call: from what the model wrote to a call that may run, or to why it may not.

find → active? → failed too often? → parse → validate → `validate` hook → gate → `preview` →
approval. Whoever stops a call here leaves a result that the model can act on.
"""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias, Union

import msgspec
from msgspec import Struct

from holdfast.kernel import results
from holdfast.kernel.channel import Sink
from holdfast.kernel.decide import Approved, CallState, Doubtful
from holdfast.kernel.events import Action, ActionKind, ToolFinished, ToolProgressed
from holdfast.kernel.messages import Message, ToolCall, ToolResult, encode
from holdfast.kernel.policy import Calls
from holdfast.kernel.ports import Ports
from holdfast.kernel.schema import BadArguments
from holdfast.kernel.tool import (
    Allow,
    Decision,
    Deny,
    Nothing,
    Rewrite,
    Tool,
    ToolContext,
    Values,
)
from holdfast.kernel.turn import count_failure

Gate: TypeAlias = Callable[[ToolCall, Values], Union[Decision, Awaitable[Decision]]]
"""Asked before each call. May deny it or rewrite its arguments; one that raises denies."""
Proceed: TypeAlias = Callable[[], Awaitable[object]]
Middleware: TypeAlias = Callable[[ToolCall, Values, Proceed], Awaitable[object]]
"""Wraps the run of a call: `return await proceed()`. May answer without proceeding; cannot change
the arguments."""
Eager = Literal["pure", "all"]


class Toolbox(Struct, frozen=True, kw_only=True):
    """What the calls of a run share."""

    tools: Mapping[str, Tool]
    gate: Gate | None
    middleware: tuple[Middleware, ...]
    limits: Calls
    max_result: int
    """Bytes, for tools that do not set their own."""
    eager: Eager
    ports: Ports


class Ready(Struct, frozen=True):
    """A call whose arguments are in order."""

    tool: Tool
    values: Values

    @property
    def shown(self) -> Values:
        """A copy to look at: what was validated, and perhaps approved, is what runs."""
        try:
            return MappingProxyType(copy.deepcopy(dict(self.values)))
        except Exception:  # a type of the tool's own that cannot be copied
            return MappingProxyType(dict(self.values))

    @property
    def parallel(self) -> bool:
        """Whether it may run beside others."""
        parallel = self.tool.parallel
        if not callable(parallel):
            return parallel
        try:
            return bool(parallel(self.shown))
        except Exception:
            return False  # alone is always right


class Cleared(Struct, frozen=True):
    """A call that may run now."""

    ready: Ready
    changed: bool = False
    """A person agreed to it with other arguments than the model's."""


class Standing(Struct, frozen=True, kw_only=True):
    """How things stand when the calls of an answer begin."""

    failures: Mapping[str, int]
    """In a row, by tool."""
    active: frozenset[str] | None
    """Names of the tools that may be used; None for all."""
    states: Mapping[str, CallState]
    history: Callable[[], Sequence[Message]]
    chat: str | None = None
    starting: Callable[[ToolCall, Tool], Awaitable[bool]] | None = None
    """Asked before the function of a call with an effect is called: writes down that it is. No
    means that it may not run any more."""
    finished: Callable[[ToolFinished], None] | None = None
    """Told of the end of each call, after everybody who watches."""


class Way:
    """The way that the calls of one answer take."""

    def __init__(self, toolbox: Toolbox, sink: Sink, standing: Standing) -> None:
        self._box = toolbox
        self._sink = sink
        self._failures = standing.failures
        self._active = standing.active
        self._states = standing.states
        self._history = standing.history
        self._chat = standing.chat

    def check(self, call: ToolCall) -> Ready | ToolResult:
        """The part of the way that needs no waiting: find the tool, parse, validate."""
        tool = self._box.tools.get(call.tool)
        if tool is None:
            known = [n for n in self._box.tools if self._active is None or n in self._active]
            return results.refused_unknown(call, known)
        if self._active is not None and call.tool not in self._active:
            return results.result(call, "refused", f"{call.tool} is not available at this point.")
        refusal = self.refuse_failing(call)
        if refusal is not None:
            return refusal
        if len(call.arguments) > self._box.limits.max_arguments:
            limit = self._box.limits.max_arguments
            text = (
                f"The arguments have {len(call.arguments)} characters; at most {limit} are taken."
            )
            return results.result(call, "failed", text)
        if call.complaint is not None:
            text = f"The arguments are not valid JSON, so {call.tool} was not run: {call.complaint}"
            return results.result(call, "failed", text)
        try:
            return Ready(tool, tool.arguments.parse(call.arguments))
        except BadArguments as error:
            return results.result(call, "failed", str(error))

    def note(self, made: ToolResult) -> None:
        """A call of this answer has ended: its tool may have failed once too often."""
        self._failures = count_failure(self._failures, made)

    def refuse_failing(self, call: ToolCall) -> ToolResult | None:
        """The circuit breaker: a tool that kept failing is left alone for the rest of the turn."""
        failures = self._failures.get(call.tool, 0)
        if failures < self._box.limits.failures:
            return None
        text = f"{call.tool} failed {failures} times in a row: not run again in this turn."
        return results.result(call, "refused", text)

    def asks_nobody(self, call: ToolCall, tool: Tool) -> bool:
        """Whether the call may run as soon as its arguments are in order."""
        return (
            self._box.gate is None
            and call.id not in self._states
            and tool.validate is None
            and tool.preview is None
            and tool.approval == "never"
            and tool.action is None
        )

    async def walk(self, call: ToolCall, ready: Ready) -> Cleared | ToolResult | Action:
        """From valid arguments to a call that may run, or that somebody outside must act on."""
        admitted = await self._admit(call, ready)
        if isinstance(admitted, ToolResult):
            return admitted
        tool = admitted.tool
        preview = await self._preview(call, admitted)
        if tool.action is not None:
            return action(tool.action, call, admitted, preview)
        state = self._states.get(call.id)
        if isinstance(state, Doubtful):
            return action("approval", call, admitted, preview, again=True)
        approval = state if isinstance(state, Approved) else None
        asked = action("approval", call, admitted, preview)
        # To run it again, too: only a call that has begun was asked about with that digest.
        again = digest(call.id, call.tool, asked.arguments, again=True)
        if approval is None or approval.digest not in (asked.digest, again):
            return asked if self._asks(admitted) else Cleared(admitted)
        if approval.arguments is None:
            return Cleared(admitted)
        changed = await self._approved_change(call, tool, approval.arguments)
        return changed if isinstance(changed, ToolResult) else Cleared(changed, changed=True)

    async def _admit(self, call: ToolCall, ready: Ready) -> Ready | ToolResult:
        """Ask the tool's own validation and then the gate, which may rewrite the arguments."""
        tool = ready.tool
        if tool.validate is not None:
            try:
                said = tool.ask(tool.validate, self._context(call), ready.shown)
                problem = await awaited(said)
            except Exception as error:
                problem = results.explain(error)
            if problem is False:
                problem = "the arguments are not valid"
            if problem and problem is not True:
                return results.result(call, "failed", f"{call.tool} was not run: {problem}")
        if self._box.gate is None:
            return ready
        try:
            decision = await awaited(self._box.gate(call, ready.shown))
        except Exception as error:
            decision = Deny(f"the gate failed: {results.explain(error)}")
        if decision is None or isinstance(decision, Allow):
            return ready
        if isinstance(decision, Rewrite):
            try:
                return Ready(tool, tool.arguments.check(decision.arguments))
            except BadArguments as error:
                decision = Deny(f"the gate's arguments do not fit. {error}")
        if not isinstance(decision, Deny):
            decision = Deny(
                f"the gate gave a {type(decision).__name__}, which is no decision "
                "(it may give Allow, Deny, Rewrite or None)"
            )
        return results.result(call, "refused", f"{call.tool} was not run: {decision.reason}")

    async def _preview(self, call: ToolCall, ready: Ready) -> str | None:
        """Show people what the call would do, if its tool can say so."""
        tool = ready.tool
        if tool.preview is None:
            return None
        shown = await awaited(tool.ask(tool.preview, self._context(call), ready.shown))
        if shown is None:
            return None
        preview = _cut(str(shown), self._box.limits.progress_length)
        self._sink.put(ToolProgressed(call.id, call.tool, "preview", preview))
        return preview

    def _context(self, call: ToolCall) -> ToolContext:
        return ToolContext(call.id, _unheard, history=self._history, chat=self._chat)

    async def _approved_change(
        self, call: ToolCall, tool: Tool, arguments: Mapping[str, object]
    ) -> Ready | ToolResult:
        """What a person agreed to instead must pass like any other arguments, and stay as it is."""
        try:
            changed = Ready(tool, tool.arguments.check(arguments))
        except BadArguments as error:
            text = f"{call.tool} was not run: the arguments that a person set do not fit. {error}"
            return results.result(call, "failed", text)
        admitted = await self._admit(call, changed)
        if isinstance(admitted, Ready) and admitted.values != changed.values:
            text = f"{call.tool} was not run: the gate changed the arguments that a person set."
            return results.result(call, "refused", text)
        return admitted

    def _asks(self, ready: Ready) -> bool:
        approval = ready.tool.approval
        if approval == "never":
            return False
        return approval == "ask" or bool(approval(ready.shown))


AGAIN: Final = (
    "This call began before a restart and may have taken effect already. If it is allowed, it runs "
    "again."
)


def action(
    kind: ActionKind, call: ToolCall, ready: Ready, preview: str | None, *, again: bool = False
) -> Action:
    """What somebody outside is asked, bound to exactly these arguments."""
    arguments = canonical(ready.tool.arguments.plain(ready.values))
    if again:
        preview = AGAIN if preview is None else f"{AGAIN}\n\n{preview}"
    bound = digest(call.id, call.tool, arguments, again=again)
    return Action(kind, call, arguments, bound, preview, again)


def _cut(preview: str, limit: int) -> str:
    """Whoever is asked to agree has to know that there is more than they see."""
    gone = len(preview) - limit
    return preview if gone <= 0 else f"{preview[:limit]}\n[… {gone} more characters, not shown]"


def _unheard(text: str) -> Awaitable[None]:
    """A call that has not begun makes no progress."""
    return Nothing()


def canonical(value: object) -> str:
    """One text for one JSON value: keys sorted, no spaces. Any reader of JSON gets the value."""
    plain = msgspec.to_builtins(value, order="sorted")
    try:
        return msgspec.json.encode(plain).decode()
    except UnicodeEncodeError:  # a lone surrogate: JSON can say it, with an escape
        return json.dumps(plain, separators=(",", ":"))


def digest(call_id: str, tool: str, arguments: str, *, again: bool = False) -> str:
    """SHA-256 over what an approval is for: to run it is not to run it a second time."""
    from hashlib import sha256

    what = [call_id, tool, arguments, "again"] if again else [call_id, tool, arguments]
    return sha256(encode(what)).hexdigest()


async def awaited(value: Any) -> Any:
    """What a hook said, whether or not it is `async`."""
    return await value if inspect.isawaitable(value) else value
