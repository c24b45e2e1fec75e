"""Execution of the tool calls of one answer: scheduling, results in call order, cancellation.

Each call is a task of its own, cancelled once and by hand, outside any cancel scope: inside one,
anyio would cancel again at every await, a tool's clean-up would die and a tool that swallows
cancellation would spin. A failed call is a result for the model, never an exception
that ends the run. What happens to a call before it runs is in `call_admission.py`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Generator, Sequence
from functools import partial
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel import tool_results
from holdfast.kernel.approval import canonical
from holdfast.kernel.awaiting import awaited
from holdfast.kernel.call_account import CallAccount, totals_of
from holdfast.kernel.call_admission import (
    Admission,
    Admitted,
    CallContext,
    Proceed,
    Ready,
    Toolbox,
)
from holdfast.kernel.channel import Sink
from holdfast.kernel.decide import AwaitingAction, CallState, Recorded, Started
from holdfast.kernel.errors import ToolFailed
from holdfast.kernel.events import Action, ToolFinished, ToolProgressed, ToolStarted
from holdfast.kernel.limits import NOTHING_USED, LimitReached
from holdfast.kernel.messages import ToolCall, ToolOutcome, ToolResult
from holdfast.kernel.timer import call_later
from holdfast.kernel.tool import Commit, CompletedAwaitable, Tool, ToolContext

LOG: Final = logging.getLogger("holdfast")
"""Logger for tracebacks of tools, at INFO: the model reads only the exception's message."""
RECORDED: Final = frozenset({"once", "idempotent"})
"""Effects of tools whose calls are recorded in the journal before they run, if there is one."""
NOT_STARTED: Final[tuple[ToolOutcome, str]] = ("interrupted", "Not started: the chat was stopped.")


class BatchOutcome(Struct, frozen=True):
    """Outcome of a batch: results, and actions to wait for, in call order."""

    results: Sequence[ToolResult]
    waiting: Sequence[Action]


class _Entry:
    """State of one call in a batch."""

    __slots__ = (
        "abandoned",
        "account",
        "began",
        "call",
        "checked",
        "outcome",
        "parallel",
        "running",
        "started_at",
        "stopped",
        "task",
        "timers",
    )

    def __init__(self, call: ToolCall, checked: Ready | ToolResult) -> None:
        self.call = call
        self.checked = checked
        self.parallel = isinstance(checked, ToolResult) or checked.parallel
        self.account: CallAccount | None = None
        """Usage of the call, if its function can charge any."""
        self.task: asyncio.Task[None] | None = None
        self.running = False
        """Whether its coroutine has been entered."""
        self.began: float | None = None
        """Time at which its function was called, on the event loop's clock; None before."""
        self.started_at = 0
        """Time at which its function was called: wall clock, in microseconds."""
        self.outcome: ToolResult | Action | None = None
        self.stopped: tuple[ToolOutcome, str] | None = None
        """Outcome and reason if the batch cancelled the call."""
        self.abandoned = False
        self.timers: list[asyncio.TimerHandle] = []

    @property
    def tool(self) -> Tool | None:
        return self.checked.tool if isinstance(self.checked, Ready) else None

    @property
    def has_effect(self) -> bool:
        """Whether its function was called and is not pure, so that it cannot be undone."""
        return self.began is not None and self.tool is not None and self.tool.effect != "pure"


class _Room:
    """Awaitable that waits for room in the sink; may be dropped without awaiting."""

    def __init__(self, sink: Sink | None, breathe: bool = False) -> None:
        self._sink = sink
        self._breathe = breathe

    def __await__(self) -> Generator[Any, None, None]:
        if self._sink is not None and self._sink.full:
            yield from self._sink.room().__await__()
        elif self._breathe:
            yield


class Batch:
    """The calls of one answer, from the stream that brings them to their results."""

    def __init__(
        self,
        toolbox: Toolbox,
        sink: Sink,
        context: CallContext,
    ) -> None:
        self._box = toolbox
        self._sink = sink
        self._states = context.states
        self._context = context.context
        self._children = context.children
        self._limit = context.limit
        self._outer = context.outer
        self._starting = context.starting
        self._finished = context.finished
        self.writes: dict[str, tuple[Any, ...]] = {}
        """Writes of calls with effect `commit`, by call id, to be committed with their results."""
        self._admission = Admission(toolbox, sink, context)
        self._loop = asyncio.get_running_loop()
        self._entries: dict[str, _Entry] = {}
        self._queue: list[_Entry] = []
        self._running: list[_Entry] = []
        self._wake: asyncio.Future[None] | None = None
        self._reports = 0
        self._eager = True
        """Whether calls from the stream may still start: all before them could."""
        self._halted: tuple[ToolOutcome, str] | None = None
        """Outcome and reason for calls that are no longer started; None while calls start."""
        self._refusing = False

    # --- the interface ---

    def offer(self, call: ToolCall) -> None:
        """Take a complete call from the stream; it starts if it may run before the commit."""
        if call.provider_executed or not self._eager or self._halted is not None:
            return
        tool = self._box.tools.get(call.tool)
        if tool is None or not self._may_start_early(tool):
            self._eager = False
            return
        self._enqueue(call)
        self._start()

    async def run(self, calls: Sequence[ToolCall]) -> BatchOutcome:
        """Run the calls of a committed answer until all have a result or wait."""
        for call in calls:
            if call.id not in self._entries:
                self._enqueue(call)
        self._start()
        await self._idle()
        finished: list[ToolResult] = []
        waiting: list[Action] = []
        for call in calls:
            outcome = self._entries[call.id].outcome
            if isinstance(outcome, ToolResult):
                finished.append(outcome)
            elif outcome is not None:
                waiting.append(outcome)
        return BatchOutcome(finished, waiting)

    def steer(self) -> None:
        """A steering message waits: start no more calls; cancel those with on_steer='cancel'."""
        self._halt("skipped", tool_results.SKIPPED)
        for entry in tuple(self._running):
            if entry.began is None:  # still at its gate, for example
                self._cancel(entry, "skipped", tool_results.SKIPPED)
            elif entry.tool is not None and entry.tool.on_steer == "cancel":
                self._cancel(
                    entry, "interrupted", "Cancelled because of a new message from the user."
                )

    def halt(self) -> None:
        """Start no more calls; running ones finish."""
        self._halt(*NOT_STARTED)

    def interrupt(self, why: str = "Interrupted by the user.") -> None:
        """The run was interrupted: cancel all calls, regardless of on_steer."""
        self._cancel_all("interrupted", why)

    async def discard(self) -> None:
        """The attempt that contained the calls failed: cancel all and wait for their end."""
        self._cancel_all("interrupted", "Void: the answer that asked for it failed.")
        await self._idle()

    async def refuse(
        self, calls: Sequence[ToolCall], answer: Callable[[ToolCall], ToolResult]
    ) -> list[ToolResult]:
        """Give calls a result instead of running them. A call that has started and is not pure
        keeps its own result: the model must not read that it was not run."""
        self._refusing = True
        self._cancel_all("interrupted", "Cancelled because of another call of the same message.")
        await self._idle()
        finished: list[ToolResult] = []
        for call in calls:
            entry = self._entries.get(call.id)
            if entry is not None and entry.has_effect and isinstance(entry.outcome, ToolResult):
                finished.append(entry.outcome)
            else:
                finished.append(answer(call))
                self._emit(ToolFinished(finished[-1], 0.0))
        return finished

    def ran(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """Results of the calls whose function was called. Use only once nothing runs."""
        entries = [self._entries[call.id] for call in calls if call.id in self._entries]
        ended = [entry.outcome for entry in entries if entry.began is not None]
        return [outcome for outcome in ended if isinstance(outcome, ToolResult)]

    def accounts_besides(self, results: Sequence[ToolResult]) -> list[CallAccount]:
        """Accounts of the calls that have none of these results."""
        known = {result.call_id for result in results}
        entries = [entry for entry in self._entries.values() if entry.call.id not in known]
        return [entry.account for entry in entries if entry.account is not None]

    @property
    def busy(self) -> bool:
        """Whether a call was accepted."""
        return bool(self._entries)

    @property
    def left(self) -> int:
        """Number of calls that run or are queued."""
        return len(self._running) + len(self._queue)

    @property
    def started(self) -> bool:
        """Whether the function of a call was called, so that its effect cannot be undone."""
        return any(entry.began is not None for entry in self._entries.values())

    def states(self, *, steering: bool = False) -> dict[str, CallState]:
        """States of the accepted calls, by call id.

        `steering`: a steering message waits, and may have arrived before this batch could be told.
        """
        if steering and self._entries:
            self.steer()
        states: dict[str, CallState] = {}
        for call_id, entry in self._entries.items():
            if isinstance(entry.outcome, ToolResult):
                states[call_id] = Recorded(entry.outcome)
            elif isinstance(entry.outcome, Action):
                states[call_id] = AwaitingAction(entry.outcome)
            elif entry.task is not None:
                states[call_id] = Started()
        return states

    # --- scheduling ---

    def _may_start_early(self, tool: Tool) -> bool:
        if tool.approval != "never" or tool.exclusive or tool.action is not None:
            return False
        return tool.effect == "pure" or self._box.eager == "all"

    def _enqueue(self, call: ToolCall) -> None:
        checked = self._admission.check(call)
        entry = _Entry(call, checked)
        self._entries[call.id] = entry
        state = self._states.get(call.id)
        if isinstance(state, Recorded):
            self._end(entry, tool_results.fitted(state.result, self._max_result(entry.tool)))
        elif self._halted is not None:
            self._end(entry, tool_results.result(call, *self._halted))
        else:
            self._queue.append(entry)

    def _start(self) -> None:
        """Start queued calls in order, until one has to wait."""
        while self._queue and self._has_room_for(self._queue[0]):
            entry = self._queue.pop(0)
            if isinstance(entry.checked, ToolResult):
                self._end(entry, entry.checked)
                continue
            self._running.append(entry)
            entry.task = self._loop.create_task(self._drive(entry), name=f"tool {entry.call.tool}")

    def _has_room_for(self, entry: _Entry) -> bool:
        if not self._running:
            return True
        return (
            entry.parallel
            and all(other.parallel for other in self._running)
            and len(self._running) < self._box.limits.concurrency
        )

    async def _idle(self) -> None:
        """Wait until no call runs. If cancelled, cancel the calls and wait for their end."""
        cancelled: asyncio.CancelledError | None = None
        while self._running:
            self._wake = self._loop.create_future()
            try:
                await self._wake
            except asyncio.CancelledError as error:
                if cancelled is not None:  # cancelled twice: do not wait
                    for entry in tuple(self._running):
                        entry.abandoned = True
                        self._end(entry, _stopped(entry, ended=False))
                    raise
                cancelled = error
                self._cancel_all("interrupted", "The run was cancelled.")
        if cancelled is not None:
            try:
                raise cancelled
            finally:
                del cancelled  # its traceback refers to this frame

    def _end(self, entry: _Entry, outcome: ToolResult | Action) -> None:
        """Record the outcome of a call: its result, or the action it waits for."""
        seconds = 0.0
        if isinstance(outcome, ToolResult) and entry.began is not None:
            # The duration is measured by the event loop's clock: a wall clock may jump.
            seconds = self._loop.time() - entry.began
            finished_at = entry.started_at + round(seconds * 1_000_000)
            outcome = replace(outcome, started_at=entry.started_at, finished_at=finished_at)
            if entry.account is not None:
                outcome = _with_usage(outcome, entry.account)
                entry.account.close()
        entry.outcome = outcome
        for timer in entry.timers:
            timer.cancel()
        if isinstance(outcome, ToolResult) and (not self._refusing or entry.has_effect):
            self._emit(ToolFinished(outcome, seconds))
        if entry in self._running:
            self._running.remove(entry)
            if self._halted is None:
                self._start()
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _emit(self, finished: ToolFinished) -> None:
        self._sink.put(finished)
        if self._finished is not None:
            self._finished(finished)

    # --- stopping ---

    def _halt(self, outcome: ToolOutcome, why: str) -> None:
        if self._halted is None:
            self._halted = (outcome, why)
        waiting, self._queue = self._queue, []
        for entry in waiting:
            self._end(entry, tool_results.result(entry.call, outcome, why))

    def _cancel_all(self, outcome: ToolOutcome, why: str) -> None:
        self._halted = (outcome, why)
        self._halt(outcome, why)
        for entry in tuple(self._running):
            self._cancel(entry, outcome, why)

    def _cancel(self, entry: _Entry, outcome: ToolOutcome, why: str) -> None:
        """Cancel a running call, once. A call that does not end in time is abandoned."""
        if entry.stopped is not None or entry.task is None:
            return
        entry.stopped = (outcome, why)
        entry.task.cancel()
        if entry.account is not None:
            entry.account.stop()
        if entry.running:
            grace = self._box.limits.grace
            entry.timers.append(call_later(self._loop, grace, self._abandon, entry))
        else:  # cancelled before its first line: nothing of it will run, not even a `finally`
            self._end(entry, tool_results.result(entry.call, outcome, why))

    def _abandon(self, entry: _Entry) -> None:
        assert entry.stopped is not None
        entry.abandoned = True
        tool = entry.call.tool
        seconds = self._box.limits.grace
        self._sink.warn(f"{tool} did not stop within {seconds:g} s and was left behind.")
        self._end(entry, _stopped(entry, ended=False))

    # --- one call ---

    async def _drive(self, entry: _Entry) -> None:
        """Admit and run one call; every exception becomes its result."""
        entry.running = True
        outcome: ToolResult | Action
        try:
            outcome = await self._admit_and_run(entry)
            if entry.stopped is not None and entry.stopped[0] == "timed_out":
                outcome = _stopped(entry, ended=True)
        except BaseException as error:
            is_closing = asyncio.current_task(self._loop) is not entry.task
            if is_closing and isinstance(error, GeneratorExit):
                raise  # no tool raised it: this coroutine is being closed
            outcome = self._after_exception(entry, error)
            if isinstance(error, KeyboardInterrupt):
                self._halt("interrupted", "The program was interrupted.")
                self._finish(entry, outcome)
                raise
        self._finish(entry, outcome)

    def _after_exception(self, entry: _Entry, error: BaseException) -> ToolResult:
        tool = entry.call.tool
        if entry.stopped is None:  # then even a CancelledError was raised by the tool itself
            LOG.info("%s failed", tool, exc_info=error)
            return tool_results.failed(entry.call, error)
        in_thread = entry.began is not None and entry.tool is not None and entry.tool.in_thread
        if in_thread:
            self._sink.warn(f"{tool} runs in a thread, cannot be stopped and was left behind.")
        return _stopped(entry, ended=not in_thread)

    def _finish(self, entry: _Entry, outcome: ToolResult | Action) -> None:
        if not entry.abandoned:
            self._end(entry, outcome)
        elif isinstance(outcome, ToolResult):
            LOG.info("%s ended after it was left behind: %s", entry.call.tool, outcome.outcome)

    async def _admit_and_run(self, entry: _Entry) -> ToolResult | Action:
        """Admit the call and run it; returns an action if the call has to wait for one."""
        ready = entry.checked
        assert isinstance(ready, Ready)
        if self._admission.is_unconditional(entry.call, ready.tool):  # the usual case
            return await self._run(entry, ready, changed=False)
        admitted = await self._admission.admit(entry.call, ready)
        if not isinstance(admitted, Admitted):
            return admitted
        return await self._run(entry, admitted.ready, admitted.changed)

    async def _run(self, entry: _Entry, ready: Ready, changed: bool) -> ToolResult:
        call, tool = entry.call, ready.tool
        if entry.stopped is not None:  # a hook swallowed the cancellation
            return _stopped(entry, ended=True)
        if self._starting is not None and tool.effect in RECORDED:
            may_run = await self._starting(call, tool)
            if not may_run or entry.stopped is not None:
                return tool_results.result(call, *(entry.stopped or NOT_STARTED))
        entry.began, entry.started_at = self._loop.time(), self._box.ports.now()
        self._sink.put(ToolStarted(call.id, call.tool, _label(ready)))
        if tool.timeout is not None:
            why = f"{call.tool} took longer than {tool.timeout:g} s and was cancelled."
            timer = call_later(self._loop, tool.timeout, self._cancel, entry, "timed_out", why)
            entry.timers.append(timer)
        if self._box.middleware:
            value = await self._through_middleware(entry, ready)
        elif tool.in_thread or tool.takes_context or tool.function is None:
            value = await self._invoke(entry, ready)
        else:
            value = await tool.function(**ready.values)  # the usual case, without another coroutine
        if isinstance(value, Commit):
            self.writes[call.id] = value.writes
            value = value.value
        preface = _change_notice(ready) if changed else ""
        return tool_results.returned(call, tool, value, self._max_result(tool), preface=preface)

    async def _through_middleware(self, entry: _Entry, ready: Ready) -> object:
        proceed: Proceed = partial(self._invoke, entry, ready)
        shown = ready.shown
        for middleware in reversed(self._box.middleware):
            proceed = partial(middleware, self._context, entry.call, shown, proceed)
        return await proceed()

    async def _invoke(self, entry: _Entry, ready: Ready) -> object:
        tool = ready.tool
        function = tool.function
        assert function is not None  # a tool without one waits for an action
        positional = (self._tool_context(entry, tool),) if tool.takes_context else ()
        if not tool.in_thread:
            return await function(*positional, **ready.values)
        value = await self._box.ports.in_thread(partial(function, *positional, **ready.values))
        if positional:  # an `async` function in a wrapper that is not continues out here
            positional[0]._report = partial(self._report, entry)
        return await awaited(value)

    def _max_result(self, tool: Tool | None) -> int:
        return (tool.max_result if tool is not None else None) or self._box.max_result

    def _tool_context(self, entry: _Entry, tool: Tool) -> ToolContext:
        deadline = None
        if tool.timeout is not None and entry.began is not None:
            deadline = entry.began + tool.timeout
        report = self._report_from_thread if tool.in_thread else self._report
        entry.account = CallAccount(self._limit_of_calls, self._outer)
        return ToolContext(
            entry.call.id,
            partial(report, entry),
            self._context,
            deadline=deadline,
            children=self._children,
            account=entry.account,
        )

    def _limit_of_calls(self) -> LimitReached | None:
        """The limit that is reached with what the calls have used so far, if any."""
        if self._limit is None:
            return None
        accounts = [entry.account for entry in self._entries.values() if entry.account is not None]
        used = [totals_of(account.usage, account.steps) for account in accounts]
        return self._limit(sum(used, NOTHING_USED))

    def _report(self, entry: _Entry, text: str, data: object = None) -> Awaitable[None]:
        return self._show(entry, text, _encoded(data))

    def _report_from_thread(self, entry: _Entry, text: str, data: object = None) -> Awaitable[None]:
        encoded = _encoded(data)  # as it is now: the tool may change it meanwhile

        async def report() -> None:
            await self._show(entry, text, encoded)

        self._box.ports.from_thread(report)
        return CompletedAwaitable()

    def _show(self, entry: _Entry, text: str, data: str | None) -> Awaitable[None]:
        if entry.outcome is not None:  # a late report of a call that has ended
            return _Room(None, breathe=True)
        text = str(text)[: self._box.limits.progress_length]
        plain = None if data is None else self._plain(entry, data)
        self._sink.put(ToolProgressed(entry.call.id, entry.call.tool, "progress", text, plain))
        self._reports += 1
        # A tool that does nothing but report still lets others run, and can be stopped.
        return _Room(self._sink, breathe=not self._reports % 64)

    def _plain(self, entry: _Entry, data: str) -> Any:
        """Data of a progress report; None with a warning if it is too long."""
        limit = self._box.limits.progress_length
        if len(data) <= limit:
            return json.loads(data)
        self._sink.warn(
            f"{entry.call.tool} reported progress with {len(data)} characters of data, which are "
            f"not shown: report at most {limit}."
        )
        return None


def _encoded(data: object) -> str | None:
    """Data of a progress report as JSON."""
    try:
        return None if data is None else canonical(data)
    except (TypeError, ValueError, RecursionError) as error:
        raise ToolFailed(f"the data of a progress report is not JSON: {error}") from None


def _stopped(entry: _Entry, *, ended: bool) -> ToolResult:
    """The result of a call that the batch cancelled."""
    assert entry.stopped is not None
    if entry.began is None:
        return tool_results.result(entry.call, *entry.stopped)
    return tool_results.stopped(entry.call, entry.tool, *entry.stopped, ended=ended)


def _with_usage(result: ToolResult, account: CallAccount) -> ToolResult:
    if account.usage is None and not account.steps:
        return result
    return replace(result, usage=account.usage, steps=account.steps)


def _label(ready: Ready) -> str:
    if ready.tool.describe is None:
        return ready.tool.label
    try:
        return str(ready.tool.describe(ready.shown))
    except Exception:
        return ready.tool.label


def _change_notice(ready: Ready) -> str:
    return f"[A person changed the arguments to {ready.arguments}]\n"
