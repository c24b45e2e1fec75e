"""What replicas tell each other is counted where their numbers are."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack
from pathlib import Path

from tests.cli.test_serve import Process, serving

SECRET = "a secret of more than sixteen"


def number(server: Process, url: str, name: str) -> int:
    with server.open(f"{url}/metrics") as response:
        found = [line for line in response.read().decode().splitlines() if line.startswith(name)]
    return int(found[0].split()[-1])


def test_a_chat_that_one_replica_runs_and_another_reads_is_counted_at_both(
    tmp_path: Path, postgres_url: str
) -> None:
    with ExitStack() as stack:
        replicas = []
        for _ in range(2):
            started = serving(
                tmp_path, "--listen", "0", "--database", postgres_url,
                HOLDFAST_CLUSTER_SECRET=SECRET,
            )  # fmt: skip
            replica = stack.enter_context(started)
            replicas.append((replica, replica.started()))
        (one, first), (two, second) = replicas
        made = one.ask(f"{first}/api/v1/chats", {"prompt": "long answer of 2000 words"})
        for replica, url in replicas:
            stack.enter_context(replica.open(f"{url}/api/v1/chats/{made['id']}/stream"))

        def told(name: str) -> tuple[int, int]:
            return number(one, first, name), number(two, second, name)

        until = time.monotonic() + 30
        while sum(told("holdfast_relay_told_chats")) != 1:
            assert time.monotonic() < until
        runs_at_first, runs_at_second = told("holdfast_relay_told_chats")
        assert told("holdfast_relay_told_replicas") == (runs_at_first, runs_at_second)
        assert told("holdfast_relay_asked_chats") == (runs_at_second, runs_at_first)
        assert told("holdfast_relay_asked_replicas") == (runs_at_second, runs_at_first)
        assert told("holdfast_relay_failing_replicas") == (0, 0)


def test_a_worker_whose_port_is_taken_says_what_a_worker_can_do(
    tmp_path: Path, postgres_url: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with serving(
            tmp_path, "--database", postgres_url, verb="worker",
            HOLDFAST_CLUSTER_SECRET=SECRET, HOLDFAST_LISTEN=str(port),
        ) as worker:  # fmt: skip
            said = worker.until("holdfast:")
            assert (
                f"127.0.0.1:{port} is already in use: set HOLDFAST_LISTEN with another port" in said
            )
            assert worker.child.wait(30) == 2
