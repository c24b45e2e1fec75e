"""Time, randomness, ids, threads, sockets and subprocesses are passed in, never called.

What decides and drives a chat must give the same answers in a simulator as on a machine, so it asks
`Ports` (and, for timers, the event loop). `kernel/ports.py` is the one place with the real things.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parent.parent
PORTS: Final = "holdfast/kernel/ports.py"
BOUND: Final = ("kernel", "agent.py", "live", "chat", "worker", "host.py")
"""The parts of holdfast that have the outside world passed in."""

DRAWN: Final = ("holdfast/store/", "holdfast/server/relay/")
"""Parts that use the network and clocks themselves, but have ids and randomness passed in. Secrets
are the exception: only the operating system makes those."""
DRAWS: Final = ("random", "uuid", "os.urandom", "os.getrandom")

FORBIDDEN: Final = (
    # clocks; a wait is the event loop's, by way of anyio
    "time",
    "asyncio.sleep",
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
    "datetime.datetime.today",
    "datetime.date.today",
    # randomness and ids
    "random",
    "secrets",
    "uuid",
    "os.urandom",
    "os.getrandom",
    # threads and processes
    "threading",
    "_thread",
    "concurrent",
    "multiprocessing",
    "subprocess",
    "os.fork",
    "os.popen",
    "os.system",
    "asyncio.to_thread",
    "asyncio.create_subprocess_exec",
    "asyncio.create_subprocess_shell",
    "anyio.to_thread",
    "anyio.from_thread",
    "anyio.to_process",
    "anyio.to_interpreter",
    "anyio.run_process",
    "anyio.open_process",
    # the network
    "socket",
    "socketserver",
    "ssl",
    "http",
    "urllib.request",
    "asyncio.open_connection",
    "asyncio.open_unix_connection",
    "asyncio.start_server",
    "asyncio.start_unix_server",
    "anyio.connect_tcp",
    "anyio.connect_unix",
    "anyio.create_tcp_listener",
    "anyio.create_unix_listener",
    "anyio.create_udp_socket",
    "anyio.getaddrinfo",
    # the process's own settings
    "os.environ",
    "os.environb",
    "os.getenv",
    "os.putenv",
)
"""Names, each with everything below it."""

FORBIDDEN_METHODS: Final = frozenset({"run_in_executor", "subprocess_exec", "subprocess_shell"})
"""Of an event loop, whatever it is called where it is used."""


def check(source: str) -> list[str]:
    """Every place where a module reaches past its ports, as `line: name`."""
    return [f"{line}: {name}" for line, name in sorted(set(uses(ast.parse(source))))]


def uses(tree: ast.AST) -> Iterator[tuple[int, str]]:
    origins: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                for alias in node.names:
                    top = alias.name.partition(".")[0]
                    origins[alias.asname or top] = alias.name if alias.asname else top
                    if forbidden(alias.name):
                        yield node.lineno, alias.name
            case ast.ImportFrom(module=str(module)):
                for alias in node.names:
                    name = f"{module}.{alias.name}"
                    origins[alias.asname or alias.name] = name
                    if forbidden(name):
                        yield node.lineno, name
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            reached = origin(node, origins)
            if reached in FORBIDDEN or node.attr in FORBIDDEN_METHODS:
                yield node.lineno, reached or node.attr


def origin(node: ast.expr, origins: dict[str, str]) -> str | None:
    """The full name of `a.b.c` where `a` was imported; None for anything else."""
    match node:
        case ast.Name(local):
            return origins.get(local)
        case ast.Attribute(value, attr):
            base = origin(value, origins)
            return base and f"{base}.{attr}"
    return None


def forbidden(name: str) -> bool:
    return any(name == entry or name.startswith(f"{entry}.") for entry in FORBIDDEN)


def bound_modules() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "holdfast").rglob("*.py")):
        where = path.relative_to(ROOT).as_posix()
        if where.split("/")[1] in BOUND and where != PORTS:
            yield where, path.read_text("utf-8")


def test_what_is_bound_to_its_ports_reaches_past_none_of_them() -> None:
    found = [f"{where}:{use}" for where, source in bound_modules() for use in check(source)]
    assert not found, "\n" + "\n".join(found)


def test_stores_and_the_relay_draw_ids_and_randomness_from_their_ports() -> None:
    found = []
    for path in sorted((ROOT / "holdfast").rglob("*.py")):
        where = path.relative_to(ROOT).as_posix()
        if where.startswith(DRAWN):
            uses = [use.partition(": ") for use in check(path.read_text("utf-8"))]
            found += [f"{where}:{line}: {use}" for line, _, use in uses if is_drawn(use)]
    assert not found, "\n" + "\n".join(found)


def is_drawn(name: str) -> bool:
    return any(name == entry or name.startswith(f"{entry}.") for entry in DRAWS)


@pytest.mark.parametrize(
    ("name", "drawn"),
    [("uuid.uuid4", True), ("random", True), ("os.urandom", True), ("secrets.token_hex", False)],
)
def test_secrets_are_no_draw_of_an_id(name: str, drawn: bool) -> None:
    assert is_drawn(name) is drawn


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import time", "time"),
        ("import time as clock", "time"),
        ("from time import monotonic", "time.monotonic"),
        ("def f():\n    import random", "random"),
        ("from uuid import uuid4 as new", "uuid.uuid4"),
        ("import secrets", "secrets"),
        ("import threading", "threading"),
        (
            "from concurrent.futures import ThreadPoolExecutor",
            "concurrent.futures.ThreadPoolExecutor",
        ),
        ("import concurrent.futures", "concurrent.futures"),
        ("import multiprocessing.pool", "multiprocessing.pool"),
        ("import socket", "socket"),
        ("import subprocess", "subprocess"),
        ("import ssl", "ssl"),
        ("from http.client import HTTPConnection", "http.client.HTTPConnection"),
        ("import urllib.request", "urllib.request"),
        ("from urllib import request", "urllib.request"),
        ("import os\nos.environ['HOME']", "os.environ"),
        ("import os as system\nsystem.urandom(8)", "os.urandom"),
        ("from os import environ", "os.environ"),
        ("import os.path\nos.getenv('HOME')", "os.getenv"),
        ("from datetime import datetime\ndatetime.now()", "datetime.datetime.now"),
        ("import datetime as dt\ndt.datetime.utcnow()", "datetime.datetime.utcnow"),
        ("from datetime import date\nkey = date.today", "datetime.date.today"),
        ("import asyncio\nasyncio.to_thread(f)", "asyncio.to_thread"),
        ("from asyncio import sleep", "asyncio.sleep"),
        ("import asyncio\nasync def f():\n    await asyncio.sleep(1)", "asyncio.sleep"),
        ("from anyio import to_thread", "anyio.to_thread"),
        ("import anyio.to_thread", "anyio.to_thread"),
        ("from anyio.to_thread import run_sync", "anyio.to_thread.run_sync"),
        ("def f(loop):\n    loop.run_in_executor(None, g)", "run_in_executor"),
    ],
)
def test_a_reach_past_the_ports_is_found(source: str, name: str) -> None:
    assert [use.partition(": ")[2] for use in check(source)] == [name]


@pytest.mark.parametrize(
    "source",
    [
        "import os\nos.path.join('a', 'b')",
        "from datetime import datetime, time\nmoment: datetime\nnoon = time(12)",
        "def f(ports):\n    ports.random() + ports.now() + ports.time.time()",
        "from urllib.parse import urlsplit",
        "import asyncio\nasyncio.timeout(1)\nasyncio.get_running_loop().time()",
        "import anyio\nasync def f():\n    await anyio.sleep(1)",
        "def time(random):\n    return random.random()",
    ],
)
def test_what_needs_no_port_is_left_alone(source: str) -> None:
    assert check(source) == []


def test_the_ports_themselves_are_where_the_real_things_are() -> None:
    assert check((ROOT / PORTS).read_text("utf-8"))
