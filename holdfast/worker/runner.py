"""The runner of one chat: decides, does the step and commits it, until nothing is left to do.

Everything that prevents a commit (an interrupt, an edit, another owner, a lost acknowledgement) is
handled in one way: the step is unwound, the chat is loaded again, and the runner continues from its
row.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, assert_never

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from holdfast.agent import Agent
from holdfast.chat.budgets import BudgetCheck
from holdfast.chat.child_reports import awaited_by
from holdfast.chat.errors import ChatError, ChatNotFound, Fenced, TooDeep
from holdfast.chat.rows import Charge, ChatRow, Status, TurnOutcome
from holdfast.chat.transitions import runner
from holdfast.chat.transitions.runner import Leftover, Outcome
from holdfast.kernel import retry, tool_results
from holdfast.kernel.agent_deps import DepsProvider
from holdfast.kernel.answer import cut_by
from holdfast.kernel.decide import (
    CallModel,
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
    Step,
    decide,
    over_limit,
)
from holdfast.kernel.errors import (
    FAILURE_KINDS,
    Failure,
    PrepareError,
    PromptTooLong,
    classify,
)
from holdfast.kernel.events import Action
from holdfast.kernel.failure_log import log_failure, log_retry
from holdfast.kernel.inbox import Interrupted
from holdfast.kernel.instructions import evaluate, instructions_due
from holdfast.kernel.limits import LimitReached
from holdfast.kernel.messages import (
    Injection,
    ToolCall,
    ToolResult,
    injected,
    marker,
    note,
    results_message,
)
from holdfast.kernel.model import Request
from holdfast.kernel.observer import UNOBSERVED, Observer, observer_of
from holdfast.kernel.output import Repair
from holdfast.kernel.prepare import PreparedAgent, active_tools, build_request, model_of
from holdfast.kernel.result import Failed
from holdfast.kernel.tool_execution import Batch
from holdfast.kernel.turn import fold
from holdfast.kernel.turn_end import check_output, interruption_marker, limit_note, objection
from holdfast.live.broadcast import Live
from holdfast.observe.logs import LOG_CONTEXT
from holdfast.store.database import Database, StoreError
from holdfast.worker.background import BackgroundTasks, without_cycle
from holdfast.worker.chat_agent import ChatAgent
from holdfast.worker.chat_deps import ChatDeps
from holdfast.worker.fenced_chat import ChatMoved, FencedChat, OwnershipLost
from holdfast.worker.log_fields import LogFields
from holdfast.worker.model_step import Attempt, OnCall, compaction_step, model_step
from holdfast.worker.options import MICRO, WorkerOptions
from holdfast.worker.resettable_event import ResettableEvent
from holdfast.worker.step_scope import StepScope, Stopped, charges_of
from holdfast.worker.tool_calls import CallJournal
from holdfast.worker.tool_step import ToolStepOutcome, discard, tool_step, without

LOG: Final = logging.getLogger("holdfast.worker")
FIRST_RETRY_DELAY: Final = 1.0


class Runner:
    """Drives one chat from its claim until it is idle or released.

    Steps return what they produced; only the runner commits, settles, hands over or charges it.
    """

    def __init__(
        self,
        db: Database,
        live: Live,
        agent: Agent,
        chat: ChatRow,
        options: WorkerOptions,
        on_idle: Callable[[ChatRow], None],
        observer: Observer = UNOBSERVED,
        budgets: BudgetCheck | None = None,
        provider: DepsProvider[Any] | None = None,
    ) -> None:
        self._db = db
        self._budgets = BudgetCheck() if budgets is None else budgets
        self._live = live
        self._options = options
        self._on_idle = on_idle
        self._background = BackgroundTasks()
        self._fenced = fenced = FencedChat(db, chat, agent.trim)
        self._worker_id = chat.worker_id or ""
        model = chat.model or model_of(agent).name
        self._observer = observer_of(agent.observer, observer).drives(fenced.stretch(model))
        self._agent = ChatAgent(agent, PreparedAgent.of(agent, self._observer.around))
        self._scope = StepScope.of(
            fenced, live, agent, options, self._background.add, self._observer
        )
        self._journal = CallJournal(agent, self._scope, self._background.add)
        self._deps = None if agent.deps_type is None else ChatDeps(agent, provider)
        self._group: TaskGroup
        self.is_child = chat.parent_id is not None
        self.ended = anyio.Event()
        self._leftover: Leftover | None = None
        """What a step produced, until a commit, a settlement or a charge has taken it."""
        self._active: frozenset[str] | None = None
        """Names of the tools that the last answer could call; None for all."""
        self._avoid: frozenset[str] = frozenset()
        """Models that failed at this step."""
        self._next_attempt: float | None = None
        """Time of the next attempt on the event loop's clock; None for now."""
        self._wakeup = ResettableEvent()
        """Set when the wait for the next attempt has to check the state again."""
        self._draining = False
        self._ownership_lost = False
        self._errors = 0
        """Number of consecutive internal errors."""
        self._progress: Literal["new", "loaded", "stepped"] = "new"
        """Whether this runner has loaded the chat, and has completed a round."""
        self._load_valid = False
        """Whether the loaded state is valid."""

    @property
    def chat_id(self) -> str:
        return self._fenced.chat.id

    def receive_notice(self, version: int | None) -> None:
        """Receive a notice that the chat changed."""
        self._fenced.receive_notice(version)

    def drain(self) -> None:
        """Finish the running step, then release the chat."""
        self._draining = True
        self._wakeup.set()

    def stop_now(self) -> None:
        """Stop the running step now, because the grace period is over, and release the chat."""
        self._scope.interruption.request()
        self.drain()

    # --- from claim to release ---

    async def run(self) -> None:
        """Drive the chat until it is idle, has another owner, or this worker stops."""
        LOG_CONTEXT.set(LogFields(self._fenced, self._worker_id))
        self._observer.begins()
        try:
            async with anyio.create_task_group() as group:
                self._group = group
                group.start_soon(without_cycle, self._watch)
                group.start_soon(self._background.run, group)
                try:
                    await self._drive()
                finally:
                    if self._deps is not None:
                        self._deps.close()
                group.cancel_scope.cancel()
        finally:
            batch = self._journal.take_batch()
            if batch is not None:  # without waiting: this is an error
                batch.interrupt()
            self._scope.partials.close()
            self._scope.caller.close()
            self._scope.screen.close()
            self._live.forget(self.chat_id)
            self._observer.ends()

    async def _watch(self) -> None:
        """Watch for changes by others, and react to those that cannot wait for the next commit."""
        fenced, stop_step = self._fenced, self._scope.interruption.request
        while True:
            try:
                chat = await fenced.next_change()
            except OwnershipLost:
                stop_step()
                self._ownership_lost = True
                self._wakeup.set()
                return
            except StoreError:  # queried again with the next notice or poll
                LOG.warning("chat %s: could not query changes", self.chat_id, exc_info=True)
                continue
            except ChatError:  # the next load reports what is wrong
                LOG.warning("chat %s cannot be read", self.chat_id, exc_info=True)
                stop_step()
                self._load_valid = False
                self._wakeup.set()
                continue
            history_changed = chat.history_version != fenced.chat.history_version
            if chat.status is not Status.RUNNING or history_changed:
                stop_step()
            elif fenced.steering:
                self._journal.steer()
            self._wakeup.set()

    async def _drive(self) -> None:
        try:
            while not self._ownership_lost and await self._round():
                pass
        except OwnershipLost:
            self._ownership_lost = True
        if not self._ownership_lost and not self._fenced.chat.busy:
            self._on_idle(self._fenced.chat)

    async def _round(self) -> bool:
        """Do what the row asks for, once. Returns whether another round may follow."""
        try:
            if not self._load_valid:
                await self._load()
            continues = await self._follow_row()
        except (ChatMoved, Stopped):
            await self._unwind()
            self._leftover = self._leftover or self._fenced.leftover()
            return True
        except OwnershipLost:
            raise
        except Exception as error:
            await self._unwind()
            return await self._handle_internal_error(error)
        self._errors, self._progress = 0, "stepped"
        return continues

    async def _load(self) -> None:
        """Load the chat."""
        self._wait_for_retry(await self._fenced.load())
        if self._progress == "new":
            self._journal.begin()
            self._progress = "loaded"
        self._load_valid = True

    async def _unwind(self) -> None:
        """End everything that the step has started, and keep the results of its calls."""
        batch, scope = self._journal.take_batch(), self._scope
        if batch is not None and batch.busy:
            leftover = self._leftover or self._fenced.leftover()
            self._leftover = await discard(batch, leftover, self._fenced.history.turn.open)
        scope.screen.close()
        scope.interruption.reset()
        await self._journal.drain()

    async def _follow_row(self) -> bool:
        """Do what the row of the chat asks for. False if there is nothing left to do."""
        fenced = self._fenced
        if self._leftover is not None:
            self._leftover = await self._reload(self._leftover)
        match fenced.chat.status:
            case Status.RUNNING:
                if self._leftover is not None:
                    await self._commit_answer(self._leftover)
                    return True
                if self._draining:
                    await self._unwind()  # a stream may have started calls of the next step
                    await self._release()
                    return False
                if fenced.chat.retry_at is not None and await self._waits_for_retry():
                    return True
                return await self._do_step()
            case Status.INTERRUPTING:
                await self._settle()
                return fenced.chat.busy
            case Status.REQUIRES_ACTION:
                chat = await fenced.write(runner.expire)
                return chat.status is not Status.REQUIRES_ACTION
            case _:
                return False

    async def _reload(self, leftover: Leftover) -> Leftover | None:
        """Load the chat after an uncommitted step, and return what of it is to be committed.

        After an interrupt that is everything; if the chat continues, a complete answer and its
        results. Anything else is handed over and charged.
        """
        self._wait_for_retry(await self._fenced.load())
        chat = self._fenced.chat
        if chat.history_version == leftover.fence.history_version:
            if leftover.complete or chat.status is not Status.RUNNING:
                return leftover
            await self._journal.hand_over(leftover.results)
        charges = charges_of(leftover)
        if charges:
            await self._fenced.charge(leftover.fence, leftover.last_number, charges)
        return None

    async def _handle_internal_error(self, error: Exception) -> bool:
        """Retry a few times after an internal error, then fail the chat.

        Returns whether to continue.
        """
        self._errors += 1
        leftover = self._leftover or self._fenced.leftover()
        await self._journal.hand_over(leftover.results)
        failure = _failure_of_chat(error)
        if failure is None and self._errors < self._options.troubles:
            LOG.warning("chat %s: internal error, will retry", self.chat_id, exc_info=error)
            await anyio.sleep(FIRST_RETRY_DELAY * 2 ** (self._errors - 1))
            self._load_valid = False
            return True
        if failure is None:
            reference = self._agent.configured.ports.new_id()
            LOG.error("chat %s failed, reference %s", self.chat_id, reference, exc_info=error)
            failure = Failure(
                "internal",
                FAILURE_KINDS["internal"].sentence,
                f"see the log for reference {reference}",
            )
        if not self._load_valid:  # it cannot be loaded, and may have changed
            await self._fenced.read_row()
        attempt = self._fenced.chat.attempt
        try:
            await self._fenced.fail(failure, charges_of(leftover))
        except ChatMoved:
            self._load_valid = False
            return True
        self._leftover = None
        model = self._agent.prepared.model.name
        log_failure(failure, chat=self.chat_id, model=model, attempt=attempt)
        self._observer.turned("error", failure)
        return False

    async def _release(self) -> None:
        fence = self._fenced.fence
        try:
            await self._db.write(lambda tx: runner.release(tx, fence), short=True)
        except (Fenced, ChatError, StoreError):
            LOG.info("chat %s could not be released", self.chat_id, exc_info=True)

    # --- steps ---

    async def _do_step(self) -> bool:
        fenced = self._fenced
        self._end_if_stopped()
        if self._deps is not None and not self._deps.are_open:
            error = await self._open_deps(self._deps)
            if error is not None:
                return await self._after_preparation(error)
        if fenced.journal_stale:
            await fenced.catch_up()
        self._follow_settings()
        decision = self._decide()
        if self._agent.prepared.rules.spawns and isinstance(decision, (RunCalls, RequireAction)):
            decision = await self._decide_spawns(decision)
        match decision:
            case CallModel() | LoadContext() if self._agent_changed():
                return await self._hand_over()
            case CallModel() | LoadContext() | Compact() if await self._stopped_by_budget():
                return False
            case CallModel():
                return await self._answer()
            case RunCalls(calls):
                await self._run_calls(calls)
            case SkipCalls(calls):
                await self._give(calls, tool_results.skipped)
            case RefuseCalls(calls, exclusive):
                await self._refuse_calls(calls, exclusive)
            case RefuseSpawns(calls, reached):
                await self._give(calls, lambda call: tool_results.spawn_refused(call, reached))
            case RequireAction(_, unchecked):
                return await self._require_action(unchecked)
            case Compact(_, finish):
                return await self._compact(finish)
            case DeliverSteering():
                await fenced.write(runner.deliver)
            case Recover():
                await self._inject("recovery", self._agent.agent.policy.wording.recovery)
            case LoadContext():
                return await self._load_context()
            case Finish(reason, limit):
                return await self._finish(reason, limit)
            case Fail():
                raise self._over_limit()
            case _:
                assert_never(decision)
        return True

    def _decide(self, limit: LimitReached | None = None) -> Step:
        """The next step; `limit` is a budget that is reached."""
        fenced, turn = self._fenced, self._fenced.history.turn
        facts = Facts(
            fenced.steering,
            fenced.chat.compaction,
            self._journal.states() if turn.open else {},
            self._context_due(),
            at_rest=fenced.chat.outcome is not None,
            limit=limit,
            resumed=self._progress != "stepped",
        )
        return decide(turn, facts, self._agent.prepared.rules)

    async def _decide_spawns(self, decision: Step) -> Step:
        """Decide again if open calls would spawn agents, and a budget is reached."""
        spawns = self._agent.prepared.rules.spawns
        if not any(call.tool in spawns for call in self._fenced.history.turn.open):
            return decision
        limit = await self._budget_reached()
        return decision if limit is None else self._decide(limit)

    async def _stopped_by_budget(self) -> bool:
        """Stop the turn if a budget is reached: no model is called, and the queue stays."""
        limit = await self._budget_reached()
        if limit is None:
            return False
        failure = Failure("budget", limit.sentence)
        outcome = TurnOutcome("error", self._fenced.history.turn.steps, limit=limit)
        await self._fenced.write(runner.fail, failure, outcome=outcome)
        self._observer.turned("error", failure)
        LOG.warning("chat %s: %s", self.chat_id, failure.message)
        return True

    async def _budget_reached(self) -> LimitReached | None:
        if not self._budgets.applies:
            return None
        return await self._fenced.budget_reached(self._budgets, self._agent.prepared.model)

    def _agent_changed(self) -> bool:
        """Whether another agent continues from here on."""
        chat = self._fenced.chat
        return chat.next_agent is not None or chat.agent != self._agent.configured.name

    async def _hand_over(self) -> bool:
        """Release the chat to a worker that has its next agent, which may be this one."""
        if self._fenced.chat.next_agent is not None:
            await self._fenced.write(runner.switch_agent)
        await self._release()
        return False

    def _follow_settings(self) -> None:
        """Use what the chat sets now: its model, effort and client tools."""
        agent = self._agent.follow(self._fenced.chat)
        if agent is not self._agent:
            self._agent = agent
            self._journal.use_tools(agent.agent.toolset)

    def _end_if_stopped(self) -> None:
        if self._scope.interruption.requested:
            raise Stopped

    def _over_limit(self) -> Failed:
        error = over_limit(self._fenced.history.turn, self._agent.prepared.rules)
        if not isinstance(error, PromptTooLong):
            self._observer.compacted("no_progress")
        return Failed(classify(error, self._agent.prepared.model.name))

    async def _inject(self, why: Injection, text: str) -> None:
        await self._fenced.commit((injected(text, why),))

    # --- deps and instructions ---

    async def _open_deps(self, deps: ChatDeps) -> Exception | None:
        """Get the deps of the chat from their provider; its error, if it fails."""
        fenced = self._fenced
        try:
            fenced.deps = await deps.open(self._group, fenced.info, self._scope.interruption)
        except Interrupted:
            raise Stopped from None
        except Exception as error:
            return error
        return None

    async def _after_preparation(self, error: Exception) -> bool:
        """Handle an error before a step as that of an attempt. Returns whether to continue."""
        failure = classify(error)
        attempt = Attempt(leftover=self._fenced.leftover(), error=error, failure=failure)
        try:
            return await self._after_failure(attempt, failure)
        finally:
            del attempt, error  # the traceback of the error refers to this frame

    def _context_due(self) -> bool:
        agent = self._agent.agent
        return bool(agent.dynamic) and instructions_due(agent, self._fenced.history)

    async def _load_context(self) -> bool:
        """Evaluate the instructions of this turn, and commit them if they changed. False if this
        runner has nothing left to do, as after a failed attempt at an answer."""
        fenced, interruption = self._fenced, self._scope.interruption
        agent, context = self._agent.agent, fenced.context()
        try:
            messages = await evaluate(agent, fenced.history, context, interruption)
        except Interrupted:
            raise Stopped from None
        except Exception as error:
            return await self._after_preparation(error)
        if messages:
            await fenced.commit(messages)
        return True

    # --- an answer of the model ---

    async def _answer(self) -> bool:
        """Make one attempt at an answer. False if this runner has nothing left to do: the chat
        failed, or waits for its retry without an owner."""
        attempt = await model_step(self._scope, self._agent.prepared, self._prepare_call)
        try:
            if attempt.error is not None:
                await self._unwind()
            self._leftover = attempt.leftover
            if attempt.failure is not None:
                return await self._after_failure(attempt, attempt.failure)
            if attempt.error is not None:
                raise attempt.error
            if not attempt.leftover.complete:
                raise Stopped
            self._agent = self._agent.with_window(attempt.window)
            await self._commit_answer(attempt.leftover)
            return True
        finally:
            self._scope.partials.end()
            del attempt  # the traceback of its error refers to this frame

    async def _prepare_call(self) -> tuple[Request, OnCall]:
        """Build the next request, and a batch for the calls of its answer."""
        fenced, prepared = self._fenced, self._agent.prepared
        agent, context, interruption = prepared.agent, fenced.context(), self._scope.interruption
        self._active = await active_tools(agent, context, interruption)
        request = await build_request(
            agent, context, fenced.history, self._active, self._avoid, interruption
        )
        if fenced.names_files:
            request = replace(request, messages=await fenced.with_files(request.messages))
        return request, self._journal.new_batch(prepared, self._active, context).offer

    async def _commit_answer(self, leftover: Leftover) -> None:
        """Commit a complete answer. Repeated after a failed commit: the answer was paid for."""
        assert leftover.answer is not None
        await self._fenced.commit((leftover.answer,))
        self._leftover, self._avoid = None, frozenset()
        await self._journal.hand_over(leftover.results)

    async def _after_failure(self, attempt: Attempt, failure: Failure) -> bool:
        """Schedule the next attempt, or fail the chat. Returns whether the runner continues."""
        fenced, charges = self._fenced, attempt.leftover.charges
        if failure.failover:
            self._avoid |= {attempt.model or ""}
        if failure.kind == "context_overflow":
            self._agent = self._agent.with_window(failure.window)
            await self._record_retry(failure, 0, charges, overflow=True)
            return True
        policy, ports = self._agent.agent.policy.retry, self._agent.agent.ports
        number = fenced.chat.attempt
        verdict = retry.after(failure, number, policy, random=ports.random(), now=ports.now())
        if isinstance(verdict, retry.Wait):
            release = verdict.seconds > self._options.hold
            await self._record_retry(failure, verdict.seconds, charges, release=release)
            return fenced.chat.worker_id is not None
        for_people = attempt.for_people  # carries its own usage
        charges = charges if for_people is None else ()
        await fenced.write(runner.fail, verdict.failure, for_people, charges)
        self._leftover = None
        self._observer.turned("error", verdict.failure)
        log_failure(failure, chat=self.chat_id, model=None, attempt=number, cause=attempt.error)
        return False

    async def _record_retry(
        self,
        failure: Failure,
        seconds: float,
        charges: tuple[Charge, ...],
        *,
        overflow: bool = False,
        release: bool = False,
    ) -> None:
        most = retry.most(failure, self._agent.agent.policy.retry)
        if not overflow:
            log_retry(failure, seconds, self._fenced.chat.attempt, most, chat=self.chat_id)
        self._observer.retries(failure)
        chat = await self._fenced.write(
            runner.record_retry,
            failure,
            most,
            int(seconds * MICRO),
            charges,
            overflow=overflow,
            release=release,
        )
        self._leftover = None
        self._wait_for_retry(None if chat.retry_at is None else seconds)

    def _wait_for_retry(self, seconds: float | None) -> None:
        """Delay the next attempt, as this runner or an earlier one has decided; None for not."""
        self._next_attempt = None if seconds is None else anyio.current_time() + seconds

    async def _waits_for_retry(self) -> bool:
        """Wait for the next attempt. Returns whether the wait ended early.

        A message or an edit ends it by removing `retry_at` from the row.
        """
        fenced, at = self._fenced, self._next_attempt
        if at is None or at <= anyio.current_time():
            return False
        self._wakeup.reset()
        if fenced.newest is fenced.chat:
            with anyio.CancelScope(deadline=at):
                await self._wakeup.wait()
        if fenced.newest is not fenced.chat:
            self._wait_for_retry(await fenced.load())
            return True
        return self._draining or self._ownership_lost

    # --- calls of tools ---

    async def _run_calls(self, calls: Sequence[ToolCall]) -> None:
        """Run calls of the last answer, and commit the results of the finished ones."""
        outcome = await self._tool_step(calls)
        waiting = [one for one in outcome.waiting if not self._journal.allowed_by_rule(one)]
        if waiting:
            rows = [self._journal.waiting_row(action) for action in waiting]
            timeouts = self._journal.timeouts(waiting)
            await self._fenced.write(runner.start_calls, rows, timeouts)
        if outcome.results:
            await self._commit_results(outcome)

    async def _tool_step(self, calls: Sequence[ToolCall]) -> ToolStepOutcome:
        self._end_if_stopped()  # steering may have arrived while the journal was read
        outcome = await tool_step(self._scope, self._journal, await self._batch(), calls)
        self._journal.take_batch()
        self._leftover = self._fenced.leftover(results=without(outcome.writes, outcome.results))
        self._end_if_stopped()
        self._journal.raise_start_error()
        return outcome

    async def _batch(self) -> Batch:
        """The batch that the stream of the last answer began, or a new one."""
        if self._journal.batch is not None:
            return self._journal.batch
        agent, fenced = self._agent.agent, self._fenced
        if self._active is None and agent.active is not None:  # another process asked the model
            before = fenced.context(fenced.history.before_last_calls)
            try:
                self._active = await active_tools(agent, before, self._scope.interruption)
            except Interrupted:
                raise Stopped from None
        return self._journal.new_batch(self._agent.prepared, self._active, fenced.context())

    async def _give(
        self, calls: Sequence[ToolCall], result: Callable[[ToolCall], ToolResult]
    ) -> None:
        """Give calls a result instead of running them."""
        results = tuple(result(call) for call in calls)
        await self._commit_results(ToolStepOutcome(results=results))

    async def _refuse_calls(self, calls: Sequence[ToolCall], exclusive: str) -> None:
        """Refuse the calls of an answer in which an exclusive tool is not the only call."""
        refusal = tool_results.exclusive_refusal(exclusive, self._agent.prepared.rules.exclusive)
        batch = await self._batch()
        refused = await batch.refuse(calls, refusal)
        self._journal.take_batch()
        await self._commit_results(ToolStepOutcome(results=tuple(refused)))

    async def _commit_results(self, outcome: ToolStepOutcome) -> None:
        """Commit results. Usually no call is in the journal, and the commit only appends."""
        fenced, journal = self._fenced, self._journal
        self._leftover = fenced.leftover(results=without(outcome.writes, outcome.results))
        if fenced.journal_stale:
            await fenced.catch_up()
        if outcome.writes or journal.knows(outcome.results):
            await self._commit_with_writes(outcome)
        else:
            await fenced.commit((results_message(outcome.results),))
        self._leftover = None
        journal.forget(outcome.results)
        self._scope.screen.close()

    async def _commit_with_writes(self, outcome: ToolStepOutcome) -> None:
        step = Outcome(results=outcome.results, writes=outcome.writes)
        try:
            await self._fenced.write(runner.commit_step, step)
        except ChatError as error:  # a write of a call was refused: inform the model
            text, unknown = (
                tool_results.content(f"Not done: {error}"),
                isinstance(error, ChatNotFound),
            )
            with_refusals = tuple(
                replace(result, content=text, outcome="failed", expected=unknown)
                if result.call_id in outcome.writes
                else result
                for result in outcome.results
            )
            await self._fenced.write(runner.commit_step, Outcome(results=with_refusals))

    async def _require_action(self, unchecked: Sequence[ToolCall]) -> bool:
        """Let the chat wait for actions, once their requests have been validated.

        Returns whether the runner continues.
        """
        journal = self._journal
        actions: list[Action] = []
        if unchecked:
            outcome = await self._tool_step(unchecked)
            if outcome.results:  # not requested yet
                await self._commit_results(outcome)
            actions = [one for one in outcome.waiting if not journal.allowed_by_rule(one)]
            if len(actions) < len(outcome.waiting):
                return True
        self._scope.screen.close()
        spawned = {one.call.id: new for one in actions if (new := journal.new_child(one))}
        awaited = {one.call.id: awaited_by(one) for one in actions if one.kind == "child"}
        awaited |= {call_id: [new.id] for call_id, new in spawned.items()}
        try:
            chat = await self._fenced.write(
                runner.require_action,
                [journal.waiting_row(action) for action in actions],
                awaited,
                journal.timeouts(actions),
                spawned,
            )
        except TooDeep as error:  # inform the model
            refused = [one.call for one in actions if one.call.id in spawned]
            results = [tool_results.result(one, "failed", f"Not done: {error}") for one in refused]
            await self._commit_results(ToolStepOutcome(results=tuple(results)))
            return True
        self._observer.turned("requires_action")
        return chat.worker_id is not None

    # --- the end of a turn ---

    async def _compact(self, finish: bool) -> bool:
        """Make a checkpoint. The chat continues without one if a person's request for it fails."""
        fenced = self._fenced
        compacted = await compaction_step(self._scope, self._agent.prepared)
        self._leftover = fenced.leftover(charges=compacted.charges)
        messages = compacted.messages
        if not messages:
            if compacted.error is None:
                raise Stopped
            if not isinstance(compacted.error, Failed) or fenced.chat.compaction != "person":
                try:
                    raise compacted.error
                finally:
                    del compacted  # its traceback refers to this frame
            failure = compacted.error.failure
            why = failure.detail.removeprefix("SummaryFailed: ") or failure.message
            messages = (note(f"The conversation was not summarized: {why}."),)
        outcome = Outcome(messages=messages, compacted=True, charges=compacted.charges)
        if finish:
            chat = await fenced.write(runner.finish_turn, None, outcome)
        else:
            chat = await fenced.write(runner.commit_step, outcome)
        self._leftover = None
        return chat.busy or not finish

    async def _finish(self, reason: EndOfTurn, limit: LimitReached | None) -> bool:
        """Finish the turn, unless the stop guard objects."""
        fenced, agent = self._fenced, self._agent.agent
        interruption = self._scope.interruption
        try:
            checked = await check_output(
                agent, fenced.context(), fenced.history, reason, interruption
            )
        except Interrupted:
            raise Stopped from None
        except PrepareError as error:
            return await self._after_preparation(error)
        if isinstance(checked, Repair):
            await self._inject("repair", checked.text)
            return True
        may_object = agent.guard is not None and reason != "limit"
        has_queue = bool(fenced.queue)
        if may_object and not has_queue:
            veto = await objection(
                agent, fenced.context(), fenced.history, reason, checked.value, interruption
            )
            self._end_if_stopped()
            if veto is not None:
                await self._inject("guard", veto)
                return True
        messages = () if limit is None else (limit_note(limit),)
        truncation = cut_by(fenced.history.last_answer()) if reason == "stop" else None
        version_before = fenced.chat.history_version
        chat = await fenced.write(
            runner.finish_turn,
            TurnOutcome(reason, fenced.history.turn.steps, truncation, limit),
            Outcome(messages=messages),
            only_to_deliver=may_object and has_queue,
            partial=fenced.partial_written,
        )
        if chat.busy and chat.history_version == version_before:
            return True  # the queued message was removed: the stop guard has to be asked
        self._observer.turned(reason)
        return chat.busy

    async def _settle(self) -> None:
        """Settle an interrupted turn: keep its output, and add a marker for the model."""
        fenced = self._fenced
        leftover = _with_saved_partial(self._leftover or fenced.leftover(), fenced)
        self._leftover = leftover
        turn, answer = fenced.history.turn, fenced.history.last_answer()
        if leftover.answer is not None:
            turn, answer = fold(turn, leftover.answer), leftover.answer
        asking = leftover.calling_model and leftover.answer is None
        kind = interruption_marker(turn, answer, asking=asking)
        await fenced.write(runner.settle, leftover, None if kind is None else marker(kind))
        self._leftover = None
        self._observer.turned("interrupted")


def _with_saved_partial(leftover: Leftover, fenced: FencedChat) -> Leftover:
    """Add the partial answer that a dead worker saved, if this runner has received none."""
    partial, chat = fenced.partial, fenced.chat
    if leftover.answer is not None or partial is None:
        return leftover
    if (partial.history_version, partial.attempt) != (chat.history_version, chat.attempt):
        return leftover
    return replace(leftover, answer=partial.message)


def _failure_of_chat(error: Exception) -> Failure | None:
    """Return the failure that ends the turn; None for an internal error, which is retried."""
    if isinstance(error, Failed):
        return error.failure
    if isinstance(error, (StoreError, ChatError)):
        return None
    failure = classify(error)
    return None if failure.kind in ("internal", "unknown") else failure
