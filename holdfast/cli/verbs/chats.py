"""`export` and `import`: chats as files."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import Final

from holdfast.cli.verbs.options import add_where
from holdfast.cli.verbs.parser import Parser, Verb, something

FORMATS: Final = ("jsonl", "markdown")


def export_parser() -> Parser:
    parser = Parser(
        "holdfast export",
        usage="holdfast export CHAT [options]",
        description="Write a chat to a file: JSONL, which loses nothing, or Markdown for people.",
        epilog="holdfast import reads the JSONL.",
    )
    parser.add_argument("chat", metavar="CHAT", help="its id")
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="jsonl",
        metavar="FORMAT",
        help=f"{' or '.join(FORMATS)}",
    )
    parser.add_argument(
        "-o", "--output", type=something, metavar="FILE", help="otherwise standard output"
    )
    add_where(parser, "also while a server has it open")
    return parser


def import_parser() -> Parser:
    parser = Parser(
        "holdfast import",
        usage="holdfast import FILE ... [options]",
        description="Make chats of files that holdfast export wrote, and print their ids.\n"
        "When one of the files is wrong, none is taken.",
    )
    parser.add_argument(
        "files", nargs="+", type=something, metavar="FILE", help="in JSONL; - is standard input"
    )
    parser.add_argument(
        "--agent", type=something, metavar="NAME", help="who goes on with them; the one they had"
    )
    parser.add_argument(
        "--user", type=something, metavar="NAME", help="whose they are, with --database"
    )
    add_where(parser, "one that no server has open")
    return parser


def _export(said: Namespace, environ: Mapping[str, str]) -> int:
    from holdfast.cli import export
    from holdfast.config import export_options

    return export.main(export_options(said, environ))


def _import(said: Namespace, environ: Mapping[str, str]) -> int:
    from holdfast.cli import import_
    from holdfast.config import import_options

    return import_.main(import_options(said, environ))


EXPORT: Final = Verb("write a chat to a file", export_parser, _export)
IMPORT: Final = Verb("make chats of such files", import_parser, _import)
