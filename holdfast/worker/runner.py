"""Drives one chat: decide, do the step, commit it under the fence, until there is nothing to do.

Whatever stands in the way of a commit (an interrupt, an edit, another owner, a lost answer of the
database) ends in the same place: the step is unwound, the chat is read again, and what its row says
is done next.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final, assert_never

import anyio
from anyio.abc import TaskGroup
from msgspec.structs import replace

from holdfast.agent import Agent
from holdfast.chat import running
from holdfast.chat.errors import ChatError, Fenced
from holdfast.chat.running import Outcome, Settlement
from holdfast.chat.state import Chat, Partial, Rest, Status
from holdfast.kernel import results
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
from holdfast.kernel.ending import check_output, interruption_marker, objection
from holdfast.kernel.errors import KINDS, Failure, classify
from holdfast.kernel.messages import Injection, Message, Text, injected, note
from holdfast.kernel.outcome import Failed
from holdfast.kernel.output import Repair
from holdfast.kernel.turn import fold
from holdfast.live.deltas import Live
from holdfast.observe.logs import DRIVEN
from holdfast.observe.observer import UNOBSERVED, Observer, Stretch
from holdfast.store.database import Database, StoreError
from holdfast.worker.answering import Answering, cost
from holdfast.worker.book import Book, Gone, Moved
from holdfast.worker.calling import Calling
from holdfast.worker.flight import NOTHING, Aside, Flight, Stopped, Unfinished
from holdfast.worker.options import WorkerOptions
from holdfast.worker.setup import Setup

LOG: Final = logging.getLogger("holdfast.worker")
FIRST_PAUSE: Final = 1.0


class Runner:
    """One chat in the hands of this process, from its claim to its rest."""

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
        self._book = Book(db, claimed, agent.trim)
        self._worker_id = claimed.worker_id or ""
        self._witness = observer.drives(self._stretch(claimed))
        self._setup = Setup(agent, self._witness.around)
        self._flight = Flight(live)
        self._calling = Calling(self._book, self._setup, self._flight, self._beside, self._witness)
        self._answering = Answering(
            self._book,
            self._setup,
            self._flight,
            self._calling,
            options,
            self._beside,
            self._witness,
        )
        self._group: TaskGroup
        self._errands: list[partial[Coroutine[Any, Any, None]]] = []
        self._asked = anyio.Event()
        self.is_child = claimed.parent_id is not None
        self.ended = anyio.Event()
        self._poke = anyio.Event()
        """Something happened that whoever waits has to look at."""
        self._draining = False
        self._troubles = 0
        self._lost = False
        self._begun = False
        self._loaded = False
        """Whether what is known here may be built upon."""
        self._aside: Aside | None = None
        """What a step produced that could not be committed, until the chat was read again."""

    @property
    def chat_id(self) -> str:
        return self._book.chat.id

    @property
    def place(self) -> Mapping[str, object]:
        """What a log says that it is about."""
        fence, worker = self._book.fence, self._worker_id
        return {
            "chat": fence.chat,
            "worker": worker,
            "epoch": fence.epoch,
            "attempt": fence.attempt,
        }

    def _stretch(self, claimed: Chat) -> Stretch:
        book = self._book
        return Stretch(
            claimed.id, claimed.agent, self._worker_id, claimed.epoch, lambda: book.fence.attempt
        )

    def hear(self, version: int | None) -> None:
        """A notice that the chat changed."""
        self._book.hear(version)

    def drain(self) -> None:
        """Finish the step in flight, then give the chat away."""
        self._draining = True
        self._wake()

    def cut(self) -> None:
        """The grace is over: stop the step now, and give the chat away as it is."""
        self._flight.stop()
        self.drain()

    def _wake(self) -> None:
        self._poke.set()

    def _beside(self, work: Callable[..., Coroutine[Any, Any, None]], *args: object) -> None:
        """Run something beside the step. Timers ask for it too, and nobody can start a task there
        but a task: anyio finds its event loop by that."""
        self._errands.append(partial(work, *args))
        self._asked.set()

    async def _run_errands(self) -> None:
        while True:
            await self._asked.wait()
            self._asked = anyio.Event()
            errands, self._errands = self._errands, []
            for errand in errands:
                self._group.start_soon(errand)

    async def _unwind(self) -> Unfinished:
        left = await self._flight.unwind(self._book.history.turn.open)
        await self._calling.drain()
        return left

    # --- from claim to rest ---

    async def run(self) -> None:
        """Drive the chat until it rests, is taken away, or this worker goes."""
        DRIVEN.set(self)
        self._witness.begins()
        try:
            async with anyio.create_task_group() as group:
                self._group = group
                group.start_soon(self._watch)
                group.start_soon(self._run_errands)
                await self._drive()
                group.cancel_scope.cancel()
        finally:
            self._flight.abandon()
            self._answering.close()
            self._flight.screen.close()
            self._live.forget(self.chat_id)
            self._witness.ends()

    async def _watch(self) -> None:
        """Hear what others do to the chat, and do at once what cannot wait for the next commit."""
        book, flight = self._book, self._flight
        while True:
            try:
                chat = await book.news()
            except Gone:
                flight.stop()
                self._lost = True
                self._wake()
                return
            except StoreError:  # looked at again with the next notice or poll
                LOG.warning("chat %s cannot be looked at", self.chat_id, exc_info=True)
                continue
            except ChatError:  # whoever loads it next is told what is wrong with it
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
        """Do what comes next. Whether anything may come after it."""
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
        self._troubles = 0
        return going_on

    async def _begin(self) -> None:
        """Start from what the database says."""
        await self._book.load()
        self._answering.wait_for_retry(self._book.retry_in)
        if not self._begun:
            self._calling.begin()
        self._begun = self._loaded = True

    async def _advance(self) -> bool:
        """Do what the row of the chat asks for. False when there is nothing."""
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
                    await self._unwind()  # a stream may have begun with calls of the next step
                    await self._release()
                    return False
                if book.chat.retry_at is not None and await self._waits_for_retry():
                    return True
                return await self._step()
            case Status.INTERRUPTING:
                await self._settle(_filled(left or NOTHING, book.partial, book.chat))
                return book.chat.busy
            case Status.REQUIRES_ACTION:
                chat = await book.write(running.expire)
                return chat.status is not Status.REQUIRES_ACTION
            case _:
                return False

    async def _unwound(self) -> Aside:
        """End the step. What one before it left is still there if the chat could not be read."""
        book, left = self._book, await self._unwind()
        return self._aside or Aside(left, book.fence, book.chat.messages)

    async def _look_again(self, aside: Aside) -> Unfinished | None:
        """Read the chat after a step that was not committed; what of the step still counts.

        To an interrupt everything does; to a chat that goes on, an answer that only has to be
        committed, and results.
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

    async def _in_trouble(self, error: Exception, aside: Aside) -> bool:
        """An error that is nobody's outcome: try a few times, and then say so. Whether to go on."""
        self._troubles += 1
        if aside.left != NOTHING:
            self._aside = aside
            await self._calling.hand_over(aside.left)
        failure = _expected(error)
        if failure is None and self._troubles < self._options.troubles:
            LOG.warning("chat %s: trying again", self.chat_id, exc_info=error)
            await anyio.sleep(FIRST_PAUSE * 2 ** (self._troubles - 1))
            self._loaded = False
            return True
        if failure is None:
            reference = self._agent.ports.new_id()
            LOG.error("chat %s failed, reference %s", self.chat_id, reference, exc_info=error)
            failure = Failure(
                "internal", KINDS["internal"].sentence, f"see the log for reference {reference}"
            )
        if not self._loaded:  # it cannot be read, and may have moved
            await self._book.look()
        try:
            await self._book.fail(failure, cost(aside))
        except Moved:
            self._loaded = False
            return True
        self._witness.turned("error", failure)
        return False

    async def _release(self) -> None:
        fence = self._book.fence
        try:
            await self._db.write(lambda tx: running.release(tx, fence), short=True)
        except (Fenced, ChatError, StoreError):
            LOG.info("chat %s was not given back", self.chat_id, exc_info=True)

    async def _waits_for_retry(self) -> bool:
        """Wait for the next attempt. Whether something came in between."""
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
                await book.write(running.deliver)
            case Recover():
                await self._inject("recovery", self._agent.policy.wording.recovery)
            case LoadContext():
                raise AssertionError("no workspace says anything about itself yet")
            case Finish(reason):
                return await self._finish(reason)
            case Fail():
                raise Failed(classify(over_limit(turn, rules), self._setup.model.name))
            case _:
                assert_never(step)
        return True

    async def _inject(self, why: Injection, text: str) -> None:
        await self._book.commit((injected(text, why),))

    async def _compact(self, finish: bool) -> bool:
        outcome = await self._summary()
        if not finish:
            await self._book.write(running.commit_step, outcome)
            return True
        return (await self._book.write(running.finish_turn, None, outcome)).busy

    async def _summary(self) -> Outcome:
        """A checkpoint. Where a person asked for one and none can be had, the chat is no worse."""
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
        """The turn has nothing left to do, unless somebody objects."""
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
        rest = Rest(reason, steps)  # type: ignore[arg-type]
        before = book.chat.history_version
        chat = await book.write(
            running.finish_turn,
            rest,
            Outcome(messages=said),
            only_to_deliver=may_object and waits,
            partial=book.partial_written,
        )
        if chat.busy and chat.history_version == before:
            return True  # what waited was taken back: who may object is asked after all
        self._witness.turned(reason)
        return chat.busy

    async def _settle(self, left: Unfinished) -> None:
        """The end of an interrupted turn: keep what it produced, and tell the model."""
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
            results=tuple(left.results),
            marker=marker,
            charges=left.charges,
            runtime=left.runtime,
        )
        await book.write(running.settle, settlement)
        self._witness.turned("interrupted")


def _filled(left: Unfinished, partial: Partial | None, chat: Chat) -> Unfinished:
    """With what a worker that died had written down of the answer that is now interrupted, where
    nothing more has arrived since."""
    if left.partial is not None or partial is None:
        return left
    if (partial.history_version, partial.attempt) != (chat.history_version, chat.attempt):
        return left
    return replace(left, partial=partial.message)


def _expected(error: Exception) -> Failure | None:
    """A failure of the chat itself; None for one that is ours and may pass."""
    if isinstance(error, Failed):
        return error.failure
    if isinstance(error, (StoreError, ChatError)):
        return None
    failure = classify(error)
    return None if failure.kind in ("internal", "unknown") else failure
