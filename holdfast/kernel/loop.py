"""The in-memory driver: decide, do the step, append its outcome to a list, and again.

The loop keeps no state of its own beside what is committed: the history, and what stands beside it
until it enters the history (steering and follow-ups that wait, results and approvals from outside,
a compaction that was asked for). Starting, going on and resuming are the same call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, Union, assert_never

import anyio
from msgspec import Struct
from msgspec.structs import replace

from holdfast.kernel import compact, results, retry
from holdfast.kernel.assemble import Assembly
from holdfast.kernel.channel import Sink
from holdfast.kernel.context import Projection, Trim, estimate_text, repair
from holdfast.kernel.decide import (
    CallModel,
    CallState,
    Compact,
    DeliverSteering,
    Facts,
    Fail,
    Finish,
    LoadContext,
    Recover,
    RefuseCalls,
    RequireAction,
    Rules,
    RunCalls,
    SkipCalls,
    Waiting,
    decide,
    size,
)
from holdfast.kernel.errors import (
    Escalated,
    Failure,
    HoldfastError,
    PrepareError,
    StillOverLimit,
    classify,
    describe,
)
from holdfast.kernel.events import (
    Action,
    Compacted,
    Compacting,
    Delivered,
    Delivery,
    EndReason,
    Event,
    MessageCommitted,
    Retrying,
    RunEnded,
    RunStarted,
    StepStarted,
    Summary,
    ToolFinished,
    Warned,
)
from holdfast.kernel.execute import Batch, Toolbox
from holdfast.kernel.generate import Interrupted, Interruption, Silence, generate
from holdfast.kernel.messages import (
    AskedBy,
    Message,
    Text,
    ToolCall,
    ToolResult,
    Usage,
    injected,
    note,
    results_message,
)
from holdfast.kernel.model import Model, Request, TextDelta
from holdfast.kernel.policy import max_result
from holdfast.kernel.turn import Turn, fold, fold_all

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.agent import Agent

# --- The stop guard -----------------------------------------------------------------------------


class Stopping(Struct, frozen=True):
    """What the guard is asked about."""

    steps: int
    message: Message | None
    """The answer that would be the last."""
    reason: Literal["stop", "stop_after_tool"]


class Inject(Struct, frozen=True):
    """Do not stop: the model is told this, and goes on. Nothing to tell means that it may stop."""

    text: str


class Escalate(Struct, frozen=True):
    """End the run with an error."""

    reason: str


GuardVerdict: TypeAlias = Union[Inject, Escalate, None]
"""None lets the run stop."""
Guard: TypeAlias = Callable[[Stopping], Union[GuardVerdict, Awaitable[GuardVerdict]]]
Active: TypeAlias = Callable[[Sequence[Message]], Iterable[str]]
Project: TypeAlias = Callable[[Sequence[Message]], Sequence[Message]]


# --- What comes from outside and what goes there ------------------------------------------------


class Inbox:
    """What people want of a run while it goes on."""

    def __init__(self) -> None:
        self.steering: list[Message] = []
        self.follow_ups: list[Message] = []
        self.interruption = Interruption()
        self.on_steer: Callable[[], object] | None = None
        """Whom a new steering message concerns right now."""
        self.closed = False

    def steer(self, message: Message) -> None:
        self.steering.append(message)
        if self.on_steer is not None:
            self.on_steer()

    def take_steering(self) -> tuple[Message, ...]:
        taken, self.steering = tuple(self.steering), []
        return taken

    def take_follow_ups(self) -> tuple[Message, ...]:
        taken, self.follow_ups = tuple(self.follow_ups), []
        return taken


class RunResult(Struct, frozen=True):
    """What a run came to."""

    reason: EndReason
    history: tuple[Message, ...]
    """All messages: hand it to the next run to go on."""
    new: tuple[Message, ...]
    """Of these, the ones that this run added."""
    summary: Summary
    failure: Failure | None = None
    actions: tuple[Action, ...] = ()
    """What the run waits for, when it `requires_action`."""
    undelivered: tuple[Message, ...] = ()
    """Steering and follow-ups that were accepted and not delivered any more."""

    @property
    def text(self) -> str:
        """The text of the last answer."""
        for message in reversed(self.new):
            if message.role == "assistant":
                return message.text
        return ""


class RunFailed(HoldfastError):
    """A run that was awaited ended with an error. What it did is in `result`."""

    def __init__(self, result: RunResult) -> None:
        assert result.failure is not None
        self.failure = result.failure
        self.result = result
        detail = f" [{self.failure.kind}: {self.failure.detail}]" if self.failure.detail else ""
        super().__init__(f"{self.failure.message}{detail}")


class Failed(Exception):
    """Ends the run with a failure that is already classified."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Ending(Struct, frozen=True):
    reason: EndReason
    failure: Failure | None = None
    actions: tuple[Action, ...] = ()


NO_FACTS: Final = Facts()
KILLED: Final = Failure("internal", "The run was torn down from outside.")


class Loop:
    """One run over one history."""

    def __init__(
        self,
        agent: Agent,
        history: Sequence[Message],
        inbox: Inbox,
        *,
        prompt: Message | None,
        journal: Mapping[str, CallState],
        compaction: AskedBy | None,
    ) -> None:
        self._agent = agent
        self._policy = agent.policy
        self._ports = agent.ports
        self._model: Model = agent.model
        self._inbox = inbox
        self._interruption = inbox.interruption
        self._prompt = prompt
        self._history = list(history)
        self._given = len(self._history)
        self._turn: Turn = fold_all(self._history)
        self._trim = Trim(self._policy.context.trim_over, self._policy.context.trim_to)
        self._projection = Projection(self._history, self._trim)
        self._call_ids = {call.id for message in self._history for call in message.calls}
        self._journal: dict[str, CallState] = dict(journal)
        self._compaction = compaction
        self._batch: Batch | None = None
        """The calls of the last answer, when its stream started some of them."""
        self._active: frozenset[str] | None = None
        self._reported_window: int | None = None
        self._specs = tuple(tool.spec for tool in agent.toolset.values())
        self._rules = self._make_rules()
        self._toolbox = self._make_toolbox()
        self._count = _Count()
        self._sink: Sink
        self._clock: Callable[[], float]
        self._silence: Silence
        self.result: RunResult | None = None

    @property
    def history(self) -> tuple[Message, ...]:
        return tuple(self._history)

    @property
    def turn(self) -> Turn:
        return self._turn

    # --- from the first event to the last ---

    async def run(self, sink: Sink) -> RunResult:
        """Drive the history until there is nothing left to do. Only cancellation is raised."""
        self._sink = sink
        self._clock = asyncio.get_running_loop().time
        self._silence = Silence(self._policy.stream)
        began = self._clock()
        ending = Ending("error", KILLED)
        try:
            ending = await self._until_rest()
        except asyncio.CancelledError as error:
            ending = Ending("error", classify(error))
            raise
        finally:
            # Nothing here waits: an event that is awaited in a cancelled task may never be sent.
            self._silence.close()
            self.result = self._end(ending, self._count.summary(self._clock() - began))
        return self.result

    async def _until_rest(self) -> Ending:
        try:
            self._sink.put(RunStarted(len(self._history)))
            self._take_prompt()
            return await self._drive()
        except Failed as error:
            return Ending("error", error.failure)
        except Exception as error:
            return Ending("error", classify(error, self._model.name))
        finally:
            await self._drop_batch()

    def _end(self, ending: Ending, summary: Summary) -> RunResult:
        self._inbox.closed = True
        history = tuple(self._history)
        result = RunResult(
            ending.reason,
            history,
            history[self._given :],
            summary,
            ending.failure,
            ending.actions,
            (*self._inbox.take_steering(), *self._inbox.take_follow_ups()),
        )
        self._sink.put(RunEnded(ending.reason, summary, ending.failure, ending.actions))
        return result

    def _take_prompt(self) -> None:
        """Begin the turn. When something comes before that, the prompt waits like steering."""
        if self._prompt is None:
            return
        if self._turn.open or self._compaction is not None:
            self._inbox.steering.insert(0, self._prompt)
        else:
            self._commit(self._prompt)

    async def _drive(self) -> Ending:
        while True:
            if self._interruption.requested:
                return await self._settle()
            ending = await self._step()
            if ending is not None:
                return ending
            if self._sink.full:
                await self._sink.room()

    async def _step(self) -> Ending | None:
        """Decide one step and do it."""
        step = decide(self._turn, self._facts(), self._rules)
        match step:
            case CallModel():
                await self._call_model()
            case RunCalls(calls):
                await self._run_calls(calls)
            case SkipCalls(calls):
                self._answer_calls(calls, results.skipped)
            case RefuseCalls(calls, exclusive):
                await self._drop_batch()
                self._answer_calls(calls, lambda call: self._refused(call, exclusive))
            case RequireAction(calls):
                return await self._require_action(calls)
            case Compact(asked_by, finish):
                await self._compact(asked_by)
                return Ending("stop") if finish and not self._inbox.steering else None
            case DeliverSteering():
                self._deliver("steering", self._inbox.take_steering())
            case Recover():
                self._deliver("recovery", (injected(self._policy.wording.recovery),))
            case LoadContext():
                raise AssertionError("a run in memory has no workspace")
            case Finish(reason):
                return await self._finish(reason)
            case Fail():
                limit = self._rules.limit
                raise StillOverLimit(size(self._turn, self._rules), limit)
            case _:
                assert_never(step)
        return None

    def _facts(self) -> Facts:
        batch = self._batch
        early = batch is not None and batch.busy
        if not (early or self._inbox.steering or self._compaction or self._journal):
            return NO_FACTS
        calls = self._journal
        if batch is not None and early:
            calls = {**calls, **batch.states()}
        return Facts(bool(self._inbox.steering), self._compaction, calls)

    # --- committing ---

    def _commit(
        self, message: Message, first_delta: float | None = None, seconds: float | None = None
    ) -> None:
        number = len(self._history)
        self._history.append(message)
        self._turn = fold(self._turn, message)
        self._projection.add(message)
        self._count.message(message)
        self._sink.put(MessageCommitted(message, number, first_delta, seconds))

    def _deliver(self, why: Delivery, messages: tuple[Message, ...]) -> None:
        self._sink.put(Delivered(why, messages))
        for message in messages:
            self._commit(message)

    # --- calling the model ---

    async def _call_model(self) -> None:
        """Produce one answer, with as many attempts as the policy allows."""
        avoid: frozenset[str] = frozenset()
        tokens = size(self._turn, self._rules)
        shown = StepStarted(self._turn.steps + 1, len(self._history), tokens)
        self._sink.put(shown)
        attempt = 0
        while True:
            attempt += 1
            assembly = Assembly(self._model.name, self._ports, self._call_ids)
            try:
                return await self._attempt(assembly, avoid)
            except Interrupted:
                return await self._keep_partial(assembly, "interrupted")
            except Exception as error:
                failure = classify(error, assembly.model)
                if not await self._try_again(failure, attempt, assembly):
                    return None
                if failure.failover:
                    avoid |= {assembly.model}

    async def _attempt(self, assembly: Assembly, avoid: frozenset[str]) -> None:
        request = self._request(avoid)
        began = self._clock()
        batch = self._batch = self._new_batch()
        self._inbox.on_steer = batch.steer
        try:
            first = await generate(
                self._model,
                request,
                assembly,
                limits=self._policy.stream,
                silence=self._silence,
                sink=self._sink,
                interruption=self._interruption,
                on_call=batch.offer,
            )
        finally:
            self._inbox.on_steer = None
            self._count.usage(assembly.usage)
        self._take_window(assembly.window)
        message = assembly.message()
        self._call_ids |= assembly.ids
        self._commit(message, first, self._clock() - began)

    async def _try_again(self, failure: Failure, attempt: int, assembly: Assembly) -> bool:
        """After a failed attempt: wait and say yes, or no because something else comes first."""
        if self._toolbox.eager == "all" and self._batch is not None and self._batch.started:
            await self._keep_partial(assembly, "error")
            raise Failed(failure)
        await self._drop_batch()
        if failure.kind == "context_overflow":
            self._compaction = "overflow"
            return False
        await self._wait_or_give_up(failure, attempt, assembly)
        return not (self._inbox.steering or self._interruption.requested)

    async def _wait_or_give_up(
        self, failure: Failure, attempt: int, assembly: Assembly | None
    ) -> None:
        policy = self._policy.retry
        verdict = retry.after(failure, attempt, policy, self._ports.random())
        if isinstance(verdict, retry.GiveUp):
            partial = assembly.partial("error") if assembly is not None else None
            if partial is not None:
                self._commit(_for_people(partial))
            raise Failed(_with(failure, verdict.why))
        at = self._ports.now() + int(verdict.seconds * 1_000_000)
        self._sink.put(
            Retrying(attempt, policy.attempts, verdict.seconds, at, failure.kind, failure.message)
        )
        await self._pause(verdict.seconds)

    async def _pause(self, seconds: float) -> None:
        """Wait, unless the user stops the run or says something new meanwhile."""
        with anyio.move_on_after(seconds) as scope, self._stoppable(scope.cancel):
            self._inbox.on_steer = scope.cancel
            try:
                if not (self._inbox.steering or self._interruption.requested):
                    await anyio.sleep_forever()
            finally:
                self._inbox.on_steer = None

    @contextmanager
    def _stoppable(self, stop: Callable[[], object]) -> Iterator[None]:
        self._interruption.stop = stop
        try:
            yield
        finally:
            self._interruption.stop = None

    def _request(self, avoid: frozenset[str]) -> Request:
        """The next request. A hook that raises is a failure to prepare, and worth another try."""
        agent = self._agent
        specs = self._specs
        messages = self._projection.messages()
        try:
            if agent.active is not None:
                self._active = frozenset(agent.active(tuple(self._history)))
                specs = tuple(spec for spec in specs if spec.name in self._active)
            if agent.project is not None:
                messages = repair(tuple(agent.project(messages)), self._trim)
        except Exception as error:
            raise PrepareError(describe(error)) from error
        return Request(
            system=agent.system,
            messages=messages,
            tools=specs,
            settings=agent.settings,
            effort=agent.effort,
            avoid=avoid,
        )

    async def _keep_partial(
        self, assembly: Assembly, finish: Literal["interrupted", "error"]
    ) -> None:
        """Commit what arrived of an answer, and a result for each call that is complete in it."""
        partial = assembly.partial(finish)
        if partial is not None:
            self._call_ids |= assembly.ids
            self._commit(partial)
            await self._interrupt_calls()

    # --- running tools ---

    async def _drop_batch(self) -> None:
        """Cancel what the last stream started, and wait for its end."""
        batch, self._batch = self._batch, None
        if batch is not None and batch.busy:
            await batch.discard()

    def _new_batch(self) -> Batch:
        return Batch(
            self._toolbox,
            self._sink,
            failures=self._turn.failures,
            active=self._active,
            states=self._journal,
        )

    async def _run_calls(self, calls: tuple[ToolCall, ...]) -> None:
        """Run calls of the last answer, and commit the results of those that came to an end."""
        batch, self._batch = self._batch or self._new_batch(), None
        self._inbox.on_steer = batch.steer
        self._interruption.stop = batch.interrupt
        try:
            executed = await batch.run(calls)
        finally:
            self._inbox.on_steer = None
            self._interruption.stop = None
        for action in executed.waiting:
            self._journal[action.call.id] = Waiting(action)
        self._commit_results(executed.results)

    async def _interrupt_calls(self) -> None:
        """Give every open call a result: what came of it, or that it was interrupted."""
        if self._turn.open:
            batch, self._batch = self._batch or self._new_batch(), None
            batch.interrupt()
            self._commit_results((await batch.run(self._turn.open)).results)

    def _commit_results(self, made: Sequence[ToolResult]) -> None:
        if not made:
            return
        for result in made:
            self._journal.pop(result.call_id, None)
        self._commit(results_message(made))

    def _answer_calls(
        self, calls: Sequence[ToolCall], answer: Callable[[ToolCall], ToolResult]
    ) -> None:
        """Give calls a result without running them."""
        made = tuple(answer(call) for call in calls)
        for result in made:
            self._sink.put(ToolFinished(result, 0.0))
        self._commit_results(made)

    def _refused(self, call: ToolCall, exclusive: str) -> ToolResult:
        return results.refused_exclusive(call, exclusive, call.tool in self._rules.exclusive)

    async def _require_action(self, calls: tuple[ToolCall, ...]) -> Ending | None:
        """Wait for the outside, once what is asked of it has been checked."""
        unchecked = tuple(call for call in calls if call.id not in self._journal)
        if unchecked:
            await self._run_calls(unchecked)
            return None
        waiting = (self._journal[call.id] for call in calls)
        actions = tuple(state.action for state in waiting if isinstance(state, Waiting))
        return Ending("requires_action", actions=actions)

    # --- ends ---

    async def _finish(
        self, reason: Literal["stop", "stop_after_tool", "max_steps"]
    ) -> Ending | None:
        if reason == "max_steps":
            steps = self._rules.max_steps
            self._commit(note(f"Stopped: this turn reached its limit of {steps} steps."))
        if self._inbox.follow_ups:
            self._deliver("follow_up", self._inbox.take_follow_ups())
            return None
        if reason != "max_steps" and await self._guard_objects(reason):
            return None
        # While the guard thought about it somebody may have said something.
        if self._inbox.steering or self._inbox.follow_ups or self._interruption.requested:
            return None
        return Ending(reason)

    async def _guard_objects(self, reason: Literal["stop", "stop_after_tool"]) -> bool:
        """Ask the stop guard. Its veto is delivered here."""
        guard = self._agent.guard
        if guard is None:
            return False
        asked = Stopping(self._turn.steps, self._last_answer(), reason)
        timeout = self._policy.guard_timeout
        verdict: GuardVerdict = Escalate(f"the stop guard took longer than {timeout:g} s")
        with anyio.move_on_after(timeout) as scope, self._stoppable(scope.cancel):
            try:
                answer = guard(asked)
                verdict = await answer if isinstance(answer, Awaitable) else answer
            except Exception as error:
                verdict = Escalate(f"the stop guard failed: {describe(error)}")
        if self._interruption.requested:
            return False
        if isinstance(verdict, Escalate):
            raise Escalated(verdict.reason)
        if isinstance(verdict, Inject) and verdict.text:
            self._deliver("guard", (injected(verdict.text),))
            return True
        return False

    async def _settle(self) -> Ending:
        """The user interrupted: answer what is open and leave the model a word about it."""
        await self._interrupt_calls()
        text = self._interruption_marker()
        if text:
            self._commit(Message("user", (Text(text),), "marker", "model"))
        return Ending("interrupted")

    def _interruption_marker(self) -> str:
        """What the model is told, or nothing when a complete answer was all there was to stop."""
        wording = self._policy.wording
        answer = self._last_answer()
        if self._turn.last == "prompt" or answer is None or answer.finish == "interrupted":
            return wording.interrupted_answer
        return wording.interrupted_tools if self._turn.last == "results" else ""

    def _last_answer(self) -> Message | None:
        answers = (message for message in reversed(self._history) if message.kind == "answer")
        return next(answers, None)

    # --- compaction ---

    async def _compact(self, asked_by: AskedBy | None) -> None:
        now = compact.Situation(
            self._history,
            size(self._turn, self._rules),
            self._rules.overhead,
            self._rules.limit,
            self._window(),
            asked_by,
            self._policy.context,
        )
        message = compact.by_trimming(now)
        if message is None:
            self._sink.put(Compacting(asked_by))
            try:
                message, problem = await compact.by_summary(now, self._ask_for_summary)
            except Interrupted:
                return
            if problem is not None:
                self._sink.put(Warned(f"The conversation was summarized, but {problem}."))
        self._compaction = None
        self._commit(message)
        checkpoint = message.checkpoint
        assert checkpoint is not None
        self._commit(compact.entry_for_people(checkpoint))
        self._sink.put(Compacted(checkpoint.before, checkpoint.after, checkpoint.summarized))

    async def _ask_for_summary(self, request: Request) -> compact.Summarized:
        model = self._summary_model()
        attempt = 0
        while True:
            attempt += 1
            assembly = Assembly(model.name, self._ports)
            try:
                await generate(
                    model,
                    request,
                    assembly,
                    limits=self._policy.stream,
                    silence=self._silence,
                    sink=self._sink,
                    interruption=self._interruption,
                    show=self._show_summary,
                )
                message = assembly.message()
                return compact.Summarized(message.text, message.finish == "length")
            except Interrupted:
                raise
            except Exception as error:
                failure = classify(error, assembly.model)
                if failure.kind in ("empty_response", "context_overflow"):
                    raise  # the same input would give the same
                await self._wait_or_give_up(failure, attempt, None)
                if self._interruption.requested:
                    raise Interrupted from None
            finally:
                self._count.usage(assembly.usage)

    def _show_summary(self, event: Event) -> Event | None:
        return Compacting(self._compaction, event.text) if isinstance(event, TextDelta) else None

    # --- what follows from the agent and the model ---

    def _summary_model(self) -> Model:
        return self._policy.context.model or self._model

    def _window(self) -> int | None:
        """How many tokens fit, as far as anybody says: the stricter one of both models."""
        own = self._policy.context.window or self._reported_window or self._model.window
        windows = [own, self._summary_model().window]
        return min((window for window in windows if window is not None), default=None)

    def _take_window(self, window: int | None) -> None:
        if window is not None and window != self._reported_window:
            self._reported_window = window
            self._rules = self._make_rules()
            self._toolbox = self._make_toolbox()

    def _make_rules(self) -> Rules:
        policy, tools = self._policy, self._agent.toolset.values()
        window, threshold = self._window(), policy.context.threshold
        prefix = sum(estimate_text(block.text) for block in self._agent.system)
        described = sum(
            estimate_text(spec.description) + estimate_text(str(spec.schema))
            for spec in self._specs
        )
        return Rules(
            max_steps=policy.max_steps,
            recoveries=policy.recoveries,
            max_compactions=policy.context.max_compactions,
            limit=None if window is None or threshold == 100 else window * threshold // 100,
            overhead=prefix + described,
            exclusive=frozenset(tool.name for tool in tools if tool.exclusive),
            waits=frozenset(tool.name for tool in tools if tool.action is not None),
        )

    def _make_toolbox(self) -> Toolbox:
        agent = self._agent
        return Toolbox(
            tools=agent.toolset,
            gate=agent.gate,
            middleware=agent.middleware,
            limits=self._policy.calls,
            max_result=self._policy.calls.max_result or max_result(self._window()),
            eager=agent.eager,
            ports=self._ports,
        )


class _Count:
    """What a run did, for its summary."""

    def __init__(self) -> None:
        self.steps = 0
        self.calls = 0
        self.errors = 0
        self.used = Usage()

    def message(self, message: Message) -> None:
        if message.kind == "answer":
            self.steps += 1
        elif message.kind == "results":
            for result in message.results:
                self.calls += 1
                self.errors += result.outcome in ("failed", "timed_out")

    def usage(self, usage: Usage | None) -> None:
        if usage is not None:
            self.used += usage

    def summary(self, seconds: float) -> Summary:
        return Summary(self.steps, self.calls, self.errors, self.used, None, seconds)


def _for_people(partial: Message) -> Message:
    return replace(partial, visibility="user")


def _with(failure: Failure, why: str) -> Failure:
    return replace(failure, message=f"{failure.message} {why}") if why else failure
