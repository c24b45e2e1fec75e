"""Parsers of `holdfast migrate`, `holdfast doctor` and `holdfast secrets`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import Final

from holdfast.cli.parsers.argument_parser import Parser, Verb
from holdfast.cli.parsers.shared_options import add_config, add_database


def migrate_parser() -> Parser:
    parser = Parser(
        "holdfast migrate",
        usage="holdfast migrate [options]",
        description="Migrate a database to the schema of this version. A missing one is created.",
    )
    _add_which(parser)
    return parser


def doctor_parser() -> Parser:
    parser = Parser(
        "holdfast doctor",
        usage="holdfast doctor [options]",
        description="Check every row of a database and report those that violate an invariant.\n"
        "Writes nothing; servers may continue to use the database.",
        epilog="The exit code is 0 if no problem was found, otherwise 1.",
    )
    _add_which(parser)
    return parser


def _add_which(parser: Parser) -> None:
    add_database(parser, "HOLDFAST_DATABASE, then the settings, then the local server's file")
    add_config(parser, "settings file of the local server")


def _migrate(arguments: Namespace, environ: Mapping[str, str]) -> int:
    from holdfast.cli import migrate
    from holdfast.config import database_options

    return migrate.main(database_options(arguments, environ))


def _doctor(arguments: Namespace, environ: Mapping[str, str]) -> int:
    from holdfast.cli import doctor
    from holdfast.config import database_options

    return doctor.main(database_options(arguments, environ))


def secrets_parser() -> Parser:
    parser = Parser(
        "holdfast secrets",
        usage="holdfast secrets rotate [options]",
        description="Re-encrypt the stored provider keys with the first key in\n"
        "HOLDFAST_SECRET_KEY, or in the file secret.key. The older keys there are needed to\n"
        "decrypt: remove them afterwards.",
        epilog=_ROTATION,
    )
    parser.add_argument("what", choices=("rotate",), metavar="WHAT", help="rotate")
    _add_which(parser)
    return parser


def _secrets(arguments: Namespace, environ: Mapping[str, str]) -> int:
    from holdfast.cli import secrets
    from holdfast.config import database_options

    return secrets.main(database_options(arguments, environ))


_ROTATION: Final = """\
to replace the key:
  1  generate a key: openssl rand -base64 32
  2  on every replica, put it before the old key, separated by a space; restart them
  3  holdfast secrets rotate
  4  remove the old key everywhere, and restart the replicas"""

MIGRATE: Final = Verb("migrate a database to the schema of this version", migrate_parser, _migrate)
DOCTOR: Final = Verb("check a database for inconsistencies", doctor_parser, _doctor)
SECRETS: Final = Verb("re-encrypt stored secrets with a new key", secrets_parser, _secrets)
