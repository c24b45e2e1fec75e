"""Parsers of `holdfast run` and `holdfast chat`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import Final

from holdfast.cli.parsers.argument_parser import Parser, Verb, number, something
from holdfast.cli.parsers.shared_options import (
    EFFORTS,
    add_approval,
    add_deps,
    add_file,
    add_shown,
    add_where,
    exit_codes,
)

MAX_STEPS: Final = 100_000
"""Largest accepted --max-steps; more is a typing mistake."""

# --- run ----------------------------------------------------------------------------------------

_RUN_EXAMPLES: Final = """\
examples:
  holdfast run "which tests are slow here, and why?"
  git diff --staged | holdfast run -q "write the commit message" > message.txt
  holdfast run --agent app:agent "what is new?"
  holdfast run --save "what changed in the last release?"
  holdfast run --continue "and in the one before?\""""


def run_parser() -> Parser:
    parser = Parser(
        "holdfast run",
        usage="holdfast run [PROMPT ...] [options]",
        description="Ask a model once. It may use tools. The answer is streamed to the terminal.",
        epilog=f"{_RUN_EXAMPLES}\n\nexit codes:\n{exit_codes()}",
    )
    _add_asked(parser)
    _add_chat(parser)
    _add_answers(parser)
    _add_tools(parser)
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="print each event as a line of JSON")
    add_shown(output)
    return parser


def _add_asked(parser: Parser) -> None:
    group = parser.add_argument_group("prompt")
    group.add_argument(
        "prompt",
        nargs="*",
        metavar="PROMPT",
        help="words of the prompt; they are joined by spaces, and piped input is appended. "
        "- reads standard input, even from a terminal",
    )
    add_file(group, "attach a file")
    group.add_argument(
        "-i",
        "--instructions",
        metavar="TEXT",
        help="system prompt; @FILE reads it from a file",
    )


def _add_chat(parser: Parser) -> None:
    group = parser.add_argument_group("chat", "By default, nothing is kept.")
    which = group.add_mutually_exclusive_group()
    which.add_argument("-s", "--save", action="store_true", help="keep the chat, in the database")
    which.add_argument(
        "--continue",
        action="store_true",
        dest="last",
        help="continue the last chat of this directory",
    )
    which.add_argument(
        "-c", "--chat", type=something, metavar="CHAT", help="continue the chat with this id"
    )
    add_where(group)


def _add_answers(parser: Parser) -> None:
    answers = parser.add_argument_group("agent and model")
    answers.add_argument(
        "--agent",
        type=something,
        metavar="MODULE:NAME",
        help="agent written in Python; with --save, also the name of an agent of the settings",
    )
    add_deps(answers)
    answers.add_argument(
        "-m",
        "--model",
        type=something,
        metavar="MODEL",
        help="provider:model, or demo; default: HOLDFAST_MODEL, then the first provider that "
        "has a key (see holdfast models)",
    )
    answers.add_argument(
        "-e",
        "--effort",
        choices=EFFORTS,
        metavar="LEVEL",
        help=f"reasoning effort: {', '.join(EFFORTS)}; default: HOLDFAST_EFFORT, then the "
        "provider's own",
    )
    answers.add_argument(
        "--max-steps",
        type=number(MAX_STEPS),
        metavar="N",
        help="stop after this many model responses",
    )


def _add_tools(parser: Parser) -> None:
    tools = parser.add_argument_group("tools")
    tools.add_argument(
        "-t",
        "--tools",
        action="append",
        type=something,
        metavar="MODULE:NAME",
        help="add your own tool, function, or list of them; may be repeated",
    )
    tools.add_argument("--no-tools", action="store_true", help="do not offer the bundled tools")
    tools.add_argument(
        "-d",
        "--dir",
        type=something,
        metavar="DIR",
        help="directory that the tools work in; default: the current one, unless it is your "
        "home directory",
    )
    tools.add_argument(
        "--pass-env",
        action="append",
        type=something,
        metavar="NAME",
        help="pass this environment variable to commands; also a pattern such as 'AWS_*'; "
        "may be repeated",
    )
    add_approval(tools)


def _run(arguments: Namespace, environ: Mapping[str, str]) -> int:
    from holdfast.config import run_options, saved_options, stores_chat

    if stores_chat(arguments):
        from holdfast.cli import one_answer

        return one_answer.main(saved_options(arguments, environ))
    from holdfast.cli import run

    return run.main(run_options(arguments, environ))


RUN: Final = Verb("ask a model once, from the terminal or a script", run_parser, _run)

# --- chat ---------------------------------------------------------------------------------------

_CHAT_KEYS: Final = """\
at a terminal:
  Enter        sends your message; while the agent answers, the message is queued
  /steer ...   sends a message that is delivered before the next step
  Ctrl-C       stops the answer; press it again to exit
  /help        lists all commands"""


def chat_parser() -> Parser:
    parser = Parser(
        "holdfast chat",
        usage="holdfast chat [PROMPT ...] [options]",
        description="Chat with an agent on your server, on a remote one or, if none runs, in the\n"
        "local database. Without a terminal, holdfast chat prints one answer and exits.",
        epilog=f"{_CHAT_KEYS}\n\nexit codes without a terminal:\n{exit_codes()}",
    )
    group = parser.add_argument_group("prompt")
    group.add_argument(
        "prompt", nargs="*", metavar="PROMPT", help="first message; piped input is appended"
    )
    add_file(group, "attach a file to the first message")
    which = group.add_mutually_exclusive_group()
    which.add_argument(
        "-c", "--chat", type=something, metavar="CHAT", help="continue the chat with this id"
    )
    which.add_argument("-l", "--last", action="store_true", help="continue the newest chat")
    _add_who(parser)
    add_where(parser.add_argument_group("server"))
    add_shown(parser.add_argument_group("output"))
    return parser


def _add_who(parser: Parser) -> None:
    who = parser.add_argument_group("agent and model")
    who.add_argument(
        "--agent",
        type=something,
        metavar="NAME",
        help="agent to talk to, or without a server MODULE:NAME; default: the first one",
    )
    add_deps(who, "deps in the settings")
    who.add_argument(
        "-m", "--model", type=something, metavar="MODEL", help="model to use; default: the agent's"
    )
    who.add_argument(
        "-e",
        "--effort",
        choices=EFFORTS,
        metavar="LEVEL",
        help=f"reasoning effort: {', '.join(EFFORTS)}",
    )
    add_approval(who)


def _chat(arguments: Namespace, environ: Mapping[str, str]) -> int:
    from holdfast.cli import chat
    from holdfast.config import chat_options

    return chat.main(chat_options(arguments, environ))


CHAT: Final = Verb("chat with an agent; the chat is stored", chat_parser, _chat)
