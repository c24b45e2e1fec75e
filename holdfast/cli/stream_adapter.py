"""Converts the event stream of a chat into the events of a run, for the same view."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from holdfast.chat.rows import BUSY, Deliver, PendingRetry, Queued, Status, Stored, TurnOutcome
from holdfast.chat.snapshots import Pending, Snapshot
from holdfast.chat.stream import (
    ActionsChanged,
    ChatChanged,
    LiveDelta,
    MessageChanged,
    QueueChanged,
    Reset,
    StreamEvent,
    Superseded,
)
from holdfast.cli import run_texts
from holdfast.kernel.events import (
    Action,
    Delivered,
    EndReason,
    Event,
    MessageCommitted,
    Retrying,
    RunEnded,
    RunStarted,
    StepStarted,
    Summary,
    ToolCalled,
    ToolFinished,
    ToolProgressed,
    Warned,
)
from holdfast.kernel.messages import Message, ToolCall, ToolResult, Usage
from holdfast.kernel.model import TextDelta
from holdfast.kernel.ports import wall_clock
from holdfast.live.delta_fragments import Fragment, Omitted

EXCERPT_WIDTH: Final = 120
"""Characters shown of a queued message."""


class StreamView(Protocol):
    """Receives the converted events: see `View`."""

    def show(self, event: Event) -> None: ...
    def note(self, text: str) -> None: ...
    def show_prompt(self, text: str) -> None: ...
    def new_turn(self) -> None: ...
    def void(self) -> None: ...


class ConnectionMonitor:
    """Connection of a stream. Notes once that it was lost, and once that it is back."""

    def __init__(self, view: StreamView) -> None:
        self.stream: object | None = None
        """The stream; None: not connected yet. Only that of a server can be away."""
        self._view = view
        self._reported_away = False

    def is_away(self) -> bool:
        return bool(getattr(self.stream, "away", False))

    def check(self) -> None:
        away = self.is_away()
        if away != self._reported_away:
            self._reported_away = away
            state = "connection lost: reconnecting…" if away else "reconnected"
            self._view.note(f"· {state}")


class StreamAdapter:
    """Shows a stream in a view, each event once."""

    def __init__(
        self,
        view: StreamView,
        known: int,
        *,
        echo: bool,
        now: Callable[[], int] = wall_clock,
    ) -> None:
        """`known`: messages up to this number were seen. `echo`: also show user messages."""
        self.chat: Snapshot | None = None
        self.queue: tuple[Queued, ...] = ()
        self.actions: tuple[Pending, ...] = ()
        self.settled = False
        """Whether all events of the last change were shown."""
        self._at = 0
        """Version of the chat up to which everything was shown."""
        self._view = view
        self._known = known
        self._echo = echo
        self._now = now
        self._runs = False
        """Whether the start of a turn was shown, and not its end."""
        self._outcome: TurnOutcome | None = None
        """Outcome of the turn before this one."""
        self._spoke = False
        """Whether the turn had a prompt or an answer; otherwise it is only a requested summary."""
        self._waits = False
        """Whether the chat is waiting for a model, which was not shown yet."""
        self._text = ""
        """Text shown of an answer that is not committed."""
        self.previewed: set[str] = set()
        """Calls whose preview was shown."""
        self._calls: set[str] = set()
        """Calls that were shown."""
        self._finished: set[str] = set()
        """Calls whose end was shown."""
        self._retry: PendingRetry | None = None
        self._turn = Summary()
        self._began = 0

    @property
    def busy(self) -> bool:
        return self._runs

    def preview(self, action: Action) -> bool:
        """Show the preview of a call, unless it was shown; returns whether there is one."""
        call = action.call
        if action.preview and call.id not in self.previewed:
            self.previewed.add(call.id)
            self._view.show(ToolProgressed(call.id, call.tool, "preview", action.preview))
        return call.id in self.previewed

    def show(self, event: StreamEvent) -> None:
        match event:
            case ChatChanged():
                self._changed(event.chat)
            case MessageChanged(_, stored):
                self._message(stored)
            case LiveDelta(fragment=fragment):
                self._delta(fragment)
            case QueueChanged(_, queue):
                self._queued(queue)
            case ActionsChanged(_, actions):
                self.actions = actions
            case Superseded(_, numbers):
                self._view.note(f"· message {numbers[0]} was edited; later messages were removed")
            case Reset(what="live"):
                self._void()
            case Reset():
                self._void()
                self.actions, self.queue = (), ()
        self.settled = self._is_settled(event)
        chat = self.chat
        if chat is None or not self.settled:
            return
        if chat.status not in _RUNS:
            self._end(chat)
        elif self._waits:
            self._waits = False
            self._view.show(StepStarted(self._turn.steps + 1, chat.messages, 0))

    def _is_settled(self, event: StreamEvent) -> bool:
        """A change is sent as several events; only the last one advances the cursor."""
        before, self._at = self._at, event.cursor.snapshot
        if self.chat is None or self._at < self.chat.snapshot_version:
            return False
        if isinstance(event, LiveDelta | Reset):  # not part of a change
            return self.settled or self._at > before
        return isinstance(event, ChatChanged) or self._at > before

    # --- the turn ---

    def _changed(self, chat: Snapshot) -> None:
        before, self.chat = self.chat, chat
        # A turn that ended before we connected is also a turn.
        failed = before is None and chat.status is Status.ERROR
        unseen = before is not None and before.epoch != chat.epoch
        if not self._runs and (chat.status in _RUNS or failed or unseen):
            if before is None or before.status is not Status.REQUIRES_ACTION:
                self._view.new_turn()
            self._runs, self._turn, self._began = True, Summary(), self._now()
            self._waits = True
            self._outcome, self._spoke = (before or chat).outcome, False
            self._view.show(RunStarted(chat.messages))
        if chat.retry is not None and chat.retry != self._retry:
            self._text = ""
            self._view.show(self._retrying(chat.retry))
        self._retry = chat.retry
        if chat.partial is not None and (before is None or before.partial != chat.partial):
            self._void()
            self._view.note(f"· interrupted by a restart; the answer so far:\n{chat.partial.text}")
        if chat.stranded and not (before is not None and before.stranded):
            self._view.show(Warned(f"no running worker has the agent {chat.agent!r}"))

    def _retrying(self, retry: PendingRetry) -> Retrying:
        at = retry.at or self._now()
        failure = retry.failure
        return Retrying(
            retry.attempt,
            retry.of,
            max(0.0, (at - self._now()) / 1e6),
            at,
            failure.kind,
            failure.message,
            failure.detail or "",
        )

    def _end(self, chat: Snapshot) -> None:
        if not self._runs:
            return
        self._runs = False
        # After a summary the chat still says how the last turn ended, which was shown then.
        outcome = chat.outcome if self._spoke or chat.outcome != self._outcome else None
        reason: EndReason = "stop" if outcome is None else outcome.reason
        if chat.status is Status.REQUIRES_ACTION:
            reason = "requires_action"
        elif chat.status is Status.ERROR:
            reason = "error"
        cut_by = None if outcome is None else outcome.cut_by
        limit = None if outcome is None else outcome.limit
        self._view.show(RunEnded(reason, self._summary(), chat.error, self.actions, cut_by, limit))

    def _summary(self) -> Summary:
        turn = self._turn
        seconds = (self._now() - self._began) / 1e6
        return Summary(turn.steps, turn.tool_calls, turn.tool_errors, turn.usage, None, seconds)

    # --- messages ---

    def _message(self, stored: Stored) -> None:
        if stored.number <= self._known or stored.superseded_at is not None:
            return
        self._known = stored.number
        message = stored.message
        self._spoke = self._spoke or message.kind in ("prompt", "answer")
        self._waits = self._waits or message.kind in ("prompt", "results")
        position = stored.number - 1
        match message.kind:
            case "answer":
                self._answer(message, position)
                return
            case "prompt" if self._echo:
                self._view.show_prompt(message.text)
            case "results":
                self._results(message)
            case "note" if message.limit is None:  # the end of the turn shows the limit
                self._view.note(f"· {message.text}")
            case "injected" if message.why in ("guard", "recovery", "repair"):
                self._view.show(Delivered(message.why, (message,)))
            case _:
                pass  # only for the model
        self._view.show(MessageCommitted(message, position))

    def _answer(self, message: Message, position: int) -> None:
        """Show an answer, part of which may be shown already."""
        self._waits = False
        shown, self._text = self._text, ""
        if not message.text.startswith(shown):
            self._view.void()
            shown = ""
        if rest := message.text[len(shown) :]:
            self._view.show(TextDelta(rest))
        for part in message.parts:
            if isinstance(part, ToolCall) and part.id not in self._calls:
                self._calls.add(part.id)
                self._view.show(ToolCalled(part))
        if message.visibility == "user":
            self._half_written(message)
        seconds = None if message.runtime is None else message.runtime / 1_000
        self._view.show(MessageCommitted(message, position, seconds=seconds))
        steps = int(message.visibility != "user")
        self._count(Summary(steps=steps, usage=message.usage or Usage()))

    def _half_written(self, message: Message) -> None:
        """Add the results of calls that were still being written."""
        for result in message.results:
            if result.call_id not in self._finished:
                self._finished.add(result.call_id)
                self._view.show(ToolFinished(result, 0.0))

    def _results(self, message: Message) -> None:
        for part in message.parts:
            if isinstance(part, ToolResult):
                failed = int(part.outcome != "ok")
                self._count(Summary(tool_calls=1, tool_errors=failed))
                if part.call_id not in self._finished:
                    self._view.show(ToolFinished(part, part.seconds or 0.0))
        for shown in (self._calls, self._finished, self.previewed):
            shown.clear()

    def _count(self, more: Summary) -> None:
        self._turn = run_texts.together(self._turn, more)

    # --- live output ---

    def _delta(self, fragment: Fragment) -> None:
        self._waits = False
        match fragment:
            case Omitted():
                return
            case TextDelta(text):
                self._text += text
            case ToolCalled(call):
                self._calls.add(call.id)
            case ToolProgressed(call_id, what="preview"):
                self.previewed.add(call_id)
            case ToolFinished(result):
                self._finished.add(result.call_id)
            case _:
                pass
        self._view.show(fragment)

    def _void(self) -> None:
        """Start the live output anew."""
        if self._text:
            self._text = ""
            self._view.void()

    def _queued(self, queue: tuple[Queued, ...]) -> None:
        before, self.queue = {one.id for one in self.queue}, queue
        for one in queue:
            if self._echo and one.id not in before:
                when = _WAITS_FOR[one.deliver]
                words = run_texts.short(one.message.text, EXCERPT_WIDTH)
                self._view.note(f"· queued until {when}: {words}")


_WAITS_FOR: Final[Mapping[Deliver, str]] = {
    "queue": "the turn ends",
    "steer": "the next step",
    "interrupt": "the answer stops",
}
_RUNS: Final = BUSY - {Status.REQUIRES_ACTION}
