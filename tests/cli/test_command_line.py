"""What is said on the command line is understood, or refused with what to do."""

from __future__ import annotations

from argparse import Namespace

import pytest

from holdfast.cli.command_line import VERBS, parse
from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.parsers.argument_parser import UsageError
from holdfast.cli.parsers.shared_options import COLORS, EFFORTS
from holdfast.config import Color
from holdfast.kernel import model


def run(*argv: str) -> Namespace:
    verb, said = parse(["run", *argv])
    assert verb == "run"
    return said


def refusal(*argv: str) -> str:
    with pytest.raises(UsageError) as raised:
        parse(argv)
    return str(raised.value)


def help_of(*argv: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as left:
        parse([*argv, "--help"])
    assert not left.value.code
    return capsys.readouterr().out


# --- Words and options --------------------------------------------------------------------------


def test_options_may_stand_before_between_and_behind_the_words() -> None:
    said = run("why", "--json", "is", "-m", "demo", "the sky", "-q", "blue?")
    assert said.prompt == ["why", "is", "the sky", "blue?"]
    assert (said.json, said.quiet, said.model) == (True, True, "demo")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--", "--json"], ["--json"]),
        (["--json", "--", "-x", "--yes"], ["-x", "--yes"]),
        (["a", "--json", "b", "--", "-y", "--", "c"], ["a", "b", "-y", "--", "c"]),
        (["-", "--json"], ["-"]),
        (["-5", "degrees"], ["-5", "degrees"]),
        (["- one\n- two"], ["- one\n- two"]),
        ([], []),
    ],
)
def test_what_is_a_word_stays_one(argv: list[str], words: list[str]) -> None:
    said = run(*argv)
    assert (said.prompt or []) == words
    assert not said.yes


def test_short_options_stand_together_and_beside_their_value() -> None:
    said = run("-qy", "-mdemo", "-e", "low", "--dir=.", "hello")
    assert (said.quiet, said.yes, said.model, said.effort) == (True, True, "demo", "low")


def test_what_may_be_repeated_is_kept_in_order() -> None:
    said = run("-t", "one:a", "x", "-f", "1.txt", "--tools", "two:b", "--file", "2.txt")
    assert said.tools == ["one:a", "two:b"]
    assert said.file == ["1.txt", "2.txt"]


@pytest.mark.parametrize(
    "steps", ["0", "-1", "100001", "9" * 5_000, "1e3", "1_0", "٣", "", " 3", "many"]
)
def test_a_number_of_steps_that_makes_no_sense_is_refused(steps: str) -> None:
    assert "not a number from 1 to 100,000" in refusal("run", f"--max-steps={steps}")


@pytest.mark.parametrize("steps", ["1", "100000"])
def test_a_number_of_steps_is_taken(steps: str) -> None:
    assert run("--max-steps", steps).max_steps == int(steps)


@pytest.mark.parametrize("option", ["--model", "--tools", "--dir", "--file", "--chat"])
def test_an_empty_value_is_refused(option: str) -> None:
    assert f"{option}: is empty" in refusal("run", option, "", "hello")


def test_instructions_may_be_empty() -> None:
    assert run("-i", "").instructions == ""


def test_yes_and_deny_exclude_each_other() -> None:
    assert "not allowed with" in refusal("run", "hello", "--yes", "--deny")


# --- Guesses ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["rnu"], "unknown verb 'rnu': did you mean run?"),
        (["RUN"], "did you mean run?"),
        (["modles", "groq"], "did you mean models?"),
        (["why is it blue?"], "to ask a model, holdfast run 'why is it blue?'"),
        (["run it again"], "to ask a model, holdfast run 'run it again'"),
        (["explain", "this code"], "to ask a model, holdfast run explain 'this code'"),
        (["tell me " * 50], 'to ask a model, holdfast run "…"'),
        (["two\nlines"], 'to ask a model, holdfast run "…"'),
        ([""], "unknown verb '': use serve, worker, run, chat, models"),
        (["--json", "run", "hello"], "--json goes after the verb: holdfast run --json"),
        (["--model=demo", "hello"], "--model goes after the verb: holdfast run --model"),
        (["--verison"], "unknown option --verison (see holdfast --help)"),
        (["run", "--modle=demo"], "unknown option --modle: did you mean --model?"),
        (["run", "--mod", "demo"], "unknown option --mod: did you mean --model?"),
        (["run", "-z"], "unknown option -z (see holdfast run --help)"),
        (["run", "-e", "hihg"], "'hihg' is not one of none, minimal, low"),
        (["run", "-e", "hihg"], "did you mean high?"),
        (["run", "-m"], "-m/--model: expected one argument (see holdfast run --help)"),
        (["models", "groq", "xai"], "'xai' is an unexpected argument"),
        (["completion", "bsh"], "did you mean bash?"),
        (["completion"], "SHELL"),
        (["help", "modles"], "did you mean models?"),
    ],
)
def test_what_is_not_understood_is_refused_with_what_was_meant(argv: list[str], said: str) -> None:
    assert said in refusal(*argv)


def test_a_refusal_is_one_line() -> None:
    assert "\n" not in refusal("two\nlines", "and\nmore")


# --- Help ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tried", "meant"),
    [
        (["help"], ["--help"]),
        (["-h"], ["--help"]),
        (["help", "models"], ["models", "--help"]),
        (["version"], ["--version"]),
        (["-V"], ["--version"]),
    ],
)
def test_what_people_try_first_answers(
    tried: list[str], meant: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    printed = []
    for argv in (tried, meant):
        with pytest.raises(SystemExit) as left:
            parse(argv)
        assert not left.value.code
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] != ""


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_that_names_all_of_it(
    verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = help_of(verb, capsys=capsys)
    assert text.startswith(f"usage: holdfast {verb} ")
    for action in VERBS[verb].parser()._actions:
        assert action.help, f"{action.dest} says nothing about itself"
        assert all(name in text for name in action.option_strings or [str(action.metavar)])
    assert max(map(len, text.splitlines())) <= 100


def test_the_help_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    text = help_of(capsys=capsys)
    assert all(f"  {name} " in text and verb.summary in text for name, verb in VERBS.items())


def test_the_help_of_run_has_examples_and_every_exit_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = help_of("run", capsys=capsys)
    _, _, examples = text.partition("\nexamples:\n")
    examples, _, codes = examples.partition("\n\nexit codes:\n")
    assert {line.count("holdfast run ") for line in examples.splitlines()} == {1}
    assert [int(line.split()[0]) for line in codes.splitlines() if line] == list(ExitCode)
    assert all(code.meaning in codes for code in ExitCode)


def test_an_example_in_the_help_is_understood(capsys: pytest.CaptureFixture[str]) -> None:
    from shlex import split

    text = help_of("run", capsys=capsys)
    lines = [line for line in text.splitlines() if " holdfast run " in line and "usage" not in line]
    assert len(lines) == 5
    for line in lines:
        words = split(line.partition("holdfast run ")[2].partition(" > ")[0])
        assert run(*words).prompt


def test_the_levels_are_those_of_the_library() -> None:
    from typing import get_args

    assert model.EFFORTS == EFFORTS
    assert get_args(Color) == COLORS


@pytest.mark.parametrize(
    ("argv", "meant"),
    [
        (["serve", "--port", "80"], "--listen"),
        (["serve", "--host=0.0.0.0"], "--listen"),
        (["serve", "--settings", "x"], "--config"),
    ],
)
def test_an_option_that_other_programs_have_is_understood(argv: list[str], meant: str) -> None:
    assert f"did you mean {meant}?" in refusal(*argv)


def test_an_option_of_another_verb_is_not_suggested() -> None:
    assert "did you mean" not in refusal("worker", "--port", "80")


def test_secrets_can_be_rotated_and_nothing_else() -> None:
    assert parse(["secrets", "rotate"])[1].what == "rotate"
    assert "WHAT" in refusal("secrets")
    assert "'list' is not one of rotate" in refusal("secrets", "list")
