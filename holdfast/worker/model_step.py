"""The model step: one attempt at an answer, and what follows a failure."""

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
from holdfast.worker.chat_agent import Setup
from holdfast.worker.fenced_chat import FencedChat
from holdfast.worker.options import MICRO, WorkerOptions
from holdfast.worker.step import NOTHING, Leftover, RunningStep, Stopped, Unfinished
from holdfast.worker.tool_step import Calling

LOG: Final = logging.getLogger("holdfast.worker")


class Answering:
    """The model calls of one chat, one at a time."""

    def __init__(
        self,
        book: FencedChat,
        setup: Setup,
        flight: RunningStep,
        calling: Calling,
        options: WorkerOptions,
        beside: Callable[..., Any],
        witness: ChatObserver,
    ) -> None:
        self._book = book
        self._setup = setup
        self._flight = flight
        self._calling = calling
        self._options = options
        self._beside = beside
        self._witness = witness
        self._loop = asyncio.get_running_loop()
        self._caller: ModelCaller | None = None
        self._keeper = _Keeper(options.partial)
        self._avoid: frozenset[str] = frozenset()
        """Models that failed at this step."""
        self._retry_at: float | None = None

    def close(self) -> None:
        """Cancel the timers."""
        self._keeper.close()
        if self._caller is not None:
            self._caller.close()

    def _call_with(self, tally: RunCounters) -> ModelCaller:
        policy, flight = self._setup.agent.policy, self._flight
        return ModelCaller(policy.stream, flight.screen, flight.interruption, tally)

    # --- one attempt ---

    async def answer(self) -> bool:
        """Make one attempt at an answer. False when the chat rests, or waits without this
        runner."""
        book, setup, flight = self._book, self._setup, self._flight
        assembly = Assembly(setup.model.name, setup.agent.ports, book.history.call_ids)
        flight.screen.open(book.fence)
        began = self._loop.time()
        self._keeper.begin(assembly, began, self._keep_soon)
        try:
            await self._ask(assembly)
        except Interrupted:
            self._keep(assembly, began)
            raise Stopped from None
        except Exception as error:
            await flight.unwind(())
            self._keep(assembly, began, failed=True)
            if isinstance(error, (StoreError, ChatError)):
                raise
            going_on = await self._after(error, assembly)
            flight.left = NOTHING
            return going_on
        finally:
            self._keeper.end()
        self._keep(assembly, began)
        setup.hear_window(assembly.window)
        await self.commit(flight.left)
        return True

    async def commit(self, whole: Unfinished) -> None:
        """Commit a complete answer; also again after a failed commit, because it has been paid
        for."""
        assert whole.partial is not None
        self._flight.left = whole
        await self._book.commit((whole.partial,))
        self._avoid = frozenset()

    async def _ask(self, assembly: Assembly) -> None:
        request = self._setup.request(self._book.history, self._avoid)
        if self._book.names_files:
            request = replace(request, messages=await self._book.with_files(request.messages))
        batch = self._calling.new_batch()
        if self._caller is None:
            self._caller = self._call_with(RunCounters())
        self._flight.inbox.on_steer = batch.steer
        model = self._witness.asks(self._setup.model, request)
        began, first, error = self._loop.time(), None, None
        try:
            first = await self._caller.call(model, request, assembly, batch.offer)
        except BaseException as raised:
            error = raised
            raise
        finally:
            self._flight.inbox.on_steer = None
            if self._witness is not UNOBSERVED_CHAT:
                self._witness.answered(_said(assembly, self._loop.time() - began, first, error))
            del error  # its traceback refers to this frame

    def _keep(self, assembly: Assembly, began: float, *, failed: bool = False) -> None:
        """Keep what has arrived of an answer until it is committed.

        `failed`: its failure is about to be recorded, with the usage; if the acknowledgement is
        lost, the usage must not be counted twice.
        """
        whole = assembly.finish is not None and not failed
        partial = assembly.message() if whole else assembly.partial("interrupted")
        if partial is not None:
            partial = with_runtime(partial, self._loop.time() - began)
        if failed and partial is not None:
            partial = replace(partial, usage=None)
        self._flight.left = Unfinished(
            partial=partial,
            half_written=None if whole else assembly.half_written("interrupted"),
            whole=whole,
            charges=() if partial is not None and not failed else self._charges(assembly),
            asking=True,
        )

    def _charges(self, assembly: Assembly) -> tuple[Charge, ...]:
        return _charged(self._book.fence, assembly.usage, assembly.model)

    async def abandon(self, aside: Leftover) -> None:
        """Charge a step that was abandoned."""
        charges = cost(aside)
        if charges:
            await self._book.charge(aside.fence, aside.last, charges)

    # --- after a failure ---

    async def _after(self, error: Exception, assembly: Assembly) -> bool:
        """Handle a failed attempt: schedule the next one, or fail the chat."""
        failure = classify(error, assembly.model)
        charges = self._charges(assembly)
        if failure.failover:
            self._avoid |= {assembly.model}
        if failure.kind == "context_overflow":
            self._setup.hear_window(failure.window)
            await self._record(failure, 0, charges, overflow=True)
            return True
        policy, ports = self._setup.agent.policy.retry, self._setup.agent.ports
        attempt = self._book.fence.attempt
        verdict = retry.after(failure, attempt, policy, random=ports.random(), now=ports.now())
        if isinstance(verdict, retry.GiveUp):
            said = f"{failure.message} {verdict.why}" if verdict.why else failure.message
            await self._give_up(replace(failure, message=said), assembly, charges)
            log_failure(failure, chat=self._book.chat.id, model=None, attempt=attempt, cause=error)
            return False
        release = verdict.seconds > self._options.hold
        await self._record(failure, verdict.seconds, charges, release=release)
        return self._book.chat.worker_id is not None

    async def _give_up(
        self, failure: Failure, assembly: Assembly, charges: tuple[Charge, ...]
    ) -> None:
        partial = assembly.failed()
        if partial is not None:  # with its usage
            kept = self._flight.left.partial
            runtime = None if kept is None else kept.runtime
            partial, charges = replace(partial, runtime=runtime), ()
        await self._book.write(runner.fail, failure, partial, charges)
        self._witness.turned("error", failure)

    async def _record(
        self,
        failure: Failure,
        seconds: float,
        charges: tuple[Charge, ...],
        *,
        overflow: bool = False,
        release: bool = False,
    ) -> None:
        self._witness.retries(failure)
        chat = await self._book.write(
            runner.record_retry,
            failure,
            self._setup.agent.policy.retry.attempts,
            int(seconds * MICRO),
            charges,
            overflow=overflow,
            release=release,
        )
        self.wait_for_retry(None if chat.retry_at is None else seconds)

    def wait_for_retry(self, seconds: float | None) -> None:
        """Whether the next attempt is delayed, by this runner or by one before it."""
        self._retry_at = None if seconds is None else self._loop.time() + seconds

    def until_retry(self) -> float:
        """Return the seconds until the next attempt. A message or an edit ends the wait: then the
        row has none."""
        if self._retry_at is None or self._book.chat.retry_at is None:
            return 0.0
        return self._retry_at - self._loop.time()

    # --- summaries ---

    async def summary(self) -> Outcome:
        """Return a checkpoint to be committed: by shortening, or with a summary."""
        book = self._book
        self._flight.screen.open(book.fence)
        now = self._setup.situation(book.history, book.chat.compaction)
        message = compact.by_trimming(now)
        charges: tuple[Charge, ...] = ()
        outcome: Compaction = "trim"
        try:
            if message is None:
                outcome = "failed"
                message, charges = await self._summarize(now)
                outcome = "summary"
        except Stopped:
            outcome = "interrupted"
            raise
        finally:
            self._witness.compacted(outcome)
        checkpoint = message.checkpoint
        assert checkpoint is not None
        said = compact.entry_for_people(checkpoint)
        return Outcome(messages=(message, said), compacted=True, charges=charges)

    async def _summarize(self, now: CompactionInput) -> tuple[Message, tuple[Charge, ...]]:
        agent, flight, tally = self._setup.agent, self._flight, RunCounters()
        model = prepare.summary_model(agent)
        caller = self._call_with(tally)
        patience = Backoff(
            agent.policy.retry, agent.ports, flight.inbox, flight.screen, self._witness.retries
        )
        watched = _watched(model, self._witness, self._loop)
        summarizer = Summarizer(
            watched, agent.ports, caller, patience, flight.interruption, flight.screen
        )
        try:
            message = await summarizer.checkpoint(now)
        except Interrupted:
            raise Stopped from None
        finally:
            caller.close()
            # Charged in any case, and under another id if it is made again.
            usage, id = tally.summary(0).usage, f"summary {agent.ports.new_id()}"
            charge = Charge(id, "summary", usage, model.name)
            flight.left = Unfinished(charges=(charge,) if usage != Usage() else ())
        return message, flight.left.charges

    # --- what is kept while an answer arrives ---

    def _keep_soon(self, assembly: Assembly) -> None:
        # The current fence: when this runs, the next attempt may have another.
        self._beside(self._keep_partial, assembly, self._book.fence)

    async def _keep_partial(self, assembly: Assembly, fence: Fence) -> None:
        message = assembly.so_far()
        if message is None or assembly.finish is not None:
            return
        try:
            await self._book.keep_partial(fence, self._flight.screen.seq, message)
        except (StoreError, ChatError):
            LOG.info(
                "chat %s: could not save the partial answer", self._book.chat.id, exc_info=True
            )


def _watched(model: Model, witness: ChatObserver, loop: asyncio.AbstractEventLoop) -> Model:
    return model if witness is UNOBSERVED_CHAT else ObservedModel(model, witness, loop.time)


def _said(
    assembly: Assembly, seconds: float, first: float | None, error: BaseException | None
) -> ModelCallOutcome:
    message = assembly.message if error is None else None
    return ModelCallOutcome(
        assembly.model, seconds, first, assembly.usage, assembly.finish, error, message
    )


def cost(aside: Leftover) -> tuple[Charge, ...]:
    """Return the charges of a step that was abandoned."""
    charges, partial = aside.left.charges, aside.left.partial
    if partial is not None:
        charges += _charged(aside.fence, partial.usage, partial.model)
    return charges


def _charged(fence: Fence, usage: Usage | None, model: str | None) -> tuple[Charge, ...]:
    if usage is None:
        return ()
    # After a shutdown another worker makes the same attempt again, and that costs again.
    id = f"attempt {fence.history_version}.{fence.attempt} of epoch {fence.epoch}"
    return (Charge(id, "attempt", usage, model),)


class _Keeper:
    """Saves the partial answer at intervals while it arrives.

    Its timer outlives an answer, so that a series of short answers does not pay for one each.
    """

    def __init__(self, every: float) -> None:
        self._keep: Callable[[Assembly], None] | None = None
        self._every = every
        self._assembly: Assembly | None = None
        """The answer that is arriving."""
        self._due = 0.0
        self._size = 0
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, assembly: Assembly, now: float, keep: Callable[[Assembly], None]) -> None:
        """Start saving an answer."""
        self._assembly, self._size, self._keep = assembly, 0, keep
        self._due = now + self._every
        if self._timer is None:
            self._timer = self._loop.call_at(self._due, self._look)

    def end(self) -> None:
        """Stop saving it."""
        self._assembly = self._keep = None

    def close(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer, assembly, keep = None, self._assembly, self._keep
        if assembly is None or keep is None:
            return
        now = self._loop.time()
        if now >= self._due:
            self._due = now + self._every
            if assembly.size > self._size:
                self._size = assembly.size
                keep(assembly)
        self._timer = self._loop.call_at(self._due, self._look)
