"""What the environment and the command line say becomes one value, or is refused."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import pytest

from holdfast.cli.command_line import parse
from holdfast.config import RunOptions, chat_options, default_model, run_options, wants_debug
from holdfast.kernel.errors import ConfigError
from holdfast.providers.model_factory import DEMO_NAME
from holdfast.providers.provider_catalog import PROVIDERS

KEY: Final = "sk-0123456789abcdef"


def options(*argv: str, **environ: str) -> RunOptions:
    _, said = parse(["run", *argv])
    return run_options(said, environ)


def refusal(*argv: str, **environ: str) -> str:
    with pytest.raises(ConfigError) as raised:
        options(*argv, **environ)
    return str(raised.value)


# --- The environment ----------------------------------------------------------------------------


def test_an_empty_environment_says_nothing() -> None:
    blank = {"HOLDFAST_MODEL": " ", "HOLDFAST_EFFORT": "", "HOLDFAST_DEBUG": ""}
    assert options("hi", **blank) == options("hi")
    assert not wants_debug(blank)


def test_the_environment_says_what_the_command_line_does_not() -> None:
    environ = {"HOLDFAST_MODEL": " xai:grok-4.7 ", "HOLDFAST_EFFORT": "low"}
    said = options("hi", **environ)
    assert (said.model, said.model_reason, said.effort) == (
        "xai:grok-4.7",
        "HOLDFAST_MODEL is set",
        "low",
    )
    said = options("hi", "-m", "demo", "-e", "high", **environ)
    assert (said.model, said.effort) == ("demo", "high")


def test_an_effort_that_is_none_is_refused_with_those_that_are() -> None:
    assert refusal("hi", HOLDFAST_EFFORT="hihg").startswith(
        "HOLDFAST_EFFORT is 'hihg': use one of none, minimal"
    )


@pytest.mark.parametrize(("value", "wanted"), [("1", True), ("yes", True), ("0", False)])
def test_debugging_is_asked_for_by_a_variable(value: str, wanted: bool) -> None:
    assert wants_debug({"HOLDFAST_DEBUG": value}) is wanted


# --- Who answers --------------------------------------------------------------------------------


def test_without_a_key_the_demo_answers() -> None:
    assert default_model({}) == (DEMO_NAME, "no key in the environment")


@pytest.mark.parametrize(
    "facts", [facts for facts in PROVIDERS.values() if facts.default], ids=lambda facts: facts.name
)
def test_a_key_brings_the_default_model_of_its_provider(facts: Any) -> None:
    for variable in facts.keys:
        found = default_model({variable: KEY})
        assert found == (f"{facts.name}:{facts.default}", f"{variable} is set")


def test_of_several_keys_the_first_provider_wins() -> None:
    environ = {"XAI_API_KEY": KEY, "OPENAI_API_KEY": KEY, "GROQ_API_KEY": KEY}
    model, reason = default_model(environ)
    assert model.startswith("openai:")
    assert reason == "OPENAI_API_KEY is set"


def test_a_provider_without_a_default_is_passed_over() -> None:
    model, _ = default_model({"HF_TOKEN": KEY, "FIREWORKS_API_KEY": KEY, "XAI_API_KEY": KEY})
    assert model.startswith("xai:")


def test_when_only_such_a_provider_is_there_it_is_said_what_is_missing() -> None:
    model, reason = default_model({"OPENROUTER_API_KEY": KEY})
    assert model == DEMO_NAME
    assert reason.startswith("OPENROUTER_API_KEY is set, but")
    assert "openrouter:model" in reason


def test_an_address_in_the_settings_is_not_taken_for_nothing() -> None:
    model, reason = default_model({}, {"ollama": "http://gpu.example"})
    assert model == DEMO_NAME
    assert reason.startswith("the settings have an address for ollama, but no model")
    assert "ollama:model" in reason


def test_an_address_in_the_settings_stands_in_for_a_broken_one_of_the_environment() -> None:
    environ = {"GROQ_API_KEY": KEY, "GROQ_BASE_URL": "no address"}
    assert default_model(environ)[0] == DEMO_NAME
    found = default_model(environ, {"groq": "https://gateway.example"})
    assert found == (f"groq:{PROVIDERS['groq'].default}", "GROQ_API_KEY is set")


def test_a_broken_key_is_the_reason_and_is_not_shown() -> None:
    model, reason = default_model({"ANTHROPIC_API_KEY": f"{KEY}\nmore", "HF_TOKEN": KEY})
    assert model == DEMO_NAME
    assert reason.startswith("ANTHROPIC_API_KEY contains a line break")
    assert KEY not in reason


def test_the_model_that_the_environment_names_wins_over_the_keys() -> None:
    environ = {"HOLDFAST_MODEL": "groq:openai/gpt-oss-20b", "ANTHROPIC_API_KEY": KEY}
    assert default_model(environ) == ("groq:openai/gpt-oss-20b", "HOLDFAST_MODEL is set")


# --- The command line ---------------------------------------------------------------------------


def test_a_bare_run_has_the_defaults() -> None:
    assert options() == RunOptions(model=DEMO_NAME, model_reason="no key in the environment")


def test_everything_that_can_be_said_arrives(tmp_path: Path) -> None:
    said = (
        *("why is", "it", "-m", "xai:grok-4.7", "-e", "low", "-t", "a:b", "-t", "c:d"),
        *("--no-tools", "-d", str(tmp_path), "-i", "be brief", "-f", "1.png", "-f", "2.txt"),
        *("-y", "--json", "-q", "--reasoning", "--max-steps", "7"),
        *("--color", "never", "blue?"),
    )
    assert options(*said) == RunOptions(
        prompt="why is it blue?",
        model="xai:grok-4.7",
        model_reason="chosen by --model",
        effort="low",
        tools=("a:b", "c:d"),
        bundled_tools=False,
        dir=str(tmp_path),
        instructions="be brief",
        files=("1.png", "2.txt"),
        approve="yes",
        json=True,
        quiet=True,
        reasoning=True,
        max_steps=7,
        color="never",
    )


def test_a_call_may_be_denied_beforehand() -> None:
    assert options("--deny").approve == "deny"


def test_the_command_line_wins_over_the_environment() -> None:
    environ = {"HOLDFAST_MODEL": "demo", "HOLDFAST_EFFORT": "low"}
    assert (options(**environ).model, options(**environ).effort) == ("demo", "low")
    said = options("-m", "xai:grok-4.7", "-e", "max", **environ)
    assert (said.model, said.effort) == ("xai:grok-4.7", "max")


# --- Instructions -------------------------------------------------------------------------------


def test_instructions_come_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "be.md").write_text("Be brièf.\n", "utf-8")
    assert options("-i", f"@{tmp_path}/be.md").instructions == "Be brièf.\n"


def test_instructions_may_be_empty_or_begin_with_an_at() -> None:
    assert options("-i", "").instructions == ""
    assert options("-i", "@@home, be brief").instructions == "@home, be brief"


def test_instructions_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    (tmp_path / "picture").write_bytes(b"\x89PNG\xff")
    assert f"{tmp_path}/none cannot be read: No such file" in refusal("-i", f"@{tmp_path}/none")
    assert "written as @@" in refusal("-i", "@home")
    assert "cannot be read" in refusal("-i", f"@{tmp_path}")
    assert "picture is not UTF-8 text" in refusal("-i", f"@{tmp_path}/picture")


# --- What cannot be right -----------------------------------------------------------------------


def test_a_directory_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert (
        refusal("-d", f"{tmp_path}/none")
        == f"--dir: {tmp_path}/none does not exist: name a directory that exists"
    )
    assert (
        refusal("-d", f"{tmp_path}/file")
        == f"--dir: {tmp_path}/file is not a directory: name a directory that exists"
    )


@pytest.mark.parametrize(
    ("argv", "what"), [(["{}"], "the prompt"), (["-m", "{}"], "--model"), (["-i{}"], "--inst")]
)
def test_bytes_that_are_no_text_are_refused(argv: list[str], what: str) -> None:
    broken = os.fsdecode(b"caf\xe9")
    assert refusal(*(word.format(broken) for word in argv)).startswith(what)


# --- The keys of the line editor ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "inputrc", "keys"),
    [
        ({}, None, "emacs"),
        ({"EDITOR": "/usr/bin/nvim -f"}, None, "vi"),
        ({"EDITOR": "nano"}, None, "emacs"),
        ({"EDITOR": "vi", "VISUAL": "emacs"}, None, "emacs"),
        ({}, "set editing-mode emacs\n  set editing-mode vi\n", "vi"),
        ({"EDITOR": "vim"}, "set editing-mode emacs\n", "emacs"),
        ({"EDITOR": "vim"}, "# set editing-mode emacs\n", "vi"),
        ({"HOLDFAST_KEYS": "emacs", "EDITOR": "vim"}, "set editing-mode vi\n", "emacs"),
        ({"HOLDFAST_KEYS": "vi"}, None, "vi"),
    ],
)
def test_the_keys_are_those_of_other_programs_unless_they_are_named(
    tmp_path: Path, environ: dict[str, str], inputrc: str | None, keys: str
) -> None:
    file = tmp_path / "inputrc"
    if inputrc is not None:
        file.write_text(inputrc)
    _, arguments = parse(["chat"])
    assert chat_options(arguments, {"INPUTRC": str(file), **environ}).keys == keys


def test_keys_that_are_neither_are_refused() -> None:
    _, arguments = parse(["chat"])
    with pytest.raises(ConfigError, match="HOLDFAST_KEYS is 'nano': use vi or emacs"):
        chat_options(arguments, {"HOLDFAST_KEYS": "nano"})
