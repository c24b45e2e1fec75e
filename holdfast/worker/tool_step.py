"""The tool step: runs calls with the journal. A call with an effect is recorded before it
starts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NoReturn

from msgspec.structs import replace

from holdfast.chat.child_reports import awaited_by
from holdfast.chat.errors import ChatError, ChatNotFound
from holdfast.chat.journal import WHY
from holdfast.chat.rows import Call
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
from holdfast.worker.chat_agent import Setup
from holdfast.worker.fenced_chat import FencedChat, Moved
from holdfast.worker.options import MICRO
from holdfast.worker.step import RunningStep, Unfinished, without

LOG: Final = logging.getLogger("holdfast.worker")


class Calling:
    """The tool calls of one chat."""

    def __init__(
        self,
        book: FencedChat,
        setup: Setup,
        flight: RunningStep,
        beside: Callable[..., Any],
        witness: ChatObserver,
    ) -> None:
        self._book = book
        self._setup = setup
        self._flight = flight
        self._beside = beside
        self._witness = witness
        self._loop = asyncio.get_running_loop()
        self._called: set[str] = set()
        """Calls whose function was called by this runner, or may have been by an earlier one with
        the same claim."""
        self._allowed: dict[str, Approved] = {}
        """Calls that a rule of the chat allows."""
        self._trouble: Exception | None = None
        """Internal error that prevented a call from starting."""
        self._recording: set[str] = set()
        self._recorded: asyncio.Future[None] | None = None

    # --- what is known of calls ---

    def begin(self) -> None:
        """Note which calls had started at the first load: not by this runner."""
        rows = self._book.journal.values()
        self._called.update(row.call_id for row in rows if row.state == "started")

    def states(self) -> Mapping[str, CallState]:
        """Return the states of the open calls: from the journal, and from what the stream has
        started."""
        states: Mapping[str, CallState] = {**self._book.facts(), **self._allowed}
        batch = self._flight.batch
        if batch is not None and batch.busy:
            if self._book.steering:  # steering may have arrived while no batch was listening
                batch.steer()
            states = {**states, **batch.states()}
        return states

    def new_batch(self) -> Batch:
        """Return a batch for the calls of the next answer, or of one whose calls have not
        started."""
        book = self._book
        self._trouble = None
        context = CallContext(
            turn=book.history.turn,
            active=self._setup.active,
            states=self._known(),
            history=lambda: tuple(book.history.messages),
            chat=book.chat.id,
            children=book.children,
            starting=self._starting,
            finished=self._finished,
        )
        batch = self._flight.batch = Batch(self._setup.toolbox, self._flight.screen, context)
        return batch

    def _known(self) -> dict[str, CallState]:
        """Return the journal's state of the open calls, whatever happened to its writer."""
        known: dict[str, CallState] = dict(self._allowed)
        for call in self._book.history.turn.open:
            row = self._book.journal.get(call.id)
            if row is None:
                continue
            if row.state == "started":
                if row.effect == "once" and not self._never_called(row):
                    known[call.id] = self._in_doubt(call, row)
            elif row.state == "approved" and row.asked is not None and row.asked.again:
                known[call.id] = Doubtful(row.asked.attempt, row.approved)
            elif row.fact is not None and not isinstance(row.fact, AwaitingAction):
                known[call.id] = row.fact
        return known

    def _in_doubt(self, call: ToolCall, row: Call) -> CallState:
        tool = self._setup.agent.toolset.get(call.tool)
        if tool is not None and tool.on_lost == "ask":
            return Doubtful(row.attempt)
        lost = results.result(call, "lost", WHY["lost"])
        return Recorded(replace(lost, started_at=row.started_at))

    def _never_called(self, row: Call) -> bool:
        """Return whether the function certainly was not called: this runner wrote the row and did
        not reach it."""
        return row.epoch == self._book.fence.epoch and row.call_id not in self._called

    # --- running them ---

    async def run(self, calls: Sequence[ToolCall]) -> None:
        """Run calls of the last answer, and commit the results of those that finished."""
        executed, batch = await self._execute(calls)
        waiting = [action for action in executed.waiting if not self._allows(action)]
        if waiting:
            rows = [self._waiting(action) for action in waiting]
            await self._book.write(runner.start_calls, rows, self._patience(waiting))
        if executed.results:
            await self.answer(executed.results, batch.writes)

    async def _execute(self, calls: Sequence[ToolCall]) -> tuple[BatchOutcome, Batch]:
        flight = self._flight
        flight.end_if_stopped()  # steering may have arrived while the journal was read
        self._setup.look_back(self._book.history)
        flight.screen.open(self._book.fence)
        batch = flight.batch or self.new_batch()
        flight.inbox.on_steer = batch.steer
        flight.interruption.stop = batch.interrupt
        try:
            executed = await batch.run(calls)
        finally:
            flight.inbox.on_steer = None
            flight.interruption.stop = None
        flight.batch = None
        flight.left = Unfinished(results=without(batch.writes, executed.results))
        if self._recording:
            await self.drain()
        flight.end_if_stopped()
        if self._trouble is not None:
            self._raise_trouble(self._trouble)
        return executed, batch

    def _raise_trouble(self, error: Exception) -> NoReturn:
        self._trouble = None
        try:
            raise error
        finally:
            del error  # its traceback refers to this frame

    async def refuse(self, calls: Sequence[ToolCall], exclusive: str) -> None:
        """Refuse the calls of an answer in which an exclusive tool is not the only call."""

        def refusal(call: ToolCall) -> ToolResult:
            alone = call.tool in self._setup.rules.exclusive
            return results.refused_exclusive(call, exclusive, alone)

        batch = self._flight.batch or self.new_batch()
        made = await batch.refuse(calls, refusal)
        self._flight.batch = None
        await self.answer(made)

    async def answer(
        self, made: Sequence[ToolResult], writes: Mapping[str, tuple[Write, ...]] | None = None
    ) -> None:
        """Commit results. Plain ones, which the journal does not contain, are the usual case."""
        book = self._book
        self._flight.left = Unfinished(results=without(writes or (), made))
        if book.behind:
            await book.catch_up()
        if not writes and not (book.journal and any(one.call_id in book.journal for one in made)):
            await book.commit((results_message(made),))
        else:
            await self._commit_with(made, writes or {})
        for one in made:
            self._allowed.pop(one.call_id, None)
        self._flight.screen.close()

    async def _commit_with(
        self, made: Sequence[ToolResult], writes: Mapping[str, tuple[Write, ...]]
    ) -> None:
        book = self._book
        try:
            await book.write(runner.commit_step, Outcome(results=tuple(made), writes=writes))
        except ChatError as error:  # a write of a call was refused: inform the model
            text, unknown = results.content(f"Not done: {error}"), isinstance(error, ChatNotFound)
            told = [
                replace(one, content=text, outcome="failed", expected=unknown)
                if one.call_id in writes
                else one
                for one in made
            ]
            await book.write(runner.commit_step, Outcome(results=tuple(told)))

    # --- the journal ---

    async def _starting(self, call: ToolCall, tool: Tool) -> bool:
        """Record that a call starts, before it does. False when it may not start any more."""
        book = self._book
        row = book.journal.get(call.id)
        if row is None or row.state != "started" or row.epoch != book.fence.epoch:
            started = Call(
                call_id=call.id,
                number=book.answer,
                tool=call.tool,
                effect=tool.effect,
                state="started",
                action=None if row is None else row.action,
                asked=None if row is None else row.asked,
                approved=None if row is None else row.approved,
                epoch=book.fence.epoch,
                started_at=self._setup.agent.ports.now(),
            )
            try:
                await book.write(runner.start_calls, [started])
            except Moved:
                self._flight.stop()
                return False
            except Exception as error:  # raised to the runner: no tool has failed
                self._trouble = error
                if self._flight.batch is not None:
                    self._flight.batch.halt()
                return False
        self._called.add(call.id)
        return True

    def _finished(self, finished: ToolFinished) -> None:
        """Handle a finished call. While others still run, its result is recorded separately."""
        made, batch = finished.result, self._flight.batch
        if self._witness is not UNOBSERVED_CHAT:
            known = made.tool if made.tool in self._setup.agent.toolset else ""
            self._witness.called(known, made.outcome, finished.seconds, result_bytes(made))
        if batch is None or batch.left < 2 or not self._asked(made):
            return
        if made.call_id in batch.writes:  # recorded only together with its writes
            return
        if made.outcome == "interrupted":  # or by our own shutdown: left to the settlement
            return
        self._recording.add(made.call_id)
        self._beside(self._record, made)

    def _asked(self, made: ToolResult) -> bool:
        """Return whether the answer that contains this call is in the history."""
        return any(call.id == made.call_id for call in self._book.history.turn.open)

    async def _record(self, made: ToolResult) -> None:
        try:
            await self._book.record(self._row_of(made))
        except Exception:  # it is also in memory, and is committed with its siblings
            LOG.warning("could not record the result of %s", made.call_id, exc_info=True)
        finally:
            self._recording.discard(made.call_id)
            if not self._recording and self._recorded is not None:
                if not self._recorded.done():  # the waiter may be gone
                    self._recorded.set_result(None)
                self._recorded = None

    async def drain(self) -> None:
        """Wait until every result under way is recorded."""
        if self._recording:
            self._recorded = self._loop.create_future()
            await self._recorded

    def _row_of(self, made: ToolResult) -> Call:
        tool = self._setup.agent.toolset.get(made.tool)
        return Call(
            call_id=made.call_id,
            number=self._book.answer,
            tool=made.tool,
            effect="pure" if tool is None else tool.effect,
            state="finished",
            epoch=self._book.fence.epoch,
            result=made,
            outcome=made.outcome,
        )

    async def hand_over(self, left: Unfinished) -> None:
        """Record all results before the chat is released, so that no call is repeated."""
        for made in left.results:
            if made.outcome != "interrupted" and self._asked(made):
                await self._record(made)

    # --- waiting for somebody outside ---

    async def require_action(self, calls: Sequence[ToolCall]) -> bool:
        """Wait for actions, once their requests have been checked."""
        unchecked = [call for call in calls if call.id not in self._book.journal]
        actions: list[Action] = []
        if unchecked:
            executed, batch = await self._execute(unchecked)
            if executed.results:  # not requested yet
                await self.answer(executed.results, batch.writes)
            actions = [action for action in executed.waiting if not self._allows(action)]
            if len(actions) < len(executed.waiting):
                return True
        self._flight.screen.close()
        chat = await self._book.write(
            runner.require_action,
            [self._waiting(action) for action in actions],
            {action.call.id: awaited_by(action) for action in actions if action.kind == "child"},
            self._patience(actions),
        )
        self._witness.turned("requires_action")
        return chat.worker_id is not None

    def _allows(self, action: Action) -> bool:
        """Return whether a rule of the chat allows this call. Re-runs are never allowed by a
        rule."""
        if action.kind != "approval" or action.again:
            return False
        for rule in self._book.chat.rules:
            if rule.tool == action.call.tool and rule.arguments in (None, action.arguments):
                self._allowed[action.call.id] = Approved(action.digest)
                return True
        return False

    def _waiting(self, action: Action) -> Call:
        tool = self._setup.agent.toolset.get(action.call.tool)
        before = self._book.journal.get(action.call.id)
        return Call(
            call_id=action.call.id,
            number=self._book.answer,
            tool=action.call.tool,
            effect="once" if tool is None else tool.effect,
            state="waiting",
            action=action.kind,
            asked=action,
            started_at=None if before is None else before.started_at,
        )

    def _patience(self, actions: Sequence[Action]) -> dict[str, int]:
        """Return the microseconds after which waiting actions time out, for those that do."""
        patience = {}
        for action in actions:
            tool = self._setup.agent.toolset.get(action.call.tool)
            if tool is not None and tool.timeout is not None and action.kind != "approval":
                patience[action.call.id] = int(tool.timeout * MICRO)
        return patience
