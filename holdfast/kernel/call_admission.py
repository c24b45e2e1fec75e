"""Admission of one tool call: every check between what the model wrote and a call that may run.

find → active? → circuit breaker → parse → validate → `validate` hook → gate → `preview` →
approval. A check that rejects the call produces a result that the model can act on. What binds an
approval to its call is in `approval.py`.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import Final, Literal, TypeAlias, Union

from msgspec import Struct

from holdfast.kernel import tool_results
from holdfast.kernel.approval import action, canonical
from holdfast.kernel.awaiting import awaited
from holdfast.kernel.call_account import CallAccount
from holdfast.kernel.channel import Sink
from holdfast.kernel.decide import Approved, CallState, Doubtful
from holdfast.kernel.events import Action, ToolFinished, ToolProgressed
from holdfast.kernel.hook_context import Context
from holdfast.kernel.limits import LimitReached, Totals
from holdfast.kernel.messages import ToolCall, ToolResult
from holdfast.kernel.policy import Calls
from holdfast.kernel.ports import Ports
from holdfast.kernel.schema import BadArguments
from holdfast.kernel.tool import (
    Allow,
    Children,
    CompletedAwaitable,
    Decision,
    Deny,
    Rewrite,
    Tool,
    ToolContext,
    Values,
)
from holdfast.kernel.turn import refused_for
from holdfast.kernel.type_parameters import HookDepsT

LOG: Final = logging.getLogger("holdfast")
Gate: TypeAlias = Callable[
    [Context[HookDepsT], ToolCall, Values], Union[Decision, Awaitable[Decision]]
]
"""Hook before each call. May deny it or rewrite its arguments; a gate that raises denies."""
Proceed: TypeAlias = Callable[[], Awaitable[object]]
Middleware: TypeAlias = Callable[[Context[HookDepsT], ToolCall, Values, Proceed], Awaitable[object]]
"""Hook around the run of a tool call: `return await proceed()`. May return a value without
proceeding; cannot change the arguments."""
Eager = Literal["pure", "all"]


class Toolbox(Struct, frozen=True, kw_only=True):
    """Tools, hooks and limits shared by all calls of a run."""

    tools: Mapping[str, Tool]
    gate: Gate | None
    middleware: tuple[Middleware, ...]
    limits: Calls
    max_result: int
    """Maximum size of a result in bytes, for tools that do not set their own."""
    eager: Eager
    ports: Ports


class Ready(Struct, frozen=True):
    """A tool with validated arguments."""

    tool: Tool
    values: Values

    @property
    def shown(self) -> Values:
        """A copy of the arguments for hooks, so that a hook cannot change what runs."""
        try:
            return MappingProxyType(copy.deepcopy(dict(self.values)))
        except Exception:  # a type of the tool's own that cannot be copied
            return MappingProxyType(dict(self.values))

    @property
    def arguments(self) -> str:
        """Canonical JSON of the arguments."""
        return canonical(self.tool.arguments.plain(self.values))

    @property
    def parallel(self) -> bool:
        """Whether the call may run concurrently with others."""
        parallel = self.tool.parallel
        if not callable(parallel):
            return parallel
        try:
            return bool(parallel(self.shown))
        except Exception:
            return False  # running alone is always safe


class Admitted(Struct, frozen=True):
    """A call that may run now."""

    ready: Ready
    changed: bool = False
    """A person approved it with arguments other than the model's."""


class CallContext(Struct, frozen=True, kw_only=True):
    """State of the run for admission and execution, when the calls of an answer begin."""

    context: Context
    """What hooks and tools are called with. Its turn is that of the history up to the answer, or up
    to where its stream begins."""
    active: frozenset[str] | None
    """Names of the tools that may be used; None for all."""
    states: Mapping[str, CallState]
    children: Children | None = None
    starting: Callable[[ToolCall, Tool], Awaitable[bool]] | None = None
    """Hook awaited before the function of a call with an effect is called; journals the start.
    False means that the call may no longer run."""
    limit: Callable[[Totals], LimitReached | None] | None = None
    """The limit that is reached, if any, given what the calls of the answer have used so far."""
    outer: CallAccount | None = None
    """Account of the outer call, if this run is within one."""
    finished: Callable[[ToolFinished], None] | None = None
    """Callback for the end of each call, after the event was emitted."""


class Admission:
    """Checks the calls of one answer, one by one."""

    def __init__(self, toolbox: Toolbox, sink: Sink, context: CallContext) -> None:
        self._box = toolbox
        self._sink = sink
        self._context = context.context
        self._active = context.active
        self._states = context.states
        self._children = context.children

    def check(self, call: ToolCall) -> Ready | ToolResult:
        """The checks that need no waiting: find the tool, parse, validate."""
        tool = self._box.tools.get(call.tool)
        if tool is None:
            names = [n for n in self._box.tools if self._active is None or n in self._active]
            return tool_results.refused_unknown(call, names)
        if self._active is not None and call.tool not in self._active:
            unavailable = f"{call.tool} is not available at this point."
            return tool_results.result(call, "refused", unavailable)
        if call.tool in self._context.turn.failures:
            refusal = self._refuse_failing(call)
            if refusal is not None:
                return refusal
        if len(call.arguments) > self._box.limits.max_arguments:
            limit = self._box.limits.max_arguments
            text = f"The arguments have {len(call.arguments)} characters; use at most {limit}."
            return tool_results.result(call, "failed", text)
        if call.complaint is not None:
            text = f"The arguments are not valid JSON, so {call.tool} was not run: {call.complaint}"
            return tool_results.result(call, "failed", text)
        try:
            return Ready(tool, tool.arguments.parse(call.arguments))
        except BadArguments as error:
            return tool_results.result(call, "failed", str(error))

    def _refuse_failing(self, call: ToolCall) -> ToolResult | None:
        """Circuit breaker: refuse a tool that failed in several consecutive answers for the next
        few."""
        limits = self._box.limits
        left = refused_for(self._context.turn, call.tool, limits.failures, limits.cooldown)
        if left is None:
            return None
        answers = self._context.turn.failures[call.tool].answers
        plural = "" if left == 1 else "s"
        when = f"after {left} more answer{plural}" if left else "in the next answer"
        text = (
            f"{call.tool} failed in {answers} answers in a row and was not run. It can be tried "
            f"again {when}: use something else until then."
        )
        return tool_results.result(call, "refused", text)

    def is_unconditional(self, call: ToolCall, tool: Tool) -> bool:
        """Whether the call may run as soon as its arguments are valid."""
        return (
            self._box.gate is None
            and call.id not in self._states
            and tool.validate is None
            and tool.preview is None
            and tool.approval == "never"
            and tool.action is None
        )

    async def admit(self, call: ToolCall, ready: Ready) -> Admitted | ToolResult | Action:
        """Run hooks, preview and approval; returns an action if the call has to wait for one."""
        passed = await self._pass_hooks(call, ready)
        if isinstance(passed, ToolResult):
            return passed
        tool = passed.tool
        preview = await self._preview(call, passed)
        if tool.action is not None:
            return action(tool.action, call, passed.arguments, preview)
        state = self._states.get(call.id)
        if isinstance(state, Doubtful):
            required = action(
                "approval", call, passed.arguments, preview, again=True, attempt=state.attempt
            )
            approval, asks = state.approved, True
        else:
            required = action("approval", call, passed.arguments, preview)
            approval = state if isinstance(state, Approved) else None
            asks = await self._asks(call, passed)
        if approval is None or approval.digest != required.digest:
            return required if asks else Admitted(passed)
        if approval.arguments is None:
            return Admitted(passed)
        changed = await self._approved_change(call, tool, approval.arguments)
        return changed if isinstance(changed, ToolResult) else Admitted(changed, changed=True)

    async def _pass_hooks(self, call: ToolCall, ready: Ready) -> Ready | ToolResult:
        """Run the tool's `validate` hook and then the gate, which may rewrite the arguments."""
        tool = ready.tool
        if tool.validate is not None:
            problem = await self._validate(tool, call, ready)
            if problem is not None:
                return problem
        if self._box.gate is None:
            return ready
        try:
            decision = await awaited(self._box.gate(self._context, call, ready.shown))
        except Exception as error:
            LOG.warning("the gate failed: %s was denied", tool.name, exc_info=error)
            decision = Deny(f"the gate failed: {tool_results.explain(error)}")
        if decision is None or isinstance(decision, Allow):
            return ready
        if isinstance(decision, Rewrite):
            try:
                return Ready(tool, tool.arguments.check(decision.arguments))
            except BadArguments as error:
                decision = Deny(f"the gate's arguments do not fit. {error}")
        if not isinstance(decision, Deny):
            decision = Deny(
                f"the gate gave a {type(decision).__name__}, which is not a decision "
                "(it may give Allow, Deny, Rewrite or None)"
            )
        return tool_results.result(call, "refused", f"{call.tool} was not run: {decision.reason}")

    async def _validate(self, tool: Tool, call: ToolCall, ready: Ready) -> ToolResult | None:
        """The refusal of the tool's `validate` hook, if any."""
        assert tool.validate is not None
        expected = False
        try:
            problem = await awaited(tool.ask(tool.validate, self._tool_context(call), ready.shown))
        except Exception as error:
            problem, expected = tool_results.explain(error), tool_results.is_expected(error)
        if problem is False:
            problem = "the arguments are not valid"
        if not problem or problem is True:
            return None
        text = f"{call.tool} was not run: {problem}"
        return tool_results.result(call, "failed", text, expected=expected)

    async def _preview(self, call: ToolCall, ready: Ready) -> str | None:
        """Emit the tool's preview of the call, if it has one."""
        tool = ready.tool
        if tool.preview is None:
            return None
        try:
            text = await awaited(tool.ask(tool.preview, self._tool_context(call), ready.shown))
            if text is None:
                return None
            text = str(text)
        except Exception as error:  # a preview is for people: its failure does not reject the call
            LOG.info("the preview of %s failed", call.tool, exc_info=error)
            text = f"[There is no preview: {tool_results.explain(error)}]"
        preview = _cut(text, self._box.limits.progress_length)
        self._sink.put(ToolProgressed(call.id, call.tool, "preview", preview))
        return preview

    def _tool_context(self, call: ToolCall) -> ToolContext:
        return ToolContext(call.id, _no_progress, self._context, children=self._children)

    async def _approved_change(
        self, call: ToolCall, tool: Tool, arguments: Mapping[str, object]
    ) -> Ready | ToolResult:
        """Check the arguments a person set instead; the gate may not change them again."""
        try:
            changed = Ready(tool, tool.arguments.check(arguments))
        except BadArguments as error:
            text = f"{call.tool} was not run: the arguments that a person set do not fit. {error}"
            return tool_results.result(call, "failed", text)
        passed = await self._pass_hooks(call, changed)
        if isinstance(passed, Ready) and passed.values != changed.values:
            text = f"{call.tool} was not run: the gate changed the arguments that a person set."
            return tool_results.result(call, "refused", text)
        return passed

    async def _asks(self, call: ToolCall, ready: Ready) -> bool:
        """Whether the call needs a person's approval."""
        tool = ready.tool
        if not callable(tool.approval):
            return tool.approval == "ask"
        context = self._tool_context(call)
        return bool(await awaited(tool.ask(tool.approval, context, ready.shown)))


def _cut(preview: str, limit: int) -> str:
    """Shorten a preview, and state how much of it is not shown."""
    hidden = len(preview) - limit
    return preview if hidden <= 0 else f"{preview[:limit]}\n[… {hidden} more characters, not shown]"


def _no_progress(text: str, data: object = None) -> Awaitable[None]:
    """Progress callback of a call that has not begun: does nothing."""
    return CompletedAwaitable()
