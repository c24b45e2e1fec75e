"""Three replicas on one PostgreSQL database, with a load balancer, on this machine.

    make cluster

It prints one URL. Each connection goes to the next replica, and every replica shows every chat,
wherever the chat runs. Kill one of the printed processes: nothing that was accepted is lost, and a
new process takes its place. Ctrl-C ends everything and removes the database.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from secrets import token_hex
from tempfile import TemporaryDirectory

from holdfast.testing.postgres import running

REPLICAS = 3
HOLDFAST = [sys.executable, "-m", "holdfast"]


class Balancer:
    """Forwards each connection to the next replica that accepts it."""

    def __init__(self) -> None:
        self.ports: list[int] = []
        self._turn = 0

    async def serve(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        for _ in list(self.ports):
            self._turn = (self._turn + 1) % len(self.ports)
            with suppress(OSError):
                there = await asyncio.open_connection("127.0.0.1", self.ports[self._turn])
                await asyncio.gather(pump(near, there[1]), pump(there[0], back))
                return
        back.close()


async def pump(near: asyncio.StreamReader, far: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await near.read(64 * 1024):
            far.write(data)
            await far.drain()
    far.close()


async def keep_replica(environ: Mapping[str, str], balancer: Balancer) -> None:
    """Run a replica, and start it again when it ends, unless it failed to start."""
    started = True
    while started:
        port, started = 0, False
        process = await asyncio.create_subprocess_exec(
            *HOLDFAST, "serve", "--listen", "0",
            env=environ, stderr=asyncio.subprocess.PIPE, process_group=0,
        )  # fmt: skip
        try:
            assert process.stderr is not None
            async for line in process.stderr:
                if line.startswith(b"  listening at"):
                    started, port = True, int(line.rpartition(b":")[2])
                    balancer.ports.append(port)
                    print(f"  a replica listens at port {port}: process {process.pid}", flush=True)
                elif not started and not line.startswith(b"Holdfast is at"):
                    print(line.decode().rstrip(), flush=True)
            await process.wait()
            print(f"  process {process.pid} has ended", flush=True)
        finally:
            if port in balancer.ports:
                balancer.ports.remove(port)
            if process.returncode is None:
                process.terminate()
                await process.wait()


async def main(database: str, directory: Path) -> None:
    stop, balancer = asyncio.Event(), Balancer()
    for each in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(each, stop.set)
    async with await asyncio.start_server(balancer.serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        settings = directory / "holdfast.toml"
        settings.write_text(f'[server]\nteam = true\nurls = ["{url}"]\n')
        environ = {
            **os.environ,
            "HOLDFAST_HOME": str(directory),
            "HOLDFAST_CONFIG": str(settings),
            "HOLDFAST_DATABASE": database,
            "HOLDFAST_CLUSTER_SECRET": token_hex(32),
        }
        # Create an administrator first: this also creates the tables.
        token = subprocess.run(  # noqa: ASYNC221 - no request is served yet
            [*HOLDFAST, "token", "--user", "you", "--role", "admin"],
            env=environ, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        ).stdout.strip()  # fmt: skip
        replicas = [asyncio.create_task(keep_replica(environ, balancer)) for _ in range(REPLICAS)]
        ended = [*replicas, asyncio.create_task(stop.wait())]
        print(f"\n{url}/#token={token}\n", flush=True)
        await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED)
        print("stopping", flush=True)
        for task in ended:
            task.cancel()
        await asyncio.gather(*ended, return_exceptions=True)
        server.close()


if __name__ == "__main__":
    print("starting PostgreSQL and three replicas", flush=True)
    with TemporaryDirectory() as directory, running() as postgres:
        asyncio.run(main(postgres.url(), Path(directory)))
