"""A shell completes what the program knows: asked of real shells where there are any."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import time
from pathlib import Path
from typing import Final

import pytest

from holdfast.cli import completion
from holdfast.cli.command_line import VERBS, top_parser
from holdfast.cli.parsers.models_and_completion import SHELLS
from holdfast.cli.parsers.shared_options import COLORS, EFFORTS
from holdfast.providers import profile_lookup
from holdfast.providers.model_factory import DEMO_NAME
from holdfast.providers.provider_catalog import PROVIDERS

GROQ: Final = [f"groq:{id}" for id in profile_lookup.models("groq")]
needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")


def script(shell: str) -> str:
    return completion.script(shell, top_parser(), VERBS)


def completed(
    line: str, cwd: Path | None = None, breaks: str = ":=", strict: bool = False
) -> list[str]:
    """What bash would offer at the end of this line. It splits words at colons and equal signs."""
    words = re.findall(rf"[{breaks}]+|[^\s{breaks}]+" if breaks else r"\S+", line)
    words += [""] if line.endswith(" ") else []
    asked = f"""
{"set -u" if strict else ""}
{script("bash")}
COMP_WORDBREAKS={breaks!r}
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_holdfast
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    done = subprocess.run(
        ["bash", "--norc", "-c", asked, "bash", *words],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1] if done.stdout != "\n" else []


# --- bash ---------------------------------------------------------------------------------------


@needs_bash
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("holdfast ", list(VERBS)),
        ("holdfast mo", ["models"]),
        ("holdfast --", ["--help", "--version"]),
        ("holdfast run --eff", ["--effort"]),
        ("holdfast run -e ", list(EFFORTS)),
        ("holdfast run --effort m", ["minimal", "medium", "max"]),
        ("holdfast run --color ", list(COLORS)),
        ("holdfast run --color=al", ["always"]),
        ("holdfast run why --json --cha", ["--chat"]),
        ("holdfast run --json ", []),
        ("holdfast run mod", []),
        ("holdfast run --max-steps ", []),
        ("holdfast run -- --js", []),
        ("holdfast run -m de", ["demo", "deepseek:deepseek-flash", "deepseek:deepseek-v4-pro"]),
        ("holdfast models gro", ["groq"]),
        ("holdfast models groq --j", ["--json"]),
        ("holdfast completion ", list(SHELLS)),
        ("holdfast nothing ", []),
        ("holdfast nothing --", []),
    ],
)
@pytest.mark.parametrize("strict", [False, True])
def test_bash_offers_what_can_stand_there(line: str, offered: list[str], strict: bool) -> None:
    assert completed(line, strict=strict) == offered


@needs_bash
@pytest.mark.parametrize("option", ["-m ", "--model ", "--model="])
def test_bash_completes_a_model_behind_its_colon(option: str) -> None:
    # Readline keeps what stands before the last colon, so that it is no part of the answers.
    assert completed(f"holdfast run {option}groq:") == [name[5:] for name in GROQ]
    assert completed(f"holdfast run {option}groq:qw") == ["qwen/qwen3.8-27b"]
    assert completed(f"holdfast run {option}groq:qw", breaks="=") == ["groq:qwen/qwen3.8-27b"]


@needs_bash
def test_bash_keeps_the_option_where_it_does_not_split_at_equal_signs() -> None:
    assert completed("holdfast run --color=al", breaks="") == ["--color=always"]
    expected = ["--model=groq:qwen/qwen3.8-27b"]
    assert completed("holdfast run --model=groq:qw", breaks="") == expected


@needs_bash
def test_bash_completes_names_of_files_and_directories(tmp_path: Path) -> None:
    (tmp_path / "some *odd* name.txt").touch()
    (tmp_path / "some place").mkdir()
    both = ["some *odd* name.txt", "some place"]
    assert sorted(completed("holdfast run -f so", tmp_path)) == both
    assert sorted(completed("holdfast run --config=so", tmp_path)) == both
    assert completed("holdfast run --dir so", tmp_path) == ["some place"]


@needs_bash
def test_every_option_of_every_verb_is_offered_by_bash() -> None:
    for name, verb in VERBS.items():
        known = [one for action in verb.parser()._actions for one in action.option_strings]
        assert completed(f"holdfast {name} -") == known


@needs_bash
def test_a_model_is_completed_at_a_terminal(tmp_path: Path) -> None:
    """Readline itself: how it splits words, and what it puts on the line."""
    (tmp_path / "rc").write_text(f"PS1='ready> '\nbind 'set bell-style none'\n{script('bash')}")
    ours, theirs = pty.openpty()
    shell = subprocess.Popen(
        ["bash", "--rcfile", "rc", "-i"],
        cwd=tmp_path,
        env={**os.environ, "TERM": "dumb", "INPUTRC": os.devnull},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        wait_for(ours, "ready> ")
        os.write(ours, b"holdfast run --model=groq:openai/gpt-oss-1\t-q")
        wait_for(ours, "holdfast run --model=groq:openai/gpt-oss-120b -q")
    finally:
        shell.kill()
        shell.wait()
        os.close(ours)


def wait_for(terminal: int, text: str) -> None:
    """Read from it until it shows this text, for at most half a minute."""
    shown = ""
    until = time.monotonic() + 30
    while text not in shown:
        ready, _, _ = select.select([terminal], [], [], max(0, until - time.monotonic()))
        assert ready, f"no {text!r} in {shown!r}"
        shown += os.read(terminal, 4096).decode()


# --- Every shell --------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_can_be_read_by_its_shell(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    path = tmp_path / "script"
    path.write_text(script(shell))
    done = subprocess.run([shell, "-n", path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("shell", SHELLS)
def test_the_script_knows_every_verb_option_choice_and_model(shell: str) -> None:
    text = script(shell)
    known = [*VERBS, DEMO_NAME, *PROVIDERS, *EFFORTS, *COLORS, *SHELLS]
    known += [f"{name}:{id}" for name in PROVIDERS for id in profile_lookup.models(name)]
    for parser in (top_parser(), *(verb.parser() for verb in VERBS.values())):
        for action in parser._actions:
            for name in action.option_strings:
                dashes = 2 if name.startswith("--") else 1
                known.append(f"-{'ls'[2 - dashes]} {name[dashes:]}" if shell == "fish" else name)
    missing = [word for word in known if not re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text)]
    assert missing == []


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_quotes_and_brackets_are_balanced(shell: str) -> None:
    text = re.sub(r"\\.|\"'\"|#.*", "", script(shell))
    assert text.count("'") % 2 == 0
    assert text.count("[") == text.count("]")


@pytest.mark.parametrize(
    ("shell", "lines"),
    [
        (
            "zsh",
            [
                "#compdef holdfast",
                "'(-e --effort)--effort=[reasoning effort\\:",
                f":one of:({' '.join(EFFORTS)})'",
                "'(-m --model)-m+[provider\\:model, or demo]:model:_holdfast_models'",
                "'*--file=[attach a file]:file:_files'",
                ":directory:_files -/'",
                "compdef _holdfast holdfast",
            ],
        ),
        (
            "fish",
            [
                "complete -c holdfast -f\n",
                "-n '__holdfast_after \"\"' -a run -d ",
                "-n '__holdfast_after \"run\"' -s f -l file -r -F -d 'attach a file'",
                "-s d -l dir -x -a '(__fish_complete_directories)'",
                "-l version -d 'show program\\'s version number and exit'",
            ],
        ),
    ],
)
def test_the_script_says_what_a_value_is(shell: str, lines: list[str]) -> None:
    assert [line for line in lines if line not in script(shell)] == []


def test_a_new_option_is_completed_without_a_word_here() -> None:
    parser = VERBS["run"].parser()
    parser.add_argument("--new-file", metavar="FILE", help="something new; and more")
    *_, option = completion.described("run", parser).options
    assert (option.names, option.kind, option.help) == (("--new-file",), "file", "something new")


def test_the_script_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert completion.main("zsh", top_parser(), VERBS) == 0
    assert capsys.readouterr().out == script("zsh")


def test_the_help_says_where_each_script_goes() -> None:
    text = VERBS["completion"].parser().format_help()
    assert all(f"holdfast completion {shell} > ~/" in text for shell in SHELLS)
