"""`token`: what lets people in."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import Final

from holdfast.cli.verbs.options import add_where
from holdfast.cli.verbs.parser import Parser, Verb, number, something

TOKENS: Final = ("create", "list", "revoke")
ROLES: Final = ("admin", "member", "viewer")
SCOPES: Final = ("read", "write", "admin")
MAX_DAYS: Final = 366
"""That a token is good for."""

_TOKEN_EXAMPLES: Final = """\
examples:
  holdfast token --user ann --role admin --database postgresql://app@db.internal/chats
  holdfast token --name ci --scope read --days 30 --url http://127.0.0.1:8765
  holdfast token revoke 01jd7t0v --url http://127.0.0.1:8765"""


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
    _add_wanted(parser)
    otherwise = "otherwise HOLDFAST_DATABASE, then the settings, then the file of the server here"
    add_where(parser, otherwise, url="")
    return parser


def _add_wanted(parser: Parser) -> None:
    """What a new token is to be."""
    parser.add_argument(
        "--user", type=something, metavar="NAME", help="whose it is; otherwise your own"
    )
    parser.add_argument(
        "--role",
        choices=ROLES,
        metavar="ROLE",
        help=f"make the user if there is none: {', '.join(ROLES)}",
    )
    parser.add_argument("--name", type=something, metavar="TEXT", help="what the token is for")
    parser.add_argument(
        "--scope",
        action="append",
        choices=SCOPES,
        metavar="SCOPE",
        help=f"what it is good for: {', '.join(SCOPES)}; may be repeated; otherwise read and "
        "write, and admin with --role admin",
    )
    parser.add_argument(
        "--days",
        type=number(MAX_DAYS),
        metavar="N",
        help=f"how long, up to {MAX_DAYS}; otherwise 90. With --url, not longer than the token "
        "that is shown there",
    )


def _token(said: Namespace, environ: Mapping[str, str]) -> int:
    from holdfast.cli import token
    from holdfast.config import token_options

    return token.main(token_options(said, environ))


TOKEN: Final = Verb("make, list and revoke what lets people in", token_parser, _token)
