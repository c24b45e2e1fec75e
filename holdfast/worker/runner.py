"""The runner of one chat: decide, do the step, commit it under the fence, until nothing is left to
do.

Everything that prevents a commit (an interrupt, an edit, another owner, a lost acknowledgement) is
handled in one way: the step is unwound, the chat is loaded again, and the runner does what its row
says.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final, assert_never
from weakref import ref

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from holdfast.agent import Agent
from holdfast.chat.errors import ChatError, Fenced
from holdfast.chat.rows import Chat, Partial, Rest, Status
from holdfast.chat.transitions import runner
from holdfast.chat.transitions.runner import Outcome, Settlement
from holdfast.kernel import results
from holdfast.kernel.answer import cut_by
from holdfast.kernel.decide import (
    CallModel,
    Compact,
    DeliverSteering,
    Facts,
    Fail,
    Finish,
    LoadContext,
    Recover,
    RefuseCalls,
    RequireAction,
    RunCalls,
    SkipCalls,
    decide,
    over_limit,
)
from holdfast.kernel.errors import FAILURE_KINDS, Failure, PromptTooLong, StillOverLimit, classify
from holdfast.kernel.failure_log import log_failure
from holdfast.kernel.finish import check_output, interruption_marker, objection
from holdfast.kernel.messages import Injection, Message, Text, injected, note
from holdfast.kernel.output import Repair
from holdfast.kernel.result import Failed
from holdfast.kernel.turn import fold
from holdfast.live.broadcast import Live
from holdfast.observe.logs import LOG_CONTEXT
from holdfast.observe.observer import UNOBSERVED, Observer, Stretch
from holdfast.store.database import Database, StoreError
from holdfast.worker.chat_agent import Setup
from holdfast.worker.fenced_chat import FencedChat, Gone, Moved
from holdfast.worker.model_step import Answering, cost
from holdfast.worker.options import WorkerOptions
from holdfast.worker.step import NOTHING, Leftover, RunningStep, Stopped, Unfinished
from holdfast.worker.tool_step import Calling

LOG: Final = logging.getLogger("holdfast.worker")
FIRST_PAUSE: Final = 1.0


class Runner:
    """Drives one chat from its claim until it rests or is released."""

    def __init__(
        self,
        db: Database,
        live: Live,
        agent: Agent,
        claimed: Chat,
        options: WorkerOptions,
        rested: Callable[[Chat], None],
        observer: Observer = UNOBSERVED,
    ) -> None:
        self._db = db
        self._live = live
        self._agent = agent
        self._options = options
        self._rested = rested
        self._book = FencedChat(db, claimed, agent.trim)
        self._worker_id = claimed.worker_id or ""
        self._witness = observer.drives(self._stretch(claimed))
        self._setup = Setup(agent, self._witness.around)
        self._flight = RunningStep(live)
        self._errands = Errands()
        self._calling = Calling(
            self._book, self._setup, self._flight, self._errands.add, self._witness
        )
        self._answering = Answering(
            self._book,
            self._setup,
            self._flight,
            self._calling,
            options,
            self._errands.add,
            self._witness,
        )
        self._group: TaskGroup
        self.is_child = claimed.parent_id is not None
        self.ended = anyio.Event()
        self._poke = anyio.Event()
        """Set when something happened that a wait has to check."""
        self._draining = False
        self._troubles = 0
        self._lost = False
        self._begun = False
        self._resumed = True
        """Whether this runner has not made a step yet."""
        self._loaded = False
        """Whether the loaded state is valid."""
        self._aside: Leftover | None = None
        """What an uncommitted step produced, until the chat is loaded again."""

    @property
    def chat_id(self) -> str:
        return self._book.chat.id

    def _stretch(self, claimed: Chat) -> Stretch:
        book = self._book
        return Stretch(
            claimed.id, claimed.agent, self._worker_id, claimed.epoch, lambda: book.fence.attempt
        )

    def hear(self, version: int | None) -> None:
        """Receive a notice that the chat changed."""
        self._book.hear(version)

    def drain(self) -> None:
        """Finish the running step, then release the chat."""
        self._draining = True
        self._wake()

    def cut(self) -> None:
        """Stop the running step now, because the grace is over, and release the chat."""
        self._flight.stop()
        self.drain()

    def _wake(self) -> None:
        self._poke.set()

    async def _unwind(self) -> Unfinished:
        left = await self._flight.unwind(self._book.history.turn.open)
        await self._calling.drain()
        return left

    # --- from claim to rest ---

    async def run(self) -> None:
        """Drive the chat until it rests, has another owner, or this worker stops."""
        LOG_CONTEXT.set(_LogPlace(self._book, self._worker_id))
        self._witness.begins()
        try:
            async with anyio.create_task_group() as group:
                self._group = group
                group.start_soon(_lightly, self._watch)
                group.start_soon(self._errands.run, group)
                await self._drive()
                group.cancel_scope.cancel()
        finally:
            self._flight.abandon()
            self._answering.close()
            self._flight.screen.close()
            self._live.forget(self.chat_id)
            self._witness.ends()

    async def _watch(self) -> None:
        """Watch for changes by others, and react to those that cannot wait for the next commit."""
        book, flight = self._book, self._flight
        while True:
            try:
                chat = await book.news()
            except Gone:
                flight.stop()
                self._lost = True
                self._wake()
                return
            except StoreError:  # queried again with the next notice or poll
                LOG.warning("chat %s: could not query changes", self.chat_id, exc_info=True)
                continue
            except ChatError:  # the next load reports what is wrong
                LOG.warning("chat %s cannot be read", self.chat_id, exc_info=True)
                flight.stop()
                self._loaded = False
                self._wake()
                continue
            changed = chat.history_version != book.fence.history_version
            if chat.status is not Status.RUNNING or changed:
                flight.stop()
            elif book.steering:
                flight.steer()
            self._wake()

    async def _drive(self) -> None:
        try:
            while not self._lost and await self._round():
                pass
        except Gone:
            self._lost = True
        if not self._lost and not self._book.chat.busy:
            self._rested(self._book.chat)

    async def _round(self) -> bool:
        """Do the next thing. Returns whether more may follow."""
        try:
            if not self._loaded:
                await self._begin()
            going_on = await self._advance()
        except (Moved, Stopped):
            self._aside = await self._unwound()
            return True
        except Gone:
            raise
        except Exception as error:
            return await self._in_trouble(error, await self._unwound())
        self._troubles, self._resumed = 0, False
        return going_on

    async def _begin(self) -> None:
        """Load the chat."""
        await self._book.load()
        self._answering.wait_for_retry(self._book.retry_in)
        if not self._begun:
            self._calling.begin()
        self._begun = self._loaded = True

    async def _advance(self) -> bool:
        """Do what the row of the chat asks for. False when there is nothing to do."""
        left = None if self._aside is None else await self._look_again(self._aside)
        self._aside = None
        book = self._book
        match book.chat.status:
            case Status.RUNNING:
                if left is not None:
                    await self._answering.commit(left)
                    await self._calling.hand_over(left)
                    return True
                if self._draining:
                    await self._unwind()  # a stream may have started calls of the next step
                    await self._release()
                    return False
                if book.chat.retry_at is not None and await self._waits_for_retry():
                    return True
                return await self._step()
            case Status.INTERRUPTING:
                await self._settle(_filled(left or NOTHING, book.partial, book.chat))
                return book.chat.busy
            case Status.REQUIRES_ACTION:
                chat = await book.write(runner.expire)
                return chat.status is not Status.REQUIRES_ACTION
            case _:
                return False

    async def _unwound(self) -> Leftover:
        """End the step. Keeps what an earlier step left if the chat could not be loaded since."""
        book, left = self._book, await self._unwind()
        return self._aside or Leftover(left, book.fence, book.chat.messages)

    async def _look_again(self, aside: Leftover) -> Unfinished | None:
        """Load the chat after an uncommitted step; keep what of the step still counts.

        For an interrupt that is everything; for a chat that continues, a complete answer and
        results.
        """
        await self._book.load()
        self._answering.wait_for_retry(self._book.retry_in)
        chat, left = self._book.chat, aside.left
        if chat.history_version == aside.fence.history_version:
            if left.whole or chat.status is not Status.RUNNING:
                return left
            await self._calling.hand_over(left)
        await self._answering.abandon(aside)
        return None

    async def _in_trouble(self, error: Exception, aside: Leftover) -> bool:
        """Handle an internal error: retry a few times, then fail the chat. Returns whether to
        continue."""
        self._troubles += 1
        if aside.left != NOTHING:
            self._aside = aside
            await self._calling.hand_over(aside.left)
        failure = _expected(error)
        if failure is None and self._troubles < self._options.troubles:
            LOG.warning("chat %s: internal error, will retry", self.chat_id, exc_info=error)
            await anyio.sleep(FIRST_PAUSE * 2 ** (self._troubles - 1))
            self._loaded = False
            return True
        if failure is None:
            reference = self._agent.ports.new_id()
            LOG.error("chat %s failed, reference %s", self.chat_id, reference, exc_info=error)
            failure = Failure(
                "internal",
                FAILURE_KINDS["internal"].sentence,
                f"see the log for reference {reference}",
            )
        if not self._loaded:  # it cannot be loaded, and may have changed
            await self._book.look()
        attempt = self._book.fence.attempt
        try:
            await self._book.fail(failure, cost(aside))
        except Moved:
            self._loaded = False
            return True
        log_failure(failure, chat=self.chat_id, model=self._setup.model.name, attempt=attempt)
        self._witness.turned("error", failure)
        return False

    async def _release(self) -> None:
        fence = self._book.fence
        try:
            await self._db.write(lambda tx: runner.release(tx, fence), short=True)
        except (Fenced, ChatError, StoreError):
            LOG.info("chat %s could not be released", self.chat_id, exc_info=True)

    async def _waits_for_retry(self) -> bool:
        """Wait for the next attempt. Returns whether the wait was cut short."""
        left = self._answering.until_retry()
        if left <= 0:
            return False
        self._poke = anyio.Event()
        if self._book.seen is self._book.chat:
            with anyio.move_on_after(left):
                await self._poke.wait()
        if self._book.seen is not self._book.chat:
            await self._book.load()
            return True
        return self._draining or self._lost

    # --- steps ---

    async def _step(self) -> bool:
        book, calling = self._book, self._calling
        self._flight.begin()
        if book.behind:
            await book.catch_up()
        self._setup.follow(book.chat)
        turn, rules = book.history.turn, self._setup.rules
        facts = Facts(
            book.steering,
            book.chat.compaction,
            calling.states() if turn.open else {},
            at_rest=book.chat.outcome is not None,
            resumed=self._resumed,
        )
        step = decide(turn, facts, rules)
        match step:
            case CallModel():
                return await self._answering.answer()
            case RunCalls(calls):
                await calling.run(calls)
            case SkipCalls(calls):
                await calling.answer([results.skipped(call) for call in calls])
            case RefuseCalls(calls, exclusive):
                await calling.refuse(calls, exclusive)
            case RequireAction(calls):
                return await calling.require_action(calls)
            case Compact(_, finish):
                return await self._compact(finish)
            case DeliverSteering():
                await book.write(runner.deliver)
            case Recover():
                await self._inject("recovery", self._agent.policy.wording.recovery)
            case LoadContext():
                raise AssertionError("no workspace says anything about itself yet")
            case Finish(reason):
                return await self._finish(reason)
            case Fail():
                raise self._over_limit(over_limit(turn, rules))
            case _:
                assert_never(step)
        return True

    def _over_limit(self, error: StillOverLimit) -> Failed:
        if not isinstance(error, PromptTooLong):
            self._witness.compacted("no_progress")
        return Failed(classify(error, self._setup.model.name))

    async def _inject(self, why: Injection, text: str) -> None:
        await self._book.commit((injected(text, why),))

    async def _compact(self, finish: bool) -> bool:
        outcome = await self._summary()
        if not finish:
            await self._book.write(runner.commit_step, outcome)
            return True
        return (await self._book.write(runner.finish_turn, None, outcome)).busy

    async def _summary(self) -> Outcome:
        """Make a checkpoint. If a requested one cannot be made, the chat continues without it."""
        try:
            return await self._answering.summary()
        except Failed as error:
            if self._book.chat.compaction != "person":
                raise
            charges = self._flight.left.charges
            why = error.failure.detail.removeprefix("SummaryFailed: ") or error.failure.message
            said = note(f"The conversation was not summarized: {why}.")
            return Outcome(messages=(said,), compacted=True, charges=charges)

    async def _finish(self, reason: str) -> bool:
        """Finish the turn, unless the stop guard objects."""
        book, agent = self._book, self._setup.agent
        fits = check_output(agent, book.history, reason)
        if isinstance(fits, Repair):
            await self._inject("repair", fits.text)
            return True
        may_object = agent.guard is not None and reason != "max_steps"
        waits = bool(book.queue)
        if may_object and not waits:
            assert reason in ("stop", "stop_after_tool")
            veto = await self._flight.until_stopped(
                lambda stop: objection(agent, book.history, reason, fits.value, stop)  # type: ignore[arg-type]
            )
            if veto is not None:
                await self._inject("guard", veto)
                return True
        steps = book.history.turn.steps
        said: tuple[Message, ...] = ()
        if reason == "max_steps":
            said = (note(f"Stopped: this turn reached its limit of {steps} steps."),)
        cut = cut_by(book.history.last_answer()) if reason == "stop" else None
        rest = Rest(reason, steps, cut)  # type: ignore[arg-type]
        before = book.chat.history_version
        chat = await book.write(
            runner.finish_turn,
            rest,
            Outcome(messages=said),
            only_to_deliver=may_object and waits,
            partial=book.partial_written,
        )
        if chat.busy and chat.history_version == before:
            return True  # the queued message was removed: ask the stop guard after all
        self._witness.turned(reason)
        return chat.busy

    async def _settle(self, left: Unfinished) -> None:
        """Settle an interrupted turn: keep what it produced, and tell the model."""
        book = self._book
        self._flight.left = left
        turn, answer = book.history.turn, book.history.last_answer()
        if left.partial is not None:
            turn, answer = fold(turn, left.partial), left.partial
        text = interruption_marker(
            self._agent.policy.wording, turn, answer, asking=left.asking and left.partial is None
        )
        marker = Message("user", (Text(text),), "marker", "model") if text else None
        settlement = Settlement(
            message=left.partial,
            half_written=left.half_written,
            results=tuple(left.results),
            marker=marker,
            charges=left.charges,
        )
        await book.write(runner.settle, settlement)
        self._witness.turned("interrupted")


class Errands:
    """Background work beside the step.

    Also requested in timer callbacks, where anyio cannot start tasks; hence the queue.
    """

    def __init__(self) -> None:
        self._waiting: list[partial[Coroutine[Any, Any, None]]] = []
        self._asked = anyio.Event()

    def add(self, work: Callable[..., Coroutine[Any, Any, None]], *args: object) -> None:
        """Queue a function to be run."""
        self._waiting.append(partial(work, *args))
        self._asked.set()

    async def run(self, group: TaskGroup) -> None:
        """Start what is queued, until cancelled."""
        try:
            while True:
                await self._asked.wait()
                self._asked = anyio.Event()
                waiting, self._waiting = self._waiting, []
                for errand in waiting:
                    group.start_soon(_lightly, errand)
                del waiting, errand
        finally:
            self._waiting = []  # avoids a reference cycle


async def _lightly(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a child of a task group so that its cancellation keeps no references.

    anyio leaves the `CancelledError` of a child in a reference cycle, with every frame of its
    traceback. Here that would be the runner with its whole history.
    """
    try:
        await work()
    except asyncio.CancelledError as error:
        del work
        raise error.with_traceback(None) from None


class _LogPlace:
    """The fields that log lines of a chat have while it is driven.

    Contexts of tasks and timers outlive the runner, in libraries too: this is all they refer to.
    """

    def __init__(self, book: FencedChat, worker: str) -> None:
        self._book = ref(book)
        self._known = {"chat": book.fence.chat, "worker": worker, "epoch": book.fence.epoch}

    @property
    def log_fields(self) -> Mapping[str, object]:
        book = self._book()
        return self._known if book is None else {**self._known, "attempt": book.fence.attempt}


def _filled(left: Unfinished, partial: Partial | None, chat: Chat) -> Unfinished:
    """Add the partial answer that a dead worker saved, if nothing more has arrived since."""
    if left.partial is not None or partial is None:
        return left
    if (partial.history_version, partial.attempt) != (chat.history_version, chat.attempt):
        return left
    return replace(left, partial=partial.message)


def _expected(error: Exception) -> Failure | None:
    """Return the failure if it belongs to the chat; None for an internal error that may pass."""
    if isinstance(error, Failed):
        return error.failure
    if isinstance(error, (StoreError, ChatError)):
        return None
    failure = classify(error)
    return None if failure.kind in ("internal", "unknown") else failure
