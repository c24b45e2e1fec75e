"""The model step: one attempt at an answer, the handling of its failure, and summaries."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from holdfast.chat.errors import ChatError
from holdfast.chat.rows import Charge, Fence
from holdfast.chat.transitions import runner
from holdfast.chat.transitions.runner import Outcome
from holdfast.kernel import compact, prepare, retry
from holdfast.kernel.assemble import Assembly
from holdfast.kernel.backoff import Backoff
from holdfast.kernel.compact import CompactionInput
from holdfast.kernel.errors import Failure, classify
from holdfast.kernel.failure_log import log_failure
from holdfast.kernel.generate import Interrupted, ModelCaller
from holdfast.kernel.messages import Message, Usage, with_runtime
from holdfast.kernel.model import Model
from holdfast.kernel.result import RunCounters
from holdfast.kernel.summarize import Summarizer
from holdfast.observe.observer import (
    UNOBSERVED_CHAT,
    ChatObserver,
    Compaction,
    ModelCallOutcome,
    ObservedModel,
)
from holdfast.store.database import StoreError
from holdfast.worker.chat_agent import ChatAgent
from holdfast.worker.fenced_chat import FencedChat
from holdfast.worker.options import MICRO, WorkerOptions
from holdfast.worker.step import NOTHING, Leftover, RunningStep, Stopped, Unfinished
from holdfast.worker.tool_step import ToolSteps

LOG: Final = logging.getLogger("holdfast.worker")


class ModelSteps:
    """Performs the model calls of one chat, one at a time."""

    def __init__(
        self,
        fenced: FencedChat,
        chat_agent: ChatAgent,
        step: RunningStep,
        tool_steps: ToolSteps,
        options: WorkerOptions,
        in_background: Callable[..., Any],
        chat_observer: ChatObserver,
    ) -> None:
        self._fenced = fenced
        self._chat_agent = chat_agent
        self._step = step
        self._tool_steps = tool_steps
        self._options = options
        self._in_background = in_background
        self._chat_observer = chat_observer
        self._loop = asyncio.get_running_loop()
        self._caller: ModelCaller | None = None
        self._partial_saver = _PartialSaver(options.partial)
        self._avoid: frozenset[str] = frozenset()
        """Models that failed at this step."""
        self._retry_at: float | None = None

    def close(self) -> None:
        """Cancel the timers."""
        self._partial_saver.close()
        if self._caller is not None:
            self._caller.close()

    def _call_with(self, tally: RunCounters) -> ModelCaller:
        policy, step = self._chat_agent.agent.policy, self._step
        return ModelCaller(policy.stream, step.screen, step.interruption, tally)

    # --- one attempt ---

    async def answer(self) -> bool:
        """Make one attempt at an answer. False if this runner has nothing left to do: the chat
        failed, or waits for its retry without an owner."""
        fenced, chat_agent, step = self._fenced, self._chat_agent, self._step
        assembly = Assembly(chat_agent.model.name, chat_agent.agent.ports, fenced.history.call_ids)
        step.screen.open(fenced.fence)
        started_at = self._loop.time()
        self._partial_saver.begin(assembly, started_at, self._save_partial_soon)
        try:
            await self._ask(assembly)
        except Interrupted:
            self._keep_unfinished(assembly, started_at)
            raise Stopped from None
        except Exception as error:
            await step.unwind(())
            self._keep_unfinished(assembly, started_at, failed=True)
            if isinstance(error, (StoreError, ChatError)):
                raise
            continues = await self._handle_failure(error, assembly)
            step.unfinished = NOTHING
            return continues
        finally:
            self._partial_saver.end()
        self._keep_unfinished(assembly, started_at)
        chat_agent.set_reported_window(assembly.window)
        await self.commit(step.unfinished)
        return True

    async def commit(self, answer: Unfinished) -> None:
        """Commit a complete answer. Repeated after a failed commit: the answer was paid for."""
        assert answer.partial is not None
        self._step.unfinished = answer
        await self._fenced.commit((answer.partial,))
        self._avoid = frozenset()

    async def _ask(self, assembly: Assembly) -> None:
        request = self._chat_agent.request(self._fenced.history, self._avoid)
        if self._fenced.names_files:
            request = replace(request, messages=await self._fenced.with_files(request.messages))
        batch = self._tool_steps.new_batch()
        if self._caller is None:
            self._caller = self._call_with(RunCounters())
        self._step.inbox.on_steer = batch.steer
        model = self._chat_observer.asks(self._chat_agent.model, request)
        started_at, first_delta, error = self._loop.time(), None, None
        try:
            first_delta = await self._caller.call(model, request, assembly, batch.offer)
        except BaseException as cause:
            error = cause
            raise
        finally:
            self._step.inbox.on_steer = None
            if self._chat_observer is not UNOBSERVED_CHAT:
                self._chat_observer.answered(
                    _outcome_of(assembly, self._loop.time() - started_at, first_delta, error)
                )
            del error  # its traceback refers to this frame

    def _keep_unfinished(
        self, assembly: Assembly, started_at: float, *, failed: bool = False
    ) -> None:
        """Keep the received part of an answer in memory until it is committed.

        `failed`: a failure is about to be recorded together with the usage, which must not be
        counted twice if the acknowledgement is lost.
        """
        complete = assembly.finish is not None and not failed
        partial = assembly.message() if complete else assembly.partial("interrupted")
        if partial is not None:
            partial = with_runtime(partial, self._loop.time() - started_at)
        if failed and partial is not None:
            partial = replace(partial, usage=None)
        self._step.unfinished = Unfinished(
            partial=partial,
            half_written=None if complete else assembly.half_written("interrupted"),
            whole=complete,
            charges=() if partial is not None and not failed else self._charges(assembly),
            asking=True,
        )

    def _charges(self, assembly: Assembly) -> tuple[Charge, ...]:
        return _attempt_charges(self._fenced.fence, assembly.usage, assembly.model)

    async def abandon(self, leftover: Leftover) -> None:
        """Charge the usage of a step that was abandoned."""
        charges = charges_of(leftover)
        if charges:
            await self._fenced.charge(leftover.fence, leftover.last_number, charges)

    # --- after a failure ---

    async def _handle_failure(self, error: Exception, assembly: Assembly) -> bool:
        """Handle a failed attempt: schedule the next one, or fail the chat."""
        failure = classify(error, assembly.model)
        charges = self._charges(assembly)
        if failure.failover:
            self._avoid |= {assembly.model}
        if failure.kind == "context_overflow":
            self._chat_agent.set_reported_window(failure.window)
            await self._record(failure, 0, charges, overflow=True)
            return True
        policy, ports = self._chat_agent.agent.policy.retry, self._chat_agent.agent.ports
        attempt = self._fenced.fence.attempt
        verdict = retry.after(failure, attempt, policy, random=ports.random(), now=ports.now())
        if isinstance(verdict, retry.GiveUp):
            message = f"{failure.message} {verdict.why}" if verdict.why else failure.message
            await self._give_up(replace(failure, message=message), assembly, charges)
            log_failure(
                failure, chat=self._fenced.chat.id, model=None, attempt=attempt, cause=error
            )
            return False
        release = verdict.seconds > self._options.hold
        await self._record(failure, verdict.seconds, charges, release=release)
        return self._fenced.chat.worker_id is not None

    async def _give_up(
        self, failure: Failure, assembly: Assembly, charges: tuple[Charge, ...]
    ) -> None:
        partial = assembly.failed()
        if partial is not None:  # with its usage
            received = self._step.unfinished.partial
            runtime = None if received is None else received.runtime
            partial, charges = replace(partial, runtime=runtime), ()
        await self._fenced.write(runner.fail, failure, partial, charges)
        self._chat_observer.turned("error", failure)

    async def _record(
        self,
        failure: Failure,
        seconds: float,
        charges: tuple[Charge, ...],
        *,
        overflow: bool = False,
        release: bool = False,
    ) -> None:
        self._chat_observer.retries(failure)
        chat = await self._fenced.write(
            runner.record_retry,
            failure,
            self._chat_agent.agent.policy.retry.attempts,
            int(seconds * MICRO),
            charges,
            overflow=overflow,
            release=release,
        )
        self.wait_for_retry(None if chat.retry_at is None else seconds)

    def wait_for_retry(self, seconds: float | None) -> None:
        """Delay the next attempt, as this runner or an earlier one has decided; None for not."""
        self._retry_at = None if seconds is None else self._loop.time() + seconds

    def until_retry(self) -> float:
        """Return the seconds until the next attempt.

        A message or an edit ends the wait by removing `retry_at` from the row.
        """
        if self._retry_at is None or self._fenced.chat.retry_at is None:
            return 0.0
        return self._retry_at - self._loop.time()

    # --- summaries ---

    async def summary(self) -> Outcome:
        """Return a checkpoint to be committed: with shortened results, or with a summary."""
        fenced = self._fenced
        self._step.screen.open(fenced.fence)
        compaction_input = self._chat_agent.compaction_input(fenced.history, fenced.chat.compaction)
        message = compact.by_trimming(compaction_input)
        charges: tuple[Charge, ...] = ()
        outcome: Compaction = "trim"
        try:
            if message is None:
                outcome = "failed"
                message, charges = await self._summarize(compaction_input)
                outcome = "summary"
        except Stopped:
            outcome = "interrupted"
            raise
        finally:
            self._chat_observer.compacted(outcome)
        checkpoint = message.checkpoint
        assert checkpoint is not None
        entry = compact.entry_for_people(checkpoint)
        return Outcome(messages=(message, entry), compacted=True, charges=charges)

    async def _summarize(
        self, compaction_input: CompactionInput
    ) -> tuple[Message, tuple[Charge, ...]]:
        agent, step, tally = self._chat_agent.agent, self._step, RunCounters()
        model = prepare.summary_model(agent)
        caller = self._call_with(tally)
        backoff = Backoff(
            agent.policy.retry, agent.ports, step.inbox, step.screen, self._chat_observer.retries
        )
        observed_model = _observed(model, self._chat_observer, self._loop)
        summarizer = Summarizer(
            observed_model, agent.ports, caller, backoff, step.interruption, step.screen
        )
        try:
            message = await summarizer.checkpoint(compaction_input)
        except Interrupted:
            raise Stopped from None
        finally:
            caller.close()
            # Charged even if it failed, and under another id if it is repeated.
            usage, id = tally.summary(0).usage, f"summary {agent.ports.new_id()}"
            charge = Charge(id, "summary", usage, model.name)
            step.unfinished = Unfinished(charges=(charge,) if usage != Usage() else ())
        return message, step.unfinished.charges

    # --- the partial answer ---

    def _save_partial_soon(self, assembly: Assembly) -> None:
        # The current fence: when this runs, the next attempt may have another.
        self._in_background(self._save_partial, assembly, self._fenced.fence)

    async def _save_partial(self, assembly: Assembly, fence: Fence) -> None:
        message = assembly.so_far()
        if message is None or assembly.finish is not None:
            return
        try:
            await self._fenced.keep_partial(fence, self._step.screen.seq, message)
        except (StoreError, ChatError):
            LOG.info(
                "chat %s: could not save the partial answer", self._fenced.chat.id, exc_info=True
            )


def _observed(model: Model, observer: ChatObserver, loop: asyncio.AbstractEventLoop) -> Model:
    return model if observer is UNOBSERVED_CHAT else ObservedModel(model, observer, loop.time)


def _outcome_of(
    assembly: Assembly, seconds: float, first_delta: float | None, error: BaseException | None
) -> ModelCallOutcome:
    message = assembly.message if error is None else None
    return ModelCallOutcome(
        assembly.model, seconds, first_delta, assembly.usage, assembly.finish, error, message
    )


def charges_of(leftover: Leftover) -> tuple[Charge, ...]:
    """Return the charges of a step that was abandoned."""
    charges, partial = leftover.unfinished.charges, leftover.unfinished.partial
    if partial is not None:
        charges += _attempt_charges(leftover.fence, partial.usage, partial.model)
    return charges


def _attempt_charges(fence: Fence, usage: Usage | None, model: str | None) -> tuple[Charge, ...]:
    if usage is None:
        return ()
    # After a shutdown another worker repeats the same attempt, and that is charged separately.
    id = f"attempt {fence.history_version}.{fence.attempt} of epoch {fence.epoch}"
    return (Charge(id, "attempt", usage, model),)


class _PartialSaver:
    """Saves the partial answer at intervals while it arrives.

    The timer is reused by later answers, so that short answers do not create one each.
    """

    def __init__(self, interval: float) -> None:
        self._save: Callable[[Assembly], None] | None = None
        self._interval = interval
        self._assembly: Assembly | None = None
        """The answer that is arriving."""
        self._next_save = 0.0
        self._saved_size = 0
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, assembly: Assembly, now: float, save: Callable[[Assembly], None]) -> None:
        """Start saving an answer."""
        self._assembly, self._saved_size, self._save = assembly, 0, save
        self._next_save = now + self._interval
        if self._timer is None:
            self._timer = self._loop.call_at(self._next_save, self._on_timer)

    def end(self) -> None:
        """Stop saving the answer."""
        self._assembly = self._save = None

    def close(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _on_timer(self) -> None:
        self._timer, assembly, save = None, self._assembly, self._save
        if assembly is None or save is None:
            return
        now = self._loop.time()
        if now >= self._next_save:
            self._next_save = now + self._interval
            if assembly.size > self._saved_size:
                self._saved_size = assembly.size
                save(assembly)
        self._timer = self._loop.call_at(self._next_save, self._on_timer)
