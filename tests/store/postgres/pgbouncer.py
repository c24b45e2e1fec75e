"""PgBouncer for tests: one that is installed, or Debian's, which is installed where it may be.

python -m tests.store.postgres.pgbouncer
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import urlsplit, urlunsplit

PACKAGE: Final = "pgbouncer"
INSTALL: Final = f"apt-get install --no-install-recommends {PACKAGE}"
MISSING: Final = f"no PgBouncer on PATH: {INSTALL}, or name one in PGBOUNCER"
PATH: Final = f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin"
BOUND: Final = 20.0
"""Seconds that it may take to start."""


def find() -> str | None:
    return shutil.which(os.environ.get("PGBOUNCER", PACKAGE), path=PATH)


def install() -> None:
    """Install Debian's package, as root and where there is apt-get."""
    if find() is not None or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    print(INSTALL, flush=True)
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "-qq"], env=quiet, check=False)
    wait = ["-o", "DPkg::Lock::Timeout=120"]  # another process of the same tests may install it
    command = ["apt-get", *wait, "install", "-y", "-qq", "--no-install-recommends", PACKAGE]
    subprocess.run(command, env=quiet, stdout=subprocess.DEVNULL, check=False)


@contextmanager
def pooled(url: str, mode: str, **settings: object) -> Iterator[str]:
    """A URL of the same database through a PgBouncer in this mode, until the end of the block."""
    program = find()
    assert program is not None, MISSING
    with TemporaryDirectory(prefix="holdfast-pgbouncer-") as name:
        home, port = Path(name), _free_port()
        os.chmod(home, 0o755)
        _write(home, url, port, {"pool_mode": mode, **settings})
        # It refuses to run as root.
        user = "nobody" if os.geteuid() == 0 else None
        with open(home / "log", "wb") as log:
            child = subprocess.Popen(
                [program, str(home / "ini")], stderr=log, stdout=log, user=user
            )
        try:
            _wait(port, child, home / "log")
            parts = urlsplit(url)
            yield urlunsplit(parts._replace(netloc=f"{parts.username}@127.0.0.1:{port}"))
        finally:
            child.kill()
            child.wait()


def _write(home: Path, url: str, port: int, settings: dict[str, object]) -> None:
    parts = urlsplit(url)
    (home / "users").write_text(f'"{parts.username}" ""\n')
    given = {
        "listen_addr": "127.0.0.1",
        "listen_port": port,
        "auth_type": "trust",
        "auth_file": home / "users",
        "unix_socket_dir": "",
        "server_tls_sslmode": "disable",
        **settings,
    }
    lines = [f"{name} = {value}" for name, value in given.items()]
    databases = f"* = host={parts.hostname} port={parts.port}"
    (home / "ini").write_text("\n".join(["[databases]", databases, "[pgbouncer]", *lines, ""]))


def _free_port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port: int = taken.getsockname()[1]
        return port


def _wait(port: int, child: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + BOUND
    while child.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except ConnectionRefusedError:
            time.sleep(0.02)
    raise AssertionError(f"PgBouncer did not start: {log.read_text()}")


def main() -> int:
    install()
    if find() is None:
        print(f"the tests with PgBouncer are skipped: {MISSING}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
