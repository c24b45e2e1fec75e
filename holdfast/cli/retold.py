"""What a chat says to whoever watches it, told as the events of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from holdfast.chat.state import BUSY, Deliver, Queued, Retry, Status, Stored
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
from holdfast.chat.view import Pending, Snapshot
from holdfast.cli import wording
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
from holdfast.live.fragments import Fragment, Omitted

WORDS: Final = 120
"""Characters of a message that are shown where it waits."""


class Shows(Protocol):
    """See `View`."""

    def show(self, event: Event) -> None: ...
    def note(self, text: str) -> None: ...
    def said(self, text: str) -> None: ...
    def new_turn(self) -> None: ...
    def void(self) -> None: ...


class ComesBack(Protocol):
    """See `RemoteStream`."""

    @property
    def away(self) -> bool: ...


class Line:
    """What a stream comes over. Says once that it is lost, and once that it is there again."""

    def __init__(self, view: Shows) -> None:
        self.stream: ComesBack | None = None
        """None: there is none yet."""
        self._view = view
        self._said_away = False

    def is_away(self) -> bool:
        return self.stream is not None and self.stream.away

    def look(self) -> None:
        away = self.is_away()
        if away != self._said_away:
            self._said_away = away
            said = "the connection is lost: coming back…" if away else "connected again"
            self._view.note(f"· {said}")


class Retold:
    """Tells a view what a stream says. What is told once is not told again."""

    def __init__(
        self,
        view: Shows,
        known: int,
        *,
        echo: bool,
        now: Callable[[], int] = wall_clock,
    ) -> None:
        """`known`: messages up to this number were seen. `echo`: also show what people say."""
        self.chat: Snapshot | None = None
        self.queue: tuple[Queued, ...] = ()
        self.actions: tuple[Pending, ...] = ()
        self.settled = False
        """Everything of the last change was told."""
        self._at = 0
        """The version of the chat up to which everything was told."""
        self._view = view
        self._known = known
        self._echo = echo
        self._now = now
        self._runs = False
        """A turn was told to have begun, and not to have ended."""
        self._waits = False
        """For a model, and that was not shown yet."""
        self._text = ""
        """What was shown of an answer that is not committed."""
        self.previewed: set[str] = set()
        """Calls of which it was shown what they would do."""
        self._calls: set[str] = set()
        """Calls that were shown."""
        self._finished: set[str] = set()
        """Those whose end was, too."""
        self._retry: Retry | None = None
        self._turn = Summary()
        self._began = 0

    @property
    def busy(self) -> bool:
        return self._runs

    def preview(self, action: Action) -> bool:
        """Show what a call would do, unless that was seen; whether there is anything to see."""
        call = action.call
        if action.preview and call.id not in self.previewed:
            self.previewed.add(call.id)
            self._view.show(ToolProgressed(call.id, call.tool, "preview", action.preview))
        return call.id in self.previewed

    def tell(self, event: StreamEvent) -> None:
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
                self._view.note(f"· message {numbers[0]} was replaced, and what came of it")
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
        """A change is told in several events, and only the last of them moves the cursor on."""
        before, self._at = self._at, event.cursor.snapshot
        if self.chat is None or self._at < self.chat.snapshot_version:
            return False
        if isinstance(event, LiveDelta | Reset):  # no part of a change
            return self.settled or self._at > before
        return isinstance(event, ChatChanged) or self._at > before

    # --- the turn ---

    def _changed(self, chat: Snapshot) -> None:
        before, self.chat = self.chat, chat
        # One that was over before anybody looked is a turn, too.
        failed = before is None and chat.status is Status.ERROR
        unseen = before is not None and before.epoch != chat.epoch
        if not self._runs and (chat.status in _RUNS or failed or unseen):
            if before is None or before.status is not Status.REQUIRES_ACTION:
                self._view.new_turn()
            self._runs, self._turn, self._began = True, Summary(), self._now()
            self._waits = True
            self._view.show(RunStarted(chat.messages))
        if chat.retry is not None and chat.retry != self._retry:
            self._text = ""
            self._view.show(self._retrying(chat.retry))
        self._retry = chat.retry
        if chat.stranded and not (before is not None and before.stranded):
            self._view.show(Warned(f"no worker that lives knows the agent {chat.agent!r}"))

    def _retrying(self, retry: Retry) -> Retrying:
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
        reason: EndReason = "stop" if chat.outcome is None else chat.outcome.reason
        if chat.status is Status.REQUIRES_ACTION:
            reason = "requires_action"
        elif chat.status is Status.ERROR:
            reason = "error"
        self._view.show(RunEnded(reason, self._summary(), chat.error, self.actions))

    def _summary(self) -> Summary:
        told = self._turn
        seconds = (self._now() - self._began) / 1e6
        return Summary(told.steps, told.tool_calls, told.tool_errors, told.usage, None, seconds)

    # --- what was said ---

    def _message(self, stored: Stored) -> None:
        if stored.number <= self._known or stored.superseded_at is not None:
            return
        self._known = stored.number
        message = stored.message
        self._waits = self._waits or message.kind in ("prompt", "results")
        match message.kind:
            case "prompt" if self._echo:
                self._view.said(message.text)
            case "answer":
                self._answer(message, stored.number)
            case "results":
                self._results(message)
            case "note":
                self._view.note(f"· {message.text}")
            case "injected" if message.why in ("guard", "recovery", "repair"):
                self._view.show(Delivered(message.why, (message,)))
            case _:
                pass  # for the model alone

    def _answer(self, message: Message, number: int) -> None:
        """An answer, of which some may be shown already."""
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
        self._view.show(MessageCommitted(message, number))
        self._count(Summary(steps=1, usage=message.usage or Usage()))

    def _results(self, message: Message) -> None:
        for part in message.parts:
            if isinstance(part, ToolResult):
                failed = int(part.outcome != "ok")
                self._count(Summary(tool_calls=1, tool_errors=failed))
                if part.call_id not in self._finished:
                    self._view.show(ToolFinished(part, 0.0))
        for shown in (self._calls, self._finished, self.previewed):
            shown.clear()

    def _count(self, more: Summary) -> None:
        self._turn = wording.together(self._turn, more)

    # --- what happens ---

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
        """What is shown live begins anew."""
        if self._text:
            self._text = ""
            self._view.void()

    def _queued(self, queue: tuple[Queued, ...]) -> None:
        before, self.queue = {one.id for one in self.queue}, queue
        for one in queue:
            if self._echo and one.id not in before:
                when = _WAITS_FOR[one.deliver]
                words = wording.short(one.message.text, WORDS)
                self._view.note(f"· waits for {when}: {words}")


_WAITS_FOR: Final[Mapping[Deliver, str]] = {
    "queue": "its turn",
    "steer": "the next step",
    "interrupt": "the answer to stop",
}
_RUNS: Final = BUSY - {Status.REQUIRES_ACTION}
