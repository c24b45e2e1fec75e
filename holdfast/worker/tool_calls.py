"""The tool calls of one chat: the running batch, the state of each call, and its journal row."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import json
from msgspec.structs import replace

from holdfast.agent import Agent
from holdfast.chat.journal import NO_RESULT_TEXT
from holdfast.chat.rows import JournalCall
from holdfast.chat.transitions import runner
from holdfast.chat.transitions.lifecycle import NewChat
from holdfast.kernel import tool_results
from holdfast.kernel.call_admission import CallContext
from holdfast.kernel.decide import Approved, AwaitingAction, CallState, Doubtful, Recorded
from holdfast.kernel.events import Action, ToolFinished
from holdfast.kernel.hook_context import Context
from holdfast.kernel.limits import reached
from holdfast.kernel.messages import ToolCall, ToolResult, user_message
from holdfast.kernel.observer import UNOBSERVED_CHAT, ToolCallOutcome
from holdfast.kernel.prepare import PreparedAgent
from holdfast.kernel.tool import Tool
from holdfast.kernel.tool_execution import Batch
from holdfast.worker.fenced_chat import ChatMoved
from holdfast.worker.options import MICRO
from holdfast.worker.step_scope import StepScope

LOG: Final = logging.getLogger("holdfast.worker")


class CallJournal:
    """The tool calls of one chat. A call with an effect is recorded before it starts."""

    def __init__(
        self,
        agent: Agent,
        scope: StepScope,
        in_background: Callable[..., Any],
    ) -> None:
        self._ports = agent.ports
        self._tools: dict[str, Tool] = dict(agent.toolset)
        self._fenced = scope.fenced
        self._screen = scope.screen
        self._interruption = scope.interruption
        self._in_background = in_background
        self._observer = scope.observer
        self._loop = scope.loop
        self.batch: Batch | None = None
        """The calls of an answer, from the stream that brings them to their results."""
        self._reached: set[str] = set()
        """Ids of calls whose function this runner has called, or whose start an earlier runner has
        recorded."""
        self._approved_by_rule: dict[str, Approved] = {}
        """Approvals given by the chat's rules, by call id."""
        self._start_errors: list[Exception] = []
        """Internal errors that prevented a call from starting."""
        self._recording: set[str] = set()
        self._all_recorded: asyncio.Future[None] | None = None

    def use_tools(self, toolset: Mapping[str, Tool]) -> None:
        """Use other tools from now on: those of the chat have changed."""
        self._tools.clear()
        self._tools.update(toolset)

    # --- the batch ---

    def new_batch(
        self, prepared: PreparedAgent, active: frozenset[str] | None, context: Context
    ) -> Batch:
        """Return a batch for the calls of an answer, none of which has started here."""
        limits = prepared.rules.limits
        fenced = self._fenced
        self._start_errors.clear()
        calls = CallContext(
            context=context,
            active=active,
            states=self._states_of_open_calls(),
            children=fenced.children,
            starting=self._on_start,
            finished=self._on_finished,
            limit=lambda used: reached(limits, fenced.history.turn.used + used),
        )
        self.batch = Batch(prepared.toolbox, self._screen, calls)
        return self.batch

    def take_batch(self) -> Batch | None:
        """Return the batch, which from now on belongs to the caller."""
        batch, self.batch = self.batch, None
        return batch

    def steer(self) -> None:
        """Notify the batch that a steering message is queued."""
        if self.batch is not None:
            self.batch.steer()

    # --- the states of calls ---

    def begin(self) -> None:
        """Note the calls that had started before the first load, and so not in this runner."""
        rows = self._fenced.journal.values()
        self._reached.update(row.call_id for row in rows if row.state == "started")

    def states(self) -> Mapping[str, CallState]:
        """Return the states of the open calls, from the journal and from the running batch."""
        states: Mapping[str, CallState] = {**self._fenced.facts(), **self._approved_by_rule}
        batch = self.batch
        if batch is not None and batch.busy:
            if self._fenced.steering:  # steering may have arrived while no batch was listening
                batch.steer()
            states = {**states, **batch.states()}
        return states

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
        tool = self._tool(call.tool)
        if tool is not None and tool.on_lost == "ask":
            return Doubtful(row.attempt)
        lost = tool_results.result(call, "lost", NO_RESULT_TEXT["lost"])
        return Recorded(replace(lost, started_at=row.started_at))

    def _never_called(self, row: JournalCall) -> bool:
        """Return whether this runner wrote the row, and then did not call the function."""
        return row.epoch == self._fenced.chat.epoch and row.call_id not in self._reached

    def _tool(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def allowed_by_rule(self, action: Action) -> bool:
        """Return whether a rule of the chat allows this call; no rule allows a re-run."""
        if action.kind != "approval" or action.again:
            return False
        for rule in self._fenced.chat.rules:
            if rule.tool == action.call.tool and rule.arguments in (None, action.arguments):
                self._approved_by_rule[action.call.id] = Approved(action.digest)
                return True
        return False

    def forget(self, tool_results: Sequence[ToolResult]) -> None:
        """Forget what is known of calls whose results are committed."""
        for result in tool_results:
            self._approved_by_rule.pop(result.call_id, None)

    # --- a call starts ---

    async def _on_start(self, call: ToolCall, tool: Tool) -> bool:
        """Record the start of a call before it starts. False if it may no longer start."""
        fenced = self._fenced
        row = fenced.journal.get(call.id)
        if row is None or row.state != "started" or row.epoch != fenced.chat.epoch:
            started_row = JournalCall(
                call_id=call.id,
                number=fenced.answer,
                tool=call.tool,
                effect=tool.effect,
                state="started",
                action=None if row is None else row.action,
                asked=None if row is None else row.asked,
                approved=None if row is None else row.approved,
                epoch=fenced.chat.epoch,
                started_at=self._ports.now(),
            )
            try:
                await fenced.write(runner.start_calls, [started_row])
            except ChatMoved:
                self._interruption.request()
                return False
            except Exception as error:  # raised in the runner: the tool has not failed
                self._start_errors.append(error)
                if self.batch is not None:
                    self.batch.halt()
                return False
        self._reached.add(call.id)
        return True

    def raise_start_error(self) -> None:
        """Raise the internal error that prevented a call from starting, if there was one."""
        if self._start_errors:
            error = self._start_errors[-1]
            self._start_errors.clear()
            try:
                raise error
            finally:
                del error  # its traceback refers to this frame

    # --- a call ends ---

    def _on_finished(self, finished: ToolFinished) -> None:
        """Handle a finished call. Its result is recorded separately if other calls still run."""
        result, batch = finished.result, self.batch
        if self._observer is not UNOBSERVED_CHAT:
            known = self._tool(result.tool) is not None
            self._observer.called(ToolCallOutcome(result, known, finished.seconds))
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
            await self._fenced.record(self._finished_row(result))
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

    async def hand_over(self, tool_results: Sequence[ToolResult]) -> None:
        """Record all results before the chat is released, so that no call is repeated."""
        for result in tool_results:
            if result.outcome != "interrupted" and self._is_in_history(result):
                await self._record(result)

    def knows(self, tool_results: Sequence[ToolResult]) -> bool:
        """Whether the journal has a row of one of these calls."""
        rows = self._fenced.journal
        return bool(rows) and any(result.call_id in rows for result in tool_results)

    # --- rows ---

    def _finished_row(self, result: ToolResult) -> JournalCall:
        tool = self._tool(result.tool)
        return JournalCall(
            call_id=result.call_id,
            number=self._fenced.answer,
            tool=result.tool,
            effect="pure" if tool is None else tool.effect,
            state="finished",
            epoch=self._fenced.chat.epoch,
            result=result,
            outcome=result.outcome,
        )

    def waiting_row(self, action: Action) -> JournalCall:
        """The row of a call that waits for an action."""
        tool = self._tool(action.call.tool)
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

    def new_child(self, action: Action) -> NewChat | None:
        """The child chat of a call that runs an agent; None for any other call."""
        tool = self._tool(action.call.tool)
        if tool is None or tool.runs is None or action.kind != "child":
            return None
        message = user_message(json.decode(action.arguments)["prompt"])
        return NewChat(id=self._ports.new_id(), agent=tool.runs, message=message)

    def timeouts(self, actions: Sequence[Action]) -> dict[str, int]:
        """The timeouts of actions in microseconds, by call id."""
        tools = [(action, self._tool(action.call.tool)) for action in actions]
        return {
            action.call.id: int(tool.timeout * MICRO)
            for action, tool in tools
            if tool is not None and tool.timeout is not None and action.kind != "approval"
        }
