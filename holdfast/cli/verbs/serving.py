"""`serve` and `worker`: processes that last."""

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
        "named.\nIt prints one URL that works here, and opens it where there is a browser to see.",
        epilog=_SERVE_EXAMPLES,
    )
    parser.add_argument(
        "--listen",
        type=something,
        metavar="ADDRESS",
        help="address and port, or a port; otherwise HOLDFAST_LISTEN, then 127.0.0.1:8765",
    )
    parser.add_argument(
        "--no-open", action="store_true", help="do not open the page in a browser, here at a screen"
    )
    _add_server(parser)
    return parser


def worker_parser() -> Parser:
    parser = Parser(
        "holdfast worker",
        usage="holdfast worker [options]",
        description="Drive the chats of a database, without an API of its own.",
    )
    parser.add_argument(
        "--metrics",
        type=something,
        metavar="ADDRESS",
        help="tell /metrics and /healthz there, without asking for a token; otherwise "
        "HOLDFAST_METRICS, then nowhere",
    )
    parser.add_argument(
        "--metrics-open",
        action="store_true",
        help="also at an address that can be reached from the network; otherwise "
        "HOLDFAST_METRICS_OPEN",
    )
    _add_server(parser)
    return parser


def _add_server(parser: Parser) -> None:
    add_config(parser, "the settings")
    add_database(parser, "HOLDFAST_DATABASE, then the settings, then a file of your own")
    parser.add_argument(
        "--record",
        type=something,
        metavar="DIR",
        help="write down there what models are asked and say, without secrets; "
        "otherwise HOLDFAST_RECORD, then the settings, then nothing is",
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
WORKER: Final = Verb("drive the chats of a database, without an API", worker_parser, _worker)
