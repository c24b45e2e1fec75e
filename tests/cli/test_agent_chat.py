"""`agent.chat()`: a chat with an agent of a program, at a terminal and without one."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from holdfast import Agent, RunResult, tool
from holdfast.errors import ConfigError
from holdfast.kernel.messages import Message
from holdfast.testing import ScriptedModel, call
from tests.cli.person import sitting_at_python

PROGRAM = """
from holdfast import Agent, tool

agent = Agent("demo", name="tester")
history = agent.chat_sync()
print("ended with", " / ".join(message.text for message in history if message.kind == "prompt"))
"""


@tool(approval="ask")
def pay(amount: int) -> str:
    """Pay an amount."""
    print("printed by the tool")
    return f"paid {amount}"


def cashier() -> Agent:
    script = ["Hello.", call("pay", amount=3), "It is paid."]
    return Agent(ScriptedModel(script), name="cashier", tools=[pay])


def lines(history: tuple[Message, ...]) -> list[str]:
    return [f"{one.kind}: {one.text}" for one in history]


def types(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))


def test_each_line_is_a_prompt_or_an_answer_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    types(monkeypatch, "hi\n\npay 3\ny\n")
    history = cashier().chat_sync()
    shown = capsys.readouterr()
    assert [line for line in shown.out.splitlines() if line] == ["Hello.", "It is paid."]
    assert "pay wants to run with:\n  amount: 3" in shown.err
    assert "printed by the tool" in shown.err
    assert lines(history)[:3] == ["prompt: hi", "answer: Hello.", "prompt: pay 3"]
    assert lines(history)[-1] == "answer: It is paid."


def test_a_chat_continues_a_history(monkeypatch: pytest.MonkeyPatch) -> None:
    types(monkeypatch, "And again?\n")
    agent = Agent(ScriptedModel(["Once.", "Twice."]))
    before = agent.run_sync("How often?").history
    assert lines(agent.chat_sync(history=before)) == [
        *lines(before),
        "prompt: And again?",
        "answer: Twice.",
    ]


def test_a_question_that_is_left_open_can_be_answered_by_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    types(monkeypatch, "hi\npay 3\n")
    agent = cashier()
    history = agent.chat_sync()
    result: RunResult = agent.run_sync(history=history)
    assert result.reason == "requires_action"
    assert [action.call.tool for action in result.actions] == ["pay"]


def test_a_chat_without_any_prompt_has_no_history(monkeypatch: pytest.MonkeyPatch) -> None:
    types(monkeypatch, "")
    assert cashier().chat_sync() == ()


async def test_a_program_with_an_event_loop_is_asked_to_await() -> None:
    with pytest.raises(ConfigError, match=r"write `await agent\.chat\(…\)`"):
        cashier().chat_sync()


def test_ctrl_c_interrupts_the_answer_and_not_the_chat(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(PROGRAM)
    with sitting_at_python(tmp_path, "app.py") as person:
        person.sees("tester: Enter sends, Ctrl-C stops, Ctrl-D ends, /help lists all commands.\n>")
        person.says("slowly say one two three four, then wait 10 minutes")
        person.sees("\none two")
        person.types("\x03")
        person.sees("Interrupted.")
        person.says("say done")
        person.sees("> say done\n\ndone\n>")
        person.says("/messages")
        person.sees("4  user      say done")
        person.types("\x04")
        assert person.ended() == 0
        assert "ended with slowly say one two three four, then wait 10" in person.seen
