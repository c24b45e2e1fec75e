"""The table of verbs, and the parsing of a command line into a verb and its arguments.

Imported for every verb, so it imports nothing but argparse.
"""

from __future__ import annotations

import re
import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from typing import Final

from holdfast.cli.parsers.argument_parser import Parser, UsageError, Verb
from holdfast.cli.parsers.databases import DOCTOR, MIGRATE, SECRETS
from holdfast.cli.parsers.export_and_import import EXPORT, IMPORT
from holdfast.cli.parsers.models_and_completion import MODELS, completion_parser
from holdfast.cli.parsers.run_and_chat import CHAT, RUN
from holdfast.cli.parsers.serve_and_worker import SERVE, WORKER
from holdfast.cli.parsers.tokens import TOKEN
from holdfast.kernel.suggest import did_you_mean


def _completion(arguments: Namespace, environ: Mapping[str, str]) -> int:
    from holdfast.cli import completion

    return completion.main(arguments.shell, top_parser(), VERBS)


VERBS: Final[dict[str, Verb]] = {
    "serve": SERVE,
    "worker": WORKER,
    "run": RUN,
    "chat": CHAT,
    "models": MODELS,
    "migrate": MIGRATE,
    "doctor": DOCTOR,
    "export": EXPORT,
    "import": IMPORT,
    "token": TOKEN,
    "secrets": SECRETS,
    "completion": Verb(
        "print the completion script for your shell", completion_parser, _completion
    ),
}


def top_parser() -> Parser:
    """The parser of the program without a verb."""
    verbs = "\n".join(f"  {name:<12}{verb.summary}" for name, verb in VERBS.items())
    parser = Parser(
        "holdfast",
        usage="holdfast [VERB] [options]",
        description="A durable agent loop. Without a verb, holdfast runs serve.\n\n"
        f"verbs:\n{verbs}",
        epilog="holdfast VERB --help lists the options of a verb.",
    )
    version = sys.modules["holdfast"].__version__
    parser.add_argument("-V", "--version", action="version", version=f"holdfast {version}")
    return parser


def parse(argv: Sequence[str]) -> tuple[str, Namespace]:
    """Return the verb and its arguments. Help and version print and raise SystemExit."""
    verb, *rest = argv or ["serve"]
    if verb in ("help", "version"):
        _print_help(verb, rest)
    if verb in VERBS:
        return verb, VERBS[verb].parser().read(rest)
    if verb.startswith("-"):
        top_parser().parse_known_args([verb])
        raise UsageError(_misplaced(verb, rest))
    raise UsageError(_no_verb(verb, rest))


def _print_help(what: str, about: Sequence[str]) -> None:
    """`holdfast help run` and `holdfast version`: common guesses."""
    if what == "version" or not about:
        top_parser().parse_args([f"--{what}"])
    if about[0] in VERBS:
        VERBS[about[0]].parser().parse_args(["--help"])
    raise UsageError(_no_verb(about[0], about[1:]))


def _misplaced(option: str, rest: Sequence[str]) -> str:
    name = option.partition("=")[0]
    verb = next((word for word in rest if word in VERBS), "run")
    if name in VERBS[verb].parser()._option_string_actions:
        return f"{name} goes after the verb: holdfast {verb} {name} … (see holdfast --help)"
    return f"unknown option {name} (see holdfast --help)"


def _no_verb(verb: str, rest: Sequence[str]) -> str:
    from shlex import join, quote

    if re.fullmatch(r"[\w.]+:\w[\w.]*", verb):
        return f"unknown verb {verb!r}: to serve agents, holdfast serve {verb}"
    near = did_you_mean(verb, VERBS)
    if near and not re.search(r"\s", verb):
        return f"unknown verb {verb!r}{near}"
    prompt = quote(verb) if re.search(r"\s", verb) else join([verb, *rest])
    if len(prompt) > 60 or not prompt.isprintable():
        prompt = '"…"'
    return f"unknown verb {verb!r}: use {', '.join(VERBS)}; to ask a model, holdfast run {prompt}"
