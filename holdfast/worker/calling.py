"""Running tools, with the journal: nothing with an effect begins before it is written down."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec.structs import replace

from holdfast.chat import running
from holdfast.chat.errors import ChatError
from holdfast.chat.family import Write, awaited_by
from holdfast.chat.journal import WHY
from holdfast.chat.running import Outcome
from holdfast.chat.state import Call
from holdfast.kernel import results
from holdfast.kernel.decide import Approved, CallState, Doubtful, Recorded, Waiting
from holdfast.kernel.events import Action, ToolFinished
from holdfast.kernel.execute import Batch, Executed
from holdfast.kernel.messages import ToolCall, ToolResult, results_message
from holdfast.kernel.tool import Tool
from holdfast.kernel.way import Standing
from holdfast.observe.observer import NOBODY, Witness
from holdfast.worker.book import Book, Moved
from holdfast.worker.flight import Flight, Unfinished, without
from holdfast.worker.options import MICRO
from holdfast.worker.setup import Setup

LOG: Final = logging.getLogger("holdfast.worker")


class Calling:
    """The tool calls of one chat."""

    def __init__(
        self,
        book: Book,
        setup: Setup,
        flight: Flight,
        beside: Callable[..., Any],
        witness: Witness,
    ) -> None:
        self._book = book
        self._setup = setup
        self._flight = flight
        self._beside = beside
        self._witness = witness
        self._loop = asyncio.get_running_loop()
        self._called: set[str] = set()
        """Calls whose function was called by this very runner, or may have been by one before it
        that had the same claim and ended."""
        self._allowed: dict[str, Approved] = {}
        """Calls that a rule of the chat allows."""
        self._trouble: Exception | None = None
        """Why a call could not begin, where neither it nor anybody outside is to blame."""
        self._recording: set[str] = set()
        self._recorded: asyncio.Future[None] | None = None

    # --- what is known of calls ---

    def begin(self) -> None:
        """On what was loaded first: what has started by then was not started by us."""
        rows = self._book.journal.values()
        self._called.update(row.call_id for row in rows if row.state == "started")

    def states(self) -> Mapping[str, CallState]:
        """How far the open calls are: as the journal says, and what the stream has begun."""
        states: Mapping[str, CallState] = {**self._book.facts(), **self._allowed}
        batch = self._flight.batch
        if batch is not None and batch.busy:
            if self._book.steering:  # it may have come while no batch was listening
                batch.steer()
            states = {**states, **batch.states()}
        return states

    def new_batch(self) -> Batch:
        """For the calls of the next answer, or of one that nobody has begun with."""
        book = self._book
        self._trouble = None
        standing = Standing(
            failures=book.history.turn.failures,
            active=self._setup.active,
            states=self._known(),
            history=lambda: tuple(book.history.messages),
            chat=book.chat.id,
            starting=self._starting,
            finished=self._finished,
        )
        batch = self._flight.batch = Batch(self._setup.toolbox, self._flight.screen, standing)
        return batch

    def _known(self) -> dict[str, CallState]:
        """What the journal says of the open calls, whatever happened to its writer."""
        known: dict[str, CallState] = dict(self._allowed)
        for call in self._book.history.turn.open:
            row = self._book.journal.get(call.id)
            if row is None:
                continue
            if row.state == "started":
                if row.effect == "once" and not self._never_called(row):
                    known[call.id] = self._in_doubt(call)
            elif row.fact is not None and not isinstance(row.fact, Waiting):
                known[call.id] = row.fact
        return known

    def _in_doubt(self, call: ToolCall) -> CallState:
        tool = self._setup.agent.toolset.get(call.tool)
        if tool is not None and tool.on_lost == "ask":
            return Doubtful()
        return Recorded(results.result(call, "lost", WHY["lost"]))

    def _never_called(self, row: Call) -> bool:
        """Its function certainly was not called: we wrote the row, and never came to it."""
        return row.epoch == self._book.fence.epoch and row.call_id not in self._called

    # --- running them ---

    async def run(self, calls: Sequence[ToolCall]) -> None:
        """Run calls of the last answer, and commit the results of those that came to an end."""
        executed, batch = await self._execute(calls)
        waiting = [action for action in executed.waiting if not self._allows(action)]
        if waiting:
            rows = [self._waiting(action) for action in waiting]
            await self._book.write(running.start_calls, rows, self._patience(waiting))
        if executed.results:
            await self.answer(executed.results, batch.writes)

    async def _execute(self, calls: Sequence[ToolCall]) -> tuple[Executed, Batch]:
        flight = self._flight
        flight.end_if_stopped()  # it may have come while the journal was read
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
            raise self._trouble
        return executed, batch

    async def refuse(self, calls: Sequence[ToolCall], exclusive: str) -> None:
        """An exclusive tool must be the only call of its message, and is not."""

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
        """Commit results. Plain ones, of which the journal knows nothing, are the usual case."""
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
            await book.write(running.commit_step, Outcome(results=tuple(made), writes=writes))
        except ChatError as error:  # what a call wants written is refused: the model is told
            text = results.content(f"Not done: {error}")
            told = [
                replace(one, content=text, outcome="failed") if one.call_id in writes else one
                for one in made
            ]
            await book.write(running.commit_step, Outcome(results=tuple(told)))

    # --- the journal ---

    async def _starting(self, call: ToolCall, tool: Tool) -> bool:
        """Write down that a call begins, before it does. False when it may not any more."""
        book = self._book
        row = book.journal.get(call.id)
        if row is None or row.state != "started" or row.epoch != book.fence.epoch:
            started = Call(
                call_id=call.id,
                number=book.answer,
                tool=call.tool,
                effect=tool.effect,
                state="started",
                approved=None if row is None else row.approved,
                epoch=book.fence.epoch,
                started_at=self._setup.agent.ports.now(),
            )
            try:
                await book.write(running.start_calls, [started])
            except Moved:
                self._flight.stop()
                return False
            except Exception as error:  # told to the runner: no tool has failed
                self._trouble = error
                if self._flight.batch is not None:
                    self._flight.batch.halt()
                return False
        self._called.add(call.id)
        return True

    def _finished(self, finished: ToolFinished) -> None:
        """A call has ended. Beside others that still run, its result is written down by itself."""
        made, batch = finished.result, self._flight.batch
        if self._witness is not NOBODY:
            known = made.tool if made.tool in self._setup.agent.toolset else ""
            self._witness.called(known, made.outcome, finished.seconds)
        if batch is None or batch.left < 2 or not self._asked(made):
            return
        if made.call_id in batch.writes:  # recorded only with what it wants written
            return
        if made.outcome == "interrupted":  # by whom, only a settlement says: it may be our own end
            return
        self._recording.add(made.call_id)
        self._beside(self._record, made)

    def _asked(self, made: ToolResult) -> bool:
        """Whether the answer that asks for this call is in the history."""
        return any(call.id == made.call_id for call in self._book.history.turn.open)

    async def _record(self, made: ToolResult) -> None:
        try:
            await self._book.record(self._row_of(made))
        except Exception:  # it is also in memory, and goes into the history with its siblings
            LOG.warning("the result of %s was not written down", made.call_id, exc_info=True)
        finally:
            self._recording.discard(made.call_id)
            if not self._recording and self._recorded is not None:
                if not self._recorded.done():  # whoever waited may be gone
                    self._recorded.set_result(None)
                self._recorded = None

    async def drain(self) -> None:
        """Wait until every result that is being written down is."""
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
        """Whoever goes on, another worker or we: what has a result is not to be done again."""
        for made in left.results:
            if made.outcome != "interrupted" and self._asked(made):
                await self._record(made)

    # --- waiting for somebody outside ---

    async def require_action(self, calls: Sequence[ToolCall]) -> bool:
        """Rest until somebody acts, once what is asked of them has been checked."""
        unchecked = [call for call in calls if call.id not in self._book.journal]
        actions: list[Action] = []
        if unchecked:
            executed, batch = await self._execute(unchecked)
            if executed.results:  # not even asked
                await self.answer(executed.results, batch.writes)
            actions = [action for action in executed.waiting if not self._allows(action)]
            if len(actions) < len(executed.waiting):
                return True
        self._flight.screen.close()
        chat = await self._book.write(
            running.require_action,
            [self._waiting(action) for action in actions],
            {action.call.id: awaited_by(action) for action in actions if action.kind == "child"},
            self._patience(actions),
        )
        self._witness.turned("requires_action")
        return chat.worker_id is not None

    def _allows(self, action: Action) -> bool:
        """Whether a person has allowed such calls in this chat. Nobody allows doubts beforehand."""
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
        """Microseconds that actions may wait, of those that do not wait for ever."""
        patience = {}
        for action in actions:
            tool = self._setup.agent.toolset.get(action.call.tool)
            if tool is not None and tool.timeout is not None and action.kind != "approval":
                patience[action.call.id] = int(tool.timeout * MICRO)
        return patience
