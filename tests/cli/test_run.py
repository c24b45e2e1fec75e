"""`holdfast run` in this process: how it ends, and what it says beside the answer."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast import Limits, tool
from holdfast.cli import run
from holdfast.cli.controlling_terminal import Tty
from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.output_stream import OutputStream
from holdfast.cli.run import bundled_tools, colored, waiting
from holdfast.config import NAMED_BY_OPTION, RunOptions
from holdfast.errors import ConfigError
from holdfast.events import Action
from holdfast.messages import ToolCall
from holdfast.testing import call, fail, say
from tests.kernel.runs import scripted


@tool(approval="ask")
async def pay() -> str:
    """Pay."""
    return "paid"


@pytest.fixture
def go(monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Run the verb with a model that plays a script, and with nobody at a terminal."""

    def go(*script: Any, max_steps: int = 50, **options: Any) -> int:
        agent = scripted(script, pay, limits=Limits(steps=max_steps))
        monkeypatch.setattr(run, "agent_of", lambda *_: agent)
        return run.main(RunOptions(**{"prompt": "Hi.", "model": "", "model_reason": "", **options}))

    monkeypatch.setattr(Tty, "open", lambda: None)
    monkeypatch.setattr("sys.stdin", None)
    return go


# --- How it ends --------------------------------------------------------------------------------


def test_a_model_that_cannot_be_is_blamed_on_who_named_it() -> None:
    asked: dict[str, Any] = {"prompt": "Hi.", "model": "nope", "bundled_tools": False}
    with pytest.raises(ConfigError, match=r"'nope' names no provider.* \(HOLDFAST_MODEL is set\)$"):
        run.main(RunOptions(**asked, model_reason="HOLDFAST_MODEL is set"))
    with pytest.raises(ConfigError, match=r"'nope' names no provider.*[^)]$"):
        run.main(RunOptions(**asked, model_reason=NAMED_BY_OPTION))


@pytest.mark.parametrize(
    ("script", "options", "code"),
    [
        (["Hello."], {}, ExitCode.FINISHED),
        ([fail("no", status=401)], {}, ExitCode.FAILED),
        ([call("pay")], {}, ExitCode.WAITING),
        ([call("pay"), "Done."], {"approve": "yes"}, ExitCode.FINISHED),
        ([call("pay"), "Well."], {"approve": "deny"}, ExitCode.FINISHED),
        ([call("pay")], {"approve": "yes", "max_steps": 1}, ExitCode.LIMIT),
    ],
)
def test_the_exit_code_says_how_it_ended(
    go: Callable[..., int], script: list[Any], options: dict[str, Any], code: ExitCode
) -> None:
    assert go(*script, **options) == code


def test_what_cannot_be_shown_is_raised(
    go: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stdout:
        monkeypatch.setattr("sys.stdout", stdout)
        with pytest.raises(BrokenPipeError):
            go("Hello.")


def test_without_a_prompt_there_is_nothing_to_do(go: Callable[..., int]) -> None:
    with pytest.raises(ConfigError, match="no prompt"):
        go(prompt="")


# --- What it says -------------------------------------------------------------------------------


def test_a_quiet_run_still_says_what_it_waits_for(
    go: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    go([say("Paying."), call("pay")], quiet=True)
    said = capsys.readouterr()
    assert said.out == "Paying.\n"
    assert said.err == (
        "holdfast: pay waits for an approval: run it in a terminal, or use --yes or --deny\n"
    )


def action(kind: Any, tool: str = "pay") -> Action:
    return Action(kind, ToolCall("c1", tool, "{}"), "{}", "digest")


@pytest.mark.parametrize(
    ("kind", "asked", "do"),
    [
        ("approval", False, "an approval: run it in a terminal, or use --yes or --deny"),
        ("client", False, "an answer: run it in a terminal"),
        ("approval", True, "an approval"),
    ],
)
def test_what_is_waited_for_is_said_with_what_to_do(kind: str, asked: bool, do: str) -> None:
    assert waiting([action(kind), action(kind)], asked) == f"pay waits for {do}"


def test_colours_that_are_asked_for_win_over_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with open(tmp_path / "file", "w") as stream:
        monkeypatch.setenv("NO_COLOR", "1")
        assert OutputStream.of(stream, colored("always")).color
        assert not OutputStream.of(stream, colored("auto")).color
        monkeypatch.delenv("NO_COLOR")
        monkeypatch.setenv("FORCE_COLOR", "1")
        assert OutputStream.of(stream, colored("auto")).color
        assert not OutputStream.of(stream, colored("never")).color


def test_a_current_directory_that_was_removed_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(ConfigError, match="was removed: change to another, or name one with --dir"):
        bundled_tools(RunOptions(model="demo", model_reason=""), pytest.fail)
