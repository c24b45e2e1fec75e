"""What can be said on the command line: the verbs, their options, and the words about them.

It is imported whatever the verb, so it imports nothing but argparse.
"""

from __future__ import annotations

import os
import re
import sys
from argparse import (
    ArgumentError,
    ArgumentParser,
    ArgumentTypeError,
    Namespace,
    RawDescriptionHelpFormatter,
)
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from holdfast.cli.codes import ExitCode

if TYPE_CHECKING:
    from argparse import Action

    from _typeshed import SupportsWrite

EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
COLORS: Final = ("auto", "always", "never")
SHELLS: Final = ("bash", "zsh", "fish")
FORMATS: Final = ("jsonl", "markdown")
TOKENS: Final = ("create", "list", "revoke")
ROLES: Final = ("admin", "member", "viewer")
SCOPES: Final = ("read", "write", "admin")
MAX_DAYS: Final = 366
"""That a token is good for."""
MAX_STEPS: Final = 100_000
"""More than that is a slip of the finger."""


_MARK: Final = "\0"  # no argument of a process can hold it


class UsageError(Exception):
    """A command line that cannot be right. The message says what to do."""


class _Help(RawDescriptionHelpFormatter):
    """As newer Pythons write it: `-m, --model MODEL`, the value once."""

    def __init__(self, prog: str) -> None:
        # One is made for every option that is added, and without a width each looks for it with
        # modules that are slow to import.
        super().__init__(prog, max_help_position=28, width=min(_columns(), 100) - 2)

    def _format_action_invocation(self, action: Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        return f"{', '.join(action.option_strings)} {action.metavar}"


class Parser(ArgumentParser):
    """argparse, with an exception where it would end the process, and with guesses."""

    def __init__(self, prog: str, **more: Any) -> None:
        super().__init__(prog, allow_abbrev=False, formatter_class=_Help, **more)

    def read(self, argv: Sequence[str]) -> Namespace:
        """Options may stand before, between and behind the words; behind `--` all are words."""
        at = argv.index("--") if "--" in argv else len(argv)
        # Marked, because argparse loses words behind -- when options stand between others.
        marked = [f"{_MARK}{word}" if word.startswith("-") else word for word in argv[at + 1 :]]
        found, unknown = self.parse_known_intermixed_args([*argv[:at], *marked])
        if unknown:
            self.error(self._unknown(unknown[0].removeprefix(_MARK)))
        for name, value in vars(found).items():
            if isinstance(value, list):
                setattr(found, name, [word.removeprefix(_MARK) for word in value])
        return found

    def error(self, message: str) -> NoReturn:
        message = message.removeprefix("argument ")
        raise UsageError(f"{message} (see {self.prog} --help)")

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        (file or sys.stdout).write(message)  # argparse would not say that it could not

    def _unknown(self, word: str) -> str:
        name = word.partition("=")[0]
        if not name.startswith("-"):
            return f"{word!r} is one word too many"
        known = [option for action in self._actions for option in action.option_strings]
        return f"there is no option {name}{did_you_mean(name, known)}"

    def _check_value(self, action: Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            near = did_you_mean(str(value), action.choices)
            raise ArgumentError(
                action, f"{value!r} is not one of {', '.join(action.choices)}{near}"
            )


def _columns() -> int:
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or 80
    except (OSError, ValueError):
        return 80


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """The nearest of what is known, as the end of a sentence; empty when nothing is near."""
    from difflib import get_close_matches  # slow to import, and needed only for what went wrong

    near = get_close_matches(word.lower(), known, n=1)
    return f": did you mean {near[0]}?" if near else ""


# --- The verbs ----------------------------------------------------------------------------------


def run_parser() -> Parser:
    parser = Parser(
        "holdfast run",
        usage="holdfast run [PROMPT ...] [options]",
        description="Ask a model once. It may use tools; the answer is streamed to the terminal.",
        epilog=f"{_RUN_EXAMPLES}\n\nexit codes:\n{_exit_codes()}",
    )
    _add_asked(parser)
    _add_answers(parser)
    _add_tools(parser)
    _add_output(parser)
    return parser


def _add_asked(parser: Parser) -> None:
    asked = parser.add_argument_group("what is asked")
    asked.add_argument(
        "prompt",
        nargs="*",
        metavar="PROMPT",
        help="joined by blanks; what is piped in is added to it, and - asks for it",
    )
    asked.add_argument(
        "-f",
        "--file",
        action="append",
        type=_something,
        metavar="FILE",
        help="attach a file; may be repeated",
    )
    asked.add_argument(
        "-i", "--instructions", metavar="TEXT", help="what the model is to be; @file reads a file"
    )
    asked.add_argument(
        "--history",
        type=_something,
        metavar="FILE",
        help="go on with the conversation in this file, and keep it",
    )


def _add_answers(parser: Parser) -> None:
    answers = parser.add_argument_group("who answers")
    answers.add_argument(
        "-m",
        "--model",
        type=_something,
        metavar="MODEL",
        help="provider:model, or demo; otherwise HOLDFAST_MODEL, then the first provider that "
        "has a key (see holdfast models)",
    )
    answers.add_argument(
        "-e",
        "--effort",
        choices=EFFORTS,
        metavar="LEVEL",
        help=f"how hard it thinks: {', '.join(EFFORTS)}; otherwise HOLDFAST_EFFORT, then the "
        "provider decides",
    )
    answers.add_argument(
        "--max-steps", type=_steps, metavar="N", help="end after this many answers of the model"
    )


def _add_tools(parser: Parser) -> None:
    tools = parser.add_argument_group("tools")
    tools.add_argument(
        "-t",
        "--tools",
        action="append",
        type=_something,
        metavar="MODULE:NAME",
        help="a tool, a function or a list of them; may be repeated",
    )
    tools.add_argument("--no-tools", action="store_true", help="leave the bundled ones out")
    tools.add_argument(
        "-d",
        "--dir",
        type=_something,
        metavar="DIR",
        help="where the tools work; otherwise the current directory, unless that is your home",
    )
    approve = tools.add_mutually_exclusive_group()
    approve.add_argument(
        "-y", "--yes", action="store_true", help="approve every call without asking"
    )
    approve.add_argument(
        "--deny", action="store_true", help="deny every call that needs an approval"
    )


def _add_output(parser: Parser) -> None:
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="every event as JSON on its own line")
    output.add_argument("-q", "--quiet", action="store_true", help="the answer and nothing else")
    output.add_argument("--reasoning", action="store_true", help="show all of the reasoning")
    output.add_argument(
        "--color",
        choices=COLORS,
        default="auto",
        metavar="WHEN",
        help=f"colors: {', '.join(COLORS)}",
    )


def serve_parser() -> Parser:
    parser = Parser(
        "holdfast serve",
        usage="holdfast serve [options]",
        description="Serve chats: API and worker in one process, on SQLite unless a database is "
        "named.\nIt prints one URL that works here.",
        epilog=_SERVE_EXAMPLES,
    )
    parser.add_argument(
        "--listen",
        type=_something,
        metavar="ADDRESS",
        help="address and port, or a port; otherwise HOLDFAST_LISTEN, then 127.0.0.1:8765",
    )
    _add_server(parser)
    return parser


def worker_parser() -> Parser:
    parser = Parser(
        "holdfast worker",
        usage="holdfast worker [options]",
        description="Drive the chats of a database, without an API of its own.",
    )
    parser.add_argument(
        "--metrics",
        type=_something,
        metavar="ADDRESS",
        help="tell /metrics and /healthz there to whoever asks; otherwise HOLDFAST_METRICS, "
        "then nowhere",
    )
    _add_server(parser)
    return parser


def _add_server(parser: Parser) -> None:
    parser.add_argument(
        "--config",
        type=_something,
        metavar="FILE",
        help="the settings; otherwise HOLDFAST_CONFIG, then holdfast.toml if it is here",
    )
    parser.add_argument(
        "--database",
        type=_something,
        metavar="URL",
        help="sqlite:///chats.db, or postgresql://user@host/name; otherwise HOLDFAST_DATABASE, "
        "then the settings, then a file of your own",
    )
    parser.add_argument(
        "--record",
        type=_something,
        metavar="DIR",
        help="write down there what models are asked and say, without secrets; "
        "otherwise HOLDFAST_RECORD, then the settings, then nothing is",
    )


def models_parser() -> Parser:
    parser = Parser(
        "holdfast models",
        usage="holdfast models [PROVIDER] [options]",
        description="Which models can be used here, and what to set for the others.\n"
        "Nobody is asked for it: it is read off the environment.",
    )
    parser.add_argument(
        "provider", nargs="?", metavar="PROVIDER", help="list what is known of its models"
    )
    parser.add_argument("--json", action="store_true", help="the same as JSON")
    return parser


def migrate_parser() -> Parser:
    parser = Parser(
        "holdfast migrate",
        usage="holdfast migrate [options]",
        description="Bring a database to the schema of this version, and make it if there is none.",
    )
    _add_database(parser)
    return parser


def doctor_parser() -> Parser:
    parser = Parser(
        "holdfast doctor",
        usage="holdfast doctor [options]",
        description="Look at every row of a database, and say which of them cannot be right.\n"
        "Nothing is changed, and others may go on writing meanwhile.",
        epilog="It ends with exit code 0 when nothing is wrong, and with 1 otherwise.",
    )
    _add_database(parser)
    return parser


def _add_database(parser: Parser) -> None:
    parser.add_argument(
        "--database",
        type=_something,
        metavar="URL",
        help="sqlite:///chats.db, or postgresql://user@host/name; otherwise HOLDFAST_DATABASE",
    )


def completion_parser() -> Parser:
    parser = Parser(
        "holdfast completion",
        usage="holdfast completion SHELL",
        description="Print a script that completes verbs, options and models in your shell.",
        epilog=_INSTALL,
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))
    return parser


def chat_parser() -> Parser:
    parser = Parser(
        "holdfast chat",
        usage="holdfast chat [PROMPT ...] [options]",
        description="Talk with an agent of a server: the one here, or another. What is said stays "
        "there.\nWithout a terminal it answers once, and ends.",
        epilog=f"{_CHAT_KEYS}\n\nexit codes, without a terminal:\n{_exit_codes()}",
    )
    asked = parser.add_argument_group("what is asked")
    asked.add_argument(
        "prompt", nargs="*", metavar="PROMPT", help="what to begin with; what is piped in is added"
    )
    asked.add_argument(
        "-f",
        "--file",
        action="append",
        type=_something,
        metavar="FILE",
        help="attach a file to it; may be repeated",
    )
    which = asked.add_mutually_exclusive_group()
    which.add_argument(
        "-c", "--chat", type=_something, metavar="CHAT", help="go on with the chat of this id"
    )
    which.add_argument("-l", "--last", action="store_true", help="go on with the newest chat")
    _add_who(parser)
    _add_where(parser.add_argument_group("where"))
    _add_shown(parser)
    return parser


def _add_who(parser: Parser) -> None:
    who = parser.add_argument_group("who answers")
    who.add_argument(
        "--agent", type=_something, metavar="NAME", help="an agent of the server; its first one"
    )
    who.add_argument(
        "-m", "--model", type=_something, metavar="MODEL", help="from now on; the agent's own"
    )
    who.add_argument(
        "-e", "--effort", choices=EFFORTS, metavar="LEVEL", help=f"one of {', '.join(EFFORTS)}"
    )
    approve = who.add_mutually_exclusive_group()
    approve.add_argument(
        "-y", "--yes", action="store_true", help="approve every call without asking"
    )
    approve.add_argument(
        "--deny", action="store_true", help="deny every call that needs an approval"
    )


def _add_shown(parser: Parser) -> None:
    output = parser.add_argument_group("output")
    output.add_argument("-q", "--quiet", action="store_true", help="the answer and nothing else")
    output.add_argument("--reasoning", action="store_true", help="show all of the reasoning")
    output.add_argument(
        "--color",
        choices=COLORS,
        default="auto",
        metavar="WHEN",
        help=f"colors: {', '.join(COLORS)}",
    )


def _add_where(parser: Any, database: str = "", url: str = ", then the one here") -> None:
    """A server that runs; and, where there is something to say about it, a database."""
    parser.add_argument(
        "--url",
        type=_something,
        metavar="URL",
        help=f"the address of a server; otherwise HOLDFAST_URL{url}",
    )
    parser.add_argument(
        "--token",
        type=_something,
        metavar="TOKEN",
        help="what lets you in there; otherwise HOLDFAST_TOKEN, then the file that the server here "
        "keeps it in",
    )
    if database:
        parser.add_argument(
            "--database",
            type=_something,
            metavar="URL",
            help=f"a database instead of a server, as sqlite:///chats.db; {database}",
        )
    parser.add_argument(
        "--config",
        type=_something,
        metavar="FILE",
        help="the settings of the server here; otherwise HOLDFAST_CONFIG, then holdfast.toml",
    )


def token_parser() -> Parser:
    parser = Parser(
        "holdfast token",
        usage="holdfast token [create | list | revoke ID] [options]",
        description="Make, list and revoke what lets programs and people in at a server.\n"
        "A token is shown once: what is kept is its hash.",
        epilog=_TOKEN_EXAMPLES,
    )
    parser.add_argument(
        "what",
        nargs="?",
        choices=TOKENS,
        default="create",
        metavar="WHAT",
        help=f"{', '.join(TOKENS)}; create when nothing is said",
    )
    parser.add_argument("id", nargs="?", metavar="ID", help="of the token to revoke")
    parser.add_argument(
        "--user", type=_something, metavar="NAME", help="whose it is; otherwise your own"
    )
    parser.add_argument(
        "--role",
        choices=ROLES,
        metavar="ROLE",
        help=f"make the user if there is none: {', '.join(ROLES)}",
    )
    parser.add_argument("--name", type=_something, metavar="TEXT", help="what the token is for")
    parser.add_argument(
        "--scope",
        action="append",
        choices=SCOPES,
        metavar="SCOPE",
        help=f"what it is good for: {', '.join(SCOPES)}; may be repeated; otherwise read and "
        "write, and admin with --role admin",
    )
    parser.add_argument(
        "--days", type=_days, metavar="N", help=f"how long, up to {MAX_DAYS}; otherwise 90"
    )
    _add_where(
        parser,
        "otherwise HOLDFAST_DATABASE, then the settings, then the file of the server here",
        url="",
    )
    return parser


def export_parser() -> Parser:
    parser = Parser(
        "holdfast export",
        usage="holdfast export CHAT [options]",
        description="Write a chat to a file: JSONL, which loses nothing, or Markdown for people.",
        epilog="holdfast import reads the JSONL.",
    )
    parser.add_argument("chat", metavar="CHAT", help="its id")
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="jsonl",
        metavar="FORMAT",
        help=f"{' or '.join(FORMATS)}",
    )
    parser.add_argument(
        "-o", "--output", type=_something, metavar="FILE", help="otherwise standard output"
    )
    _add_where(parser, "also while a server has it open")
    return parser


def import_parser() -> Parser:
    parser = Parser(
        "holdfast import",
        usage="holdfast import FILE ... [options]",
        description="Make chats of files that holdfast export wrote, and print their ids.\n"
        "When one of the files is wrong, none is taken.",
    )
    parser.add_argument(
        "files", nargs="+", type=_something, metavar="FILE", help="in JSONL; - is standard input"
    )
    parser.add_argument(
        "--agent", type=_something, metavar="NAME", help="who goes on with them; the one they had"
    )
    parser.add_argument(
        "--user", type=_something, metavar="NAME", help="whose they are, with --database"
    )
    _add_where(parser, "one that no server has open")
    return parser


class Verb(NamedTuple):
    summary: str
    parser: Callable[[], Parser]


VERBS: Final = {
    "serve": Verb("serve chats: API and worker in one process", serve_parser),
    "worker": Verb("drive the chats of a database, without an API", worker_parser),
    "run": Verb("ask a model once, from the terminal or a script", run_parser),
    "chat": Verb("talk with an agent of a server, here or elsewhere", chat_parser),
    "models": Verb("which models can be used here, and what to set for the others", models_parser),
    "migrate": Verb("bring a database to the schema of this version", migrate_parser),
    "doctor": Verb("look for what is wrong in a database", doctor_parser),
    "export": Verb("write a chat to a file", export_parser),
    "import": Verb("make chats of such files", import_parser),
    "token": Verb("make, list and revoke what lets people in", token_parser),
    "completion": Verb("print the completion script for your shell", completion_parser),
}


def top_parser() -> Parser:
    """The program without a verb."""
    verbs = "\n".join(f"  {name:<12}{verb.summary}" for name, verb in VERBS.items())
    parser = Parser(
        "holdfast",
        usage="holdfast [VERB] [options]",
        description=f"A durable agent loop. Without a verb it serves.\n\nverbs:\n{verbs}",
        epilog="holdfast VERB --help says more about each.",
    )
    version = sys.modules["holdfast"].__version__
    parser.add_argument("-V", "--version", action="version", version=f"holdfast {version}")
    return parser


# --- Reading ------------------------------------------------------------------------------------


def parse(argv: Sequence[str]) -> tuple[str, Namespace]:
    """The verb and what was said to it. Help and version are printed, and end by SystemExit."""
    verb, *rest = argv or ["serve"]
    if verb in ("help", "version"):
        _tell(verb, rest)
    if verb in VERBS:
        return verb, VERBS[verb].parser().read(rest)
    if verb.startswith("-"):
        top_parser().parse_known_args([verb])
        raise UsageError(_misplaced(verb, rest))
    raise UsageError(_no_verb(verb, rest))


def _tell(what: str, about: Sequence[str]) -> None:
    """`holdfast help run` and `holdfast version`: what people try before they know better."""
    if what == "version" or not about:
        top_parser().parse_args([f"--{what}"])
    if about[0] in VERBS:
        VERBS[about[0]].parser().parse_args(["--help"])
    raise UsageError(_no_verb(about[0], about[1:]))


def _misplaced(option: str, rest: Sequence[str]) -> str:
    name = option.partition("=")[0]
    verb = next((word for word in rest if word in VERBS), "run")
    if name in VERBS[verb].parser()._option_string_actions:
        return f"{name} stands behind the verb: holdfast {verb} {name} … (see holdfast --help)"
    return f"there is no option {name} (see holdfast --help)"


def _no_verb(verb: str, rest: Sequence[str]) -> str:
    from shlex import join, quote

    near = did_you_mean(verb, VERBS)
    if near and not re.search(r"\s", verb):
        return f"there is no verb {verb!r}{near}"
    prompt = quote(verb) if re.search(r"\s", verb) else join([verb, *rest])
    if len(prompt) > 60 or not prompt.isprintable():
        prompt = '"…"'
    return (
        f"there is no verb {verb!r}: use {', '.join(VERBS)}; to ask a model, holdfast run {prompt}"
    )


def _steps(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or not 1 <= int(text) <= MAX_STEPS:
        raise ArgumentTypeError(f"{text!r} is no number from 1 to {MAX_STEPS:,}")
    return int(text)


def _days(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,9}", text) or not 1 <= int(text) <= MAX_DAYS:
        raise ArgumentTypeError(f"{text!r} is no number from 1 to {MAX_DAYS}")
    return int(text)


def _something(text: str) -> str:
    """An empty value is a variable of the shell that was not set, and means nothing else."""
    if not text.strip():
        raise ArgumentTypeError("is empty")
    return text


# --- Words --------------------------------------------------------------------------------------

_RUN_EXAMPLES: Final = """\
examples:
  holdfast run "which tests are slow here, and why?"
  git diff --staged | holdfast run -q "write the commit message" > message.txt
  holdfast run -m demo --history talk.json --json "list the files\""""

_SERVE_EXAMPLES: Final = """\
examples:
  holdfast serve
  holdfast serve --listen 8080 --database sqlite:///chats.db
  holdfast serve --config team.toml --database postgresql://app@db.internal/chats"""

_CHAT_KEYS: Final = """\
at a terminal:
  Enter        sends what you typed; while it answers, it waits its turn
  /steer ...   is heard before the next step instead
  Ctrl-C       stops the answer; when nothing runs, it leaves
  /help        lists what else there is"""

_TOKEN_EXAMPLES: Final = """\
examples:
  holdfast token --user ann --role admin --database postgresql://app@db.internal/chats
  holdfast token --name ci --scope read --days 30 --url http://127.0.0.1:8765
  holdfast token revoke 01jd7t0v --url http://127.0.0.1:8765"""

_INSTALL: Final = """\
to install it:
  bash    holdfast completion bash > ~/.local/share/bash-completion/completions/holdfast
          (or in ~/.bashrc: source <(holdfast completion bash))
  zsh     holdfast completion zsh > ~/.zfunc/_holdfast
          (with fpath+=~/.zfunc before compinit in ~/.zshrc)
  fish    holdfast completion fish > ~/.config/fish/completions/holdfast.fish

It takes effect in the next shell. Write it again after an update of holdfast."""


def _exit_codes() -> str:
    return "\n".join(f"  {code:>3}  {code.meaning}" for code in ExitCode)
