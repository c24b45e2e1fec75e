"""Asking the model: one attempt at an answer, and what follows when it fails."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from holdfast.chat import running
from holdfast.chat.errors import ChatError
from holdfast.chat.running import Outcome
from holdfast.chat.state import Charge, Fence
from holdfast.kernel import compact, prepare, retry
from holdfast.kernel.assemble import Assembly
from holdfast.kernel.compact import Situation
from holdfast.kernel.errors import Failure, classify
from holdfast.kernel.generate import Caller, Interrupted
from holdfast.kernel.messages import Message, Usage
from holdfast.kernel.model import Model
from holdfast.kernel.outcome import Tally
from holdfast.kernel.patience import Patience
from holdfast.kernel.summarize import Summarizer
from holdfast.observe.observer import NOBODY, Said, Watched, Witness
from holdfast.store.database import StoreError
from holdfast.worker.book import Book
from holdfast.worker.calling import Calling
from holdfast.worker.flight import NOTHING, Aside, Flight, Stopped, Unfinished
from holdfast.worker.options import MICRO, WorkerOptions
from holdfast.worker.setup import Setup

LOG: Final = logging.getLogger("holdfast.worker")


class Answering:
    """The model calls of one chat, one at a time."""

    def __init__(
        self,
        book: Book,
        setup: Setup,
        flight: Flight,
        calling: Calling,
        options: WorkerOptions,
        beside: Callable[..., Any],
        witness: Witness,
    ) -> None:
        self._book = book
        self._setup = setup
        self._flight = flight
        self._calling = calling
        self._options = options
        self._beside = beside
        self._witness = witness
        self._loop = asyncio.get_running_loop()
        self._caller: Caller | None = None
        self._keeper = _Keeper(self._keep_soon, options.partial)
        self._avoid: frozenset[str] = frozenset()
        """Models that failed at this very step."""
        self._retry_at: float | None = None

    def close(self) -> None:
        self._keeper.close()
        if self._caller is not None:
            self._caller.close()

    def _call_with(self, tally: Tally) -> Caller:
        policy, flight = self._setup.agent.policy, self._flight
        return Caller(policy.stream, flight.screen, flight.interruption, tally)

    # --- one attempt ---

    async def answer(self) -> bool:
        """One attempt at an answer. False when the chat rests, or waits without us."""
        book, setup, flight = self._book, self._setup, self._flight
        assembly = Assembly(setup.model.name, setup.agent.ports, book.history.call_ids)
        flight.screen.open(book.fence)
        began = self._loop.time()
        self._keeper.begin(assembly, began)
        try:
            await self._ask(assembly)
        except Interrupted:
            self._keep(assembly, began)
            raise Stopped from None
        except Exception as error:
            await flight.unwind(())
            self._keep(assembly, began, failed=True)
            going_on = await self._after(error, assembly)
            flight.left = NOTHING
            return going_on
        finally:
            self._keeper.end()
        self._keep(assembly, began)
        setup.hear_window(assembly.window)
        book.history.call_ids |= assembly.ids
        await self.commit(flight.left)
        return True

    async def commit(self, whole: Unfinished) -> None:
        """Commit a whole answer; also again, after that went wrong: it has been paid for."""
        assert whole.partial is not None
        self._flight.left = whole
        await self._book.commit((whole.partial,), whole.runtime)
        self._avoid = frozenset()

    async def _ask(self, assembly: Assembly) -> None:
        request = self._setup.request(self._book.history, self._avoid)
        if self._book.names_files:
            request = replace(request, messages=await self._book.with_files(request.messages))
        batch = self._calling.new_batch()
        if self._caller is None:
            self._caller = self._call_with(Tally())
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
            if self._witness is not NOBODY:
                self._witness.answered(_said(assembly, self._loop.time() - began, first, error))

    def _keep(self, assembly: Assembly, began: float, *, failed: bool = False) -> None:
        """What arrived of an answer, until it is committed in one way or another.

        `failed`: that it did is about to be written down, with what it cost; and where nobody heard
        that this was done, it is not to be counted a second time.
        """
        whole = assembly.finish is not None and not failed
        partial = assembly.message() if whole else assembly.partial("interrupted")
        if failed and partial is not None:
            partial = replace(partial, usage=None)
        self._flight.left = Unfinished(
            partial=partial,
            whole=whole,
            charges=() if partial is not None and not failed else self._charges(assembly),
            runtime=int((self._loop.time() - began) * 1_000),
            asking=True,
        )

    def _charges(self, assembly: Assembly) -> tuple[Charge, ...]:
        return _charged(self._book.fence, assembly.usage, assembly.model)

    async def abandon(self, aside: Aside) -> None:
        """Nothing is kept of a step: what it cost was spent all the same."""
        charges = cost(aside)
        if charges:
            await self._book.charge(aside.fence, aside.last, charges)

    # --- after a failure ---

    async def _after(self, error: Exception, assembly: Assembly) -> bool:
        """An attempt failed: say when the next begins, or that there is none."""
        if isinstance(error, (StoreError, ChatError)):
            raise error
        failure = classify(error, assembly.model)
        if failure.kind in ("internal", "unknown"):  # whoever wrote the model wants to know where
            LOG.warning("chat %s: an attempt failed", self._book.chat.id, exc_info=error)
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
            return False
        release = verdict.seconds > self._options.hold
        await self._record(failure, verdict.seconds, charges, release=release)
        return self._book.chat.worker_id is not None

    async def _give_up(
        self, failure: Failure, assembly: Assembly, charges: tuple[Charge, ...]
    ) -> None:
        partial = assembly.partial("error")
        if partial is not None:  # for people only, and with its usage
            partial, charges = replace(partial, visibility="user"), ()
        await self._book.write(running.fail, failure, partial, charges)
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
            running.record_retry,
            failure,
            self._setup.agent.policy.retry.attempts,
            int(seconds * MICRO),
            charges,
            overflow=overflow,
            release=release,
        )
        self.wait_for_retry(None if chat.retry_at is None else seconds)

    def wait_for_retry(self, seconds: float | None) -> None:
        """The next attempt was put off, by us or by somebody before us."""
        self._retry_at = None if seconds is None else self._loop.time() + seconds

    def until_retry(self) -> float:
        """Seconds until the next attempt may begin. What is said or edited meanwhile ends a wait:
        then the row has none."""
        if self._retry_at is None or self._book.chat.retry_at is None:
            return 0.0
        return self._retry_at - self._loop.time()

    # --- summaries ---

    async def summary(self) -> Outcome:
        """A checkpoint to be committed: by shortening, or with a summary."""
        book = self._book
        self._flight.screen.open(book.fence)
        now = self._setup.situation(book.history, book.chat.compaction)
        message = compact.by_trimming(now)
        charges: tuple[Charge, ...] = ()
        summarized = message is None
        if message is None:
            message, charges = await self._summarize(now)
        self._witness.compacted(summarized)
        checkpoint = message.checkpoint
        assert checkpoint is not None
        said = compact.entry_for_people(checkpoint)
        return Outcome(messages=(message, said), compacted=True, charges=charges)

    async def _summarize(self, now: Situation) -> tuple[Message, tuple[Charge, ...]]:
        agent, flight, tally = self._setup.agent, self._flight, Tally()
        model = prepare.summary_model(agent)
        caller = self._call_with(tally)
        patience = Patience(agent.policy.retry, agent.ports, flight.inbox, flight.screen)
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
            # Counted whatever becomes of it, and under a name of its own if it is made again.
            usage, id = tally.summary(0).usage, f"summary {agent.ports.new_id()}"
            charge = Charge(id, "summary", usage, model.name)
            flight.left = Unfinished(charges=(charge,) if usage != Usage() else ())
        return message, flight.left.charges

    # --- what is kept while an answer arrives ---

    def _keep_soon(self, assembly: Assembly) -> None:
        # The fence of now: by the time that this runs, the next attempt may have its own.
        self._beside(self._keep_partial, assembly, self._book.fence)

    async def _keep_partial(self, assembly: Assembly, fence: Fence) -> None:
        message = assembly.so_far()
        if message is None or assembly.finish is not None:
            return
        try:
            await self._book.keep_partial(fence, self._flight.screen.seq, message)
        except (StoreError, ChatError):
            LOG.info("chat %s: a partial answer was not kept", self._book.chat.id, exc_info=True)


def _watched(model: Model, witness: Witness, loop: asyncio.AbstractEventLoop) -> Model:
    return model if witness is NOBODY else Watched(model, witness, loop.time)


def _said(
    assembly: Assembly, seconds: float, first: float | None, error: BaseException | None
) -> Said:
    message = assembly.message if error is None else None
    return Said(assembly.model, seconds, first, assembly.usage, assembly.finish, error, message)


def cost(aside: Aside) -> tuple[Charge, ...]:
    """What a step cost of which nothing is kept."""
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
    """Has what arrived of an answer written down now and then, while it goes on arriving.

    Its timer outlives an answer, so that a run of short ones does not pay for one each.
    """

    def __init__(self, keep: Callable[[Assembly], None], every: float) -> None:
        self._keep = keep
        self._every = every
        self._assembly: Assembly | None = None
        """The answer that is arriving."""
        self._due = 0.0
        self._size = 0
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, assembly: Assembly, now: float) -> None:
        self._assembly, self._size = assembly, 0
        self._due = now + self._every
        if self._timer is None:
            self._timer = self._loop.call_at(self._due, self._look)

    def end(self) -> None:
        self._assembly = None

    def close(self) -> None:
        """Leave no timer behind."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        self._timer, assembly = None, self._assembly
        if assembly is None:
            return
        now = self._loop.time()
        if now >= self._due:
            self._due = now + self._every
            if assembly.size > self._size:
                self._size = assembly.size
                self._keep(assembly)
        self._timer = self._loop.call_at(self._due, self._look)
