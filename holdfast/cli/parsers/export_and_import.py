"""Parsers of `holdfast export` and `holdfast import`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import Final

from holdfast.cli.parsers.argument_parser import Parser, Verb, something
from holdfast.cli.parsers.shared_options import add_where

EXPORT_FORMATS: Final = ("jsonl", "markdown", "json")


def export_parser() -> Parser:
    parser = Parser(
        "holdfast export",
        usage="holdfast export CHAT [options]",
        description="Write a chat to a file, as JSONL (complete), as Markdown (for people) or\n"
        "as JSON (its current messages, for holdfast.messages.load).",
        epilog="holdfast import reads JSONL and JSON.",
    )
    parser.add_argument("chat", metavar="CHAT", help="id of the chat")
    parser.add_argument(
        "--format",
        choices=EXPORT_FORMATS,
        default="jsonl",
        metavar="FORMAT",
        help=f"{', '.join(EXPORT_FORMATS)}; default: jsonl",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=something,
        metavar="FILE",
        help="file to write; default: standard output",
    )
    add_where(parser, "a server may be using it")
    return parser


def import_parser() -> Parser:
    parser = Parser(
        "holdfast import",
        usage="holdfast import FILE ... [options]",
        description="Create chats from files of holdfast export or holdfast.messages.dump, and\n"
        "print their ids. If one file is invalid, none is imported.",
    )
    parser.add_argument(
        "files",
        nargs="+",
        type=something,
        metavar="FILE",
        help="JSONL or JSON file; - reads standard input",
    )
    parser.add_argument(
        "--agent",
        type=something,
        metavar="NAME",
        help="agent of the imported chats; default: the one that they had",
    )
    parser.add_argument(
        "--user",
        type=something,
        metavar="NAME",
        help="owner of the imported chats; only with --database",
    )
    add_where(parser, "if it is a SQLite file, stop its server first")
    return parser


def _export(arguments: Namespace, environ: Mapping[str, str]) -> int:
    from holdfast.cli import export
    from holdfast.config import export_options

    return export.main(export_options(arguments, environ))


def _import(arguments: Namespace, environ: Mapping[str, str]) -> int:
    from holdfast.cli import import_
    from holdfast.config import import_options

    return import_.main(import_options(arguments, environ))


EXPORT: Final = Verb("write a chat to a file", export_parser, _export)
IMPORT: Final = Verb("create chats from exported files", import_parser, _import)
