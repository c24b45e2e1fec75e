"""`run` and `chat`: a model is asked."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import Final

from holdfast.cli.verbs.options import (
    EFFORTS,
    add_approval,
    add_file,
    add_shown,
    add_where,
    exit_codes,
)
from holdfast.cli.verbs.parser import Parser, Verb, number, something

MAX_STEPS: Final = 100_000
"""More than that is a slip of the finger."""

# --- run ----------------------------------------------------------------------------------------

_RUN_EXAMPLES: Final = """\
examples:
  holdfast run "which tests are slow here, and why?"
  git diff --staged | holdfast run -q "write the commit message" > message.txt
  holdfast run -m demo --history talk.json --json "list the files\""""


def run_parser() -> Parser:
    parser = Parser(
        "holdfast run",
        usage="holdfast run [PROMPT ...] [options]",
        description="Ask a model once. It may use tools; the answer is streamed to the terminal.",
        epilog=f"{_RUN_EXAMPLES}\n\nexit codes:\n{exit_codes()}",
    )
    _add_asked(parser)
    _add_answers(parser)
    _add_tools(parser)
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="every event as JSON on its own line")
    add_shown(output)
    return parser


def _add_asked(parser: Parser) -> None:
    asked = parser.add_argument_group("what is asked")
    asked.add_argument(
        "prompt",
        nargs="*",
        metavar="PROMPT",
        help="joined by blanks; what is piped in is added to it, and - asks for it",
    )
    add_file(asked, "attach a file")
    asked.add_argument(
        "-i", "--instructions", metavar="TEXT", help="what the model is to be; @file reads a file"
    )
    asked.add_argument(
        "--history",
        type=something,
        metavar="FILE",
        help="go on with the conversation in this file, and keep it",
    )


def _add_answers(parser: Parser) -> None:
    answers = parser.add_argument_group("who answers")
    answers.add_argument(
        "-m",
        "--model",
        type=something,
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
        "--max-steps",
        type=number(MAX_STEPS),
        metavar="N",
        help="end after this many answers of the model",
    )


def _add_tools(parser: Parser) -> None:
    tools = parser.add_argument_group("tools")
    tools.add_argument(
        "-t",
        "--tools",
        action="append",
        type=something,
        metavar="MODULE:NAME",
        help="a tool, a function or a list of them; may be repeated",
    )
    tools.add_argument("--no-tools", action="store_true", help="leave the bundled ones out")
    tools.add_argument(
        "-d",
        "--dir",
        type=something,
        metavar="DIR",
        help="where the tools work; otherwise the current directory, unless that is your home",
    )
    add_approval(tools)


def _run(said: Namespace, environ: Mapping[str, str]) -> int:
    from holdfast.cli import run
    from holdfast.config import run_options

    return run.main(run_options(said, environ))


RUN: Final = Verb("ask a model once, from the terminal or a script", run_parser, _run)

# --- chat ---------------------------------------------------------------------------------------

_CHAT_KEYS: Final = """\
at a terminal:
  Enter        sends what you typed; while it answers, it waits its turn
  /steer ...   is heard before the next step instead
  Ctrl-C       stops the answer; when nothing runs, it leaves
  /help        lists what else there is"""


def chat_parser() -> Parser:
    parser = Parser(
        "holdfast chat",
        usage="holdfast chat [PROMPT ...] [options]",
        description="Talk with an agent of a server: the one here, or another. What is said stays "
        "there.\nWithout a terminal it answers once, and ends.",
        epilog=f"{_CHAT_KEYS}\n\nexit codes, without a terminal:\n{exit_codes()}",
    )
    asked = parser.add_argument_group("what is asked")
    asked.add_argument(
        "prompt", nargs="*", metavar="PROMPT", help="what to begin with; what is piped in is added"
    )
    add_file(asked, "attach a file to it")
    which = asked.add_mutually_exclusive_group()
    which.add_argument(
        "-c", "--chat", type=something, metavar="CHAT", help="go on with the chat of this id"
    )
    which.add_argument("-l", "--last", action="store_true", help="go on with the newest chat")
    _add_who(parser)
    add_where(parser.add_argument_group("where"))
    add_shown(parser.add_argument_group("output"))
    return parser


def _add_who(parser: Parser) -> None:
    who = parser.add_argument_group("who answers")
    who.add_argument(
        "--agent", type=something, metavar="NAME", help="an agent of the server; its first one"
    )
    who.add_argument(
        "-m", "--model", type=something, metavar="MODEL", help="from now on; the agent's own"
    )
    who.add_argument(
        "-e", "--effort", choices=EFFORTS, metavar="LEVEL", help=f"one of {', '.join(EFFORTS)}"
    )
    add_approval(who)


def _chat(said: Namespace, environ: Mapping[str, str]) -> int:
    from holdfast.cli import chat
    from holdfast.config import chat_options

    return chat.main(chat_options(said, environ))


CHAT: Final = Verb("talk with an agent of a server, here or elsewhere", chat_parser, _chat)
