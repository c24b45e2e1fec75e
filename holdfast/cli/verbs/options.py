"""Options that several verbs have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.cli.codes import ExitCode
from holdfast.cli.verbs.parser import something

if TYPE_CHECKING:
    from argparse import _ActionsContainer

EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
COLORS: Final = ("auto", "always", "never")
DATABASE: Final = "sqlite:///chats.db, or postgresql://user@host/name"


def add_file(parser: _ActionsContainer, what: str) -> None:
    parser.add_argument(
        "-f",
        "--file",
        action="append",
        type=something,
        metavar="FILE",
        help=f"{what}; may be repeated",
    )


def add_approval(parser: _ActionsContainer) -> None:
    approve = parser.add_mutually_exclusive_group()
    approve.add_argument(
        "-y", "--yes", action="store_true", help="approve every call without asking"
    )
    approve.add_argument(
        "--deny", action="store_true", help="deny every call that needs an approval"
    )


def add_shown(output: _ActionsContainer) -> None:
    """What people see of an answer."""
    output.add_argument("-q", "--quiet", action="store_true", help="the answer and nothing else")
    output.add_argument("--reasoning", action="store_true", help="show all of the reasoning")
    output.add_argument(
        "--color",
        choices=COLORS,
        default="auto",
        metavar="WHEN",
        help=f"colors: {', '.join(COLORS)}",
    )


def add_database(parser: _ActionsContainer, otherwise: str) -> None:
    parser.add_argument(
        "--database", type=something, metavar="URL", help=f"{DATABASE}; otherwise {otherwise}"
    )


def add_config(parser: _ActionsContainer, what: str) -> None:
    parser.add_argument(
        "--config",
        type=something,
        metavar="FILE",
        help=f"{what}; otherwise HOLDFAST_CONFIG, then holdfast.toml if it is here",
    )


def add_where(
    parser: _ActionsContainer, database: str = "", url: str = ", then the one here"
) -> None:
    """A server that runs; and, where there is something to say about it, a database."""
    parser.add_argument(
        "--url",
        type=something,
        metavar="URL",
        help=f"the address of a server; otherwise HOLDFAST_URL{url}",
    )
    parser.add_argument(
        "--token",
        type=something,
        metavar="TOKEN",
        help="what lets you in there; otherwise HOLDFAST_TOKEN, then the file that the server here "
        "keeps it in",
    )
    if database:
        parser.add_argument(
            "--database",
            type=something,
            metavar="URL",
            help=f"a database instead of a server, as sqlite:///chats.db; {database}",
        )
    add_config(parser, "the settings of the server here")


def exit_codes() -> str:
    return "\n".join(f"  {code:>3}  {code.meaning}" for code in ExitCode)
