"""The tool step: runs calls. One with an effect is recorded in the journal before it starts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn

from msgspec.structs import replace

from holdfast.chat.child_reports import awaited_by
from holdfast.chat.errors import ChatError, ChatNotFound
from holdfast.chat.journal import NO_RESULT_TEXT
from holdfast.chat.rows import JournalCall
from holdfast.chat.transitions import runner
from holdfast.chat.transitions.lifecycle import Write
from holdfast.chat.transitions.runner import Outcome
from holdfast.kernel import results
from holdfast.kernel.admission import CallContext
from holdfast.kernel.decide import Approved, AwaitingAction, CallState, Doubtful, Recorded
from holdfast.kernel.events import Action, ToolFinished
from holdfast.kernel.execute import Batch, BatchOutcome
from holdfast.kernel.messages import ToolCall, ToolResult, results_message
from holdfast.kernel.tool import Tool
from holdfast.observe.observer import UNOBSERVED_CHAT, ChatObserver
from holdfast.observe.sizes import result_bytes
from holdfast.worker.chat_agent import ChatAgent
from holdfast.worker.fenced_chat import ChatMoved, FencedChat
from holdfast.worker.options import MICRO
from holdfast.worker.step import RunningStep, Unfinished, without

LOG: Final = logging.getLogger("holdfast.worker")


class ToolSteps:
    """Performs the tool calls of one chat."""

    def __init__(
        self,
        fenced: FencedChat,
        chat_agent: ChatAgent,
        step: RunningStep,
        in_background: Callable[..., Any],
        chat_observer: ChatObserver,
    ) -> None:
        self._fenced = fenced
        self._chat_agent = chat_agent
        self._step = step
        self._in_background = in_background
        self._chat_observer = chat_observer
        self._loop = asyncio.get_running_loop()
        self._reached: set[str] = set()
        """Ids of calls whose function this runner has called, or whose start an earlier runner has
        recorded."""
        self._approved_by_rule: dict[str, Approved] = {}
        """Approvals given by the chat's rules, by call id."""
        self._start_error: Exception | None = None
        """Internal error that prevented a call from starting."""
        self._recording: set[str] = set()
        self._all_recorded: asyncio.Future[None] | None = None

    # --- the states of calls ---

    def begin(self) -> None:
        """Note the calls that had started before the first load, and so not in this runner."""
        rows = self._fenced.journal.values()
        self._reached.update(row.call_id for row in rows if row.state == "started")

    def states(self) -> Mapping[str, CallState]:
        """Return the states of the open calls, from the journal and from the running batch."""
        states: Mapping[str, CallState] = {**self._fenced.facts(), **self._approved_by_rule}
        batch = self._step.batch
        if batch is not None and batch.busy:
            if self._fenced.steering:  # steering may have arrived while no batch was listening
                batch.steer()
            states = {**states, **batch.states()}
        return states

    def new_batch(self) -> Batch:
        """Return a batch for the calls of an answer, none of which has started here."""
        fenced = self._fenced
        self._start_error = None
        context = CallContext(
            turn=fenced.history.turn,
            active=self._chat_agent.active,
            states=self._states_of_open_calls(),
            history=lambda: tuple(fenced.history.messages),
            chat=fenced.chat.id,
            children=fenced.children,
            starting=self._on_start,
            finished=self._on_finished,
        )
        batch = self._step.batch = Batch(self._chat_agent.toolbox, self._step.screen, context)
        return batch

    def _states_of_open_calls(self) -> dict[str, CallState]:
        """Return the states of the open calls by the journal; its writer may have died."""
        states: dict[str, CallState] = dict(self._approved_by_rule)
        for call in self._fenced.history.turn.open:
            row = self._fenced.journal.get(call.id)
            if row is None:
                continue
            if row.state == "started":
                if row.effect == "once" and not self._never_called(row):
                    states[call.id] = self._in_doubt(call, row)
            elif row.state == "approved" and row.asked is not None and row.asked.again:
                states[call.id] = Doubtful(row.asked.attempt, row.approved)
            elif row.fact is not None and not isinstance(row.fact, AwaitingAction):
                states[call.id] = row.fact
        return states

    def _in_doubt(self, call: ToolCall, row: JournalCall) -> CallState:
        tool = self._chat_agent.agent.toolset.get(call.tool)
        if tool is not None and tool.on_lost == "ask":
            return Doubtful(row.attempt)
        lost = results.result(call, "lost", NO_RESULT_TEXT["lost"])
        return Recorded(replace(lost, started_at=row.started_at))

    def _never_called(self, row: JournalCall) -> bool:
        """Return whether this runner wrote the row, and then did not call the function."""
        return row.epoch == self._fenced.fence.epoch and row.call_id not in self._reached

    # --- running them ---

    async def run(self, calls: Sequence[ToolCall]) -> None:
        """Run calls of the last answer, and commit the results of the finished ones."""
        outcome, batch = await self._execute(calls)
        waiting = [action for action in outcome.waiting if not self._allowed_by_rule(action)]
        if waiting:
            rows = [self._waiting_row(action) for action in waiting]
            await self._fenced.write(runner.start_calls, rows, self._timeouts(waiting))
        if outcome.results:
            await self.answer(outcome.results, batch.writes)

    async def _execute(self, calls: Sequence[ToolCall]) -> tuple[BatchOutcome, Batch]:
        step = self._step
        step.end_if_stopped()  # steering may have arrived while the journal was read
        self._chat_agent.restore_active(self._fenced.history)
        step.screen.open(self._fenced.fence)
        batch = step.batch or self.new_batch()
        step.inbox.on_steer = batch.steer
        step.interruption.stop = batch.interrupt
        try:
            outcome = await batch.run(calls)
        finally:
            step.inbox.on_steer = None
            step.interruption.stop = None
        step.batch = None
        step.unfinished = Unfinished(results=without(batch.writes, outcome.results))
        if self._recording:
            await self.drain()
        step.end_if_stopped()
        if self._start_error is not None:
            self._raise_start_error(self._start_error)
        return outcome, batch

    def _raise_start_error(self, error: Exception) -> NoReturn:
        self._start_error = None
        try:
            raise error
        finally:
            del error  # its traceback refers to this frame

    async def refuse(self, calls: Sequence[ToolCall], exclusive: str) -> None:
        """Refuse the calls of an answer in which an exclusive tool is not the only call."""

        def refusal(call: ToolCall) -> ToolResult:
            alone = call.tool in self._chat_agent.rules.exclusive
            return results.refused_exclusive(call, exclusive, alone)

        batch = self._step.batch or self.new_batch()
        tool_results = await batch.refuse(calls, refusal)
        self._step.batch = None
        await self.answer(tool_results)

    async def answer(
        self,
        tool_results: Sequence[ToolResult],
        writes: Mapping[str, tuple[Write, ...]] | None = None,
    ) -> None:
        """Commit results. Usually no call is in the journal, and the commit only appends."""
        fenced = self._fenced
        self._step.unfinished = Unfinished(results=without(writes or (), tool_results))
        if fenced.journal_stale:
            await fenced.catch_up()
        if not writes and not (
            fenced.journal and any(result.call_id in fenced.journal for result in tool_results)
        ):
            await fenced.commit((results_message(tool_results),))
        else:
            await self._commit_with(tool_results, writes or {})
        for result in tool_results:
            self._approved_by_rule.pop(result.call_id, None)
        self._step.screen.close()

    async def _commit_with(
        self, tool_results: Sequence[ToolResult], writes: Mapping[str, tuple[Write, ...]]
    ) -> None:
        fenced = self._fenced
        try:
            await fenced.write(
                runner.commit_step, Outcome(results=tuple(tool_results), writes=writes)
            )
        except ChatError as error:  # a write of a call was refused: inform the model
            text, unknown = results.content(f"Not done: {error}"), isinstance(error, ChatNotFound)
            with_refusals = [
                replace(result, content=text, outcome="failed", expected=unknown)
                if result.call_id in writes
                else result
                for result in tool_results
            ]
            await fenced.write(runner.commit_step, Outcome(results=tuple(with_refusals)))

    # --- the journal ---

    async def _on_start(self, call: ToolCall, tool: Tool) -> bool:
        """Record the start of a call before it starts. False if it may no longer start."""
        fenced = self._fenced
        row = fenced.journal.get(call.id)
        if row is None or row.state != "started" or row.epoch != fenced.fence.epoch:
            started_row = JournalCall(
                call_id=call.id,
                number=fenced.answer,
                tool=call.tool,
                effect=tool.effect,
                state="started",
                action=None if row is None else row.action,
                asked=None if row is None else row.asked,
                approved=None if row is None else row.approved,
                epoch=fenced.fence.epoch,
                started_at=self._chat_agent.agent.ports.now(),
            )
            try:
                await fenced.write(runner.start_calls, [started_row])
            except ChatMoved:
                self._step.stop()
                return False
            except Exception as error:  # raised in the runner: the tool has not failed
                self._start_error = error
                if self._step.batch is not None:
                    self._step.batch.halt()
                return False
        self._reached.add(call.id)
        return True

    def _on_finished(self, finished: ToolFinished) -> None:
        """Handle a finished call. Its result is recorded separately if other calls still run."""
        result, batch = finished.result, self._step.batch
        if self._chat_observer is not UNOBSERVED_CHAT:
            tool_name = result.tool if result.tool in self._chat_agent.agent.toolset else ""
            self._chat_observer.called(
                tool_name, result.outcome, finished.seconds, result_bytes(result)
            )
        if batch is None or batch.left < 2 or not self._is_in_history(result):
            return
        if result.call_id in batch.writes:  # recorded only together with its writes
            return
        if result.outcome == "interrupted":  # also by our own shutdown: the settlement writes it
            return
        self._recording.add(result.call_id)
        self._in_background(self._record, result)

    def _is_in_history(self, result: ToolResult) -> bool:
        """Return whether the answer that contains this call is in the history."""
        return any(call.id == result.call_id for call in self._fenced.history.turn.open)

    async def _record(self, result: ToolResult) -> None:
        try:
            await self._fenced.record(self._row_of(result))
        except Exception:  # it is also in memory, and is committed with the other results
            LOG.warning("could not record the result of %s", result.call_id, exc_info=True)
        finally:
            self._recording.discard(result.call_id)
            if not self._recording and self._all_recorded is not None:
                if not self._all_recorded.done():  # the waiter may have been cancelled
                    self._all_recorded.set_result(None)
                self._all_recorded = None

    async def drain(self) -> None:
        """Wait until all results that are being recorded are."""
        if self._recording:
            self._all_recorded = self._loop.create_future()
            await self._all_recorded

    def _row_of(self, result: ToolResult) -> JournalCall:
        tool = self._chat_agent.agent.toolset.get(result.tool)
        return JournalCall(
            call_id=result.call_id,
            number=self._fenced.answer,
            tool=result.tool,
            effect="pure" if tool is None else tool.effect,
            state="finished",
            epoch=self._fenced.fence.epoch,
            result=result,
            outcome=result.outcome,
        )

    async def hand_over(self, unfinished: Unfinished) -> None:
        """Record all results before the chat is released, so that no call is repeated."""
        for result in unfinished.results:
            if result.outcome != "interrupted" and self._is_in_history(result):
                await self._record(result)

    # --- pending actions ---

    async def require_action(self, calls: Sequence[ToolCall]) -> bool:
        """Let the chat wait for actions, once their requests have been validated.

        Returns whether the runner continues.
        """
        new_calls = [call for call in calls if call.id not in self._fenced.journal]
        actions: list[Action] = []
        if new_calls:
            outcome, batch = await self._execute(new_calls)
            if outcome.results:  # not requested yet
                await self.answer(outcome.results, batch.writes)
            actions = [action for action in outcome.waiting if not self._allowed_by_rule(action)]
            if len(actions) < len(outcome.waiting):
                return True
        self._step.screen.close()
        chat = await self._fenced.write(
            runner.require_action,
            [self._waiting_row(action) for action in actions],
            {action.call.id: awaited_by(action) for action in actions if action.kind == "child"},
            self._timeouts(actions),
        )
        self._chat_observer.turned("requires_action")
        return chat.worker_id is not None

    def _allowed_by_rule(self, action: Action) -> bool:
        """Return whether a rule of the chat allows this call; no rule allows a re-run."""
        if action.kind != "approval" or action.again:
            return False
        for rule in self._fenced.chat.rules:
            if rule.tool == action.call.tool and rule.arguments in (None, action.arguments):
                self._approved_by_rule[action.call.id] = Approved(action.digest)
                return True
        return False

    def _waiting_row(self, action: Action) -> JournalCall:
        tool = self._chat_agent.agent.toolset.get(action.call.tool)
        earlier_row = self._fenced.journal.get(action.call.id)
        return JournalCall(
            call_id=action.call.id,
            number=self._fenced.answer,
            tool=action.call.tool,
            effect="once" if tool is None else tool.effect,
            state="waiting",
            action=action.kind,
            asked=action,
            started_at=None if earlier_row is None else earlier_row.started_at,
        )

    def _timeouts(self, actions: Sequence[Action]) -> dict[str, int]:
        """Return the timeouts of actions in microseconds, by call id."""
        timeouts = {}
        for action in actions:
            tool = self._chat_agent.agent.toolset.get(action.call.tool)
            if tool is not None and tool.timeout is not None and action.kind != "approval":
                timeouts[action.call.id] = int(tool.timeout * MICRO)
        return timeouts
