"""The in-memory driver: decides a step, executes it, appends its outcome to a list, and repeats.

The loop keeps no state beyond what is committed: the history, and what waits next to it until it
enters the history (steering and follow-ups, results and approvals from outside, a requested
compaction). Starting, continuing and resuming are the same call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal, ParamSpec, TypeVar, assert_never
from weakref import ref

from holdfast.kernel import prepare, summary_checkpoint, tool_results
from holdfast.kernel.answer import cut_by
from holdfast.kernel.assemble import Assembly
from holdfast.kernel.call_account import CallAccount, totals_of
from holdfast.kernel.call_admission import CallContext
from holdfast.kernel.channel import Sink
from holdfast.kernel.decide import (
    AwaitingAction,
    CallModel,
    CallState,
    Compact,
    DeliverSteering,
    EndOfTurn,
    Facts,
    Fail,
    Finish,
    LoadContext,
    Recover,
    RefuseCalls,
    RefuseSpawns,
    RequireAction,
    RunCalls,
    SkipCalls,
    decide,
    over_limit,
)
from holdfast.kernel.entry_point import hide_our_frames
from holdfast.kernel.errors import ConfigError, Failure, PromptTooLong, StillOverLimit, classify
from holdfast.kernel.events import (
    Compacted,
    Delivered,
    Delivery,
    HandedOver,
    MessageCommitted,
    RunEnded,
    RunStarted,
    StepStarted,
    Summary,
    ToolFinished,
)
from holdfast.kernel.failure_log import log_failure, raised_by_user
from holdfast.kernel.handoff import handover_note
from holdfast.kernel.history import History
from holdfast.kernel.hook_context import ChatInfo, Context
from holdfast.kernel.inbox import Inbox, Interrupted
from holdfast.kernel.instructions import evaluate, instructions_due
from holdfast.kernel.limits import (
    NOTHING_USED,
    UNLIMITED,
    LimitReached,
    Limits,
    Totals,
    reached,
)
from holdfast.kernel.messages import (
    AskedBy,
    Injection,
    Message,
    ToolCall,
    ToolResult,
    injected,
    marker,
    results_message,
    with_runtime,
)
from holdfast.kernel.model import Request
from holdfast.kernel.model_call import ModelCaller
from holdfast.kernel.observed_call import caller_of
from holdfast.kernel.observer import (
    UNOBSERVED,
    UNOBSERVED_CHAT,
    ChatObserver,
    Compaction,
    Observer,
    Stretch,
    ToolCallOutcome,
    current_conversation,
    observer_of,
)
from holdfast.kernel.output import Fits, Repair
from holdfast.kernel.output_deltas import OutputDeltas
from holdfast.kernel.prepare import PreparedAgent
from holdfast.kernel.result import Ending, Failed, InnerRunCounters, RunCounters, RunResult
from holdfast.kernel.retry_wait import Backoff, end_if_cancelled
from holdfast.kernel.summarize import Summarizer
from holdfast.kernel.summary_checkpoint import CompactionInput
from holdfast.kernel.tool import HandOff
from holdfast.kernel.tool_execution import Batch, BatchOutcome
from holdfast.kernel.turn_end import check_output, interruption_marker, limit_note, objection

if TYPE_CHECKING:
    from holdfast.agent import Agent

P = ParamSpec("P")
T = TypeVar("T")

NO_FACTS: Final = Facts()
RESUMED: Final = Facts(resumed=True)
KILLED: Final = Failure("internal", "The run was torn down from outside.")


class Loop:
    """One run over one history."""

    def __init__(
        self,
        agent: Agent[Any, Any],
        history: History,
        inbox: Inbox,
        *,
        prompt: Message | None,
        journal: Mapping[str, CallState],
        compaction: AskedBy | None,
        team: Mapping[str, Agent[Any, Any]],
        deps: Any = None,
        limits: Limits = UNLIMITED,
        outer: CallAccount | None = None,
    ) -> None:
        self.result: RunResult[Any] | None = None
        self._team = team
        """Agents that may continue the conversation, by name."""
        self._run_deps = deps
        self._use(agent)
        self._inbox = inbox
        self._interruption = inbox.interruption
        self._prompt = prompt
        self._history = history
        self._initial = len(history)
        """Number of messages at the start."""
        self._journal: dict[str, CallState] = dict(journal)
        self._compaction = compaction
        self._limits = limits
        """Limits of this run."""
        self._outer = outer
        """Account of the tool call that this run is within, if any."""
        self._is_limited = bool(limits) or outer is not None
        self._began = 0.0
        self._batch: Batch | None = None
        """Calls of the last answer, if its stream started some of them."""
        self._asked_at: int | None = None
        """Number of messages when the model was last called for an answer."""
        self._attempt_began = 0.0
        self._resumed = True
        """Whether no step was made yet."""
        self._attempts = 0
        """Number of attempts at the last requested answer."""
        self._counters = RunCounters() if outer is None else InnerRunCounters(outer)
        self._sink: Sink
        self._clock: Callable[[], float]
        self._caller: ModelCaller
        self._backoff: Backoff

    def _observed_by(self, observer: Observer) -> ChatObserver:
        agent, this = self._agent, ref(self)  # weak: parts of this loop refer to the observer
        return observer.drives(
            Stretch(
                id=agent.ports.new_id(),
                agent=agent.name,
                model=prepare.model_of(agent).name,
                attempt=lambda: 0 if (loop := this()) is None else loop._attempts,
                conversation=current_conversation(),
            )
        )

    @property
    def history(self) -> tuple[Message, ...]:
        return tuple(self._history.messages)

    # --- from the first event to the last ---

    async def run(self, sink: Sink) -> tuple[RunResult[Any], Exception | None]:
        """Drive the history until there is nothing left to do. Only cancellation is raised.

        Also returns the exception that ended the run. It is not kept in an attribute: its traceback
        refers to this object and to the history.
        """
        self._sink = sink
        self._clock = asyncio.get_running_loop().time
        self._prepare(sink)
        leave = None if self._outer is None else self._outer.enter(self._interruption.request)
        self._observer.begins()
        self._began = self._clock()
        ending = Ending("error", KILLED)
        try:
            ending = await self._until_idle()
        except asyncio.CancelledError as error:
            ending = Ending("error", classify(error))
            raise
        finally:
            # Nothing here waits: an event that is awaited in a cancelled task may never be sent.
            if leave is not None:
                leave()
            self._caller.close()
            self.result = self._end(ending, self._counters.summary(self._clock() - self._began))
            self._observer.turned(ending.reason, ending.failure)
            self._observer.ends()
        return self.result, ending.cause

    def _use(self, agent: Agent) -> None:
        """Continue with this agent."""
        self._agent = agent
        observer = observer_of(agent.observer)
        self._observer = UNOBSERVED_CHAT if observer is UNOBSERVED else self._observed_by(observer)
        self._prepared = PreparedAgent.of(agent, self._observer.around)
        self._model = self._prepared.model
        self._policy = agent.policy
        self._functions = len(agent.dynamic)
        """Number of functions of the instructions."""
        self._info = ChatInfo(agent=agent.name)
        self._deps = self._run_deps if agent.deps_type is not None else None
        self._active: frozenset[str] | None = None

    def _prepare(self, sink: Sink) -> None:
        """Build the parts that need the event loop and the sink."""
        policy, ports, interruption = self._policy, self._agent.ports, self._interruption
        observer = self._observer
        self._caller = caller_of(policy.stream, sink, interruption, self._counters, observer)
        self._backoff = Backoff(policy.retry, ports, interruption, sink, observer.retries)

    def never_began(self, sink: Sink) -> None:
        """End a run that was cancelled before its first line, with its first and last event."""
        self._sink = sink
        sink.put(RunStarted(len(self._history)))
        self._take_prompt()
        self.result = self._end(Ending("error", classify(asyncio.CancelledError())), Summary())

    async def _until_idle(self) -> Ending:
        try:
            self._sink.put(RunStarted(len(self._history)))
            self._take_prompt()
            return await self._drive()
        except Failed as error:
            cause = error.__cause__ or error.__context__
            cause = cause if isinstance(cause, Exception) else None
            return self._failed(error.failure, cause)
        except Exception as error:
            return self._failed(classify(error, self._model.name), error)
        finally:
            await self._drop_batch()

    def _failed(self, failure: Failure, cause: Exception | None) -> Ending:
        if isinstance(cause, ConfigError):
            hide_our_frames(cause)
        model, attempt = self._model.name, self._attempts
        log_failure(failure, chat=None, model=model, attempt=attempt, cause=cause)
        return Ending("error", failure, cause=raised_by_user(cause))

    def _end(self, ending: Ending, summary: Summary) -> RunResult[Any]:
        self._inbox.closed = True
        history = self.history
        result: RunResult[Any] = RunResult(
            ending.reason,
            history,
            history[self._initial :],
            summary,
            ending.failure,
            ending.actions,
            (*self._inbox.take_steering(), *self._inbox.take_follow_ups()),
            ending.output,
            tuple(self._sink.warnings),
            ending.cut_by,
            ending.limit,
        )
        end = RunEnded(
            ending.reason, summary, ending.failure, ending.actions, ending.cut_by, ending.limit
        )
        self._sink.put(end)
        return result

    def _take_prompt(self) -> None:
        """Start the turn. If something else comes first, the prompt waits like steering."""
        if self._prompt is None:
            return
        if self._history.turn.open or self._compaction is not None:
            self._inbox.steering.insert(0, self._prompt)
        else:
            self._commit(self._prompt)

    async def _drive(self) -> Ending:
        task = asyncio.current_task()
        while True:
            end_if_cancelled(task)
            if self._interruption.requested or (self._outer is not None and self._outer.stopped):
                return await self._settle()
            ending = await self._step()
            if ending is not None:
                return ending
            if self._sink.full:
                await self._sink.room()

    async def _step(self) -> Ending | None:
        """Decide one step and execute it."""
        step = decide(self._history.turn, self._facts(), self._prepared.rules)
        self._resumed = False
        match step:
            case CallModel():
                await self._call_model()
            case RunCalls(calls):
                await self._run_calls(calls)
            case SkipCalls(calls):
                self._answer_calls(calls, tool_results.skipped)
            case RefuseCalls(calls, exclusive):
                await self._refuse_calls(calls, exclusive)
            case RefuseSpawns(calls, limit):
                self._answer_calls(calls, partial(tool_results.spawn_refused, limit=limit))
            case RequireAction(calls, unchecked):
                return await self._require_action(calls, unchecked)
            case Compact(asked_by, finish):
                await self._compact(asked_by)
                waits = self._inbox.steering or self._inbox.follow_ups
                if finish and not (waits or self._interruption.requested):
                    return Ending("stop")
            case DeliverSteering():
                self._deliver("steering", self._inbox.take_steering())
            case Recover():
                self._inject("recovery", self._policy.wording.recovery)
            case LoadContext():
                await self._load_context()
            case Finish(reason, limit):
                return await self._finish(reason, limit)
            case Fail():
                raise self._over_limit()
            case _:
                assert_never(step)
        return None

    def _facts(self) -> Facts:
        batch = self._batch
        early = batch is not None and batch.busy
        due = self._functions > 0 and instructions_due(self._agent, self._history)
        limit = self._limit_of_run() if self._is_limited else None
        waits = self._inbox.steering or self._compaction or self._journal
        if not (early or waits or due or limit):
            return RESUMED if self._resumed else NO_FACTS
        calls = self._journal
        if batch is not None and early:
            calls = {**calls, **batch.states(steering=bool(self._inbox.steering))}
        steering = bool(self._inbox.steering)
        return Facts(steering, self._compaction, calls, due, limit=limit, resumed=self._resumed)

    def _limit_of_run(self, in_calls: Totals = NOTHING_USED) -> LimitReached | None:
        """The limit of this run, or of an outer one, that is reached, if any.

        `in_calls` is what calls without a committed result have used.
        """
        summary = self._counters.summary(self._clock() - self._began)
        used = totals_of(summary.usage, summary.steps) + Totals(seconds=summary.seconds) + in_calls
        limit = reached(self._limits, used, "run")
        return self._outer.limit() if limit is None and self._outer is not None else limit

    def _limit_in_calls(self, used: Totals) -> LimitReached | None:
        """The limit that is reached, if any, while calls run that have used this much."""
        of_turn = self._prepared.rules.limits
        return self._limit_of_run(used) or reached(of_turn, self._history.turn.used + used)

    def _context(self) -> Context:
        return Context(self._info, self._history.turn, lambda: self._history.messages, self._deps)

    # --- committing ---

    def _commit(
        self, message: Message, first_delta: float | None = None, seconds: float | None = None
    ) -> None:
        number = self._history.append(message)
        self._counters.message(message)
        self._sink.put(MessageCommitted(message, number, first_delta, seconds))

    def _deliver(self, why: Delivery, messages: tuple[Message, ...]) -> None:
        self._sink.put(Delivered(why, messages))
        for message in messages:
            self._commit(message)

    def _inject(self, why: Injection, text: str) -> None:
        self._deliver(why, (injected(text, why),))

    # --- instructions ---

    async def _load_context(self) -> None:
        """Evaluate the instructions of this turn, and commit them if they changed."""
        messages = await self._retried(
            evaluate, self._agent, self._history, self._context(), self._interruption
        )
        for message in messages or ():
            self._commit(message)

    async def _retried(
        self, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T | None:
        """Call hooks, again after a failure; None if something else comes first."""
        attempt = 0
        while True:
            attempt = self._attempts = attempt + 1
            try:
                return await function(*args, **kwargs)
            except Interrupted:
                return None
            except Failed:
                raise
            except Exception as error:
                failure = classify(error)
                await self._backoff.wait_or_give_up(failure, attempt, inbox=self._inbox)
            if self._inbox.steering or self._interruption.requested:
                return None

    # --- calling the model ---

    async def _call_model(self) -> None:
        """Produce one answer, with as many attempts as the policy allows."""
        history = self._history
        self._asked_at = len(history)
        self._sink.put(
            StepStarted(history.turn.steps + 1, len(history), self._prepared.size(history))
        )
        avoid: frozenset[str] = frozenset()
        attempt = 0
        while True:
            attempt = self._attempts = attempt + 1
            assembly = Assembly(self._model.name, self._agent.ports, history.call_ids)
            self._attempt_began = self._clock()
            try:
                return await self._attempt(assembly, avoid)
            except Interrupted:
                return await self._keep_partial(assembly, "interrupted", "by the user")
            except asyncio.CancelledError:
                if self._began_early():  # a later run must know what was done
                    await self._keep_partial(assembly, "error", "because the run was cancelled")
                raise
            except Exception as error:
                failure = classify(error, assembly.model)
                if not await self._try_again(failure, attempt, assembly):
                    return None
                if failure.failover:
                    avoid |= {assembly.model}

    async def _attempt(self, assembly: Assembly, avoid: frozenset[str]) -> None:
        agent = self._agent
        context = self._context()
        self._active = await prepare.active_tools(agent, context, self._interruption)
        request = await prepare.build_request(
            agent, context, self._history, self._active, avoid, self._interruption
        )
        began = self._clock()
        batch = self._batch = self._new_batch(context)
        self._inbox.on_steer = batch.steer  # not by `steers`: this is the path of every step
        try:
            first = await self._call(request, assembly, batch)
        finally:
            self._inbox.on_steer = None
        self._prepared = self._prepared.with_window(assembly.window)
        ended = self._clock()
        answer = assembly.message(ended - self._attempt_began)
        self._commit(answer, first, ended - began)

    async def _call(self, request: Request, assembly: Assembly, batch: Batch) -> float | None:
        """Call the model. Its answer is also shown as a value, if it is to have a form."""
        if self._agent.form is None:
            return await self._caller.call(self._model, request, assembly, batch.offer)
        show = OutputDeltas(self._agent.form, self._history.messages, self._sink)
        first = await self._caller.call(self._model, request, assembly, batch.offer, show)
        if assembly.finish == "stop":
            show.end()
        return first

    def _timed(self, partial: Message) -> Message:
        """A partial answer, with the duration of its attempt."""
        return with_runtime(partial, self._clock() - self._attempt_began)

    async def _try_again(self, failure: Failure, attempt: int, assembly: Assembly) -> bool:
        """Wait after a failed attempt. Returns False if something else comes before the next."""
        if self._began_early():
            await self._keep_partial(assembly, "error", "because the answer failed")
            raise Failed(failure)
        await self._drop_batch()
        if failure.kind == "context_overflow":
            self._prepared = self._prepared.with_window(failure.window)
            self._compaction = "overflow"
            return False
        try:
            await self._backoff.wait_or_give_up(failure, attempt, inbox=self._inbox)
        except Failed:
            partial = assembly.failed()
            if partial is not None:
                self._commit_for_people(self._timed(partial))
            raise
        return not (self._inbox.steering or self._interruption.requested)

    def _began_early(self) -> bool:
        """Whether the stream started a call that cannot be undone."""
        batch = self._batch
        return self._prepared.toolbox.eager == "all" and batch is not None and batch.started

    async def _keep_partial(
        self, assembly: Assembly, finish: Literal["interrupted", "error"], why: str
    ) -> None:
        """Commit a partial answer, and a result for each complete call in it."""
        partial, half = assembly.partial(finish), assembly.half_written(finish)
        if partial is not None:
            self._commit(self._timed(partial))
        if half is not None:
            self._commit_for_people(half)
        if partial is None:
            self._asked_at = len(self._history)  # models see no message since
        else:
            await self._interrupt_calls(why)

    def _commit_for_people(self, message: Message) -> None:
        """Commit a message that only people see. Half-written calls in it end."""
        for result in message.results:
            if result.outcome == "interrupted":  # others came from the provider and were shown
                self._sink.put(ToolFinished(result, 0.0))
        self._commit(message)

    # --- running tools ---

    async def _drop_batch(self) -> None:
        """Cancel the calls that the last stream started, and wait for their end."""
        batch, self._batch = self._batch, None
        if batch is not None and batch.busy:
            try:
                await batch.discard()
            finally:
                committed = batch.ran(self._history.turn.open)
                self._commit_results(committed)
                for account in batch.accounts_besides(committed):
                    self._counters.call(account)

    def _take_batch(self) -> Batch:
        """The batch that the last stream started, or a new one."""
        batch, self._batch = self._batch or self._new_batch(self._context()), None
        return batch

    def _new_batch(self, context: Context) -> Batch:
        calls = CallContext(
            context=context,
            active=self._active,
            states=self._journal,
            limit=self._limit_in_calls,
            outer=self._outer,
            finished=None if self._observer is UNOBSERVED_CHAT else self._on_finished,
        )
        return Batch(self._prepared.toolbox, self._sink, calls)

    def _on_finished(self, finished: ToolFinished) -> None:
        result = finished.result
        known = result.tool in self._agent.toolset
        self._observer.called(ToolCallOutcome(result, known, finished.seconds))

    async def _run_calls(self, calls: tuple[ToolCall, ...]) -> None:
        """Run calls of the last answer, and commit the results of those that ended."""
        if self._active is None and self._agent.active is not None:  # an answer of an earlier run
            before = Context(
                self._info, self._history.turn, self._history.before_last_calls, self._deps
            )
            try:
                self._active = await prepare.active_tools(self._agent, before, self._interruption)
            except Interrupted:
                return
        batch = self._take_batch()
        self._inbox.on_steer, self._interruption.stop = batch.steer, batch.interrupt
        try:
            executed = await self._run_batch(batch, calls)
        finally:
            self._inbox.on_steer = self._interruption.stop = None
        for action in executed.waiting:
            self._journal[action.call.id] = AwaitingAction(action)
        self._commit_results(executed.results)
        if batch.writes:
            self._hand_over(batch.writes)

    def _hand_over(self, writes: Mapping[str, Sequence[HandOff]]) -> None:
        """Continue with the agent that a call names. Such a call is alone in its message."""
        for handed in chain.from_iterable(writes.values()):
            before = self._agent.name
            self._caller.close()
            self._observer.turned("handed_over")
            self._observer.ends()
            self._use(self._team[handed.agent])
            self._prepare(self._sink)
            self._observer.begins()
            self._sink.put(HandedOver(before, handed.agent))
            self._commit(handover_note(handed.agent))

    async def _interrupt_calls(self, why: str) -> None:
        """Give every open call a result: its own, or that it was interrupted."""
        open_calls = self._history.turn.open
        if open_calls:
            batch = self._take_batch()
            batch.interrupt(f"Interrupted {why}.")
            self._commit_results((await self._run_batch(batch, open_calls)).results)

    async def _run_batch(self, batch: Batch, calls: Sequence[ToolCall]) -> BatchOutcome:
        try:
            return await batch.run(calls)
        except asyncio.CancelledError:
            # A run that continues this history must not repeat what was done.
            self._commit_results(batch.ran(calls))
            raise

    def _commit_results(self, new: Sequence[ToolResult]) -> None:
        if not new:
            return
        for result in new:
            self._journal.pop(result.call_id, None)
        self._commit(results_message(new))

    def _answer_calls(
        self, calls: Sequence[ToolCall], answer: Callable[[ToolCall], ToolResult]
    ) -> None:
        """Give calls a result without running them."""
        new = tuple(answer(call) for call in calls)
        for result in new:
            self._sink.put(ToolFinished(result, 0.0))
        self._commit_results(new)

    async def _refuse_calls(self, calls: tuple[ToolCall, ...], exclusive: str) -> None:
        """Refuse the calls of a message in which an exclusive tool is not alone."""
        batch = self._take_batch()
        answer = tool_results.exclusive_refusal(exclusive, self._prepared.rules.exclusive)
        self._commit_results(await batch.refuse(calls, answer))

    async def _require_action(
        self, calls: tuple[ToolCall, ...], unchecked: tuple[ToolCall, ...]
    ) -> Ending | None:
        """End the run to wait for actions, once every call that waits was checked."""
        if unchecked:
            await self._run_calls(unchecked)
            return None
        waiting = (self._journal[call.id] for call in calls)
        actions = tuple(state.action for state in waiting if isinstance(state, AwaitingAction))
        return Ending("requires_action", actions=actions)

    # --- the end of a turn ---

    async def _finish(self, reason: EndOfTurn, limit: LimitReached | None) -> Ending | None:
        if limit is not None:
            self._commit(limit_note(limit))
        fits = await self._retried(self._checked_output, reason)
        if fits is None:
            return None
        if isinstance(fits, Repair):
            self._inject("repair", fits.text)
            return None
        if self._inbox.follow_ups:
            self._deliver("follow_up", self._inbox.take_follow_ups())
            return None
        veto = await objection(
            self._agent, self._context(), self._history, reason, fits.value, self._interruption
        )
        if veto is not None:
            self._inject("guard", veto)
            return None
        # A message may have arrived while the guard was deciding.
        if self._inbox.steering or self._inbox.follow_ups or self._interruption.requested:
            return None
        cut = cut_by(self._history.last_answer()) if reason == "stop" else None
        return Ending(reason, output=fits.value, cut_by=cut, limit=limit)

    async def _checked_output(self, reason: EndOfTurn) -> Fits | Repair:
        return await check_output(
            self._agent, self._context(), self._history, reason, self._interruption
        )

    async def _settle(self) -> Ending:
        """End after an interruption: give open calls a result, and leave a marker for the model."""
        await self._interrupt_calls("by the user")
        asking = self._asked_at == len(self._history)
        answer = self._history.last_answer()
        kind = interruption_marker(self._history.turn, answer, asking=asking)
        if kind is not None:
            self._commit(marker(kind))
        return Ending("interrupted")

    # --- compaction ---

    async def _compact(self, asked_by: AskedBy | None) -> None:
        """Compact the history: shorten old results, and summarize if that is not enough."""
        now = self._prepared.compaction_input(self._history, asked_by)
        message = summary_checkpoint.by_trimming(now)
        if message is not None:
            self._observer.compacted("trim")
        else:
            try:
                message = await self._summarize(now)
            except Interrupted:
                return
        self._compaction = None
        self._commit(message)
        checkpoint = message.checkpoint
        assert checkpoint is not None
        self._commit(summary_checkpoint.entry_for_people(checkpoint))
        self._sink.put(Compacted(checkpoint.before, checkpoint.after, checkpoint.summarized))

    async def _summarize(self, now: CompactionInput) -> Message:
        """A checkpoint with a summary. Raises `Interrupted`, or `Failed` if there is no summary."""
        outcome: Compaction = "failed"
        sink, interruption = self._sink, self._interruption
        caller = caller_of(
            self._policy.stream, sink, interruption, self._counters, self._observer, "summary"
        )
        model, ports = prepare.summary_model(self._agent), self._agent.ports
        try:
            summarizer = Summarizer(model, ports, caller, self._backoff, interruption, sink)
            message = await summarizer.checkpoint(now)
            outcome = "summary"
            return message
        except Interrupted:
            outcome = "interrupted"
            raise
        finally:
            caller.close()
            self._observer.compacted(outcome)

    def _over_limit(self) -> StillOverLimit:
        error = over_limit(self._history.turn, self._prepared.rules)
        if not isinstance(error, PromptTooLong):
            self._observer.compacted("no_progress")
        return error
