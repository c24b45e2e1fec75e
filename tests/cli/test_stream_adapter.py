"""What a chat says to its watchers is told as a run is."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from holdfast.chat.rows import PendingRetry, Queued, Status, Stored, TurnOutcome
from holdfast.chat.snapshots import Pending, Snapshot
from holdfast.chat.stream import (
    ActionsChanged,
    ChatChanged,
    Cursor,
    LiveDelta,
    MessageChanged,
    QueueChanged,
    Reset,
    StreamEvent,
    Superseded,
)
from holdfast.cli.stream_adapter import ConnectionMonitor, StreamAdapter
from holdfast.kernel.errors import Failure
from holdfast.kernel.events import (
    MessageCommitted,
    Retrying,
    RunEnded,
    RunStarted,
    StepStarted,
    ToolCalled,
    ToolFinished,
    ToolProgressed,
    Warned,
)
from holdfast.kernel.messages import note
from holdfast.kernel.model import TextDelta
from holdfast.live.delta_fragments import Fragment, Omitted
from holdfast.messages import Message, Text, ToolCall, ToolResult

SNAPSHOT = Snapshot(
    id="c1",
    owner="",
    agent="helper",
    title=None,
    titled_by=None,
    labels={},
    model=None,
    effort=None,
    workspace=None,
    rules=(),
    parent_id=None,
    root_id="c1",
    status=Status.IDLE,
    archived=False,
    error=None,
    retry=None,
    outcome=None,
    deadline=None,
    compaction=None,
    snapshot_version=1,
    history_version=1,
    queue_version=0,
    epoch=0,
    attempt=0,
    messages=0,
    created_at=0,
    updated_at=0,
)


class Seen:
    """Writes down what it is shown."""

    def __init__(self) -> None:
        self.all: list[Any] = []
        self.positions: list[int] = []
        """Of the messages that were committed."""

    def show(self, event: Any) -> None:
        if isinstance(event, MessageCommitted):
            self.positions.append(event.number)
            if event.message.kind != "answer":
                return  # people see it otherwise
        self.all.append(event)

    def note(self, text: str) -> None:
        self.all.append(("note", text))

    def show_prompt(self, text: str) -> None:
        self.all.append(("said", text))

    def new_turn(self) -> None:
        self.all.append("turn")

    def void(self) -> None:
        self.all.append("void")


def chat(status: Status, at: int, *, cursor: int | None = None, **more: Any) -> ChatChanged:
    snapshot = structs.replace(SNAPSHOT, status=status, snapshot_version=at, **more)
    return ChatChanged(Cursor(at if cursor is None else cursor), snapshot)


def message(number: int, text: str, at: int = 1, **more: Any) -> MessageChanged:
    made = Message("assistant", (Text(text),), "answer") if "parts" not in more else None
    if made is None:
        made = Message(**more)
    return MessageChanged(Cursor(at), Stored(number, 1, made, None, 0))


def prompt(number: int, text: str, at: int = 1) -> MessageChanged:
    return message(number, "", at, role="user", parts=(Text(text),), kind="prompt")


def delta(fragment: Fragment, seq: int = 1) -> LiveDelta:
    return LiveDelta(Cursor(1, 1, 1, 1, seq), seq, seq, fragment)


def told(*events: StreamEvent, known: int = 0, echo: bool = True) -> list[Any]:
    seen = Seen()
    adapter = StreamAdapter(seen, known, echo=echo, now=lambda: 1_000_000)
    for event in events:
        adapter.show(event)
    return seen.all


def texts(all: list[Any]) -> str:
    return "".join(one.text for one in all if isinstance(one, TextDelta))


def kinds(all: list[Any]) -> list[type]:
    return [type(one) for one in all if not isinstance(one, str | tuple)]


RUNNING = chat(Status.RUNNING, 1)


def test_a_turn_begins_when_the_chat_runs_and_ends_when_everything_of_it_was_told() -> None:
    all = told(
        chat(Status.RUNNING, 2, cursor=0),
        prompt(1, "hi", 2),
        chat(Status.IDLE, 3, cursor=2, outcome=TurnOutcome("stop", 1)),
        message(2, "hello", 3),
    )
    assert kinds(all) == [RunStarted, StepStarted, TextDelta, MessageCommitted, RunEnded]
    assert all[2] == ("said", "hi")
    assert all[-1].reason == "stop"
    assert all[-1].summary.steps == 1


@pytest.mark.parametrize("seen", [True, False])
def test_a_summary_does_not_say_again_how_the_last_turn_ended(seen: bool) -> None:
    stopped = TurnOutcome("interrupted", 1)
    note = {"role": "system", "parts": (Text("Shorter now."),), "kind": "note"}
    running = chat(Status.RUNNING, 3, epoch=2, outcome=stopped, compaction="person")
    all = told(
        chat(Status.IDLE, 2, epoch=1, outcome=stopped),
        *([running] if seen else []),
        chat(Status.IDLE, 4, cursor=3, epoch=2, outcome=stopped),
        message(3, "", 4, **note),
    )
    assert ("note", "· Shorter now.") in all
    assert [one.reason for one in all if isinstance(one, RunEnded)] == ["stop"]


def test_a_turn_that_is_interrupted_like_the_last_one_says_so() -> None:
    stopped = TurnOutcome("interrupted")
    all = told(
        chat(Status.IDLE, 2, epoch=1, outcome=stopped),
        chat(Status.IDLE, 4, cursor=3, epoch=2, outcome=stopped),
        prompt(3, "again", 4),
    )
    assert all[-1].reason == "interrupted"


def test_what_was_shown_as_it_came_is_not_shown_again() -> None:
    all = told(RUNNING, delta(TextDelta("hel")), delta(TextDelta("lo"), 2), message(2, "hello"))
    assert texts(all) == "hello"
    assert "void" not in all


def test_of_an_answer_that_was_missed_in_part_the_rest_is_shown() -> None:
    assert texts(told(RUNNING, delta(TextDelta("hel")), message(2, "hello"))) == "hello"
    assert texts(told(RUNNING, message(2, "hello"))) == "hello"


def test_an_answer_that_became_another_is_void() -> None:
    all = told(RUNNING, delta(TextDelta("bye")), message(2, "hello"))
    assert all.index("void") < all.index(TextDelta("hello"))
    all = told(RUNNING, delta(TextDelta("bye")), Reset(Cursor(1), "live"), message(2, "hello"))
    assert (all.count("void"), texts(all)) == (1, "byehello")
    assert "void" not in told(RUNNING, message(2, "hello"), Reset(Cursor(1), "live"))


def test_what_is_known_is_not_told() -> None:
    assert told(message(2, "hello"), message(3, "more"), message(3, "more"), known=2)[:1] == [
        TextDelta("more")
    ]
    again = told(prompt(1, "hi"), prompt(1, "hi"))
    assert again == [("said", "hi")]


def test_a_model_whose_answer_is_there_is_not_waited_for() -> None:
    all = told(chat(Status.RUNNING, 2, cursor=0), prompt(1, "hi", 1), message(2, "hello", 2))
    assert kinds(all) == [RunStarted, TextDelta, MessageCommitted]


def test_each_message_that_is_committed_is_an_event_with_its_position() -> None:
    seen = Seen()
    adapter = StreamAdapter(seen, 1, echo=False)
    noted = MessageChanged(Cursor(1), Stored(4, 1, note("It is shorter."), None, 0))
    for event in (prompt(1, "known"), prompt(2, "hi"), message(3, "Hello."), noted):
        adapter.show(event)
    assert seen.positions == [1, 2, 3]


def test_what_people_say_is_shown_only_where_nobody_else_shows_it() -> None:
    waits = Queued("q1", "queue", Message("user", (Text("x"),), "prompt"), 1)
    queued = QueueChanged(Cursor(1), (waits,))
    assert told(prompt(1, "hi"), queued, echo=False) == []


def test_what_waits_is_told_once() -> None:
    one = Queued("q1", "queue", Message("user", (Text("later"),), "prompt"), 1)
    two = Queued("q2", "steer", Message("user", (Text("sooner"),), "prompt"), 2)
    three = Queued("q3", "interrupt", Message("user", (Text("now"),), "prompt"), 3)
    queues = (one,), (one, two), (two,), (three, two)
    changed = [QueueChanged(Cursor(1), queue) for queue in queues]
    assert told(*changed) == [
        ("note", "· queued until the turn ends: later"),
        ("note", "· queued until the next step: sooner"),
        ("note", "· queued until the answer stops: now"),
    ]


def test_calls_are_shown_once_whether_or_not_they_were_seen_to_run() -> None:
    call, result = ToolCall("t1", "pay", "{}"), ToolResult("t1", "pay", (Text("paid"),))
    asks = message(2, "", role="assistant", parts=(call,), kind="answer")
    answers = message(3, "", role="tool", parts=(result,), kind="results")
    live: list[StreamEvent] = [
        delta(ToolCalled(call)),
        delta(ToolFinished(result, 1.0)),
        delta(Omitted(("t1",))),
    ]
    unseen: list[StreamEvent] = [RUNNING, asks, answers]
    for events in (unseen, [RUNNING, live[0], asks, *live[1:], answers]):
        shown = kinds(told(*events))
        assert (shown.count(ToolCalled), shown.count(ToolFinished)) == (1, 1)


def test_a_call_that_was_still_being_written_is_shown_with_its_end() -> None:
    call = ToolCall("t1", "pay", '{"am', "not JSON")
    result = ToolResult("t1", "pay", (Text("Not run."),), "interrupted")
    parts = (call, result)
    half = message(
        2, "", role="assistant", parts=parts, kind="answer", visibility="user", finish="interrupted"
    )
    shown = told(RUNNING, half, chat(Status.IDLE, 2, outcome=TurnOutcome("interrupted")))
    assert [one for one in shown if isinstance(one, ToolCalled)] == [ToolCalled(call)]
    assert [one for one in shown if isinstance(one, ToolFinished)] == [ToolFinished(result, 0.0)]
    (ended,) = [one for one in shown if isinstance(one, RunEnded)]
    assert (ended.summary.steps, ended.summary.tool_calls) == (0, 0)


def test_it_is_known_which_calls_were_previewed() -> None:
    adapter = StreamAdapter(Seen(), 0, echo=True)
    adapter.show(delta(ToolProgressed("t1", "pay", "preview", "- 5 €")))
    adapter.show(delta(ToolProgressed("t2", "pay", "progress", "paying")))
    assert adapter.previewed == {"t1"}


def test_a_preview_that_was_missed_is_shown_once_before_somebody_is_asked() -> None:
    seen = Seen()
    adapter = StreamAdapter(seen, 0, echo=True)
    pay = Pending("approval", ToolCall("t1", "pay", "{}"), "{}", "d", "- 5 €")
    assert adapter.preview(pay)
    assert adapter.preview(pay)
    assert seen.all == [ToolProgressed("t1", "pay", "preview", "- 5 €")]
    assert not adapter.preview(structs.replace(pay, call=ToolCall("t2", "pay", "{}"), preview=None))


def test_an_attempt_that_failed_is_told_once_with_when_the_next_begins() -> None:
    retry = PendingRetry(1, 3, Failure("rate_limit", "too many"), at=3_000_000)
    changed = [chat(Status.RUNNING, at, retry=retry) for at in (2, 3)]
    shown = [one for one in told(RUNNING, *changed) if isinstance(one, Retrying)]
    assert [(one.attempt, one.of, one.delay, one.message) for one in shown] == [
        (1, 3, 2.0, "too many")
    ]


def test_how_a_turn_ended_is_told() -> None:
    failure = Failure("auth", "no key")
    action = Pending("approval", ToolCall("t1", "pay", "{}"), "{}", "d")
    ends = [
        (chat(Status.ERROR, 2, error=failure), ("error", failure, ())),
        (chat(Status.IDLE, 2, outcome=TurnOutcome("interrupted")), ("interrupted", None, ())),
        (chat(Status.REQUIRES_ACTION, 2), ("requires_action", None, (action,))),
    ]
    for end, expected in ends:
        actions = (action,) if expected[0] == "requires_action" else ()
        ended = told(RUNNING, ActionsChanged(Cursor(1), actions), end)[-1]
        assert isinstance(ended, RunEnded)
        assert (ended.reason, ended.failure, ended.actions) == expected


def test_a_turn_that_nobody_saw_run_is_told_to_have_ended() -> None:
    failed = [chat(Status.ERROR, at, epoch=at, error=Failure("auth", "no key")) for at in (1, 2)]
    assert kinds(told(*failed)).count(RunEnded) == 2
    assert kinds(told(failed[0], failed[0])).count(RunEnded) == 1
    assert kinds(told(chat(Status.IDLE, 1), chat(Status.IDLE, 2))) == []


def test_what_goes_on_after_an_action_belongs_to_the_same_turn() -> None:
    again = [chat(Status.REQUIRES_ACTION, 2), chat(Status.RUNNING, 3), chat(Status.IDLE, 4)]
    assert told(RUNNING, *again).count("turn") == 1
    assert told(RUNNING, *again, chat(Status.RUNNING, 5)).count("turn") == 2


def test_what_else_happens_is_told() -> None:
    stored = MessageChanged(Cursor(1), Stored(5, 1, note("It is shorter."), None, 0))
    assert told(stored) == [("note", "· It is shorter.")]
    assert told(Superseded(Cursor(1), (3, 4))) == [
        ("note", "· message 3 was edited; later messages were removed")
    ]
    cut = Message("assistant", (Text("so far"),), "answer")
    notes = told(*(chat(Status.RUNNING, at, partial=cut) for at in (1, 2)))
    assert notes.count(("note", "· interrupted by a restart; the answer so far:\nso far")) == 1
    stranded = told(*(chat(Status.RUNNING, at, stranded=True) for at in (1, 2)))
    assert stranded.count(Warned("no running worker has the agent 'helper'")) == 1


class Away:
    """A stream that is away or is not."""

    def __init__(self) -> None:
        self.away = False


def test_a_connection_is_said_to_be_lost_and_there_again_once_each() -> None:
    seen, stream = Seen(), Away()
    line = ConnectionMonitor(seen)
    line.check()  # before there is a stream
    assert not line.is_away()
    line.stream = stream
    for away in (False, True, True, False, False):
        stream.away = away
        line.check()
        assert line.is_away() == away
    assert seen.all == [
        ("note", "· connection lost: reconnecting…"),
        ("note", "· reconnected"),
    ]


def test_a_change_that_is_told_by_half_is_not_settled() -> None:
    adapter = StreamAdapter(Seen(), 0, echo=True)
    adapter.show(chat(Status.REQUIRES_ACTION, 5))
    assert adapter.settled
    adapter.show(ActionsChanged(Cursor(5), ()))  # and that the chat runs again comes next
    assert not adapter.settled
    adapter.show(chat(Status.RUNNING, 6))
    assert adapter.settled
    adapter.show(LiveDelta(Cursor(6, 1, 1, 1, 1), 1, 1, TextDelta("it goes")))
    assert adapter.settled
    adapter.show(chat(Status.IDLE, 9, cursor=6))
    assert not adapter.settled
    adapter.show(message(1, "it goes", at=9))
    assert adapter.settled
