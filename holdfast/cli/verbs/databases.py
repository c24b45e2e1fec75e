"""Parsers of `holdfast migrate`, `holdfast doctor` and `holdfast secrets`."""

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
        description="Migrate a database to the schema of this version; create it if missing.",
    )
    _add_which(parser)
    return parser


def doctor_parser() -> Parser:
    parser = Parser(
        "holdfast doctor",
        usage="holdfast doctor [options]",
        description="Check every row of a database and report the ones that violate an invariant.\n"
        "Read-only; servers may keep writing meanwhile.",
        epilog="Exit code 0 if no problem was found, otherwise 1.",
    )
    _add_which(parser)
    return parser


def _add_which(parser: Parser) -> None:
    add_database(parser, "HOLDFAST_DATABASE, then the settings, then the local server's file")
    add_config(parser, "settings of the local server")


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
        description="Re-encrypt the secrets of a database (provider keys) with the first key of\n"
        "HOLDFAST_SECRET_KEY, or of the file secret.key. Secrets encrypted with an older key are\n"
        "decrypted with it: keep it after the new key until this is done.",
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
  1  generate a key: openssl rand -base64 32
  2  put it before the old key, separated by a space, on every replica; restart them
  3  holdfast secrets rotate
  4  remove the old key, and restart them"""

MIGRATE: Final = Verb("migrate a database to the schema of this version", migrate_parser, _migrate)
DOCTOR: Final = Verb("check a database for inconsistencies", doctor_parser, _doctor)
SECRETS: Final = Verb("re-encrypt stored secrets with a new key", secrets_parser, _secrets)
