"""A conversation on the command line, with a model and a person that follow a script."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest

from holdfast import Agent, Tool, tool
from holdfast.cli.ask import ApprovalMode, Asker
from holdfast.cli.conversation import Conversation
from holdfast.cli.signals import SIGNALS
from holdfast.events import Event, RunEnded
from holdfast.hooks import Context, Rewrite
from holdfast.kernel.model import TextDelta
from holdfast.testing import call, fail, hang, pause, say
from holdfast.tools.ask_user import ask_user
from tests.cli.test_ask import Scripted
from tests.kernel.runs import later, names, only, scripted, texts


class Watcher:
    """A view that keeps what it is shown, and fails at what it is told to fail at."""

    def __init__(self, fails_at: type[Event] | None = None) -> None:
        self.events: list[Event] = []
        self.notes: list[str] = []
        self.ticks = 0
        self.told_to_stop = 0
        self.ended = 0
        self._fails_at = fails_at

    def show(self, event: Event) -> None:
        if self._fails_at is not None and isinstance(event, self._fails_at):
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")
        self.events.append(event)

    def note(self, text: str) -> None:
        self.notes.append(text)

    def tick(self) -> None:
        self.ticks += 1

    def stopping(self) -> None:
        self.told_to_stop += 1

    def end(self) -> None:
        self.ended += 1


class Absent(Scripted):
    """Somebody who is asked and does not answer."""

    async def ask(self, question: str) -> str | None:
        self.asked.append(question)
        await anyio.sleep_forever()
        return None


def paying(paid: list[str], seconds: float = 0.0, **properties: Any) -> Tool:
    async def pay(what: str = "it") -> str:
        """Pay."""
        paid.append(what)
        await anyio.sleep(seconds)
        return f"paid {what}"

    return tool(**properties)(pay)


def conversation(
    agent: Agent,
    terminal: Scripted | None = None,
    answers: ApprovalMode = "ask",
    view: Watcher | None = None,
) -> Conversation:
    view = view or Watcher()
    return Conversation(agent, view, Asker(terminal, answers, view.note))


@pytest.fixture(autouse=True)
def _signals_as_at_a_terminal() -> Iterator[None]:
    """Whoever runs the tests may ignore some, as nohup does."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        if before[number] is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def sends(number: signal.Signals) -> Callable[[], None]:
    return lambda: os.kill(os.getpid(), number)


# --- To its end ---------------------------------------------------------------------------------


async def test_every_event_is_shown_up_to_the_last() -> None:
    view = Watcher()
    result = await conversation(scripted(["Hello."]), view=view).go("Hi.")
    assert result.text == "Hello."
    assert names(view.events)[0] == "RunStarted"
    assert names(view.events)[-1] == "RunEnded"


async def test_a_view_hears_of_every_second() -> None:
    view = Watcher()
    await conversation(scripted([[pause(3.5), say("Hello.")]]), view=view).go("Hi.")
    assert view.ticks == 3


async def test_a_run_that_fails_has_a_result_too() -> None:
    talk = conversation(scripted([fail("no", status=401)]))
    result = await talk.go("Hi.")
    assert result.reason == "error"
    assert (talk.failure, talk.stopped) == (None, None)


# --- What it waits for --------------------------------------------------------------------------


async def test_what_somebody_approves_is_run_and_the_model_goes_on() -> None:
    paid: list[str] = []
    agent = scripted([call("pay"), "Done."], paying(paid, approval="ask"))
    view, terminal = Watcher(), Scripted("y")
    result = await conversation(agent, terminal, view=view).go("Pay.")
    assert (result.reason, result.text, paid) == ("stop", "Done.", ["it"])
    assert [ended.reason for ended in only(RunEnded, view.events)] == ["requires_action", "stop"]
    assert len(terminal.asked) == 1


async def test_what_nobody_answers_is_what_the_result_waits_for() -> None:
    paid: list[str] = []
    agent = scripted([call("pay")], paying(paid, approval="ask"))
    result = await conversation(agent).go("Pay.")
    assert (result.reason, paid) == ("requires_action", [])
    assert [action.call.tool for action in result.actions] == ["pay"]


async def test_what_is_answered_is_done_also_when_the_rest_still_waits() -> None:
    paid: list[str] = []
    asks = call("ask_user", questions=[{"question": "Why?"}])
    agent = scripted([[call("pay"), asks]], paying(paid, approval="ask"), ask_user())
    result = await conversation(agent, answers="yes").go("Pay.")
    assert (result.reason, paid) == ("requires_action", ["it"])
    assert [action.call.tool for action in result.actions] == ["ask_user"]


async def test_a_call_whose_arguments_never_stay_the_same_does_not_go_on_for_ever() -> None:
    paid: list[str] = []
    numbers = iter(range(100))

    def changing(_context: Context, _: object, values: Any) -> Rewrite:
        return Rewrite({"what": f"number {next(numbers)}"})

    agent = scripted([call("pay"), "Never mind."], paying(paid, approval="ask"), gate=changing)
    result = await conversation(agent, answers="yes").go("Pay.")
    assert (result.text, paid) == ("Never mind.", [])


# --- Being told to stop -------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_stops_the_run_and_keeps_what_was_said(number: signal.Signals) -> None:
    view = Watcher()
    talk = conversation(scripted([[say("Half"), hang()]]), view=view)
    later(1, sends(number))
    result = await talk.go("Hi.")
    assert (result.reason, view.told_to_stop) == ("interrupted", 1)
    assert texts(result.history, "answer") == ["Half"]
    assert talk.stopped is number


async def test_a_signal_that_was_to_be_ignored_still_is() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        talk = conversation(scripted([[pause(2), say("Hello.")]]))
        later(1, sends(signal.SIGHUP))
        result = await talk.go("Hi.")
    finally:
        signal.signal(signal.SIGHUP, before)
    assert (result.reason, talk.stopped) == ("stop", None)


async def test_a_signal_ends_a_question_and_leaves_it_open() -> None:
    paid: list[str] = []
    terminal, view = Absent(), Watcher()
    talk = conversation(scripted([call("pay")], paying(paid, approval="ask")), terminal, view=view)
    later(1, sends(signal.SIGINT))
    result = await talk.go("Pay.")
    assert len(terminal.asked) == 1
    assert view.told_to_stop == 0  # the question stands on the line
    assert (result.reason, talk.stopped, paid) == ("requires_action", signal.SIGINT, [])


async def test_an_answer_that_comes_with_a_signal_is_none() -> None:
    class Both(Scripted):
        async def ask(self, question: str) -> str | None:
            os.kill(os.getpid(), signal.SIGINT)
            with anyio.CancelScope(shield=True):
                await anyio.sleep(1)
            return "y"

    paid: list[str] = []
    talk = conversation(scripted([call("pay")], paying(paid, approval="ask")), Both())
    result = await talk.go("Pay.")
    assert (result.reason, talk.stopped, paid) == ("requires_action", signal.SIGINT, [])


async def test_nobody_is_asked_who_has_said_stop() -> None:
    paid: list[str] = []

    async def slow_preview(_: object) -> str:
        try:
            await anyio.sleep(10)
        except BaseException:
            return "as it was"
        return "never"

    terminal = Scripted("y")
    agent = scripted([call("pay")], paying(paid, approval="ask", preview=slow_preview))
    talk = conversation(agent, terminal)
    later(1, sends(signal.SIGINT))
    await talk.go("Pay.")
    assert (terminal.asked, paid) == ([], [])


async def test_a_second_signal_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    codes: list[int] = []
    monkeypatch.setattr(os, "_exit", codes.append)

    async def stay() -> str:
        """Stay."""
        try:
            await anyio.sleep(60)
        finally:
            await anyio.sleep(4)
        return "never"

    view = Watcher()
    talk = conversation(scripted([call("stay")], tool(stay)), view=view)
    later(1, sends(signal.SIGINT))
    later(2, sends(signal.SIGTERM))
    await talk.go("Stay.")
    assert codes == [128 + signal.SIGTERM]
    assert view.ended == 1  # the terminal is left as one would like to find it


# --- Trouble ------------------------------------------------------------------------------------


async def test_a_view_that_fails_stops_the_run_and_is_left_alone() -> None:
    view = Watcher(fails_at=TextDelta)
    talk = conversation(scripted([[say("Half"), pause(5), say("and more")]]), view=view)
    result = await talk.go("Hi.")
    assert isinstance(talk.failure, BrokenPipeError)
    assert result.reason == "interrupted"
    assert names(view.events) == ["RunStarted", "MessageCommitted", "StepStarted"]


async def test_nobody_is_asked_when_nothing_can_be_shown() -> None:
    terminal = Scripted("y")
    agent = scripted([call("pay")], paying([], approval="ask"))
    await conversation(agent, terminal, view=Watcher(RunEnded)).go("Pay.")
    assert terminal.asked == []
