"""The runner of one chat: decides, does the step and commits it, until nothing is left to do.

Everything that prevents a commit (an interrupt, an edit, another owner, a lost acknowledgement) is
handled in one way: the step is unwound, the chat is loaded again, and the runner continues from its
row.
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
from holdfast.chat.rows import ChatRow, Partial, Status, TurnOutcome
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
from holdfast.worker.chat_agent import ChatAgent
from holdfast.worker.fenced_chat import ChatMoved, FencedChat, OwnershipLost
from holdfast.worker.model_step import ModelSteps, charges_of
from holdfast.worker.options import WorkerOptions
from holdfast.worker.step import NOTHING, Leftover, RunningStep, Stopped, Unfinished
from holdfast.worker.tool_step import ToolSteps

LOG: Final = logging.getLogger("holdfast.worker")
FIRST_RETRY_DELAY: Final = 1.0


class Runner:
    """Drives one chat from its claim until it is idle or released."""

    def __init__(
        self,
        db: Database,
        live: Live,
        agent: Agent,
        chat: ChatRow,
        options: WorkerOptions,
        on_idle: Callable[[ChatRow], None],
        observer: Observer = UNOBSERVED,
    ) -> None:
        self._db = db
        self._live = live
        self._agent = agent
        self._options = options
        self._on_idle = on_idle
        self._fenced = FencedChat(db, chat, agent.trim)
        self._worker_id = chat.worker_id or ""
        self._chat_observer = observer.drives(self._stretch(chat))
        self._chat_agent = ChatAgent(agent, self._chat_observer.around)
        self._step = RunningStep(live)
        self._background = BackgroundTasks()
        self._tool_steps = ToolSteps(
            self._fenced, self._chat_agent, self._step, self._background.add, self._chat_observer
        )
        self._model_steps = ModelSteps(
            self._fenced,
            self._chat_agent,
            self._step,
            self._tool_steps,
            options,
            self._background.add,
            self._chat_observer,
        )
        self._group: TaskGroup
        self.is_child = chat.parent_id is not None
        self.ended = anyio.Event()
        self._wakeup = anyio.Event()
        """Set when the wait for a retry has to check the state again."""
        self._draining = False
        self._errors = 0
        """Number of consecutive internal errors."""
        self._ownership_lost = False
        self._load_succeeded = False
        self._first_round = True
        """Whether this runner has not completed a round yet."""
        self._load_valid = False
        """Whether the loaded state is valid."""
        self._leftover: Leftover | None = None
        """Outcome of an uncommitted step, until the chat is loaded again."""

    @property
    def chat_id(self) -> str:
        return self._fenced.chat.id

    def _stretch(self, chat: ChatRow) -> Stretch:
        fenced = self._fenced
        return Stretch(
            chat.id, chat.agent, self._worker_id, chat.epoch, lambda: fenced.fence.attempt
        )

    def receive_notice(self, version: int | None) -> None:
        """Receive a notice that the chat changed."""
        self._fenced.receive_notice(version)

    def drain(self) -> None:
        """Finish the running step, then release the chat."""
        self._draining = True
        self._wake()

    def stop_now(self) -> None:
        """Stop the running step now, because the grace period is over, and release the chat."""
        self._step.stop()
        self.drain()

    def _wake(self) -> None:
        self._wakeup.set()

    async def _unwind(self) -> Unfinished:
        unfinished = await self._step.unwind(self._fenced.history.turn.open)
        await self._tool_steps.drain()
        return unfinished

    # --- from claim to release ---

    async def run(self) -> None:
        """Drive the chat until it is idle, has another owner, or this worker stops."""
        LOG_CONTEXT.set(_LogFields(self._fenced, self._worker_id))
        self._chat_observer.begins()
        try:
            async with anyio.create_task_group() as group:
                self._group = group
                group.start_soon(_without_cycle, self._watch)
                group.start_soon(self._background.run, group)
                await self._drive()
                group.cancel_scope.cancel()
        finally:
            self._step.abandon()
            self._model_steps.close()
            self._step.screen.close()
            self._live.forget(self.chat_id)
            self._chat_observer.ends()

    async def _watch(self) -> None:
        """Watch for changes by others, and react to those that cannot wait for the next commit."""
        fenced, step = self._fenced, self._step
        while True:
            try:
                chat = await fenced.next_change()
            except OwnershipLost:
                step.stop()
                self._ownership_lost = True
                self._wake()
                return
            except StoreError:  # queried again with the next notice or poll
                LOG.warning("chat %s: could not query changes", self.chat_id, exc_info=True)
                continue
            except ChatError:  # the next load reports what is wrong
                LOG.warning("chat %s cannot be read", self.chat_id, exc_info=True)
                step.stop()
                self._load_valid = False
                self._wake()
                continue
            history_changed = chat.history_version != fenced.fence.history_version
            if chat.status is not Status.RUNNING or history_changed:
                step.stop()
            elif fenced.steering:
                step.steer()
            self._wake()

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
            self._leftover = await self._unwound()
            return True
        except OwnershipLost:
            raise
        except Exception as error:
            return await self._handle_internal_error(error, await self._unwound())
        self._errors, self._first_round = 0, False
        return continues

    async def _load(self) -> None:
        """Load the chat."""
        await self._fenced.load()
        self._model_steps.wait_for_retry(self._fenced.retry_in)
        if not self._load_succeeded:
            self._tool_steps.begin()
        self._load_succeeded = self._load_valid = True

    async def _follow_row(self) -> bool:
        """Do what the row of the chat asks for. False if there is nothing left to do."""
        unfinished = None if self._leftover is None else await self._reload(self._leftover)
        self._leftover = None
        fenced = self._fenced
        match fenced.chat.status:
            case Status.RUNNING:
                if unfinished is not None:
                    await self._model_steps.commit(unfinished)
                    await self._tool_steps.hand_over(unfinished)
                    return True
                if self._draining:
                    await self._unwind()  # a stream may have started calls of the next step
                    await self._release()
                    return False
                if fenced.chat.retry_at is not None and await self._waits_for_retry():
                    return True
                return await self._do_step()
            case Status.INTERRUPTING:
                await self._settle(
                    _with_saved_partial(unfinished or NOTHING, fenced.partial, fenced.chat)
                )
                return fenced.chat.busy
            case Status.REQUIRES_ACTION:
                chat = await fenced.write(runner.expire)
                return chat.status is not Status.REQUIRES_ACTION
            case _:
                return False

    async def _unwound(self) -> Leftover:
        """End the step. Returns its leftover, or the earlier one that is not yet handled."""
        fenced, unfinished = self._fenced, await self._unwind()
        return self._leftover or Leftover(unfinished, fenced.fence, fenced.chat.messages)

    async def _reload(self, leftover: Leftover) -> Unfinished | None:
        """Load the chat after an uncommitted step, and return the part of its outcome to commit.

        After an interrupt that is everything; if the chat continues, a complete answer and its
        results.
        """
        await self._fenced.load()
        self._model_steps.wait_for_retry(self._fenced.retry_in)
        chat, unfinished = self._fenced.chat, leftover.unfinished
        if chat.history_version == leftover.fence.history_version:
            if unfinished.whole or chat.status is not Status.RUNNING:
                return unfinished
            await self._tool_steps.hand_over(unfinished)
        await self._model_steps.abandon(leftover)
        return None

    async def _handle_internal_error(self, error: Exception, leftover: Leftover) -> bool:
        """Retry a few times after an internal error, then fail the chat.

        Returns whether to continue.
        """
        self._errors += 1
        if leftover.unfinished != NOTHING:
            self._leftover = leftover
            await self._tool_steps.hand_over(leftover.unfinished)
        failure = _failure_of_chat(error)
        if failure is None and self._errors < self._options.troubles:
            LOG.warning("chat %s: internal error, will retry", self.chat_id, exc_info=error)
            await anyio.sleep(FIRST_RETRY_DELAY * 2 ** (self._errors - 1))
            self._load_valid = False
            return True
        if failure is None:
            reference = self._agent.ports.new_id()
            LOG.error("chat %s failed, reference %s", self.chat_id, reference, exc_info=error)
            failure = Failure(
                "internal",
                FAILURE_KINDS["internal"].sentence,
                f"see the log for reference {reference}",
            )
        if not self._load_valid:  # it cannot be loaded, and may have changed
            await self._fenced.read_row()
        attempt = self._fenced.fence.attempt
        try:
            await self._fenced.fail(failure, charges_of(leftover))
        except ChatMoved:
            self._load_valid = False
            return True
        log_failure(failure, chat=self.chat_id, model=self._chat_agent.model.name, attempt=attempt)
        self._chat_observer.turned("error", failure)
        return False

    async def _release(self) -> None:
        fence = self._fenced.fence
        try:
            await self._db.write(lambda tx: runner.release(tx, fence), short=True)
        except (Fenced, ChatError, StoreError):
            LOG.info("chat %s could not be released", self.chat_id, exc_info=True)

    async def _waits_for_retry(self) -> bool:
        """Wait for the next attempt. Returns whether the wait ended early."""
        seconds = self._model_steps.until_retry()
        if seconds <= 0:
            return False
        self._wakeup = anyio.Event()
        if self._fenced.newest is self._fenced.chat:
            with anyio.move_on_after(seconds):
                await self._wakeup.wait()
        if self._fenced.newest is not self._fenced.chat:
            await self._fenced.load()
            return True
        return self._draining or self._ownership_lost

    # --- steps ---

    async def _do_step(self) -> bool:
        fenced, tool_steps = self._fenced, self._tool_steps
        self._step.begin()
        if fenced.journal_stale:
            await fenced.catch_up()
        self._chat_agent.follow(fenced.chat)
        turn, rules = fenced.history.turn, self._chat_agent.rules
        facts = Facts(
            fenced.steering,
            fenced.chat.compaction,
            tool_steps.states() if turn.open else {},
            at_rest=fenced.chat.outcome is not None,
            resumed=self._first_round,
        )
        decision = decide(turn, facts, rules)
        match decision:
            case CallModel():
                return await self._model_steps.answer()
            case RunCalls(calls):
                await tool_steps.run(calls)
            case SkipCalls(calls):
                await tool_steps.answer([results.skipped(call) for call in calls])
            case RefuseCalls(calls, exclusive):
                await tool_steps.refuse(calls, exclusive)
            case RequireAction(calls):
                return await tool_steps.require_action(calls)
            case Compact(_, finish):
                return await self._compact(finish)
            case DeliverSteering():
                await fenced.write(runner.deliver)
            case Recover():
                await self._inject("recovery", self._agent.policy.wording.recovery)
            case LoadContext():
                raise AssertionError("LoadContext needs a workspace, and chats have none yet")
            case Finish(reason):
                return await self._finish(reason)
            case Fail():
                raise self._over_limit(over_limit(turn, rules))
            case _:
                assert_never(decision)
        return True

    def _over_limit(self, error: StillOverLimit) -> Failed:
        if not isinstance(error, PromptTooLong):
            self._chat_observer.compacted("no_progress")
        return Failed(classify(error, self._chat_agent.model.name))

    async def _inject(self, why: Injection, text: str) -> None:
        await self._fenced.commit((injected(text, why),))

    async def _compact(self, finish: bool) -> bool:
        outcome = await self._summary()
        if not finish:
            await self._fenced.write(runner.commit_step, outcome)
            return True
        return (await self._fenced.write(runner.finish_turn, None, outcome)).busy

    async def _summary(self) -> Outcome:
        """Make a checkpoint. The chat continues without one if a person's request for it fails."""
        try:
            return await self._model_steps.summary()
        except Failed as error:
            if self._fenced.chat.compaction != "person":
                raise
            charges = self._step.unfinished.charges
            why = error.failure.detail.removeprefix("SummaryFailed: ") or error.failure.message
            entry = note(f"The conversation was not summarized: {why}.")
            return Outcome(messages=(entry,), compacted=True, charges=charges)

    async def _finish(self, reason: str) -> bool:
        """Finish the turn, unless the stop guard objects."""
        fenced, agent = self._fenced, self._chat_agent.agent
        checked = check_output(agent, fenced.history, reason)
        if isinstance(checked, Repair):
            await self._inject("repair", checked.text)
            return True
        may_object = agent.guard is not None and reason != "max_steps"
        has_queue = bool(fenced.queue)
        if may_object and not has_queue:
            assert reason in ("stop", "stop_after_tool")
            veto = await self._step.unless_stopped(
                lambda stop: objection(agent, fenced.history, reason, checked.value, stop)  # type: ignore[arg-type]
            )
            if veto is not None:
                await self._inject("guard", veto)
                return True
        steps = fenced.history.turn.steps
        messages: tuple[Message, ...] = ()
        if reason == "max_steps":
            messages = (note(f"Stopped: this turn reached its limit of {steps} steps."),)
        truncation = cut_by(fenced.history.last_answer()) if reason == "stop" else None
        end = TurnOutcome(reason, steps, truncation)  # type: ignore[arg-type]
        version_before = fenced.chat.history_version
        chat = await fenced.write(
            runner.finish_turn,
            end,
            Outcome(messages=messages),
            only_to_deliver=may_object and has_queue,
            partial=fenced.partial_written,
        )
        if chat.busy and chat.history_version == version_before:
            return True  # the queued message was removed: the stop guard has to be asked
        self._chat_observer.turned(reason)
        return chat.busy

    async def _settle(self, unfinished: Unfinished) -> None:
        """Settle an interrupted turn: keep its output, and add a marker for the model."""
        fenced = self._fenced
        self._step.unfinished = unfinished
        turn, answer = fenced.history.turn, fenced.history.last_answer()
        if unfinished.partial is not None:
            turn, answer = fold(turn, unfinished.partial), unfinished.partial
        text = interruption_marker(
            self._agent.policy.wording,
            turn,
            answer,
            asking=unfinished.asking and unfinished.partial is None,
        )
        marker = Message("user", (Text(text),), "marker", "model") if text else None
        settlement = Settlement(
            message=unfinished.partial,
            half_written=unfinished.half_written,
            results=tuple(unfinished.results),
            marker=marker,
            charges=unfinished.charges,
        )
        await fenced.write(runner.settle, settlement)
        self._chat_observer.turned("interrupted")


class BackgroundTasks:
    """Starts background tasks next to the step.

    Timer callbacks add tasks, too, and anyio cannot start tasks in them; hence the queue.
    """

    def __init__(self) -> None:
        self._queue: list[partial[Coroutine[Any, Any, None]]] = []
        self._added = anyio.Event()

    def add(self, work: Callable[..., Coroutine[Any, Any, None]], *args: object) -> None:
        """Queue a function to be run as a task."""
        self._queue.append(partial(work, *args))
        self._added.set()

    async def run(self, group: TaskGroup) -> None:
        """Start queued tasks, until cancelled."""
        try:
            while True:
                await self._added.wait()
                self._added = anyio.Event()
                queue, self._queue = self._queue, []
                for task in queue:
                    group.start_soon(_without_cycle, task)
                del queue, task
        finally:
            self._queue = []  # avoids a reference cycle


async def _without_cycle(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run a child of a task group so that its cancellation keeps no references.

    anyio leaves the `CancelledError` of a child in a reference cycle, with every frame of its
    traceback. Here that would be the runner with its whole history.
    """
    try:
        await work()
    except asyncio.CancelledError as error:
        del work
        raise error.with_traceback(None) from None


class _LogFields:
    """Fields for the log lines of a chat while it is driven.

    Contexts of tasks and timers, also in libraries, outlive the runner; they refer only to this.
    """

    def __init__(self, fenced: FencedChat, worker: str) -> None:
        self._fenced = ref(fenced)
        self._fixed_fields = {
            "chat": fenced.fence.chat,
            "worker": worker,
            "epoch": fenced.fence.epoch,
        }

    @property
    def log_fields(self) -> Mapping[str, object]:
        fenced = self._fenced()
        return (
            self._fixed_fields
            if fenced is None
            else {**self._fixed_fields, "attempt": fenced.fence.attempt}
        )


def _with_saved_partial(
    unfinished: Unfinished, partial: Partial | None, chat: ChatRow
) -> Unfinished:
    """Add the partial answer that a dead worker saved, if this runner has received none."""
    if unfinished.partial is not None or partial is None:
        return unfinished
    if (partial.history_version, partial.attempt) != (chat.history_version, chat.attempt):
        return unfinished
    return replace(unfinished, partial=partial.message)


def _failure_of_chat(error: Exception) -> Failure | None:
    """Return the failure that ends the turn; None for an internal error, which is retried."""
    if isinstance(error, Failed):
        return error.failure
    if isinstance(error, (StoreError, ChatError)):
        return None
    failure = classify(error)
    return None if failure.kind in ("internal", "unknown") else failure
