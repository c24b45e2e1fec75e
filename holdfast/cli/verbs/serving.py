"""Parsers of `holdfast serve` and `holdfast worker`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import Final

from holdfast.cli.verbs.options import add_config, add_database
from holdfast.cli.verbs.parser import Parser, Verb, something

_SERVE_EXAMPLES: Final = """\
examples:
  holdfast serve
  holdfast serve --listen 8080 --database sqlite:///chats.db
  holdfast serve --config team.toml --database postgresql://app@db.internal/chats"""


def serve_parser() -> Parser:
    parser = Parser(
        "holdfast serve",
        usage="holdfast serve [options]",
        description="Serve chats: API and worker in one process, on SQLite unless a database is "
        "named.\nPrints a URL to sign in with, and opens it in a browser if there is a screen.",
        epilog=_SERVE_EXAMPLES,
    )
    parser.add_argument(
        "--listen",
        type=something,
        metavar="ADDRESS",
        help="address and port, or a port; default: HOLDFAST_LISTEN, then 127.0.0.1:8765",
    )
    parser.add_argument("--no-open", action="store_true", help="do not open the page in a browser")
    _add_server(parser)
    return parser


def worker_parser() -> Parser:
    parser = Parser(
        "holdfast worker",
        usage="holdfast worker [options]",
        description="Run the chats of a database, without an API.",
    )
    parser.add_argument(
        "--metrics",
        type=something,
        metavar="ADDRESS",
        help="serve /metrics and /healthz at this address, without a token; default: "
        "HOLDFAST_METRICS, then not at all",
    )
    parser.add_argument(
        "--metrics-open",
        action="store_true",
        help="allow --metrics at an address reachable from the network; default: "
        "HOLDFAST_METRICS_OPEN",
    )
    _add_server(parser)
    return parser


def _add_server(parser: Parser) -> None:
    add_config(parser, "settings")
    add_database(
        parser, "HOLDFAST_DATABASE, then the settings, then a SQLite file in your data directory"
    )
    parser.add_argument(
        "--record",
        type=something,
        metavar="DIR",
        help="record model requests and responses in this directory, without secrets; "
        "default: HOLDFAST_RECORD, then the settings, then off",
    )


def _serve(said: Namespace, environ: Mapping[str, str]) -> int:
    from holdfast.cli import serve
    from holdfast.config import serve_options

    return serve.main(serve_options(said, environ, api=True))


def _worker(said: Namespace, environ: Mapping[str, str]) -> int:
    from holdfast.cli import worker
    from holdfast.config import serve_options

    return worker.main(serve_options(said, environ, api=False))


SERVE: Final = Verb("serve chats: API and worker in one process", serve_parser, _serve)
WORKER: Final = Verb("run the chats of a database, without an API", worker_parser, _worker)
