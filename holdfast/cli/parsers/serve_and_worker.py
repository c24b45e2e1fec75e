"""Parsers of `holdfast serve` and `holdfast worker`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from typing import Final

from holdfast.cli.parsers.argument_parser import Parser, Verb, something
from holdfast.cli.parsers.shared_options import add_config, add_database, add_deps

_SERVE_EXAMPLES: Final = """\
examples:
  holdfast serve
  holdfast serve app:agent --reload
  holdfast serve --listen 8080 --database sqlite:///chats.db
  holdfast serve --config team.toml --database postgresql://app@db.internal/chats"""


def serve_parser() -> Parser:
    parser = Parser(
        "holdfast serve",
        usage="holdfast serve [MODULE:NAME ...] [options]",
        description="Run the server: web page, API and worker in one process.\n"
        "Prints a URL that signs you in, and opens it in a browser if this machine has a screen.",
        epilog=_SERVE_EXAMPLES,
    )
    parser.add_argument(
        "--listen",
        type=something,
        metavar="ADDRESS",
        help="address and port, or a port; default: HOLDFAST_LISTEN, then 127.0.0.1:8765",
    )
    parser.add_argument("--no-open", action="store_true", help="do not open the page in a browser")
    parser.add_argument(
        "--no-worker",
        action="store_true",
        help="serve the API only: `holdfast worker` processes drive the chats of the same "
        "PostgreSQL database",
    )
    _add_server(parser)
    return parser


def worker_parser() -> Parser:
    parser = Parser(
        "holdfast worker",
        usage="holdfast worker [MODULE:NAME ...] [options]",
        description="Run the chats of a database in a process without an API. Several workers and\n"
        "servers can share a PostgreSQL database.",
    )
    parser.add_argument(
        "--metrics",
        type=something,
        metavar="ADDRESS",
        help="serve /metrics and /healthz at this address, without a token; default: "
        "HOLDFAST_METRICS, otherwise off",
    )
    parser.add_argument(
        "--metrics-open",
        action="store_true",
        help="allow an address for --metrics that other machines can reach; default: "
        "HOLDFAST_METRICS_OPEN",
    )
    _add_server(parser)
    return parser


def _add_server(parser: Parser) -> None:
    parser.add_argument(
        "agents",
        nargs="*",
        type=something,
        metavar="MODULE:NAME",
        help="agents written in Python: an agent, a list or mapping of agents, or a function that "
        "returns them; default: the agents of the settings",
    )
    parser.add_argument(
        "-m",
        "--model",
        type=something,
        metavar="MODEL",
        help="model of all agents, such as demo; default: the agents' own",
    )
    add_deps(parser, "deps in the settings")
    parser.add_argument(
        "--reload",
        action="store_true",
        help="restart when a file of your modules or the settings changes, for development",
    )
    add_config(parser, "settings file")
    add_database(
        parser, "HOLDFAST_DATABASE, then the settings, then a SQLite file in your data directory"
    )
    parser.add_argument(
        "--record",
        type=something,
        metavar="DIR",
        help="record model requests and responses in this directory, without secrets; "
        "default: HOLDFAST_RECORD, then the settings, otherwise off",
    )


def _serve(arguments: Namespace, environ: Mapping[str, str]) -> int:
    from holdfast.cli import serve
    from holdfast.config import serve_options

    return serve.main(serve_options(arguments, environ, api=True))


def _worker(arguments: Namespace, environ: Mapping[str, str]) -> int:
    from holdfast.cli import worker
    from holdfast.config import serve_options

    return worker.main(serve_options(arguments, environ, api=False))


SERVE: Final = Verb("run the server: web page, API and worker in one process", serve_parser, _serve)
WORKER: Final = Verb(
    "run the chats of a database in a process without an API", worker_parser, _worker
)
