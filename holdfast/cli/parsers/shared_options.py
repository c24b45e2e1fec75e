"""Options shared by several verbs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.parsers.argument_parser import something

if TYPE_CHECKING:
    from argparse import _ActionsContainer

EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
COLORS: Final = ("auto", "always", "never")
DATABASE_URLS: Final = "database, as sqlite:///chats.db or postgresql://user@host/name"


def add_deps(parser: _ActionsContainer, default: str = "none") -> None:
    parser.add_argument(
        "--deps",
        type=something,
        metavar="MODULE:NAME",
        help="function that returns the deps of agents written in Python, or a mapping of agents' "
        f"names to such functions; default: {default}",
    )


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
        "-y", "--yes", action="store_true", help="approve every tool call without asking"
    )
    approve.add_argument(
        "--deny", action="store_true", help="deny every tool call that needs approval"
    )


def add_shown(output: _ActionsContainer) -> None:
    """Options for how much of an answer is printed, and how."""
    output.add_argument("-q", "--quiet", action="store_true", help="print only the answer")
    output.add_argument("--reasoning", action="store_true", help="show the full reasoning")
    output.add_argument(
        "--color",
        choices=COLORS,
        default="auto",
        metavar="WHEN",
        help=f"when to use colors: {', '.join(COLORS)}",
    )


def add_database(parser: _ActionsContainer, otherwise: str) -> None:
    parser.add_argument(
        "--database", type=something, metavar="URL", help=f"{DATABASE_URLS}; default: {otherwise}"
    )


def add_config(parser: _ActionsContainer, what: str) -> None:
    parser.add_argument(
        "--config",
        type=something,
        metavar="FILE",
        help=f"{what}; default: HOLDFAST_CONFIG, then ./holdfast.toml if you trust it",
    )


def add_where(
    parser: _ActionsContainer, database: str = "", url: str = ", then your server, if it runs"
) -> None:
    """Options that name a running server, or a database if `database` describes one."""
    parser.add_argument(
        "--url",
        type=something,
        metavar="URL",
        help=f"address of a server; default: HOLDFAST_URL{url}",
    )
    parser.add_argument(
        "--token",
        type=something,
        metavar="TOKEN",
        help="access token; default: HOLDFAST_TOKEN, then the local server's token file",
    )
    if database:
        parser.add_argument(
            "--database",
            type=something,
            metavar="URL",
            help=f"a database instead of a server, such as sqlite:///chats.db; {database}",
        )
    add_config(parser, "settings file of the local server")


def exit_codes() -> str:
    return "\n".join(f"  {code:>3}  {code.meaning}" for code in ExitCode)
