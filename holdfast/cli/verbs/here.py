"""`models` and `completion`: what there is on this machine."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import Final

from holdfast.cli.verbs.options import add_config
from holdfast.cli.verbs.parser import Parser, Verb

SHELLS: Final = ("bash", "zsh", "fish")

_INSTALL: Final = """\
to install it:
  bash    holdfast completion bash > ~/.local/share/bash-completion/completions/holdfast
          (or in ~/.bashrc: source <(holdfast completion bash))
  zsh     holdfast completion zsh > ~/.zfunc/_holdfast
          (with fpath+=~/.zfunc before compinit in ~/.zshrc)
  fish    holdfast completion fish > ~/.config/fish/completions/holdfast.fish

It takes effect in the next shell. Write it again after an update of holdfast."""


def models_parser() -> Parser:
    parser = Parser(
        "holdfast models",
        usage="holdfast models [PROVIDER] [options]",
        description="Which models can be used here, and what to set for the others.\n"
        "Nobody is asked for it: it is read off the environment, and off the settings of the\n"
        "server here for who can be asked by that.",
    )
    parser.add_argument(
        "provider", nargs="?", metavar="PROVIDER", help="list what is known of its models"
    )
    parser.add_argument("--json", action="store_true", help="the same as JSON")
    add_config(parser, "the settings of the server here")
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


def _models(said: Namespace, environ: Mapping[str, str]) -> int:
    from holdfast.cli import models
    from holdfast.config import settings_file

    return models.main(
        said.provider,
        as_json=said.json,
        environ=environ,
        settings=settings_file(said, environ),
    )


def _completion(said: Namespace, environ: Mapping[str, str]) -> int:
    from holdfast.cli import completion

    return completion.main(said.shell)


MODELS: Final = Verb(
    "which models can be used here, and what to set for the others", models_parser, _models
)
COMPLETION: Final = Verb(
    "print the completion script for your shell", completion_parser, _completion
)
