"""The commands that make a replica: what they listen for, and what they say of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import anyio
import pytest

from holdfast.cli.replica_link import cluster_secret, linked
from holdfast.cli.settings import ServerSettings
from holdfast.host import serving as chats_of
from holdfast.kernel.errors import ConfigError
from holdfast.observe.metrics import MetricRegistry
from holdfast.server.prometheus import scraped_at
from holdfast.server.relay.cluster_link import published
from holdfast.server.relay.cluster_secret import ClusterSecret
from holdfast.server.relay.frames import RELAY_PATH
from holdfast.store.database import Database
from holdfast.testing import Clock, ports
from tests.cli.test_serve import HIDDEN, serving
from tests.server.api import agent

SECRET = "a secret of more than sixteen"
ROOT = Path(__file__).resolve().parents[3]


def status(url: str, **headers: str) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_a_worker_with_a_secret_serves_other_replicas_and_nobody_else(
    tmp_path: Path, postgres_url: str
) -> None:
    with serving(
        tmp_path, "--database", postgres_url, verb="worker", HOLDFAST_CLUSTER_SECRET=SECRET
    ) as worker:
        port = worker.until("other replicas reach it").split()[-1]
        assert status(f"http://127.0.0.1:{port}{RELAY_PATH}") == 401
        assert status(f"http://127.0.0.1:{port}{RELAY_PATH}", Host="elsewhere") == 421
        assert status(f"http://127.0.0.1:{port}/api/v1/chats") == 404
        assert worker.end() == 0


def test_a_server_is_reached_by_replicas_at_its_advertised_name_and_no_other(
    tmp_path: Path, postgres_url: str
) -> None:
    config = tmp_path / "holdfast.toml"
    config.write_text('[server]\nadvertise = "http://replica-1:8765"\n')
    with serving(
        tmp_path, "--listen", "0", "--database", postgres_url, "--config", str(config),
        HOLDFAST_CLUSTER_SECRET=SECRET,
    ) as server:  # fmt: skip
        url = server.started()
        assert status(url + RELAY_PATH, Host="replica-1:8765") == 401
        assert status(url + RELAY_PATH) == 421
        assert status(f"{url}/api/v1/chats", Host="replica-1:8765") == 421
        assert status(f"{url}/healthz") == 200
        assert server.end() == 0


def test_without_a_secret_there_is_no_relay_and_it_says_so(
    tmp_path: Path, postgres_url: str
) -> None:
    with serving(tmp_path, "--listen", "0", "--database", postgres_url) as server:
        assert "HOLDFAST_CLUSTER_SECRET" in server.until("no cluster secret")
        url = server.started()
        assert status(url + RELAY_PATH) == 404
        assert server.end() == 0


def test_a_file_of_ones_own_is_no_cluster(tmp_path: Path) -> None:
    with serving(tmp_path, "--listen", "0", HOLDFAST_CLUSTER_SECRET=SECRET) as server:
        url = server.started()
        assert status(url + RELAY_PATH) == 404
        assert server.end() == 0


def test_the_secret_is_of_the_environment_or_of_a_private_file(tmp_path: Path) -> None:
    none = ServerSettings()
    assert cluster_secret(none, {}, str(tmp_path), str(tmp_path)) is None
    file = tmp_path / "cluster.secret"
    file.write_text(f"{SECRET}\n")
    file.chmod(0o600)
    assert cluster_secret(none, {}, "", str(tmp_path)) == ClusterSecret(SECRET.encode())
    named = ServerSettings(cluster_secret_file="cluster.secret")
    assert cluster_secret(named, {}, str(tmp_path), "") == ClusterSecret(SECRET.encode())
    other = {"HOLDFAST_CLUSTER_SECRET": "another one, which is as long"}
    assert cluster_secret(named, other, str(tmp_path), "") != ClusterSecret(SECRET.encode())
    file.chmod(0o644)
    with pytest.raises(ConfigError, match="is accessible to others"):
        cluster_secret(named, {}, str(tmp_path), "")


def test_a_secret_that_is_missing_or_too_short_is_refused(tmp_path: Path) -> None:
    named = ServerSettings(cluster_secret_file="none")
    with pytest.raises(ConfigError, match="which does not exist"):
        cluster_secret(named, {}, str(tmp_path), "")
    with pytest.raises(ConfigError, match="fewer than 16 characters"):
        cluster_secret(ServerSettings(), {"HOLDFAST_CLUSTER_SECRET": "short"}, "", "")
    assert "sixteen" not in repr(ClusterSecret(SECRET.encode()))


@pytest.mark.parametrize(
    ("name", "advertise", "url"),
    [
        ("127.0.0.1", None, "http://127.0.0.1:{port}"),
        ("localhost", None, "http://localhost:{port}"),
        ("0.0.0.0", None, None),
        ("0.0.0.0", "http://10.0.0.5:8765", "http://10.0.0.5:8765"),
    ],
)
async def test_a_replica_is_reached_where_it_listens_unless_that_is_everywhere(
    name: str, advertise: str | None, url: str | None
) -> None:
    settings = ServerSettings(advertise=advertise)
    async with linked(ClusterSecret(SECRET.encode()), settings, (name, 0)) as link:
        assert link is not None
        port = link.listening.getsockname()[1]
        assert link.url == (None if url is None else url.format(port=port))


async def test_who_says_nothing_to_a_worker_is_not_kept(db: Database, clock: Clock) -> None:
    async with (
        chats_of(db, [agent((), clock)], ports=ports(clock=clock), worker=None) as host,
        linked(ClusterSecret(SECRET.encode()), ServerSettings(), ("127.0.0.1", 0)) as link,
    ):
        assert link is not None
        async with (
            published(link, host, MetricRegistry()) as asked,
            scraped_at("127.0.0.1", 0, MetricRegistry(), db, host) as scraped,
        ):
            for port in (asked, scraped):
                async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                    with anyio.fail_after(11), pytest.raises(anyio.EndOfStream):
                        await stream.receive()


def test_the_example_of_a_cluster_runs_and_ends() -> None:
    clean = {k: v for k, v in os.environ.items() if not any(part in k for part in HIDDEN)}
    child = subprocess.Popen(
        [sys.executable, "examples/cluster.py"],
        cwd=ROOT,
        env=clean,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert child.stdout is not None
        ready, url, token = 0, "", ""
        for line in child.stdout:
            if "#token=" in line:
                url, _, token = line.strip().partition("/#token=")
            ready += "listens at port" in line
            if ready == 3:
                break
        allowed = {"Authorization": f"Bearer {token}"}
        assert [status(f"{url}/api/v1/chats", **allowed) for _ in range(3)] == [200] * 3
        child.send_signal(signal.SIGINT)
        assert "stopping" in child.stdout.read()
        assert child.wait(30) == 0
    finally:
        if child.poll() is None:
            child.terminate()
            child.wait(30)
        assert child.stdout is not None
        child.stdout.close()
