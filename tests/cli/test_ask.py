"""Asking somebody at a terminal what a run waits for."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from holdfast import Agent, RunResult, Tool, approve, tool
from holdfast.cli.ask import (
    ApprovalMode,
    Asker,
    approval_text,
    laid_out,
    parse_answer,
    question_text,
)
from holdfast.cli.controlling_terminal import Tty
from holdfast.events import Action
from holdfast.hooks import Deny
from holdfast.kernel.decide import Approved
from holdfast.messages import ToolCall
from holdfast.testing import ScriptedModel, call, call_raw
from holdfast.tools.ask_user import Question, QuestionOption, UserAnswer, ask_user
from tests.cli.test_tty import Person


class Scripted:
    """A terminal at which somebody says these things, one after the other, and then Ctrl-D."""

    def __init__(self, *lines: str) -> None:
        self._lines = list(lines)
        self.shown = ""
        self.asked: list[str] = []

    def write(self, text: str) -> None:
        self.shown += text

    async def ask(self, question: str) -> str | None:
        self.shown += question
        self.asked.append(question)
        return self._lines.pop(0) if self._lines else None

    @property
    def left(self) -> list[str]:
        return self._lines


@tool(approval="ask")
async def delete(path: str) -> str:
    """Delete a file."""
    return f"deleted {path}"


@tool(approval="ask", preview=lambda values: f"- {values['path']}\n+ nothing")
async def edit(path: str) -> str:
    """Edit a file."""
    return "edited"


locate = Tool(name="locate", schema={"properties": {"what": {"type": "string"}}})


async def waiting(*calls: Any) -> RunResult:
    agent = Agent(model=ScriptedModel([list(calls)]), tools=[delete, edit, locate, ask_user()])
    result = await agent.run("Tidy up.")
    assert result.reason == "requires_action"
    return result


async def actions(*calls: Any) -> Sequence[Action]:
    return (await waiting(*calls)).actions


def silent(_: str) -> None:
    raise AssertionError("there was nothing to note")


async def said_to(
    terminal: Scripted | None, *calls: Any, answers: ApprovalMode = "ask"
) -> list[Any]:
    """What each of these calls is answered with, in their order; None for no answer."""
    asked = await actions(*calls)
    said = await Asker(terminal, answers, silent).resolve(asked)
    return [said.get(action.call.id) for action in asked]


# --- Approvals ----------------------------------------------------------------------------------


@pytest.mark.parametrize("yes", ["y", "yes", " Y ", "YES"])
async def test_yes_approves_what_was_shown(yes: str) -> None:
    (action,) = await actions(call("delete", path="a.txt"))
    terminal = Scripted(yes)

    said = await Asker(terminal, "ask", silent).resolve([action])

    assert said == {action.call.id: approve(action)}
    assert terminal.shown == (
        "\ndelete wants to run with:\n  path: a.txt\n"
        "Allow? [y]es, [n]o, [a]lways for delete in this run, or type what to do instead: "
    )


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("n", "they gave no reason"),
        ("No", "they gave no reason"),
        ("  move it to the bin ", "move it to the bin"),
        ("yes please", "yes please"),  # who writes a sentence does not just agree
        ("ya", "ya"),
    ],
)
async def test_anything_but_yes_denies(line: str, reason: str) -> None:
    assert await said_to(Scripted(line), call("delete", path="a.txt")) == [Deny(reason)]


async def test_an_empty_line_asks_again() -> None:
    terminal = Scripted("", "  ", "n")
    assert await said_to(terminal, call("delete", path="a")) == [Deny("they gave no reason")]
    assert len(terminal.asked) == 3


async def test_each_approval_is_asked_for() -> None:
    terminal = Scripted("n", "not this one", "n")
    calls = [call("delete", path=name) for name in "abc"]
    said = await said_to(terminal, *calls)
    assert [one.reason for one in said] == [
        "they gave no reason",
        "not this one",
        "they gave no reason",
    ]
    assert [f"path: {name}\n" in terminal.shown for name in "abc"] == [True] * 3


async def test_always_is_for_one_tool_and_says_so_each_time() -> None:
    first = await actions(
        call("delete", path="a"), call("delete", path="b"), call("edit", path="c")
    )
    second = await actions(call_raw("delete", '{"path":"d"}', id="later"))
    terminal = Scripted("a", "n")
    notes: list[str] = []
    asker = Asker(terminal, "ask", notes.append)

    said = await asker.resolve(first)
    again = await asker.resolve(second)

    assert list(said.values()) == [
        approve(first[0]),
        approve(first[1]),
        Deny("they gave no reason"),
    ]
    assert list(again.values()) == [approve(second[0])]
    assert notes == ["delete is allowed, as you chose before."] * 2
    assert len(terminal.asked) == 2


async def test_ctrl_d_leaves_everything_unanswered() -> None:
    asked = await actions(call("delete", path="a"), call("edit", path="b"))
    terminal = Scripted("always")
    asker = Asker(terminal, "ask", silent)
    assert await asker.resolve(asked) == {}
    assert await asker.resolve(asked) == {}  # also what was said for always
    assert len(terminal.asked) == 3


async def test_a_preview_is_shown_unless_it_was_before() -> None:
    (action,) = await actions(call("edit", path="a.txt"))
    assert approval_text(action, preview_seen=False) == (
        '\nedit wants to run: {"path":"a.txt"}\n  | - a.txt\n  | + nothing\n'
    )
    assert approval_text(action, preview_seen=True) == "\n"
    terminal = Scripted("y")
    await Asker(terminal, "ask", silent, previews_seen=True).resolve([action])
    assert "nothing" not in terminal.shown


async def test_of_several_calls_each_preview_is_shown_where_it_is_asked_about() -> None:
    asked = await actions(call("edit", path="a.txt"), call("edit", path="b.txt"))
    terminal = Scripted("y", "n")
    await Asker(terminal, "ask", silent, previews_seen=True).resolve(asked)
    first, second = terminal.shown.split("Allow?")[:2]
    assert "  | - a.txt\n" in first
    assert "  | - b.txt\n" in second


async def test_a_call_that_comes_back_with_other_arguments_is_asked_about_again() -> None:
    (action,) = await actions(call("delete", path="a"))
    terminal = Scripted("always", "n")
    asker = Asker(terminal, "ask", silent)
    await asker.resolve([action])
    assert await asker.resolve([action]) == {action.call.id: Deny("they gave no reason")}


async def test_who_is_asked_about_a_call_that_may_have_been_done_is_told_so() -> None:
    (first,) = await actions(call("delete", path="a"))
    terminal = Scripted("a", "y")
    asker = Asker(terminal, "ask", silent)
    await asker.resolve([first])
    lost = structs.replace(first, call=structs.replace(first.call, id="lost"), again=True)
    assert "may have" not in terminal.shown
    assert isinstance((await asker.resolve([lost]))["lost"], Approved)
    assert "delete was started before and may have completed: allow it only if" in terminal.shown
    assert "always" not in terminal.asked[1]


async def test_a_call_that_comes_back_with_other_arguments_is_not_approved_for_ever() -> None:
    (action,) = await actions(call("delete", path="a"))
    asker = Asker(None, "yes", silent)
    assert await asker.resolve([action]) == {action.call.id: approve(action)}
    denied = await asker.resolve([action])
    assert denied == {action.call.id: Deny("its arguments changed each time")}


@pytest.mark.parametrize(
    "preview", ["\n".join(f"+{number}" for number in range(100)), "x" * 500 + "; rm -rf /"]
)
async def test_what_was_not_seen_of_a_preview_can_be_seen_before_it_is_agreed_to(
    preview: str,
) -> None:
    (action,) = await actions(call("edit", path="a.txt"))
    action = structs.replace(action, preview=preview)
    terminal = Scripted("v", "y")
    said = await Asker(terminal, "ask", silent, previews_seen=True).resolve([action])
    assert "[v]iew all of it" in terminal.shown
    assert all(f"  | {line}\n" in terminal.shown for line in preview.splitlines())
    assert said == {action.call.id: approve(action)}


@pytest.mark.parametrize(
    ("wants", "shown"),
    [(call("edit", path="a.txt"), "  | - a.txt\n"), (call("delete", path="a"), "  path: a\n")],
)
async def test_what_was_seen_can_be_seen_again(wants: Any, shown: str) -> None:
    (action,) = await actions(wants)
    terminal = Scripted("V", "y")
    said = await Asker(terminal, "ask", silent).resolve([action])
    assert terminal.shown.count(shown) == 2
    assert said == {action.call.id: approve(action)}


async def test_beside_a_preview_the_arguments_are_brief() -> None:
    (action,) = await actions(call("edit", path="x" * 1_000))
    line = approval_text(action, preview_seen=False).strip().splitlines()[0]
    assert len(line) < 130
    assert line.endswith("…")


@pytest.mark.parametrize("preview", [None, "", "\n"])
async def test_without_a_preview_nothing_is_left_out(preview: str | None) -> None:
    (action,) = await actions(call("delete", path="x" * 100_000 + "the end"))
    action = structs.replace(action, preview=preview)
    assert "the end" in approval_text(action, preview_seen=True)


# --- Without a person ---------------------------------------------------------------------------

MIXED = (
    call("delete", path="a"),
    call("locate", what="me"),
    call("ask_user", questions=[{"question": "Why?"}]),
)


async def test_without_a_terminal_nothing_is_answered() -> None:
    assert await said_to(None, *MIXED) == [None, None, None]


async def test_yes_approves_and_leaves_the_rest_unanswered() -> None:
    asked = await actions(*MIXED)
    said = await Asker(None, "yes", silent).resolve(asked)
    assert said == {asked[0].call.id: approve(asked[0])}


async def test_deny_denies_and_leaves_the_rest_unanswered() -> None:
    said = await said_to(None, *MIXED, answers="deny")
    assert said == [Deny("denied by --deny"), None, None]


@pytest.mark.parametrize("answers", ["yes", "deny"])
async def test_a_fixed_answer_is_for_approvals_alone(answers: ApprovalMode) -> None:
    terminal = Scripted("here", "because")
    said = await said_to(terminal, *MIXED, answers=answers)
    assert said[1:] == ["here", 'Why? → in their own words: "because"']
    assert len(terminal.asked) == 2


async def test_what_comes_by_itself_is_not_asked_for() -> None:
    child = Action("child", ToolCall("c", "wait_agents", "{}"), "{}", "digest")
    assert await Asker(Scripted("no"), "ask", silent).resolve([child]) == {}


async def test_answers_are_what_a_run_takes() -> None:
    result = await waiting(*MIXED)
    said = await Asker(Scripted("y", "here", "because"), "ask", silent).resolve(result.actions)
    agent = Agent(model=ScriptedModel(["Done."]), tools=[delete, locate, ask_user()])

    done = await agent.run(history=result.history, resolve=said)

    made = {one.tool: one.text for message in done.history for one in message.results}
    assert made == {
        "delete": "deleted a",
        "locate": "here",
        "ask_user": 'Why? → in their own words: "because"',
    }


# --- Questions ----------------------------------------------------------------------------------

ONE = Question(
    "Which?",
    options=(QuestionOption("Red"), QuestionOption("Green"), QuestionOption("Blue, light")),
)
MANY = Question("Which?", options=ONE.options, multiple=True)
FREE = Question("Why?")


@pytest.mark.parametrize(
    ("question", "line", "answer"),
    [
        (ONE, "2", UserAnswer(("Green",))),
        (ONE, " 3 ", UserAnswer(("Blue, light",))),
        (ONE, "green", UserAnswer(("Green",))),
        (ONE, "blue, LIGHT", UserAnswer(("Blue, light",))),
        (ONE, "something else", UserAnswer(text="something else")),
        (ONE, "red, green", UserAnswer(text="red, green")),
        (ONE, "2, but darker", UserAnswer(text="2, but darker")),
        (MANY, "1,3", UserAnswer(("Red", "Blue, light"))),
        (MANY, "3 1, 3,", UserAnswer(("Blue, light", "Red"))),
        (MANY, "green, red,green", UserAnswer(("Green", "Red"))),
        (MANY, "red, yellow", UserAnswer(text="red, yellow")),
        (FREE, "1", UserAnswer(text="1")),
        (FREE, "1, 2", UserAnswer(text="1, 2")),
        (ONE, "9" * 5_000, UserAnswer(text="9" * 5_000)),
        (ONE, ",", UserAnswer(text=",")),
    ],
)
def test_a_number_a_label_or_words_are_understood(
    question: Question, line: str, answer: UserAnswer
) -> None:
    assert parse_answer(question, line) == answer


@pytest.mark.parametrize(
    ("question", "line", "why"),
    [
        (ONE, "4", "from 1 to 3"),
        (ONE, "0", "from 1 to 3"),
        (MANY, "1, 4", "from 1 to 3"),
        (ONE, "1,2", "Only one"),
        (ONE, "", "The answer is empty"),
        (FREE, "  ", "The answer is empty"),
    ],
)
def test_what_is_hardly_meant_is_asked_about(question: Question, line: str, why: str) -> None:
    understanding = parse_answer(question, line)
    assert isinstance(understanding, str)
    assert why in understanding


def test_a_label_that_is_a_number_is_that_label() -> None:
    question = Question("How many?", options=(QuestionOption("2"), QuestionOption("1")))
    assert parse_answer(question, "1") == UserAnswer(("1",))


@given(st.text(), st.booleans(), st.lists(st.text(min_size=1), max_size=6))
def test_every_line_is_an_answer_or_a_word_about_it(
    line: str, multiple: bool, labels: list[str]
) -> None:
    question = Question("Which?", "", tuple(map(QuestionOption, labels)), multiple)
    answer = parse_answer(question, line)
    if isinstance(answer, str):
        assert not line.strip() or labels
    else:
        assert bool(answer.chosen) != bool(answer.text)
        assert set(answer.chosen) <= set(labels)
        assert multiple or len(answer.chosen) <= 1


def asks(*questions: dict[str, Any]) -> Any:
    return call("ask_user", questions=list(questions))


async def test_questions_are_asked_one_after_the_other_with_their_options() -> None:
    terminal = Scripted("2", "Ada")
    options = [{"label": "SQLite", "description": "one file"}, {"label": "PostgreSQL"}]
    said = await said_to(
        terminal,
        asks(
            {"question": "Which database?", "header": "Storage", "options": options},
            {"question": "Who are you?"},
        ),
    )
    assert said == ['Which database? → PostgreSQL\nWho are you? → in their own words: "Ada"']
    assert terminal.shown == (
        "\nStorage: Which database?\n  1. SQLite (one file)\n  2. PostgreSQL\n"
        "A number, or your own answer: "
        "\nWho are you?\nYour answer: "
    )


@pytest.mark.parametrize(
    ("lines", "answer"),
    [
        (["", ""], "no answer"),
        (["", "2"], "Green"),
        (["7", "7"], 'in their own words: "7"'),
        (["7", ""], "no answer"),
        (["1 2", "1"], "Red"),
    ],
)
async def test_what_is_hardly_meant_is_asked_for_once_more(lines: list[str], answer: str) -> None:
    terminal = Scripted(*lines)
    question = {"question": "Which?", "options": [{"label": "Red"}, {"label": "Green"}]}
    assert await said_to(terminal, asks(question)) == [f"Which? → {answer}"]
    assert terminal.left == []


async def test_ctrl_d_at_a_question_leaves_it_open() -> None:
    assert await said_to(Scripted("so"), asks({"question": "A?"}, {"question": "B?"})) == [None]


async def test_a_tool_of_the_client_is_answered_with_a_line() -> None:
    terminal = Scripted("", " Oslo ")
    assert await said_to(terminal, call("locate", what="me")) == ["Oslo"]
    assert terminal.shown.startswith("\nlocate needs an answer to:\n  what: me\nYour answer: ")


async def test_another_tool_that_is_named_like_ours_is_answered_with_a_line() -> None:
    arguments = '{"questions":"none"}'
    theirs = Action("client", ToolCall("c", "ask_user", arguments), arguments, "digest")
    terminal = Scripted("fine")
    assert await Asker(terminal, "ask", silent).resolve([theirs]) == {"c": "fine"}
    assert "  questions: none\n" in terminal.shown


# --- What is shown is what it is ----------------------------------------------------------------


def laid(**arguments: Any) -> str:
    return laid_out(json.dumps(arguments))


def test_arguments_are_laid_out_for_people() -> None:
    assert laid(path="a b", times=2, where={"in": ["x", None]}, text="one\ntwo") == (
        '  path: a b\n  times: 2\n  where: {"in": ["x", null]}\n  text:\n  | one\n  | two\n'
    )
    assert laid() == "  nothing\n"
    assert laid(text="\0\ue000") == "  text: \\x00\ue000\n"
    assert laid(text="\ue0000041") == "  text: \ue0000041\n"


def test_arguments_that_are_nested_too_deeply_are_shown_as_they_are() -> None:
    deep = '{"a":' + "[" * 100_000 + "]" * 100_000 + "}"
    assert laid_out(deep) == f"  | {deep}\n"


@given(st.dictionaries(st.text(min_size=1), st.text(st.characters(codec=None)), max_size=3))
def test_no_argument_gives_orders_to_the_terminal_or_looks_like_another(
    arguments: dict[str, str],
) -> None:
    lines = laid(**arguments).split("\n")
    assert all(
        char.isprintable() or char in "\t" for line in lines for char in line if char < "\xa0"
    )
    quoted = sum(line.startswith("  | ") for line in lines)
    assert len(lines) - 1 - quoted <= max(1, len(arguments))


def test_a_question_gives_no_orders_to_the_terminal() -> None:
    odd = "\x1b[2J\r\n\x9b"
    shown = question_text(Question(odd, odd, (QuestionOption(odd, odd),)))
    assert "\x1b" not in shown
    assert "\x9b" not in shown
    assert "\r" not in shown


# --- At a real terminal -------------------------------------------------------------------------


async def test_somebody_at_a_terminal_is_asked() -> None:
    person = Person()
    asked = await actions(call("delete", path="a"), asks({"question": "Why?"}))
    answers: list[Any] = []

    async def resolve() -> None:
        with Tty(person.terminal) as terminal:
            answers.append(await Asker(terminal, "ask", silent).resolve(asked))

    person.types("y\ny\n")  # too early to be an approval
    await person.sees("y\r\ny\r\n")
    async with anyio.create_task_group() as group:
        group.start_soon(resolve)
        await person.sees("instead: ")
        person.types("keep it\n")
        await person.sees("Your answer: ")
        person.types("because\n")
    person.hangs_up()
    assert list(answers[0].values()) == [Deny("keep it"), 'Why? → in their own words: "because"']
