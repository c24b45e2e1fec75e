"""Parsers of `holdfast models` and `holdfast completion`, which need no server."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import Final

from holdfast.cli.parsers.argument_parser import Parser, Verb
from holdfast.cli.parsers.shared_options import add_config

SHELLS: Final = ("bash", "zsh", "fish")

_INSTALL: Final = """\
to install it:
  bash    holdfast completion bash > ~/.local/share/bash-completion/completions/holdfast
          (or in ~/.bashrc: source <(holdfast completion bash))
  zsh     holdfast completion zsh > ~/.zfunc/_holdfast
          (with fpath+=~/.zfunc before compinit in ~/.zshrc)
  fish    holdfast completion fish > ~/.config/fish/completions/holdfast.fish

Completion works in the next shell that you start. Run this again after an update of holdfast."""


def models_parser() -> Parser:
    parser = Parser(
        "holdfast models",
        usage="holdfast models [PROVIDER] [options]",
        description="List the models that you can use now, and what to set for the others.\n"
        "Works offline: reads the environment and, for base URLs, the local server's settings.",
    )
    parser.add_argument(
        "provider", nargs="?", metavar="PROVIDER", help="list the known models of this provider"
    )
    parser.add_argument("--json", action="store_true", help="print as JSON")
    add_config(parser, "settings file of the local server")
    return parser


def completion_parser() -> Parser:
    parser = Parser(
        "holdfast completion",
        usage="holdfast completion SHELL",
        description="Print a script that completes verbs, options and models in your shell.",
        epilog=_INSTALL,
    )
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))
    return parser


def _models(arguments: Namespace, environ: Mapping[str, str]) -> int:
    from holdfast.cli import models
    from holdfast.config import settings_file

    return models.main(
        arguments.provider,
        as_json=arguments.json,
        environ=environ,
        settings=settings_file(arguments, environ),
    )


MODELS: Final = Verb(
    "list the models that you can use, and what to set for others", models_parser, _models
)
