"""`migrate`, `doctor` and `secrets`: what is done to a database."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import Final

from holdfast.cli.verbs.options import add_config, add_database
from holdfast.cli.verbs.parser import Parser, Verb


def migrate_parser() -> Parser:
    parser = Parser(
        "holdfast migrate",
        usage="holdfast migrate [options]",
        description="Bring a database to the schema of this version, and make it if there is none.",
    )
    _add_which(parser)
    return parser


def doctor_parser() -> Parser:
    parser = Parser(
        "holdfast doctor",
        usage="holdfast doctor [options]",
        description="Look at every row of a database, and say which of them cannot be right.\n"
        "Nothing is changed, and others may go on writing meanwhile.",
        epilog="It ends with exit code 0 when nothing is wrong, and with 1 otherwise.",
    )
    _add_which(parser)
    return parser


def _add_which(parser: Parser) -> None:
    add_database(parser, "HOLDFAST_DATABASE, then the settings, then the file of the server here")
    add_config(parser, "the settings of the server here")


def _migrate(said: Namespace, environ: Mapping[str, str]) -> int:
    from holdfast.cli import migrate
    from holdfast.config import database_options

    return migrate.main(database_options(said, environ))


def _doctor(said: Namespace, environ: Mapping[str, str]) -> int:
    from holdfast.cli import doctor
    from holdfast.config import database_options

    return doctor.main(database_options(said, environ))


def secrets_parser() -> Parser:
    parser = Parser(
        "holdfast secrets",
        usage="holdfast secrets rotate [options]",
        description="Seal the secrets of a database (keys of providers) with the first key of\n"
        "HOLDFAST_SECRET_KEY, or of the file secret.key. What an older key has sealed is opened\n"
        "with it once more: keep it behind the new one until this is done.",
        epilog=_ROTATION,
    )
    parser.add_argument("what", choices=("rotate",), metavar="WHAT", help="rotate")
    _add_which(parser)
    return parser


def _secrets(said: Namespace, environ: Mapping[str, str]) -> int:
    from holdfast.cli import secrets
    from holdfast.config import database_options

    return secrets.main(database_options(said, environ))


_ROTATION: Final = """\
to replace the key:
  1  make one: openssl rand -base64 32
  2  put it in front of the old one, separated by a blank, at every replica; restart them
  3  holdfast secrets rotate
  4  take the old one away, and restart them"""

MIGRATE: Final = Verb("bring a database to the schema of this version", migrate_parser, _migrate)
DOCTOR: Final = Verb("look for what is wrong in a database", doctor_parser, _doctor)
SECRETS: Final = Verb("replace the key that secrets are sealed with", secrets_parser, _secrets)
