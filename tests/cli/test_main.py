"""The program as a process: what it prints, how it ends, and how fast it is there."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from keyword import iskeyword
from pathlib import Path
from typing import Any, Final

import pytest

from holdfast import __version__
from holdfast.cli.command_line import VERBS, parse
from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.main import describe_error, main
from holdfast.cli.parsers.argument_parser import UsageError
from holdfast.kernel.errors import ConfigError, FormatError
from holdfast.providers.provider_catalog import PROVIDERS

ROOT: Final = Path(__file__).resolve().parent.parent.parent
PROGRAM: Final = (sys.executable, "-W", "error", "-m", "holdfast")
OURS: Final = frozenset(name for facts in PROVIDERS.values() for name in (*facts.keys, *facts.urls))


def environ(**more: str) -> dict[str, str]:
    """This environment, with nothing in it that holdfast reads."""
    silent = {k: v for k, v in os.environ.items() if k not in OURS and not k.startswith("HOLDFAST")}
    silent.pop("PYTHONUNBUFFERED", None)
    return {**silent, **more}


def holdfast(
    *argv: str, env: Mapping[str, str] | None = None, **more: Any
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *argv],
        cwd=ROOT,
        env=env or environ(),
        text=True,
        timeout=60,
        check=False,
        **({"capture_output": True} | more),
    )


def shell(command: str, **env: str) -> subprocess.CompletedProcess[str]:
    """`holdfast` as a shell starts it, with its streams redirected."""
    program = f'holdfast() {{ "$PYTHON" -W error -m holdfast "$@"; }}; {command}'
    return subprocess.run(
        ["bash", "-c", program],
        cwd=ROOT,
        env=environ(PYTHON=sys.executable, **env),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


# --- What it prints -----------------------------------------------------------------------------


def test_the_version_is_that_of_the_package() -> None:
    done = holdfast("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"holdfast {__version__}\n", "")


def test_the_installed_program_is_the_same() -> None:
    installed = Path(sys.executable).with_name("holdfast")
    if not installed.exists():
        pytest.skip("holdfast is not installed beside this Python")
    done = subprocess.run([installed, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"holdfast {__version__}\n"


def test_without_a_verb_it_serves() -> None:
    verb, said = parse([])
    assert (verb, said.listen, said.database) == ("serve", None, None)
    asked = holdfast("--help")
    assert (asked.returncode, asked.stderr) == (0, "")
    assert asked.stdout.startswith("usage: holdfast [VERB]")


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_answers_to_help(verb: str) -> None:
    done = holdfast(verb, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"usage: holdfast {verb}")


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_a_module_of_its_name(verb: str) -> None:
    name = f"{verb}_" if iskeyword(verb) else verb
    assert callable(import_module(f"holdfast.cli.{name}").main)


def test_an_unknown_verb_is_refused_in_one_line() -> None:
    done = holdfast("rnu", "hello")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "holdfast: unknown verb 'rnu': did you mean run?\n"


def test_a_wrong_setting_is_refused_in_one_line() -> None:
    done = holdfast("run", "hi", env=environ(HOLDFAST_EFFORT="hihg"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("holdfast: HOLDFAST_EFFORT is 'hihg': use one of none, ")
    assert done.stderr.count("\n") == 1


# --- How fast it is there -----------------------------------------------------------------------


@pytest.mark.parametrize("argv", [["--version"], ["--help"], ["run", "--help"], ["run", "-m"]])
def test_what_needs_no_verb_imports_nothing_slow(argv: list[str]) -> None:
    report = (
        "import sys; from holdfast.cli.main import main\n"
        f"main({argv!r}); print(*sys.modules, file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", report], cwd=ROOT, capture_output=True, text=True, check=True
    )
    slow = {"asyncio", "anyio", "msgspec", "pydantic", "dataclasses", "inspect", "shutil"}
    assert slow.isdisjoint(done.stderr.split())


def test_only_a_chat_at_a_terminal_imports_the_line_editor() -> None:
    report = (
        "import sys; from holdfast.cli.main import main\n"
        "main(['run', '-m', 'demo', '--no-tools', 'hi']); import holdfast.cli.chat\n"
        "print('prompt_toolkit' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", report], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.endswith("False\n")


# --- When nobody can read it --------------------------------------------------------------------

needs_full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
PRINTING: Final = ["--version", "run --help", "models", "completion bash"]


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("argv", PRINTING)
def test_a_reader_who_left_is_no_trouble(argv: str, unbuffered: str) -> None:
    # The reader is gone for certain: it has closed its end before we start.
    command = f"exec 3> >(exec 0<&-); wait $!; holdfast {argv} >&3"
    done = shell(command, PYTHONUNBUFFERED=unbuffered)
    assert (done.returncode, done.stderr) == (ExitCode.READER_GONE, "")


@needs_full
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("argv", PRINTING)
def test_a_full_disk_is_told(argv: str, unbuffered: str) -> None:
    done = shell(f"holdfast {argv} > /dev/full", PYTHONUNBUFFERED=unbuffered)
    assert done.returncode == ExitCode.FAILED
    assert done.stderr == f"holdfast: cannot write the output: {os.strerror(errno.ENOSPC)}\n"


@pytest.mark.parametrize("argv", PRINTING)
def test_a_closed_output_is_like_one_that_nobody_reads(argv: str) -> None:
    done = shell(f"holdfast {argv} <&- >&- 2>&-")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("where", ["2>&-", pytest.param("2>/dev/full", marks=needs_full)])
def test_a_refusal_that_nobody_can_hear_keeps_its_code(where: str) -> None:
    done = shell(f"holdfast rnu {where}")
    assert (done.returncode, done.stdout, done.stderr) == (ExitCode.USAGE, "", "")


def test_a_terminal_that_knows_few_characters_is_no_trouble() -> None:
    more = {"PYTHONIOENCODING": "ascii", "HOLDFAST_MODEL": "größer:µ"}
    done = holdfast("models", env=environ(**more))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("holdfast run uses gr??er:?")


# --- What went wrong ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (UsageError("no such verb"), 2, "no such verb"),
        (ConfigError("HOLDFAST_EFFORT is wrong"), 2, "HOLDFAST_EFFORT is wrong"),
        (FormatError("talk.json is no history"), 1, "talk.json is no history"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), 141, ""),
        (OSError(errno.ENOSPC, "No space"), 1, "cannot write the output: No space"),
        (PermissionError(errno.EACCES, "Denied", "talk.json"), 1, "talk.json: Denied"),
        (ConnectionResetError(errno.ECONNRESET, "Reset"), 1, "Reset"),
        (OSError(), 1, "OSError"),
        (
            ValueError("first\n  second"),
            1,
            "internal error: ValueError: first second (HOLDFAST_DEBUG=1 prints a traceback)",
        ),
    ],
)
def test_every_error_has_its_code_and_its_words(
    error: BaseException, code: int, words: str
) -> None:
    assert describe_error(error) == (code, words)
    assert describe_error(BaseExceptionGroup("tasks", [BaseExceptionGroup("more", [error])])) == (
        code,
        words,
    )


def test_what_is_told_gives_no_orders_to_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    instead_of_models(monkeypatch, raising(ConfigError("no \x1b[2J")))
    assert main(["models"]) == ExitCode.USAGE
    assert capsys.readouterr().err == "holdfast: no \\x1b[2J\n"


def test_several_errors_at_once_are_a_bug() -> None:
    code, words = describe_error(ExceptionGroup("tasks", [ConfigError("a"), ConfigError("b")]))
    assert code == ExitCode.FAILED
    assert words.startswith("internal error: ExceptionGroup: tasks")


def instead_of_models(monkeypatch: pytest.MonkeyPatch, does: Callable[[], int]) -> None:
    monkeypatch.setattr("holdfast.cli.models.main", lambda provider, **_: does())


def raising(error: BaseException) -> Callable[[], int]:
    def does() -> int:
        print("half of it")
        raise error

    return does


def test_a_bug_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("HOLDFAST_DEBUG", raising=False)
    instead_of_models(monkeypatch, raising(RuntimeError("oh no")))
    assert main(["models"]) == ExitCode.FAILED
    out, err = capsys.readouterr()
    assert out == "half of it\n"
    assert (
        err
        == "holdfast: internal error: RuntimeError: oh no (HOLDFAST_DEBUG=1 prints a traceback)\n"
    )


def test_a_bug_shows_where_it_is_when_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOLDFAST_DEBUG", "1")
    instead_of_models(monkeypatch, raising(RuntimeError("oh no")))
    assert main(["models"]) == ExitCode.FAILED
    err = capsys.readouterr().err
    assert err.startswith("Traceback")
    assert "in does" in err
    assert err.splitlines()[-1].startswith("holdfast: internal error")


def test_a_wrong_usage_shows_no_traceback_when_debugging(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOLDFAST_DEBUG", "1")
    assert main(["rnu"]) == ExitCode.USAGE
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("left", "code", "said"), [(None, 0, ""), (5, 5, ""), ("enough", 1, "enough\n")]
)
def test_code_that_leaves_by_itself_ends_as_it_said(
    left: object,
    code: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    instead_of_models(monkeypatch, raising(SystemExit(left)))
    assert main(["models"]) == code
    assert capsys.readouterr().err == said


def test_an_interrupt_ends_the_process_without_a_traceback() -> None:
    program = """
import sys, time
import holdfast.cli.models as models
from holdfast.cli.main import main
def hang(provider, **_):
    print("here", flush=True)
    time.sleep(60)
models.main = hang
sys.exit(main(["models"]))
"""
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (ExitCode.INTERRUPTED, "holdfast: interrupted\n")


def test_what_an_interrupt_cut_off_does_not_complain() -> None:
    program = """
import asyncio, sys
import holdfast.cli.models as models
from holdfast.cli.main import main
kept = []
def half_way(provider, **_):
    loop = asyncio.new_event_loop()
    futures = [loop.create_future(), loop.create_future()]
    for future in futures:
        future.set_exception(ConnectionError("nobody asks for this"))
    kept.append(futures[0])  # until the program ends; the other goes with the exception
    loop.close()
    raise KeyboardInterrupt
models.main = half_way
sys.argv[1:] = ["models"]
sys.exit(main())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=30
    )
    assert (done.returncode, done.stderr) == (ExitCode.INTERRUPTED, "holdfast: interrupted\n")
