"""Parser of `holdfast token`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import Final

from holdfast.cli.parsers.argument_parser import Parser, Verb, number, something
from holdfast.cli.parsers.shared_options import add_where

TOKEN_ACTIONS: Final = ("create", "list", "revoke")
ROLES: Final = ("admin", "member", "viewer")
SCOPES: Final = ("read", "write", "admin")
MAX_DAYS: Final = 366
"""Longest lifetime of a token, in days."""

_TOKEN_EXAMPLES: Final = """\
examples:
  holdfast token --user ann --role admin --database postgresql://app@db.internal/chats
  holdfast token --name ci --scope read --days 30 --url http://127.0.0.1:8765
  holdfast token revoke 01jd7t0v --url http://127.0.0.1:8765"""


def token_parser() -> Parser:
    parser = Parser(
        "holdfast token",
        usage="holdfast token [create | list | revoke ID] [options]",
        description="Create, list and revoke access tokens for people and programs.\n"
        "A token is shown once; only its hash is stored.",
        epilog=_TOKEN_EXAMPLES,
    )
    parser.add_argument(
        "what",
        nargs="?",
        choices=TOKEN_ACTIONS,
        default="create",
        metavar="WHAT",
        help=f"{', '.join(TOKEN_ACTIONS)}; default: create",
    )
    parser.add_argument("id", nargs="?", metavar="ID", help="id of the token to revoke")
    _add_wanted(parser)
    otherwise = "default: HOLDFAST_DATABASE, then the settings, then the local server's file"
    add_where(parser, otherwise, url="")
    return parser


def _add_wanted(parser: Parser) -> None:
    """Options that describe the new token."""
    parser.add_argument(
        "--user", type=something, metavar="NAME", help="owner of the token; default: you"
    )
    parser.add_argument(
        "--role",
        choices=ROLES,
        metavar="ROLE",
        help=f"role of the user, who is created if missing: {', '.join(ROLES)}",
    )
    parser.add_argument("--name", type=something, metavar="TEXT", help="description of the token")
    parser.add_argument(
        "--scope",
        action="append",
        choices=SCOPES,
        metavar="SCOPE",
        help=f"permission: {', '.join(SCOPES)}; may be repeated; default: read and "
        "write, and admin with --role admin",
    )
    parser.add_argument(
        "--days",
        type=number(MAX_DAYS),
        metavar="N",
        help=f"lifetime in days, up to {MAX_DAYS}; default: 90. With --url, the new token expires "
        "no later than the one used to create it",
    )


def _token(arguments: Namespace, environ: Mapping[str, str]) -> int:
    from holdfast.cli import token
    from holdfast.config import token_options

    return token.main(token_options(arguments, environ))


TOKEN: Final = Verb("create, list and revoke access tokens", token_parser, _token)
