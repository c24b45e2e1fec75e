"""The calls of one answer: which may run beside which, results in call order, how they are stopped.

Each call is a task of its own, cancelled once and by hand, outside any cancel scope: inside one,
anyio would cancel again at every await, a tool's clean-up would die and a tool that swallows
cancellation would spin. A failure on a call's way is a result for the model, never an exception
that ends the run. The way of each call, before it runs, is in `way.py`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator, Sequence
from functools import partial
from typing import Any, Final

from msgspec import Struct

from holdfast.kernel import results
from holdfast.kernel.channel import Sink
from holdfast.kernel.decide import CallState, Recorded, Started, Waiting
from holdfast.kernel.events import Action, ToolFinished, ToolProgressed, ToolStarted
from holdfast.kernel.messages import Outcome, ToolCall, ToolResult
from holdfast.kernel.tool import Commit, Nothing, Tool, ToolContext, Values
from holdfast.kernel.way import (
    Cleared,
    Middleware,
    Proceed,
    Ready,
    Standing,
    Toolbox,
    Way,
    awaited,
    canonical,
)

LOG: Final = logging.getLogger("holdfast")
"""Has the tracebacks of tools, at INFO: the model is told only what was raised."""
RECORDED: Final = frozenset({"once", "idempotent"})
"""Effects of tools whose calls are written down before they run, where there is a journal."""
NOT_STARTED: Final[tuple[Outcome, str]] = ("interrupted", "Not started: the chat was stopped.")


class Executed(Struct, frozen=True):
    """What became of the calls that were to be run, in call order."""

    results: Sequence[ToolResult]
    waiting: Sequence[Action]


class _Entry:
    """One call on its way."""

    __slots__ = (
        "abandoned",
        "began",
        "call",
        "checked",
        "outcome",
        "parallel",
        "running",
        "stopped",
        "task",
        "timers",
    )

    def __init__(self, call: ToolCall, checked: Ready | ToolResult) -> None:
        self.call = call
        self.checked = checked
        self.parallel = isinstance(checked, ToolResult) or checked.parallel
        self.task: asyncio.Task[None] | None = None
        self.running = False
        """Its coroutine has been entered."""
        self.began: float | None = None
        """When its function was called."""
        self.outcome: ToolResult | Action | None = None
        self.stopped: tuple[Outcome, str] | None = None
        """Why we cancelled it, if we did."""
        self.abandoned = False
        self.timers: list[asyncio.TimerHandle] = []

    @property
    def tool(self) -> Tool | None:
        return self.checked.tool if isinstance(self.checked, Ready) else None

    @property
    def has_effect(self) -> bool:
        """Its function was called, and that cannot be taken back."""
        return self.began is not None and self.tool is not None and self.tool.effect != "pure"


class _Room:
    """Waits for room in the sink when awaited; may just as well be dropped."""

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
        standing: Standing,
    ) -> None:
        self._box = toolbox
        self._sink = sink
        self._states = standing.states
        self._history = standing.history
        self._chat = standing.chat
        self._starting = standing.starting
        self._finished = standing.finished
        self.writes: dict[str, tuple[Any, ...]] = {}
        """Of calls with effect `commit`, by id: what is to be written with their results."""
        self._way = Way(toolbox, sink, standing)
        self._loop = asyncio.get_running_loop()
        self._entries: dict[str, _Entry] = {}
        self._queue: list[_Entry] = []
        self._running: list[_Entry] = []
        self._wake: asyncio.Future[None] | None = None
        self._reports = 0
        self._eager = True
        """Calls from the stream may still start: all before them could, too."""
        self._halted: tuple[Outcome, str] | None = None
        """Why nothing more is started."""
        self._refusing = False

    # --- what is asked of a batch ---

    def offer(self, call: ToolCall) -> None:
        """A call is complete in the stream. It starts if it may before its message is committed."""
        if call.provider_executed or not self._eager or self._halted is not None:
            return
        tool = self._box.tools.get(call.tool)
        if tool is None or not self._may_start_early(tool):
            self._eager = False
            return
        self._enqueue(call)
        self._start()

    async def run(self, calls: Sequence[ToolCall]) -> Executed:
        """Run the calls of a committed answer to their ends."""
        for call in calls:
            if call.id not in self._entries:
                self._enqueue(call)
        self._start()
        await self._idle()
        made: list[ToolResult] = []
        waiting: list[Action] = []
        for call in calls:
            outcome = self._entries[call.id].outcome
            if isinstance(outcome, ToolResult):
                made.append(outcome)
            elif outcome is not None:
                waiting.append(outcome)
        return Executed(made, waiting)

    def steer(self) -> None:
        """A new message waits: start nothing more, and cancel what says that it wants to be."""
        self._halt("skipped", results.SKIPPED)
        for entry in tuple(self._running):
            if entry.began is None:  # still at its gate, for example
                self._cancel(entry, "skipped", results.SKIPPED)
            elif entry.tool is not None and entry.tool.on_steer == "cancel":
                self._cancel(
                    entry, "interrupted", "Cancelled because of a new message from the user."
                )

    def halt(self) -> None:
        """Start nothing more; what runs comes to its end."""
        self._halt(*NOT_STARTED)

    def interrupt(self, why: str = "Interrupted by the user.") -> None:
        """The run was stopped: cancel everything, whatever it says."""
        self._cancel_all("interrupted", why)

    async def discard(self) -> None:
        """The attempt that brought the calls failed: leave nothing of them behind."""
        self._cancel_all("interrupted", "Void: the answer that asked for it failed.")
        await self._idle()

    async def refuse(
        self, calls: Sequence[ToolCall], answer: Callable[[ToolCall], ToolResult]
    ) -> list[ToolResult]:
        """Answer calls instead of running them. One that has begun and is not pure keeps its own
        result: nobody may be told that it was not run."""
        self._refusing = True
        self._cancel_all("interrupted", "Cancelled because of another call of the same message.")
        await self._idle()
        made: list[ToolResult] = []
        for call in calls:
            entry = self._entries.get(call.id)
            if entry is not None and entry.has_effect and isinstance(entry.outcome, ToolResult):
                made.append(entry.outcome)
            else:
                made.append(answer(call))
                self._tell(ToolFinished(made[-1], 0.0))
        return made

    def ran(self, calls: Sequence[ToolCall]) -> list[ToolResult]:
        """The results of those of the calls whose function was called, once nothing runs."""
        entries = [self._entries[call.id] for call in calls if call.id in self._entries]
        ended = [entry.outcome for entry in entries if entry.began is not None]
        return [outcome for outcome in ended if isinstance(outcome, ToolResult)]

    @property
    def busy(self) -> bool:
        """Whether the stream brought a call that was taken on."""
        return bool(self._entries)

    @property
    def left(self) -> int:
        """How many calls run or wait for their turn."""
        return len(self._running) + len(self._queue)

    @property
    def started(self) -> bool:
        """Whether a function was called, so that its effect cannot be taken back."""
        return any(entry.began is not None for entry in self._entries.values())

    def states(self) -> dict[str, CallState]:
        """How far the calls are that the stream brought."""
        states: dict[str, CallState] = {}
        for call_id, entry in self._entries.items():
            if isinstance(entry.outcome, ToolResult):
                states[call_id] = Recorded(entry.outcome)
            elif isinstance(entry.outcome, Action):
                states[call_id] = Waiting(entry.outcome)
            elif entry.task is not None:
                states[call_id] = Started()
        return states

    # --- scheduling ---

    def _may_start_early(self, tool: Tool) -> bool:
        if tool.approval != "never" or tool.exclusive or tool.action is not None:
            return False
        return tool.effect == "pure" or self._box.eager == "all"

    def _enqueue(self, call: ToolCall) -> None:
        checked = self._way.check(call)
        entry = _Entry(call, checked)
        self._entries[call.id] = entry
        state = self._states.get(call.id)
        if isinstance(state, Recorded):
            self._end(entry, results.fitted(state.result, self._max_result(entry.tool)))
        elif self._halted is not None:
            self._end(entry, results.result(call, *self._halted))
        else:
            self._queue.append(entry)

    def _start(self) -> None:
        """Start what may start, in call order: one that has to wait holds up all behind it."""
        while self._queue and self._has_room_for(self._queue[0]):
            entry = self._queue.pop(0)
            refusal: ToolResult | None
            if isinstance(entry.checked, ToolResult):
                refusal = entry.checked
            else:  # calls before it may have failed since it was checked
                refusal = self._way.refuse_failing(entry.call)
            if refusal is not None:
                self._end(entry, refusal)
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
        """Wait until no call runs. When we are cancelled, the calls are, and still waited for."""
        cancelled: asyncio.CancelledError | None = None
        while self._running:
            self._wake = self._loop.create_future()
            try:
                await self._wake
            except asyncio.CancelledError as error:
                if cancelled is not None:  # asked twice: whoever asks does not want to wait
                    for entry in tuple(self._running):
                        entry.abandoned = True
                        self._end(entry, _stopped(entry, ended=False))
                    raise
                cancelled = error
                self._cancel_all("interrupted", "The run was cancelled.")
        if cancelled is not None:
            raise cancelled

    def _end(self, entry: _Entry, outcome: ToolResult | Action) -> None:
        """A call has come to its end, or to a point where it waits."""
        entry.outcome = outcome
        for timer in entry.timers:
            timer.cancel()
        if isinstance(outcome, ToolResult):
            self._tell_end(entry, outcome)
        if entry in self._running:
            self._running.remove(entry)
            if self._halted is None:
                self._start()
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    def _tell_end(self, entry: _Entry, made: ToolResult) -> None:
        self._way.note(made)
        if not self._refusing or entry.has_effect:
            began = entry.began
            seconds = 0.0 if began is None else self._loop.time() - began
            self._tell(ToolFinished(made, seconds))

    def _tell(self, finished: ToolFinished) -> None:
        self._sink.put(finished)
        if self._finished is not None:
            self._finished(finished)

    # --- stopping ---

    def _halt(self, outcome: Outcome, why: str) -> None:
        if self._halted is None:
            self._halted = (outcome, why)
        waiting, self._queue = self._queue, []
        for entry in waiting:
            self._end(entry, results.result(entry.call, outcome, why))

    def _cancel_all(self, outcome: Outcome, why: str) -> None:
        self._halted = (outcome, why)
        self._halt(outcome, why)
        for entry in tuple(self._running):
            self._cancel(entry, outcome, why)

    def _cancel(self, entry: _Entry, outcome: Outcome, why: str) -> None:
        """Cancel a running call, once. One that does not end in time is left behind."""
        if entry.stopped is not None or entry.task is None:
            return
        entry.stopped = (outcome, why)
        entry.task.cancel()
        if entry.running:
            grace = self._box.limits.grace
            entry.timers.append(self._loop.call_later(grace, self._abandon, entry))
        else:  # cancelled before its first line: nothing of it will run, not even a `finally`
            self._end(entry, results.result(entry.call, outcome, why))

    def _abandon(self, entry: _Entry) -> None:
        assert entry.stopped is not None
        entry.abandoned = True
        tool = entry.call.tool
        seconds = self._box.limits.grace
        self._sink.warn(f"{tool} did not stop within {seconds:g} s and was left behind.")
        self._end(entry, _stopped(entry, ended=False))

    # --- the way of one call ---

    async def _drive(self, entry: _Entry) -> None:
        """Walk one call's way to its end, and let nothing but the end out."""
        entry.running = True
        outcome: ToolResult | Action
        try:
            outcome = await self._walk(entry)
            if entry.stopped is not None and entry.stopped[0] == "timed_out":
                outcome = _stopped(entry, ended=True)
        except BaseException as error:
            thrown_away = asyncio.current_task(self._loop) is not entry.task
            if thrown_away and isinstance(error, GeneratorExit):
                raise  # no tool raised it: this coroutine is being closed
            outcome = self._after_exception(entry, error)
            if isinstance(error, KeyboardInterrupt):
                self._halt("interrupted", "The program was interrupted.")
                self._finish(entry, outcome)
                raise
        self._finish(entry, outcome)

    def _after_exception(self, entry: _Entry, error: BaseException) -> ToolResult:
        tool = entry.call.tool
        if entry.stopped is None:  # a CancelledError too is then the tool's own doing, not ours
            LOG.info("%s failed", tool, exc_info=error)
            return results.failed(entry.call, error)
        in_thread = entry.began is not None and entry.tool is not None and entry.tool.in_thread
        if in_thread:
            self._sink.warn(f"{tool} runs in a thread, cannot be stopped and was left behind.")
        return _stopped(entry, ended=not in_thread)

    def _finish(self, entry: _Entry, outcome: ToolResult | Action) -> None:
        if not entry.abandoned:
            self._end(entry, outcome)
        elif isinstance(outcome, ToolResult):
            LOG.info("%s ended after it was left behind: %s", entry.call.tool, outcome.outcome)

    async def _walk(self, entry: _Entry) -> ToolResult | Action:
        """From valid arguments to the result, or to the point where somebody outside must act."""
        ready = entry.checked
        assert isinstance(ready, Ready)
        if self._way.asks_nobody(entry.call, ready.tool):  # the usual case
            return await self._run(entry, ready, changed=False)
        cleared = await self._way.walk(entry.call, ready)
        if not isinstance(cleared, Cleared):
            return cleared
        return await self._run(entry, cleared.ready, cleared.changed)

    async def _run(self, entry: _Entry, ready: Ready, changed: bool) -> ToolResult:
        call, tool = entry.call, ready.tool
        if entry.stopped is not None:  # a hook kept the cancellation to itself
            return _stopped(entry, ended=True)
        if self._starting is not None and tool.effect in RECORDED:
            may_run = await self._starting(call, tool)
            if not may_run or entry.stopped is not None:
                return results.result(call, *(entry.stopped or NOT_STARTED))
        entry.began = self._loop.time()
        self._sink.put(ToolStarted(call.id, call.tool, _label(ready)))
        if tool.timeout is not None:
            why = f"{call.tool} took longer than {tool.timeout:g} s and was cancelled."
            timer = self._loop.call_later(tool.timeout, self._cancel, entry, "timed_out", why)
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
        said = _about_the_change(ready) if changed else ""
        return results.returned(call, tool, value, self._max_result(tool), preface=said)

    async def _through_middleware(self, entry: _Entry, ready: Ready) -> object:
        proceed: Proceed = partial(self._invoke, entry, ready)
        shown = ready.shown
        for middleware in reversed(self._box.middleware):
            proceed = partial(_wrap, middleware, entry.call, shown, proceed)
        return await proceed()

    async def _invoke(self, entry: _Entry, ready: Ready) -> object:
        tool = ready.tool
        function = tool.function
        assert function is not None  # a tool without one waits for an action
        positional = (self._context(entry, tool),) if tool.takes_context else ()
        if not tool.in_thread:
            return await function(*positional, **ready.values)
        value = await self._box.ports.in_thread(partial(function, *positional, **ready.values))
        if positional:  # an `async` function in a wrapper that is not goes on out here
            positional[0]._report = partial(self._report, entry)
        return await awaited(value)

    def _max_result(self, tool: Tool | None) -> int:
        return (tool.max_result if tool is not None else None) or self._box.max_result

    def _context(self, entry: _Entry, tool: Tool) -> ToolContext:
        deadline = None
        if tool.timeout is not None and entry.began is not None:
            deadline = entry.began + tool.timeout
        report = self._report_from_thread if tool.in_thread else self._report
        return ToolContext(
            entry.call.id,
            partial(report, entry),
            history=self._history,
            deadline=deadline,
            chat=self._chat,
        )

    def _report(self, entry: _Entry, text: str) -> Awaitable[None]:
        if entry.outcome is not None:  # late words of a call that is over
            return _Room(None, breathe=True)
        text = str(text)[: self._box.limits.progress_length]
        self._sink.put(ToolProgressed(entry.call.id, entry.call.tool, "progress", text))
        self._reports += 1
        # A tool that does nothing but report still lets others run, and can be stopped.
        return _Room(self._sink, breathe=not self._reports % 64)

    def _report_from_thread(self, entry: _Entry, text: str) -> Awaitable[None]:
        async def report() -> None:
            await self._report(entry, text)

        self._box.ports.from_thread(report)
        return Nothing()


def _stopped(entry: _Entry, *, ended: bool) -> ToolResult:
    """The result of a call that we cancelled."""
    assert entry.stopped is not None
    if entry.began is None:
        return results.result(entry.call, *entry.stopped)
    return results.stopped(entry.call, entry.tool, *entry.stopped, ended=ended)


def _label(ready: Ready) -> str:
    if ready.tool.describe is None:
        return ready.tool.label
    try:
        return str(ready.tool.describe(ready.shown))
    except Exception:
        return ready.tool.label


def _about_the_change(ready: Ready) -> str:
    arguments = canonical(ready.tool.arguments.plain(ready.values))
    return f"[A person changed the arguments to {arguments}]\n"


async def _wrap(middleware: Middleware, call: ToolCall, values: Values, proceed: Proceed) -> object:
    return await middleware(call, values, proceed)
