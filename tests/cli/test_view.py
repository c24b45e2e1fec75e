"""What people see of a run in a terminal, and what a program reads from a pipe."""

from __future__ import annotations

import io
import os
import pty
import re
from collections.abc import Iterable
from typing import Any, Final

import anyio
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast import Agent, tool
from holdfast.cli.calls import MAX_DIFF_LINES, MAX_PROGRESS_LINES
from holdfast.cli.output_stream import ERASE, OutputStream
from holdfast.cli.run_texts import MAX_PREVIEW_LINES
from holdfast.cli.view import View
from holdfast.events import Event, LimitReached
from holdfast.hooks import Approved
from holdfast.kernel.errors import ConfigError, Failure, classify
from holdfast.kernel.events import (
    Action,
    Compacted,
    Compacting,
    Delivered,
    MessageCommitted,
    Retrying,
    RunEnded,
    RunStarted,
    StepStarted,
    Summary,
    ToolCalled,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    Warned,
)
from holdfast.kernel.messages import (
    File,
    Message,
    Text,
    ToolCall,
    ToolOutcome,
    ToolResult,
    Usage,
    injected,
    note,
    user_message,
)
from holdfast.kernel.model import ArgumentsDelta, CallStarted, ReasoningDelta, TextDelta
from holdfast.kernel.tool import ToolContext
from holdfast.testing.script import call, fail, finish, hang, pause, say, think, usage
from tests.kernel.runs import later, now, scripted

STYLE: Final = re.compile(r"\x1b\[[0-9;]*m")


def seen(written: str) -> str:
    """What stands on a terminal in the end, without its styles."""
    lines = written.split("\n")
    return "\n".join(STYLE.sub("", line.rpartition(ERASE)[2]) for line in lines)


class Clock:
    def __init__(self) -> None:
        self.at = 0.0

    def __call__(self) -> float:
        return self.at


class Screen:
    """A terminal that the answer and everything else are written to."""

    def __init__(self, color: bool = True, width: int = 80, **options: Any) -> None:
        self.stream = io.StringIO()
        self.clock = Clock()
        out = OutputStream(self.stream, terminal=True, color=color, width=width)
        self.view = View(out, out, **{"clock": self.clock, **options})

    @property
    def seen(self) -> str:
        return seen(self.stream.getvalue())

    def show(self, *events: Event) -> str:
        for event in events:
            self.view.show(event)
        return self.seen


class Pipes:
    """Two files, as in `holdfast run … > answer 2> status`."""

    def __init__(self, **options: Any) -> None:
        self.answer, self.status = io.StringIO(), io.StringIO()
        self.view = View(
            OutputStream.of(self.answer, {}), OutputStream.of(self.status, {}), **options
        )

    def show(self, *events: Event) -> tuple[str, str]:
        for event in events:
            self.view.show(event)
        return self.answer.getvalue(), self.status.getvalue()


async def watch(agent: Agent, view: View, *, stop_after: float | None = None) -> None:
    run = agent.run("?")
    if stop_after is not None:
        later(stop_after, run.interrupt)
    async for event in run:
        view.show(event)
    view.end()


def answered(text: str) -> MessageCommitted:
    return MessageCommitted(Message("assistant", (Text(text),), "answer"), 1)


def called(tool: str, arguments: str = "{}", id: str = "c1") -> ToolCalled:
    return ToolCalled(ToolCall(id, tool, arguments))


def started(tool: str, label: str = "", id: str = "c1") -> ToolStarted:
    return ToolStarted(id, tool, label or tool)


def progress(text: str, id: str = "c1") -> ToolProgressed:
    return ToolProgressed(id, "t", "progress", text)


def preview(text: str, id: str = "c1") -> ToolProgressed:
    return ToolProgressed(id, "t", "preview", text)


def finished(
    text: str = "", outcome: ToolOutcome = "ok", seconds: float = 0.0, id: str = "c1"
) -> ToolFinished:
    return ToolFinished(ToolResult(id, "t", (Text(text),), outcome), seconds)


def ended(
    reason: Any = "stop",
    failure: Failure | None = None,
    limit: LimitReached | None = None,
    **summary: Any,
) -> RunEnded:
    return RunEnded(reason, Summary(**summary), failure, limit=limit)


# --- Whole runs ---------------------------------------------------------------------------------


@tool(effect="pure", describe=lambda values: f"Read {values['path']}")
async def read(path: str) -> str:
    """Read a file."""
    return "one\ntwo\nthree\nfour\nfive"


@tool
async def check(context: ToolContext, seconds: float) -> str:
    """Run the tests."""
    await context.progress("collecting")
    await anyio.sleep(seconds)
    await context.progress("3 passed")
    return "3 passed"


def a_run() -> Agent:
    return scripted(
        [
            [
                think("Hmm, what could it be."),
                pause(2.5),
                say("Let me **look**.", chunks=4),
                call("read", path="a.py"),
            ],
            [call("check", seconds=1.5)],
            [say("All is *well*:\n\n- three tests\n", chunks=7), usage(input=1200, output=34)],
        ],
        read,
        check,
    )


async def test_a_whole_run_on_a_terminal() -> None:
    screen = Screen(clock=now)
    await watch(a_run(), screen.view)
    assert (
        screen.seen
        == """\
· thought for 2.5 s

Let me look.

● Read a.py
  ✓
  one
  two
  three
  … 2 more lines
● check(seconds=1.5)
  collecting
  3 passed
  ✓ 1.5 s

All is well:

• three tests

3 steps · 2 tool calls · 1,200 tokens in, 34 out · 4 s
"""
    )


async def test_a_whole_run_into_pipes() -> None:
    pipes = Pipes()
    await watch(a_run(), pipes.view)
    assert pipes.show() == (
        "Let me **look**.\n\nAll is *well*:\n\n- three tests\n",
        """\
● Read a.py
  ✓
  one
  two
  three
  … 2 more lines
● check(seconds=1.5)
  collecting
  3 passed
  ✓ 1.5 s
""",
    )


async def test_a_quiet_run_is_its_answer() -> None:
    screen, pipes = Screen(quiet=True), Pipes(quiet=True)
    await watch(a_run(), screen.view)
    await watch(a_run(), pipes.view)
    assert screen.seen == "Let me look.\n\nAll is well:\n\n• three tests\n"
    assert pipes.show() == ("Let me **look**.\n\nAll is *well*:\n\n- three tests\n", "")


async def test_a_retried_answer_is_void_on_a_terminal_and_never_in_a_pipe() -> None:
    def agent() -> Agent:
        return scripted([["It is **su", fail(status=529)], "It is **sunny**."])

    screen, pipes = Screen(), Pipes()
    await watch(agent(), screen.view)
    await watch(agent(), pipes.view)
    assert (
        re.sub(r"[\d.]+ s\n", "N s\n", screen.seen)
        == """\
It is **su

↻ scripted:model is overloaded; attempt 2 of 10 in N s
  status 529
  The text above is void.

It is sunny.
"""
    )
    answer, status = pipes.show()
    assert answer == "It is **sunny**.\n"
    assert status.startswith("↻ scripted:model is overloaded; attempt 2 of ")
    assert "void" not in status


async def test_an_answer_that_failed_for_good_is_in_no_pipe() -> None:
    """It is kept for people, who have seen it."""
    run = scripted([[say("Half"), fail("no", status=401)]]).run("Hi.")
    screen, pipes = Screen(), Pipes()
    events = [event async for event in run]
    assert screen.show(*events).startswith("Half\n\n✗ ")
    assert pipes.show(*events)[0] == ""


async def test_an_answer_that_a_filter_ended_is_said_to_be_incomplete() -> None:
    run = scripted([[say("Visible"), finish("content_filter")]]).run("Hi.")
    screen, pipes = Screen(), Pipes()
    events = [event async for event in run]
    words = "! The answer is incomplete: the provider's content filter stopped it.\n"
    assert screen.show(*events) == f"Visible\n\n{words}"
    assert pipes.show(*events) == ("Visible\n", words)


async def test_an_interrupted_answer_is_kept() -> None:
    screen, pipes = Screen(), Pipes()
    for view in (screen.view, pipes.view):
        await watch(scripted([["Once **upon", hang()]]), view, stop_after=5)
    assert screen.seen == "Once **upon\n\nInterrupted.\n"
    assert pipes.show() == ("Once **upon\n", "Interrupted.\n")


async def test_a_preview_is_shown_once_also_when_the_call_was_asked_about() -> None:
    @tool(approval="ask", preview=lambda values: "--- x\n+++ x\n@@ -1 +1 @@\n-a\n+b")
    async def edit(path: str) -> str:
        """Edit a file."""
        return "done"

    agent = scripted([call("edit", path="x"), "Done."], edit)
    screen = Screen()
    run = agent.run("?")
    async for event in run:
        screen.view.show(event)
    before = screen.seen
    assert (
        before
        == """\
● edit(path="x")
  --- x
  +++ x
  @@ -1 +1 @@
  -a
  +b
"""
    )
    actions: tuple[Action, ...] = (await run).actions
    resolve = {action.call.id: Approved(action.digest) for action in actions}
    async for event in agent.run(history=run.history, resolve=resolve):
        screen.view.show(event)
    assert screen.seen.startswith(before + '● edit(path="x")\n  ✓ done\n\nDone.\n')


# --- The answer ---------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["a", "a\n", "a\n\n\n", "\n a\r\nb\x1b[2J\u202e", "| a |\n**b**"])
def test_a_program_reads_what_the_model_wrote(text: str) -> None:
    answer, status = Pipes().show(TextDelta(text), answered(text))
    assert answer == text.rstrip("\n") + "\n"
    assert status == ""


def test_messages_are_apart_and_empty_ones_are_not_there() -> None:
    pipes = Pipes()
    answer, _ = pipes.show(answered("a\n"), answered(""), answered("\n"), answered("b"))
    assert answer == "a\n\nb\n"


def test_what_is_not_of_the_model_is_no_answer() -> None:
    messages = [user_message("?"), injected("go on"), note("summarized")]
    assert Pipes().show(*(MessageCommitted(m, 0) for m in messages)) == ("", "")


def test_without_colours_the_marks_stay_and_the_text_is_harmless() -> None:
    screen = Screen(color=False)
    screen.show(TextDelta("**a**\x1b[2J\r"), TextDelta("\nb"))
    screen.view.end()
    assert screen.stream.getvalue() == "**a**\\x1b[2J\nb\n"


def test_text_grows_as_it_comes() -> None:
    screen = Screen()
    assert screen.show(TextDelta("\n\nHel")) == ""
    assert screen.show(TextDelta("lo **wor")) == "Hello"
    assert screen.show(TextDelta("ld** of")) == "Hello world"
    assert screen.show(answered("…"), TextDelta("Next ")) == "Hello world of\n\nNext"


@pytest.mark.parametrize("color", [True, False])
def test_a_line_of_the_answer_ends_between_words(color: bool) -> None:
    screen = Screen(color=color, width=20)
    screen.show(*(TextDelta(f"{word} ") for word in ("one", "two three", "four five", "six")))
    screen.view.end()
    assert screen.seen == "one two three four\nfive six\n"


def test_a_line_is_as_wide_as_the_terminal_has_become(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen(width=20)
    screen.show(TextDelta("one two three four five\n"))
    monkeypatch.setattr(OutputStream, "width", 30)
    screen.show(TextDelta("one two three four five"))
    screen.view.end()
    assert screen.seen == "one two three four\nfive\none two three four five\n"


def test_text_that_goes_on_has_a_whole_line() -> None:
    screen = Screen(width=20)
    screen.show(TextDelta("one two three"), Warned("w"), TextDelta(" four five six"))
    screen.view.end()
    assert screen.seen == "one two three\n\n! w\n\nfour five six\n"


def test_half_a_word_stands_above_what_is_said_after_it() -> None:
    assert Screen().show(TextDelta("Hel"), Warned("w")) == "Hel\n\n! w\n"


def test_text_goes_on_after_something_else_was_said() -> None:
    screen = Screen()
    screen.show(TextDelta("# One"), Warned("look out"), TextDelta(" two\nthree"))
    screen.view.end()
    assert screen.seen == "One\n\n! look out\n\ntwo\nthree\n"
    assert "\x1b[1;4mOne\x1b[0m\n\n" in screen.stream.getvalue()
    assert "\x1b[1;4mtwo\x1b[0m\n" in screen.stream.getvalue()


def test_empty_lines_do_not_pile_up() -> None:
    screen = Screen()
    shown = screen.show(TextDelta("a\n\n"), answered("a\n\n"), Warned("b"), TextDelta("\n\nc "))
    assert shown == "a\n\n! b\n\nc"


def test_an_answer_on_a_terminal_knows_nothing_of_a_status_elsewhere() -> None:
    answer, status = io.StringIO(), io.StringIO()
    view = View(
        OutputStream(answer, terminal=True, color=True, width=80),
        OutputStream(status, terminal=False, color=False, width=80),
    )
    for event in (TextDelta("Hello"), Warned("w"), TextDelta(" world"), answered("…")):
        view.show(event)
    assert (answer.getvalue(), status.getvalue()) == ("Hello world\n", "! w\n")


def test_who_pipes_the_answer_sees_that_it_is_being_written() -> None:
    answer, status, clock = io.StringIO(), io.StringIO(), Clock()
    view = View(
        OutputStream.of(answer, {}),
        OutputStream(status, terminal=True, color=False, width=80),
        clock=clock,
    )
    view.show(TextDelta("Hello"))
    clock.at = 2.0
    view.show(TextDelta(" world"))
    assert (answer.getvalue(), seen(status.getvalue())) == ("", "· writing… 2 s")
    view.show(answered("Hello world"))
    assert (answer.getvalue(), seen(status.getvalue())) == ("Hello world\n", "")


# --- Reasoning and waiting ----------------------------------------------------------------------


def test_reasoning_is_one_line_that_says_how_long() -> None:
    screen = Screen()
    assert screen.show(StepStarted(1, 1, 10)) == "· waiting for the model…"
    assert screen.show(ReasoningDelta("secret ")) == "· thinking…"
    screen.clock.at = 3.2
    assert screen.show(ReasoningDelta("thoughts")) == "· thinking… 3 s"
    screen.clock.at = 12.4
    screen.view.tick()
    assert screen.seen == "· thinking… 12 s"
    assert screen.show(TextDelta("Yes. ")) == "· thought for 12 s\n\nYes."


def test_a_line_is_written_anew_only_when_it_changes() -> None:
    screen = Screen()
    for step in range(1_000):
        screen.clock.at = step / 500
        screen.view.show(ReasoningDelta("x"))
    assert screen.stream.getvalue().count(ERASE) == 2


def test_a_line_that_is_written_anew_fits_the_terminal() -> None:
    screen = Screen(width=12)
    assert screen.show(CallStarted("c1", "a_tool_with_a_long_name")) == "· preparin…"


def test_a_title_of_wide_characters_fits_the_terminal_too() -> None:
    call = ToolCall("c1", "read", '{"path":"読む読む読む読む"}')
    assert Screen(width=24).show(ToolCalled(call), started("read")) == '● read(path="読む読む…\n'


def test_reasoning_is_shown_to_who_wants_it() -> None:
    screen, pipes = Screen(reasoning=True), Pipes(reasoning=True)
    events: list[Event] = [
        ReasoningDelta("\nFirst,\nthen\x1b[2J"),
        ReasoningDelta(" that."),
        TextDelta("Yes."),
        answered("Yes."),
    ]
    assert screen.show(*events) == "First,\nthen\\x1b[2J that.\n\nYes.\n"
    assert "\x1b[2mFirst,\x1b[0m\n" in screen.stream.getvalue()
    assert pipes.show(*events) == ("Yes.\n", "First,\nthen\\x1b[2J that.\n")


def test_a_file_gets_no_line_about_waiting() -> None:
    pipes = Pipes()
    events: list[Event] = [StepStarted(1, 1, 1), ReasoningDelta("x"), TextDelta("a"), answered("a")]
    assert pipes.show(*events) == ("a\n", "")


def test_a_terminal_that_cannot_go_back_gets_whole_lines() -> None:
    stream, clock = io.StringIO(), Clock()
    out = OutputStream(stream, terminal=True, color=False, width=80, cursor=False)
    view = View(out, out, clock=clock)
    view.show(StepStarted(1, 1, 1))
    view.show(ReasoningDelta("x"))
    clock.at = 3.0
    view.show(TextDelta("a"))
    view.show(Compacting(None))
    view.show(Compacting(None, "delta"))
    view.end()
    assert stream.getvalue() == "· thought for 3 s\n\na\n\n· Summarizing…\n"


def test_a_long_call_is_seen_being_written() -> None:
    screen = Screen()
    screen.show(TextDelta("Writing."), CallStarted("c1", "write"))
    screen.clock.at = 4.0
    assert screen.show(ArgumentsDelta("c1", '{"text"')) == "Writing.\n\n· preparing write… 4 s"
    assert screen.show(called("write"), started("write")) == "Writing.\n\n● write()\n"


# --- Calls --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "title"),
    [
        ('{"path": "a.py", "limit": 20}', 't(path="a.py", limit=20)'),
        ("{}", "t()"),
        ("", "t()"),
        ('{"a": {"b": [1, null]}}', 't(a={"b":[1,null]})'),
        ('{"text": "a\\nb\\u001b[2J"}', 't(text="a\\nb\\u001b[2J")'),
        ("[1]", "t([1])"),
        ('{"broken\x1b', 't({"broken\\x1b)'),
        ("\ud800", "t(\\ud800)"),
        ("[" * 50_000, "t(" + "[" * 74 + "…"),
        ('{"a": "' + "x" * 200_000 + '"}', 't({"a": "' + "x" * 67 + "…"),
    ],
)
def test_a_call_is_named_with_what_it_was_given(arguments: str, title: str) -> None:
    assert Screen().show(called("t", arguments), started("t")) == f"● {title}\n"


def test_a_label_says_it_better() -> None:
    assert Screen().show(called("t", '{"a": 1}'), started("t", "Do it")) == "● Do it\n"


@pytest.mark.parametrize(
    ("event", "below", "alone"),
    [
        (finished(), "✓", "✓ t()"),
        (finished(seconds=0.1), "✓", "✓ t()"),
        (finished(seconds=0.34), "✓ 0.3 s", "✓ t(), 0.3 s"),
        (finished(seconds=75), "✓ 75 s", "✓ t(), 75 s"),
        (finished(seconds=200), "✓ 3 min 20 s", "✓ t(), 3 min 20 s"),
        (
            finished("\nno such file\n", "failed", 0.2),
            "✗ failed, 0.2 s: no such file",
            "✗ t(), failed, 0.2 s: no such file",
        ),
        (finished("t failed: no", "failed"), "✗ failed: no", "✗ t(), failed: no"),
        (finished("not today", "refused"), "✗ refused: not today", "✗ t(), refused: not today"),
        (finished("enough", "skipped"), "✗ skipped: enough", "✗ t(), skipped: enough"),
        (finished("", "interrupted", 3.0), "✗ interrupted, 3 s", "✗ t(), interrupted, 3 s"),
        (finished("", "timed_out", 5.0), "✗ timed out, 5 s", "✗ t(), timed out, 5 s"),
    ],
)
def test_how_a_call_ended_is_said_below_it_or_with_its_name(
    event: ToolFinished, below: str, alone: str
) -> None:
    assert Screen().show(called("t"), started("t"), event) == f"● t()\n  {below}\n"
    assert Screen().show(called("t"), event) == f"{alone}\n"


def test_a_result_is_a_few_lines() -> None:
    shown = Screen(width=30).show(called("t"), started("t"), finished("x" * 40 + "\n2\n3\n4\n5"))
    assert shown == "● t()\n  ✓\n  " + "x" * 24 + "…\n  2\n  3\n  … 2 more lines\n"


MADE: Final = "--- a/x\n+++ b/x\n@@ -1,7 +1,7 @@\n a\n b\n c\n-d\n+D\n e\n f\n g"


def test_of_a_change_that_nobody_saw_the_changed_lines_are_shown() -> None:
    screen = Screen(width=30)
    shown = screen.show(called("t"), finished(MADE))
    assert shown == "✓ t()\n" + "".join(f"  {line}\n" for line in MADE.split("\n"))
    assert "\x1b[31m-d\x1b[0m\n" in screen.stream.getvalue()
    shown = Screen(width=30).show(called("t"), finished(MADE + f"\n+{'x' * 40}" * 20))
    assert shown.splitlines()[-2:] == [
        f"  +{'x' * 23}…",
        f"  … {11 + 20 - MAX_DIFF_LINES} more lines",
    ]


def test_a_change_that_was_seen_is_not_said_again() -> None:
    shown = Screen().show(called("t"), preview(MADE), finished(MADE, seconds=1.0))
    assert shown.splitlines()[-2:] == ["   g", "  ✓ 1 s"]


def test_how_a_command_ended_is_shown_where_its_end_is_not() -> None:
    long = finished("1\n2\n3\n4\n[exit code 3, 0.1 s]")
    assert Screen().show(called("t"), long) == (
        "✓ t(): [exit code 3, 0.1 s]\n  1\n  2\n  3\n  … 1 more line\n"
    )
    short = finished("1\n2\n[exit code 3, 0.1 s]")
    assert Screen().show(called("t"), short) == "✓ t()\n  1\n  2\n  [exit code 3, 0.1 s]\n"


def test_a_row_of_a_list_takes_one_line_of_the_terminal() -> None:
    screen = Screen(width=40)
    screen.view.row(f"   1  user      {'word ' * 20}\nmore")
    screen.view.row("   2  assistant short")
    assert screen.seen == "   1  user      word word word word wor…\n   2  assistant short\n"


def test_files_among_a_result_are_named() -> None:
    result = ToolResult("c1", "t", (Text("a"), File("image/png", "b.png"), File("text/plain")))
    shown = Screen().show(called("t"), started("t"), ToolFinished(result, 0.0))
    assert shown == "● t()\n  ✓\n  a\n  [image/png, b.png]\n  [text/plain]\n"


def test_a_progress_bar_is_its_last_state() -> None:
    shown = Screen().show(called("t"), started("t"), progress(" 10%\r 50%\r100%\r\ndone\r\n"))
    assert shown == "● t()\n  100%\n  done\n"


def test_progress_is_shown_without_the_colours_that_a_command_printed() -> None:
    shown = Screen().show(called("t"), started("t"), progress("\x1b[31mred\x1b[0m \x1b[2K\n"))
    assert "red \\x1b[2K" in shown


def test_progress_is_shown_up_to_a_limit() -> None:
    screen = Screen()
    screen.show(called("t"), started("t"))
    some = screen.show(*(progress(f"line {n}") for n in range(MAX_PROGRESS_LINES)))
    assert some.splitlines()[-1] == f"  line {MAX_PROGRESS_LINES - 1}"
    many = screen.show(*(progress(f"more {n}") for n in range(100)))
    assert many == some + "  … (more)\n"
    result = "\n".join(f"line {n}" for n in range(120))
    tail = "".join(f"  line {n}\n" for n in range(115, 120))
    shown = screen.show(finished(f"{result}\n[exit code 2, 1.0 s]", seconds=1.1))
    assert shown == f"{many}{tail}  ✓ [exit code 2, 1.0 s]\n"


def test_what_a_result_ends_with_is_said_unless_it_was_just_seen() -> None:
    begun: list[Event] = [called("t"), started("t"), progress("not found")]
    above = "● t()\n  not found\n"
    code = finished("not found\n[exit code 127, 0.3 s]", seconds=0.3)
    assert Screen().show(*begun, code) == f"{above}  ✓ [exit code 127, 0.3 s]\n"
    assert Screen().show(*begun, finished("2 files", seconds=3)) == f"{above}  ✓ 3 s: 2 files\n"
    assert Screen().show(*begun, finished("not found", seconds=3)) == f"{above}  ✓ 3 s\n"


def test_a_silent_command_says_how_it_ended_too() -> None:
    shown = Screen().show(called("t"), preview("false"), finished("(no output)\n[exit code 1]"))
    assert shown == "● t()\n  false\n  ✓ [exit code 1]\n"


def test_a_silent_call_is_seen_to_run() -> None:
    screen = Screen()
    assert screen.show(called("t"), started("t")) == "● t()\n"
    screen.clock.at = 5.0
    screen.view.tick()
    assert screen.seen == "● t()\n· running… 5 s"
    assert screen.show(progress("half")) == "● t()\n  half\n"
    screen.clock.at = 7.0
    screen.view.tick()
    assert screen.seen == "● t()\n  half\n· running… 7 s"
    assert screen.show(finished("half", seconds=7.2)) == "● t()\n  half\n  ✓ 7.2 s\n"
    screen.view.tick()
    assert screen.seen.endswith("7.2 s\n")


def test_a_call_that_was_left_open_does_not_run_in_the_next_run() -> None:
    screen = Screen()
    shown = screen.show(called("t"), started("t"), ended("requires_action"), RunStarted(1))
    screen.view.tick()
    assert screen.seen == shown


def test_text_is_not_cut_by_a_call_that_runs() -> None:
    screen = Screen()
    screen.show(called("t"), started("t"), TextDelta("Mean"))
    screen.view.tick()
    screen.show(TextDelta("while "))
    screen.view.tick()
    assert screen.seen == "● t()\n\nMeanwhile"


def test_progress_that_comes_at_once_is_limited_too() -> None:
    screen = Screen()
    shown = screen.show(called("t"), started("t"), progress("x\n" * 1_000), progress("y"))
    assert shown == "● t()\n" + "  x\n" * MAX_PROGRESS_LINES + "  … (more)\n"


def test_a_long_preview_says_how_much_more_there_is() -> None:
    diff = "@@ -1 +1 @@\n" + "+x\n" * 100
    shown = Screen().show(called("t"), preview(diff))
    assert (
        shown
        == "● t()\n  @@ -1 +1 @@\n" + "  +x\n" * (MAX_PREVIEW_LINES - 1) + "  … 41 more lines\n"
    )


def test_a_diff_has_its_colours_and_a_list_has_none() -> None:
    screen = Screen()
    screen.show(called("t"), preview("--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\n same"))
    written = screen.stream.getvalue()
    for line in (
        "\x1b[31m-old\x1b[0m",
        "\x1b[32m+new\x1b[0m",
        "\x1b[36m@@ -1 +1 @@\x1b[0m",
        "  same",
    ):
        assert f"{line}\n" in written
    screen = Screen()
    screen.show(called("t"), preview("- buy milk"))
    assert screen.stream.getvalue().endswith("  - buy milk\n")


def test_calls_side_by_side_say_which_they_are() -> None:
    shown = Screen().show(
        called("a", '{"n": 1}', "c1"),
        called("b", '{"n": 2}', "c2"),
        started("a", id="c1"),
        started("b", id="c2"),
        progress("of b", id="c2"),
        progress("of a", id="c1"),
        finished("two", seconds=1.0, id="c2"),
        finished("one\n1", seconds=2.0, id="c1"),
    )
    assert (
        shown
        == """\
● a(n=1)
● b(n=2)
  of b
● a(n=1)
  of a
✓ b(n=2), 1 s: two
✓ a(n=1), 2 s: 1
"""
    )


def test_a_result_behind_other_lines_says_whose_it_is() -> None:
    shown = Screen().show(
        called("a"), started("a"), Warned("w"), finished("one\ntwo", "failed", id="c1")
    )
    assert shown == "● a()\n! w\n✗ a(), failed: one\n  two\n"


def test_a_provider_s_own_call_is_seen_too() -> None:
    call = ToolCall("c1", "web_search", '{"q": "x"}', provider_executed=True)
    shown = Screen().show(ToolCalled(call), finished("found"))
    assert shown == '● web_search(q="x")\n  ✓\n  found\n'


def test_a_call_that_nobody_announced_is_named() -> None:
    assert Screen().show(started("t", id="x"), finished(id="x")) == "● t\n  ✓\n"
    assert Screen().show(finished("r", "refused")) == "✗ t, refused: r\n"


# --- What else happens --------------------------------------------------------------------------


def lines(*events: Event, **options: Any) -> list[str]:
    return Screen(**options).show(*events).splitlines()


def test_compaction_is_said() -> None:
    screen = Screen()
    assert screen.show(Compacting(None)) == "· summarizing…"
    assert screen.show(Compacted(12_000, 3_000, True)) == "· Summarized: 12,000 → 3,000 tokens\n"
    assert lines(Compacted(9, 8, False)) == ["· Shortened old results: 9 → 8 tokens"]


def test_what_is_delivered_is_said() -> None:
    assert lines(Delivered("steering", (user_message("use tabs\nplease"),))) == [
        "→ sent: use tabs\\nplease"
    ]
    assert lines(Delivered("recovery", (injected("go on", "recovery"),))) == [
        "→ the answer reached the length limit: asked it to continue"
    ]


def test_a_failure_says_what_happened_and_what_to_do() -> None:
    failure = Failure("network", "acme:x cannot be reached.", "OSError: no route")
    expected = [
        "✗ acme:x cannot be reached.",
        "  Check the connection, and the address if you set one.",
        "  (network: OSError: no route)",
    ]
    assert lines(ended("error", failure)) == expected
    assert lines(ended("error", failure), quiet=True) == expected
    assert Pipes(quiet=True).show(ended("error", failure)) == ("", "\n".join(expected) + "\n")


def test_a_failure_has_its_facts_and_nothing_twice() -> None:
    failure = Failure("rate_limit", "Slow down.", "ProviderError: 429", status=429)
    assert lines(ended("error", failure))[-1] == "  (rate_limit, 429: ProviderError: 429)"
    wrong = classify(ConfigError("effort is 'huge': use one of …"))
    assert lines(ended("error", wrong)) == ["✗ effort is 'huge': use one of …", "  (config)"]
    assert lines(ended("error")) == ["✗ The run failed."]


@pytest.mark.parametrize("reason", ["stop", "stop_after_tool", "requires_action", "interrupted"])
def test_the_end_of_a_small_run_needs_no_words_in_quiet(reason: str) -> None:
    assert lines(ended(reason), quiet=True) == []
    if reason != "interrupted":
        assert lines(ended(reason)) == []


def test_a_limit_is_said_also_in_quiet() -> None:
    limit = LimitReached("steps", "turn", 5, 5)
    assert lines(ended("limit", limit=limit), quiet=True) == [
        "Stopped: this turn used 5 of 5 steps. Raise it with --max-steps."
    ]
    limit = LimitReached("cost", "turn", 0.75, 0.5)
    assert lines(ended("limit", limit=limit), quiet=True) == [
        "Stopped: this turn used $0.75 of $0.50. Continue to allow the same again, or",
        "  raise limits.cost of the agent.",
    ]


def test_a_conversation_that_is_kept_can_continue_after_a_limit() -> None:
    limit = LimitReached("steps", "turn", 5, 5)
    assert lines(ended("limit", limit=limit), durable=True) == [
        "Stopped: this turn used 5 of 5 steps. /resume continues, and allows the same",
        "  again.",
    ]


def test_the_ctrl_c_that_a_terminal_shows_is_not_on_our_line() -> None:
    screen = Screen()
    screen.show(Warned("w"))
    screen.stream.write("^C")
    screen.view.stopping()
    assert screen.show(ended("interrupted")) == "! w\nInterrupted.\n"


def test_why_an_attempt_failed_is_said_once() -> None:
    def again(attempt: int, message: str = "It is busy.", detail: str = "") -> Retrying:
        return Retrying(attempt, 9, 1.0, 0, "server", message, detail or "ProviderError: no\x1b")

    first = ["↻ It is busy; attempt 2 of 9 in 1 s", "  no\\x1b"]
    second = "↻ It is busy; attempt 3 of 9 in 1 s"
    other = ["↻ It is gone; attempt 4 of 9 in 1 s", "  other"]
    assert lines(again(1), again(2), again(3, "It is gone.", "other"), again(1)) == [
        *first,
        second,
        *other,
        *first,
    ]


def test_the_last_line_says_what_it_took() -> None:
    summary: dict[str, Any] = {
        "steps": 2,
        "tool_calls": 3,
        "tool_errors": 1,
        "usage": Usage(input=1_000, output=200, cache_read=5_000),
        "cost": 0.01234,
        "seconds": 83.2,
    }
    assert lines(ended(**summary)) == [
        "2 steps · 3 tool calls (1 failed) · 6,000 tokens in, 200 out · $0.0123 · 83 s"
    ]
    assert lines(ended(steps=1, seconds=11.0, cost=2.5)) == ["1 step · $2.50 · 11 s"]
    assert lines(ended(steps=1, tool_calls=1)) == ["1 step · 1 tool call · 0 s"]
    assert lines(ended(steps=2, cost=0.0)) == ["2 steps · 0 s"]
    assert Pipes().show(ended(**summary)) == ("", "")
    assert lines(ended(**summary), quiet=True) == []


def test_the_last_line_is_about_all_runs_of_a_conversation() -> None:
    one: dict[str, Any] = {
        "steps": 1,
        "tool_calls": 2,
        "tool_errors": 1,
        "usage": Usage(input=1_000, output=20),
        "cost": 0.01,
        "seconds": 3.0,
    }
    assert lines(ended("requires_action", **one), RunStarted(1), ended(steps=1), ended(**one)) == [
        "2 steps · 2 tool calls (1 failed) · 1,000 tokens in, 20 out · $0.0100 · 3 s",
        "3 steps · 4 tool calls (2 failed) · 2,000 tokens in, 40 out · $0.0200 · 6 s",
    ]


def test_a_warning_is_said_also_in_quiet() -> None:
    assert lines(Warned("one\ntwo"), quiet=True) == ["! one", "  two"]


def test_a_note_is_a_line_of_its_own_and_left_out_in_quiet() -> None:
    screen, quiet = Screen(), Screen(quiet=True)
    for one in (screen, quiet):
        one.view.show(TextDelta("a"))
        one.view.note("stopping …")
        one.view.end()
    assert screen.seen == "a\n\nstopping …\n"
    assert quiet.seen == "a\n"


# --- Any run ------------------------------------------------------------------------------------

BAD: Final = "x\x1b[2J\x9b1m\u202e\r\n\x07"


def test_nothing_from_outside_gives_orders_to_a_terminal() -> None:
    failure = Failure("unknown", BAD, f"detail {BAD}")
    for reasoning in (False, True):
        screen = Screen(color=False, reasoning=reasoning)
        screen.show(
            TextDelta(BAD),
            ReasoningDelta(BAD),
            CallStarted("c1", BAD),
            called(BAD, BAD),
            preview(BAD),
            preview(f"@@ {BAD}\n+{BAD}"),
            started("t", BAD),
            progress(BAD),
            finished(BAD, "failed"),
            finished(BAD, id="c2"),
            ToolFinished(ToolResult("c3", BAD, (File(BAD, BAD),)), 0.0),
            Retrying(1, 3, 1.0, 0, "unknown", BAD),
            Delivered("steering", (user_message(BAD),)),
            Warned(BAD),
            ended("error", failure),
        )
        screen.view.note(BAD)
        screen.view.end()
        written = screen.stream.getvalue().replace(ERASE, "")
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", written)
        assert written.count(r"\x1b[2J\x9b1m\u202e") >= 14


def test_a_line_end_in_a_name_cannot_pretend_to_be_another_line() -> None:
    fake = "ls\n✓ rm -rf /"
    shown = Screen().show(called(fake, '{"a\n": 1}'), started("t", fake), finished(fake, "refused"))
    assert not any(line.startswith("✓") for line in shown.splitlines())


EVENTS: Final = st.sampled_from(
    [
        StepStarted(1, 1, 1),
        TextDelta("text"),
        TextDelta("**bold** and *"),
        TextDelta("line\n"),
        TextDelta("```\n# code"),
        ReasoningDelta("hm\n"),
        CallStarted("c1", "t"),
        ArgumentsDelta("c1", "{}"),
        ArgumentsDelta("unknown", "{}"),
        called("t"),
        called("u", "{", "c2"),
        started("t"),
        started("u", "label", "c2"),
        progress("p\nq"),
        progress("r", "c2"),
        preview("v"),
        finished("f\ng"),
        finished("f", "failed", 1.0, "c2"),
        answered("text"),
        Retrying(1, 3, 0.0, 0, "server", "It failed."),
        Compacting("person"),
        Compacting("person", "delta"),
        Compacted(2, 1, True),
        Delivered("guard", ()),
        Warned("w"),
        ended(),
        ended("error", Failure("internal", "m")),
        ended("interrupted", steps=3),
    ]
)


@given(st.lists(EVENTS), st.booleans(), st.booleans())
@example([TextDelta("text"), RunStarted(1), started("t")], False, False)
def test_whatever_happens_lines_stay_lines(
    events: Iterable[Event], reasoning: bool, quiet: bool
) -> None:
    screen = Screen(reasoning=reasoning, quiet=quiet)
    pipes = Pipes(reasoning=reasoning, quiet=quiet)
    for one in (screen, pipes):
        one.show(*events)
        one.view.end()
        one.view.end()
    shown = screen.seen
    assert shown == "" or shown.endswith("\n")
    assert "\n\n\n" not in shown
    assert not shown.startswith("\n")
    for mark in "●✓✗↻!":
        assert not re.search(rf"\S{mark} ", shown)
    answer, status = pipes.show()
    assert answer == "" or answer.endswith("\n")
    assert ERASE not in status


# --- Real streams -------------------------------------------------------------------------------


def test_two_streams_that_are_one_terminal_keep_their_order() -> None:
    main, other = pty.openpty()
    with (
        os.fdopen(main, "rb", buffering=0) as read,
        os.fdopen(other, "w", buffering=4096) as stdout,
        os.fdopen(os.dup(other), "w", buffering=4096) as stderr,
    ):
        view = View(
            OutputStream.of(stdout, {"NO_COLOR": "1"}), OutputStream.of(stderr, {"NO_COLOR": "1"})
        )
        for event in (TextDelta("a"), Warned("b"), TextDelta("c"), Warned("d"), TextDelta("e")):
            view.show(event)
        view.end()
        data = b""
        while not data.endswith(b"e\r\n"):
            data += read.read(1000)
    assert data.decode() == "a\r\n\r\n! b\r\n\r\nc\r\n\r\n! d\r\n\r\ne\r\n"


def test_a_reader_that_leaves_is_told_of_by_the_event_that_found_out() -> None:
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as stream:
        view = View(OutputStream.of(stream, {}), OutputStream.of(None, {}))
        with pytest.raises(BrokenPipeError):
            view.show(answered("a"))
        view.end()


def test_a_full_disk_is_told_of_by_the_event_that_found_out() -> None:
    with open("/dev/full", "w") as stream:
        view = View(OutputStream.of(stream, {}), OutputStream.of(None, {}))
        with pytest.raises(OSError, match="No space left"):
            view.show(answered("a"))
        view.end()


def test_a_status_that_cannot_be_written_does_not_cost_the_answer() -> None:
    answer = io.StringIO()
    with open("/dev/full", "w") as stream:
        view = View(OutputStream.of(answer, {}), OutputStream.of(stream, {}, needed=False))
        for event in (Warned("a"), answered("b"), Warned("c")):
            view.show(event)
        view.end()
    assert answer.getvalue() == "b\n"


def test_a_stream_without_symbols_gets_plain_ones() -> None:
    data = io.BytesIO()
    status = OutputStream.of(io.TextIOWrapper(data, "ascii", newline=""), {})
    view = View(OutputStream.of(None, {}), status)
    for event in (called("t"), started("t"), finished("a\nb\nc\nd"), Compacted(2, 1, True)):
        view.show(event)
    assert (
        data.getvalue().decode()
        == """\
* t()
  +
  a
  b
  c
  ... 1 more line
- Summarized: 2 -> 1 tokens
"""
    )


def test_a_note_ends_its_lines_between_words() -> None:
    screen = Screen(width=40)
    screen.view.note("http://127.0.0.1:8765: Enter sends, Ctrl-C stops, /help lists more.")
    assert screen.seen.splitlines() == [
        "http://127.0.0.1:8765: Enter sends,",
        "  Ctrl-C stops, /help lists more.",
    ]


def test_a_note_for_a_program_is_one_line() -> None:
    pipes = Pipes()
    pipes.view.note("word " * 40)
    assert pipes.status.getvalue().count("\n") == 1


def test_an_answer_goes_on_with_a_word_after_a_note() -> None:
    screen = Screen(width=40)
    screen.show(TextDelta("one two"))
    screen.view.note("a note")
    screen.show(TextDelta(" three"))
    screen.view.end()
    assert screen.seen == "one two\n\na note\n\nthree\n"
